"""DataFrames of Spark over a version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lancekit.api._handle import Handle
from lancekit.api.scan_options import make_scan
from lancekit.pipeline.engine.engine import spark_engine
from lancekit.pipeline.engine.inputs import is_spark_column
from lancekit.scan.fragments.source import FragmentSource
from lancekit.versions.snapshot import Snapshot

__all__ = ["frame_of", "frame_over"]


def frame_over(
    handle: Handle, given: Mapping[str, Any], sources: Iterable[FragmentSource] | None = None
) -> Any:
    """Return a DataFrame over a handle's version, whose defaults hold for what is ``None``."""
    defaults = {name: handle._scan_defaults[name] for name in given.keys() & handle._scan_defaults}
    asked = {**defaults, **{name: value for name, value in given.items() if value is not None}}
    if sources is not None:
        asked["sources"] = sources
    return frame_of(handle._snapshot, **asked)


def frame_of(snapshot: Snapshot, **asked: Any) -> Any:
    """Return a DataFrame over a version; arguments as in `make_scan`, or a ``Column`` as filter."""
    condition = asked.pop("filter") if is_spark_column(asked.get("filter")) else None
    return spark_engine().frame(make_scan(snapshot, **asked), condition)
