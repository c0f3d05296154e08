"""What changes of columns would do, by what plans them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from lancekit.operations.explain.explanation import (
    Explanation,
    Writes,
    explain_metadata,
    explanation,
    reads,
)
from lancekit.pipeline.columns.write import Maker, Streamed
from lancekit.pipeline.engine.engine import Choice, choose_engine
from lancekit.pipeline.engine.held_rows import in_memory
from lancekit.pipeline.engine.inputs import as_reader, is_spark_dataframe
from lancekit.versions.snapshot import Snapshot

__all__ = ["explain_add", "explain_alter", "explain_drop", "explain_join", "explain_replacement"]

_IN_ORDER = Choice("local", "the rows come in a stream, and are taken from it in order")


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
