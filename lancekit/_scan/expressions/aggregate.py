"""Aggregates: what is counted, summed or found over many rows, block by block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._scan.expressions.predicate import ComputedColumn, Predicate
from lancekit.errors import PredicateError

__all__ = ["Aggregate", "Tally"]

_LOW = (1 << 32) - 1
#: enough digits for the sum of any decimals
_WIDE = Context(prec=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """An aggregate bound to a schema.  Can be pickled.

    Attributes
    ----------
    text
        What was written.
    name
        ``count``, ``sum``, ``min``, ``max`` or ``avg``; ``distinct`` for ``count(DISTINCT ...)``.
    arguments
        What is computed of a row; nothing for ``count(*)``.
    where
        Which rows are looked at, ``None`` for all.
    type
        The type of the result.
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
    ) -> Aggregate:
        """Check that an aggregate takes what its arguments are.

        Raises
        ------
        PredicateError
            It does not.
        """
        name = "distinct" if distinct else name
        kinds = [argument.type for argument in arguments]
        for kind in kinds:
            if not _TAKES[name](kind):
                raise PredicateError(
                    f"{text}: there is no {_SHOWN.get(name, name)} of {kind}.",
                    hint="Write a CAST, or another expression.",
                    sql=text,
                )
        return cls(
            text=text,
            name=name,
            arguments=tuple(arguments),
            where=where,
            type=_result(name, kinds),
        )

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it reads."""
        read = [argument.columns for argument in self.arguments]
        return frozenset[str]().union(*read, self.where.columns if self.where else ())


class Tally:
    """An aggregate while rows come in.

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

    def __init__(self, aggregate: Aggregate) -> None:
        self._aggregate = aggregate
        self._state = _STATES[aggregate.name](aggregate)

    def add(self, rows: pa.Table) -> None:
        """Take more rows into account; they have the aggregate's columns.

        Raises
        ------
        PredicateError
            A value that cannot be computed.
        """
        if self._aggregate.where is not None:
            rows = ak.filter(rows, self._aggregate.where.mask(rows))
        if rows.num_rows:
            values = [argument.evaluate(rows) for argument in self._aggregate.arguments]
            self._state.add(rows.num_rows, values)

    def value(self) -> pa.Scalar:
        """Return the result so far; null for no values, except of counts.

        Raises
        ------
        PredicateError
            A sum does not fit its type.
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
    """Rows, or those in which a value is there."""

    def __init__(self, _aggregate: Aggregate) -> None:
        self._count = 0

    def add(self, rows: int, values: Sequence[pa.Array]) -> None:
        self._count += len(values[0]) - ak.null_count(values[0]) if values else rows

    def value(self) -> int:
        return self._count


class _Sum:
    """The sum of values, and their number; integers have any size until the end."""

    def __init__(self, _aggregate: Aggregate) -> None:
        self._sum: Any = 0
        self._count = 0

    def add(self, _rows: int, values: Sequence[pa.Array]) -> None:
        (array,) = values
        count = len(array) - ak.null_count(array)
        if count:
            part = _sum(array)
            exact = isinstance(part, Decimal)
            self._sum = _WIDE.add(self._sum, part) if exact else self._sum + part
            self._count += count

    def value(self) -> Any:
        return self._sum if self._count else None


class _Average(_Sum):
    """The sum divided by the number of values."""

    def value(self) -> float | None:
        return float(self._sum) / self._count if self._count else None


class _Extreme:
    """The least or the greatest value; a NaN is above all numbers, as in filters."""

    def __init__(self, aggregate: Aggregate) -> None:
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
            # Arrow finds the ends of no durations
            plain = array.view(pa.int64()) if pt.is_duration(array.type) else array
            ends: Any = pc.min_max(plain)
            found = pa.array([ends["max" if self._last else "min"]], plain.type)
            self._found = found if plain is array else found.view(array.type)

    def value(self) -> pa.Scalar | None:
        return self._found[0] if len(self._found) else None


class _Distinct:
    """Different values, or groups of values, none of which is null."""

    def __init__(self, _aggregate: Aggregate) -> None:
        self._known: pa.Table | None = None
        self._new: list[pa.Table] = []
        self._waiting = 0

    def add(self, _rows: int, values: Sequence[pa.Array]) -> None:
        names = [str(place) for place in range(len(values))]
        found = _unique(ak.drop_null(pa.table([_alike(array) for array in values], names=names)))
        self._new.append(found)
        self._waiting += found.num_rows
        # seldom enough that each value is looked at a few times in all
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


def _alike(array: pa.Array) -> pa.Array:
    """Give values that are equal the same bytes."""
    if not pt.is_floating(array.type):
        return array
    array = pc.cast(array, pa.float64())
    return pc.if_else(pc.is_nan(array), float("nan"), pc.add(array, 0.0))  # -0.0 is 0.0


def _sum(array: pa.Array) -> Any:
    """Return a sum as a number of Python's: that of integers may be larger than any of theirs."""
    kind = array.type
    if not pt.is_integer(kind):
        widest = pa.decimal256(76, kind.scale) if pt.is_decimal(kind) else pa.float64()
        return pc.sum(array.cast(widest)).as_py()
    if kind.bit_width < 64:
        return pc.sum(array.cast(pa.int64())).as_py()  # of less than 2 ** 31 values
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

_STATES: Mapping[str, Callable[[Aggregate], Any]] = {
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
