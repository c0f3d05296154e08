"""The versions of a branch that the next merge of two branches compares with."""

from __future__ import annotations

from collections.abc import Mapping, Set
from contextlib import suppress
from itertools import combinations

from lancekit.errors import (
    BranchNotFoundError,
    DatasetNotFoundError,
    FormatError,
    VersionNotFoundError,
)
from lancekit.format.refs import MAIN
from lancekit.versions.ancestor import unique_name
from lancekit.versions.at_once import at_once
from lancekit.versions.commit_graph import CommitGraph, VersionVector
from lancekit.versions.line import Line
from lancekit.versions.listing import latest_snapshot
from lancekit.versions.reference_files import branch_files
from lancekit.versions.snapshot import Snapshot

__all__ = ["merge_bases_among"]


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
    heads: list[tuple[Snapshot, VersionVector]] = []
    for head in at_once(_newest, [line.on(name) for name in (MAIN, *names)]):
        with suppress(BranchNotFoundError):  # deleted meanwhile
            heads += [] if head is None else [(head, graph.vector(head))]
    found: dict[int, tuple[str, str]] = {}
    for (one, left), (other, right) in combinations(heads, 2):
        common = min(left.versions.get(own, 0), right.versions.get(own, 0))
        if common not in versions or not (left.edges or right.edges):
            continue
        for base in graph.merge_bases(one, other):
            if base.name == own:
                found[base.version] = (one.line.name, other.line.name)
    return found


def _newest(line: Line) -> Snapshot | None:
    """Return the newest version of a branch; a branch that cannot be read cannot be merged."""
    with suppress(DatasetNotFoundError, VersionNotFoundError, FormatError):
        return latest_snapshot(line)
    return None
