"""A query, worked out where its tables are: here, or on Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._extras import install_hint
from lancekit._pipeline.engine.engine import Choice, choose_engine, spark_engine
from lancekit._scan.expressions.kernels.functions import FUNCTIONS
from lancekit._spark.frames.types import with_leaves
from lancekit._statements.emit import LOCAL, SPARK, Written, write
from lancekit._statements.results import SqlResult, parts_of
from lancekit._statements.tables import Stream, Table
from lancekit._statements.tree import Derived, Expr, Leaf, Query, Select
from lancekit.errors import EngineError, LancekitError, NotOfferedError

__all__ = ["choose", "leaves_of", "outer_columns", "result_schema", "run_query"]


def run_query(query: Query, sql: str) -> SqlResult:
    """Work out a query, on the engine that its tables ask for.

    Raises
    ------
    EngineError
        A value cannot be computed.
    """
    choice, schema = choose(query), result_schema(query)
    if choice.engine == "local":
        written = write(query, LOCAL)
        table = _run_locally(written, schema)
        return SqlResult(
            sql=sql,
            schema=schema,
            choice=choice,
            reads=parts_of(written),
            table=table,
        )
    written = write(query, SPARK)
    frames, kept = dict[str, object](), list[object]()
    for read in written.reads:
        leaf = read.leaf
        frame, keep = leaf.table.frame(list(read.columns.values()), leaf.filter, leaf.limit)
        frames[f"t{leaf.number}"] = frame.toDF(*read.columns)
        kept.append(keep)
    found, collect = spark_engine().statement(written.text, frames, written.parameters)
    return SqlResult(
        sql=sql,
        schema=schema,
        choice=choice,
        reads=parts_of(written),
        frame=found.toDF(*schema.names),
        _kept=tuple(kept),
        _collect=collect,
    )


def choose(query: Query) -> Choice:
    """Say where a query belongs: on Spark if a table is there, else by size."""
    tables = list(tables_of(query))
    rows = sum(table.rows or 0 for table in tables)
    return choose_engine(rows, on_spark=any(table.on_spark for table in tables))


def tables_of(query: Query) -> Iterator[Table]:
    """Yield the tables of a query, and of the queries in it."""
    return (leaf.table for leaf in leaves_of(query))


def leaves_of(query: Query) -> Iterator[Leaf]:
    """Yield the tables of a query, and of the queries in it, as they are read."""
    for select in selects_of(query):
        for relation in select.relations:
            if isinstance(relation, Leaf):
                yield relation


def _exprs(query: Select) -> Iterator[Expr]:
    yield from (output.expr for output in query.outputs)
    yield from query.where
    yield from query.group or ()
    yield from () if query.having is None else (query.having,)
    yield from (join.on for join in query.joins if join.on is not None)
    yield from (sort.by for sort in query.order if isinstance(sort.by, Expr))


def result_schema(query: Query) -> pa.Schema:
    """Return the columns of a result; names that occur twice stay."""
    return pa.schema([(output.name, output.expr.kind) for output in query.outputs])


def outer_columns(query: Query, known: Collection[int] = ()) -> bool:
    """Tell whether a query looks at columns of another one around it, but for some relations."""
    own = {*relations_of(query), *known}
    return any(
        part.op == "column" and part.value[0] not in own
        for select in selects_of(query)
        for expr in _exprs(select)
        for part in expr.walk()
    )


def relations_of(query: Query) -> Iterator[int]:
    """Yield the numbers of the relations of a query, and of the queries in it."""
    for select in selects_of(query):
        yield from (relation.number for relation in select.relations)


def selects_of(query: Query) -> Iterator[Select]:
    """Yield the SELECTs of a query, and of the queries in it."""
    if not isinstance(query, Select):
        yield from selects_of(query.left)
        yield from selects_of(query.right)
        return
    yield query
    for relation in query.relations:
        if isinstance(relation, Derived):
            yield from selects_of(relation.query)
    for expr in _exprs(query):
        for part in expr.walk():
            if part.op in ("query", "exists", "in query"):
                yield from selects_of(part.value)


# ---- queries worked out in this process, by DuckDB, over streams of what the scans were asked
# for

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


def _run_locally(query: Written, schema: pa.Schema) -> pa.Table:
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
