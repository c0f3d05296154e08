"""Wiring: registers upper rooms' functions as hooks for lower rooms.

Every function imports its room at the first call, so that `import lancekit` stays fast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lancekit._api.blob_type import register_blob_type
from lancekit._hooks import hooks
from lancekit._lazy import loaded

if TYPE_CHECKING:
    import pyarrow as pa

    from lancekit._picture import Picture
    from lancekit._pipeline.engine import Runner, Task
    from lancekit._provenance import Provenance
    from lancekit._scan.scan import Scan
    from lancekit._spark.source import SparkSource
    from lancekit._storage.base import Store
    from lancekit.progress import Show

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


class _Spark:
    def is_active(self) -> bool:
        from lancekit._spark.session.session import is_active

        return is_active()

    def ready(self, session: object) -> None:
        from lancekit._spark.datasource.datasource import register

        register(session)

    def runner(self, store: Store | None = None) -> Runner:
        from lancekit._spark.frames.runner import SparkRunner

        return SparkRunner(store)

    def source(self, data: object, schema: pa.Schema | None) -> SparkSource:
        from lancekit._spark.source import SparkSource

        return SparkSource.open(data, schema)

    def frame(self, scan: Scan, condition: object = None) -> Any:
        from lancekit._spark.frames.scan import scan_frame

        return scan_frame(scan, condition)

    def rows(
        self, work: Callable[[Task], pa.Table], tasks: Sequence[Task], schema: pa.Schema
    ) -> Any:
        from lancekit._spark.frames.runner import rows_frame

        return rows_frame(work, tasks, schema)

    def query(self, sql: str, name: str, table: object) -> Any:
        from lancekit._spark.frames.sql import query_frame

        return query_frame(sql, name, table)

    def statement(
        self, sql: str, tables: Mapping[str, object], parameters: Mapping[str, str]
    ) -> tuple[Any, Callable[[Any], pa.Table]]:
        from lancekit._spark.frames.sql import statement_frame

        return statement_frame(sql, tables, parameters)

    def name(self, table: object, name: str) -> None:
        from lancekit._spark.frames.sql import name_frame

        name_frame(table, name)


def _draw(value: object, *kinds: str) -> dict[str, str]:
    from lancekit._notebook import show

    return show(value, *kinds)


def _render(error: BaseException) -> list[str]:
    from lancekit._notebook.failures import render

    return render(error)


def _interactive(kind: str, *args: object, **kwargs: object) -> object:
    return loaded(INTERACTIVE[kind])(*args, **kwargs)


def _picture(kind: str, subject: object, **how: object) -> Picture:
    from lancekit._notebook.pictures import draw

    return draw(kind, subject, **how)


def _bar(wanted: bool) -> Show | None:
    from lancekit._notebook.progress import make_bar

    return make_bar(wanted)


def _cell() -> Provenance | None:
    from lancekit._notebook.provenance import find

    return find()


def _application() -> Provenance | None:
    from lancekit._provenance import Provenance
    from lancekit._spark.session.session import active_session

    session = active_session()
    name = None if session is None else session.conf.get("spark.app.name", None)
    return Provenance(application=name) if name else None


def connect() -> None:
    """Register the blob type, and the hooks."""
    register_blob_type()
    hooks.card = _draw
    hooks.failure = _render
    hooks.interactive = _interactive
    hooks.picture = _picture
    hooks.bar = _bar
    hooks.finders = (_cell, _application)
    hooks.spark = _Spark()
    hooks.kernels = KERNELS
