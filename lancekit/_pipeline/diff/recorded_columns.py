"""The columns of a merge, as its config key records them; no cleanup removes the key.

The key has the ids of columns with another id in the merged version, and the ids and digests of
the newest columns.  If a later version has one of these columns unchanged, all its columns with a
lower id come from the merge, because no new column got such an id meanwhile.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lancekit._format.schema import LanceField
from lancekit._pipeline.diff.column_identity import description, encode_ids, fields_by_id, parse_ids
from lancekit._versions.snapshot import Snapshot

#: the number of columns that are recorded with digests
_WITNESSES = 64


@dataclass(frozen=True, slots=True)
class RecordedColumns:
    """The ids of a version's columns, each with the column's id in a merged version.

    known: columns that are the same as in the merge; ``None`` for a column that the merged version
        lacked.
    doubtful: columns whose id occurs in the merge, but that may have been replaced since.
    """

    known: Mapping[int, int | None] = field(default_factory=dict)
    doubtful: Mapping[int, int | None] = field(default_factory=dict)

    def through(self, ids: Callable[[int], int | None]) -> RecordedColumns:
        """Map the ids of the merged version to the ids of a third version."""
        known, doubtful = (
            {id_: None if there is None else ids(there) for id_, there in side.items()}
            for side in (self.known, self.doubtful)
        )
        return RecordedColumns(known, doubtful)


def record_of_columns(
    schema: Iterable[LanceField],
    theirs: Snapshot,
    columns: Sequence[tuple[LanceField, LanceField | None]] = (),
) -> str:
    """Return the record of a merge, as one word.

    schema: the columns of the merge's result, at all depths.
    theirs: the merged version.
    columns: columns of the result, with the columns of the merged version, where ids may differ.
    """
    newest = sorted((field for field in schema if field.id >= 0), key=lambda field: -field.id)
    witnesses = (f"{field.id}:{_digest(field)}" for field in newest[:_WITNESSES])
    return ",".join([*encode_ids(columns, theirs).split(), *witnesses])


def columns_of_record(record: str, side: Snapshot) -> RecordedColumns:
    """Parse the record of an earlier merge, for the columns of a later version."""
    words = record.split(",")
    fields = fields_by_id(side)
    witnesses = {
        int(id_): digest
        for id_, is_witness, digest in (word.partition(":") for word in words)
        if is_witness and id_.isdecimal()
    }
    held = (
        id_ for id_, seen in witnesses.items() if id_ in fields and _digest(fields[id_]) == seen
    )
    highest, last = max(held, default=-1), max(witnesses, default=-1)
    others = dict(parse_ids(" ".join(word for word in words if "<" in word)))
    taken = {there for there in others.values() if there is not None}
    then = {
        id_: others.get(id_, None if id_ in taken else id_) for id_ in sorted(fields) if id_ <= last
    }
    return RecordedColumns(
        {id_: there for id_, there in then.items() if id_ <= highest},
        {id_: there for id_, there in then.items() if id_ > highest},
    )


def _digest(field: LanceField) -> str:
    return f"{zlib.crc32(repr(description(field)).encode()):x}"
