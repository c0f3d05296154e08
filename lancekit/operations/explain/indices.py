"""Explanations of what is done with indices, and of a check of all files."""

from __future__ import annotations

from collections.abc import Iterator

from lancekit.index.build.builders import parsed_parameters
from lancekit.index.kinds import kept_up_as
from lancekit.legible import plural
from lancekit.operations.explain.explanation import (
    Explanation,
    Writes,
    explanation,
    reads,
)
from lancekit.operations.index.create import (
    IndexRequest,
    check_name,
    default_name,
    index_engine,
    segments_of,
)
from lancekit.operations.index.optimize import OptimizeRequest, column_of_index, optimized_names
from lancekit.operations.index.rows import live_fragments
from lancekit.operations.index.segments import check_readable, indexed_field
from lancekit.pipeline.engine.engine import Choice, choose_engine
from lancekit.scan.fragments.source import fragment_sources
from lancekit.versions.snapshot import Snapshot

__all__ = ["explain_index", "explain_optimize_indices", "explain_validate"]

_HERE = Choice("local", "indices are kept up in this process, whatever their size")
_NOTHING = "the indices cover all rows, so that no version is made"


def explain_index(snapshot: Snapshot, request: IndexRequest, operation: str) -> Explanation:
    """Explain how an index would be made.

    Raises
    ------
    ColumnNotFoundError, InvalidTypeError, IndexExistsError, InvalidArgumentError
        As `create_index`.
    """
    parsed_parameters(request.kind, request.parameters)
    check_readable(request.kind, snapshot)
    column = indexed_field(snapshot, request.column, request.kind)
    name = request.name or default_name(snapshot, column, request.kind)
    check_name(snapshot, column, name, replace=request.replace)
    choice, rows = index_engine(snapshot, request), snapshot.manifest.num_rows
    replaced = any(index.name == name for index in snapshot.indices)
    return explanation(
        snapshot,
        operation,
        choice,
        reads=reads(snapshot, [column.path]) if request.train else None,
        writes=Writes(
            what=f"the files of index {name!r}, of type {request.kind.label}",
            rows=rows if request.train else 0,
            exact=True,
        ),
        commits=["CreateIndex"],
        notes=[
            f"it takes the place of the index {name!r} that is there" if replaced else "",
            "tasks index groups of fragments, and further tasks join what these made"
            if choice.engine == "spark"
            else "",
            "" if request.train else "it covers no rows before optimize_indices() adds them",
        ],
    )


def explain_optimize_indices(snapshot: Snapshot, request: OptimizeRequest) -> Explanation:
    """Explain which rows would be put into which indices; of index files none is read.

    Raises
    ------
    IndexNotFoundError, NotOfferedError
        As `optimize_indices`.
    """
    notes, columns, missing = [], list[str](), set[int]()
    for name, column, uncovered in _behind(snapshot, request):
        ids = set(uncovered)
        rows = sum(f.num_rows for f in snapshot.manifest.fragments if f.id in ids)
        into = "made anew of" if request.retrain else "gets"
        notes.append(
            f"index {name!r} {into} {plural(rows, 'row')} of {plural(len(ids), 'fragment')}"
        )
        columns.append(column)
        missing |= ids
    if not notes:
        return explanation(snapshot, "optimize_indices", _HERE, notes=[_NOTHING])
    sources = [one for one in fragment_sources(snapshot) if one.fragment.id in missing]
    segments = (
        "each index is one segment then"
        if request.retrain
        else f"the rows join the newest {plural(request.merge, 'segment')} of each index"
        if request.merge
        else "the rows become a segment of their own in each index"
    )
    return explanation(
        snapshot,
        "optimize_indices",
        _HERE,
        reads=reads(snapshot, columns, sources),
        writes=Writes(what=f"new files of {plural(len(notes), 'index', 'indices')}"),
        commits=["CreateIndex"],
        notes=[*notes, segments],
    )


def _behind(
    snapshot: Snapshot, request: OptimizeRequest
) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yield the indices that lack rows, with their columns and the fragments that they lack."""
    live = [int(id_) for id_ in snapshot.manifest.fragments.ids]
    for name in optimized_names(snapshot, request):
        segments = segments_of(snapshot, name)
        covered = {id_ for index in segments for id_ in live_fragments(index, snapshot)}
        wanted = live if request.retrain else [id_ for id_ in live if id_ not in covered]
        if wanted and kept_up_as(segments[-1]) is not None:
            yield name, column_of_index(snapshot, segments[-1]).path, tuple(wanted)


def explain_validate(snapshot: Snapshot, *, deep: bool) -> Explanation:
    """Explain a check of a version: of each file its frame, and if it is `deep` all values."""
    schema = snapshot.manifest.schema
    return explanation(
        snapshot,
        "validate",
        choose_engine(snapshot.manifest.num_rows if deep else 0),
        reads=reads(snapshot, schema.names if deep else []),
        notes=[
            "every value is read, and checksums are compared where files have them"
            if deep
            else "of each file the frame is read, and no values"
        ],
    )
