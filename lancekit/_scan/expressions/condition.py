"""Conditions on a table: on each row, or on aggregates over all rows.

A condition on rows is a filter. In a condition on the table, columns are arguments of ``count``,
``sum``, ``min``, ``max`` and ``avg``. The rest is the filter language. In it, the value of an
aggregate is a column whose name is the aggregate's text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._format.column_names import RESERVED_NAMES
from lancekit._legible import shown
from lancekit._scan.expressions.nodes import negation
from lancekit._scan.expressions.parser import parse
from lancekit._scan.expressions.predicate import ComputedColumn, Predicate, time_of, with_hidden
from lancekit._scan.expressions.syntax import Syntax, failure, not_too_deep
from lancekit.errors import InvalidTypeError, PredicateError


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition bound to a schema. Can be pickled.

    text: the text as written.
    columns: the columns that it reads, nested ones by their paths.
    aggregates: the aggregates over all rows; empty for a condition on rows.
    broken: the negated condition, over rows of the table, or over one row with the aggregates in
        their order. A condition that is null is not broken.
    """

    text: str
    columns: frozenset[str]
    aggregates: tuple[_Aggregate, ...]
    broken: Predicate

    @property
    def of_rows(self) -> bool:
        """True for a condition on each row, False for a condition on the whole table."""
        return not self.aggregates

    def met_by(self, values: Sequence[pa.Scalar]) -> bool:
        """Return True if a table with these aggregates meets the condition.

        Raises PredicateError: it cannot be computed, such as a division by zero.
        """
        arrays = [
            pa.array([value], aggregate.type)
            for value, aggregate in zip(values, self.aggregates, strict=True)
        ]
        row = pa.record_batch(arrays, names=[aggregate.text for aggregate in self.aggregates])
        return not self.broken.mask(row)[0].as_py()


def parse_condition(text: str, schema: pa.Schema) -> Condition:
    """Bind a condition to a schema.

    text: a filter such as ``"dep_delay >= -120"``, or one over ``count(*)``, ``count(x)``,
        ``count(DISTINCT x)``, ``sum(x)``, ``min(x)``, ``max(x)`` and ``avg(x)``, each optionally
        with a ``FILTER (WHERE ...)``.
    schema: the dataset's schema.

    Raises PredicateError: the text does not parse or does not fit the schema, is not boolean, names
        no column, or names a column outside of its aggregates.

    Examples
    --------
    >>> schema = pa.schema({"x": pa.int8(), "y": pa.int8()})
    >>> parse_condition("x > y", schema).of_rows
    True
    >>> condition = parse_condition("count(DISTINCT x) FILTER (WHERE y > 0) = count(*)", schema)
    >>> [aggregate.text for aggregate in condition.aggregates]
    ['count(DISTINCT x) FILTER (WHERE y > 0)', 'count(*)']
    """
    if not isinstance(text, str):
        raise InvalidTypeError(
            f"A condition must be SQL text, got {shown(text)}.",
            hint='For example "dep_delay >= -120".',
        )
    with not_too_deep(text):
        tree = parse(text, aggregates=True)
        calls = list(_aggregates(tree))
        return _of_table(text, tree, calls, schema) if calls else _of_rows(text, tree, schema)


def _aggregates(tree: Syntax) -> Iterator[Syntax]:
    """Yield the aggregates of a syntax tree in their order, without nested ones."""
    waiting = [tree]
    while waiting:
        piece = waiting.pop()
        if piece.kind == "aggregate":
            yield piece
        else:
            waiting += reversed(piece.parts)


def _of_rows(text: str, tree: Syntax, schema: pa.Schema) -> Condition:
    broken = _broken(text, tree, schema)
    if not broken.columns:
        raise failure(text, "the condition uses no column:", 0)
    return Condition(text=text, columns=_stored(text, broken.columns), aggregates=(), broken=broken)


def _of_table(text: str, tree: Syntax, calls: Sequence[Syntax], schema: pa.Schema) -> Condition:
    found: dict[str, _Aggregate] = {}
    for call in calls:
        aggregate = _aggregate(text, call, schema)
        found.setdefault(aggregate.text, aggregate)
    aggregates = tuple(found.values())
    outer = pa.schema([pa.field(one.text, one.type) for one in aggregates])
    try:
        broken = _broken(text, tree, outer)
    except PredicateError as error:
        if error.context.get("column") not in {field.name for field in schema}:
            raise
        raise PredicateError(
            f"{error.context['column']!r} must be inside an aggregate, like the rest of the "
            "condition.",
            hint="Write two conditions, one for rows and one for the table.",
            sql=text,
            column=error.context["column"],
        ) from error
    columns = frozenset[str]().union(*(one.columns for one in aggregates))
    return Condition(
        text=text, columns=_stored(text, columns), aggregates=aggregates, broken=broken
    )


def _broken(text: str, tree: Syntax, schema: pa.Schema) -> Predicate:
    met = Predicate.of(text, _bound(text, tree, schema), schema)
    return replace(met, expr=negation(met.expr))


def _aggregate(text: str, call: Syntax, schema: pa.Schema) -> _Aggregate:
    name, distinct, filtered = call.value
    parts = call.parts[: len(call.parts) - filtered]
    if name == "count" and not distinct and [part.kind for part in parts] == ["star"]:
        parts = ()
    elif not parts or (len(parts) > 1 and not distinct):
        raise failure(text, f"{name} takes one argument:", call.start)
    if distinct and name != "count":
        raise failure(text, f"DISTINCT is only for count, not for {name}:", call.start)
    if any(piece.kind == "aggregate" for part in call.parts for piece in part.walk()):
        raise failure(text, "an aggregate cannot be inside another aggregate:", call.start)
    arguments = [_bound(text, part, schema) for part in parts]
    where = None
    if filtered:
        rows = _bound(text, call.parts[-1], schema)
        where = Predicate.of(rows.sql, rows, schema)
    return _Aggregate.of(
        text[call.start : call.end], name, arguments, distinct=distinct, where=where
    )


def _bound(text: str, tree: Syntax, schema: pa.Schema) -> ComputedColumn:
    from lancekit._scan.expressions.bind import bind  # loads all kernels

    found = bind(tree, text, with_hidden(schema), time_of(text))
    return ComputedColumn.of(text[tree.start : tree.end], found)


def _stored(text: str, columns: frozenset[str]) -> frozenset[str]:
    if hidden := sorted(columns & set(RESERVED_NAMES)):
        raise PredicateError(
            f"the condition {text!r} uses {hidden[0]}, which is not a stored column.",
            hint="Use columns of the table.",
            sql=text,
            column=hidden[0],
        )
    return columns


# ---- aggregates, computed block by block

_LOW = (1 << 32) - 1
#: enough digits for the sum of any decimals
_WIDE = Context(prec=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Aggregate:
    """An aggregate bound to a schema. Can be pickled.

    text: the text as written.
    name: ``count``, ``sum``, ``min``, ``max`` or ``avg``; ``distinct`` for ``count(DISTINCT ...)``.
    arguments: the expressions over a row; empty for ``count(*)``.
    where: the filter of rows, ``None`` for all.
    type: the type of the result.
    """

    text: str
    name: str
    arguments: tuple[ComputedColumn, ...]
    where: Predicate | None
    type: pa.DataType

    @classmethod
    def of(
        cls,
        text: str,
        name: str,
        arguments: Sequence[ComputedColumn],
        *,
        distinct: bool,
        where: Predicate | None,
    ) -> _Aggregate:
        """Return an aggregate, after a check of its arguments' types.

        Raises PredicateError: the aggregate does not accept one of the types.
        """
        name = "distinct" if distinct else name
        kinds = [argument.type for argument in arguments]
        for kind in kinds:
            if not _TAKES[name](kind):
                raise PredicateError(
                    f"{text}: {_SHOWN.get(name, name)} does not support {kind}.",
                    hint="Write a CAST, or another expression.",
                    sql=text,
                )
        return cls(
            text=text, name=name, arguments=tuple(arguments), where=where, type=_result(name, kinds)
        )

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it reads."""
        read = [argument.columns for argument in self.arguments]
        return frozenset[str]().union(*read, self.where.columns if self.where else ())


class Tally:
    """The running state of an aggregate.

    Examples
    --------
    >>> from lancekit._scan.expressions.condition import parse_condition
    >>> (total,) = parse_condition("sum(x) > 3", pa.schema({"x": pa.int8()})).aggregates
    >>> tally = Tally(total)
    >>> for part in ([1, None], [100, 100]):
    ...     tally.add(pa.table({"x": pa.array(part, pa.int8())}))
    >>> tally.value()
    <pyarrow.Int64Scalar: 201>
    """

    def __init__(self, aggregate: _Aggregate) -> None:
        self._aggregate = aggregate
        self._state = _STATES[aggregate.name](aggregate)

    def add(self, rows: pa.Table) -> None:
        """Add rows to the aggregate; they must have its columns.

        Raises PredicateError: a value cannot be computed.
        """
        if self._aggregate.where is not None:
            rows = ak.filter(rows, self._aggregate.where.mask(rows))
        if rows.num_rows:
            values = [argument.evaluate(rows) for argument in self._aggregate.arguments]
            self._state.add(rows.num_rows, values)

    def value(self) -> pa.Scalar:
        """Return the result so far; null without values, except for counts.

        Raises PredicateError: a sum does not fit its type.
        """
        aggregate, value = self._aggregate, self._state.value()
        if isinstance(value, pa.Scalar):
            return value
        try:
            return pa.scalar(value, aggregate.type)
        except (pa.ArrowException, OverflowError) as error:
            raise PredicateError(
                f"{aggregate.text} is {value}, which does not fit {aggregate.type}.",
                hint="Write a CAST to double around the column.",
                sql=aggregate.text,
            ) from error


class _Count:
    """The number of rows, or of non-null values."""

    def __init__(self, _aggregate: _Aggregate) -> None:
        self._count = 0

    def add(self, rows: int, values: Sequence[pa.Array]) -> None:
        self._count += len(values[0]) - ak.null_count(values[0]) if values else rows

    def value(self) -> int:
        return self._count


class _Sum:
    """The sum and the number of values; integers have any size until the end."""

    def __init__(self, _aggregate: _Aggregate) -> None:
        self._sum: Any = 0
        self._count = 0

    def add(self, _rows: int, values: Sequence[pa.Array]) -> None:
        (array,) = values
        count = len(array) - ak.null_count(array)
        if count:
            part = _sum(array)
            if isinstance(part, Decimal):
                self._sum = _WIDE.add(self._sum, part)
            else:
                self._sum += part

            self._count += count

    def value(self) -> float | Decimal | None:
        return self._sum if self._count else None


class _Average(_Sum):
    """The sum divided by the number of values."""

    def value(self) -> float | None:
        return float(self._sum) / self._count if self._count else None


class _Extreme:
    """The least or the greatest value; a NaN is above all numbers, as in filters."""

    def __init__(self, aggregate: _Aggregate) -> None:
        self._last = aggregate.name == "max"
        self._found: pa.Array = pa.nulls(0, aggregate.type)

    def add(self, _rows: int, values: Sequence[pa.Array]) -> None:
        array = ak.drop_null(ak.concat_arrays([self._found, values[0].cast(self._found.type)]))
        if pt.is_floating(array.type):
            is_nan = pc.is_nan(array)
            if pc.any(is_nan).as_py():
                numbers = ak.filter(array, pc.invert(is_nan))
                array = ak.filter(array, is_nan)[:1] if self._last or not len(numbers) else numbers
        if len(array):
            # Arrow has no min_max of durations
            plain = array.view(pa.int64()) if pt.is_duration(array.type) else array
            ends = pc.min_max(plain)
            found = pa.array([ends["max" if self._last else "min"]], plain.type)
            self._found = found if plain is array else found.view(array.type)

    def value(self) -> pa.Scalar | None:
        return self._found[0] if len(self._found) else None


class _Distinct:
    """The number of distinct values, or of distinct combinations of values, without nulls."""

    def __init__(self, _aggregate: _Aggregate) -> None:
        self._known: pa.Table | None = None
        self._new: list[pa.Table] = []
        self._waiting = 0

    def add(self, _rows: int, values: Sequence[pa.Array]) -> None:
        names = [str(place) for place in range(len(values))]
        found = _unique(
            ak.drop_null(pa.table([_same_bytes(array) for array in values], names=names))
        )
        self._new.append(found)
        self._waiting += found.num_rows
        # rarely enough that each value is merged only a few times
        if self._known is None or self._waiting > self._known.num_rows:
            self._merge()

    def _merge(self) -> None:
        parts = [*([self._known] if self._known is not None else ()), *self._new]
        self._known = _unique(pa.concat_tables(parts)) if parts else None
        self._new, self._waiting = [], 0

    def value(self) -> int:
        if self._new:
            self._merge()
        return self._known.num_rows if self._known is not None else 0


def _unique(table: pa.Table) -> pa.Table:
    return table.group_by(table.column_names).aggregate([])


def _same_bytes(array: pa.Array) -> pa.Array:
    """Give equal floats equal bytes."""
    if not pt.is_floating(array.type):
        return array
    array = pc.cast(array, pa.float64())
    return pc.if_else(pc.is_nan(array), float("nan"), pc.add(array, 0.0))  # -0.0 is 0.0


def _sum(array: pa.Array) -> float | Decimal:
    """Return a sum as a Python number: a sum of integers may exceed their type."""
    kind = array.type
    found: float | Decimal
    if not pt.is_integer(kind):
        widest = pa.decimal256(76, kind.scale) if pt.is_decimal(kind) else pa.float64()
        found = pc.sum(array.cast(widest)).as_py()
        return found
    if kind.bit_width < 64:
        found = pc.sum(array.cast(pa.int64())).as_py()  # of less than 2 ** 31 values
        return found
    values = ak.drop_null(array).to_numpy()
    return (int((values >> 32).sum()) << 32) + int((values & _LOW).sum())


def _is_number(kind: pa.DataType) -> bool:
    return pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)


def _is_plain(kind: pa.DataType) -> bool:
    return not (pt.is_nested(kind) or pt.is_union(kind) or isinstance(kind, pa.BaseExtensionType))


def _is_ordered(kind: pa.DataType) -> bool:
    return _is_plain(kind) and not pt.is_null(kind)


_SHOWN = {"distinct": "count(DISTINCT)"}

_TAKES: Mapping[str, Callable[[pa.DataType], bool]] = {
    "count": lambda _kind: True,
    "distinct": _is_plain,
    "sum": _is_number,
    "avg": _is_number,
    "min": _is_ordered,
    "max": _is_ordered,
}

_STATES: Mapping[str, Callable[[_Aggregate], Any]] = {
    "count": _Count,
    "distinct": _Distinct,
    "sum": _Sum,
    "avg": _Average,
    "min": _Extreme,
    "max": _Extreme,
}


def _result(name: str, kinds: Sequence[pa.DataType]) -> pa.DataType:
    if name in ("min", "max"):
        return pa.float32() if pt.is_float16(kinds[0]) else kinds[0]
    if name == "avg":
        return pa.float64()
    if name == "sum":
        (kind,) = kinds
        if pt.is_unsigned_integer(kind):
            return pa.uint64()
        if pt.is_decimal(kind):
            widest = pa.decimal256(76, kind.scale)
            return pa.decimal128(38, kind.scale) if pt.is_decimal128(kind) else widest
        return pa.float64() if pt.is_floating(kind) else pa.int64()
    return pa.int64()
