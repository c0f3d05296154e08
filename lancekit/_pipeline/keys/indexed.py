"""Keys of a source as a question to the indices of the target's key columns.

What they find is looked at again: so an index that names too many rows does no harm.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_kernels as ak
from lancekit._format.paths import path_field
from lancekit._index.search.order import ranks_of
from lancekit._index.search.question import Flags, Joint, Question, Questions
from lancekit._index.search.reach import Reach
from lancekit._pipeline.keys.probe import KeyTable
from lancekit._scan.index_lookup import IndexLookup, lookup_of
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError

__all__ = ["key_lookup"]

#: types of which an index orders and compares values as keys are; zeros and NaNs are many floats
_TYPES = (
    pt.is_integer,
    pt.is_temporal,
    pt.is_decimal,
    pt.is_boolean,
    pt.is_string,
    pt.is_large_string,
    pt.is_binary,
    pt.is_large_binary,
    pt.is_fixed_size_binary,
)


def key_lookup(snapshot: Snapshot, keys: KeyTable) -> IndexLookup | None:
    """Return what asks the indices of a version which rows may have one of some keys.

    ``None`` if no column of the key has an index that tells rows.  Nothing but the manifest is
    looked at before it is asked.
    """
    if not snapshot.indices:
        return None
    schema = snapshot.manifest.schema
    places = {
        name: place
        for place, name in enumerate(keys.names)
        if keys.columns[place].type == path_field(schema, name).type
        and any(fits(keys.columns[place].type) for fits in _TYPES)
    }

    def asked() -> Questions:
        parts = [_question(keys, place, name) for name, place in places.items()]
        return Joint(tuple(parts), all_of=True, whole=False)

    return lookup_of(snapshot, places, asked, exact=True)


def _question(keys: KeyTable, place: int, name: str) -> Question:
    values = ak.drop_null(keys.columns[place]).unique()
    ranks = ranks_of(values)
    return Question(
        column=name,
        type=values.type,
        holds=partial(_are_keys, keys, place),
        reach=None if ranks is None else Reach.points(ranks),
    )


def _are_keys(keys: KeyTable, place: int, values: pa.Array) -> Flags:
    """Tell which values are in a column of the keys."""
    if values.type != keys.columns[place].type:
        raise CorruptFileError(f"it holds {values.type} of a column of {keys.columns[place].type}")
    flags = np.zeros(len(values), bool)
    flags[keys.find(place, values)[0]] = True
    return flags
