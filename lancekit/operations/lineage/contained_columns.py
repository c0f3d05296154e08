"""Columns of a version beside those of one that it contains, if by a merge: names since the merge.

A column that a merge brought has another field id than where it came from.  At the merge both have
one name, and from there on the versions tell.
"""

from __future__ import annotations

from dataclasses import replace

from lancekit.errors import LancekitError
from lancekit.format.schema import LanceField
from lancekit.operations.lineage.columns import column_pairs
from lancekit.pipeline.diff.fragments import ColumnPair
from lancekit.pipeline.diff.retyped import can_be_retyped
from lancekit.versions.ancestor import common_ancestor
from lancekit.versions.commit_graph import CommitGraph
from lancekit.versions.snapshot import Snapshot, load_snapshot

__all__ = ["contained_columns"]

#: a merge that lies farther back is not looked for
_READ_VERSIONS = 1000


def contained_columns(base: Snapshot, side: Snapshot) -> list[ColumnPair]:
    """Return each column of a version with the one that it was in a version that it contains."""
    pairs = column_pairs(base, side)
    known = {pair.old.name for pair in pairs if pair.old is not None}
    if known.issuperset(base.manifest.schema.names) or all(pair.old for pair in pairs):
        return pairs
    ancestor = common_ancestor(base, side)
    if ancestor is not None and (ancestor.line, ancestor.version) == (base.line, base.version):
        return pairs
    merged = _first_to_contain(base, side)
    before = {pair.name: pair.old for pair in column_pairs(base, merged)}
    found, taken = list[ColumnPair](), set[str]()
    for pair in column_pairs(merged, side):
        old = None if pair.old is None else before.get(pair.old.name)
        fits = old is not None and can_be_retyped(old.to_arrow().type, pair.kind)
        found.append(replace(pair, old=old if fits else None))
        taken.update([old.name] if fits and old is not None else [])
    direct = {pair.name: pair.old for pair in pairs}
    return [
        pair if pair.old is not None else replace(pair, old=_free(direct[pair.name], taken))
        for pair in found
    ]


def _free(field: LanceField | None, taken: set[str]) -> LanceField | None:
    return None if field is None or field.name in taken else field


def _first_to_contain(base: Snapshot, side: Snapshot) -> Snapshot:
    """Return the oldest version of a line that contains another one, as far as versions are there.

    It is the version that a merge made.
    """
    graph, at = CommitGraph(side.line), side
    name, version = graph.vector(base).point
    for number in range(side.version - 1, max(side.version - _READ_VERSIONS, 0), -1):
        try:
            found = load_snapshot(side.line, number)
        except LancekitError:
            break
        if not graph.vector(found).contains(name, version):
            break
        at = found
    return at
