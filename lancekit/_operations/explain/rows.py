"""What a delete, an update and a write would do: what their plans say."""

from __future__ import annotations

import pyarrow as pa

from lancekit._format.extensions import stored_schema
from lancekit._operations.delete import DeletePlan
from lancekit._operations.explain.advice import advice
from lancekit._operations.explain.explanation import (
    Explanation,
    Writes,
    explanation,
    reads,
)
from lancekit._operations.explain.nodes import fetch_node, project_node, selected_node
from lancekit._operations.update import UpdatePlan
from lancekit._operations.write import WriteMode
from lancekit._pipeline.casts.plan import plan_cast
from lancekit._pipeline.engine.engine import choose_source
from lancekit._pipeline.engine.inputs import is_spark_dataframe
from lancekit._versions.snapshot import Snapshot

__all__ = ["explain_delete", "explain_update", "explain_write"]


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
        writes=Writes(what="a deletion file for each fragment that has such rows; no data file"),
        commits=["Delete"],
        notes=advice(snapshot, plan.predicate, read.lookup),
    )


def explain_update(plan: UpdatePlan) -> Explanation:
    """Explain an update."""
    snapshot, predicate, read = plan.snapshot, plan.predicate, plan.read
    asked = () if predicate is None else sorted(predicate.columns)
    names = [*asked, *snapshot.manifest.schema.names]
    everything = reads(snapshot, names, read.fragments, read.num_rows)
    rows = selected_node(snapshot, names if predicate is None else asked, read, predicate)
    if predicate is not None:
        known = () if read.is_exact else predicate.columns
        others = [name for name in names if name not in known]
        rows = fetch_node(snapshot, others, read, rows)
    values = {one.field.name: one.expression.sql for one in plan.assignments}
    return explanation(
        snapshot,
        "update",
        plan.choice,
        plan=project_node(values, rows),
        reads=everything,
        writes=Writes(
            what="the changed rows, whole, in new files, and deletion files for the old ones",
            rows=read.num_rows,
            bytes=everything.bytes,
        ),
        commits=["Update"],
        notes=advice(snapshot, predicate, read.lookup),
    )


def explain_write(
    snapshot: Snapshot, data: object, mode: WriteMode, schema: pa.Schema | None = None
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
