"""The common ancestor of two versions, across branches and clones of a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from lancekit._format.names import MAIN
from lancekit._format.operations import Clone
from lancekit._format.refs import Branch
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import list_versions
from lancekit._versions.reference_files import get_branch
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import InvalidArgumentError, LancekitError, StorageError


@dataclass(frozen=True, slots=True)
class Origin:
    """A version on a branch; `unique` distinguishes the branch from earlier ones of its name."""

    location: BranchLocation
    unique: str
    version: int

    @property
    def place(self) -> tuple[str, str]:
        """The dataset's URI and the branch's unique name: a key for all versions of one branch."""
        return self.location.root.uri, self.unique


def common_origin(one: Snapshot, other: Snapshot) -> Origin | None:
    """Return the newest common version of two versions; ``None`` if no record of one exists.

    Branches of the same name are distinguished by their random ids, and a clone by its first
    commit.  The version may have been cleaned up.
    """
    ours = {origin.place: origin for origin in origins(one)}
    for origin in origins(other):
        mine = ours.get(origin.place)
        if mine is not None:
            return replace(origin, version=min(mine.version, origin.version))
    return None


def common_ancestor(one: Snapshot, other: Snapshot) -> Snapshot | None:
    """Load the newest common version of two versions; ``None`` if no record of one exists.

    A version that was cleaned up is not returned, because it cannot be read.
    """
    if one.location == other.location:
        return min(one, other, key=lambda side: side.version)
    start = common_origin(one, other)
    if start is None:
        return None
    location, version = start.location, start.version
    known = (s for s in (one, other) if s.version == version and s.location == location)
    own = location.root in (one.location.root, other.location.root)
    found = next(known, None) or _loaded(location, version, own=own)
    # a branch that was forked there has that version, too
    same = (s for s in (one, other) if s.version == version and s.location.root == location.root)
    return found or next(same, None) or _copy_of(start, (one, other))


def _copy_of(start: Origin, sides: Iterable[Snapshot]) -> Snapshot | None:
    """Return the first version of a side's branch forked from ``start``: it has that content."""
    for side in sides:
        for branch, fork in pairwise(origins(side)):
            if fork == start and branch.location.root == start.location.root:
                found = _loaded(branch.location, start.version, own=False)
                if found is not None:
                    return found
    return None


def _loaded(location: BranchLocation, version: int, *, own: bool) -> Snapshot | None:
    """Return a version if it exists; an error of another dataset's store is ignored."""
    try:
        return load_snapshot(location, version)
    except StorageError:
        if own:
            raise
        return None
    except LancekitError:
        return None


def origins(snapshot: Snapshot) -> Iterator[Origin]:
    """Yield the version itself, then the origin of its branch, and so on to the source of a clone.

    The sequence ends at an origin in another place that can no longer be read.
    """
    location, version = snapshot.location, snapshot.version
    seen: set[tuple[str, str]] = set()
    while True:
        last = None
        for origin in branch_origins(location, version):
            if origin.place in seen:  # a clone of itself, made by hand
                return
            seen.add(origin.place)
            last = origin
            yield origin
        clone = None if last is None else _cloned_from(last.location)
        if clone is None:
            return
        location, version = clone


def branch_origins(location: BranchLocation, version: int) -> Iterator[Origin]:
    """Yield a version, then the version that its branch was forked from, and so on to main."""
    steps: list[tuple[str | None, int, str]] = []
    name = location.branch
    while name is not None:
        branch = get_branch(location.root, name)
        steps.append((name, branch.parent_version, unique_of(name, branch)))
        name = branch.parent_branch
    versions = [version, *(parent for _, parent, _ in steps)]
    names = [(name, unique) for name, _, unique in steps] + [(None, MAIN)]
    for (name, unique), at in zip(names, versions, strict=True):
        yield Origin(location.on(name), unique, at)


def unique_name(location: BranchLocation) -> str:
    """Return a name for a branch that no other branch of the dataset has, even an earlier one."""
    if location.branch is None:
        return MAIN
    return unique_of(location.branch, get_branch(location.root, location.branch))


def source_of(location: BranchLocation) -> Snapshot | None:
    """Return the version that a branch was forked from, or that a dataset was cloned from.

    ``None`` for other datasets, or if that version can no longer be read.
    """
    try:
        if location.branch is None:
            clone = _cloned_from(location)
            return None if clone is None else load_snapshot(*clone)
        branch = get_branch(location.root, location.branch)
        parent = location.on(branch.parent_branch)
        steps = branch.identifier[:-1]
        if parent.branch and steps and steps != get_branch(location.root, parent.branch).identifier:
            return None  # the parent is a later branch of the same name
        return load_snapshot(parent, branch.parent_version)
    except LancekitError:
        return None


def fork_at(snapshot: Snapshot) -> Branch | None:
    """Return the branch whose first version this is; its fork has the same number."""
    location = snapshot.location
    found = None if location.branch is None else get_branch(location.root, location.branch)
    return found if found and found.parent_version == snapshot.version else None


def snapshot_before(snapshot: Snapshot) -> Snapshot:
    """Load the version before another one; before a branch's first, the one it was forked from.

    Raises InvalidArgumentError, VersionNotFoundError: it is the first, or the other was cleaned up.
    """
    if (fork := fork_at(snapshot)) is not None:
        return load_snapshot(snapshot.location.on(fork.parent_branch), fork.parent_version)
    if snapshot.version == 1:
        raise InvalidArgumentError(
            f"{snapshot.location.name}:1 is the first version and has no previous version.",
            hint="Pass the version to compare with: ds.diff(old).",
            version=1,
        )
    return load_snapshot(snapshot.location, snapshot.version - 1)


def unique_of(name: str, branch: Branch) -> str:
    """Return the unique name of a branch: its random id, if it has one."""
    return branch.identifier[-1][1] if branch.identifier else f"{name} {branch.create_at}"


def clone_of(location: BranchLocation) -> Clone | None:
    """Return the commit that made a dataset as a clone; ``None`` if it is not recorded."""
    try:
        oldest = min(list_versions(location).versions, default=None)
        first = None if oldest is None else load_snapshot(location, oldest).transaction
    except LancekitError:
        return None
    if first is None or not isinstance(first.operation, Clone) or first.operation.branch_name:
        return None
    return first.operation


def _cloned_from(location: BranchLocation) -> tuple[BranchLocation, int] | None:
    """Return the branch and the version that a dataset was cloned from."""
    clone = clone_of(location)
    if clone is None:
        return None
    try:
        # only from a trusted place, because the dataset itself names its origin
        source = replace(location, root=location.base(clone.ref_path), branch=None)
        snapshot = load_snapshot(source, clone.ref_version)
    except LancekitError:
        return None
    return snapshot.location, snapshot.version
