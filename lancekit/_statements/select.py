"""Execution of a query in this process or on Spark, and its result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._api.exports import duckdb_module
from lancekit._api.hinting import hinting_operators
from lancekit._checked import checked
from lancekit._display import Displayed
from lancekit._operations.unmerged.waiting_rows import WaitingRows
from lancekit._pipeline.engine import Choice, EngineName, choose_engine, spark_engine
from lancekit._pipeline.frames import exact_frame, polars_frame
from lancekit._scan.expressions.kernels.functions import FUNCTIONS
from lancekit._scan.expressions.predicate import Unbound
from lancekit._spark.frames.types import with_leaves
from lancekit._statements.emit import LOCAL, SPARK, Written, write
from lancekit._statements.tables import Stream, wanted_rows
from lancekit._statements.tree import Derived, Expr, Leaf, Query, Select
from lancekit.errors import EngineError, LancekitError

if TYPE_CHECKING:
    import pandas as pd
    import polars


def run_query(query: Query, sql: str) -> SqlResult:
    """Run a query on the engine that `choose` returns.

    Raises EngineError: a value cannot be computed.
    """
    choice, schema = choose(query), result_schema(query)
    if choice.engine == "local":
        written = write(query, LOCAL)
        table = _run_locally(written, schema)
        reads = _parts_of(written)
        return SqlResult(sql=sql, schema=schema, choice=choice, reads=reads, table=table)
    written = write(query, SPARK)
    frames, kept = dict[str, object](), list[object]()
    for read in written.reads:
        leaf = read.leaf
        wanted = wanted_rows(read.columns.values(), leaf.filter, leaf.limit)
        frame, keep = leaf.table.frame(wanted)
        frames[f"t{leaf.number}"] = frame.toDF(*read.columns)
        kept.append(keep)
    found, collect = spark_engine().statement(written.text, frames, written.parameters)
    return SqlResult(
        sql=sql,
        schema=schema,
        choice=choice,
        reads=_parts_of(written),
        frame=found.toDF(*schema.names),
        _kept=tuple(kept),
        _collect=collect,
    )


def choose(query: Query) -> Choice:
    """Choose the engine of a query: Spark if a table is on Spark, else by number of rows."""
    tables = [leaf.table for leaf in leaves_of(query)]
    rows = sum(table.rows or 0 for table in tables)
    return choose_engine(rows, on_spark=any(table.on_spark for table in tables))


def leaves_of(query: Query) -> Iterator[Leaf]:
    """Yield the tables that a query and its subqueries read."""
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
    """Return the schema of a query's result; repeated names stay."""
    return pa.schema([(output.name, output.expr.kind) for output in query.outputs])


def outer_columns(query: Query, known: Collection[int] = ()) -> bool:
    """Return True if a query refers to outer columns, except of relations in ``known``."""
    own = {*relations_of(query), *known}
    return any(
        part.op == "column" and part.value[0] not in own
        for select in selects_of(query)
        for expr in _exprs(select)
        for part in expr.walk()
    )


def relations_of(query: Query) -> Iterator[int]:
    """Yield the numbers of the relations of a query and its subqueries."""
    for select in selects_of(query):
        yield from (relation.number for relation in select.relations)


def selects_of(query: Query) -> Iterator[Select]:
    """Yield the SELECTs of a query and its subqueries."""
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
            if part.is_query:
                yield from selects_of(part.value)


# ---- execution in this process: DuckDB over streams of scans

#: tables up to this many bytes are read before the query: DuckDB scans a table in several threads,
#: but a stream in one
_WHOLE = 256 << 20
#: estimated bytes of a value without a fixed width
_WIDTH = 32
#: functions that differ between DuckDB and Spark: DuckDB calls the filter's implementation
_OWN = ("lower", "upper")
#: DuckDB's message for an interrupted query
_INTERRUPTED = "Query interrupted"
#: a query can read only its registered tables: no files, settings or Python variables
_SETTINGS: Mapping[str, str | bool] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "preserve_insertion_order": True,
}


def _run_locally(query: Written, schema: pa.Schema) -> pa.Table:
    """Run a query in DuckDB and return its result.

    Raises NotOfferedError: the package ``duckdb`` is not installed.
    Raises EngineError: a value cannot be computed: a sum beyond bigint, a number that is too large
        for its type.
    """
    session = _session()
    failed = list[BaseException]()
    try:
        for read in query.reads:
            leaf, table = read.leaf, read.leaf.table
            wanted = wanted_rows(read.columns.values(), leaf.filter, leaf.limit)
            stream = _counted(_watched(table.stream(wanted).named(list(read.columns)), failed))
            small = table.rows is not None and _bytes(table.rows, stream)
            rows = stream.reader().read_all() if small else stream
            session.register(f"t{leaf.number}", rows)
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
            raise KeyboardInterrupt from None  # DuckDB turned the interrupt into an error
        raise EngineError(
            f"The query cannot be computed: {str(error).splitlines()[0]}.",
            hint="Look for values that are out of range for their type.",
        ) from error
    finally:
        session.close()
    return ak.cast(found.rename_columns(schema.names), schema)


def _watched(stream: Stream, failed: list[BaseException]) -> Stream:
    """Return a stream that stores the error of a scan: DuckDB only reports the error's text."""

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from stream.batches()
        except (LancekitError, KeyboardInterrupt) as error:
            failed.append(error)
            raise

    return Stream(stream.own, batches, stream.names)


def _counted(stream: Stream) -> Stream:
    """Return a stream with durations as integers, which statements only pass through.

    DuckDB would read durations as intervals of months, days and time, which Arrow cannot cast back.
    """
    schema = pa.schema([(one.name, with_leaves(one.type, _plain)) for one in stream.schema])
    if schema == stream.schema:
        return stream
    return Stream(schema, lambda: (ak.cast(batch, schema) for batch in stream.reader()))


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_duration(kind) else kind


def _session() -> Any:
    return duckdb_module("SQL in this process").connect(config=dict(_SETTINGS))


def _bytes(rows: int, stream: Stream) -> bool:
    """Return True if a table is small enough to read before the query."""
    width = sum(
        field.type.bit_width // 8 if pa.types.is_primitive(field.type) else _WIDTH
        for field in stream.schema
    )
    return rows * max(width, 1) <= _WHOLE


def _kernel(name: str) -> Callable[[pa.Array | pa.ChunkedArray], pa.Array]:
    function = FUNCTIONS[name]

    def run(values: pa.Array | pa.ChunkedArray) -> pa.Array:
        whole = ak.combine_chunks(values) if isinstance(values, pa.ChunkedArray) else values
        return pc.cast(cast("pa.Array", function.run(name, whole)), pa.string())

    return run


# ---- the result of a SELECT


@dataclass(frozen=True, slots=True)
class Part:
    """The read of one table by a query: its columns, and the filter and limit of the scan.

    `from_shards` counts the rows of shards that were read with a dataset, `None` if the dataset was
    read without shards.  `waiting` then counts the rows of shards that the query did not read.
    """

    table: str
    columns: tuple[str, ...]
    filter: Unbound | None = None
    limit: int | None = None
    from_shards: int | None = None
    waiting: WaitingRows = field(default_factory=WaitingRows)


def _parts_of(written: Written) -> tuple[Part, ...]:
    """Return the reads of each table of a query, and of counted tables with rows in shards."""
    waiting: dict[int, WaitingRows] = {}

    def part(leaf: Leaf, columns: Collection[str] = ()) -> Part:
        table, of = leaf.table, leaf.table.read_set
        key = id(table.source)
        if key not in waiting:
            waiting[key] = table.waiting
        rows = None if of is None else sum(one.num_rows for one in of.fragments)
        return Part(table.name, tuple(columns), leaf.filter, leaf.limit, rows, waiting[key])

    counted = (part(leaf) for leaf in written.counted)
    return (
        *(part(read.leaf, read.columns.values()) for read in written.reads),
        *(one for one in counted if one.from_shards or one.waiting),
    )


def _nothing(frame: object) -> pa.Table:
    raise AssertionError(frame)  # a local result has no frame


@hinting_operators(
    "__iter__ __getitem__ __array__ __setitem__ __delitem__ __add__ __enter__ __exit__"
)
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SqlResult(Displayed):
    """The rows of a SELECT: an Arrow table, or a Spark DataFrame that runs when rows are read.

    A result can be passed to any call that takes rows: a write, a merge, another statement.

    Attributes
    ----------
    sql
        The statement.
    schema
        The columns and their types, the same on both engines.
    engine, why
        The engine that ran the query, and the reason.
    reads
        The tables that the query read, with columns, filter and limit.
    """

    sql: str
    schema: pa.Schema
    choice: Choice
    reads: tuple[Part, ...] = ()
    table: pa.Table | None = None
    frame: Any = None
    _kept: tuple[object, ...] = ()
    _collect: Callable[[object], pa.Table] = _nothing
    _first: dict[int, pa.Table] = field(default_factory=dict)

    @property
    def engine(self) -> EngineName:
        """The engine that ran the query."""
        return self.choice.engine

    @property
    def why(self) -> str:
        """The reason for the engine."""
        return self.choice.why

    @property
    def num_rows(self) -> int | None:
        """The number of rows; ``None`` on Spark, where they are not counted."""
        return None if self.table is None else self.table.num_rows

    def to_table(self) -> pa.Table:
        """Return the rows as an Arrow table; on Spark this runs the query."""
        return self.table if self.table is not None else self._rows(self.frame)

    @checked
    def head(self, num_rows: int = 5) -> pa.Table:
        """Return the first rows; on Spark this runs one job, whose rows are cached."""
        if self.table is not None:
            return self.table.slice(0, num_rows)
        if num_rows not in self._first:
            self._first[num_rows] = self._rows(self.frame.limit(num_rows))
        return self._first[num_rows]

    @property
    def shown(self) -> pa.Table | None:
        """The rows that are in memory: all rows, or the most that `head` has read."""
        return (
            self.table
            if self.table is not None
            else max(self._first.values(), key=lambda rows: rows.num_rows, default=None)
        )

    def to_pandas(self, **kwargs: object) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame; ``kwargs`` as in `pyarrow.Table.to_pandas`."""
        return exact_frame(self.to_table(), kwargs)

    df = to_pandas

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a Polars DataFrame."""
        return polars_frame(self.to_table())

    pl = to_polars

    def fetchall(self) -> list[tuple[object, ...]]:
        """Return the rows as a list of tuples of Python values."""
        return [*zip(*(column.to_pylist() for column in self.to_table().columns), strict=True)]

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.schema.names

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns; on Spark this runs the query."""
        return len(self), len(self.schema)

    def __contains__(self, name: object) -> bool:
        return name in self.schema.names

    def to_batches(self) -> list[pa.RecordBatch]:
        """Return the result as a list of Arrow record batches."""
        return self.to_table().to_batches()

    def to_spark(self) -> Any:
        """Return the rows as a Spark DataFrame; send the rows of a local result to Spark."""
        if self.frame is not None:
            return self.frame
        frame = spark_engine().source(self.table, None).frame
        return frame.toDF(*self.schema.names)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_table().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return self.to_table().num_rows

    def _rows(self, frame: object) -> pa.Table:
        rows: pa.Table = self._collect(frame).rename_columns(self.schema.names)
        return ak.cast(rows, self.schema)

    def _plain(self) -> str:
        rows = "" if self.table is None else f"{self.table.num_rows} rows, "
        return f"<SqlResult: {rows}{len(self.schema)} columns>"
