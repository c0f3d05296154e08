"""Columns of a version beside those of one that it contains, if by a merge: names since the merge.

A column that a merge brought has another field id than where it came from.  At the merge both have
one name, and from there on the versions tell.  Where these are gone, and an id has another name,
nothing tells whether the column was renamed, or the id given to a new one.
"""

from __future__ import annotations

from dataclasses import replace

from lancekit.errors import LancekitError, SchemaMismatchError
from lancekit.format.schema import LanceField
from lancekit.operations.lineage.column_identity import KeptColumns
from lancekit.operations.lineage.columns import pairs_since
from lancekit.pipeline.diff.fragments import ColumnPair
from lancekit.pipeline.diff.retyped import can_be_retyped
from lancekit.versions.ancestor import common_ancestor
from lancekit.versions.commit_graph import CommitGraph
from lancekit.versions.snapshot import Snapshot, load_snapshot

__all__ = ["contained_columns"]

#: a merge that lies farther back is not looked for
_READ_VERSIONS = 1000


def contained_columns(base: Snapshot, side: Snapshot) -> list[ColumnPair]:
    """Return each column of a version with the one that it was in a version that it contains.

    Raises
    ------
    SchemaMismatchError
        Nothing tells whether a column was renamed.
    """
    ancestor = common_ancestor(base, side)
    pairs = pairs_since(base, side, ancestor)
    known = {pair.old.name for pair in pairs if pair.old is not None}
    if known.issuperset(base.manifest.schema.names) or all(pair.old for pair in pairs):
        return pairs
    if ancestor is not None and (ancestor.line, ancestor.version) == (base.line, base.version):
        return _told(base, side, ancestor, pairs)
    merged = _first_to_contain(base, side)
    before = {pair.name: pair.old for pair in _pairs(base, merged)}
    found, taken = list[ColumnPair](), set[str]()
    for pair in _pairs(merged, side):
        old = None if pair.old is None else before.get(pair.old.name)
        fits = old is not None and can_be_retyped(old.to_arrow().type, pair.kind)
        found.append(replace(pair, old=old if fits else None))
        taken.update([old.name] if fits and old is not None else [])
    direct = {pair.name: pair.old for pair in pairs}
    return [
        pair if pair.old is not None else replace(pair, old=_free(direct[pair.name], taken))
        for pair in found
    ]


def _pairs(old: Snapshot, new: Snapshot) -> list[ColumnPair]:
    ancestor = common_ancestor(old, new)
    return _told(old, new, ancestor, pairs_since(old, new, ancestor))


def _told(
    old: Snapshot, new: Snapshot, ancestor: Snapshot | None, pairs: list[ColumnPair]
) -> list[ColumnPair]:
    """Return pairs of columns, if the versions between tell of each id what became of it."""
    if ancestor is None:
        return pairs
    before = {field.id: field for field in old.manifest.schema.fields}
    sides = KeptColumns(ancestor, old), KeptColumns(ancestor, new)
    for pair in pairs:
        id_ = pair.new.id
        was = before.get(id_) if sides[0].had(id_) else None
        if was is None or (pair.old is not None and pair.old.id == id_):
            continue
        is_told = all(side.is_new(id_) or side.origin(id_) is not None for side in sides)
        if was.logical_type == pair.new.logical_type and not is_told:
            raise SchemaMismatchError(
                f"Nothing tells whether column {pair.name!r} of {new.called} is column "
                f"{was.name!r} of {old.called}: both have one id, and versions between were "
                "cleaned up.",
                hint=f"If it is, give it the name {was.name!r} again, and rename it after the "
                f"merge. If not, drop {was.name!r} on the other side first.",
                column=pair.name,
            )
    return pairs


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
