"""The scan that the options of ``format("lance")`` ask for."""

from __future__ import annotations

from dataclasses import replace

from lancekit.scan.expressions.predicate import Predicate
from lancekit.scan.fragment_rows import ScanRequest, default_batch_rows
from lancekit.scan.fragments.blobs import blob_view
from lancekit.scan.outputs import plan_columns
from lancekit.scan.read import reading
from lancekit.scan.scan import Scan
from lancekit.spark.datasource.options import SourceOptions
from lancekit.versions.snapshot import Snapshot

__all__ = ["plan_scan"]


def plan_scan(asked: SourceOptions, snapshot: Snapshot) -> Scan:
    """Return the scan of a version that the options ask for."""
    schema = blob_view(snapshot.manifest.schema)
    hidden = [("_rowid", asked.with_row_id), ("_rowaddr", asked.with_row_address)]
    predicate = None if asked.filter is None else Predicate.parse(asked.filter, schema.to_arrow())
    request = ScanRequest(
        outputs=plan_columns(schema, asked.columns, [name for name, wanted in hidden if wanted]),
        predicate=predicate,
        batch_rows=asked.batch_size or default_batch_rows(),
    )
    read = reading(snapshot, predicate, schema)
    # opened now, so that a base path that is not trusted is an error of the plan
    return Scan(read=replace(read, sources=tuple(read.sources)), request=request)
