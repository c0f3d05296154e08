"""Rows that leave a quarantine: put back into the table, or discarded.

One commit has the rows, the marks of the emptied quarantine tables, and the mark of a new table
with the rows that stay.  See docs/format/memwal.md, 10.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._commit.protocol import check_writable
from lancekit._format.extensions import resolved_schema
from lancekit._format.operation_parts import CompactedSsTable
from lancekit._format.schema import LanceSchema
from lancekit._legible import literals
from lancekit._operations.common.retry import RetryPolicy, retried
from lancekit._operations.mem_wal.newest_rows import land, prepare_merge
from lancekit._operations.mem_wal.quarantine import (
    OWN_COLUMNS,
    ROW,
    Quarantined,
    keys_in,
    written_to_quarantine,
)
from lancekit._operations.mem_wal.shares import cast_columns, opened_rows
from lancekit._operations.unmerged.marks import EMPTIED, quarantine_ids
from lancekit._pipeline.casts.batches import cast_all
from lancekit._pipeline.casts.plan import plan_cast
from lancekit._pipeline.merge_plan import MergeWork
from lancekit._pipeline.source import LocalSource
from lancekit._scan.fragments.rebatch import taken
from lancekit._shards.schema import TOMBSTONE, primary_key
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import IncompatibleConflictError, InvalidArgumentError
from lancekit.options import options

Mask = npt.NDArray[np.bool_]


class Leaving(NamedTuple):
    """Rows that are to leave a quarantine.

    quarantine: the quarantine that was read.
    leave: flags of the rows that leave.
    rows: the rows to write to the table for them, with its columns, or ``None``.
    deleted: the keys to delete from the table for them.
    """

    quarantine: Quarantined
    leave: Mask
    rows: pa.Table | None
    deleted: pa.Table | None


def given_back(quarantine: Quarantined, given: object = None) -> Leaving:
    """Return the rows that leave a quarantine, and the rows to write for them.

    given: corrected rows of any kind, or ``None`` for all rows without corrections.  Rows with the
        column `ROW` replace the rows with these numbers.  Other rows replace the rows of their key.

    Raises InvalidArgumentError: a row is not in the quarantine, or lacks the columns that name a
        row.  Or a row has a number, and the newest row of its key was not passed.  Or rows of
        several keys were corrected to one key.
    Raises InvalidTypeError, SchemaMismatchError: the rows cannot be read, or do not fit the table.
    """
    schema = quarantine.snapshot.manifest.schema
    rows = quarantine.rows if given is None else _opened(quarantine, given)
    leave = _named(quarantine, rows)
    if given is not None and ROW in rows.column_names and schema.primary_key:
        _check_distinct_keys(quarantine, rows)
    marks = _marks(rows)
    newest = _last_of_each_key(rows, schema)
    form = schema.to_arrow()
    columns = [name for name in rows.column_names if name not in (*OWN_COLUMNS, ROW)]
    live = ak.filter(rows.select(columns), newest & ~marks)
    cast = cast_all(plan_cast(live.schema, form), live.to_batches())
    keys = [field.name for field in primary_key(schema)]
    deleted = ak.filter(rows.select(keys), newest & marks) if keys else None
    return Leaving(quarantine, leave, pa.Table.from_batches(cast, form), deleted)


def discarded(quarantine: Quarantined, given: object) -> Leaving:
    """Return the rows to discard, which are named by key or number as in `given_back`."""
    rows = _opened(quarantine, given, only_names=True)
    return Leaving(quarantine, _named(quarantine, rows), None, None)


def _opened(quarantine: Quarantined, given: object, *, only_names: bool = False) -> pa.Table:
    """Read rows of any kind, casting them to the types of the quarantine."""
    schema, known = quarantine.snapshot.manifest.schema, quarantine.rows.schema
    reader = opened_rows(given, None, resolved_schema(known))
    names = reader.schema.names
    keys = [field.name for field in primary_key(schema)]
    wanted = [name for name in known.names if name in names]
    if only_names:
        wanted = [ROW] if ROW in names else keys
    elif unknown := [name for name in names if name not in known.names]:
        raise InvalidArgumentError(
            f"The rows have a column {unknown[0]!r}, which the table does not have.",
            hint="Leave the column out.",
            column=unknown[0],
        )
    if ROW not in names and not (keys and set(keys) <= set(names)):
        raise InvalidArgumentError(
            "The rows do not identify rows in the quarantine.",
            hint=f"Pass rows of to_table(), with their column {ROW!r}"
            + (f", or with the key {', '.join(map(repr, keys))}." if keys else "."),
        )
    rows = cast_columns(reader, wanted, known)
    if ROW in names:  # restore the order, because the last row of a key counts
        rows = taken(rows, np.argsort(rows.column(ROW).to_numpy(), kind="stable"))
    return rows


def _named(quarantine: Quarantined, rows: pa.Table) -> Mask:
    """Return flags of the quarantined rows that `rows` names, and of all rows of their keys."""
    schema, quarantined = quarantine.snapshot.manifest.schema, quarantine.rows
    leave = np.zeros(quarantined.num_rows, bool)
    if ROW in rows.column_names:
        leave[_places(rows, quarantined)] = True
        if not schema.primary_key:
            return leave
        _check_newest(quarantined, leave, schema)
        keys = keys_in(ak.filter(quarantined, leave), schema)
    else:
        keys = keys_in(rows, schema)
        lost = np.flatnonzero(~_is_among(keys, keys_in(quarantined, schema)))
        if len(lost):
            key = _key_at(rows, int(lost[0]), schema)
            raise InvalidArgumentError(
                f"The quarantine has no row with {literals(key)}.",
                hint="Use merge_insert for rows that are not in the quarantine.",
                key=key,
            )
    return leave | _is_among(keys_in(quarantined, schema), keys)


def _places(rows: pa.Table, quarantined: pa.Table) -> npt.NDArray[np.int64]:
    numbers = rows.column(ROW).to_numpy()
    first = quarantined.column(ROW)[0].as_py() if quarantined.num_rows else 0
    places: npt.NDArray[np.int64] = numbers - first
    lost = numbers[~((places >= 0) & (places < quarantined.num_rows))]
    if len(lost):
        raise InvalidArgumentError(
            f"The quarantine has no row {lost[0]}.",
            hint=f"Pass numbers from column {ROW!r} of this quarantine's to_table(), not of an "
            "earlier one.",
            row=float(lost[0]),
        )
    return places


def _check_newest(quarantined: pa.Table, leave: Mask, schema: LanceSchema) -> None:
    """Refuse an older row of a key without its newest row, which would leave unnoticed."""
    keys = keys_in(quarantined, schema).to_pylist()
    newest = {key: place for place, key in enumerate(keys)}
    for place in np.flatnonzero(leave):
        last = newest[keys[place]]
        if not leave[last]:
            key = _key_at(quarantined, last, schema)
            numbers = quarantined.column(ROW)
            raise InvalidArgumentError(
                f"The row with {ROW} {numbers[place]} is not the newest row of {literals(key)} in "
                f"quarantine: the row with {ROW} {numbers[last]} is, but it was not passed.",
                hint="Pass the newest row of the key, too: all rows of a key leave together.",
                key=key,
            )


def _check_distinct_keys(quarantine: Quarantined, rows: pa.Table) -> None:
    """Refuse rows of several keys that were corrected to one key, where only one would count."""
    schema, quarantined = quarantine.snapshot.manifest.schema, quarantine.rows
    before = ak.take(keys_in(quarantined, schema), _places(rows, quarantined)).to_pylist()
    first: dict[object, int] = {}
    for place, key in enumerate(keys_in(rows, schema).to_pylist()):
        other = first.setdefault(key, place)
        if before[other] != before[place]:
            same = _key_at(rows, place, schema)
            numbers = rows.column(ROW)
            raise InvalidArgumentError(
                f"The rows with {ROW} {numbers[other]} and {numbers[place]} were corrected to the "
                f"same key, {literals(same)}.",
                hint="Give each row its own key, or discard all rows but one.",
                key=same,
            )


def _key_at(rows: pa.Table, place: int, schema: LanceSchema) -> dict[str, object]:
    names = [field.name for field in primary_key(schema)]
    (key,) = rows.select(names).slice(place, 1).to_pylist()
    return key


def _is_among(values: pa.Array, known: pa.Array) -> Mask:
    return pc.is_in(values, value_set=known).to_numpy(zero_copy_only=False)


def _marks(rows: pa.Table) -> Mask:
    if TOMBSTONE not in rows.column_names:
        return np.zeros(rows.num_rows, bool)
    return pc.fill_null(rows.column(TOMBSTONE), False).to_numpy()


def _last_of_each_key(rows: pa.Table, schema: LanceSchema) -> Mask:
    if not schema.primary_key:
        return np.ones(rows.num_rows, bool)
    last = {key: place for place, key in enumerate(keys_in(rows, schema).to_pylist())}
    newest = np.zeros(rows.num_rows, bool)
    newest[list(last.values())] = True
    return newest


def leave_quarantine(
    snapshot: Snapshot, leaving: Leaving, policy: RetryPolicy
) -> tuple[Snapshot, int]:
    """Remove rows from a quarantine, and write their replacements to the table, in one commit.

    Returns
    -------
    tuple
        The version that landed, and the number of rows that left the quarantine.

    Raises IncompatibleConflictError: the quarantine changed since it was read.
    Raises ConstraintViolationError: a row still breaks a constraint.  Nothing is changed.
    Raises RetriesExhaustedError: others changed the same rows before every attempt.
    """
    if not leaving.leave.any():
        return snapshot, 0
    emptied = [leaving.quarantine.ids[place] for place in np.unique(_tables(leaving))]

    def attempt(current: Snapshot) -> Snapshot:
        _check_unchanged(leaving, current, emptied)
        check_writable(current)
        try:
            return _land(current, leaving, emptied)
        except IncompatibleConflictError:
            _check_unchanged(leaving, latest_snapshot(current.location), emptied)
            raise

    landed, _ = retried(latest_snapshot(snapshot.location), attempt, policy)
    return landed, int(leaving.leave.sum())


def _tables(leaving: Leaving) -> npt.NDArray[np.int64]:
    return leaving.quarantine.table[leaving.leave]


def _check_unchanged(leaving: Leaving, current: Snapshot, emptied: Sequence[UUID]) -> None:
    """Raise if the rows have left the quarantine since, or the table has other columns now."""
    same_columns = leaving.quarantine.snapshot.manifest.schema == current.manifest.schema
    if same_columns and quarantine_ids(current) >= set(emptied):
        return
    what = "rows were put back or discarded" if same_columns else "the columns of the table changed"
    raise IncompatibleConflictError(
        f"The quarantine of {current.location.uri} changed after it was read: {what}.",
        hint="Read the quarantine again: ds.mem_wal_quarantine().",
        uri=current.location.uri,
    )


def _land(current: Snapshot, leaving: Leaving, emptied: Sequence[UUID]) -> Snapshot:
    quarantine, leave = leaving.quarantine, leaving.leave
    stay = np.isin(quarantine.table, np.unique(_tables(leaving))) & ~leave
    staying = ak.filter(quarantine.rows.drop_columns([ROW]), stay)
    marks = tuple(CompactedSsTable(one, EMPTIED) for one in emptied)
    work, rows, deleted = MergeWork(), leaving.rows, leaving.deleted
    with written_to_quarantine(current, staying) as rest:
        if rows is not None:
            work = prepare_merge(
                current,
                lambda: LocalSource(rows.to_reader(), options.source_memory_bytes),
                pa.table({}) if deleted is None else deleted,
            )
        return land(current, work, (*marks, *rest), doing="mem_wal_quarantine")
