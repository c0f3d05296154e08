"""Queries worked out in this process, by DuckDB, over streams of what the scans were asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lancekit import arrow_compute as pc
from lancekit import arrow_kernels as ak
from lancekit.errors import EngineError, LancekitError, NotOfferedError
from lancekit.extras import install_hint
from lancekit.scan.expressions.kernels.functions import FUNCTIONS
from lancekit.spark.frames.types import with_leaves
from lancekit.statements.emit import Written
from lancekit.statements.tables import Stream

__all__ = ["run_locally"]

#: bytes of a table up to which it is read first: DuckDB looks at a table in several threads, and at
#: a stream in one
_WHOLE = 256 << 20
#: what a value of a type of no fixed width is taken for
_WIDTH = 32
#: functions that DuckDB has in another way than Spark: those of filters take their place
_OWN = ("lower", "upper")
#: what DuckDB says of a query that somebody stopped
_INTERRUPTED = "Query interrupted"
#: no files, no settings, no names of Python's: a query reads what was registered for it
_SETTINGS: Mapping[str, str | bool] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "preserve_insertion_order": True,
}


def run_locally(query: Written, schema: pa.Schema) -> pa.Table:
    """Return the result of a query.

    Raises
    ------
    NotOfferedError
        The package ``duckdb`` is not installed.
    EngineError
        A value cannot be computed: a sum beyond bigint, a number that is too large for its type.
    """
    session = _session()
    failed = list[BaseException]()
    try:
        for read in query.reads:
            stream = _watched(
                read.leaf.table.stream(
                    list(read.columns.values()), read.leaf.filter, read.leaf.limit
                ).named(list(read.columns)),
                failed,
            )
            stream = _counted(stream)
            small = read.leaf.table.rows is not None and _bytes(read.leaf.table.rows, stream)
            rows = stream.reader().read_all() if small else stream
            session.register(f"t{read.leaf.number}", rows)
        for name in _OWN:
            if f"lancekit_{name}(" in query.text:
                session.create_function(
                    f"lancekit_{name}", _kernel(name), ["VARCHAR"], "VARCHAR", type="arrow"
                )
        session.execute("SET lock_configuration = true")
        found: pa.Table = session.sql(query.text, params=dict(query.parameters)).to_arrow_table()
    except LancekitError:
        raise
    except Exception as error:
        if failed:
            raise failed[0] from None
        if str(error).strip() == _INTERRUPTED:
            raise KeyboardInterrupt from None  # which DuckDB caught, and made an error of
        raise EngineError(
            f"The query cannot be computed: {str(error).splitlines()[0]}.",
            hint="Look for values that are too large for their type.",
        ) from error
    finally:
        session.close()
    return ak.cast(found.rename_columns(schema.names), schema)


def _watched(stream: Stream, failed: list[BaseException]) -> Stream:
    """Return a stream that keeps the error of a scan, of which DuckDB would keep the text."""

    def batches() -> Any:
        try:
            yield from stream.batches()
        except (LancekitError, KeyboardInterrupt) as error:
            failed.append(error)
            raise

    return Stream(stream.own, batches, stream.names)


def _counted(stream: Stream) -> Stream:
    """Return a stream with durations as numbers, which statements only hand on.

    DuckDB takes them for intervals of months, days and time, which Arrow does not turn back.
    """
    schema = pa.schema([(one.name, with_leaves(one.type, _plain)) for one in stream.schema])
    if schema == stream.schema:
        return stream
    return Stream(schema, lambda: (ak.cast(batch, schema) for batch in stream.reader()))


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_duration(kind) else kind


def _session() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise NotOfferedError(
            "SQL in this process needs the package duckdb, which is not installed.",
            hint=f"{install_hint('sql')}.",
        ) from error
    return duckdb.connect(config=dict(_SETTINGS))


def _bytes(rows: int, stream: Stream) -> bool:
    """Tell whether rows are few enough to be read first."""
    width = sum(
        getattr(field.type, "bit_width", 0) // 8 if _is_fixed(field.type) else _WIDTH
        for field in stream.schema
    )
    return rows * max(width, 1) <= _WHOLE


def _is_fixed(kind: pa.DataType) -> bool:
    return pa.types.is_primitive(kind)


def _kernel(name: str) -> Any:
    function = FUNCTIONS[name]

    def run(values: Any) -> Any:
        whole = ak.combine_chunks(values) if isinstance(values, pa.ChunkedArray) else values
        return pc.cast(function.run(name, whole), pa.string())

    return run
