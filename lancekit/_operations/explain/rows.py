"""Explanations of deletes, updates, writes and changes of columns, from their plans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from lancekit._format.extensions import stored_schema
from lancekit._operations.add_columns import (
    NewColumns,
    check_join_keys,
    key_like,
    plan_addition,
    with_checkpoint,
)
from lancekit._operations.alter_columns import AlterPlan, columns_choice, schema_without
from lancekit._operations.delete import DeletePlan
from lancekit._operations.explain.explanation import (
    Explanation,
    PlanNode,
    Writes,
    explain_metadata,
    explanation,
    reads,
)
from lancekit._operations.explain.scans import (
    advice,
    fetch_node,
    project_node,
    read_node,
    selected_node,
)
from lancekit._operations.replace_columns import plan_replacement
from lancekit._operations.update import UpdatePlan
from lancekit._operations.write import WriteMode
from lancekit._pipeline.casts.plan import plan_cast
from lancekit._pipeline.column_patch import Assigned
from lancekit._pipeline.engine import choose_engine, choose_source
from lancekit._pipeline.inputs import as_reader, in_memory, is_spark_dataframe
from lancekit._pipeline.write_columns import Computed, Maker, Streamed
from lancekit._versions.snapshot import Snapshot


def explain_delete(plan: DeletePlan, operation: str = "delete") -> Explanation:
    """Explain a delete."""
    snapshot, read = plan.snapshot, plan.read
    columns = [] if read.is_exact else sorted(plan.predicate.columns)
    return explanation(
        snapshot,
        operation,
        plan.choice,
        plan=selected_node(snapshot, columns, read, plan.predicate),
        reads=reads(snapshot, columns, read.fragments, read.num_rows),
        writes=Writes(what="a deletion file for each fragment with matching rows; no data file"),
        commits=["Delete"],
        notes=advice(snapshot, plan.predicate, read.lookup),
    )


def explain_update(plan: UpdatePlan) -> Explanation:
    """Explain an update."""
    snapshot, predicate, read = plan.snapshot, plan.predicate, plan.read
    filter_columns = () if predicate is None else sorted(predicate.columns)
    names = [*filter_columns, *snapshot.manifest.schema.names]
    everything = reads(snapshot, names, read.fragments, read.num_rows)
    rows = selected_node(snapshot, names if predicate is None else filter_columns, read, predicate)
    if predicate is not None:
        known = () if read.is_exact else predicate.columns
        rows = fetch_node(snapshot, [name for name in names if name not in known], read, rows)
    values = {one.field.name: one.expression.sql for one in plan.assignments}
    return explanation(
        snapshot,
        "update",
        plan.choice,
        plan=project_node(values, rows),
        reads=everything,
        writes=Writes(
            what="whole changed rows in new files, and deletion files for the old rows",
            rows=read.num_rows,
            bytes=everything.bytes,
        ),
        commits=["Update"],
        notes=advice(snapshot, predicate, read.lookup),
    )


def explain_write(
    snapshot: Snapshot, data: object, mode: WriteMode, schema: pa.Schema | None = None
) -> Explanation:
    """Explain an append or an overwrite."""
    if schema is not None and mode == "append":
        plan_cast(stored_schema(schema), snapshot.manifest.schema.to_arrow(), allow_missing=True)
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
        notes=["old versions keep the current rows"] if mode == "overwrite" else [],
    )


# ---- changes of columns


def explain_add(snapshot: Snapshot, new: NewColumns) -> Explanation:
    """Explain new columns."""
    addition = plan_addition(snapshot, with_checkpoint(snapshot, new))
    if addition.maker is None:
        note = "columns of nulls are not stored in files"
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
    """Explain new columns that are joined by a key."""
    manifest = snapshot.manifest
    frame = is_spark_dataframe(data)
    on = right_on or left_on
    if schema is None and in_memory(data) and not frame:
        schema = as_reader(data, like=key_like(snapshot, left_on, on)).schema
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
            what=f"a file with the new columns for each of the {len(manifest.fragments)} "
            "fragments; existing files are kept",
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
    return explanation(
        snapshot,
        operation,
        columns_choice(snapshot, maker),
        plan=_maker_node(snapshot, maker, names),
        reads=None if isinstance(maker, Streamed) else reads(snapshot, maker.columns),
        writes=Writes(
            what=f"a file with {', '.join(names)} for each of the {len(manifest.fragments)} "
            "fragments; existing files are kept",
            rows=manifest.num_rows,
            bytes=reads(snapshot, known).bytes if known else None,
        ),
        commits=[commits],
    )


def _maker_node(snapshot: Snapshot, maker: Maker, names: Sequence[str]) -> PlanNode:
    """Return the plan nodes of columns that are computed from others, or that a stream has."""
    if isinstance(maker, Streamed):
        return PlanNode("Source", ", ".join(names))
    node = read_node(snapshot, maker.columns)
    if isinstance(maker, Computed):
        texts = [one.sql for one in maker.expressions]
        return project_node(dict(zip(names, texts, strict=True)), node)
    if isinstance(maker, Assigned):
        return project_node({a.field.name: a.expression.sql for a in maker.assignments}, node)
    return PlanNode("Call", f"the function that computes {', '.join(names)}", inputs=(node,))


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
        notes=[f"{', '.join(tightened)} is checked for nulls" if tightened else ""],
    )


def explain_drop(snapshot: Snapshot, columns: Iterable[str]) -> Explanation:
    """Explain columns that are dropped."""
    schema_without(snapshot.manifest.schema, columns)
    note = "no files change, so no space is freed"
    return explain_metadata(snapshot, "drop_columns", ["Project"], [note])
