"""DataFrames of Spark over a version."""

from __future__ import annotations

from typing import Any

from lancekit._api._handle import Handle
from lancekit._api.planned_scan import planned, planned_with_shards
from lancekit._arguments.scan import ScanArguments
from lancekit._pipeline.engine.engine import spark_engine
from lancekit._pipeline.engine.inputs import is_spark_column
from lancekit._versions.snapshot import Snapshot

__all__ = ["frame_of", "frame_over"]

#: defaults of scans that a DataFrame follows: order and sizes of batches are Spark's own
_FOLLOWED = {
    "columns",
    "filter",
    "limit",
    "offset",
    "batch_size",
    "with_row_id",
    "with_row_address",
    "blob_handling",
    "include_mem_wal",
}


def frame_over(handle: Handle, arguments: ScanArguments) -> Any:
    """Return a DataFrame over a handle's version, whose defaults hold for what is ``None``."""
    defaults = {name: value for name, value in handle._scan_defaults.items() if name in _FOLLOWED}
    return frame_of(handle._snapshot, arguments.over(defaults))


def frame_of(snapshot: Snapshot, arguments: ScanArguments) -> Any:
    """Return a DataFrame over a version; the filter may be a ``Column``, worked out by Spark."""
    condition = arguments.filter if is_spark_column(arguments.filter) else None
    if condition is not None:
        arguments = arguments.but(filter=None)
    if arguments.include_mem_wal:
        _, scan = planned_with_shards(snapshot.line, arguments)
    else:
        scan = planned(snapshot, arguments)
    return spark_engine().frame(scan, condition)
