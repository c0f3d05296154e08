"""Marks of a fragment's message: its row ids or row versions are a column of a data file.

See docs/format/table.md, 2.5.  A `Fragment` keeps the marks among its unmodelled fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from lancekit.format.batch_parse import joined, walk
from lancekit.format.pb import table_pb2 as pb
from lancekit.format.unknown_fields import parse

__all__ = ["LINEAGE_FIELDS", "MARKS", "any_marked", "marked", "marks"]

#: the mark of each sequence in the message, by the field of `Fragment`
MARKS: Mapping[str, str] = {
    "row_ids": "column_row_ids",
    "created_at": "column_created_at_versions",
    "last_updated_at": "column_last_updated_at_versions",
}

#: the field id under which a data file lists the column of each sequence
LINEAGE_FIELDS: Mapping[str, int] = {"row_ids": -3, "created_at": -4, "last_updated_at": -5}

_NUMBERS = [pb.DataFragment.DESCRIPTOR.fields_by_name[mark].number for mark in MARKS.values()]


def marked(unknown: bytes) -> list[str]:
    """Return the sequences that are columns, from the unmodelled fields of a fragment."""
    if not unknown:
        return []
    message = parse(pb.DataFragment, unknown, "a fragment")
    return [name for name, mark in MARKS.items() if message.HasField(mark)]


def marks(names: Iterable[str]) -> bytes:
    """Return the unmodelled fields of a fragment in which some sequences are columns."""
    message = pb.DataFragment()
    for name in names:
        getattr(message, MARKS[name]).SetInParent()
    return bytes(message.SerializeToString())


def any_marked(encoded: Sequence[bytes]) -> bool:
    """Return True if a sequence is a column in one of some encoded fragments."""
    return any(np.isin(fields.number, _NUMBERS).any() for fields in walk(joined(encoded)))
