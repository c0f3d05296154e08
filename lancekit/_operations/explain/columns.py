"""What changes of columns would do, by what plans them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from lancekit._format.extensions import stored_schema
from lancekit._operations.columns.add import (
    NewColumns,
    check_join_keys,
    plan_addition,
    rows_like,
    with_checkpoint,
)
from lancekit._operations.columns.alter import AlterPlan, columns_choice, schema_without
from lancekit._operations.columns.replace import plan_replacement
from lancekit._operations.explain.explanation import (
    Explanation,
    PlanNode,
    Writes,
    explain_metadata,
    explanation,
    reads,
)
from lancekit._operations.explain.nodes import project_node, read_node
from lancekit._pipeline.columns.replace import Assigned
from lancekit._pipeline.columns.write import Computed, Maker, Streamed
from lancekit._pipeline.engine.engine import choose_engine
from lancekit._pipeline.engine.held_rows import in_memory
from lancekit._pipeline.engine.inputs import as_reader, is_spark_dataframe
from lancekit._versions.snapshot import Snapshot

__all__ = ["explain_add", "explain_alter", "explain_drop", "explain_join", "explain_replacement"]


def explain_add(snapshot: Snapshot, new: NewColumns) -> Explanation:
    """Explain new columns."""
    addition = plan_addition(snapshot, with_checkpoint(snapshot, new))
    if addition.maker is None:
        note = "columns of nulls need no files"
        return explain_metadata(snapshot, "add_columns", ["Merge"], [note])
    return _columns(snapshot, "add_columns", addition.maker, addition.stored.names, "Merge")


def explain_join(
    snapshot: Snapshot,
    data: object,
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
    keys = read_node(snapshot, [left_on])
    return explanation(
        snapshot,
        operation,
        choose_engine(manifest.num_rows, on_spark=frame),
        plan=PlanNode("MatchKeys", left_on, inputs=(PlanNode("Source"), keys)),
        reads=keys.reads,
        writes=Writes(
            what="a file with the new columns for each of the "
            f"{len(manifest.fragments)} fragments; the files that are there stay",
            rows=manifest.num_rows,
        ),
        commits=["Merge"],
    )


def explain_replacement(snapshot: Snapshot, new: NewColumns) -> Explanation:
    """Explain new values of whole columns."""
    planned = plan_replacement(snapshot, with_checkpoint(snapshot, new))
    names = planned.stored.names
    return _columns(snapshot, "replace_columns", planned.maker, names, "DataReplacement")


def _columns(
    snapshot: Snapshot, operation: str, maker: Maker, names: Sequence[str], commits: str
) -> Explanation:
    manifest = snapshot.manifest
    known = [name for name in names if name in manifest.schema]
    plan = _made(snapshot, maker, names)
    return explanation(
        snapshot,
        operation,
        columns_choice(snapshot, maker),
        plan=plan,
        reads=None if isinstance(maker, Streamed) else reads(snapshot, maker.columns),
        writes=Writes(
            what=f"a file with {', '.join(names)} for each of the {len(manifest.fragments)} "
            "fragments; the files that are there stay",
            rows=manifest.num_rows,
            bytes=reads(snapshot, known).bytes if known else None,
        ),
        commits=[commits],
    )


def _made(snapshot: Snapshot, maker: Maker, names: Sequence[str]) -> PlanNode:
    """Return the nodes of columns that are made of others, or that a stream has."""
    if isinstance(maker, Streamed):
        return PlanNode("Source", ", ".join(names))
    node = read_node(snapshot, maker.columns)
    if isinstance(maker, Computed):
        texts = [one.sql for one in maker.expressions]
        return project_node(dict(zip(names, texts, strict=True)), node)
    if isinstance(maker, Assigned):
        return project_node({a.field.name: a.expression.sql for a in maker.assignments}, node)
    return PlanNode("Call", f"the function that makes {', '.join(names)}", inputs=(node,))


def explain_alter(plan: AlterPlan) -> Explanation:
    """Explain columns that are renamed, cast, or made nullable or not."""
    snapshot, casts, tightened = plan.snapshot, plan.casts, plan.tightened
    if not casts and not tightened:
        return explain_metadata(snapshot, "alter_columns", ["Project"])
    rows = snapshot.manifest.num_rows
    node = read_node(snapshot, [*casts, *tightened])
    return explanation(
        snapshot,
        "alter_columns",
        plan.choice,
        plan=PlanNode("Cast", ", ".join(casts), inputs=(node,)) if casts else node,
        reads=node.reads,
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
