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
from lancekit.versions.snapshot import Snapshot, load_snapshot

__all__ = ["MergeBase", "commits_unmerged", "merge_base", "taken_mark"]


@dataclass(frozen=True, slots=True)
class MergeBase:
    """The newest version that both sides contain.

    `twin` is the version of ours that took it over as it was, if one did and is still there;
    `unmerged` tells that it is where the lines part: neither was merged into the other yet.
    `mark` says in the config of ours that theirs was merged, `implied` that other lines came with
    it.
    """

    snapshot: Snapshot
    twin: Snapshot | None
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
        They have nothing in common, or each was merged into the other at the same time.
    VersionNotFoundError
        The version that was merged last is gone.
    """
    graph = CommitGraph(ours.line)
    left, right = graph.vector(theirs), graph.vector(ours)
    bases = graph.merge_bases(theirs, ours)
    there = [(base, base.snapshot) for base in bases if base.snapshot is not None]
    for base in bases:
        if base.snapshot is None:
            raise _gone(base, theirs, ours, forked=_is_forked(base, left, right))
    if len(bases) > 1 and {theirs.line, ours.line} <= {one.line for one in bases}:
        raise InvalidArgumentError(
            f"{theirs.line.name} and {ours.line.name} were each merged into the other at the same "
            "time, so that no one version has what both had in common.",
            hint="Put the changes together yourself: ds.diff(old, new).apply(handle).",
        )
    # several that none has all of: what was merged from one of them to the other says most
    order = [theirs.line, ours.line]
    base, snapshot = min(
        there, key=lambda one: order.index(one[0].line) if one[0].line in order else 2
    )
    edge = right.edges.get(base.name)
    taken = None if edge is None or edge.version != base.version else _twin(ours, edge)
    edges = merge_edges(left, theirs.transaction_uuid, right, unique_name(ours.line))
    marks = [BatchMarker(key=one.key, number=one.version, origin=one.origin) for one in edges]
    return MergeBase(
        snapshot,
        taken,
        unmerged=_is_forked(base, left, right),
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
        "it was merged, was cleaned up.",
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


def _twin(ours: Snapshot, edge: MergeEdge) -> Snapshot | None:
    version = edge.taken_by
    try:
        if version is None or version == ours.version:
            return None if version is None else ours
        return load_snapshot(ours.line, version)
    except VersionNotFoundError:
        return None
