"""The config keys that a merge writes, with which columns of the merge are which of each source."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from lancekit._commit.rules.exactly_once import BatchMarker
from lancekit._format.schema import LanceField, LanceSchema
from lancekit._operations.lineage.columns import ids_of_pairs
from lancekit._operations.lineage.contained_columns import contained_columns
from lancekit._pipeline.diff.column_identity import fields_by_id
from lancekit._pipeline.diff.recorded_columns import record_of_columns
from lancekit._versions.ancestor import unique_name
from lancekit._versions.commit_graph import CommitGraph
from lancekit._versions.merge_edges import (
    MERGE_KEYS,
    MergeEdge,
    SharedIds,
    newer_versions,
    pick_key,
    return_key,
)
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import SchemaMismatchError

__all__ = ["implied_marks", "merged_mark", "picked_marks", "returned_mark", "taken_mark"]

#: columns and their parts, each with the one that it is in the merged version
OfTheirs = Sequence[tuple[LanceField, LanceField | None]]


def taken_mark(mark: BatchMarker, theirs: Snapshot, version: int) -> BatchMarker:
    """Return the mark of a merge whose rows a version takes over as they are, with their ids."""
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
    """Return the mark of a merge with a schema."""
    return _recorded(mark, record_of_columns(schema.walk(), theirs, columns))


def implied_marks(
    marks: Sequence[BatchMarker], schema: LanceSchema, theirs: Snapshot, columns: OfTheirs
) -> tuple[BatchMarker, ...]:
    """Return the marks of the other branches that come with a merge.

    A mark whose version is gone says nothing of columns, nor does one of which the versions of
    theirs do not tell all columns.
    """
    graph = CommitGraph(theirs.line)
    return tuple(_implied(graph, mark, schema, theirs, columns) for mark in marks)


def picked_marks(base: Snapshot, theirs: Snapshot, ours: Snapshot) -> tuple[BatchMarker, ...]:
    """Return the marks of a pick that inserts rows, if only their ids tell them.

    The target gives the rows ids of its own.  The marks name the versions that may have the same
    rows, so that a later merge does not take them for others.
    """
    mine = ours.manifest
    is_told = bool(mine.schema.primary_key) or not mine.has_stable_row_ids
    if is_told or theirs.line == ours.line or theirs.line.root != ours.line.root:
        return ()
    graph = CommitGraph(ours.line)
    here = [one for one in (base, ours) if one.line.root == ours.line.root]
    known = [graph.vector(one).rows_of for one in here]
    target = graph.chain(ours.line, ours.version)[0][1]
    return tuple(
        BatchMarker(key=pick_key(name, target), number=version)
        for name, version in newer_versions(graph.vector(theirs).rows_of, known).items()
        if name != target
    )


def returned_mark(ours: Snapshot) -> BatchMarker:
    """Return the mark of a commit that brings deleted rows of ours back under new row ids.

    The commit is the next version.
    """
    target = unique_name(ours.line)
    return BatchMarker(key=return_key(target, target), number=ours.version + 1)


def _implied(
    graph: CommitGraph,
    mark: BatchMarker,
    schema: LanceSchema,
    theirs: Snapshot,
    columns: OfTheirs,
) -> BatchMarker:
    source = _source(graph, mark, theirs)
    if source is None:
        return mark
    with suppress(SchemaMismatchError):
        known = dict(ids_of_pairs(contained_columns(source, theirs)))
        fields = fields_by_id(source)
        if fields.keys() - known.values() and any(there is None for _, there in columns):
            return mark  # the target may have a column of the source that theirs dropped
        found = [(new, there and fields.get(known.get(there.id, -1))) for new, there in columns]
        return _recorded(mark, record_of_columns(schema.walk(), source, found))
    return mark


def _source(graph: CommitGraph, mark: BatchMarker, theirs: Snapshot) -> Snapshot | None:
    """Return the version that a mark names, if it is there."""
    edge = MergeEdge.parse(mark.key, mark.text, "", "")
    rest = mark.key.removeprefix(MERGE_KEYS)
    name = next((one for one in graph.vector(theirs).versions if rest.startswith(f"{one}.")), "")
    line = graph.line(name)
    found = None if line is None else graph.load(line, edge.version)
    return found if found is not None and edge.uuid in ("", found.transaction_uuid) else None


def _recorded(mark: BatchMarker, columns: str) -> BatchMarker:
    edge = MergeEdge.parse(mark.key, mark.text, "", "")
    return replace(mark, origin=replace(edge, columns=columns).origin)
