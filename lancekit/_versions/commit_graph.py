"""The commit graph of a dataset: the versions that a version contains, and merge bases.

A version contains the earlier versions of its branch, the versions that its branch was forked from,
and all versions that were merged into them.  The config of a manifest records the merges, with one
key for each pair of a source and a target.  Forks inherit the config, and a merge copies the keys
of its source.  So the newest manifest of a branch has the whole record, whatever a cleanup removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from lancekit._format.names import MAIN
from lancekit._lazy import cached_property
from lancekit._versions.ancestor import branch_origins, unique_of
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.merge_edges import (
    APPLIED,
    MERGED,
    REPEATS,
    MergeEdge,
    SharedIds,
    VersionVector,
    newer_versions,
    not_contained,
)
from lancekit._versions.reference_files import read_branches
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import DatasetNotFoundError, LancekitError, VersionNotFoundError


@dataclass(frozen=True, slots=True, eq=False)
class CommonVersion:
    """A version that two sides contain.

    name, version: the unique name of its branch, and its number.
    location: its branch.  ``None`` if the branch was deleted.
    snapshot: the version.  ``None`` if it is gone, or if another version has its number now.
    stands_in: True if the version is gone; `snapshot` is then a fast-forward with the same rows.
    """

    name: str
    version: int
    location: BranchLocation | None
    snapshot: Snapshot | None
    stands_in: bool = False

    @property
    def called(self) -> str:
        """The name of the version in messages."""
        where = f"the deleted branch {self.name}" if self.location is None else self.location.name
        return f"version {self.version} of {where}"


def _properties(snapshot: Snapshot) -> Mapping[str, str]:
    """Return the properties of a version's transaction."""
    with suppress(LancekitError):  # the transaction file is gone
        if (found := snapshot.transaction) is not None:
            return found.transaction_properties
    return {}


def merged_by(snapshot: Snapshot, end: str = "theirs") -> tuple[str, int, str] | None:
    """Return the version that a merge commit merged, or its merge base if ``end`` is ``"base"``.

    The result has the unique name of a branch, a version number, and the transaction's uuid.  It is
    ``None`` for other commits.
    """
    properties = _properties(snapshot)
    words = properties.get(f"{APPLIED}.{end}.commit", "").rsplit(" ", 2)
    return (words[0], int(words[1]), words[2]) if MERGED in properties and len(words) == 3 else None


def _least(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    """Return for each branch that both have the older one of its versions."""
    return {name: min(left[name], right[name]) for name in left.keys() & right.keys()}


class CommitGraph:
    """The versions of a dataset's branches; each is read once, when it is needed."""

    def __init__(self, location: BranchLocation) -> None:
        self._location = location
        self._chains: dict[str | None, tuple[tuple[BranchLocation, str, int], ...]] = {}
        self._locations: dict[str, BranchLocation] = {MAIN: location.on(None)}
        self._snapshots: dict[tuple[str | None, int], Snapshot | None] = {}
        self._vectors: dict[tuple[str | None, int], VersionVector] = {}

    def chain(
        self, location: BranchLocation, version: int
    ) -> tuple[tuple[BranchLocation, str, int], ...]:
        """Return a version and the versions that its branch was forked from.

        Each has its location, the unique name of its branch, and its number.

        Raises BranchNotFoundError: the branch, or a parent branch, was deleted.
        """
        if location.branch not in self._chains:
            found = tuple(
                (o.location, o.unique, o.version) for o in branch_origins(location, version)
            )
            self._chains[location.branch] = found
            self._locations |= {name: of for of, name, _ in found}
        (own, unique, _), *forks = self._chains[location.branch]
        return ((own, unique, version), *forks)

    def vector(self, snapshot: Snapshot) -> VersionVector:
        """Return all versions that a version contains."""
        place = (snapshot.location.branch, snapshot.version)
        if place not in self._vectors:
            chain = self.chain(snapshot.location, snapshot.version)
            own = [(name, version) for _, name, version in chain]
            self._vectors[place] = VersionVector.of(own, snapshot.manifest.config)
            self._snapshots.setdefault(place, snapshot)
        return self._vectors[place]

    def shared_ids(self, one: Snapshot, other: Snapshot) -> SharedIds | None:
        """Return which row ids identify the same rows in two versions, due to fast-forwards.

        `source` and `target` are the versions since which the two branches have these rows.
        """
        left, right = self.vector(one), self.vector(other)
        found: SharedIds | None = None
        for name in left.versions.keys() & right.versions.keys():
            ids, others = left.ids_of(name), right.ids_of(name)
            if ids is None or others is None:
                continue
            least = min(ids, others, key=lambda side: side.source)
            free = least.next_row_id or self._next_row_id(name, least.source)
            if found is None or free > found.next_row_id:
                # a branch that has the version itself had the rows by then
                here, there = (
                    side.target if side.next_row_id else least.source for side in (ids, others)
                )
                found = SharedIds(here, there, free)
        return found

    def _next_row_id(self, name: str, version: int) -> int:
        location = self.location(name)
        snapshot = None if location is None else self.load(location, version)
        return 0 if snapshot is None else snapshot.manifest.next_row_id

    def is_merged(self, theirs: Snapshot, ours: Snapshot) -> bool:
        """Return True if a merge of theirs into ours has nothing to record.

        Ours contains theirs, or a version that theirs repeats.  Such a repeat is a merge into a
        branch without own changes: git would move a reference.  Otherwise, two branches that merge
        each other in turn would record merges forever.
        """
        known, point = self.vector(ours), self.vector(theirs).point
        return any(known.contains(*one) for one in chain([point], self.repeats(*point)))

    def have_merged_since(self, base: Snapshot, theirs: Snapshot, ours: Snapshot) -> bool:
        """Return True if both have rows of a version that the base lacks, by merges or by picks.

        A base in another dataset, such as a clone, has no known versions.
        """
        known = self._known(base)
        left, right = self.vector(theirs), self.vector(ours)
        common = _least(left.rows_of, right.rows_of)
        return any(
            not known.contains(name, version)
            for name, version in common.items()
            if self.location(name) is None or not self._is_fork(name, version)
        ) or any(
            # the base may contain the picked version, but have deleted the rows since
            newer_versions(_least(one.picks, other.rows_of), [known.picks])
            for one, other in ((left, right), (right, left))
        )

    def have_undone_since(self, base: Snapshot, theirs: Snapshot, ours: Snapshot) -> bool:
        """Return True if a restore removed their rows from ours, and the base lacks these rows."""
        known = self._known(base)
        undone = _least(self.vector(ours).undone, self.vector(theirs).rows_of)
        return any(not known.contains(name, version) for name, version in undone.items())

    def _known(self, base: Snapshot) -> VersionVector:
        return (
            self.vector(base)
            if base.location.root == self._location.root
            else VersionVector({}, {})
        )

    def contains(self, one: Snapshot, other: Snapshot) -> bool:
        """Return True if a version contains another version of the same dataset."""
        is_here = one.location.root == self._location.root == other.location.root
        return is_here and self.vector(one).contains(*self.vector(other).point)

    def have_returned_since(self, bases: Sequence[Snapshot], side: Snapshot) -> bool:
        """Return True if a side has deleted rows that came back under new row ids after all bases.

        Bases in another dataset, such as a clone, are ignored.
        """
        known = [
            self.vector(one).returns for one in bases if one.location.root == self._location.root
        ]
        return bool(newer_versions(self.vector(side).returns, known))

    def repeats(self, name: str, version: int) -> Iterator[tuple[str, int]]:
        """Yield all versions that a version repeats, each found from the one before."""
        seen, point = set[tuple[str, int]](), self.repeated(name, version)
        while point is not None and point not in seen:
            yield point
            seen.add(point)
            point = self.repeated(*point)

    def repeated(self, name: str, version: int) -> tuple[str, int] | None:
        """Return the version whose content a merge took over unchanged; ``None`` for others."""
        location = self.location(name)
        snapshot = None if location is None else self.load(location, version)
        if snapshot is None:
            return None
        for edge in self.vector(snapshot).edges.values():
            if edge.taken_by == version and edge.target in ("", name):
                return self._point(edge.source, edge.version)
        theirs = merged_by(snapshot)
        if theirs is None or _properties(snapshot).get(REPEATS) != str(version):
            return None
        return self._point(*theirs[:2])

    def _point(self, name: str, version: int) -> tuple[str, int]:
        """Return the canonical name of a version: for its fork point, that of the parent branch."""
        location = self.location(name)
        if location is None:
            return name, version
        chain = [(of, number) for _, of, number in self.chain(location, version)]
        return VersionVector.of(chain, {}).point

    def merge_bases(self, theirs: Snapshot, ours: Snapshot) -> list[CommonVersion]:
        """Return the common versions of two versions that no other common version contains.

        There are several after criss-cross merges.  If a side is a base itself, that side is
        returned.  It can be the first version of a branch, not the version that it was forked from.
        """
        left, right = self.vector(theirs), self.vector(ours)
        common = _least(left.versions, right.versions)
        found = {
            name: CommonVersion(name, version, side.location, side)
            for side, (name, version) in ((theirs, left.point), (ours, right.point))
            if common.get(name) == version
        }
        # the other branches are listed only if a base can be on another branch
        wanted = [name for name in common if name in self._locations]
        bases: list[str] = []
        while wanted:
            for name in wanted:
                if name not in found:
                    found[name] = self._common(name, common[name], (right, left))
            # a fork point is listed under the parent branch
            common = {n: v for n, v in common.items() if n not in found or not self._is_fork(n, v)}
            vectors = {
                name: vector
                for name in common.keys() & found.keys()
                if (vector := self._vector_of(found[name])) is not None
            }
            bases = list(not_contained(common, vectors))
            wanted = [name for name in bases if name not in found]
        return [found[name] for name in bases]

    def _common(self, name: str, version: int, sides: Sequence[VersionVector]) -> CommonVersion:
        location = self.location(name)
        snapshot = None if location is None else self.load(location, version)
        edges = [side.edges[name] for side in sides if name in side.edges]
        edges = [edge for edge in edges if edge.version == version]
        uuids = {"", *(edge.uuid for edge in edges)}
        if snapshot is not None and len(uuids) > 1 and snapshot.transaction_uuid not in uuids:
            snapshot = None
        if snapshot is not None:
            return CommonVersion(name, version, location, snapshot)
        if location is not None and (fork := self._forked_from(location, version)):
            return CommonVersion(name, version, fork.location, fork)
        taken = next(filter(None, map(self.taken_by, edges)), None)
        return CommonVersion(name, version, location, taken, stands_in=taken is not None)

    def _forked_from(self, location: BranchLocation, version: int) -> Snapshot | None:
        """Return a copy of a version: the first version of a branch that was forked from it."""
        unique = self.chain(location, version)[0][1]
        for branch in self._by_unique_name.values():
            with suppress(LancekitError):  # a parent of the branch was deleted
                forks = [(name, at) for _, name, at in self.chain(branch, version)[1:]]
                if (unique, version) in forks and (found := self.load(branch, version)):
                    return found
        return None

    def taken_by(self, edge: MergeEdge) -> Snapshot | None:
        """Return the fast-forward that took over a merged version, if it still exists."""
        location = self.location(edge.target) if edge.target else None
        if location is None or edge.taken_by is None:
            return None
        return self.load(location, edge.taken_by)

    def _vector_of(self, found: CommonVersion) -> VersionVector | None:
        """Return the version vector of a common version.

        The vector of a missing version comes from the fast-forward that took the version over,
        or else from the fork of its branch.
        """
        if found.snapshot is not None:
            return (self._taken_over if found.stands_in else self.vector)(found.snapshot)
        if found.location is None:
            return None
        chain = self.chain(found.location, found.version)
        return VersionVector.of([(name, version) for _, name, version in chain], {})

    def _taken_over(self, taken: Snapshot) -> VersionVector:
        """Return the version vector of a version that is gone, from its fast-forward ``taken``.

        The version contains the branch of ``taken`` only up to the start of the fast-forward.  If
        the start is itself the result of fast-forwards, the start of the first one counts.
        """
        chain = self.chain(taken.location, taken.version)
        first: Snapshot | None = taken
        while first is not None and self._starts_at_copy(first):
            before = first.version - 1
            location = [of for of, _, version in chain if version >= before][-1]
            first = self.load(location, before)
        start = (taken if first is None else first).version - 1
        own = [(name, min(version, start)) for _, name, version in chain]
        return VersionVector.of(own, taken.manifest.config)

    def _starts_at_copy(self, taken: Snapshot) -> bool:
        """Return True if a fast-forward started at a copy of its merge base on another branch."""
        base = merged_by(taken, "base")
        return base is not None and self.vector(taken).chain.get(base[0], -1) < base[1]

    def _is_fork(self, name: str, version: int) -> bool:
        """Return True if a version is the fork point of its branch, which has no own content."""
        location = self._locations.get(name)
        forks = () if location is None else self.chain(location, version)[1:]
        return bool(forks) and version <= forks[0][2]

    @cached_property
    def _by_unique_name(self) -> dict[str, BranchLocation]:
        branches = read_branches(self._location.root).sound
        return {
            unique_of(name, branch): self._location.on(name) for name, branch in branches.items()
        }

    def location(self, name: str) -> BranchLocation | None:
        """Return the branch with a unique name; ``None`` if it was deleted."""
        if name not in self._locations and name in self._by_unique_name:
            self._locations[name] = self._by_unique_name[name]
        return self._locations.get(name)

    def load(self, location: BranchLocation, version: int) -> Snapshot | None:
        """Return a version; ``None`` if it is gone."""
        place = (location.branch, version)
        if place not in self._snapshots:
            try:
                self._snapshots[place] = load_snapshot(location, version)
            except (VersionNotFoundError, DatasetNotFoundError):
                self._snapshots[place] = None
        return self._snapshots[place]
