"""The version from which the changes of a branch count, and the marks that merges leave.

A merge records in the config of its target, in the merging commit, up to which version the target
contains the source.  So a merge lands once, however often it is tried, and the next merge begins
there.  `lancekit.versions.commit_graph` has how merge bases are found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lancekit.commit.rules.exactly_once import BatchMarker
from lancekit.errors import InvalidArgumentError, VersionNotFoundError
from lancekit.versions.ancestor import unique_name
from lancekit.versions.commit_graph import (
    FAST_FORWARD,
    CommitGraph,
    CommonVersion,
    MergeEdge,
    VersionVector,
    merge_edges,
)
from lancekit.versions.snapshot import Snapshot

__all__ = ["MergeBase", "commits_unmerged", "merge_base", "taken_mark"]


@dataclass(frozen=True, slots=True)
class MergeBase:
    """The newest version that both sides contain.

    `further` are more such versions, none of which contains another: criss-cross merges leave them.
    `twin` is the version of ours that took it over as it was, if one did and is still there;
    `unmerged` tells that it is where the lines part: neither was merged into the other yet.
    `mark` says in the config of ours that theirs was merged, `implied` that other lines came with
    it.
    """

    snapshot: Snapshot
    twin: Snapshot | None
    further: tuple[Snapshot, ...]
    unmerged: bool
    mark: BatchMarker | None
    implied: tuple[BatchMarker, ...]


def taken_mark(mark: BatchMarker, version: int) -> BatchMarker:
    """Return the mark of a merge whose rows a version takes over as they are."""
    return replace(mark, origin=f"{mark.origin} {FAST_FORWARD} {version}".strip())


def merge_base(theirs: Snapshot, ours: Snapshot) -> MergeBase:
    """Return the newest version that both sides contain.

    Raises
    ------
    InvalidArgumentError
        They have nothing in common.
    VersionNotFoundError
        The version that was merged last is gone.
    """
    graph = CommitGraph(ours.line)
    left, right = graph.vector(theirs), graph.vector(ours)
    bases = graph.merge_bases(theirs, ours)
    there = []
    for base in bases:
        snapshot = base.snapshot or _taken_over(base, left, right, graph)
        if snapshot is None:
            raise _gone(base, theirs, ours, forked=_is_forked(base, left, right))
        there.append((base, snapshot))
    # the first is the one that is shown
    order = [theirs.line, ours.line]
    there.sort(key=lambda one: order.index(one[0].line) if one[0].line in order else 2)
    base, snapshot = there[0]
    edge = right.edges.get(base.name)
    twin = None
    if base.snapshot is not None and edge is not None and edge.version == base.version:
        twin = _taken_by(edge, ours, graph)
    edges = merge_edges(left, theirs.transaction_uuid, right, unique_name(ours.line))
    marks = [BatchMarker(key=one.key, number=one.version, origin=one.origin) for one in edges]
    return MergeBase(
        snapshot,
        twin=twin,
        further=tuple(found for _, found in there[1:]),
        unmerged=len(there) == 1 and _is_forked(base, left, right),
        mark=marks[0] if marks else None,
        implied=tuple(marks[1:]),
    )


def _is_forked(base: CommonVersion, left: VersionVector, right: VersionVector) -> bool:
    """Return True if no merge brought a common version to either side."""
    forks = [side.chain.get(base.name) for side in (left, right)]
    known = [version for version in forks if version is not None]
    return len(known) == 2 and base.version == min(known)


def _gone(base: CommonVersion, theirs: Snapshot, ours: Snapshot, *, forked: bool) -> Exception:
    if forked:
        return InvalidArgumentError(
            f"No version is known that {theirs.called} and {ours.called} both come from, or it was "
            "cleaned up.",
            hint="Put the changes together by a key: ds.diff(old, new, on=...).apply(handle).",
        )
    return VersionNotFoundError(
        f"The merge base of {theirs.called} and {ours.called} is gone: {base.called}, up to which "
        "it was merged, was cleaned up, or another version has its number.",
        hint="Put the changes together yourself: ds.diff(old, new).apply(handle); a tag keeps "
        "the version from a cleanup.",
        version=base.version,
    )


def commits_unmerged(source: Snapshot, target: Snapshot) -> int:
    """Return how many versions of one line another does not contain; 0 if nobody can tell."""
    graph = CommitGraph(source.line)
    known = graph.vector(target).versions
    # the versions of a branch are counted on
    there = [
        min(known[name], version)
        for _, name, version in graph.chain(source.line, source.version)
        if name in known
    ]
    return source.version - max(there, default=source.version)


def _taken_over(
    base: CommonVersion, left: VersionVector, right: VersionVector, graph: CommitGraph
) -> Snapshot | None:
    """Return a version with the rows of a base that is gone: a fast-forward took them over."""
    for side in (right, left):
        edge = side.edges.get(base.name)
        if edge is not None and edge.version == base.version:
            found = _taken_by(edge, None, graph)
            if found is not None:
                return found
    return None


def _taken_by(edge: MergeEdge, ours: Snapshot | None, graph: CommitGraph) -> Snapshot | None:
    """Return the version that took over what was merged as it was."""
    if edge.taken_by is None:
        return None
    if ours is not None and edge.taken_by == ours.version:
        return ours
    line = graph.line(edge.target) if edge.target or ours is None else ours.line
    return None if line is None else graph.load(line, edge.taken_by)
