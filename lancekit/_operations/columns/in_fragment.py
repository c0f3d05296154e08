"""Changes of one fragment, worked out for a commit of the user's own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lancekit._format.column_names import RESERVED_NAMES
from lancekit._format.deletions import to_bitmap
from lancekit._format.fragment import Fragment
from lancekit._format.schema import LanceSchema
from lancekit._operations.columns.add import (
    Addition,
    NewColumns,
    check_join_keys,
    plan_addition,
    plan_join,
    with_checkpoint,
)
from lancekit._operations.columns.alter import columns_task
from lancekit._pipeline.casts.batches import cast_all
from lancekit._pipeline.casts.plan import plan_cast
from lancekit._pipeline.columns.column_patch import superseded
from lancekit._pipeline.columns.udf_checkpoint import ResultsKept
from lancekit._pipeline.columns.write import Joined, Streamed, write_beside, write_columns
from lancekit._pipeline.engine.engine import LocalRunner
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import FragmentSource
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError

__all__ = [
    "add_to_fragment",
    "join_to_fragment",
    "update_in_fragment",
]


def add_to_fragment(
    snapshot: Snapshot, source: FragmentSource, new: NewColumns
) -> tuple[Fragment, LanceSchema]:
    """Write new columns for a fragment; return it, and the schema that a commit would have."""
    return _run(snapshot, source, plan_addition(snapshot, with_checkpoint(snapshot, new)))


def join_to_fragment(
    snapshot: Snapshot, source: FragmentSource, table: pa.Table, left_on: str, right_on: str
) -> tuple[Fragment, LanceSchema]:
    """Write columns of another table for a fragment, found by a key."""
    return _run(snapshot, source, plan_join(snapshot, table, left_on, right_on))


def _run(
    snapshot: Snapshot, source: FragmentSource, addition: Addition
) -> tuple[Fragment, LanceSchema]:
    if addition.maker is None:
        return source.fragment, addition.schema
    task = columns_task(snapshot, source, addition.stored, addition.maker)
    finish = addition.maker.finish if isinstance(addition.maker, Streamed) else None
    with ResultsKept(addition.maker, forget=False):  # nothing has landed
        (written,) = write_beside([task], LocalRunner(), finish)
    return written, addition.schema


def update_in_fragment(
    snapshot: Snapshot, source: FragmentSource, table: pa.Table, left_on: str, right_on: str
) -> tuple[Fragment, list[int], BitMap]:
    """Write columns anew with values of another table, found by a key.

    Rows without a match keep their values.

    Returns
    -------
    tuple
        The fragment, whose older files no longer count for these columns; the columns' field ids;
        and the offsets of the rows that have a match.
    """
    schema = snapshot.manifest.schema
    check_join_keys(schema, table.schema, left_on, right_on)
    names = [name for name in table.column_names if name != right_on]
    if not names:
        raise InvalidArgumentError(
            "The rows have no column besides the key.", hint="Pass the columns to update."
        )
    for name in names:
        if name in RESERVED_NAMES:
            raise InvalidArgumentError(
                f"{name} is a metadata column, which cannot be updated.",
                hint="Leave it out of the rows.",
                column=name,
            )
    fields = tuple(schema.field(name) for name in names)
    target = pa.schema([field.to_arrow() for field in fields])
    given = table.select(names)
    values = pa.Table.from_batches(
        cast_all(plan_cast(given.schema, target), given.to_batches()), target
    )
    keyed = values.append_column("\0key", table.column(right_on))
    maker = Joined.by(keyed, left_on, "\0key", old=names)
    stored = LanceSchema(fields)
    # the old values are written again, so blobs are read as what they are
    written = write_columns(columns_task(snapshot, source, stored, maker, view=schema))
    ids = [f.id for f in stored.walk()]
    return superseded(written, frozenset(ids)), ids, _matched(source, maker)


def _matched(source: FragmentSource, maker: Joined) -> BitMap:
    reader = FragmentReader(source)
    rows = np.arange(reader.physical_rows) if reader.live is None else reader.live
    found = maker.find(reader.read([maker.key], rows))
    return to_bitmap(rows[found >= 0])
