"""The columns of a merge as its config key records them, which no cleanup removes.

The key has the ids of columns that have another id in the merged version, and the ids and digests
of the newest columns.  A later version with one of these columns as it was has each column of a
lower id from the merge: no new column got such an id meanwhile.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lancekit._format.schema import LanceField
from lancekit._pipeline.diff.column_identity import called, fields_by_id, parsed_ids, said_ids
from lancekit._versions.snapshot import Snapshot

#: how many columns are recorded with their digests
_WITNESSES = 64


@dataclass(frozen=True, slots=True)
class RecordedColumns:
    """Columns of a version with those of a merged version, by their ids.

    known: the columns that the version has from the merge; ``None`` for a column that the merged
        version lacked.
    doubtful: the columns with an id from the merge that were renamed or cast since, or are others.
    """

    known: Mapping[int, int | None] = field(default_factory=dict)
    doubtful: Mapping[int, int | None] = field(default_factory=dict)

    def through(self, ids: Callable[[int], int | None]) -> RecordedColumns:
        """Return the columns with those that a third version has for the merged version's."""
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
    """Return the record of a merge, which is one word.

    schema: the columns of the version that the merge makes, with their parts.
    theirs: the merged version.
    columns: columns of the result, with those of the merged version, as far as the ids may differ.
    """
    newest = sorted((field for field in schema if field.id >= 0), key=lambda field: -field.id)
    witnesses = (f"{field.id}:{_digest(field)}" for field in newest[:_WITNESSES])
    return ",".join([*said_ids(columns, theirs).split(), *witnesses])


def columns_of_record(record: str, side: Snapshot) -> RecordedColumns:
    """Return the columns of a version with those of the source of an earlier merge."""
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
    others = dict(parsed_ids(" ".join(word for word in words if "<" in word)))
    taken = {there for there in others.values() if there is not None}
    then = {
        id_: others.get(id_, None if id_ in taken else id_) for id_ in sorted(fields) if id_ <= last
    }
    return RecordedColumns(
        {id_: there for id_, there in then.items() if id_ <= highest},
        {id_: there for id_, there in then.items() if id_ > highest},
    )


def _digest(field: LanceField) -> str:
    return f"{zlib.crc32(repr(called(field)).encode()):x}"
