"""Columns of a version beside those of one that it contains or that it met by merges.

A column that a merge brought has another field id than where it came from.  The merge's transaction
says which, and from there on the versions tell.  Where these are gone, both have one name at the
merge; and if an id has another name then, nothing tells whether the column was renamed, or the id
given to a new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lancekit.errors import LancekitError, SchemaMismatchError
from lancekit.format.operations import Restore
from lancekit.format.schema import LanceField
from lancekit.operations.lineage.column_identity import KeptColumns, ids_of_theirs
from lancekit.operations.lineage.columns import pairs_since
from lancekit.operations.lineage.rows import seen
from lancekit.pipeline.diff.fragments import ColumnPair
from lancekit.pipeline.diff.retyped import can_be_retyped
from lancekit.versions.ancestor import common_ancestor
from lancekit.versions.commit_graph import CommitGraph
from lancekit.versions.snapshot import Snapshot, load_snapshot

__all__ = ["contained_columns"]

#: a merge that lies farther back is not looked for
_READ_VERSIONS = 1000
#: over how many merges columns are followed
_STEPS = 30


def contained_columns(base: Snapshot, side: Snapshot) -> list[ColumnPair]:
    """Return each column of a version with the one that it was in another version.

    Raises
    ------
    SchemaMismatchError
        Nothing tells whether a column was renamed.
    """
    ancestor = common_ancestor(base, side)
    pairs = pairs_since(base, side, ancestor)
    own = None if ancestor is None else KeptColumns(ancestor, base)
    if (
        own is None
        or base.line.root != side.line.root
        or all(own.origin(field.id) is not None for field in base.manifest.schema.fields)
    ):
        return _told(base, side, ancestor, pairs)
    graph = CommitGraph(side.line)
    ids = _ids(graph, base, side)
    known = {field.id: field for field in seen(base).fields}
    found, taken = list[ColumnPair](), set[str]()
    for pair in pairs:
        old = known.get(ids.get(pair.new.id, -1))
        fits = old is not None and can_be_retyped(old.to_arrow().type, pair.kind)
        found.append(replace(pair, old=old if fits else None))
        taken.update([old.name] if fits and old is not None else [])
    direct = {pair.name: pair.old for pair in pairs}
    left = [replace(p, old=_free(direct[p.name], taken)) for p in found if p.old is None]
    by_name = {pair.name: pair for pair in _told(base, side, ancestor, left)}
    return [by_name.get(pair.name, pair) for pair in found]


def _ids(graph: CommitGraph, base: Snapshot, side: Snapshot, steps: int = _STEPS) -> dict[int, int]:
    """Return for each column of a version that another one has, by its id, the id there."""
    ancestor = common_ancestor(base, side)
    if ancestor is None or not steps:
        return {}
    of_base, of_side = KeptColumns(ancestor, base), KeptColumns(ancestor, side)
    ends = [(base.line, base.version), (side.line, side.version)]
    if (ancestor.line, ancestor.version) in ends:
        return _joined(_origins(of_base, base), _origins(of_side, side))
    if not graph.vector(side).contains(*graph.vector(base).point):
        found = dict[int, int]()
        for common in graph.merge_bases(base, side):
            if common.snapshot is not None:
                here, there = (_ids(graph, common.snapshot, one, steps - 1) for one in (base, side))
                found |= _joined(here, there)
        return found
    merged = _first_to_contain(graph, base, side)
    try:
        of_merged = _ids_at(graph, base, merged, steps)
    except SchemaMismatchError:
        if merged is side:
            raise
        # names may tell it that columns got since
        pairs = _pairs(base, side)
        _check_names(base, side, pairs)
        return {pair.new.id: pair.old.id for pair in pairs if pair.old is not None}
    return {
        now: of_merged[id_]
        for now, id_ in _origins(KeptColumns(merged, side), side).items()
        if id_ in of_merged
    }


def _origins(kept: KeptColumns, side: Snapshot) -> dict[int, int]:
    found = ((field.id, kept.origin(field.id)) for field in side.manifest.schema.fields)
    return {id_: origin for id_, origin in found if origin is not None}


def _joined(of_base: Mapping[int, int], of_side: Mapping[int, int]) -> dict[int, int]:
    """Return the ids of a version with those of another, both known by those of a third."""
    back = {origin: id_ for id_, origin in of_base.items()}
    return {id_: back[origin] for id_, origin in of_side.items() if origin in back}


def _ids_at(graph: CommitGraph, base: Snapshot, merged: Snapshot, steps: int) -> dict[int, int]:
    """Return the ids of the version that a merge made, with those of a version that it brought."""
    done = None if merged.transaction is None else merged.transaction.operation
    if isinstance(done, Restore):
        old = graph.load(merged.line, done.version)
        if old is not None:
            return _ids(graph, base, old, steps - 1)
    theirs = graph.merged_by(merged)
    if theirs is not None:
        of_theirs = _ids(graph, base, theirs, steps - 1)
        return {id_: of_theirs[at] for id_, at in ids_of_theirs(merged).items() if at in of_theirs}
    # the names at the merge tell, or as soon after it as versions are there
    pairs = _pairs(base, merged)
    if graph.load(merged.line, merged.version - 1) is None:
        _check_names(base, merged, pairs)
    return {pair.new.id: pair.old.id for pair in pairs if pair.old is not None}


def _check_names(base: Snapshot, merged: Snapshot, pairs: Sequence[ColumnPair]) -> None:
    """Refuse columns of which one may be the other, renamed since a merge that is gone."""
    ancestor = common_ancestor(base, merged)
    before = set() if ancestor is None else {f.id for f in ancestor.manifest.schema.fields}
    kept = {pair.old.id for pair in pairs if pair.old is not None}
    lost = [f for f in base.manifest.schema.fields if f.id not in kept | before]
    for pair in pairs:
        if pair.old is None and pair.new.id not in before:
            for was in lost:
                if was.logical_type == pair.new.logical_type:
                    raise _untold(pair.name, merged, was.name, base, "both came since they parted")


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
        if was.logical_type == pair.new.logical_type and not all(
            side.is_told(id_) for side in sides
        ):
            raise _untold(pair.name, new, was.name, old, "both have one id")
    return pairs


def _untold(name: str, new: Snapshot, other: str, old: Snapshot, why: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"Nothing tells whether column {name!r} of {new.called} is column {other!r} of "
        f"{old.called}: {why}, and versions between were cleaned up.",
        hint=f"If it is, give it the name {other!r} again, and rename it after the merge. If not, "
        f"drop {other!r} on the other side first.",
        column=name,
    )


def _free(field: LanceField | None, taken: set[str]) -> LanceField | None:
    return None if field is None or field.name in taken else field


def _first_to_contain(graph: CommitGraph, base: Snapshot, side: Snapshot) -> Snapshot:
    """Return the oldest version of a line that contains another one, as far as versions are there.

    It is the version that a merge made.
    """
    at = side
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
