"""Conversion of a filter to an index query: conditions of single columns, joined by AND and OR.

``NOT`` is pushed down to the conditions: a negated condition holds where the condition is false,
not where it is null, so the same rows satisfy the filter. A condition becomes part of the query if
it compares one column with constants. Conditions of one column are merged: ``x >= 1 AND x < 3``
becomes one interval.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial, reduce
from math import ceil, floor
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import array_of, flags_of, numbers_of, scalar_of
from lancekit._format.arrow_parts import IsKind, decimal_size, unit_and_zone
from lancekit._index.search.index_query import (
    INFINITIES,
    ColumnCondition,
    CombinedConditions,
    Flags,
    IndexQuery,
    Interval,
    IntervalSet,
    ValueTest,
    common,
    either,
    float_ranks,
    ranks_of,
)
from lancekit._scan.expressions.evaluate import value_of
from lancekit._scan.expressions.kernels.operators import Value, as_array, plain
from lancekit._scan.expressions.nodes import Call, Expr, InList, Literal, columns_of, field_of
from lancekit._scan.expressions.predicate import Predicate
from lancekit.errors import LancekitError


@lru_cache(maxsize=64)
def _index_query(expr: Expr) -> IndexQuery | None:
    try:
        return _split(expr, negated=False)
    except LancekitError:
        return None


def index_query_of(predicate: Predicate) -> IndexQuery | None:
    """Split a filter into conditions of single columns; ``None`` if it bounds no column.

    Examples
    --------
    >>> import pyarrow as pa
    >>> schema = pa.schema({"x": pa.int8(), "y": pa.int8()})
    >>> query = index_query_of(Predicate.parse("NOT (x < 3 OR x > 5) AND x + y > 4", schema))
    >>> [part.column for part in query.parts], query.parts[0].interval_set.intervals, query.whole
    (['x'], ((3, 5),), False)
    """
    return _index_query(predicate.expr)


# ---- AND, OR and NOT


def _split(expr: Expr, *, negated: bool) -> IndexQuery | None:
    while isinstance(expr, Call) and expr.function == "NOT":
        negated = not negated
        (expr,) = expr.args
    if isinstance(expr, Call) and expr.function in ("AND", "OR"):
        all_of = (expr.function == "AND") is not negated
        return _combined([_split(part, negated=negated) for part in expr.args], all_of)
    return _condition(expr, negated)


def _combined(parts: Sequence[IndexQuery | None], all_of: bool) -> IndexQuery | None:
    """Join index queries by AND or OR; ``None`` if they do not bound the rows."""
    known = [part for part in parts if part is not None]
    if not known or (len(known) < len(parts) and not all_of):
        return None
    by_column: dict[object, list[ColumnCondition]] = {}
    combined: list[CombinedConditions] = []
    for part in known:
        if isinstance(part, ColumnCondition):
            # conditions on texts or items are not merged: only some indices can answer them
            key = part.column if not (part.runs or part.items) else (part.column, id(part))
            by_column.setdefault(key, []).append(part)
        else:
            combined.append(part)
    merged = [_merged(conditions, all_of) for conditions in by_column.values()]
    whole = len(known) == len(parts) and all(one.whole for one in combined)
    joined = CombinedConditions((*merged, *combined), all_of, whole)
    return joined.parts[0] if len(joined.parts) == 1 and joined.whole else joined


def _merged(conditions: Sequence[ColumnCondition], all_of: bool) -> ColumnCondition:
    """Merge conditions on one column into one condition."""
    if len(conditions) == 1:
        return conditions[0]
    matches = tuple(condition.matches for condition in conditions)
    bounds = [condition.interval_set for condition in conditions]
    known = [interval_set for interval_set in bounds if interval_set is not None]
    interval_set = None
    if all_of and known:
        interval_set = reduce(common, known)
    elif known and len(known) == len(bounds):
        interval_set = reduce(either, known)
    join = np.logical_and if all_of else np.logical_or
    return replace(
        conditions[0],
        matches=lambda values: join.reduce([one(values) for one in matches]),
        interval_set=interval_set,
    )


# ---- conditions of one column and constants


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    """A stored column: its path, and the type that its values are computed with."""

    path: str
    type: pa.DataType


@dataclass(frozen=True, slots=True, eq=False)
class _Bounds:
    """The column of a condition, and bounds of the values that match, as in `ColumnCondition`."""

    column: _Column
    interval_set: IntervalSet | None = None
    runs: tuple[str, ...] = ()
    items: tuple[ValueTest, ...] = ()


def _condition(expr: Expr, negated: bool) -> ColumnCondition | None:
    """Return an expression, or its negation, as a column condition; ``None`` if it is not one."""
    found = _bounds_of(expr, negated)
    if found is None:
        return None
    column, interval_set = found.column, found.interval_set
    if columns_of(expr) != {column.path}:
        return None
    matches = _matches(expr, negated)
    if interval_set is not None and pt.is_floating(column.type):
        interval_set = _with_nans(interval_set, matches, column.type)
    return ColumnCondition(
        column=column.path,
        type=column.type,
        matches=matches,
        interval_set=interval_set,
        runs=found.runs,
        items=found.items,
    )


def _bounds_of(expr: Expr, negated: bool) -> _Bounds | None:
    match expr:
        case InList():
            return _in(expr, negated)
        case Call(function=name) if (rule := _RULES.get(name)) is not None:
            return rule(expr, negated)
    return _flag(expr, negated)


def _matches(expr: Expr, negated: bool) -> ValueTest:
    return partial(_true_for, lambda values: value_of(expr, lambda _path: values), negated)


def _true_for(run: Callable[[pa.Array], Value], negated: bool, values: pa.Array) -> Flags:
    """Return a mask of the values for which a condition is true, or false if it is negated."""
    found = as_array(run(values), len(values))
    flags: Flags = flags_of(found.fill_null(scalar_of(negated)) if ak.null_count(found) else found)
    return ~flags if negated else flags


def _column(expr: Expr) -> _Column | None:
    """Return the column if an expression is only a stored column, else ``None``."""
    column = field_of(expr)
    return None if column is None else _Column(column.path, _computed_type(column.type))


@lru_cache(maxsize=256)
def _computed_type(kind: pa.DataType) -> pa.DataType:
    return plain(pa.nulls(0, kind)).type


def _constant(expr: Expr) -> pa.Array | None:
    """Return the value of an expression that reads no column, as an array of length 1."""
    return None if columns_of(expr) else as_array(value_of(expr, _never), 1)


def _never(path: str) -> pa.Array:
    raise AssertionError(f"a constant reads {path}")


_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_NEGATED = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "=": "<>", "<>": "="}


def _comparison(expr: Call, negated: bool) -> _Bounds | None:
    name, (left, right) = expr.function, expr.args
    column = _column(left)
    if column is None:
        column, right, name = _column(right), left, _FLIPPED.get(name, name)
    value = _constant(right)
    if column is None or value is None:
        return None
    name = _NEGATED[name] if negated else name
    if name == "<>":
        return _Bounds(column)
    ends = _ends(column, value)
    if ends is None:
        return _Bounds(column)
    low, high = ends
    interval = {"<": (None, high), ">": (low, None)}.get(name[0], ends)
    return _Bounds(column, IntervalSet.of([interval]))


def _in(expr: InList, negated: bool) -> _Bounds | None:
    column = _column(expr.arg)
    if column is None:
        return None
    if negated:
        return _Bounds(column)
    intervals: list[Interval] = []
    for values in expr.sets:
        found = _intervals(column, values)
        if found is None:
            return _Bounds(column)
        intervals += found
    return _Bounds(column, IntervalSet.of(intervals))


def _is_null(expr: Call, negated: bool) -> _Bounds | None:
    column = _column(expr.args[0])
    return None if column is None else _Bounds(column, None if negated else IntervalSet(()))


def _is(expr: Call, negated: bool) -> _Bounds | None:
    column = _column(expr.args[0])
    return None if column is None else _Bounds(column, _of_flags(column, expr, negated))


def _flag(expr: Expr, negated: bool) -> _Bounds | None:
    column = _column(expr)
    if column is None or not pt.is_boolean(column.type):
        return None
    return _Bounds(column, _of_flags(column, expr, negated))


def _of_flags(column: _Column, expr: Expr, negated: bool) -> IntervalSet | None:
    """Return the booleans that satisfy a condition, as an interval set."""
    if not pt.is_boolean(column.type):
        return None
    matching = _matches(expr, negated)(pa.array([False, True]))
    return IntervalSet.of((flag, flag) for flag in np.flatnonzero(matching).tolist())


def _like(expr: Call, negated: bool) -> _Bounds | None:
    column, pattern = _column(expr.args[0]), _text(expr.args[1])
    if column is None or pattern is None or expr.options != (False, "\\"):
        return None
    if negated:
        return _Bounds(column)
    begin, *runs = _runs(pattern)
    interval_set = (
        _equal_to(column, begin) if not runs and begin == pattern else _beginning(column, begin)
    )
    return _Bounds(column, interval_set, tuple(filter(None, [begin, *runs])))


def _text(expr: Expr) -> str | None:
    """Return the text if an expression is a text literal, else ``None``."""
    text = expr.value.as_py() if isinstance(expr, Literal) else None
    return text if isinstance(text, str) else None


def _runs(pattern: str) -> Iterator[str]:
    """Yield the literal texts between the wildcards of a LIKE pattern; the first is a prefix."""
    run = ""
    for piece in re.findall(r"\\.|.", pattern, re.DOTALL):
        if piece in ("%", "_"):
            yield run
            run = ""
        else:
            run += piece[-1]
    yield run


def _call(expr: Call, negated: bool) -> _Bounds | None:
    column, value = _column(expr.args[0]), _constant(expr.args[1])
    if column is None or value is None:
        return None
    if negated:
        return _Bounds(column)
    items = _OF_LISTS.get(expr.function)
    if items is not None:
        return _Bounds(column, items=items(expr, value))
    text = _text(expr.args[1])
    if text is None:
        return None
    begins = expr.function == "starts_with"
    return _Bounds(column, _beginning(column, text) if begins else None, (text,))


def _equal_to(column: _Column, text: str) -> IntervalSet | None:
    ends = _ends(column, array_of([text], column.type))
    return None if ends is None else IntervalSet.of([ends])


def _beginning(column: _Column, text: str) -> IntervalSet | None:
    """Return the interval of texts with a prefix: up to the next text without it."""
    if not text or not (pt.is_string(column.type) or pt.is_large_string(column.type)):
        return None
    low = text.encode()
    return IntervalSet.of([(low, low[:-1] + bytes([low[-1] + 1]))])  # no byte of UTF-8 is 255


def _one_for_each(_expr: Call, value: pa.Array) -> tuple[ValueTest, ...]:
    """Return a test for each requested item: that a list contains it."""
    wanted = value[0].values if isinstance(value[0], pa.ListScalar) else None
    return tuple(partial(_true_for, partial(_has, item), False) for item in wanted or ())


def _has(item: pa.Scalar, lists: pa.Array) -> Value:
    from lancekit._scan.expressions.kernels.functions import FUNCTIONS  # only for lists

    return FUNCTIONS["array_has"].run("array_has", lists, item)


_OF_TEXTS = ("contains", "starts_with", "ends_with")
_OF_LISTS: Mapping[str, Callable[[Call, pa.Array], tuple[ValueTest, ...]]] = {
    **dict.fromkeys(
        (
            *("array_has", "array_contains", "list_has", "list_contains"),
            *("array_has_any", "list_has_any", "arrays_overlap"),
        ),
        lambda expr, _value: (_matches(expr, negated=False),),
    ),
    **dict.fromkeys(("array_has_all", "list_has_all"), _one_for_each),
}

_RULES: Mapping[str, Callable[[Call, bool], _Bounds | None]] = {
    **dict.fromkeys(_NEGATED, _comparison),
    "IS NULL": _is_null,
    **dict.fromkeys(("IS TRUE", "IS FALSE"), _is),
    "LIKE": _like,
    **dict.fromkeys((*_OF_TEXTS, *_OF_LISTS), _call),
}


# ---- intervals of values


def _ends(column: _Column, value: pa.Array) -> Interval | None:
    """Return the least and the greatest rank that may equal a value; ``None`` if unknown."""
    found = _intervals(column, value)
    return found[0] if found else None


def _intervals(column: _Column, values: pa.Array) -> list[Interval] | None:
    """Return, for each value, the interval of ranks that may equal it; ``None`` if unknown."""
    rules = (rule for mine, theirs, rule in _INTERVALS if mine(column.type) and theirs(values.type))
    rule = next(rules, _equal_ranks)
    return None if ak.null_count(values) else rule(column.type, values)


def _equal_ranks(kind: pa.DataType, values: pa.Array) -> list[Interval] | None:
    ranks = ranks_of(values) if values.type == kind else None
    return None if ranks is None else [(rank, rank) for rank in ranks.tolist()]


def _integers(kind: pa.DataType, values: pa.Array) -> list[Interval] | None:
    return _within(kind, [(value, value) for value in values.to_pylist()])


def _near_integers(kind: pa.DataType, values: pa.Array) -> list[Interval] | None:
    """Return the integers around each fraction; ``None`` from 2**52 on, where floats round."""
    found = values.to_pylist()
    exact = all(-_EXACT_FLOATS < value < _EXACT_FLOATS for value in found)
    return _within(kind, [(floor(value), ceil(value)) for value in found]) if exact else None


def _within(kind: pa.DataType, intervals: list[Interval]) -> list[Interval] | None:
    """Return intervals of integers if they fit the type, else ``None``."""
    bits = kind.bit_width - pt.is_signed_integer(kind)
    least, most = (-(1 << bits) if pt.is_signed_integer(kind) else 0), (1 << bits) - 1
    return intervals if all(least <= low and high <= most for low, high in intervals) else None


def _floats(_kind: pa.DataType, values: pa.Array) -> list[Interval]:
    zeros = tuple(float_ranks([-0.0, 0.0]).tolist())
    found = np.array(values.to_pylist(), np.float64)
    ranks = np.where(np.isnan(found), _NAN, float_ranks(found)).tolist()
    return [zeros if rank in zeros else (rank, rank) for rank in ranks]


def _decimals(kind: pa.DataType, values: pa.Array) -> list[Interval]:
    found = [Fraction(value) * 10 ** decimal_size(kind)[1] for value in values.to_pylist()]
    return [(floor(value), ceil(value)) for value in found]


def _timestamps(kind: pa.DataType, values: pa.Array) -> list[Interval] | None:
    """Return intervals with a margin: a value in a finer unit may be between two column values."""
    (unit, zone), (their_unit, their_zone) = unit_and_zone(kind), unit_and_zone(values.type)
    if (zone is None) != (their_zone is None):
        return None
    mine, theirs = _SECOND[unit], _SECOND[their_unit]
    near = 0 if mine == theirs else max(mine // theirs, 1)
    found = [value * mine // theirs for value in numbers_of(values.view(pa.int64())).tolist()]
    low, high = -_RANKS, _RANKS - 1
    return [(min(max(v - near, low), high), min(max(v + near, low), high)) for v in found]


#: ranks have 64 bits
_RANKS = 1 << 63
_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_Ranked: TypeAlias = Callable[[pa.DataType, pa.Array], list[Interval] | None]
#: by the types of the column and the value
_INTERVALS: tuple[tuple[IsKind, IsKind, _Ranked], ...] = (
    (pt.is_integer, pt.is_integer, _integers),
    (pt.is_integer, pt.is_floating, _near_integers),
    (pt.is_floating, pt.is_integer, _floats),
    (pt.is_floating, pt.is_floating, _floats),
    (pt.is_decimal, pt.is_decimal, _decimals),
    (pt.is_timestamp, pt.is_timestamp, _timestamps),
)

#: every integer below this is exact as a float
_EXACT_FLOATS = 1 << 52
#: the rank of a NaN that sorts above all numbers
_NAN = INFINITIES[1] + 1


def _with_nans(interval_set: IntervalSet, matches: ValueTest, kind: pa.DataType) -> IntervalSet:
    """Add all NaNs, which are at both ends of an index, if a NaN matches; else remove them."""
    interval_set = common(interval_set, IntervalSet((INFINITIES,)))
    if not matches(array_of([math.nan], kind))[0]:
        return interval_set
    below, above = INFINITIES
    return either(interval_set, IntervalSet(((None, below - 1), (above + 1, None))))
