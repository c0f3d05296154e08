"""Find the rows that differ between two versions, with as few reads as possible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from lancekit._format import row_address
from lancekit._format.operations import (
    DataReplacement,
    Merge,
    Project,
    Restore,
    UnknownOperation,
    Update,
)
from lancekit._operations.lineage.diff_plan import DiffPlan
from lancekit._pipeline.diff.fragments import ColumnPair, Pair, Shared
from lancekit._pipeline.diff.match import (
    Matches,
    cancelled,
    contained_in,
    match_ascending,
    match_keys,
)
from lancekit._pipeline.diff.row_values import (
    Addresses,
    Side,
    Values,
    all_done,
    ascending_numbers,
    read_rows,
    rows_at_a_time,
    seen,
)
from lancekit._pipeline.diff.values import Digests, Seeds
from lancekit._pipeline.engine import Runner
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.expressions.texts import as_sql
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import VersionNotFoundError

#: the readers of the old version's rows and of the new version's rows
Sides = tuple[Side, Side]

#: operations that change values without an update of the row's last-updated version
_UNMARKED = (DataReplacement, Merge, Project, UnknownOperation)

_NONE: Addresses = np.empty(0, np.uint64)
_ID, _CREATED, _UPDATED = "_rowid", "_row_created_at_version", "_row_last_updated_at_version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The rows that differ between two versions, by their addresses on their sides.

    `updated` are pairs; so are `same`, equal rows that moved.  `cells` counts differing values of
    updated rows by column, `widths` by row, `shared_widths` by row in columns that both sides have.
    `ambiguous` counts the rows deleted and inserted whose key occurs more than once on a side;
    `repeated` are the inserted ones.
    """

    deleted: Addresses
    inserted: Addresses
    updated: tuple[Addresses, Addresses]
    same: tuple[Addresses, Addresses]
    cells: dict[str, int]
    widths: npt.NDArray[np.int64]
    shared_widths: npt.NDArray[np.int64]
    ambiguous: int
    repeated: Addresses

    @property
    def is_empty(self) -> bool:
        """True if no row differs."""
        return not any(map(len, (self.deleted, self.inserted, self.updated[0])))

    @property
    def moved(self) -> int:
        """The number of equal rows that moved."""
        return len(self.same[0])


def find_changes(plan: DiffPlan, sides: Sides, runner: Runner | None = None) -> Changes:
    """Find the rows that differ; values of deleted and inserted rows are not returned.

    ``runner`` is a Spark runner that reads the values; by default this process reads them.
    """
    return _Search(plan, sides, runner).run()


def compare_rows(plan: DiffPlan, old: Addresses, new: Addresses) -> Changes:
    """Compare only the given rows of the two sides; other rows are not read.

    Columns that a side lacks are not compared.
    """
    both = tuple(pair for pair in plan.columns if pair.old is not None and not pair.is_lacked)
    alone = replace(plan, columns=both, shared=Shared((), (), (), (), {}))
    return _Search(alone, (read_rows(plan.old, old), read_rows(plan.new, new))).of(old, new)


def read_sides(
    plan: DiffPlan, old_rows: Addresses | None = None, new_rows: Addresses | None = None
) -> Sides:
    """Return the readers of both sides, for the rows at some addresses or for all rows."""
    parts = plan.shared
    olds = [*parts.old, *(pair.old for pair in parts.pairs)]
    news = [*parts.new, *(pair.new for pair in parts.pairs)]
    if plan.looks_at_same:
        news += parts.same
    return (
        Side(olds, _predicate(plan, plan.old), old_rows),
        Side(news, _predicate(plan, plan.new), new_rows),
    )


def _predicate(plan: DiffPlan, version: Snapshot) -> Predicate | None:
    if plan.condition is None:
        return None
    return Predicate.parse(as_sql(plan.condition), seen(version).to_arrow())


class _Search:
    """One comparison of two versions, with its results so far."""

    def __init__(self, plan: DiffPlan, sides: Sides, runner: Runner | None = None) -> None:
        self.plan = plan
        self.old, self.new = sides
        self.seeds = Seeds.drawn()
        self.cells = dict.fromkeys((pair.name for pair in plan.columns), 0)
        self.ambiguous, self.repeated = 0, _NONE
        self.updated: list[tuple[Addresses, Addresses]] = []
        self.widths: list[npt.NDArray[np.int64]] = [np.empty((2, 0), np.int64)]
        #: equal rows that moved
        self.same: list[tuple[Addresses, Addresses]] = []
        #: equal rows at the same offsets of fragments that differ: their addresses on the new side
        self.kept: list[Addresses] = []
        self.step = rows_at_a_time(plan.columns)
        self.values = Values(sides, self.step, runner)

    def run(self) -> Changes:
        """Compare the fragments that differ: pairs in place first, then all rows left over."""
        old: list[Addresses] = []
        new: list[Addresses] = []
        for pair in self.plan.shared.pairs:
            gone, come = self._in_place(pair)
            old.append(gone)
            new.append(come)
        old += [self._all(self.old, source.fragment.id) for source in self.plan.shared.old]
        new += [self._all(self.new, source.fragment.id) for source in self.plan.shared.new]
        return self.of(_joined(old), _joined(new))

    def of(self, old: Addresses, new: Addresses) -> Changes:
        """Compare rows at any addresses of either side."""
        deleted, inserted = self._paired(old, new)
        olds, news = joined_pairs(self.updated)
        order = np.argsort(news)
        widths, shared_widths = np.concatenate(self.widths, axis=1)[:, order]
        return Changes(
            deleted=np.sort(deleted),
            inserted=np.sort(inserted),
            updated=(olds[order], news[order]),
            same=joined_pairs(self.same),
            cells=self.cells,
            widths=widths,
            shared_widths=shared_widths,
            ambiguous=self.ambiguous,
            repeated=self.repeated,
        )

    def _all(self, side: Side, fragment_id: int) -> Addresses:
        return row_address.addresses(fragment_id, side.rows(fragment_id).astype(np.uint64))

    def _in_place(self, pair: Pair) -> tuple[Addresses, Addresses]:
        """Compare two fragments in place; return the rows that only one side has.

        Without row ids, a changed row is returned for both sides.
        """
        olds, news = pair.old.fragment.id, pair.new.fragment.id
        old_offsets, new_offsets = self.old.rows(olds), self.new.rows(news)
        counted = np.zeros((2, pair.new.fragment.physical_rows), bool)
        counted[0, old_offsets] = counted[1, new_offsets] = True
        both, gone, come = map(
            np.flatnonzero,
            (counted[0] & counted[1], counted[0] & ~counted[1], counted[1] & ~counted[0]),
        )
        if pair.columns and len(both):
            pairs = tuple(
                row_address.addresses(id_, both.astype(np.uint64)) for id_ in (olds, news)
            )
            keeps_rows = self.plan.matched_by.startswith("row ids")
            widths = self._compare(pair.columns, *pairs, count=keeps_rows)
            changed = widths[0] > 0
            if keeps_rows:
                self._note(pairs[0], pairs[1], widths)
            else:
                gone = np.concatenate([gone, both[changed]])
                come = np.concatenate([come, both[changed]])
                both = both[~changed]
        self.kept.append(row_address.addresses(news, both.astype(np.uint64)))
        return (
            row_address.addresses(olds, gone.astype(np.uint64)),
            row_address.addresses(news, come.astype(np.uint64)),
        )

    def _paired(self, old: Addresses, new: Addresses) -> tuple[Addresses, Addresses]:
        """Pair rows at any addresses; return the rows without a partner."""
        matched_by = self.plan.matched_by
        if matched_by.startswith("row ids") and len(old) and len(new):
            old, new = self._by_ids(old, new)
        if matched_by.endswith("key") and len(old) + len(new):
            return self._by_key(old, new)
        if matched_by == "whole rows" and len(old) and len(new):
            return self._by_rows(old, new)
        return old, new

    def _by_ids(self, old: Addresses, new: Addresses) -> tuple[Addresses, Addresses]:
        (other_ids,) = _numbers(self.new, [_ID], new)
        new_places = np.flatnonzero(other_ids < self.plan.common_ids)
        if not len(new_places):
            return old, new
        (ids,) = _numbers(self.old, [_ID], old)
        old_places = np.flatnonzero(ids < self.plan.common_ids)
        _, *common = np.intersect1d(
            ids[old_places], other_ids[new_places], assume_unique=True, return_indices=True
        )
        old_places, new_places = old_places[common[0]], new_places[common[1]]
        if not len(old_places):
            return old, new
        (created, updated), (other_created, other_updated) = (
            _numbers(side, [_CREATED, _UPDATED], rows)
            for side, rows in ((self.old, old[old_places]), (self.new, new[new_places]))
        )
        # a restored table may assign an id for the second time
        same = created == other_created
        if taken := self.plan.taken:
            # each side has a different number for the version that created such a row
            came = other_ids[new_places] >= self.plan.own_ids
            same |= came & (created <= taken.source) & (other_created <= taken.target)
        old_places, new_places, updated, other_updated = (
            some[same] for some in (old_places, new_places, updated, other_updated)
        )
        known = np.zeros(len(old_places), bool)
        if self._is_marked():
            since = np.uint64(min(self.plan.old.version, self.plan.new.version))
            known = (updated == other_updated) & (updated <= since)
        self.same.append((old[old_places[known]], new[new_places[known]]))
        self._update(old[old_places[~known]], new[new_places[~known]])
        return np.delete(old, old_places), np.delete(new, new_places)

    def _is_marked(self) -> bool:
        """Return True if every change of a value since the older version marked its row."""
        plan = self.plan
        if any(pair.old is None or pair.is_cast for pair in plan.columns):
            return False
        done = operations_between(plan.old, plan.new)
        return done is not None and not any(
            isinstance(one, _UNMARKED) or (isinstance(one, Update) and one.fields_modified)
            for one in done
        )

    def _by_key(self, old: Addresses, new: Addresses) -> tuple[Addresses, Addresses]:
        by_name = {pair.name: pair for pair in self.plan.columns}
        key = [by_name[name] for name in self.plan.key]
        ordered = self._in_order(key, old, new)
        if ordered is not None:
            self._update(old[ordered.old], new[ordered.new])
            return old[ordered.alone.old], new[ordered.alone.new]
        keys, others = self._digests_of_both(key, old, new)
        found = match_keys(keys, others)
        old_elsewhere, new_elsewhere = (self._stand_elsewhere(key, side) for side in (keys, others))
        twice = old_elsewhere[found.old]
        self._update(old[found.old[~twice]], new[found.new[~twice]])
        gone = old[np.concatenate([found.old[twice], found.repeated.old])]
        come = new[np.concatenate([found.new[twice], found.repeated.new])]
        if len(gone) and len(come):
            gone, come = self._by_rows(gone, come)
        inserted = new[found.alone.new]
        self.repeated = np.concatenate([inserted[new_elsewhere[found.alone.new]], come])
        self.ambiguous = len(gone) + int(old_elsewhere[found.alone.old].sum()) + len(self.repeated)
        return np.concatenate([old[found.alone.old], gone]), np.concatenate([inserted, come])

    def _in_order(
        self, key: Sequence[ColumnPair], old: Addresses, new: Addresses
    ) -> Matches | None:
        """Match rows by one numeric key column if both sides are sorted by it; else ``None``.

        This replaces digests and their sort.
        """
        kept = self.kept or self.plan.shared.same
        if len(key) > 1 or not self.values.are_local or (kept and not self.plan.key_is_primary):
            return None
        work = [
            partial(ascending_numbers, key[0], side, rows, new=is_new)
            for side, rows, is_new in ((self.old, old, False), (self.new, new, True))
        ]
        olds, news = all_done(work, len(old) + len(new))
        return None if olds is None or news is None else match_ascending(olds, news)

    def _stand_elsewhere(self, key: Sequence[ColumnPair], keys: Digests) -> npt.NDArray[np.bool_]:
        """Return which keys also occur on rows equal on both sides; none if the key is primary."""
        if self.plan.key_is_primary:
            return np.zeros(len(keys), bool)
        return contained_in(keys, Digests.joined(list(self._kept_keys(key, keys))))

    def _kept_keys(self, key: Sequence[ColumnPair], wanted: Digests) -> Iterator[Digests]:
        """Yield keys of rows that are equal on both sides, if they may be among ``wanted``."""
        wholes = [self._all(self.new, source.fragment.id) for source in self.plan.shared.same]
        for rows in (*wholes, *self.kept):
            for start in range(0, len(rows), self.step):
                found = self._digests(key, rows[start : start + self.step], new=True)
                yield found.at(np.flatnonzero(np.isin(found.first, wanted.first)))

    def _by_rows(self, old: Addresses, new: Addresses) -> tuple[Addresses, Addresses]:
        columns = self.plan.columns
        pairs, rest = cancelled(*self._digests_of_both(columns, old, new))
        self.same.append((old[pairs.old], new[pairs.new]))
        return old[rest.old], new[rest.new]

    def _digests_of_both(
        self, columns: Sequence[ColumnPair], old: Addresses, new: Addresses
    ) -> list[Digests]:
        sides = ((old, False), (new, True))
        work = [partial(self._digests, columns, rows, new=is_new) for rows, is_new in sides]
        return all_done(work, len(old) + len(new))

    def _digests(self, columns: Sequence[ColumnPair], rows: Addresses, *, new: bool) -> Digests:
        return self.values.digests(columns, rows, self.seeds, new=new)

    def _update(self, old: Addresses, new: Addresses) -> None:
        """Compare pairs of rows at different addresses."""
        if (new[1:] < new[:-1]).any():  # rows are read in address order
            order = np.argsort(new, kind="stable")  # fast: pairs by key are mostly sorted
            old, new = old[order], new[order]
        widths = self._compare(self.plan.columns, old, new, count=True)
        same = widths[0] == 0
        self.same.append((old[same], new[same]))
        self._note(old, new, widths)

    def _note(self, old: Addresses, new: Addresses, widths: npt.NDArray[np.int64]) -> None:
        """Record the pairs of rows that differ."""
        changed = widths[0] > 0
        self.updated.append((old[changed], new[changed]))
        self.widths.append(widths[:, changed])

    def _compare(
        self, columns: Sequence[ColumnPair], old: Addresses, new: Addresses, *, count: bool
    ) -> npt.NDArray[np.int64]:
        """Count for each pair of rows the differing values: in some columns, and in shared ones."""
        widths = np.zeros((2, len(old)), np.int64)
        shared = np.array([pair.old is not None for pair in columns], bool)
        for part, cells in self.values.unlike(columns, old, new):
            changed = cells.any(axis=0)
            some = cells[:, changed]
            widths[:, part][:, changed] = some.sum(axis=0), some[shared].sum(axis=0)
            if count:
                for pair, one in zip(columns, cells, strict=True):
                    self.cells[pair.name] += int(one.sum())
        return widths


def _numbers(
    side: Side, columns: Sequence[str], rows: Addresses
) -> tuple[npt.NDArray[np.uint64], ...]:
    table = side.read(columns, rows)
    return tuple(table[name].to_numpy() for name in columns)


def _joined(parts: Sequence[Addresses]) -> Addresses:
    return np.concatenate([_NONE, *parts])


def joined_pairs(parts: Sequence[tuple[Addresses, Addresses]]) -> tuple[Addresses, Addresses]:
    """Join pairs of rows into two arrays: the old rows, and the new rows."""
    return _joined([old for old, _ in parts]), _joined([new for _, new in parts])


# ---- the operations of the commits between two versions

#: a history longer than this is not read
_READ_COMMITS = 1000


def operations_between(old: Snapshot, new: Snapshot) -> list[object] | None:
    """Return the operations of the commits between two versions; ``None`` if unknown.

    A restore undoes the commits since the version that it restores: their operations are included.
    """
    low, high = sorted((old, new), key=lambda side: side.version)
    if low.location != high.location:
        return None
    first, at = low.version, high
    done = list[object]()
    while at.version > first:
        if high.version - first > _READ_COMMITS or at.transaction is None:
            return None
        done.append(at.transaction.operation)
        if isinstance(done[-1], Restore):
            first = min(first, done[-1].version)
        try:
            at = load_snapshot(low.location, at.version - 1)
        except VersionNotFoundError:
            return None
    return done
