"""Columns of a version beside those of one that it contains or that it met by merges.

A column that a merge brought has another field id than where it came from.  The merge's transaction
says which, and from there on the versions tell.  Where these are gone, both have one name at the
merge; and if an id has another name then, nothing tells whether the column was renamed, or the id
given to a new one.
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
    column_pairs,
    pairs_since,
    told,
    untold,
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
from lancekit._versions.ancestor import common_ancestor, origins, parting
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.commit_graph import CommitGraph, merged_by
from lancekit._versions.listing import list_versions
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import LancekitError, SchemaMismatchError

#: a merge that lies farther back is not looked for
_READ_VERSIONS = 1000


def contained_columns(base: Snapshot, side: Snapshot) -> list[ColumnPair]:
    """Return each column of a version with the one that it was in another version.

    Raises SchemaMismatchError: nothing tells whether a column was renamed.
    """
    ancestor = common_ancestor(base, side)
    pairs = pairs_since(base, side, ancestor)
    if ancestor is not None and not _may_be_others(ancestor, base, side, pairs):
        with suppress(SchemaMismatchError):  # merges may tell what versions between do not
            return told(base, side, ancestor, pairs)
    ends = _in_one_dataset(base, side)
    if ends is None:
        return told(base, side, ancestor, pairs)
    of_base, of_side = (
        _origins(KeptColumns(own, one), one) for own, one in zip(ends, (base, side), strict=True)
    )
    of_ends = _Traces(CommitGraph(ends[1].location)).ids(*ends)
    # without the columns that a clone got since
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
    left = [_free(direct[pair.name], taken) for pair in found if pair.old is None]
    others = {pair.name: pair for pair in told(base, side, ancestor, left)}
    return [others.get(pair.name, pair) for pair in found]


def known_columns(old: Snapshot, new: Snapshot) -> list[ColumnPair]:
    """Return each column of a version with the old one, by name where nothing else tells it.

    Merges are looked at only if a column is lost and another is new: one may be the other.
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
    start = parting(base, side)
    if start is None:
        return None
    ends = []
    for one in (base, side):
        at = next(o for o in origins(one) if o.location.root == start.location.root)
        is_own = (at.location, at.version) == (one.location, one.version)
        ends.append(one if is_own else _there(CommitGraph(at.location), at.location, at.version))
    return None if ends[0] is None or ends[1] is None else (ends[0], ends[1])


def _may_be_others(
    ancestor: Snapshot, base: Snapshot, side: Snapshot, pairs: Sequence[ColumnPair]
) -> bool:
    """Return True if merges since the ancestor can decide which columns are the same."""
    own = KeptColumns(ancestor, base)
    if any(own.origin(id_) is None for id_ in fields_by_id(base)):
        return True
    if base.location.root == side.location.root:
        return _may_have_come_back(CommitGraph(side.location), ancestor, base, side, pairs)
    kept = [pair for pair in pairs if pair.old is not None]
    return len(kept) < min(len(pairs), len(base.manifest.schema.fields))


def _may_have_come_back(
    graph: CommitGraph,
    ancestor: Snapshot,
    base: Snapshot,
    side: Snapshot,
    pairs: Sequence[ColumnPair],
) -> bool:
    """Return True if a merge may have brought a column again that a line had dropped.

    That takes a merge since, a column that came since, and one that was left.
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
    """Columns of versions beside those of other versions; two versions are compared once."""

    def __init__(self, graph: CommitGraph) -> None:
        self._graph = graph
        self._found: dict[Hashable, dict[int, int]] = {}
        self._told_directly: dict[Hashable, dict[int, int]] = {}

    def ids(self, base: Snapshot, side: Snapshot) -> dict[int, int]:
        """Return for each column of a version that another one has, by its id, the id there."""
        places = _places(base, side)
        if places not in self._found:
            found = dict(self._direct(base, side))
            lost = {field.id for field in base.manifest.schema.fields} - set(found.values())
            for field in side.manifest.schema.fields:
                if lost and field.id not in found:
                    was = self._returned(base, side, field, lost)
                    found |= {} if was is None else {field.id: was}
                    lost.discard(-1 if was is None else was)
            self._found[places] = found
        return self._found[places]

    def _direct(self, base: Snapshot, side: Snapshot) -> dict[int, int]:
        """Return the columns that the line kept, or that the first merge of the version brought."""
        places = _places(base, side)
        if places not in self._told_directly:
            # of versions that stand in for others, one may lead to itself
            self._told_directly[places] = {}
            try:
                self._told_directly[places] = self._followed(base, side)
            except SchemaMismatchError:
                del self._told_directly[places]
                raise
        return self._told_directly[places]

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
            # names may tell it that columns got since
            return by_name(base, side, self._recorded(base, side))
        return {
            now: of_merged[id_]
            for now, id_ in _origins(KeptColumns(merged, side), side).items()
            if id_ in of_merged
        }

    def _by_merge_bases(self, base: Snapshot, side: Snapshot) -> dict[int, int]:
        """Return the common columns of two versions, found by way of the merge bases."""
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
        """Return the ids of the version that a merge made, with those of a version it brought."""
        graph = self._graph
        done = None if merged.transaction is None else merged.transaction.operation
        if isinstance(done, Restore):
            old = graph.load(merged.location, done.version)
            if old is not None:
                return self._direct(base, old)
        theirs = _theirs(graph, merged)
        if theirs is not None:
            of_theirs, brought = self._direct(base, theirs), ids_of_theirs(merged)
            return {id_: of_theirs[at] for id_, at in brought.items() if at in of_theirs}
        # the names at the merge tell, or as soon after it as versions are there
        is_sure = graph.load(merged.location, merged.version - 1) is not None
        return by_name(base, merged, self._recorded(base, merged), check=not is_sure)

    def _recorded(self, base: Snapshot, merged: Snapshot) -> RecordedColumns | None:
        """Return the columns of a version with those of one that a merge brought, by its key."""
        graph, point = self._graph, self._graph.vector(base).point
        edges = [edge for edge in graph.vector(merged).edges.values() if edge.columns]
        error: SchemaMismatchError | None = None
        # of its own line the versions between tell most
        for edge in sorted(edges, key=lambda edge: edge.source != point[0]):
            location = graph.location(edge.source)
            theirs = None if location is None else graph.load(location, edge.version)
            if theirs is None or edge.uuid not in ("", theirs.transaction_uuid):
                continue
            if graph.vector(theirs).contains(*point):
                try:
                    of_theirs = self._direct(base, theirs)
                    return columns_of_record(edge.columns, merged).through(of_theirs.get)
                except SchemaMismatchError as untold:  # another key may tell it
                    error = untold
        if error is not None:
            raise error
        return None

    def _returned(
        self, base: Snapshot, side: Snapshot, field: LanceField, lost: Set[int]
    ) -> int | None:
        """Return which lost column a column is that the line dropped, and that came by a merge.

        Each merge of a line is looked at, the newest first; then those of the lines that came.
        """
        graph, point = self._graph, self._graph.vector(base).point
        seen, waiting = set[tuple[BranchLocation, int, int]](), deque([(side, field.id)])
        while waiting:
            now, id_ = waiting.popleft()
            if (now.location, now.version, id_) in seen:
                continue
            known = None
            for at, origin in _line_of(graph, common_ancestor(base, now), now):
                then = origin(id_)
                if then is None or (at.location, at.version, then) in seen:
                    break
                id_ = then
                seen.add((at.location, at.version, id_))
                # all versions of a line that contain the base tell the same, and all others
                contains = graph.vector(at).contains(*point)
                was = None if contains is known else self._direct(base, at).get(id_)
                if was in lost:
                    return was
                known = contains
                there = None if merged_by(at) is None else ids_of_theirs(at).get(id_)
                theirs = None if there is None else _theirs(graph, at)
                if there is not None and theirs is not None:
                    waiting.append((theirs, there))
                elif there is not None:
                    self._check_gone(base, side, field, at, there, lost)
        return None

    def _check_gone(
        self,
        base: Snapshot,
        side: Snapshot,
        field: LanceField,
        merged: Snapshot,
        there: int,
        lost: Set[int],
    ) -> None:
        """Refuse a column that may have come back by a merge of a version that is gone.

        The column had the id that a lost column had where both lines part.
        """
        start = _start_of(self._graph, base, merged)
        if start is None:
            return
        kept, before = KeptColumns(start, base), None
        for was in base.manifest.schema.fields:
            same = was.name == field.name or was.logical_type != field.logical_type
            if was.id not in lost or same or kept.origin(was.id) != there:
                continue
            # a column that was still there was compared when the merge was made
            before = before or _there(self._graph, merged.location, merged.version - 1)
            if before is None or was.id not in self._direct(base, before).values():
                why = "it came by a merge of a version that is gone"
                raise untold(field.name, side, was.name, base, why)


def _places(base: Snapshot, side: Snapshot) -> Hashable:
    return tuple((one.location, one.version) for one in (base, side))


def _theirs(graph: CommitGraph, merged: Snapshot) -> Snapshot | None:
    """Return the version that a merge brought, if it is there."""
    said = merged_by(merged)
    location = None if said is None else graph.location(said[0])
    if said is None or location is None:
        return None
    found = graph.load(location, said[1])
    return found if found is not None and found.transaction_uuid == said[2] else None


def _start_of(graph: CommitGraph, base: Snapshot, merged: Snapshot) -> Snapshot | None:
    """Return where the line of a version parts from the line of a version that a merge brought.

    A branch that was deleted began at the base of its merge, as far as anything tells.
    """
    own = {name: version for _, name, version in graph.chain(base.location, base.version)}
    for said in filter(None, (merged_by(merged, end) for end in ("theirs", "base"))):
        location = graph.location(said[0])
        for fork, name, version in () if location is None else graph.chain(location, said[1]):
            if name in own and (found := _there(graph, fork, min(version, own[name]))):
                return found
    return None


def _line_of(
    graph: CommitGraph, ancestor: Snapshot | None, side: Snapshot
) -> Iterator[tuple[Snapshot, Callable[[int], int | None]]]:
    """Yield a version and those that it comes from, newest first, until there are no more merges.

    With each version comes a function that returns its own id of a column of the version yielded
    before it.
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
            at = _there(graph, span.location, version)
            if at is not None and (at.location, at.version) != (side.location, side.version):
                yield at, KeptColumns(at, last).origin
                last = at


def _origins(kept: KeptColumns, side: Snapshot) -> dict[int, int]:
    found = ((id_, kept.origin(id_)) for id_ in fields_by_id(side))
    return {id_: origin for id_, origin in found if origin is not None}


def _joined(of_base: Mapping[int, int], of_side: Mapping[int, int]) -> dict[int, int]:
    """Return the ids of a version with those of another, both known by those of a third."""
    back = {origin: id_ for id_, origin in of_base.items()}
    return {id_: back[origin] for id_, origin in of_side.items() if origin in back}


def _free(pair: ColumnPair, taken: set[str]) -> ColumnPair:
    is_taken = pair.old is None or pair.old.name in taken
    return replace(pair, old=None, parts=()) if is_taken else pair


def _there(graph: CommitGraph, location: BranchLocation, version: int) -> Snapshot | None:
    try:
        return graph.load(location, version)
    except LancekitError:
        return None


def _first_to_contain(graph: CommitGraph, base: Snapshot, side: Snapshot) -> Snapshot:
    """Return the oldest version of a line that contains another one, as far as versions are there.

    It is the version that a merge made, or one of those that a cleanup left of the versions since.
    The line may have forked from it.
    """
    at = side
    name, version = graph.vector(base).point
    for location, _, last in graph.chain(side.location, side.version):
        earlier = [number for number in list_versions(location).versions if number <= last]
        for number in reversed(earlier[-_READ_VERSIONS:]):
            found = _there(graph, location, number)
            if found is None or not graph.vector(found).contains(name, version):
                return at
            at = found
    return at
