"""The merge base of two versions, and the marks that merges leave in the config.

The commit of a merge records in the config of the target up to which version the target contains
the source.  So a merge lands once, however often it is tried, and the next merge starts there.
`lancekit._versions.commit_graph` finds the merge bases.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from lancekit._commit.rules.pending import BatchMarker
from lancekit._format.fragment import FragmentList
from lancekit._format.schema import LanceField, LanceSchema
from lancekit._legible import literal
from lancekit._operations.lineage.changed import Changed
from lancekit._operations.lineage.columns import column_pairs, ids_of_pairs
from lancekit._operations.lineage.contained_columns import contained_columns
from lancekit._pipeline.diff.column_identity import fields_by_id
from lancekit._pipeline.diff.fragments import ColumnPair
from lancekit._pipeline.diff.recorded_columns import record_of_columns
from lancekit._versions.ancestor import unique_name
from lancekit._versions.commit_graph import CommitGraph, CommonVersion
from lancekit._versions.merge_edges import (
    MERGE_KEYS,
    MergeEdge,
    SharedIds,
    VersionVector,
    merge_edges,
    newer_versions,
    pick_key,
    return_key,
)
from lancekit._versions.references import Reference, resolve
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, SchemaMismatchError, VersionNotFoundError

_WITHOUT_A_BASE = (
    "base=0 merges by key without a base: rows that only the source has are inserted, rows that "
    "differ are conflicts, and no row is deleted."
)


def merge_base(theirs: Snapshot, ours: Snapshot) -> Changed:
    """Return the changes of the source since the merge base: the newest version that both contain.

    Raises VersionNotFoundError: the merge base is gone, or unknown (a damaged branch file).
    """
    graph = CommitGraph(ours.location)
    if graph.is_merged(theirs, ours):
        return _marked(Changed(base=theirs, theirs=theirs, is_merged=True), ours, graph)
    left, right = graph.vector(theirs), graph.vector(ours)
    bases = graph.merge_bases(theirs, ours)
    if not bases:
        raise VersionNotFoundError(
            f"{theirs.called} and {ours.called} have no common version.", hint=_WITHOUT_A_BASE
        )
    if len(bases) > 1:
        # prefer the base that the target copied, if the target has not changed since
        points = {(base.name, base.version): base for base in bases}
        repeated = filter(points.get, graph.repeats(*right.point))
        bases = [points[point] for point in islice(repeated, 1)] or bases
    there = []
    for base in bases:
        if base.snapshot is None:
            raise _missing_base(base, theirs, ours, graph)
        there.append((base, base.snapshot))
    # the user sees the first base; without a sort the order depends on random branch ids
    order = [theirs.location, ours.location]
    there.sort(
        key=lambda one: (
            order.index(one[0].location) if one[0].location in order else 2,
            one[1].reference,
        )
    )
    base, snapshot = there[0]
    our_copy, their_copy = (_fast_forward_copy(base, side, graph) for side in (ours, theirs))
    start = None
    # a branch that merely merged the base has different fragments and row ids
    if their_copy is not None or left.chain.get(base.name, 0) >= base.version:
        is_own = len(there) == 1 and right.chain.get(base.name, 0) >= base.version
        start = our_copy or (snapshot if is_own else None)
    found = Changed(
        base=snapshot,
        theirs=theirs,
        our_copy=our_copy,
        their_copy=their_copy,
        other_bases=tuple(found for _, found in there[1:]),
        start=start,
        is_behind=graph.is_merged(ours, theirs),
    )
    return _marked(found, ours, graph)


def named_base(theirs: Snapshot, ours: Snapshot, reference: Reference) -> Changed:
    """Return the changes of the source since a merge base that the user named.

    Version 0 is a table without rows.

    Raises InvalidArgumentError: one of the sides does not contain the base.
    Raises SchemaMismatchError: the base is version 0, and a column has two different names.
    Raises VersionNotFoundError, BranchNotFoundError, TagNotFoundError: the base does not exist.
    """
    graph = CommitGraph(ours.location)
    if reference.version == 0:
        pairs = [pair for pair in column_pairs(theirs, ours) if pair.old is not None]
        _check_names(pairs, theirs, ours)
        base = _emptied(theirs, {pair.old.name for pair in pairs if pair.old is not None})
        found = Changed(base=base, theirs=theirs, our_copy=_emptied(ours, {p.name for p in pairs}))
    else:
        base = resolve(ours.location, reference)
        name, version = graph.vector(base).point
        for side in (theirs, ours):
            if not graph.vector(side).contains(name, version):
                raise InvalidArgumentError(
                    f"{base.called} cannot be the merge base: {side.called} does not contain it.",
                    hint="Pass a version that both branches contain; base=0 merges by key without "
                    "a base.",
                    base=base.reference,
                )
        found = Changed(base=base, theirs=theirs)
    return _marked(replace(found, is_merged=graph.is_merged(theirs, ours)), ours, graph)


def _check_names(pairs: Sequence[ColumnPair], theirs: Snapshot, ours: Snapshot) -> None:
    """Refuse columns with two different names: without a base, it is unknown who renamed them."""
    for pair in pairs:
        if pair.old is not None and pair.old.name != pair.name:
            raise SchemaMismatchError(
                f"Column {literal(pair.name)} of {ours.called} is column {literal(pair.old.name)} "
                f"of {theirs.called}, and without a base (base=0) it is unknown which name is "
                "newer.",
                hint="Rename the column on one branch with alter_columns first, or pass a base.",
                column=pair.name,
            )


def _emptied(side: Snapshot, columns: Set[str]) -> Snapshot:
    """Return version 0 of a branch: some columns of a version, and no rows."""
    schema = side.manifest.schema
    fields = tuple(field for field in schema.fields if field.name in columns)
    manifest = replace(
        side.manifest,
        version=0,
        fragments=FragmentList(),
        schema=replace(schema, fields=fields),
        index_section=None,
    )
    return replace(side, manifest=manifest)


def _marked(found: Changed, ours: Snapshot, graph: CommitGraph) -> Changed:
    """Return the changes with the config marks that their merge commit writes."""
    theirs = found.theirs
    left, right = graph.vector(theirs), graph.vector(ours)
    target = graph.chain(ours.location, ours.version)[0][1]
    # a branch without commits since its fork has the transaction of another branch
    own = graph.chain(theirs.location, theirs.version)[0][1]
    uuid = theirs.transaction_uuid if left.point[0] == own else ""
    edges = merge_edges(left, uuid, right, target)
    marks = [BatchMarker(key=one.key, number=one.version, origin=one.origin) for one in edges]
    if edges:
        picks = newer_versions(left.picks, [right.picks]).items()
        returns = newer_versions(left.returns, [right.returns]).items()
        marks += [BatchMarker(key=pick_key(n, target), number=v) for n, v in picks if n != target]
        marks += [BatchMarker(key=return_key(n, target), number=v) for n, v in returns]
    return replace(found, mark=marks[0] if marks else None, implied=tuple(marks[1:]))


def _is_forked(base: CommonVersion, left: VersionVector, right: VersionVector) -> bool:
    """Return True if both sides contain the base by their forks alone, not by a merge."""
    forks = [side.chain.get(base.name) for side in (left, right)]
    known = [version for version in forks if version is not None]
    return len(known) == 2 and base.version == min(known)


def _missing_base(
    base: CommonVersion, theirs: Snapshot, ours: Snapshot, graph: CommitGraph
) -> VersionNotFoundError:
    """Return the error for a merge base that is gone."""
    left, right = graph.vector(theirs), graph.vector(ours)
    merged = "" if _is_forked(base, left, right) else ", up to which it was merged"
    hint = _WITHOUT_A_BASE
    for name in [*left.chain, *right.chain]:
        version = min(left.versions.get(name, 0), right.versions.get(name, 0))
        location = graph.location(name)
        if version and location is not None and graph.load(location, version) is not None:
            older = f"base={(location.name, version)!r}"
            hint = (
                f"{older} is an older base: common changes since then count as changes of both "
                f"sides, and values that one side received and reverted count as unchanged. {hint}"
            )
            break
    why = "was cleaned up, or its number was reused"
    if base.location is None:
        why = "was deleted with its branch"
    return VersionNotFoundError(
        f"The merge base of {theirs.called} and {ours.called} is missing: {base.called}{merged}, "
        f"{why}.",
        hint=f"{hint} Tag a version to keep it from pylance's cleanup.",
        version=base.version,
    )


def commits_unmerged(source: Snapshot, target: Snapshot) -> int:
    """Count the versions of a source branch that a target does not contain; 0 if unknown."""
    graph = CommitGraph(source.location)
    if graph.is_merged(source, target):
        return 0
    known = graph.vector(target).versions
    # version numbers of a branch continue from its fork
    there = [
        min(known[name], version)
        for _, name, version in graph.chain(source.location, source.version)
        if name in known
    ]
    return source.version - max(there, default=source.version)


def _fast_forward_copy(base: CommonVersion, side: Snapshot, graph: CommitGraph) -> Snapshot | None:
    """Return the version of a side that fast-forwarded to a merge base, if any."""
    vector = graph.vector(side)
    edge = vector.edges.get(base.name)
    if base.stands_in or edge is None or edge.version != base.version:
        return None
    if vector.chain.get(base.name, 0) >= base.version or edge.taken_by is None:
        return None
    if edge.taken_by == side.version:
        return side
    return graph.taken_by(edge) if edge.target else graph.load(side.location, edge.taken_by)


# ---- the config keys that a merge writes, with the matched columns of each source

#: columns and their parts, each with the same column in the merged version
OfTheirs = Sequence[tuple[LanceField, LanceField | None]]


def fast_forward_mark(mark: BatchMarker, theirs: Snapshot, version: int) -> BatchMarker:
    """Return the mark of a fast-forward, which records the shared row ids."""
    edge = MergeEdge.parse(mark.key, mark.text, "", "")
    ids = edge.ids
    if theirs.manifest.has_stable_row_ids:
        ids = SharedIds(mark.number, version, theirs.manifest.next_row_id)
    columns = record_of_columns(theirs.manifest.schema.walk(), theirs)
    edge = replace(edge, taken_by=version, ids=ids, columns=columns)
    return replace(mark, origin=edge.origin)


def merged_mark(
    mark: BatchMarker, schema: LanceSchema, theirs: Snapshot, columns: OfTheirs
) -> BatchMarker:
    """Return the mark of a three-way merge, which records the columns of its schema."""
    return _recorded(mark, record_of_columns(schema.walk(), theirs, columns))


def implied_marks(
    marks: Sequence[BatchMarker], schema: LanceSchema, theirs: Snapshot, columns: OfTheirs
) -> tuple[BatchMarker, ...]:
    """Return the marks of other branches that the source contains, for the config of the target.

    A mark does not record columns if its version is gone, or its columns cannot all be matched.
    """
    graph = CommitGraph(theirs.location)
    return tuple(_implied(graph, mark, schema, theirs, columns) for mark in marks)


def picked_marks(base: Snapshot, theirs: Snapshot, ours: Snapshot) -> tuple[BatchMarker, ...]:
    """Return the marks of a cherry-pick that inserts rows; none if a key identifies the rows.

    The target assigns new row ids to the rows.  The marks name the versions that may have the same
    rows under other ids, so that a later merge does not treat them as different rows.
    """
    mine = ours.manifest
    is_matched = bool(mine.schema.primary_key) or not mine.has_stable_row_ids
    if is_matched or theirs.location == ours.location or theirs.location.root != ours.location.root:
        return ()
    graph = CommitGraph(ours.location)
    here = [one for one in (base, ours) if one.location.root == ours.location.root]
    known = [graph.vector(one).rows_of for one in here]
    target = graph.chain(ours.location, ours.version)[0][1]
    return tuple(
        BatchMarker(key=pick_key(name, target), number=version)
        for name, version in newer_versions(graph.vector(theirs).rows_of, known).items()
        if name != target
    )


def returned_mark(ours: Snapshot) -> BatchMarker:
    """Return the mark of a commit that restores deleted rows of the target under new row ids.

    The commit becomes the next version.
    """
    target = unique_name(ours.location)
    return BatchMarker(key=return_key(target, target), number=ours.version + 1)


def _implied(
    graph: CommitGraph, mark: BatchMarker, schema: LanceSchema, theirs: Snapshot, columns: OfTheirs
) -> BatchMarker:
    source = _source(graph, mark, theirs)
    if source is None:
        return mark
    with suppress(SchemaMismatchError):
        known = dict(ids_of_pairs(contained_columns(source, theirs)))
        fields = fields_by_id(source)
        if fields.keys() - known.values() and any(there is None for _, there in columns):
            return mark  # the target may have a column of the source that the source dropped
        found = [(new, there and fields.get(known.get(there.id, -1))) for new, there in columns]
        return _recorded(mark, record_of_columns(schema.walk(), source, found))
    return mark


def _source(graph: CommitGraph, mark: BatchMarker, theirs: Snapshot) -> Snapshot | None:
    """Return the version that a mark names; ``None`` if it is gone."""
    edge = MergeEdge.parse(mark.key, mark.text, "", "")
    rest = mark.key.removeprefix(MERGE_KEYS)
    name = next((one for one in graph.vector(theirs).versions if rest.startswith(f"{one}.")), "")
    location = graph.location(name)
    found = None if location is None else graph.load(location, edge.version)
    return found if found is not None and edge.uuid in ("", found.transaction_uuid) else None


def _recorded(mark: BatchMarker, columns: str) -> BatchMarker:
    edge = MergeEdge.parse(mark.key, mark.text, "", "")
    return replace(mark, origin=replace(edge, columns=columns).origin)
