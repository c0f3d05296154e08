"""Filters and computed columns: SQL text or syntax trees, and bound forms.

The language is the filter language of Lance readers: comparisons, ``AND``/``OR``/``NOT`` with SQL's
three-valued logic, ``IS NULL``, ``IN``, ``BETWEEN``, ``LIKE``, arithmetic, ``CAST``, and functions.
Column names are bare or in backticks, text is in single (or double) quotes.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit._format.column_names import RESERVED_NAMES
from lancekit._format.paths import top_of
from lancekit._scan.expressions.nodes import ArrowExpr, Expr, Literal, all_of, columns_of
from lancekit._scan.expressions.syntax import failure, not_too_deep
from lancekit.errors import InvalidTypeError, PredicateError

if TYPE_CHECKING:
    from lancekit._format.schema import LanceSchema
    from lancekit._scan.expressions.scope import Bound
    from lancekit._scan.expressions.syntax import Syntax

# columns that every row has without being in the schema; the scanner supplies them
_HIDDEN: dict[str, pa.DataType] = dict.fromkeys(RESERVED_NAMES, pa.uint64())


def with_hidden(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the hidden columns after its own."""
    own = set(schema.names)
    extra = [pa.field(n, t) for n, t in _HIDDEN.items() if n not in own]
    return pa.schema([*schema, *extra])


def _only(schema: pa.Schema, columns: frozenset[str]) -> pa.Schema:
    """Return the fields that are read, which keeps a worker's copy small and the cache fast."""
    tops = {top_of(column) for column in columns}
    return pa.schema([field for field in schema if field.name in tops])


# functions of the time: one query has one time, whenever its parts are computed
_OF_TIME = re.compile(r"\b(now|today|current_(date|time|timestamp))\b", re.IGNORECASE)


def time_of(sql: str) -> int:
    """Return the time of a query in nanoseconds since 1970; 0 if the text does not use it."""
    return time.time_ns() if _OF_TIME.search(sql) else 0


#: from this length on, few texts are cached: each may have a long list
_LONG = 1 << 14


def _bind(sql: str, schema: pa.Schema, now: int) -> ComputedColumn:
    from lancekit._scan.expressions.bind import bind  # loads all kernels

    with not_too_deep(sql):
        return ComputedColumn.of(sql, bind(Unbound(sql).tree, sql, with_hidden(schema), now))


# caches of recently bound texts; a constant has other rules than the same text
_SHORT_TEXTS, _LONG_TEXTS = lru_cache(256, typed=True)(_bind), lru_cache(8, typed=True)(_bind)


def _columns_of(expression: pc.Expression, schema: pa.Schema) -> frozenset[str]:
    """Return the columns that a pyarrow expression needs: it cannot be bound without them."""
    from lancekit._scan.expressions.evaluate import project  # loads all kernels

    text = str(expression)
    needed = [field for field in with_hidden(schema) if field.name in text]
    try:
        project(expression, _no_rows(needed))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError) as error:
        raise PredicateError(
            f"the filter {text} does not fit the schema: {str(error).splitlines()[0]}.", sql=text
        ) from error
    for one in list(needed):
        fewer = [other for other in needed if other is not one]
        try:
            project(expression, _no_rows(fewer))
        except (pa.ArrowInvalid, KeyError):
            continue
        needed = fewer
    return frozenset(field.name for field in needed)


def _no_rows(fields: list[pa.Field]) -> pa.Table:
    return pa.schema(fields).empty_table()


def _of_arrow(expression: pc.Expression, schema: pa.Schema) -> Expr:
    """Return a pyarrow expression as a bound one; a constant one becomes a literal."""
    from lancekit._scan.expressions.evaluate import project  # loads all kernels

    columns = _columns_of(expression, schema)
    if not columns:
        value = project(expression, pa.table({"_": pa.nulls(1)}))[0]
        return Literal(value.type, value)
    read = _no_rows([field for field in with_hidden(schema) if field.name in columns])
    return ArrowExpr(project(expression, read).type, expression, tuple(read.column_names))


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedColumn:
    """A computed column: an expression that is bound to a schema. Can be pickled.

    sql: the text.
    expr: the expression.
    columns: the columns that it reads, nested ones by their paths.
    number: the number as written, if the text is a number. Else ``None``.
    """

    sql: str
    expr: Expr = field(repr=False, compare=False)
    columns: frozenset[str]
    number: int | Decimal | None = None

    @classmethod
    def of(cls, sql: str, found: Bound) -> ComputedColumn:
        """Return the computed column of a bound text."""
        return cls(sql=sql, expr=found.expr, columns=found.columns, number=found.number)

    @property
    def type(self) -> pa.DataType:
        """The type of its values."""
        return self.expr.type

    def evaluate(self, data: pa.RecordBatch | pa.Table) -> pa.Array:
        """Compute one value per row.

        Raises PredicateError: a value cannot be computed: a number out of range, a division by
            zero, a text that is no number.
        """
        from lancekit._scan.expressions.evaluate import evaluate  # loads all kernels

        return evaluate(self.expr, data)


def compile_expression(sql: str, schema: pa.Schema) -> ComputedColumn:
    """Bind the text of a computed column to a schema.

    sql: an expression such as ``"x * 2"``.
    schema: the dataset's schema. Hidden columns such as ``_rowid`` are added.

    Raises PredicateError: the text does not parse, names no column of the schema, or does not fit
        the types.

    Examples
    --------
    >>> twice = compile_expression("x * 2", pa.schema({"x": pa.int64()}))
    >>> twice.evaluate(pa.record_batch({"x": [1, None]})).to_pylist()
    [2, None]
    """
    return (_SHORT_TEXTS if len(sql) < _LONG else _LONG_TEXTS)(sql, schema, time_of(sql))


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """A filter: a condition that is bound to a schema. Can be pickled.

    source: the given SQL text or pyarrow expression.
    expr: the condition.
    schema: the fields of the dataset's schema that it reads.
    columns: the columns that it reads, nested ones by their paths.
    """

    source: str | pc.Expression
    expr: Expr = field(repr=False, compare=False)
    schema: pa.Schema
    columns: frozenset[str]

    @classmethod
    def parse(cls, source: str | pc.Expression, schema: pa.Schema) -> Predicate:
        """Bind a filter to a schema.

        source: SQL text such as ``"dep_delay > 60 AND origin = 'JFK'"``, or a pyarrow expression.
        schema: the dataset's schema. Hidden columns such as ``_rowid`` are added.

        Raises PredicateError: the text does not parse, names no column of the schema, compares
            types that cannot be compared, or is not a condition.

        Examples
        --------
        >>> schema = pa.schema({"x": pa.int8(), "y": pa.int8()})
        >>> wanted = Predicate.parse("x > 1 AND y IS NULL", schema)
        >>> sorted(wanted.columns)
        ['x', 'y']
        """
        if isinstance(source, pc.Expression):
            expr = _of_arrow(source, schema)
            found = ComputedColumn(sql=str(source), expr=expr, columns=columns_of(expr))
        elif isinstance(source, str):
            found = compile_expression(source, schema)
        else:
            raise _no_filter(source)
        return cls.of(source, found, schema)

    @classmethod
    def of(cls, source: str | pc.Expression, found: ComputedColumn, schema: pa.Schema) -> Predicate:
        """Return an expression as a filter; ``PredicateError`` if it is not boolean."""
        if found.type != pa.bool_():
            what = f"the filter gives {found.type}, not true or false"
            hint = "Compare the value: `x > 0`."
            if isinstance(source, str):
                raise failure(source, f"{what}:", 0, hint)
            raise PredicateError(f"{what}: {source}.", hint=hint)
        needed = _only(schema, found.columns)
        return cls(source=source, expr=found.expr, schema=needed, columns=found.columns)

    def stored_in(self, schema: LanceSchema) -> list[str]:
        """Return the columns that are stored in a dataset, without hidden ones."""
        return [name for name in self.columns if name in schema or name not in _HIDDEN]

    def also(self, other: Predicate) -> Predicate:
        """Return the conjunction of both filters."""
        return Predicate(
            source=f"({self.source}) AND {other.source}",
            expr=all_of(self.expr, other.expr),
            schema=pa.schema(list(dict.fromkeys([*self.schema, *other.schema]))),
            columns=self.columns | other.columns,
        )

    def points(self, column: str) -> frozenset[int] | None:
        """Return the only numbers that matching rows can have in a hidden column.

        ``None`` if rows with any number may match.
        """
        if column not in self.columns or column in self.schema.names:
            return None
        from lancekit._scan.expressions.bounds import point_lookup  # few filters have points

        return point_lookup(self.expr, column)

    def may_want(self, column: str, least: pa.Array, greatest: pa.Array) -> npt.NDArray[np.bool_]:
        """Return a mask of the blocks that may have matching rows, by the bounds of a column."""
        from lancekit._scan.expressions.bounds import may_hold  # loads all kernels

        return may_hold(self.expr, column, least, greatest)

    def mask(self, data: pa.RecordBatch | pa.Table) -> pa.BooleanArray:
        """Return a mask of the rows that match; a null condition does not match.

        data: rows with at least the predicate's ``columns``.

        Raises PredicateError: a value cannot be computed, such as a division by zero.
        """
        from lancekit._scan.expressions.evaluate import mask  # loads all kernels

        return mask(self.expr, data)


# ---- unbound conditions and values: text and its syntax tree


class Unbound(str):
    """The text of a condition or value that is not bound to a schema yet, and its syntax tree.

    It is a ``str``, so it is accepted as text. If the tree was built, the text was generated from
    it for messages, and is never parsed. Can be pickled, as text.

    sql: the text.
    tree: its syntax tree; by default the text is parsed when the tree is needed.

    Examples
    --------
    >>> wanted = Unbound("x > 1")
    >>> wanted.tree.kind, wanted
    ('>', 'x > 1')
    """

    __slots__ = ("_tree",)
    _tree: Syntax | None

    def __new__(cls, sql: str, tree: Syntax | None = None) -> Unbound:
        """Return a text with its syntax tree; a text that is already unbound is returned as is."""
        if tree is None and isinstance(sql, Unbound):
            return sql
        made = super().__new__(cls, sql)
        made._tree = tree
        return made

    @property
    def tree(self) -> Syntax:
        """The syntax tree.

        Raises PredicateError: the text does not parse.
        """
        if self._tree is not None:
            return self._tree
        from lancekit._scan.expressions.parser import parse  # few calls have a text to parse

        return parse(str(self))

    def __reduce__(self) -> tuple[object, ...]:
        return Unbound, (str(self),)  # pickle recurses less deeply than the parser


def _no_filter(value: object) -> InvalidTypeError:
    from lancekit._guesses import condition_hint  # needed only for errors

    what = f"a filter must be SQL text or a pyarrow expression, got {type(value).__name__}."
    return InvalidTypeError(what, hint=condition_hint(value))
