"""Rows followed from a version to the one before: where they were, and which it made or changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._format import row_address
from lancekit._format.deletions import to_offsets
from lancekit._format.fragment import DataFile, Fragment
from lancekit._format.names import ManifestNaming
from lancekit._format.operations import Clone, Overwrite
from lancekit._format.schema import LanceField
from lancekit._operations.lineage.columns import column_pairs, fragments_apart
from lancekit._operations.lineage.diff import Changes, Sides, find_changes, read_sides
from lancekit._operations.lineage.diff_plan import DiffPlan, plan_diff
from lancekit._pipeline.diff.fragments import ColumnPair, shared
from lancekit._pipeline.diff.row_values import Addresses, seen
from lancekit._scan.fragments.source import fragment_sources
from lancekit._versions.ancestor import source_of
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import at_once, list_versions, timed
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import ColumnNotFoundError, LancekitError

Mask = npt.NDArray[np.bool_]

#: returns the addresses of the rows that may be one of those that are followed, of a version's
#: fragments at some places
Find = Callable[[Snapshot, Sequence[int]], Addresses]

#: so many versions are loaded together where one takes long to come
_LOAD_TOGETHER = 32


@dataclass(frozen=True, slots=True)
class Compared:
    """Rows of both versions that were compared."""

    plan: DiffPlan
    sides: Sides
    changes: Changes


@dataclass(frozen=True, slots=True)
class Step:
    """What became of rows in a version, seen from it.

    before: where each row was in the older version; of no meaning for one that is `born`.
    born, updated: which rows are new, and which have other values than before.
    gone: rows of the older version that were found, and are in the newer one no more.
    compared: what says which values changed, if rows had to be looked at.
    """

    before: Addresses
    born: Mask
    updated: Mask
    gone: Addresses
    compared: Compared | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """A version and the one before it that can be read.

    `places` are those of the older fragments that the newer version has otherwise, or no more;
    `changed` are the ids of the newer ones that the older has not.  `names` and `older_names` are
    what some columns are called in the one and the other, by what they were called where the way
    began; those that are not there are left out.
    """

    old: Snapshot
    new: Snapshot
    places: Sequence[int]
    changed: Addresses
    names: Mapping[str, str]
    older_names: Mapping[str, str]


def _versions_before(snapshot: Snapshot) -> Iterator[Snapshot]:
    """Yield the older versions, newest first, without those that cannot be read.

    Those of a branch go on in its parent, those of a shallow clone in its source: with the version
    that it was made of, instead of its own first one, which is the same.
    """
    at = snapshot
    while True:
        listing = list_versions(at.location)
        numbers = [number for number in reversed(listing.versions) if number < at.version]
        last, first = at, at if not numbers and _is_clone(at) else None
        for last in _loaded(at.location, numbers, listing.naming):
            if last.version == numbers[-1] and _is_clone(last):
                first = last
            else:
                yield last
        source = source_of(at.location) if first is not None or at.location.branch else None
        if source is not None and first is not None and any(fragments_apart(source, first)):
            source = None  # its files were copied, or another table is in the source's place
        if source is None:
            if first is not None and first is not at:
                yield first
            return
        yield source
        at = source


def _is_clone(snapshot: Snapshot) -> bool:
    """Return whether a version is the first of a branch or a clone, as its source had it."""
    done = snapshot.transaction
    return done is not None and isinstance(done.operation, Clone)


def _loaded(
    location: BranchLocation, numbers: Sequence[int], naming: ManifestNaming
) -> Iterator[Snapshot]:
    """Yield those versions of a line that can be read."""

    def load(number: int) -> Snapshot | None:
        try:
            return load_snapshot(location, number, naming)
        except LancekitError:  # it went meanwhile, or is damaged
            return None

    slow = False
    for start in range(0, len(numbers), _LOAD_TOGETHER):
        page = numbers[start : start + _LOAD_TOGETHER]
        if slow:
            yield from filter(None, at_once(load, page))
            continue
        for number in page:
            found, slow = timed(load, number)
            if found is not None:
                yield found


def step_back(
    pace: Pace,
    rows: Addresses,
    *,
    on: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    find: Find | None = None,
    look: bool = False,
) -> Step:
    """Follow rows from a version of a line to an older one.

    Nothing but metadata is read of rows whose fragment is in both versions as it is, or with other
    rows deleted.

    rows: addresses in the newer version, ascending.
    on, columns: as of `plan_diff`.
    find: finds what the rows may have been; all rows of fragments that differ by default.
    look: whether to find rows that the newer version has no more, too.
    """
    old, new = pace.old, pace.new
    none = np.zeros(len(rows), bool)
    apart = none.copy()
    apart[places_in(rows, pace.changed)] = True
    if _same_fields(old, new):
        apart[apart] = ~_in_place(old, new, rows[apart])
    nothing = np.empty(0, np.uint64)
    wanted: Addresses | None = nothing
    if pace.places and (look or apart.any()):
        wanted = None if find is None else np.setdiff1d(find(old, pace.places), rows[~apart])
    if not apart.any():
        return Step(rows, none, none, nothing if wanted is None else wanted)
    if wanted is not None and not len(wanted):
        return Step(rows, apart, none, nothing)
    plan = plan_diff(old, new, on=on, columns=columns, apart=True)
    sides = read_sides(plan, wanted, rows[apart])
    changes = find_changes(plan, sides)
    return Step(
        before=_moved(plan, changes, rows),
        born=np.isin(rows, changes.inserted),
        updated=np.isin(rows, changes.updated[1]),
        gone=nothing if wanted is None else changes.deleted,
        compared=Compared(plan, sides, changes),
    )


def places_in(rows: Addresses, fragments: Addresses) -> npt.NDArray[np.int64]:
    """Return the places of those of ascending addresses that are in some fragments."""
    firsts = np.searchsorted(rows, fragments << np.uint64(32))
    ends = np.searchsorted(rows, fragments + np.uint64(1) << np.uint64(32))
    parts = [np.arange(firsts[at], ends[at]) for at in np.flatnonzero(firsts < ends).tolist()]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _same_fields(old: Snapshot, new: Snapshot) -> bool:
    return old.manifest.schema.fields == new.manifest.schema.fields


def _in_place(old: Snapshot, new: Snapshot, rows: Addresses) -> Mask:
    """Return which rows lie in the same files of both versions, and were there before."""
    there = np.zeros(len(rows), bool)
    owners = row_address.fragment_ids(rows)
    for id_ in np.unique(owners).tolist():
        mine, other = old.fragment(id_), new.fragment(id_)
        if mine is None or other is None or _bare(mine) != _bare(other):
            continue
        if [str(old.data_file(f)) for f in mine.files] != [
            str(new.data_file(f)) for f in other.files
        ]:
            continue
        own = owners == id_
        deleted = to_offsets(old.deleted_rows(mine))
        there[own] = ~np.isin(row_address.offsets(rows[own]), deleted)
    return there


def _bare(fragment: Fragment) -> list[DataFile]:
    """Return the files of a fragment; where they lie is to be compared besides."""
    return [replace(file, base_id=None) for file in fragment.files]


def _moved(plan: DiffPlan, changes: Changes, rows: Addresses) -> Addresses:
    """Return where rows were; those that are in no pair are at the same places of a file."""
    before = rows.copy()
    owners = row_address.fragment_ids(rows)
    for mate, id_ in plan.shared.mates.items():
        own = owners == id_
        before[own] = row_address.addresses(mate, row_address.offsets(rows[own]))
    for olds, news in (changes.same, changes.updated):
        order = np.argsort(news)
        at = np.searchsorted(news, rows, sorter=order)
        at = order[np.minimum(at, len(news) - 1)] if len(news) else at
        hit = news[at] == rows if len(news) else np.zeros(len(rows), bool)
        before[hit] = olds[at[hit]]
    return before


def way_back(snapshot: Snapshot, columns: Iterable[str]) -> Iterator[Pace]:
    """Yield each version of a line with the one before it, newest first."""
    names: Mapping[str, str] = {name: name for name in columns}
    for new, old in pairwise(chain([snapshot], _versions_before(snapshot))):
        older = names
        if not _same_fields(old, new):
            was = {pair.name: pair.old.name for pair in column_pairs(old, new) if pair.old}
            older = {name: was[now] for name, now in names.items() if now in was}
        places, others = fragments_apart(old, new)
        # their ids alone: to ask for those of all fragments takes longer than all the rest
        changed = np.sort(np.array([new.manifest.fragments[at].id for at in others], np.uint64))
        yield Pace(old, new, places, changed, names, older)
        names = older


def is_first(snapshot: Snapshot) -> bool:
    """Return whether nothing came before a version, so that it made all of its rows."""
    return snapshot.version == 1 and not _is_clone(snapshot)


# ---- which version last changed each row


@dataclass(frozen=True, slots=True)
class _LastChanges:
    """For each row the version that last changed it, 0 where that one is gone; the versions."""

    versions: npt.NDArray[np.int64]
    by_number: dict[int, Snapshot]

    def column(self, values: dict[int, object], kind: pa.DataType) -> pa.Array:
        """Return what is known of versions, row by row; null where the version is gone."""
        numbers = np.array(sorted(self.by_number), np.int64)
        listed = pa.array([values[number] for number in numbers.tolist()], kind)
        places = np.searchsorted(numbers, self.versions)
        return ak.take(listed, pa.array(places, mask=self.versions == 0))


def last_changes(
    snapshot: Snapshot, rows: Addresses, columns: Sequence[str] | None = None
) -> _LastChanges:
    """Return which version last changed rows, or some columns of them.

    They are followed back along the line; most fragments are in a version and the one before it as
    they are, and of those nothing is asked.

    rows: addresses.
    columns: changes of others do not count; all by default.
    """
    order = np.argsort(rows, kind="stable")
    at, open_, found = rows[order], np.ones(len(rows), bool), np.zeros(len(rows), np.int64)
    by_number: dict[int, Snapshot] = {}
    oldest, left = snapshot, len(rows)
    for pace in way_back(snapshot, columns or ()):
        if not left:
            break
        oldest = pace.old
        touched = places_in(at, pace.changed)
        touched = touched[open_[touched]]
        if not len(touched):
            continue
        names = None if columns is None else [*pace.names.values()]
        step = step_back(pace, at[touched], columns=names)
        changed = step.born | step.updated
        if changed.any():
            done = touched[changed]
            found[order[done]], open_[done] = pace.new.version, False
            by_number[pace.new.version] = pace.new
            left -= len(done)
        at[touched[~changed]] = step.before[~changed]
        if (at[1:] < at[:-1]).any():
            sorting = np.argsort(at, kind="stable")
            at, order, open_ = at[sorting], order[sorting], open_[sorting]
    if left and is_first(oldest):
        found[order[open_]] = oldest.version
        by_number[oldest.version] = oldest
    return _LastChanges(found, by_number)


# ---- the history of a column: every version that made it, changed it as a whole, or dropped it

ColumnKind: TypeAlias = Literal["added", "found", "cast", "renamed", "rewritten", "dropped"]


@dataclass(frozen=True, slots=True)
class ColumnEntry:
    """What a version did to a column: `old` and `new` are what it was and is, if it was and is."""

    kind: ColumnKind
    version: Snapshot
    before: Snapshot | None
    old: LanceField | None
    new: LanceField | None


def column_entries(snapshot: Snapshot, name: str) -> list[ColumnEntry]:
    """Return what became of a column up to a version, newest first; no rows are read.

    Raises ColumnNotFoundError: no version that can be read has a column of that name.
    """
    found = list(_entries(snapshot, name))
    if not found:
        snapshot.manifest.schema.field(name)  # which names what is like it
        raise ColumnNotFoundError(f"No version that can be read has a column {name!r}.")
    return found


def _entries(snapshot: Snapshot, name: str) -> Iterator[ColumnEntry]:
    field, oldest = _field(snapshot, name), snapshot
    is_new = field is None  # no version so far had it
    for pace in way_back(snapshot, ()):
        oldest = pace.old
        if field is None:
            field = _field(pace.old, name)
            if field is None:
                continue
            renamed = _renamed(pace, field)
            if renamed is None:
                yield ColumnEntry("dropped", pace.new, pace.old, field, None)
            elif is_new:
                # the column is there, by another name: its history goes on
                yield from _entries(snapshot, renamed.name)
                return
            else:
                yield ColumnEntry("renamed", pace.new, pace.old, field, renamed)
            is_new = False
            continue
        is_new = False
        pair = _pair(pace, field)
        if pair.old is None:
            yield ColumnEntry("added", pace.new, pace.old, None, field)
            field = _field(pace.old, name)  # another one, which went as this one came
            if field is not None:
                renamed = _renamed(pace, field)
                kind: ColumnKind = "dropped" if renamed is None else "renamed"
                yield ColumnEntry(kind, pace.new, pace.old, field, renamed)
            continue
        for kind in _changes(pace, pair, pair.old):
            yield ColumnEntry(kind, pace.new, pace.old, pair.old, field)
        field = pair.old
    if field is not None:
        yield ColumnEntry("added" if is_first(oldest) else "found", oldest, None, None, field)


def _renamed(pace: Pace, old: LanceField) -> LanceField | None:
    """Return what a column of the older version is in the newer one, by another name."""
    pairs = column_pairs(pace.old, pace.new)
    found = (pair.new for pair in pairs if pair.old is not None and pair.old.name == old.name)
    return next((new for new in found if new is not None and new.name != old.name), None)


def _field(snapshot: Snapshot, name: str) -> LanceField | None:
    return next((field for field in seen(snapshot).fields if field.name == name), None)


def _pair(pace: Pace, field: LanceField) -> ColumnPair:
    if _same_fields(pace.old, pace.new):
        return ColumnPair(field.name, field.to_arrow().type, field, field)
    return next(pair for pair in column_pairs(pace.old, pace.new) if pair.name == field.name)


def _changes(pace: Pace, pair: ColumnPair, old: LanceField) -> Iterator[ColumnKind]:
    if old.name != pair.name:
        yield "renamed"
    if old.to_arrow().type != pair.kind:
        yield "cast"
    elif _is_rewritten(pace, pair):
        yield "rewritten"


def _is_rewritten(pace: Pace, pair: ColumnPair) -> bool:
    """Return whether the values of rows that stayed lie elsewhere; of an overwrite none did."""
    done = pace.new.transaction
    if done is not None and isinstance(done.operation, Overwrite):
        return True
    if not pace.places or not len(pace.changed):
        return False
    before, after = (fragment_sources(side, seen(side)) for side in (pace.old, pace.new))
    places, others = fragments_apart(pace.old, pace.new)
    found = shared([before[at] for at in places], [after[at] for at in others], [pair])
    return any(one.columns for one in found.pairs)
