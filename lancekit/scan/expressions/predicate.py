"""Filters and computed columns: SQL text, or a pyarrow expression, bound to a schema.

The language is the one that Lance readers accept: comparisons, ``AND``/``OR``/
``NOT`` with SQL's three values, ``IS NULL``, ``IN``, ``BETWEEN``, ``LIKE``, arithmetic, ``CAST``,
and functions.  Column names go bare or in backticks, text in single (or double) quotes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lancekit import arrow_kernels as ak
from lancekit.errors import InvalidTypeError, PredicateError
from lancekit.format.column_names import RESERVED_NAMES
from lancekit.format.extensions import EXTENSION_NAME
from lancekit.format.paths import parse_path, pick, top_of
from lancekit.scan.expressions.error_position import TooLargeError, as_class, failure
from lancekit.scan.expressions.kernels.operators import plain
from lancekit.scan.expressions.kernels.scalars import scalar_of

__all__ = ["HIDDEN_COLUMNS", "Expr", "Predicate", "compile_expression", "compiled", "with_hidden"]

# Columns that every row has without being in the schema; the scanner supplies them.
HIDDEN_COLUMNS: dict[str, pa.DataType] = dict.fromkeys(RESERVED_NAMES, pa.uint64())


def with_hidden(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the hidden columns behind its own."""
    own = set(schema.names)
    extra = [pa.field(n, t) for n, t in HIDDEN_COLUMNS.items() if n not in own]
    return pa.schema([*schema, *extra])


def _only(schema: pa.Schema, columns: frozenset[str]) -> pa.Schema:
    """Keep the fields that are read, which makes a worker's copy small and the cache quick."""
    tops = {top_of(column) for column in columns}
    return pa.schema([field for field in schema if field.name in tops])


# Functions of the time: one query has one time, whatever its parts are computed.
_OF_TIME = re.compile(r"\b(now|today|current_(date|time|timestamp))\b", re.IGNORECASE)


def _time_of(sql: str) -> int:
    return time.time_ns() if _OF_TIME.search(sql) else 0


def _compile(sql: str, schema: pa.Schema, now: int) -> Any:
    from lancekit.scan.expressions.compiler import compile_sql  # loads all kernels

    try:
        return compile_sql(sql, with_hidden(schema), now)
    except RecursionError:
        raise failure(
            sql,
            "the expression is nested too deeply:",
            0,
            "Write it with fewer parentheses, or as IN (...) instead of many ORs.",
        ) from None


#: characters from which on few texts are kept, as each may hold a long list
_LONG = 1 << 14


def _nothing(_sql: str, _schema: pa.Schema, _now: int) -> list[Any]:
    return []


# each a list of what was compiled, so that what was for one schema can be put in for another
_SHORT_TEXTS, _LONG_TEXTS = lru_cache(maxsize=256)(_nothing), lru_cache(maxsize=8)(_nothing)


def _kept(sql: str, schema: pa.Schema, now: int) -> list[Any]:
    return (_SHORT_TEXTS if len(sql) < _LONG else _LONG_TEXTS)(sql, schema, now)


def compiled(sql: str, schema: pa.Schema, now: int) -> Any:
    """Return the `Compiled` of a text, which is kept."""
    kept = _kept(sql, schema, now)
    if not kept:
        kept.append(_compile(sql, schema, now))
    return kept[0]


def _bound(sql: str, schema: pa.Schema, now: int) -> tuple[Any, pa.Schema]:
    """Compile a text, and keep it for the fields that it reads, too."""
    found = compiled(sql, schema, now)
    needed = _only(schema, found.node.columns)
    kept = _kept(sql, needed, now)
    if not kept:
        kept.append(found)
    return found.node, needed


def _columns_of(expression: pc.Expression, schema: pa.Schema) -> frozenset[str]:
    """Find the columns that an expression reads: those that it cannot be bound without."""
    text = str(expression)
    needed = [field for field in with_hidden(schema) if field.name in text]
    try:
        _project(expression, _no_rows(needed))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError) as error:
        raise PredicateError(
            f"the filter {text} does not fit the schema: {str(error).splitlines()[0]}.",
            sql=text,
        ) from error
    for field in list(needed):
        fewer = [f for f in needed if f is not field]
        try:
            _project(expression, _no_rows(fewer))
        except (pa.ArrowInvalid, KeyError):
            continue
        needed = fewer
    return frozenset(field.name for field in needed)


def _no_rows(fields: list[pa.Field]) -> pa.Table:
    return pa.schema(fields).empty_table()


def _project(expression: pc.Expression, table: pa.Table) -> pa.Array:
    from pyarrow import acero  # loads pyarrow.dataset, and with it pandas

    plan = acero.Declaration.from_sequence(
        [
            acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
            acero.Declaration("project", acero.ProjectNodeOptions([expression], ["x"])),
        ]
    )
    return ak.combine_chunks(plan.to_table(use_threads=False).column(0))


def _evaluate(run: Callable[[Callable[[str], pa.Array]], Any], batch: pa.RecordBatch) -> pa.Array:
    try:
        value = run(partial(_column, batch))
    except TooLargeError as error:
        if batch.num_rows < 2:
            raise as_class(PredicateError, error) from error
        # what is too large for all rows together may be none for each half
        half = batch.num_rows // 2
        return _joined([_evaluate(run, batch.slice(0, half)), _evaluate(run, batch.slice(half))])
    return pa.repeat(value, batch.num_rows) if isinstance(value, pa.Scalar) else value


def _joined(parts: list[pa.Array]) -> pa.Array:
    try:
        return ak.concat_arrays(parts)
    except pa.ArrowInvalid as error:
        raise PredicateError(
            f"the texts of {sum(map(len, parts))} rows are larger than a column can hold at once, "
            "2 GiB.",
            hint="Compute them for fewer rows, or shorter.",
        ) from error


def _column(batch: pa.RecordBatch, path: str) -> pa.Array:
    """Return a column that was read by its path, or a part of one that was read as a whole."""
    if path in batch.schema.names:
        return batch.column(path)
    top, *rest = parse_path(path)
    return pick(batch.column(top), rest)


def _batches(data: pa.RecordBatch | pa.Table) -> list[pa.RecordBatch]:
    return data.to_batches() if isinstance(data, pa.Table) else [data]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expr:
    """A computed column: SQL text bound to a schema.  Can be pickled.

    Attributes
    ----------
    sql
        The text.
    schema
        The fields of the dataset's schema that it reads.
    columns
        The columns that it reads, nested ones by their paths.
    type
        The type that it gives.
    now
        The time that ``now()`` is, in nanoseconds since 1970; 0 if it does not matter.
    """

    sql: str
    schema: pa.Schema
    columns: frozenset[str]
    type: pa.DataType
    now: int = 0

    @property
    def number(self) -> int | Decimal | None:
        """The number that it is by its text alone, ``None`` if it is anything else."""
        literal = compiled(self.sql, self.schema, self.now).node.literal
        return literal[0] if literal and type(literal[0]) in (int, Decimal) else None

    @property
    def path(self) -> str:
        """The path of the column or field that it names, empty if it is anything else."""
        return str(compiled(self.sql, self.schema, self.now).node.field)

    @property
    def stored(self) -> pa.Field | None:
        """The column or field that it names, if it is computed with in another type.

        So are categories, half floats and UUIDs, and lists and structs of them.  ``None`` for
        anything else.
        """
        top, *rest = parse_path(self.path) if self.path else [""]
        if top not in self.schema.names:
            return None  # computed, or a hidden column
        field = self.schema.field(top)
        for name in rest:
            field = cast("pa.StructType", field.type).field(name)
        marks = {k: v for k, v in (field.metadata or {}).items() if k == EXTENSION_NAME}
        is_uuid = b"arrow.uuid" in marks.values()
        kind = field.type
        if pa.types.is_nested(kind):
            converted = plain(pa.nulls(0, kind)).type != kind
        else:
            converted = pa.types.is_dictionary(kind) or pa.types.is_float16(kind)
        if not (is_uuid or converted):
            return None
        return pa.field(field.name, field.type, metadata=marks if is_uuid else None)

    def evaluate(self, data: pa.RecordBatch | pa.Table) -> pa.Array:
        """Compute one value per row.

        Raises
        ------
        PredicateError
            A value that cannot be computed: a number out of range, a division by zero, a text
            that is no number.
        """
        run = compiled(self.sql, self.schema, self.now).node.run
        parts = [_evaluate(run, batch) for batch in _batches(data)]
        return parts[0] if len(parts) == 1 else _joined(parts or [pa.nulls(0, self.type)])


def compile_expression(sql: str, schema: pa.Schema) -> Expr:
    """Bind the text of a computed column to a schema.

    Parameters
    ----------
    sql
        An expression such as ``"x * 2"``.
    schema
        The dataset's schema; hidden columns such as ``_rowid`` come along.

    Raises
    ------
    PredicateError
        The text does not parse, names no column of the schema, or does not fit the types.

    Examples
    --------
    >>> twice = compile_expression("x * 2", pa.schema({"x": pa.int64()}))
    >>> twice.evaluate(pa.record_batch({"x": [1, None]})).to_pylist()
    [2, None]
    """
    now = _time_of(sql)
    node, needed = _bound(sql, schema, now)
    return Expr(sql=sql, schema=needed, columns=node.columns, type=node.type, now=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """A filter bound to a schema: which rows are wanted.  Can be pickled.

    Attributes
    ----------
    source
        The SQL text, or the pyarrow expression.
    schema
        The fields of the dataset's schema that it reads.
    columns
        The columns that it reads, nested ones by their paths.
    now
        The time that ``now()`` is, in nanoseconds since 1970; 0 if it does not matter.
    """

    source: str | pc.Expression
    schema: pa.Schema
    columns: frozenset[str]
    now: int = 0

    @classmethod
    def parse(cls, source: str | pc.Expression, schema: pa.Schema) -> Predicate:
        """Bind a filter to a schema.

        Parameters
        ----------
        source
            SQL text such as ``"dep_delay > 60 AND origin = 'JFK'"``, or a pyarrow expression.
        schema
            The dataset's schema; hidden columns such as ``_rowid`` come along.

        Raises
        ------
        PredicateError
            The text does not parse, names no column of the schema, compares what cannot be
            compared, or is not a condition.

        Examples
        --------
        >>> schema = pa.schema({"x": pa.int8(), "y": pa.int8()})
        >>> wanted = Predicate.parse("x > 1 AND y IS NULL", schema)
        >>> sorted(wanted.columns)
        ['x', 'y']
        """
        now = 0
        if isinstance(source, pc.Expression):
            columns = _columns_of(source, schema)
            needed = _only(schema, columns)
            fields = [f for f in with_hidden(schema) if f.name in columns]
            kind = _project(source, _no_rows(fields)).type
        elif isinstance(source, str):
            now = _time_of(source)
            node, needed = _bound(source, schema, now)
            columns, kind = node.columns, node.type
        else:
            raise InvalidTypeError(
                f"a filter is SQL text or a pyarrow expression, not {type(source).__name__}."
            )
        if kind != pa.bool_():
            what = f"the filter gives {kind}, not true or false"
            hint = "Compare it with something: `x > 0`."
            if isinstance(source, str):
                raise failure(source, f"{what}:", 0, hint)
            raise PredicateError(f"{what}: {source}.", hint=hint)
        return cls(source=source, schema=needed, columns=columns, now=now)

    def points(self, column: str) -> frozenset[int] | None:
        """Return the numbers of which wanted rows have one in a hidden column, if that is certain.

        ``None`` if rows with any number may be wanted.
        """
        is_own = column in self.schema.names
        if not isinstance(self.source, str) or column not in self.columns or is_own:
            return None
        from lancekit.scan.expressions.row_points import row_points  # loads the parser

        return row_points(self.source, column)

    def may_want(
        self,
        column: str,  # noqa: ARG002
        least: pa.Array,  # noqa: ARG002
        greatest: pa.Array,  # noqa: ARG002
    ) -> npt.NDArray[np.bool_] | None:
        """Tell of blocks of rows whether one may be wanted, by the bounds of a column.

        ``None`` if the text has to tell.
        """
        return None

    def mask(self, data: pa.RecordBatch | pa.Table) -> pa.BooleanArray:
        """Tell for each row whether it is wanted; where the condition is null, it is not.

        Parameters
        ----------
        data
            Rows with at least the predicate's ``columns``.

        Raises
        ------
        PredicateError
            A value that cannot be computed, such as a division by zero.
        """
        if isinstance(self.source, str):
            run = compiled(self.source, self.schema, self.now).node.run
            parts = [_evaluate(run, batch) for batch in _batches(data)]
            found = ak.concat_arrays(parts or [pa.nulls(0, pa.bool_())])
        else:
            table = data if isinstance(data, pa.Table) else pa.Table.from_batches([data])
            try:
                found = _project(self.source, table)
            except pa.ArrowException as error:
                reason = str(error).splitlines()[0].rstrip(".")
                raise PredicateError(f"{self.source} cannot be computed: {reason}.") from error
        return cast(pa.BooleanArray, found.fill_null(scalar_of(False)))
