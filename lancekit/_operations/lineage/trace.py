"""Follow rows and columns from a version to the previous version, and find their changes."""

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

#: returns addresses of candidates for the followed rows, in the fragments at some positions
Find = Callable[[Snapshot, Sequence[int]], Addresses]

#: number of versions that are loaded together if a single load is slow
_LOAD_TOGETHER = 32


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison of two versions, with readers of their rows."""

    plan: DiffPlan
    sides: Sides
    changes: Changes


@dataclass(frozen=True, slots=True)
class Step:
    """The changes of followed rows between a version and its previous version.

    before: the address of each row in the older version, undefined for `born` rows.
    born, updated: flags of new rows, and of rows with changed values.
    gone: found rows of the older version that the newer version lacks.
    compared: the comparison with the changed values, if rows were read.
    """

    before: Addresses
    born: Mask
    updated: Mask
    gone: Addresses
    compared: Compared | None = None


@dataclass(frozen=True, slots=True)
class VersionPair:
    """A version and the previous readable version.

    places: positions of the older version's fragments that the newer version changed or lacks.
    changed: ids of the newer version's fragments that are new, or differ from the older version's.
    names, older_names: names of the followed columns in both versions, by their names in the newest
        version.  Missing columns are left out.
    """

    old: Snapshot
    new: Snapshot
    places: Sequence[int]
    changed: Addresses
    names: Mapping[str, str]
    older_names: Mapping[str, str]


def _versions_before(snapshot: Snapshot) -> Iterator[Snapshot]:
    """Yield the older readable versions, newest first.

    A branch continues in its parent, and a shallow clone in its source.  If these can be read, the
    first version is skipped: it equals the version that it was made from.
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
            source = None  # its files were copied, or another table replaced the source
        if source is None:
            if first is not None and first is not at:
                yield first
            return
        yield source
        at = source


def _is_clone(snapshot: Snapshot) -> bool:
    """Return True if a version is the first version of a branch or clone."""
    done = snapshot.transaction
    return done is not None and isinstance(done.operation, Clone)


def _loaded(
    location: BranchLocation, numbers: Sequence[int], naming: ManifestNaming
) -> Iterator[Snapshot]:
    """Yield the readable versions of a branch."""

    def load(number: int) -> Snapshot | None:
        try:
            return load_snapshot(location, number, naming)
        except LancekitError:  # removed in the meantime, or damaged
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
    versions: VersionPair,
    rows: Addresses,
    *,
    on: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    find: Find | None = None,
    find_deleted: bool = False,
) -> Step:
    """Follow rows from a version to the previous version.

    A fragment that is unchanged, or only lost or regained rows, costs reads of metadata only.

    rows: addresses in the newer version, ascending.
    on, columns: as in `plan_diff`.
    find: finds candidates in the older version.  By default all rows of fragments that differ.
    find_deleted: whether to find rows that the newer version lacks, too.
    """
    old, new = versions.old, versions.new
    none = np.zeros(len(rows), bool)
    apart = none.copy()
    apart[places_in(rows, versions.changed)] = True
    if _same_fields(old, new):
        apart[apart] = ~_in_place(old, new, rows[apart])
    nothing = np.empty(0, np.uint64)
    wanted: Addresses | None = nothing
    if versions.places and (find_deleted or apart.any()):
        wanted = None if find is None else np.setdiff1d(find(old, versions.places), rows[~apart])
    if not apart.any():
        return Step(rows, none, none, nothing if wanted is None else wanted)
    if wanted is not None and not len(wanted):
        return Step(rows, apart, none, nothing)
    plan = plan_diff(old, new, on=on, columns=columns, apart=True)
    sides = read_sides(plan, wanted, rows[apart])
    changes = find_changes(plan, sides)
    return Step(
        before=_old_addresses(plan, changes, rows),
        born=np.isin(rows, changes.inserted),
        updated=np.isin(rows, changes.updated[1]),
        gone=nothing if wanted is None else changes.deleted,
        compared=Compared(plan, sides, changes),
    )


def places_in(rows: Addresses, fragments: Addresses) -> npt.NDArray[np.int64]:
    """Return the indices of the addresses, which ascend, that are in some fragments."""
    firsts = np.searchsorted(rows, fragments << np.uint64(32))
    ends = np.searchsorted(rows, fragments + np.uint64(1) << np.uint64(32))
    parts = [np.arange(firsts[at], ends[at]) for at in np.flatnonzero(firsts < ends).tolist()]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _same_fields(old: Snapshot, new: Snapshot) -> bool:
    return old.manifest.schema.fields == new.manifest.schema.fields


def _in_place(old: Snapshot, new: Snapshot, rows: Addresses) -> Mask:
    """Return which rows are in the same files of both versions, and not deleted in the older."""
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
    """Return the files of a fragment without base ids; compare file locations separately."""
    return [replace(file, base_id=None) for file in fragment.files]


def _old_addresses(plan: DiffPlan, changes: Changes, rows: Addresses) -> Addresses:
    """Return the old addresses of rows; rows in no pair have the same offset in a shared file."""
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


def version_pairs(snapshot: Snapshot, columns: Iterable[str]) -> Iterator[VersionPair]:
    """Yield each version, paired with its previous version, newest first."""
    names: Mapping[str, str] = {name: name for name in columns}
    for new, old in pairwise(chain([snapshot], _versions_before(snapshot))):
        older = names
        if not _same_fields(old, new):
            was = {pair.name: pair.old.name for pair in column_pairs(old, new) if pair.old}
            older = {name: was[now] for name, now in names.items() if now in was}
        places, others = fragments_apart(old, new)
        # only their ids: to decode the ids of all fragments takes longer than everything else
        changed = np.sort(np.array([new.manifest.fragments[at].id for at in others], np.uint64))
        yield VersionPair(old, new, places, changed, names, older)
        names = older


def is_first(snapshot: Snapshot) -> bool:
    """Return True if a version has no previous version, so that it created all of its rows."""
    return snapshot.version == 1 and not _is_clone(snapshot)


# ---- the version that last changed each row


@dataclass(frozen=True, slots=True)
class _LastChanges:
    """The number of the version that last changed each row (0 if gone), and the versions."""

    versions: npt.NDArray[np.int64]
    by_number: dict[int, Snapshot]

    def column(self, values: dict[int, object], kind: pa.DataType) -> pa.Array:
        """Return a property of versions as a column by row; null if the version is gone."""
        numbers = np.array(sorted(self.by_number), np.int64)
        listed = pa.array([values[number] for number in numbers.tolist()], kind)
        places = np.searchsorted(numbers, self.versions)
        return ak.take(listed, pa.array(places, mask=self.versions == 0))


def last_changes(
    snapshot: Snapshot, rows: Addresses, columns: Sequence[str] | None = None
) -> _LastChanges:
    """Return the version that last changed each row, or some of its columns.

    Rows are followed back through the versions of the branch.  Most fragments are equal in two
    consecutive versions, and are skipped.

    rows: addresses.
    columns: the columns whose changes count, all by default.
    """
    order = np.argsort(rows, kind="stable")
    at, open_, found = rows[order], np.ones(len(rows), bool), np.zeros(len(rows), np.int64)
    by_number: dict[int, Snapshot] = {}
    oldest, left = snapshot, len(rows)
    for versions in version_pairs(snapshot, columns or ()):
        if not left:
            break
        oldest = versions.old
        touched = places_in(at, versions.changed)
        touched = touched[open_[touched]]
        if not len(touched):
            continue
        names = None if columns is None else [*versions.names.values()]
        step = step_back(versions, at[touched], columns=names)
        changed = step.born | step.updated
        if changed.any():
            done = touched[changed]
            found[order[done]], open_[done] = versions.new.version, False
            by_number[versions.new.version] = versions.new
            left -= len(done)
        at[touched[~changed]] = step.before[~changed]
        if (at[1:] < at[:-1]).any():
            sorting = np.argsort(at, kind="stable")
            at, order, open_ = at[sorting], order[sorting], open_[sorting]
    if left and is_first(oldest):
        found[order[open_]] = oldest.version
        by_number[oldest.version] = oldest
    return _LastChanges(found, by_number)


# ---- the history of a column: every version that added it, changed it as a whole, or dropped it

ColumnKind: TypeAlias = Literal["added", "found", "cast", "renamed", "rewritten", "dropped"]


@dataclass(frozen=True, slots=True)
class ColumnEntry:
    """A change of a column by a version; `old` or `new` is ``None`` if the column was missing."""

    kind: ColumnKind
    version: Snapshot
    before: Snapshot | None
    old: LanceField | None
    new: LanceField | None


def column_entries(snapshot: Snapshot, name: str) -> list[ColumnEntry]:
    """Return the changes of a column up to a version, newest first; no rows are read.

    Raises ColumnNotFoundError: no version that can be read has a column of that name.
    """
    found = list(_entries(snapshot, name))
    if not found:
        snapshot.manifest.schema.field(name)  # raises with similar names
        raise ColumnNotFoundError(f"No readable version has a column {name!r}.")
    return found


def _entries(snapshot: Snapshot, name: str) -> Iterator[ColumnEntry]:
    field, oldest = _field(snapshot, name), snapshot
    is_new = field is None  # no visited version had the column
    for versions in version_pairs(snapshot, ()):
        oldest = versions.old
        if field is None:
            field = _field(versions.old, name)
            if field is None:
                continue
            renamed = _renamed(versions, field)
            if renamed is None:
                yield ColumnEntry("dropped", versions.new, versions.old, field, None)
            elif is_new:
                # the newest version has the column under another name: return that history
                yield from _entries(snapshot, renamed.name)
                return
            else:
                yield ColumnEntry("renamed", versions.new, versions.old, field, renamed)
            is_new = False
            continue
        is_new = False
        pair = _pair(versions, field)
        if pair.old is None:
            yield ColumnEntry("added", versions.new, versions.old, None, field)
            field = _field(versions.old, name)  # another column, which this one replaced
            if field is not None:
                renamed = _renamed(versions, field)
                kind: ColumnKind = "dropped" if renamed is None else "renamed"
                yield ColumnEntry(kind, versions.new, versions.old, field, renamed)
            continue
        for kind in _changes(versions, pair, pair.old):
            yield ColumnEntry(kind, versions.new, versions.old, pair.old, field)
        field = pair.old
    if field is not None:
        yield ColumnEntry("added" if is_first(oldest) else "found", oldest, None, None, field)


def _renamed(versions: VersionPair, old: LanceField) -> LanceField | None:
    """Return the field of an old column in the newer version, if its name changed."""
    pairs = column_pairs(versions.old, versions.new)
    found = (pair.new for pair in pairs if pair.old is not None and pair.old.name == old.name)
    return next((new for new in found if new is not None and new.name != old.name), None)


def _field(snapshot: Snapshot, name: str) -> LanceField | None:
    return next((field for field in seen(snapshot).fields if field.name == name), None)


def _pair(versions: VersionPair, field: LanceField) -> ColumnPair:
    if _same_fields(versions.old, versions.new):
        return ColumnPair(field.name, field.to_arrow().type, field, field)
    return next(
        pair for pair in column_pairs(versions.old, versions.new) if pair.name == field.name
    )


def _changes(versions: VersionPair, pair: ColumnPair, old: LanceField) -> Iterator[ColumnKind]:
    if old.name != pair.name:
        yield "renamed"
    if old.to_arrow().type != pair.kind:
        yield "cast"
    elif _is_rewritten(versions, pair):
        yield "rewritten"


def _is_rewritten(versions: VersionPair, pair: ColumnPair) -> bool:
    """Return True if a column's values are in other files; always True for an overwrite."""
    done = versions.new.transaction
    if done is not None and isinstance(done.operation, Overwrite):
        return True
    if not versions.places or not len(versions.changed):
        return False
    before, after = (fragment_sources(side, seen(side)) for side in (versions.old, versions.new))
    places, others = fragments_apart(versions.old, versions.new)
    found = shared([before[at] for at in places], [after[at] for at in others], [pair])
    return any(one.columns for one in found.pairs)
