"""A query, worked out where its tables are: here, or on Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa

from lancekit.pipeline.engine.engine import Choice, choose_engine, spark_engine
from lancekit.statements.emit import LOCAL, SPARK, write
from lancekit.statements.local import run_locally
from lancekit.statements.results import SqlResult, parts_of
from lancekit.statements.tables import Table
from lancekit.statements.tree import Derived, Expr, Leaf, Query, Select

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
        table = run_locally(written, schema)
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
