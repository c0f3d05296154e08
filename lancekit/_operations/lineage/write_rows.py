"""Write the merged rows of a three-way merge, and make the operation that commits them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancekit._format import row_address
from lancekit._format.deletions import to_bitmap
from lancekit._format.fragment import Fragment
from lancekit._format.operations import Update
from lancekit._format.row_ids_encode import with_row_ids
from lancekit._operations.common.staged_files import write_task
from lancekit._operations.delete import apply_deletions
from lancekit._operations.lineage.merged_columns import Rewritten, Settled
from lancekit._operations.lineage.returned_rows import (
    NONE_RETURNED,
    Returned,
    may_return,
    returned_rows,
)
from lancekit._operations.lineage.three_way_columns import paired
from lancekit._operations.lineage.three_way_plan import ThreeWay
from lancekit._pipeline.delete_rows import DeletedRows
from lancekit._pipeline.diff.fragments import ColumnPair
from lancekit._pipeline.diff.parts import chosen, common_parts
from lancekit._pipeline.diff.row_values import (
    Addresses,
    Side,
    read_rows,
    row_values,
    rows_at_a_time,
)
from lancekit._pipeline.diff.values import differing
from lancekit._pipeline.key_counter import key_filter, key_paths
from lancekit._pipeline.merge_plan import MergeClauses, guard_hashes
from lancekit._pipeline.write_rows import write_fragments
from lancekit._scan.fragments.rebatch import fitted, joined, taken
from lancekit._versions.snapshot import Snapshot

Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class RowsWork:
    """The written fragments, the rows to delete from others, and hashes of inserted keys."""

    new_fragments: tuple[Fragment, ...]
    marked: tuple[DeletedRows, ...]
    hashes: Hashes | None
    #: whether restored rows keep their row ids
    keeps_ids: bool
    #: whether restored rows may get new row ids
    gives_ids: bool

    @property
    def is_return(self) -> bool:
        """True if rows are restored, which no other commit may do, too."""
        return self.keeps_ids or self.gives_ids

    @property
    def affected(self) -> dict[int, BitMap]:
        """The rows to delete, by fragment."""
        return {found.fragment_id: found.rows for found in self.marked}

    def deletions(self, ours: Snapshot) -> tuple[tuple[Fragment, ...], tuple[int, ...]]:
        """Write the deletion files; return changed fragments, and the ids of emptied ones."""
        return apply_deletions(ours, self.marked)

    def operation(self, ours: Snapshot) -> Update:
        """Write the deletion files; return the operation to commit."""
        schema = ours.manifest.schema
        updated, removed = self.deletions(ours)
        return Update(
            removed_fragment_ids=removed,
            updated_fragments=updated,
            new_fragments=self.new_fragments,
            fields_for_preserving_frag_bitmap=tuple(f.id for f in schema.walk()),
            inserted_rows=key_filter(schema, self.hashes),
        )


def stored_columns(plan: ThreeWay) -> tuple[ColumnPair, ...]:
    """Return the columns of the result in their storage types: blobs as bytes."""
    sides = plan.theirs.manifest.schema.by_name, plan.ours.manifest.schema.by_name
    return tuple(
        replace(pair, kind=plan.schema.field(pair.name).to_arrow().type)
        for pair in (paired(column, *sides) for column in plan.merged.columns)
        if pair is not None
    )


def write_rows(plan: ThreeWay, settled: Settled) -> RowsWork:
    """Write updated, restored and inserted rows, in this order; no version refers to them yet.

    Updated and restored rows keep their row ids.
    """
    ours, moved, given = plan.ours, settled.replaced, settled.given
    came = np.concatenate([settled.inserted, *([] if given is None else [given.origins])])
    back = returned_rows(plan.theirs, ours, came)
    new = np.setdiff1d(came, back.rows, assume_unique=True)
    rows = _Rows(plan, settled, back)
    fragments = write_fragments(rows.batches(), replace(write_task(ours), schema=plan.schema))
    if len(moved) + len(back.rows) and ours.manifest.has_stable_row_ids:
        ids, created = back.of(rows.returned)
        if len(moved):
            found = read_rows(ours, moved).read(["_rowid"], moved)
            ids = np.concatenate([found["_rowid"].to_numpy(), ids])
        fragments = with_row_ids(fragments, ids, created)
    return RowsWork(
        new_fragments=tuple(fragments),
        marked=tuple(_marked(ours, np.concatenate([moved, settled.deleted]))),
        hashes=np.concatenate([np.empty(0, np.uint64), *rows.hashes]) if rows.guard.guard else None,
        keeps_ids=bool(len(back.rows)),
        gives_ids=may_return(plan.base, plan.theirs, ours, new, plan.changes.inserted),
    )


def batches_to_write(plan: ThreeWay, settled: Settled) -> Iterator[pa.RecordBatch]:
    """Yield the rows that `write_rows` writes."""
    return _Rows(plan, settled).batches()


def _marked(ours: Snapshot, gone: Addresses) -> Iterator[DeletedRows]:
    if not len(gone):
        return
    for id_, offsets in row_address.by_fragment(np.sort(gone)):
        fragment = ours.manifest.fragments.get(id_)
        before = BitMap() if fragment is None else ours.deleted_rows(fragment)
        rows = to_bitmap(offsets.astype(np.int64))
        yield DeletedRows(fragment_id=id_, rows=rows, deleted_before=before)


@dataclass
class _Rows:
    """Makes the batches to write, and collects hashes of new keys."""

    plan: ThreeWay
    settled: Settled
    back: Returned = NONE_RETURNED
    hashes: list[Hashes] = field(default_factory=list)

    def __post_init__(self) -> None:
        back, given, inserted = self.back, self.settled.given, self.settled.inserted
        order, num = back.first(inserted)
        self.inserted = inserted[order]
        #: restored rows, in the order in which they are written
        self.returned = self.inserted[:num]
        if given is not None:
            order, num = back.first(given.origins)
            self.returned = np.concatenate([given.origins[order[:num]], self.returned])
            new = given.rows.slice(len(given.places))
            self.given_back, self.given_new = (
                taken(new, part) for part in (order[:num], order[num:])
            )
        schema, self.columns = self.plan.schema, stored_columns(self.plan)
        self.schema = schema.to_arrow()
        self.step = rows_at_a_time(self.columns)
        #: structs with parts that only one side has
        self.unlike_parts = np.array([common_parts(pair) != pair for pair in self.columns])
        paths = key_paths(schema)
        self.guard = MergeClauses(on=self.plan.key, guard=paths)
        tops = {top for top, *_ in paths}
        #: primary-key columns in which an updated row may get another value
        self.mutable_key = (
            () if tops <= set(self.plan.key) and not self.plan.by_ids else tuple(tops)
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        given = self.settled.given
        for part in self.settled.rewritten:
            yield from self._rewritten(part)
        if given is not None:
            yield from given.rows.slice(0, len(given.places)).to_batches()
            yield from self._guarded(self.given_back)
        rows = self.inserted
        theirs = self._side(self.plan.theirs, rows)
        for start in range(0, len(rows), self.step):
            some = rows[start : start + self.step]
            yield from self._guarded(self._table(row_values(self.columns, theirs, some, new=False)))
        if given is not None:
            yield from self._guarded(self.given_new)

    def _rewritten(self, part: Rewritten) -> Iterator[pa.RecordBatch]:
        theirs, ours = (
            self._side(side, rows)
            for side, rows in ((self.plan.theirs, part.theirs), (self.plan.ours, part.ours))
        )
        for start in range(0, len(part.ours), self.step):
            these = slice(start, start + self.step)
            rows = part.theirs[these], part.ours[these]
            taken = np.zeros((len(rows[0]), len(self.columns)), bool)
            for at, pair in enumerate(self.columns):
                taken[:, at] = pair.old is not None
            if part.taken is not None:
                taken &= part.taken[these] | np.array([pair.is_lacked for pair in self.columns])
            come = _columns(self.columns, taken.any(axis=0) | self.unlike_parts)
            stay = _columns(self.columns, ~taken.all(axis=0) | self.unlike_parts)
            left = dict(_named(come, theirs, rows[0], new=False))
            right = dict(_named(stay, ours, rows[1], new=True))
            values = [
                _selected(left.get(pair.name), right.get(pair.name), taken[:, at], pair)
                for at, pair in enumerate(self.columns)
            ]
            table = self._table(values)
            self._hash_changed_keys(table, ours, rows[1])
            yield from table.to_batches()

    def _hash_changed_keys(self, table: pa.Table, ours: Side, rows: Addresses) -> None:
        """Collect hashes of the new keys of updated rows whose key changed."""
        if not self.mutable_key:
            return
        key = [pair for pair in self.columns if pair.name in self.mutable_key]
        before = row_values(key, ours, rows, new=True)
        differs = np.zeros(len(rows), bool)
        for pair, values in zip(key, before, strict=True):
            differs |= differing(values, joined(table[pair.name].chunks, pair.kind))
        if differs.any():
            self.hashes.append(guard_hashes(table, self.guard, np.flatnonzero(differs)))

    def _guarded(self, table: pa.Table) -> list[pa.RecordBatch]:
        if self.guard.guard and table.num_rows:
            self.hashes.append(guard_hashes(table, self.guard))
        return table.to_batches()

    def _table(self, values: Sequence[pa.Array]) -> pa.Table:
        kinds = self.schema.types
        return pa.table([fitted(*c) for c in zip(values, kinds, strict=True)], schema=self.schema)

    def _side(self, side: Snapshot, rows: Addresses) -> Side:
        return read_rows(side, rows, side.manifest.schema)


def _columns(columns: Sequence[ColumnPair], wanted: npt.NDArray[np.bool_]) -> list[ColumnPair]:
    return [pair for pair, is_wanted in zip(columns, wanted, strict=True) if is_wanted]


def _named(
    columns: Sequence[ColumnPair], side: Side, rows: Addresses, *, new: bool
) -> Iterator[tuple[str, pa.Array]]:
    if columns:
        values = row_values(columns, side, rows, new=new)
        yield from zip((pair.name for pair in columns), values, strict=True)


def _selected(
    theirs: pa.Array | None, ours: pa.Array | None, taken: npt.NDArray[np.bool_], pair: ColumnPair
) -> pa.Array:
    """Return the values of the source for the rows in ``taken``, else the values of the target."""
    if theirs is None or ours is None:
        return cast(pa.Array, ours if theirs is None else theirs)
    return chosen(theirs, ours, taken, pair.parts)
