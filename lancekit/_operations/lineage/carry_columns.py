"""Bring new and cast columns of the source into fragments of the target: link or write files.

If a source fragment has the same rows at the same offsets, the target links the source's files of
these columns.  For other fragments, values are looked up row by row and written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancekit import _arrow_kernels as ak
from lancekit._commit.rules.pending import Pending
from lancekit._format import row_address
from lancekit._format.fragment import TOMBSTONE, DataFile, Fragment
from lancekit._format.schema import LanceField, LanceSchema
from lancekit._operations.alter_columns import columns_task
from lancekit._operations.cleanup.auto import commit_next
from lancekit._operations.common.staged_files import undone_unless_landed
from lancekit._operations.lineage.merged_columns import MergedColumn
from lancekit._operations.lineage.paired_rows import Lookup, PairedRows
from lancekit._operations.lineage.three_way_columns import paired
from lancekit._operations.lineage.three_way_plan import ThreeWay
from lancekit._operations.maintenance.copies import (
    Copy,
    carried_fragments,
    carry_out,
    remove_copies,
)
from lancekit._pipeline.casts.values import Conversion, convert, converted
from lancekit._pipeline.diff.fragments import ColumnPair
from lancekit._pipeline.diff.parts import projected
from lancekit._pipeline.diff.row_values import NOWHERE, Addresses, read_rows, row_values
from lancekit._pipeline.engine import LocalRunner
from lancekit._pipeline.write_columns import Calls, ColumnsTask, blank, last_file, write_beside
from lancekit._scan.fragments.rebatch import fitted, taken_values
from lancekit._scan.fragments.source import fragment_sources
from lancekit._versions.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class CarriedColumns:
    """The target's fragments with the source's columns, by fragment id.

    `copies` are the files to link, `written` the written files, each in a separate fragment.
    """

    fragments: dict[int, Fragment]
    copies: list[Copy]
    written: list[Fragment]


def carry_columns(
    plan: ThreeWay, gone: Collection[int], dead: Mapping[int, BitMap]
) -> CarriedColumns:
    """Write the files, and plan the links, for columns that the target lacks.

    No version refers to the written files yet, and no file is linked yet.

    plan: the merge.
    gone: the ids of target fragments that lose all their rows in the merge.
    dead: the rows that the merge deletes, by fragment.
    """
    ours = plan.ours
    carried = (column.carried for column in plan.merged.columns)
    incoming = [column for column in carried if column is not None and column.theirs is not None]
    fragments = {f.id: f for f in ours.manifest.fragments if f.id not in gone}
    if not incoming:
        return CarriedColumns(fragments, [], [])
    locator = _RowLocator(plan)
    linked, copies, tasks = dict[int, tuple[DataFile, ...]](), list[Copy](), list[ColumnsTask]()
    for source in fragment_sources(ours):
        id_ = source.fragment.id
        if id_ not in fragments:
            continue
        counterpart = locator.counterpart(id_)
        moved = locator.has_moved(id_, dead.get(id_, BitMap()))
        linkable, others = locator.split(incoming, id_, moved=moved)
        if counterpart is not None and linkable:
            files, more = _linked(plan, counterpart, linkable)
            linked[id_] = files
            copies += more
        has_any = bool(others) and locator.has_any(id_)
        left = [c for c in others if c.ours is not None or has_any]
        if left:
            maker = _ColumnMaker(plan, locator, left, dead.get(id_, BitMap()))
            schema = LanceSchema(tuple(c.field for c in left))
            tasks.append(columns_task(ours, source, schema, maker, ours.manifest.schema))
    written = write_beside(tasks, LocalRunner())
    for fragment in written:
        fragments[fragment.id] = fragment
    for id_, files in linked.items():
        found = fragments[id_]
        fragments[id_] = replace(found, files=(*found.files, *files))
    return CarriedColumns(fragments, copies, list(map(last_file, written)))


def _linked(
    plan: ThreeWay, counterpart: Fragment, columns: Iterable[MergedColumn]
) -> tuple[tuple[DataFile, ...], list[Copy]]:
    """Return the source's files that hold some columns, with the target's field ids."""
    known = {part.id for part in plan.ours.manifest.schema.walk()}
    ids = dict(pair for column in columns for pair in column.ids_of_theirs())
    # files that hold only other parts of the struct are not linked
    new = {id_ for id_, own in ids.items() if own not in known}
    files = tuple(file for file in counterpart.files if not new.isdisjoint(file.fields))
    bare = Fragment(id=counterpart.id, files=files, physical_rows=counterpart.physical_rows)
    (carried,), copies = carried_fragments(plan.theirs, [bare], plan.ours)
    named = (
        replace(file, fields=tuple(ids.get(id_, TOMBSTONE) for id_ in file.fields))
        for file in carried.files
    )
    return tuple(named), copies


class _RowLocator:
    """Finds target rows in the source, through the merge base."""

    def __init__(self, plan: ThreeWay) -> None:
        self._plan = plan
        self._to_base = PairedRows.to_old(plan.to_ours, plan.mine)
        self._from_base = PairedRows.to_new(plan.to_theirs, plan.changes)
        left, right = plan.new_pairs
        self._inserted_by_both = Lookup.of([right], [left])
        same = plan.ours.manifest.storage_version == plan.theirs.manifest.storage_version
        managed = any(s.manifest.has_managed_blobs for s in (plan.ours, plan.theirs))
        self._may_link = same and not managed

    def counterpart(self, id_: int) -> Fragment | None:
        """Return the source's fragment with the same rows at the same offsets, if any."""
        base = self._to_base.fragments.get(id_)
        there = None if base is None else self._from_base.fragments.get(base)
        return None if there is None or not self._may_link else self._plan.theirs.fragment(there)

    def has_moved(self, id_: int, dead: BitMap) -> bool:
        """Return True if the source moved or deleted rows that stay in the target's fragment."""
        counterpart, fragment = self.counterpart(id_), self._plan.ours.fragment(id_)
        if counterpart is None or fragment is None:
            return False
        # includes rows that the source moved before the base
        gone = self._plan.theirs.deleted_rows(counterpart)
        return bool(gone - dead - self._plan.ours.deleted_rows(fragment))

    def split(
        self, columns: Sequence[MergedColumn], id_: int, *, moved: bool
    ) -> tuple[list[MergedColumn], list[MergedColumn]]:
        """Split columns by whether the source's files have the values of the target's rows.

        A file has no values for rows that the source moved, even if the values did not change.  A
        cast column has the target's values only if the target did not rewrite the column in place.
        With several merge bases, no single base decides which values did not change.
        """
        if moved or self.counterpart(id_) is None:
            return [], list(columns)
        ours, start = self._plan.ours, self._plan.to_ours.old
        now = field_locations(ours, ours.fragment(id_))
        before = field_locations(start, start.fragment(self._to_base.fragments[id_]))
        linkable, others = list[MergedColumn](), list[MergedColumn]()
        for column in columns:
            first, *further = column.bases
            is_linkable = column.ours is None
            if column.ours is not None and first is not None and not further:
                known = start.manifest.schema.field(first.name)
                is_linkable = _locations(column.ours, now) == _locations(known, before)
            (linkable if is_linkable else others).append(column)
        return linkable, others

    def has_any(self, id_: int) -> bool:
        """Return True if the source may have rows of the target's fragment."""
        fragment = self._plan.ours.fragment(id_)
        number = 0 if fragment is None else fragment.physical_rows
        rows = row_address.addresses(id_, np.arange(number, dtype=np.uint64))
        return bool((self.of(rows) != NOWHERE).any())

    def of(self, rows: Addresses) -> Addresses:
        """Return the source's addresses of target rows; `NOWHERE` for rows that it lacks."""
        found = self._from_base.find(self._to_base.find(rows))
        lost = found == NOWHERE
        found[lost] = self._inserted_by_both.find(rows[lost])
        return found


@dataclass(frozen=True)
class _ColumnMaker:
    """Looks up source columns for target rows, and converts columns that the source cast.

    The merge deletes the rows in ``dead``.  They get values of other rows, because their old values
    may not fit the new type.
    """

    plan: ThreeWay
    locator: _RowLocator
    incoming: Sequence[MergedColumn]
    dead: BitMap
    calls: Calls | None = field(default=None)

    @property
    def columns(self) -> Sequence[str]:
        """The row address, and the columns to cast."""
        return ["_rowaddr", *(c.ours.name for c in self.incoming if c.ours is not None)]

    def make(self, rows: pa.Table) -> list[pa.ChunkedArray]:
        """Return the values of the columns in `incoming`, for a table of target rows."""
        offsets = row_address.offsets(rows["_rowaddr"].to_numpy().astype(np.uint64))
        stays = ~np.isin(offsets, self.dead.to_array())
        if stays.all():
            return self._made(rows)
        if not stays.any():
            return [_chunked(blank(c.field.to_arrow(), len(stays))) for c in self.incoming]
        places = pa.array(np.maximum(np.cumsum(stays) - 1, 0))
        made = self._made(ak.take(rows, np.flatnonzero(stays)))
        return [taken_values(values, places) for values in made]

    def _made(self, rows: pa.Table) -> list[pa.ChunkedArray]:
        new = [c for c in self.incoming if c.ours is None]
        values = dict(zip([c.field.name for c in new], self._looked_up(rows, new), strict=True))
        for column in self.incoming:
            if column.ours is not None:
                values[column.field.name] = _converted(column, column.ours, rows[column.ours.name])
        return [values[column.field.name] for column in self.incoming]

    def _looked_up(self, rows: pa.Table, new: Sequence[MergedColumn]) -> list[pa.ChunkedArray]:
        if not new:
            return []
        there = self.locator.of(rows["_rowaddr"].to_numpy().astype(np.uint64))
        known: npt.NDArray[np.bool_] = there != NOWHERE
        schema = self.plan.theirs.manifest.schema
        pairs = [
            ColumnPair(c.field.name, c.field.to_arrow().type, schema.field(c.theirs.name), c.field)
            for c in new
            if c.theirs is not None
        ]
        if not known.any():
            return [pa.chunked_array([pa.nulls(len(there), pair.kind)]) for pair in pairs]
        found = there[known]
        side = read_rows(self.plan.theirs, found, schema)
        places = pa.array(np.cumsum(known) - 1, pa.int64(), mask=~known)
        values = row_values(pairs, side, found, new=False)
        return [
            taken_values(_chunked(fitted(one, pair.kind)), places)
            for pair, one in zip(pairs, values, strict=True)
        ]


def _converted(column: MergedColumn, ours: LanceField, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return target values in the type to which the source cast the column or its parts."""
    field, pair = column.field.to_arrow(), paired(column, {}, {ours.name: ours})
    if pair is None or not pair.parts:
        return Conversion(field).apply(values)
    kind, parts = field.type, pair.parts
    return converted(values, field, lambda c: projected(c, kind, parts, new=True, cast=convert))


def _chunked(values: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])


# ---- commits with files of a branch: linked before the commit, and again if a cleanup removed them


def commit_with_files(
    pending: Pending, copies: Sequence[Copy], theirs: Snapshot, ours: Snapshot
) -> Snapshot:
    """Link or copy files of a branch, and commit them as the version after ``ours``.

    Raises RetryableConflictError: another writer landed first; the new links are removed.
    """
    with undone_unless_landed(lambda: remove_copies(ours.store, copies)):
        _link_or_copy(copies, theirs, ours)
        return commit_next(ours, pending, f"{theirs.location.name} was merged into it")


def relink_missing(copies: Iterable[Copy], theirs: Snapshot, ours: Snapshot) -> None:
    """Link or copy files again that were removed between the link and the commit.

    A cleanup that listed files before the commit can mistake a new file for a leftover.
    """
    _link_or_copy([copy for copy in copies if not ours.store.exists(copy.name)], theirs, ours)


def _link_or_copy(copies: Iterable[Copy], theirs: Snapshot, ours: Snapshot) -> None:
    LocalRunner().map(
        lambda copy: carry_out(copy, ours.store, theirs.version, link=copy.fresh), list(copies)
    )


def field_locations(side: Snapshot, fragment: Fragment | None) -> dict[int, tuple[str, int]]:
    """Return by field id the file of each field of a fragment, and the position in that file."""
    return {
        id_: (place, at)
        for file in (() if fragment is None else fragment.files)
        for place in (str(side.data_file(file)),)
        for at, id_ in enumerate(file.fields)
        if id_ >= 0
    }


def _locations(field: LanceField, places: Mapping[int, tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the (file, position) of a column and of its parts."""
    return [places[part.id] for part in field.walk() if part.id in places]


def with_deletions(
    known: Mapping[int, Fragment], deleted: Iterable[Fragment]
) -> Iterator[Fragment]:
    """Yield known fragments with the deletion files of the fragments in ``deleted``, by id."""
    for fragment in deleted:
        yield replace(known[fragment.id], deletion_file=fragment.deletion_file)
