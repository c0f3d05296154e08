"""The versions of a branch that the next merge of two branches needs.

The merge compares with merge bases, and follows columns through the versions since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from itertools import combinations

from lancekit.errors import (
    BranchNotFoundError,
    DatasetNotFoundError,
    FormatError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lancekit.format.names import MAIN
from lancekit.pipeline.diff.column_identity import column_versions
from lancekit.versions.ancestor import source_of, unique_name
from lancekit.versions.at_once import at_once
from lancekit.versions.commit_graph import CommitGraph
from lancekit.versions.line import Line
from lancekit.versions.listing import latest_snapshot
from lancekit.versions.merge_edges import VersionVector
from lancekit.versions.reference_files import branch_files
from lancekit.versions.requirements import check_requirements
from lancekit.versions.snapshot import Snapshot

__all__ = ["column_versions_among", "merge_bases_among"]


def merge_bases_among(line: Line, versions: Set[int]) -> Mapping[int, tuple[str, str]]:
    """Return the merge bases of two branches among versions of a line, with the two names.

    The newest manifest of each branch is read once, and base versions where there are several
    candidates.  Versions that branches forked from stay for another reason, so that pairs of
    branches without a merge are passed over.
    """
    names = branch_files(line.root)
    if not versions or not names:
        return {}
    graph, own = CommitGraph(line), unique_name(line)
    found: dict[int, tuple[str, str]] = {}
    for (one, left), (other, right) in combinations(_heads(graph, line, names), 2):
        common = min(left.versions.get(own, 0), right.versions.get(own, 0))
        if common not in versions or not (left.edges or right.edges):
            continue
        for base in graph.merge_bases(one, other):
            if base.name == own:
                found[base.version] = (one.line.name, other.line.name)
    return found


def column_versions_among(
    line: Line, there: Sequence[Snapshot], removed: Set[int]
) -> Mapping[int, tuple[str, str]]:
    """Return versions that alone show renamed columns, with the two branches that need each.

    Parameters
    ----------
    line
        The line that is cleaned up.
    there
        Its versions, oldest first.
    removed
        Those that would be removed.
    """
    names = branch_files(line.root)
    if not (removed and names):
        return {}
    before = there[0]
    if line.branch is not None and before.version in removed:
        before = source_of(line) or before  # a merge goes on from there
    found, gap = list[tuple[int, int, set[int]]](), list[Snapshot]()
    for at in (one for one in there if one.version > before.version):
        gap.append(at)
        if at.version not in removed:
            renamed = column_versions(before, gap) & removed if gap[1:] else set()
            found += [(before.version, at.version, renamed)] if renamed else []
            before, gap = at, []
    if not found:
        return {}
    graph, own = CommitGraph(line), unique_name(line)
    needed: dict[int, tuple[str, str]] = {}
    for (one, left), (other, right) in combinations(_heads(graph, line, names), 2):
        versions = sorted(side.versions.get(own, 0) for side in (left, right))
        for first, last, renamed in found:
            if versions[0] < last and first < versions[1]:
                needed |= dict.fromkeys(renamed, (one.line.name, other.line.name))
    return needed


def _heads(
    graph: CommitGraph, line: Line, names: Iterable[str]
) -> Iterator[tuple[Snapshot, VersionVector]]:
    """Yield the newest version of main and of each branch, and what it contains."""
    for head in at_once(_newest, [line.on(name) for name in (MAIN, *names)]):
        with suppress(BranchNotFoundError):  # deleted meanwhile
            if head is not None:
                yield head, graph.vector(head)


def _newest(line: Line) -> Snapshot | None:
    """Return the newest version of a branch; a damaged branch cannot be merged.

    Raises
    ------
    UnsupportedFeatureError
        A newer release can read the branch, or knows of its merge bases what this one does not.
    """
    try:
        newest = latest_snapshot(line)
        check_requirements(newest, "A cleanup")
    except UnsupportedFeatureError:
        raise
    except (DatasetNotFoundError, VersionNotFoundError, FormatError):
        return None
    return newest
