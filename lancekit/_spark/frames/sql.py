"""Spark's SQL over a DataFrame that the text knows by a name of its own."""

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

#: white space and comments before a query, and the words that begin its own tables
_HEAD = re.compile(r"((?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*)(with\b(?:\s+recursive\b)?)?", re.S | re.I)


def query_frame(sql: str, name: str, table: DataFrame) -> DataFrame:
    """Return what a query makes of a DataFrame.

    The name is known within the query alone: a view of it would be the session's, and two
    queries over two versions, worked out later, would read the same one.

    sql: the text, in Spark's dialect.
    name: how it calls the DataFrame.
    table: the DataFrame.

    Raises PredicateError: the text does not parse, or names what is not there.
    """
    try:
        frame = table.sparkSession.sql(_with_table(sql, name, "{lancekit}"), lancekit=table)
        _ = frame.schema  # Connect does not look at the text before
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
    """Return what a text, written by lancekit, makes of DataFrames, and what collects rows of it.

    sql: the text, with the names of tables in braces and those of parameters behind colons.
    tables, parameters: what these are.

    Raises InvalidArgumentError: the session makes nulls of what is too large for its type.
    Raises EngineError: Spark does not take the text.
    """
    session = next((table.sparkSession for table in tables.values()), None) or spark_session()
    if session.conf.get("spark.sql.ansi.enabled") != "true":
        raise InvalidArgumentError(
            "The Spark session has spark.sql.ansi.enabled off: it makes nulls of numbers that are "
            "too large, and statements make errors.",
            hint='Turn it on: spark.conf.set("spark.sql.ansi.enabled", "true").',
        )
    try:
        frame = session.sql(sql, args=dict(parameters), **tables)
        _ = frame.schema  # Connect does not look at the text before
    except AnalysisException as error:
        raise EngineError(f"Spark does not take the statement: {first_line(error)}.") from error
    return frame, _collected


def _collected(frame: DataFrame) -> pa.Table:
    try:
        rows: pa.Table = run_action(frame.sparkSession, frame.toArrow, what="querying")
    except EngineError as error:
        raise EngineError(
            f"The query cannot be computed: {error.message.removeprefix(FAILED)}",
            hint=error.hint or "Look for values that are too large for their type.",
        ) from error
    return rows


def name_frame(table: DataFrame, name: str) -> None:
    """Make a DataFrame a temporary view of its session, in the place of an earlier one.

    Raises InvalidArgumentError: Spark does not take the name.
    """
    try:
        table.createOrReplaceTempView(name)
    except AnalysisException as error:
        raise InvalidArgumentError(
            f"A view cannot be called {name!r}: {first_line(error)}.",
            hint="Put a name of more than letters, digits and _ between backticks: `my view`.",
            name=name,
        ) from error


def _with_table(sql: str, name: str, place: str) -> str:
    """Return a query that begins with a table of its own; braces are for the place alone."""
    text = sql.replace("{", "{{").replace("}", "}}")
    quoted = "`" + name.replace("`", "``").replace("{", "{{").replace("}", "}}") + "`"
    head = _HEAD.match(text)
    before, own = (head[1], head[2]) if head else ("", None)
    rest = text[len(before) + len(own or "") :]
    between = "," if own else " "
    whole = f"{quoted} as (select * from {place})"  # noqa: S608  # the user's own query
    return f"{before}{own or 'with'} {whole}{between}{rest}"
