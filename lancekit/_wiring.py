"""Wiring: registers upper rooms' functions as hooks for lower rooms.

Every function imports its room at the first call, so that `import lancekit` stays fast.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from lancekit._api.blob_type import register_blob_type
from lancekit._hooks import hooks
from lancekit._lazy import loaded

if TYPE_CHECKING:
    from lancekit._provenance import Provenance

#: modules with kernels that can be compiled
KERNELS = (
    "lancekit._file.kernels.bitpacking",
    "lancekit._file.kernels.fsst_decode",
    "lancekit._file.kernels.fsst_encode",
    "lancekit._file.encodings.rle",
    "lancekit._file.kernels.values",
    "lancekit._file.layouts.repdef",
    "lancekit._file.layouts.repdef_build",
    "lancekit._format.key_hashes",
    "lancekit._format.mem_wal.sharding",
    "lancekit._pipeline.diff.match",
    "lancekit._pipeline.find_values",
    "lancekit._pipeline.hashed_keys",
)


#: kinds of interactive widgets, and the functions that create them
INTERACTIVE = {
    "explorer": "_notebook.explorer.Explorer",
    "merge": "_notebook.workbench.open_merge",
    "branches": "_notebook.workbench.open_branches",
}


def _late(name: str) -> Callable[..., Any]:
    """Return a function that imports the module of another function, and calls it."""

    def call(*args: object, **kwargs: object) -> object:
        return loaded(name)(*args, **kwargs)

    return call


#: the functions of Spark, by their names in `lancekit._pipeline.engine.Engine`
SPARK = {
    "is_active": "_spark.session.session.is_active",
    "ready": "_spark.datasource.datasource.register",
    "runner": "_spark.frames.runner.SparkRunner",
    "source": "_spark.source.open_source",
    "frame": "_spark.frames.scan.scan_frame",
    "rows": "_spark.frames.runner.rows_frame",
    "query": "_spark.frames.sql.query_frame",
    "statement": "_spark.frames.sql.statement_frame",
    "name": "_spark.frames.sql.name_frame",
}


def _application() -> Provenance | None:
    from lancekit._provenance import Provenance
    from lancekit._spark.session.session import active_session

    session = active_session()
    name = None if session is None else session.conf.get("spark.app.name", None)
    return Provenance(application=name) if name else None


def connect() -> None:
    """Register the blob type, and the hooks."""
    register_blob_type()
    hooks.card = _late("_notebook.show")
    hooks.missing = _late("_api.not_offered.missing")
    hooks.failure = _late("_notebook.failures.render")
    hooks.interactive = lambda kind, *args, **named: loaded(INTERACTIVE[kind])(*args, **named)
    hooks.picture = _late("_notebook.pictures.draw")
    hooks.bar = _late("_notebook.progress.make_bar")
    hooks.finders = (_late("_notebook.provenance.find"), _application)
    hooks.spark = SimpleNamespace(**{method: _late(name) for method, name in SPARK.items()})
    hooks.kernels = KERNELS
