"""What a scan looks at and reads; indices are asked, and no rows are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lancekit._operations.explain.advice import advice
from lancekit._operations.explain.explanation import (
    METADATA_ONLY,
    Explanation,
    PlanNode,
    explanation,
    reads,
)
from lancekit._operations.explain.nodes import (
    fetch_node,
    filter_node,
    project_node,
    read_node,
    selected_node,
)
from lancekit._pipeline.engine.engine import Choice
from lancekit._scan.scan import Scan
from lancekit._versions.snapshot import Snapshot

__all__ = ["explain_count", "explain_scan"]

_HERE = Choice("local", "the rows are asked for here; to_spark() reads them on the executors")


def explain_scan(
    snapshot: Snapshot,
    scan: Scan,
    *,
    order_by: Sequence[str] = (),
    operation: str = "scan",
    choice: Choice = _HERE,
) -> Explanation:
    """Explain a scan."""
    request, read = scan.request, scan.read
    asked, rest = _columns(scan, order_by)
    sources = read.fragments if scan.search is None else scan.sources
    rows = read.num_rows if scan.search is None else None
    stops = scan.limit is not None and scan.in_order and not order_by
    wanted = scan.limit if stops else rows
    return explanation(
        snapshot,
        operation,
        choice,
        plan=_plan(snapshot, scan, order_by),
        reads=reads(snapshot, [*asked, *rest], sources, wanted),
        notes=[
            *([] if scan.search is not None else advice(snapshot, request.predicate, read.lookup)),
            "the whole result is sorted in memory" if order_by else "",
        ],
    )


def _columns(scan: Scan, order_by: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the columns that are read to choose rows, and those read of the rows chosen."""
    request, search = scan.request, scan.search
    made = set() if search is None else {field.name for field in search.made}
    shown = {column for output in request.outputs for column in output.inputs} - made
    asked = [] if search is None else [*search.reads]
    if request.predicate is not None and not _is_exact(scan):
        asked += sorted(request.predicate.columns - made)
    sorts = [name for name in order_by if name not in made and name not in asked]
    return asked, [*sorted(shown.difference(asked, order_by)), *sorts]


def _is_exact(scan: Scan) -> bool:
    """Return whether indices know the rows exactly, so that the filter is asked of none."""
    return scan.search is None and scan.read.is_exact


def _plan(snapshot: Snapshot, scan: Scan, order_by: Sequence[str]) -> PlanNode:
    """Return the nodes of a scan: rows are read, filtered, searched, put in order, and cut."""
    request, search, read = scan.request, scan.search, scan.read
    predicate, (asked, rest) = request.predicate, _columns(scan, order_by)
    if scan.in_order:
        stops = scan.limit is not None and not order_by
        rows = min(read.num_rows, scan.limit or 0) if stops else None
        node = read_node(snapshot, rest, read, rows)
    elif search is None:
        node = fetch_node(snapshot, rest, read, selected_node(snapshot, asked, read, predicate))
    else:
        node = read_node(snapshot, asked, read)
        if predicate is not None and search.prefilter:
            node = filter_node(predicate, node)
        node = PlanNode("Search", search.told(scan), inputs=(node,))
        if predicate is not None and not search.prefilter:
            node = filter_node(predicate, node)
        node = fetch_node(snapshot, rest, read, node)
    computed = {one.field.name: one.expression.sql for one in request.outputs if one.expression}
    node = project_node(computed, node)
    if order_by:
        node = PlanNode("Sort", f"by {', '.join(order_by)}", inputs=(node,))
    limit = "" if scan.limit is None else f"{scan.limit:,} rows"
    offset = f"after the first {scan.offset:,}" if scan.offset else ""
    cut = " ".join(filter(None, [limit, offset]))
    return PlanNode("Limit", cut, inputs=(node,)) if cut else node


def explain_count(snapshot: Snapshot, scan: Scan | None) -> Explanation:
    """Explain a count of rows; without a filter the manifest knows."""
    if scan is None:
        return explanation(
            snapshot, "count_rows", METADATA_ONLY, notes=["the manifest says how many there are"]
        )
    told = explain_scan(snapshot, scan, operation="count_rows")
    return replace(told, plan=PlanNode("Count", inputs=tuple(filter(None, [told.plan]))))
