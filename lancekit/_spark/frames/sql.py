"""Spark SQL over a DataFrame that has a name within the query only."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import AnalysisException

from lancekit._spark.jobs.collect import run_action
from lancekit._spark.jobs.failures import FAILED, first_line
from lancekit._spark.session.session import spark_session
from lancekit.errors import EngineError, InvalidArgumentError, PredicateError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: white space and comments before a query, and the keyword of its own WITH clause
_HEAD = re.compile(r"((?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*)(with\b(?:\s+recursive\b)?)?", re.S | re.I)


def query_frame(sql: str, name: str, table: DataFrame) -> DataFrame:
    """Return the result of a query over a DataFrame.

    The name exists only within the query.  A view would belong to the session, and two queries over
    two versions, if evaluated later, would read the same version.

    sql: the text, in Spark's dialect.
    name: the name of the DataFrame in the text.
    table: the DataFrame.

    Raises PredicateError: the text does not parse, or names an unknown table or column.
    """
    try:
        frame = table.sparkSession.sql(_with_table(sql, name, "{lancekit}"), lancekit=table)
        _ = frame.schema  # Connect checks the text only now
    except AnalysisException as error:
        raise PredicateError(
            f"The query {sql!r} cannot be run: {first_line(error)}.",
            hint=f"The table is called {name!r}; its columns that the text names: "
            f"{', '.join(table.columns) or 'none'}.",
            sql=sql,
        ) from error
    return frame


def statement_frame(
    sql: str, tables: Mapping[str, DataFrame], parameters: Mapping[str, str]
) -> tuple[DataFrame, Callable[[DataFrame], pa.Table]]:
    """Return the result of a text that lancekit wrote, and a function that collects it.

    sql: the text, with names of tables in braces and names of parameters after colons.
    tables, parameters: their values.

    Raises InvalidArgumentError: the session returns null for a number too large for its type.
    Raises EngineError: Spark refuses the text.
    """
    session = next((table.sparkSession for table in tables.values()), None) or spark_session()
    if session.conf.get("spark.sql.ansi.enabled") != "true":
        raise InvalidArgumentError(
            "The Spark session has spark.sql.ansi.enabled off: numbers out of range would become "
            "null instead of an error.",
            hint='Turn it on: spark.conf.set("spark.sql.ansi.enabled", "true").',
        )
    try:
        frame = session.sql(sql, args=dict(parameters), **tables)
        _ = frame.schema  # Connect checks the text only now
    except AnalysisException as error:
        raise EngineError(f"Spark rejects the statement: {first_line(error)}.") from error
    return frame, _collected


def _collected(frame: DataFrame) -> pa.Table:
    try:
        rows: pa.Table = run_action(frame.sparkSession, frame.toArrow, what="querying")
    except EngineError as error:
        raise EngineError(
            f"The query cannot be computed: {error.message.removeprefix(FAILED)}",
            hint=error.hint or "Look for values that are out of range for their type.",
        ) from error
    return rows


def name_frame(table: DataFrame, name: str) -> None:
    """Register a DataFrame as a temporary view of its session; replace an existing view.

    Raises InvalidArgumentError: Spark refuses the name.
    """
    try:
        table.createOrReplaceTempView(name)
    except AnalysisException as error:
        raise InvalidArgumentError(
            f"{name!r} is not a valid view name: {first_line(error)}.",
            hint="Put names with characters besides letters, digits and _ in backticks.",
            name=name,
        ) from error


def _with_table(sql: str, name: str, place: str) -> str:
    """Add a WITH clause to a query that defines its table; only `place` keeps braces."""
    text = sql.replace("{", "{{").replace("}", "}}")
    quoted = "`" + name.replace("`", "``").replace("{", "{{").replace("}", "}}") + "`"
    head = _HEAD.match(text)
    before, own = (head[1], head[2]) if head else ("", None)
    rest = text[len(before) + len(own or "") :]
    between = "," if own else " "
    whole = f"{quoted} as (select * from {place})"  # noqa: S608  # the user's own query
    return f"{before}{own or 'with'} {whole}{between}{rest}"
