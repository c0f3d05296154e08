"""Matching of the columns of two versions across merges.

A merge gives the columns that it brings new field ids.  Its transaction records the ids of the
source, and the versions since then record the rest.  If the transaction is gone, columns are
matched by their names in the merge commit.  If an id has another name there, it is unknown whether
the column was renamed, or a new column got the id.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from lancekit._format.operations import Restore
from lancekit._format.schema import LanceField
from lancekit._operations.lineage.columns import (
    by_name,
    check_names,
    checked_pairs,
    column_pairs,
    pairs_since,
    unclear,
)
from lancekit._pipeline.diff.column_identity import (
    KeptColumns,
    fields_by_id,
    ids_of_theirs,
    spans_since,
)
from lancekit._pipeline.diff.fragments import ColumnPair, FollowedColumns, fits_as, pair_parts
from lancekit._pipeline.diff.recorded_columns import RecordedColumns, columns_of_record
from lancekit._pipeline.diff.row_values import seen
from lancekit._versions.ancestor import common_ancestor, common_origin, origins
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.commit_graph import CommitGraph, merged_by
from lancekit._versions.listing import list_versions
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import LancekitError, SchemaMismatchError

#: the number of versions that a search for a merge reads
_READ_VERSIONS = 1000


def contained_columns(base: Snapshot, side: Snapshot) -> list[ColumnPair]:
    """Return each column of a version, paired with the same column in another version.

    Raises SchemaMismatchError: it is unknown whether a column was renamed.
    """
    ancestor = common_ancestor(base, side)
    pairs = pairs_since(base, side, ancestor)
    if ancestor is not None and not _may_be_others(ancestor, base, side, pairs):
        with suppress(SchemaMismatchError):  # merges may record the match
            return checked_pairs(base, side, ancestor, pairs)
    ends = _in_one_dataset(base, side)
    if ends is None:
        return checked_pairs(base, side, ancestor, pairs)
    of_base, of_side = (
        _origins(KeptColumns(own, one), one) for own, one in zip(ends, (base, side), strict=True)
    )
    of_ends = _Traces(CommitGraph(ends[1].location)).ids(*ends)
    # without the columns that a clone added since
    ids = _joined(of_base, {id_: of_ends[at] for id_, at in of_side.items() if at in of_ends})
    known = {field.id: field for field in seen(base).fields}
    found, taken = list[ColumnPair](), set[str]()
    for pair in pairs:
        old = known.get(ids.get(pair.new.id, -1))
        fits = old is not None and fits_as(old, pair.new)
        parts = (
            pair_parts(old, pair.new, KeptColumns(base, base), FollowedColumns(ids)) if fits else ()
        )
        found.append(replace(pair, old=old if fits else None, parts=parts))
        taken.update([old.name] if fits and old is not None else [])
    direct = {pair.name: pair for pair in pairs}
    left = [_unless_taken(direct[pair.name], taken) for pair in found if pair.old is None]
    others = {pair.name: pair for pair in checked_pairs(base, side, ancestor, left)}
    return [others.get(pair.name, pair) for pair in found]


def known_columns(old: Snapshot, new: Snapshot) -> list[ColumnPair]:
    """Return each column of a version, paired with the old column; by name as a last resort.

    Merges are searched only if a column was lost and another was added: they may be the same.
    """
    pairs = column_pairs(old, new)
    kept = [pair for pair in pairs if pair.old is not None]
    if len(kept) < min(len(pairs), len(old.manifest.schema.fields)):
        with suppress(SchemaMismatchError):
            return contained_columns(old, new)
    return pairs


def _in_one_dataset(base: Snapshot, side: Snapshot) -> tuple[Snapshot, Snapshot] | None:
    """Return two versions of one dataset: a clone is replaced by the version it was made from.

    ``None`` if the two have no common origin, or the source of a clone cannot be read.
    """
    start = common_origin(base, side)
    if start is None:
        return None
    ends = []
    for one in (base, side):
        at = next(o for o in origins(one) if o.location.root == start.location.root)
        is_own = (at.location, at.version) == (one.location, one.version)
        ends.append(one if is_own else _load(CommitGraph(at.location), at.location, at.version))
    return None if ends[0] is None or ends[1] is None else (ends[0], ends[1])


def _may_be_others(
    ancestor: Snapshot, base: Snapshot, side: Snapshot, pairs: Sequence[ColumnPair]
) -> bool:
    """Return True if merges since the ancestor can decide which columns are the same."""
    own = KeptColumns(ancestor, base)
    if any(own.origin(id_) is None for id_ in fields_by_id(base)):
        return True
    if base.location.root == side.location.root:
        return _may_have_returned(CommitGraph(side.location), ancestor, base, side, pairs)
    kept = [pair for pair in pairs if pair.old is not None]
    return len(kept) < min(len(pairs), len(base.manifest.schema.fields))


def _may_have_returned(
    graph: CommitGraph,
    ancestor: Snapshot,
    base: Snapshot,
    side: Snapshot,
    pairs: Sequence[ColumnPair],
) -> bool:
    """Return True if a merge may have restored a column that the branch had dropped.

    This requires, since the ancestor, a merge, an added column and a lost column.
    """
    ids = {field.id for field in base.manifest.schema.fields}
    new = [pair for pair in pairs if pair.old is None or pair.old.id != pair.new.id]
    lost = ids - ({pair.new.id for pair in pairs} - {pair.new.id for pair in new})
    before = graph.vector(ancestor).edges if new and lost else {}
    if not (new and lost) or all(graph.vector(one).edges == before for one in (base, side)):
        return False
    own = KeptColumns(ancestor, side)
    followed = [pair.old for pair in new if own.origin(pair.new.id) is not None]
    return bool(lost - {old.id for old in followed if old is not None})


class _Traces:
    """Matches field ids between versions of one dataset; caches the match of each two versions."""

    def __init__(self, graph: CommitGraph) -> None:
        self._graph = graph
        self._found: dict[Hashable, dict[int, int]] = {}
        self._direct_ids: dict[Hashable, dict[int, int]] = {}

    def ids(self, base: Snapshot, side: Snapshot) -> dict[int, int]:
        """Return the field ids of ``side``, each with the id of the same column in ``base``."""
        key = _cache_key(base, side)
        if key not in self._found:
            found = dict(self._direct(base, side))
            lost = {field.id for field in base.manifest.schema.fields} - set(found.values())
            for field in side.manifest.schema.fields:
                if lost and field.id not in found:
                    was = self._returned(base, side, field, lost)
                    found |= {} if was is None else {field.id: was}
                    lost.discard(-1 if was is None else was)
            self._found[key] = found
        return self._found[key]

    def _direct(self, base: Snapshot, side: Snapshot) -> dict[int, int]:
        """Return `ids` without restored columns: only the first merge of the base counts."""
        key = _cache_key(base, side)
        if key not in self._direct_ids:
            # stops the recursion if a version that replaces another leads back to itself
            self._direct_ids[key] = {}
            try:
                self._direct_ids[key] = self._followed(base, side)
            except SchemaMismatchError:
                del self._direct_ids[key]
                raise
        return self._direct_ids[key]

    def _followed(self, base: Snapshot, side: Snapshot) -> dict[int, int]:
        graph, ancestor = self._graph, common_ancestor(base, side)
        at = None if ancestor is None else (ancestor.location, ancestor.version)
        if at == (base.location, base.version):
            return _origins(KeptColumns(base, side), side)
        if at == (side.location, side.version):
            return {was: now for now, was in self.ids(side, base).items()}
        if not graph.vector(side).contains(*graph.vector(base).point):
            return self._by_merge_bases(base, side)
        merged = _first_to_contain(graph, base, side)
        try:
            of_merged = self._ids_at(base, merged)
        except SchemaMismatchError:
            if merged is side:
                raise
            # the columns may match by names of later versions
            return by_name(base, side, self._recorded(base, side))
        return {
            now: of_merged[id_]
            for now, id_ in _origins(KeptColumns(merged, side), side).items()
            if id_ in of_merged
        }

    def _by_merge_bases(self, base: Snapshot, side: Snapshot) -> dict[int, int]:
        """Return the common columns of two versions, found through their merge bases."""
        found = dict[int, int]()
        bases = self._graph.merge_bases(base, side)
        for common in bases:
            if (one := common.snapshot) is not None:
                found |= _joined(self.ids(one, base), self._direct(one, side))
        if any(common.snapshot is None or common.stands_in for common in bases):
            named, known = by_name(base, side, check=False), {*found.values()}
            found = {**{id_: was for id_, was in named.items() if was not in known}, **found}
            check_names(base, side, found)
        return found

    def _ids_at(self, base: Snapshot, merged: Snapshot) -> dict[int, int]:
        """Return the field ids of a commit that brought the base, each with the id in the base."""
        graph = self._graph
        done = None if merged.transaction is None else merged.transaction.operation
        if isinstance(done, Restore):
            old = graph.load(merged.location, done.version)
            if old is not None:
                return self._direct(base, old)
        theirs = _merged_version(graph, merged)
        if theirs is not None:
            of_theirs, brought = self._direct(base, theirs), ids_of_theirs(merged)
            return {id_: of_theirs[at] for id_, at in brought.items() if at in of_theirs}
        # match by name in the merge commit, or in the oldest version since that still exists
        is_sure = graph.load(merged.location, merged.version - 1) is not None
        return by_name(base, merged, self._recorded(base, merged), check=not is_sure)

    def _recorded(self, base: Snapshot, merged: Snapshot) -> RecordedColumns | None:
        """Return the column match that a merge recorded in the config key of its target."""
        graph, point = self._graph, self._graph.vector(base).point
        edges = [edge for edge in graph.vector(merged).edges.values() if edge.columns]
        error: SchemaMismatchError | None = None
        # an edge of the base's own branch is the most precise
        for edge in sorted(edges, key=lambda edge: edge.source != point[0]):
            location = graph.location(edge.source)
            theirs = None if location is None else graph.load(location, edge.version)
            if theirs is None or edge.uuid not in ("", theirs.transaction_uuid):
                continue
            if graph.vector(theirs).contains(*point):
                try:
                    of_theirs = self._direct(base, theirs)
                    return columns_of_record(edge.columns, merged).through(of_theirs.get)
                except SchemaMismatchError as found:  # another key may have the match
                    error = found
        if error is not None:
            raise error
        return None

    def _returned(
        self, base: Snapshot, side: Snapshot, field: LanceField, lost: Set[int]
    ) -> int | None:
        """Return the id of the lost column that a merge restored as ``field``; None if unknown.

        All merges of the branch are searched, newest first, then the merges of merged branches.
        """
        graph, point = self._graph, self._graph.vector(base).point
        seen, waiting = set[tuple[BranchLocation, int, int]](), deque([(side, field.id)])
        while waiting:
            now, id_ = waiting.popleft()
            if (now.location, now.version, id_) in seen:
                continue
            known = None
            for at, origin in _history_of(graph, common_ancestor(base, now), now):
                then = origin(id_)
                if then is None or (at.location, at.version, then) in seen:
                    break
                id_ = then
                seen.add((at.location, at.version, id_))
                # versions of a branch give the same answer if they agree on containing the base
                contains = graph.vector(at).contains(*point)
                was = None if contains is known else self._direct(base, at).get(id_)
                if was in lost:
                    return was
                known = contains
                there = None if merged_by(at) is None else ids_of_theirs(at).get(id_)
                theirs = None if there is None else _merged_version(graph, at)
                if there is not None and theirs is not None:
                    waiting.append((theirs, there))
                elif there is not None:
                    self._check_deleted(base, side, field, at, there, lost)
        return None

    def _check_deleted(
        self,
        base: Snapshot,
        side: Snapshot,
        field: LanceField,
        merged: Snapshot,
        there: int,
        lost: Set[int],
    ) -> None:
        """Refuse a column that a merge may have restored, if the merged version is gone.

        The column had the id of a lost column in the version where both branches fork.
        """
        start = _start_of(self._graph, base, merged)
        if start is None:
            return
        kept, before = KeptColumns(start, base), None
        for was in base.manifest.schema.fields:
            same = was.name == field.name or was.logical_type != field.logical_type
            if was.id not in lost or same or kept.origin(was.id) != there:
                continue
            # a column that still existed was matched by the merge itself
            before = before or _load(self._graph, merged.location, merged.version - 1)
            if before is None or was.id not in self._direct(base, before).values():
                why = "it came from a merge of a version that was cleaned up"
                raise unclear(field.name, side, was.name, base, why)


def _cache_key(base: Snapshot, side: Snapshot) -> Hashable:
    return tuple((one.location, one.version) for one in (base, side))


def _merged_version(graph: CommitGraph, merged: Snapshot) -> Snapshot | None:
    """Return the version that a merge brought; ``None`` if it is gone."""
    recorded = merged_by(merged)
    location = None if recorded is None else graph.location(recorded[0])
    if recorded is None or location is None:
        return None
    found = graph.load(location, recorded[1])
    return found if found is not None and found.transaction_uuid == recorded[2] else None


def _start_of(graph: CommitGraph, base: Snapshot, merged: Snapshot) -> Snapshot | None:
    """Return the fork of the base's branch and the branch that a merge brought.

    If that branch was deleted, the base of its merge counts as its fork.
    """
    own = {name: version for _, name, version in graph.chain(base.location, base.version)}
    for recorded in filter(None, (merged_by(merged, end) for end in ("theirs", "base"))):
        location = graph.location(recorded[0])
        for fork, name, version in () if location is None else graph.chain(location, recorded[1]):
            if name in own and (found := _load(graph, fork, min(version, own[name]))):
                return found
    return None


def _history_of(
    graph: CommitGraph, ancestor: Snapshot | None, side: Snapshot
) -> Iterator[tuple[Snapshot, Callable[[int], int | None]]]:
    """Yield a version and its ancestors, newest first, until no merge since ``ancestor`` is left.

    Each comes with a function that maps a field id of the previously yielded version to its own.
    """
    last = side
    yield side, KeptColumns(side, side).origin
    before = None if ancestor is None else graph.vector(ancestor).edges
    spans = None if ancestor is None else spans_since(ancestor, side)
    for span in reversed(spans or []):
        there = set(list_versions(span.location).versions)
        for version in islice((v for v in reversed(span.versions) if v in there), _READ_VERSIONS):
            done = None if last.transaction is None else last.transaction.operation
            if (
                isinstance(done, Restore)
                and last.location == span.location
                and done.version < version
            ):
                continue
            if graph.vector(last).edges == before:
                return
            at = _load(graph, span.location, version)
            if at is not None and (at.location, at.version) != (side.location, side.version):
                yield at, KeptColumns(at, last).origin
                last = at


def _origins(kept: KeptColumns, side: Snapshot) -> dict[int, int]:
    found = ((id_, kept.origin(id_)) for id_ in fields_by_id(side))
    return {id_: origin for id_, origin in found if origin is not None}


def _joined(of_base: Mapping[int, int], of_side: Mapping[int, int]) -> dict[int, int]:
    """Return the ids of a side, each with the id in a base, through the ids of a third version."""
    back = {origin: id_ for id_, origin in of_base.items()}
    return {id_: back[origin] for id_, origin in of_side.items() if origin in back}


def _unless_taken(pair: ColumnPair, taken: set[str]) -> ColumnPair:
    is_taken = pair.old is None or pair.old.name in taken
    return replace(pair, old=None, parts=()) if is_taken else pair


def _load(graph: CommitGraph, location: BranchLocation, version: int) -> Snapshot | None:
    try:
        return graph.load(location, version)
    except LancekitError:
        return None


def _first_to_contain(graph: CommitGraph, base: Snapshot, side: Snapshot) -> Snapshot:
    """Return the oldest existing version of a branch that contains the base.

    It is a merge commit, or a later version if a cleanup removed that commit.  The branch may have
    forked from it.
    """
    at = side
    name, version = graph.vector(base).point
    for location, _, last in graph.chain(side.location, side.version):
        earlier = [number for number in list_versions(location).versions if number <= last]
        for number in reversed(earlier[-_READ_VERSIONS:]):
            found = _load(graph, location, number)
            if found is None or not graph.vector(found).contains(name, version):
                return at
            at = found
    return at
