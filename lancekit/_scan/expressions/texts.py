"""Expressions of columns and constants, and the SQL text that calls use of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from lancekit._format.paths import parse_path
from lancekit._legible import shown
from lancekit._scan.expressions.constants import Constant, typed
from lancekit._scan.expressions.objects import Expression, name_of
from lancekit._scan.expressions.syntax import Syntax
from lancekit.errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    from lancekit._scan.expressions.predicate import Unbound

T = TypeVar("T")


def col(name: str, *fields: str) -> Expression:
    """Return a column as an expression, for conditions and computed values.

    Parameters
    ----------
    name
        The name of a column, or the path of a nested field (``"s.x"``).  A name with a dot is in
        backticks.
    fields
        The names of nested fields below; then `name` is one name, not a path.

    Returns
    -------
    Expression
        The column.  It is looked up when a dataset uses the expression.

    Raises
    ------
    InvalidTypeError
        A name is not a text, or empty.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"x": [1, 70]}, "memory://col-filter-example")
    >>> ds.to_table({"double": lk.col("x") * 2}, filter=lk.col("x") > 60).to_pylist()
    [{'double': 140}]
    """
    first = name_of("name", name)
    path = (first, *(name_of("fields", one) for one in fields)) if fields else parse_path(first)
    return Expression(Syntax("column", value=path))


def source(name: str) -> Expression:
    """Return a column of the source rows, for the condition of a merge-insert; see `col`.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"id": [1], "rev": [5]}, "memory://source-example")
    >>> merge = ds.merge_insert("id").when_matched_update_all(lk.source("rev") > lk.target("rev"))
    >>> merge.execute({"id": [1], "rev": [4]})["num_updated_rows"]
    0
    """
    return _side("source", name)


def target(name: str) -> Expression:
    """Return a column of the dataset's rows, for the condition of a merge-insert; see `source`."""
    return _side("target", name)


def _side(side: str, name: str) -> Expression:
    return Expression(Syntax("column", value=(side, *parse_path(name_of("name", name)))))


def lit(value: object) -> Expression:
    """Return a constant as an expression, in contrast to SQL text and to the name of a column.

    Parameters
    ----------
    value
        A number, a text, bytes, a bool, a date, a time, a timestamp, a duration, a decimal or
        ``None``, from Python, NumPy, pandas or Arrow.  Or a list of such constants.

    Returns
    -------
    Expression
        The constant, with all its digits.

    Raises
    ------
    InvalidTypeError
        SQL has no constant of this type.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"name": ["a", "b"]}, "memory://lit-example")
    >>> _ = ds.update({"name": lk.lit("closed")}, where=lk.col("name") == "a")
    >>> ds.to_table()["name"].to_pylist()
    ['b', 'closed']
    """
    return value if isinstance(value, Expression) else Expression(typed(value))


def as_sql(value: T | Expression) -> T | Unbound:
    """Return an expression as SQL text; anything else is returned unchanged."""
    return value.sql if isinstance(value, Expression) else value


def value_sql(value: object, column: str = "") -> str:
    """Return the SQL text of a column's new value: text is SQL already, constants are written.

    Raises InvalidTypeError: SQL has no such constant.

    Examples
    --------
    >>> value_sql("x * 2"), value_sql(0.5), value_sql(None), value_sql(lit("x"))
    ('x * 2', '0.5', 'NULL', "'x'")
    """
    if isinstance(value, str):
        return value
    one = bytes | bytearray | memoryview | Expression
    if hasattr(type(value), "__len__") and not isinstance(value, one):
        # pandas would take one value for each row
        raise InvalidTypeError(
            f"The value of column {column!r} must be SQL text, an expression or a constant, got "
            f"{shown(value)}.",
            hint="A list for every row is lk.lit([...]).  For one value a row, pass rows: "
            f"pa.table({{{column!r}: [...]}}).",
            column=column,
        )
    try:
        made = lit(value)
        is_constant = all(part.kind != "column" for part in made._tree.walk())
        return Constant(made.sql) if is_constant else made.sql
    except InvalidTypeError as error:
        raise InvalidTypeError(
            f"The value of column {column!r} must be SQL text, an expression or a constant, got "
            f"{shown(value)}.",
            hint=error.hint,
            column=column,
        ) from error


def outputs_sql(
    columns: Sequence[str | Expression] | Mapping[str, str | Expression] | None,
) -> Sequence[str] | dict[str, str] | None:
    """Return output columns with SQL text instead of expressions; other columns are unchanged.

    Raises InvalidArgumentError: an expression in a list has no name, or the name of another one.

    Examples
    --------
    >>> outputs_sql(["id", (col("x") * 2).alias("y")]), outputs_sql({"y": col("x")})
    ({'id': '`id`', 'y': '`x` * 2'}, {'y': '`x`'})
    """
    if isinstance(columns, Mapping):
        return {name: as_sql(one) for name, one in columns.items()}
    if not isinstance(columns, list | tuple) or not any(
        isinstance(one, Expression) for one in columns
    ):
        return cast("Sequence[str] | None", columns)
    found: dict[str, str] = {}
    for one in columns:
        column = one if isinstance(one, Expression) else col(one)
        if not column.name or column.name in found:
            what = f"another column is called {column.name!r}" if column.name else "it has no name"
            raise InvalidArgumentError(
                f"{column!r} cannot be an output column: {what}.",
                hint="Name it: .alias('y'), or pass a dict: columns={'y': ...}.",
            )
        found[column.name] = column.sql
    return found
