"""Tables of the quarantine that are damaged or missing.

See docs/format/memwal.md, 10.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

import pyarrow as pa

from lancekit._commit.protocol import check_writable
from lancekit._format.mem_wal.names import LOGS, QUARANTINE
from lancekit._format.operation_parts import CompactedSsTable
from lancekit._format.schema import LanceSchema
from lancekit._operations.common.retry import RetryPolicy, retried
from lancekit._operations.mem_wal.damaged_generations import (
    Left,
    copied_aside,
    fault_of_table,
    left_in,
)
from lancekit._operations.mem_wal.merge_work import land
from lancekit._operations.mem_wal.quarantine import OWN, kept_in_quarantine
from lancekit._operations.mem_wal.set_aside import SetAside
from lancekit._operations.unmerged.quarantined import EMPTIED, quarantine_ids, quarantine_table
from lancekit._pipeline.merge.plan import MergeWork
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError

__all__ = ["repair_quarantine"]


class _Damaged(NamedTuple):
    """A table that cannot be read whole, and its rows in the form of today, if all can be read."""

    id: UUID
    report: SetAside
    rows: pa.Table | None


def repair_quarantine(snapshot: Snapshot) -> tuple[Snapshot, list[SetAside]]:
    """Move aside what is damaged in the quarantine: one commit, if anything is.

    Rows of a table whose data file is whole stay in quarantine.

    Returns
    -------
    tuple
        The version that has landed, and what was moved aside.
    """

    def attempt(current: Snapshot) -> tuple[Snapshot, list[SetAside]]:
        found = list(_damaged(current))
        if not found:
            return current, []
        check_writable(current)
        rows = [one.rows for one in found if one.rows is not None]
        marks = tuple(CompactedSsTable(one.id, EMPTIED) for one in found)
        with kept_in_quarantine(current, pa.concat_tables(rows) if rows else None) as kept:
            landed = land(current, MergeWork(), (*marks, *kept), doing="repair_mem_wal")
        return landed, [one.report for one in found]

    return retried(snapshot, attempt, RetryPolicy())[0]


def _damaged(snapshot: Snapshot) -> Iterator[_Damaged]:
    schema, store = snapshot.manifest.schema, snapshot.store.child(LOGS)
    for id_ in sorted(quarantine_ids(snapshot)):
        rows: int | None = None
        try:
            table = quarantine_table(snapshot, id_)
            rows, reason = table.manifest.num_rows, fault_of_table(table)
        except CorruptFileError as error:
            reason = error.message
        if not reason:
            continue
        folder = f"{QUARANTINE}/{id_}".removeprefix(f"{LOGS}/")
        left = left_in(store, folder, schema)
        aside = copied_aside(store, folder)
        file = f"{store.uri}/{aside}" if aside else None
        report = SetAside(
            shard_id=None,
            quarantine=str(id_),
            file=file,
            reason=reason,
            rows=rows if left.rows is None else left.rows,
            keys=left.keys,
            read_by=left.read_by(file) if file else "",
        )
        whole = _whole(left, schema)
        if whole is not None:
            report = replace(report, rows=0, keys=None, read_by="")
        yield _Damaged(id_, report, whole)


def _whole(left: Left, schema: LanceSchema) -> pa.Table | None:
    """Return all rows, if they have the columns that the table has today."""
    if left.whole is None:
        return None
    known = {field.id: (field.name, field.logical_type) for field in left.whole.schema.fields}
    if any(known.get(f.id) != (f.name, f.logical_type) for f in schema.fields):
        return None
    rows = pa.Table.from_batches(left.whole.batches)
    names = [*schema.names, *OWN]
    return rows.select(names) if set(names) <= set(rows.column_names) else None
