"""What a scan looks at and reads; indices are asked, and no rows are read."""

from __future__ import annotations

from collections.abc import Sequence

from lancekit.operations.explain.advice import advice
from lancekit.operations.explain.explanation import (
    METADATA_ONLY,
    Explanation,
    explanation,
    reads,
)
from lancekit.operations.mem_wal.reader.newest import newest_in
from lancekit.pipeline.engine.engine import Choice
from lancekit.scan.expressions.predicate import Predicate
from lancekit.scan.read import Read
from lancekit.scan.scan import Scan
from lancekit.versions.snapshot import Snapshot

__all__ = ["asked_indices", "explain_count", "explain_scan", "left_by_indices"]

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
    read = scan.read
    stops = scan.limit is not None and request.predicate is None and not order_by
    wanted = (scan.limit or 0) if stops else read.num_rows
    notes = [
        _newest(request.predicate),
        *asked_indices(snapshot, read),
        f"the filter is looked at first: of {', '.join(asked)} all "
        f"{'these ' if read.lookup is not None else ''}rows are read, of the other "
        "columns the blocks that have rows left"
        if asked
        else "",
        *advice(snapshot, request.predicate, read.lookup),
        "the whole result is sorted in memory" if order_by else "",
        f"it stops as soon as {scan.limit} rows are found"
        if scan.limit is not None and asked and not order_by
        else "",
    ]
    return explanation(
        snapshot,
        operation,
        choice,
        reads=reads(snapshot, columns, read.fragments, wanted),
        notes=notes,
    )


def _newest(predicate: Predicate | None) -> str:
    newest = None if predicate is None else newest_in(predicate)
    return "" if newest is None else newest.told


def explain_count(snapshot: Snapshot, scan: Scan | None) -> Explanation:
    """Explain a count of rows; without a filter the manifest knows."""
    if scan is None:
        return explanation(
            snapshot, "count_rows", METADATA_ONLY, notes=["the manifest says how many there are"]
        )
    return explain_scan(snapshot, scan, operation="count_rows")


def asked_indices(snapshot: Snapshot, read: Read) -> list[str]:
    """Say which indices are asked, and what they leave to be looked at."""
    if read.lookup is None:
        return []
    return [read.lookup.told(), left_by_indices(snapshot, read)]


def left_by_indices(snapshot: Snapshot, read: Read) -> str:
    """Say what indices leave to be looked at."""
    manifest = snapshot.manifest
    return (
        f"by what they tell, {read.num_rows:,} of {manifest.num_rows:,} rows are looked at, in "
        f"{len(read.fragments):,} of {len(manifest.fragments):,} fragments"
    )
