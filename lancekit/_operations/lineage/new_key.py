"""A primary key that one side of a merge set, and rows of the other side that repeat its values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from lancekit._format import row_address
from lancekit._format.paths import paths_by_id
from lancekit._operations.lineage.column_key import has_key
from lancekit._operations.lineage.merged_columns import MergedColumn, Settled
from lancekit._operations.lineage.three_way_columns import paired
from lancekit._operations.lineage.three_way_plan import ThreeWay
from lancekit._operations.lineage.write_rows import Given, batches_to_write, replaced_rows
from lancekit._pipeline.diff.row_values import row_values
from lancekit._pipeline.diff.side import Addresses, Side
from lancekit._pipeline.keys.key_counter import KeyCounter, Repeated, example_of
from lancekit._pipeline.keys.source_keys import key_columns, repeated_in_merge
from lancekit._scan.fragments.source import fragment_sources
from lancekit._versions.snapshot import Snapshot

__all__ = ["check_new_key"]

#: rows of which the keys are read at a time
_STEP = 1 << 18

#: the key columns of some rows
_Keys = Iterator[Sequence[pa.Array]]


def check_new_key(plan: ThreeWay, settled: Settled, given: Given | None) -> None:
    """Refuse a merge that would make rows share a primary key which one side set since the base.

    That side could not know the rows of the other side.  Rows that share their key on that side
    already are its own affair.

    Raises
    ------
    DuplicateKeysError
        Rows of both sides share a key.
    """
    columns = [column for column in plan.merged.columns if has_key(column.field)]
    if not columns or not _is_new(plan):
        return
    by_ours = all(has_key(column.ours) for column in columns)
    if by_ours and not settled and given is None:
        return
    paths = paths_by_id(plan.schema)
    key = tuple(paths[field.id] for field in plan.schema.primary_key)
    total, found = _counted(_result_keys(plan, columns, key, settled, given))
    if not found.rows:
        return
    side = plan.ours if by_ours else plan.theirs
    if _counted(_own_keys(plan, side, columns, key, np.empty(0, np.uint64)))[1].rows >= found.rows:
        return
    example = example_of(_result_keys(plan, columns, key, settled, given), found)
    if example is None:
        return
    other = plan.theirs if by_ours else plan.ours
    called = side.called, plan.base.called, other.called
    raise repeated_in_merge(key, example, (found.rows, total), called)


def _is_new(plan: ThreeWay) -> bool:
    """Return True if a merge base has another primary key, or none."""
    return any(
        (base is not None and has_key(base)) != has_key(column.field)
        for column in plan.merged.columns
        for base in column.bases
    )


def _counted(keys: _Keys) -> tuple[int, Repeated]:
    total = 0
    with KeyCounter() as counter:
        for columns in keys:
            total += len(columns[0])
            counter.add(columns)
        return total, counter.repeated()


def _result_keys(
    plan: ThreeWay,
    columns: Sequence[MergedColumn],
    key: Sequence[str],
    settled: Settled,
    given: Given | None,
) -> _Keys:
    """Yield the keys of the rows of ours that stay, then those of the rows that are written."""
    gone = np.concatenate([replaced_rows(settled, given), settled.deleted])
    yield from _own_keys(plan, plan.ours, columns, key, gone)
    for batch in batches_to_write(plan, settled, given):
        yield key_columns(batch, key)


def _own_keys(
    plan: ThreeWay,
    version: Snapshot,
    columns: Sequence[MergedColumn],
    key: Sequence[str],
    without: Addresses,
) -> _Keys:
    """Yield the keys of the rows of a side, in the columns of the result."""
    schema, is_ours = version.manifest.schema, version is plan.ours
    sides = plan.theirs.manifest.schema.fields, plan.ours.manifest.schema.fields
    pairs = [pair for column in columns if (pair := paired(column, *sides)) is not None]
    sources = fragment_sources(version, schema)
    for source in sources:
        side, id_ = Side([source], None), source.fragment.id
        rows = row_address.addresses(id_, side.rows(id_).astype(np.uint64))
        rows = np.setdiff1d(rows, without, assume_unique=True)
        for start in range(0, len(rows), _STEP):
            values = row_values(pairs, side, rows[start : start + _STEP], new=is_ours)
            yield key_columns(pa.table(values, names=[pair.name for pair in pairs]), key)
