"""Explanations of the operations on a dataset: one function for each.

Each plans what the operation would do with the functions that the operation itself plans and
chooses with, and stops there.  Of the data files no more than the metadata of some is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lancekit.format.extensions import stored_schema
from lancekit.operations.columns.add import NewColumns, check_join_keys, plan_addition, rows_like
from lancekit.operations.columns.alter import (
    Alteration,
    alterations_by_field,
    altered,
    schema_without,
)
from lancekit.operations.columns.replace import plan_replacement
from lancekit.operations.explain.advice import advice
from lancekit.operations.explain.explanation import (
    METADATA_ONLY,
    Explanation,
    Reads,
    Writes,
    explanation,
    reads,
)
from lancekit.operations.maintenance.compact_plan import CompactionOptions, plan_compaction
from lancekit.operations.mem_wal.reader.newest import NewestOnly
from lancekit.operations.write import WriteMode
from lancekit.pipeline.casts.plan import plan_cast
from lancekit.pipeline.columns.write import Maker, Streamed
from lancekit.pipeline.engine.engine import Choice, choose_engine, choose_source
from lancekit.pipeline.engine.held_rows import in_memory
from lancekit.pipeline.engine.inputs import as_reader, is_spark_dataframe
from lancekit.scan.expressions.assignment import compile_assignment
from lancekit.scan.expressions.predicate import Predicate
from lancekit.scan.fragments.blobs import blob_view
from lancekit.scan.fragments.source import fragment_sources
from lancekit.scan.indexed.choice import RowChoice, row_choice
from lancekit.scan.indexed_rows import LookedAt, looked_at
from lancekit.scan.scan import Scan
from lancekit.versions.snapshot import Snapshot

__all__ = [
    "explain_add",
    "explain_alter",
    "explain_compaction",
    "explain_count",
    "explain_delete",
    "explain_drop",
    "explain_join",
    "explain_metadata",
    "explain_replacement",
    "explain_scan",
    "explain_update",
    "explain_write",
    "left_by_indices",
]

_HERE = Choice("local", "the rows are asked for here; to_spark() reads them on the executors")
_IN_ORDER = Choice("local", "the rows come in a stream, and are taken from it in order")


# ---- reading


def explain_scan(
    snapshot: Snapshot,
    scan: Scan,
    *,
    order_by: Sequence[str] = (),
    operation: str = "scan",
    choice: Choice = _HERE,
) -> Explanation:
    """Explain a scan."""
    request, search = scan.request, scan.search
    made = set() if search is None else {field.name for field in search.made}
    shown = {column for output in request.outputs for column in output.inputs} - made
    asked = () if request.predicate is None else sorted(request.predicate.columns - made)
    if search is not None:
        rows = sum(source.num_rows for source in scan.sources)
        names = [*search.reads, *asked, *sorted(shown.difference(asked))]
        return explanation(
            snapshot,
            operation,
            choice,
            reads=reads(snapshot, names, scan.sources),
            notes=[search.told(rows), _newest(request.predicate)],
        )
    columns = [*asked, *sorted(shown.difference(asked, order_by)), *order_by]
    seen = looked_at(scan.sources, scan.choice)
    stops = scan.limit is not None and request.predicate is None and not order_by
    wanted = (scan.limit or 0) if stops else seen.rows
    notes = [
        _newest(request.predicate),
        *_told(snapshot, scan.choice, seen),
        f"the filter is looked at first: of {', '.join(asked)} all "
        f"{'these ' if scan.choice is not None else ''}rows are read, of the other "
        "columns the blocks that have rows left"
        if asked
        else "",
        *advice(snapshot, request.predicate, scan.choice),
        "the whole result is sorted in memory" if order_by else "",
        f"it stops as soon as {scan.limit} rows are found"
        if scan.limit is not None and asked and not order_by
        else "",
    ]
    return explanation(
        snapshot,
        operation,
        choice,
        reads=reads(snapshot, columns, seen.sources, wanted),
        notes=notes,
    )


def _newest(predicate: Predicate | None) -> str:
    return predicate.told if isinstance(predicate, NewestOnly) else ""


def explain_count(snapshot: Snapshot, scan: Scan | None) -> Explanation:
    """Explain a count of rows; without a filter the manifest knows."""
    if scan is None:
        return explanation(
            snapshot, "count_rows", METADATA_ONLY, notes=["the manifest says how many there are"]
        )
    return explain_scan(snapshot, scan, operation="count_rows")


# ---- changing rows


def _predicate(snapshot: Snapshot, where: Any) -> Predicate:
    return Predicate.parse(where, blob_view(snapshot.manifest.schema).to_arrow())


def _told(snapshot: Snapshot, choice: RowChoice | None, seen: LookedAt) -> list[str]:
    """Say which indices are asked, and what they leave to be looked at."""
    if choice is None:
        return []
    return [choice.told(), left_by_indices(snapshot, seen)]


def left_by_indices(snapshot: Snapshot, seen: LookedAt) -> str:
    """Say what indices leave to be looked at."""
    manifest = snapshot.manifest
    return (
        f"by what they tell, {seen.rows:,} of {manifest.num_rows:,} rows are looked at, in "
        f"{len(seen.sources):,} of {len(manifest.fragments):,} fragments"
    )


def _looked_at(snapshot: Snapshot, predicate: Predicate | None) -> tuple[LookedAt, list[str]]:
    """Return where rows to be changed are looked for, as the change does, and what to say of it."""
    choice = row_choice(snapshot, predicate)
    seen = looked_at(fragment_sources(snapshot), choice)
    return seen, [*_told(snapshot, choice, seen), *advice(snapshot, predicate, choice)]


def explain_delete(snapshot: Snapshot, predicate: Any, operation: str = "delete") -> Explanation:
    """Explain a delete."""
    parsed = _predicate(snapshot, predicate)
    seen, notes = _looked_at(snapshot, parsed)
    return explanation(
        snapshot,
        operation,
        choose_engine(seen.rows),
        reads=reads(snapshot, sorted(parsed.columns), seen.sources, seen.rows),
        writes=Writes(what="a deletion file for each fragment that has such rows; no data file"),
        commits=["Delete"],
        notes=notes,
    )


def explain_update(snapshot: Snapshot, updates: Mapping[str, str], where: Any) -> Explanation:
    """Explain an update."""
    manifest = snapshot.manifest
    arrow = manifest.schema.to_arrow()
    for name, sql in updates.items():
        compile_assignment(manifest.schema.field(name).to_arrow(), sql, arrow)
    predicate = None if where is None else _predicate(snapshot, where)
    asked = () if predicate is None else sorted(predicate.columns)
    seen, notes = _looked_at(snapshot, predicate)
    everything = reads(snapshot, [*asked, *manifest.schema.names], seen.sources, seen.rows)
    return explanation(
        snapshot,
        "update",
        choose_engine(seen.rows),
        reads=everything if predicate is None else reads(snapshot, asked, seen.sources, seen.rows),
        writes=Writes(
            what="the changed rows, whole, in new files, and deletion files for the old ones",
            rows=seen.rows,
            bytes=everything.bytes,
        ),
        commits=["Update"],
        notes=[
            *notes,
            "the other columns are read for the rows that the condition selects" if asked else "",
        ],
    )


def explain_write(
    snapshot: Snapshot, data: Any, mode: WriteMode, schema: pa.Schema | None = None
) -> Explanation:
    """Explain rows that are appended, or that take the place of all rows."""
    if schema is not None and mode == "append":
        target = snapshot.manifest.schema.to_arrow()
        plan_cast(stored_schema(schema), target, allow_missing=True)
    frame = is_spark_dataframe(data)
    number = None if frame else getattr(data, "num_rows", None)
    size = None if frame else getattr(data, "nbytes", None)
    return explanation(
        snapshot,
        "insert",
        choose_source(data, is_frame=frame),
        writes=Writes(
            what="the rows, in new fragments",
            rows=number if isinstance(number, int) else None,
            bytes=size if isinstance(size, int) else None,
        ),
        commits=["Overwrite" if mode == "overwrite" else "Append"],
        notes=["old versions keep the rows that are there now"] if mode == "overwrite" else [],
    )


# ---- changing columns


def explain_add(snapshot: Snapshot, new: NewColumns) -> Explanation:
    """Explain new columns."""
    addition = plan_addition(snapshot, new)
    if addition.maker is None:
        note = "columns of nulls need no files"
        return explain_metadata(snapshot, "add_columns", ["Merge"], [note])
    return _columns(snapshot, "add_columns", addition.maker, addition.stored.names, "Merge")


def explain_join(
    snapshot: Snapshot,
    data: Any,
    left_on: str,
    operation: str,
    schema: pa.Schema | None = None,
    right_on: str | None = None,
) -> Explanation:
    """Explain columns of other rows that are found by a key."""
    manifest = snapshot.manifest
    frame = is_spark_dataframe(data)
    on = right_on or left_on
    if schema is None and in_memory(data) and not frame:
        schema = as_reader(data, like=rows_like(snapshot, left_on, on)).schema
    if schema is not None:
        check_join_keys(manifest.schema, stored_schema(schema), left_on, on, exact=False)
    return explanation(
        snapshot,
        operation,
        choose_engine(manifest.num_rows, on_spark=frame),
        reads=reads(snapshot, [left_on]),
        writes=Writes(
            what="a file with the new columns for each of the "
            f"{len(manifest.fragments)} fragments; the files that are there stay",
            rows=manifest.num_rows,
        ),
        commits=["Merge"],
    )


def explain_replacement(snapshot: Snapshot, new: NewColumns) -> Explanation:
    """Explain new values of whole columns."""
    planned = plan_replacement(snapshot, new)
    names = planned.stored.names
    return _columns(snapshot, "replace_columns", planned.maker, names, "DataReplacement")


def _columns(
    snapshot: Snapshot, operation: str, maker: Maker, names: Sequence[str], commits: str
) -> Explanation:
    manifest = snapshot.manifest
    streamed = isinstance(maker, Streamed)
    known = [name for name in names if name in manifest.schema]
    taken = reads(snapshot, maker.columns)
    return explanation(
        snapshot,
        operation,
        _IN_ORDER if streamed else choose_engine(manifest.num_rows),
        reads=None if streamed else taken,
        writes=Writes(
            what=f"a file with {', '.join(names)} for each of the {len(manifest.fragments)} "
            "fragments; the files that are there stay",
            rows=manifest.num_rows,
            bytes=reads(snapshot, known).bytes if known else None,
        ),
        commits=[commits],
    )


def explain_alter(snapshot: Snapshot, alterations: Sequence[Alteration]) -> Explanation:
    """Explain columns that are renamed, cast, or made nullable or not."""
    schema = snapshot.manifest.schema
    changes = alterations_by_field(schema, alterations)
    altered(snapshot, changes)
    casts = [a.path for _, a in changes.values() if a.data_type is not None]
    tightened = [a.path for f, a in changes.values() if a.nullable is False and f.nullable]
    if not casts and not tightened:
        return explain_metadata(snapshot, "alter_columns", ["Project"])
    rows = snapshot.manifest.num_rows
    return explanation(
        snapshot,
        "alter_columns",
        choose_engine(rows),
        reads=reads(snapshot, [*casts, *tightened]),
        writes=Writes(what="a file with the cast columns for each fragment", rows=rows)
        if casts
        else None,
        commits=["Merge" if casts else "Project"],
        notes=[f"nulls are looked for in {', '.join(tightened)}" if tightened else ""],
    )


def explain_drop(snapshot: Snapshot, columns: Iterable[str]) -> Explanation:
    """Explain columns that are dropped."""
    schema_without(snapshot.manifest.schema, columns)
    note = "the files stay as they are, so no room is gained"
    return explain_metadata(snapshot, "drop_columns", ["Project"], [note])


# ---- files and references


def explain_compaction(snapshot: Snapshot, options: CompactionOptions) -> Explanation:
    """Explain a compaction."""
    plan = plan_compaction(snapshot, options)
    ids = {fragment.id for task in plan.tasks for fragment in task.fragments}
    sources = [s for s in fragment_sources(snapshot) if s.fragment.id in ids]
    rows = sum(source.fragment.num_rows for source in sources)
    left = [
        f"{len(covered.fragment_ids)} fragments are left alone, because index {covered.index!r} "
        "covers them"
        for covered in plan.left_to_indices
    ]
    if not sources:
        note = "there is nothing to compact, so no version is made"
        return explain_metadata(snapshot, "compact_files", [], [note, *left])
    size = sum(file.size_bytes for source in sources for file in source.fragment.files)
    return explanation(
        snapshot,
        "compact_files",
        choose_engine(rows),
        reads=Reads(
            columns=tuple(snapshot.manifest.schema.names),
            rows=rows,
            fragments=len(sources),
            all_fragments=len(snapshot.manifest.fragments),
            bytes=size,
        ),
        writes=Writes(
            what=f"the same rows in new files, by {len(plan.tasks)} tasks", rows=rows, bytes=size
        ),
        commits=["ReserveFragments", "Rewrite"],
        notes=["old files stay until cleanup_old_versions() removes them", *left],
    )


def explain_metadata(
    snapshot: Snapshot, operation: str, commits: Iterable[str], notes: Iterable[str] = ()
) -> Explanation:
    """Explain what changes nothing but metadata."""
    return explanation(snapshot, operation, METADATA_ONLY, commits=commits, notes=notes)
