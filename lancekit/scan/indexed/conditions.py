"""Conditions that relate one column with constants, as questions: what holds, and of which."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import ceil, floor
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lancekit import arrow_kernels as ak
from lancekit.file.kernels.bits import flags_of
from lancekit.file.kernels.memory import numbers_of
from lancekit.index.search.order import INFINITIES, float_ranks, ranks_of
from lancekit.index.search.question import Flags, Holds, Question
from lancekit.index.search.reach import Interval, Reach, common, either
from lancekit.scan.expressions.kernels.functions import FUNCTIONS
from lancekit.scan.expressions.kernels.operators import Value, as_array
from lancekit.scan.expressions.kernels.scalars import array_of, scalar_of
from lancekit.scan.expressions.membership import items_of, sets_of
from lancekit.scan.expressions.scope import Node, Scope
from lancekit.scan.expressions.syntax import Syntax

__all__ = ["condition"]


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """The column of a condition, and where its values lie; as in `Question`."""

    column: Node
    reach: Reach | None = None
    runs: tuple[str, ...] = ()
    items: tuple[Holds, ...] = ()


def condition(tree: Syntax, scope: Scope, negated: bool) -> Question | None:
    """Return what a condition, or its contrary, asks of a column; ``None`` if it asks of none."""
    rule = _RULES.get(tree.kind)
    if rule is None:
        return None
    found = rule(tree, scope, negated)
    if found is None:
        return None
    column, reach = found.column, found.reach
    node = scope.boolean(tree, "WHERE")
    if node.columns != {column.field}:
        return None
    holds = _holds(node, negated)
    if reach is not None and pt.is_floating(column.type):
        reach = _with_nans(reach, holds, column.type)
    return Question(
        column=column.field,
        type=column.type,
        holds=holds,
        reach=reach,
        runs=found.runs,
        items=found.items,
    )


def _holds(node: Node, negated: bool) -> Holds:
    return partial(_true_for, lambda values: node.run(lambda _path: values), negated)


def _true_for(run: Callable[[pa.Array], Value], negated: bool, values: pa.Array) -> Flags:
    """Tell for which values a condition is true; if it is negated, for which it is false."""
    found = as_array(run(values), len(values))
    flags: Flags = flags_of(found.fill_null(scalar_of(negated)) if ak.null_count(found) else found)
    return ~flags if negated else flags


def _column(tree: Syntax, scope: Scope) -> Node | None:
    """Return the node of a stored column."""
    if tree.kind not in ("column", "field", "element"):
        return None
    node = scope.compile(tree)
    return node if node.field else None


_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_NEGATED = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "=": "<>", "<>": "="}


def _comparison(tree: Syntax, scope: Scope, negated: bool) -> _Place | None:
    kind, (left, right) = tree.kind, tree.parts
    column = _column(left, scope)
    if column is None:
        column, right, kind = _column(right, scope), left, _FLIPPED.get(kind, kind)
    if column is None:
        return None
    value = scope.compile(right)
    if value.columns:
        return None
    kind = _NEGATED[kind] if negated else kind
    if kind == "<>":
        return _Place(column)
    ends = _ends(column, _beside(scope, column, value, tree))
    if ends is None:
        return _Place(column)
    low, high = ends
    intervals = {
        "=": [(low, high)],
        "<": [(None, high)],
        "<=": [(None, high)],
        ">": [(low, None)],
        ">=": [(low, None)],
    }[kind]
    return _Place(column, Reach.of(intervals))


def _between(tree: Syntax, scope: Scope, negated: bool) -> _Place | None:
    column = _column(tree.parts[0], scope)
    values = [scope.compile(end) for end in tree.parts[1:]]
    if column is None or any(value.columns for value in values):
        return None
    ends = [_ends(column, _beside(scope, column, value, tree)) for value in values]
    if negated or ends[0] is None or ends[1] is None:
        return _Place(column)
    return _Place(column, Reach.of([(ends[0][0], ends[1][1])]))


def _in(tree: Syntax, scope: Scope, negated: bool) -> _Place | None:
    column = _column(tree.parts[0], scope)
    if column is None:
        return None
    members, others = items_of(scope, tree)
    if others:
        return None
    plain = id(tree) in scope.plain and tree.parts[0].is_column
    if negated:
        return _Place(column)
    intervals: list[Interval] = []
    for values in sets_of(scope, column, members, plain=plain):
        found = _intervals(column, values)
        if found is None:
            return _Place(column)
        intervals += found
    return _Place(column, Reach.of(intervals))


def _not_in(tree: Syntax, scope: Scope, negated: bool) -> _Place | None:
    return _in(tree, scope, not negated)


def _is_null(tree: Syntax, scope: Scope, negated: bool) -> _Place | None:
    column = _column(tree.parts[0], scope)
    return None if column is None else _Place(column, None if negated else Reach(()))


def _is(tree: Syntax, scope: Scope, negated: bool) -> _Place | None:
    column = _column(tree.parts[0], scope)
    return None if column is None else _Place(column, _of_flags(column, scope, tree, negated))


def _flag(tree: Syntax, scope: Scope, negated: bool) -> _Place | None:
    column = _column(tree, scope)
    if column is None or not pt.is_boolean(column.type):
        return None
    return _Place(column, _of_flags(column, scope, tree, negated))


def _of_flags(column: Node, scope: Scope, tree: Syntax, negated: bool) -> Reach | None:
    """Return which of the two booleans a condition holds of."""
    if not pt.is_boolean(column.type):
        return None
    both = pa.array([False, True])
    held = _holds(scope.boolean(tree, "WHERE"), negated)(both)
    return Reach.of((place, place) for place in np.flatnonzero(held).tolist())


def _like(tree: Syntax, scope: Scope, negated: bool) -> _Place | None:
    column, pattern = _column(tree.parts[0], scope), scope.compile(tree.parts[1])
    text = pattern.literal[0] if pattern.literal else None
    if column is None or not isinstance(text, str) or tree.value != "\\":
        return None
    if negated:
        return _Place(column)
    begin, *runs = _runs(text)
    reach = _equal_to(column, begin) if not runs and begin == text else _beginning(column, begin)
    return _Place(column, reach, tuple(filter(None, [begin, *runs])))


def _runs(pattern: str) -> Iterator[str]:
    """Yield the texts between what stands for any; the first one begins the values."""
    run = ""
    for piece in re.findall(r"\\.|.", pattern, re.DOTALL):
        if piece in ("%", "_"):
            yield run
            run = ""
        else:
            run += piece[-1]
    yield run


def _call(tree: Syntax, scope: Scope, negated: bool) -> _Place | None:
    name = tree.value.lower()
    if len(tree.parts) != 2 or (name not in _OF_TEXTS and name not in _OF_LISTS):
        return None
    column, value = _column(tree.parts[0], scope), scope.compile(tree.parts[1])
    if column is None or value.columns:
        return None
    if negated:
        return _Place(column)
    if name in _OF_LISTS:
        return _Place(column, items=_OF_LISTS[name](scope.boolean(tree, name), value))
    text = value.literal[0] if value.literal else None
    if not isinstance(text, str):
        return None
    begins = name == "starts_with"
    return _Place(column, _beginning(column, text) if begins else None, (text,))


def _equal_to(column: Node, text: str) -> Reach | None:
    ends = _ends(column, array_of([text], column.type))
    return None if ends is None else Reach.of([ends])


def _beginning(column: Node, text: str) -> Reach | None:
    """Return the reach of texts that begin with some text, up to the next that does not."""
    if not text or not (pt.is_string(column.type) or pt.is_large_string(column.type)):
        return None
    low = text.encode()
    return Reach.of([(low, low[:-1] + bytes([low[-1] + 1]))])  # no byte of a text is the last


def _one_condition(node: Node, _value: Node) -> tuple[Holds, ...]:
    return (_holds(node, negated=False),)


def _one_for_each(_node: Node, value: Node) -> tuple[Holds, ...]:
    """Return for each wanted item that a list has it."""
    wanted = value.example.values if isinstance(value.example, pa.ListScalar) else None
    return tuple(partial(_true_for, partial(_has, item), False) for item in wanted or ())


def _has(item: pa.Scalar, lists: pa.Array) -> Value:
    return FUNCTIONS["array_has"].run("array_has", lists, item)


_OF_TEXTS = ("contains", "starts_with", "ends_with")
_OF_LISTS: Mapping[str, Callable[[Node, Node], tuple[Holds, ...]]] = {
    **dict.fromkeys(("array_has", "array_contains", "list_has", "list_contains"), _one_condition),
    **dict.fromkeys(("array_has_any", "list_has_any", "arrays_overlap"), _one_condition),
    **dict.fromkeys(("array_has_all", "list_has_all"), _one_for_each),
}

_RULES: Mapping[str, Callable[[Syntax, Scope, bool], _Place | None]] = {
    **dict.fromkeys(_NEGATED, _comparison),
    "BETWEEN": _between,
    "IN": _in,
    "NOT IN": _not_in,
    "IS NULL": _is_null,
    "IS TRUE": _is,
    "IS FALSE": _is,
    "column": _flag,
    "field": _flag,
    "LIKE": _like,
    "call": _call,
}


# ---- where values lie


def _beside(scope: Scope, column: Node, value: Node, tree: Syntax) -> pa.Array:
    example = scope.beside(value, column, plain=id(tree) in scope.plain).example
    return as_array(example, 1)


def _ends(column: Node, value: pa.Array) -> Interval | None:
    """Return the least and the greatest rank that may equal a value, if that can be told."""
    found = _intervals(column, value)
    return found[0] if found else None


def _intervals(column: Node, values: pa.Array) -> list[Interval] | None:
    """Return for each value the ranks that may equal it; ``None`` if that cannot be told."""
    rules = (rule for mine, theirs, rule in _INTERVALS if mine(column.type) and theirs(values.type))
    rule = next(rules, _equal_ranks)
    return None if ak.null_count(values) else rule(column.type, values)


def _equal_ranks(kind: pa.DataType, values: pa.Array) -> list[Interval] | None:
    ranks = ranks_of(values) if values.type == kind else None
    return None if ranks is None else [(rank, rank) for rank in ranks.tolist()]


def _integers(kind: pa.DataType, values: pa.Array) -> list[Interval] | None:
    return _within(kind, [(value, value) for value in values.to_pylist()])


def _near_integers(kind: pa.DataType, values: pa.Array) -> list[Interval] | None:
    """Return what is beside fractions, unless they are so large that integers are rounded."""
    found = values.to_pylist()
    exact = all(-_EXACT_FLOATS < value < _EXACT_FLOATS for value in found)
    return _within(kind, [(floor(value), ceil(value)) for value in found]) if exact else None


def _within(kind: pa.DataType, intervals: list[Interval]) -> list[Interval] | None:
    """Return intervals of integers if a type holds all of them."""
    bits = kind.bit_width - pt.is_signed_integer(kind)
    least, most = (-(1 << bits) if pt.is_signed_integer(kind) else 0), (1 << bits) - 1
    return intervals if all(least <= low and high <= most for low, high in intervals) else None


def _floats(_kind: pa.DataType, values: pa.Array) -> list[Interval]:
    zeros = tuple(float_ranks([-0.0, 0.0]).tolist())
    found = np.array(values.to_pylist(), np.float64)
    ranks = np.where(np.isnan(found), _NAN, float_ranks(found)).tolist()
    return [zeros if rank in zeros else (rank, rank) for rank in ranks]


def _decimals(kind: Any, values: pa.Array) -> list[Interval]:
    found = [Fraction(value) * 10**kind.scale for value in values.to_pylist()]
    return [(floor(value), ceil(value)) for value in found]


def _timestamps(kind: Any, values: Any) -> list[Interval] | None:
    """Return what is near: a value of another unit may lie between two of the column's."""
    if (kind.tz is None) != (values.type.tz is None):
        return None
    mine, theirs = _SECOND[kind.unit], _SECOND[values.type.unit]
    near = 0 if mine == theirs else max(mine // theirs, 1)
    found = [value * mine // theirs for value in numbers_of(values.view(pa.int64())).tolist()]
    return [
        tuple(min(max(end, -_RANKS), _RANKS - 1) for end in (v - near, v + near)) for v in found
    ]


#: ranks are of 64 bits
_RANKS = 1 << 63
_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
#: by the type of the column and that of the value
_INTERVALS: tuple[tuple[Callable[[Any], bool], Callable[[Any], bool], Any], ...] = (
    (pt.is_integer, pt.is_integer, _integers),
    (pt.is_integer, pt.is_floating, _near_integers),
    (pt.is_floating, pt.is_integer, _floats),
    (pt.is_floating, pt.is_floating, _floats),
    (pt.is_decimal, pt.is_decimal, _decimals),
    (pt.is_timestamp, pt.is_timestamp, _timestamps),
)

#: integers below this are floats, each
_EXACT_FLOATS = 1 << 52
#: the rank of a NaN, of those that come behind all numbers
_NAN = INFINITIES[1] + 1


def _with_nans(reach: Reach, holds: Holds, kind: pa.DataType) -> Reach:
    """Put the NaNs where they are in an index, at both ends: a condition takes all for one."""
    reach = common(reach, Reach((INFINITIES,)))
    if not holds(array_of([math.nan], kind))[0]:
        return reach
    below, above = INFINITIES
    return either(reach, Reach(((None, below - 1), (above + 1, None))))
