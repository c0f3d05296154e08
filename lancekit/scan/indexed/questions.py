"""A filter as questions of single columns, joined by AND and OR.

``NOT`` is taken down to the conditions, which changes nothing of which rows a filter is true for:
so what is null never has to be known.  Of the conditions those become questions that relate one
column with constants; conditions of one column that are joined become one question, so that
``x >= 1 AND x < 3`` asks for what lies between.

Imported only when a filter names an indexed column, because parsing loads sqlglot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, reduce
from math import ceil, floor
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as pt
from sqlglot import exp

from lancekit.errors import LancekitError
from lancekit.file.kernels.bits import flags_of
from lancekit.file.kernels.memory import numbers_of
from lancekit.index.search.order import INFINITIES, float_ranks, ranks_of
from lancekit.index.search.question import Question
from lancekit.index.search.reach import Interval, Reach, common, either
from lancekit.scan.expressions.compiler import scope_of
from lancekit.scan.expressions.gathered import is_plain_name, items_of
from lancekit.scan.expressions.kernels.operators import as_array
from lancekit.scan.expressions.kernels.scalars import array_of, scalar_of
from lancekit.scan.expressions.membership import Members, sets_of
from lancekit.scan.expressions.parser import gathered_in, listed_in, parse
from lancekit.scan.expressions.predicate import Predicate, with_hidden
from lancekit.scan.expressions.scope import Node, Scope

__all__ = ["Joint", "Questions", "questions_of"]

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """Parts of which all have to hold, or one; if `whole`, they say all that the filter does."""

    parts: tuple[Questions, ...]
    all_of: bool
    whole: bool = True


Questions: TypeAlias = "Question | Joint"


@lru_cache(maxsize=64)
def _questions(sql: str, schema: pa.Schema, now: int) -> Questions | None:
    scope = scope_of(sql, with_hidden(schema), now)
    try:
        return _asked(parse(sql), scope, negated=False)
    except LancekitError:
        return None


def questions_of(predicate: Predicate) -> Questions | None:
    """Return what a filter asks of single columns, ``None`` if rows with any values may be wanted.

    Examples
    --------
    >>> schema = pa.schema({"x": pa.int8(), "y": pa.int8()})
    >>> asked = questions_of(Predicate.parse("NOT (x < 3 OR x > 5) AND x + y > 4", schema))
    >>> [part.column for part in asked.parts], asked.parts[0].reach.intervals, asked.whole
    (['x'], ((3, 5),), False)
    """
    if not isinstance(predicate.source, str):
        return None
    return _questions(predicate.source, predicate.schema, predicate.now)


# ---- AND, OR and NOT


def _asked(tree: Any, scope: Scope, *, negated: bool) -> Questions | None:
    while type(tree) in (exp.Paren, exp.Not):
        negated ^= type(tree) is exp.Not
        tree = tree.this
    if type(tree) in (exp.And, exp.Or):
        all_of = (type(tree) is exp.And) is not negated
        parts = [_asked(part, scope, negated=negated) for part in tree.flatten()]
        return _joint(parts, all_of)
    return _condition(tree, scope, negated)


def _joint(parts: Sequence[Questions | None], all_of: bool) -> Questions | None:
    known = [part for part in parts if part is not None]
    if not known or (len(known) < len(parts) and not all_of):
        return None
    by_column: dict[str, list[Question]] = {}
    joints: list[Joint] = []
    for part in known:
        if isinstance(part, Question):
            by_column.setdefault(part.column, []).append(part)
        else:
            joints.append(part)
    merged = [_merged(questions, all_of) for questions in by_column.values()]
    whole = len(known) == len(parts) and all(one.whole for one in joints)
    joined = Joint((*merged, *joints), all_of, whole)
    return joined.parts[0] if len(joined.parts) == 1 and joined.whole else joined


def _merged(questions: Sequence[Question], all_of: bool) -> Question:
    if len(questions) == 1:
        return questions[0]
    holds = tuple(question.holds for question in questions)
    reaches = [question.reach for question in questions]
    known = [reach for reach in reaches if reach is not None]
    reach = None
    if all_of and known:
        reach = reduce(common, known)
    elif known and len(known) == len(reaches):
        reach = reduce(either, known)
    join = np.logical_and if all_of else np.logical_or
    return replace(
        questions[0], holds=lambda values: join.reduce([one(values) for one in holds]), reach=reach
    )


# ---- conditions


def _condition(tree: Any, scope: Scope, negated: bool) -> Question | None:
    rule = _RULES.get(type(tree))
    if rule is None or gathered_in(tree):
        return None
    found = rule(tree, scope, negated)
    if found is None:
        return None
    column, reach = found
    node = scope.boolean(tree, "WHERE")
    if node.columns != {column.field}:
        return None
    holds = _holds(node, negated)
    if reach is not None and pt.is_floating(column.type):
        reach = _with_nans(reach, holds, column.type)
    return Question(column=column.field, type=column.type, holds=holds, reach=reach)


def _holds(node: Node, negated: bool) -> Callable[[pa.Array], Flags]:
    wanted = scalar_of(not negated)

    def holds(values: pa.Array) -> Flags:
        found = node.run(lambda _path: values)
        if isinstance(found, pa.Scalar):
            return np.full(len(values), found.equals(wanted))
        flags: Flags = flags_of(found.fill_null(scalar_of(negated)))
        return ~flags if negated else flags

    return holds


#: where the values lie, ``None`` for anywhere
Place: TypeAlias = "tuple[Node, Reach | None] | None"


def _column(tree: Any, scope: Scope) -> Node | None:
    """Return the node of a stored column."""
    if type(tree) not in (exp.Column, exp.Dot, exp.Paren, exp.Bracket):
        return None
    node = scope.compile(tree)
    return node if node.field else None


_FLIPPED = {exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE}
_NEGATED = {exp.LT: exp.GTE, exp.GTE: exp.LT, exp.GT: exp.LTE, exp.LTE: exp.GT}
_NEGATED |= {exp.EQ: exp.NEQ, exp.NEQ: exp.EQ}


def _comparison(tree: Any, scope: Scope, negated: bool) -> Place:
    kind, left, right = type(tree), tree.this, tree.expression
    column = _column(left, scope)
    if column is None:
        column, right, kind = _column(right, scope), left, _FLIPPED.get(kind, kind)
    if column is None:
        return None
    value = scope.compile(right)
    if value.columns:
        return None
    kind = _NEGATED[kind] if negated else kind
    if kind is exp.NEQ:
        return column, None
    ends = _ends(column, _beside(scope, column, value, tree))
    if ends is None:
        return column, None
    low, high = ends
    intervals = {
        exp.EQ: [(low, high)],
        exp.LT: [(None, high)],
        exp.LTE: [(None, high)],
        exp.GT: [(low, None)],
        exp.GTE: [(low, None)],
    }[kind]
    return column, Reach.of(intervals)


def _between(tree: Any, scope: Scope, negated: bool) -> Place:
    column = _column(tree.this, scope)
    values = [scope.compile(tree.args[name]) for name in ("low", "high")]
    if column is None or any(value.columns for value in values):
        return None
    ends = [_ends(column, _beside(scope, column, value, tree)) for value in values]
    if negated or ends[0] is None or ends[1] is None:
        return column, None
    return column, Reach.of([(ends[0][0], ends[1][1])])


def _in(tree: exp.In, scope: Scope, negated: bool) -> Place:
    column = _column(tree.this, scope)
    if column is None or not tree.expressions:
        return None
    listed = listed_in(tree)
    members, others = (
        (Members(listed.values, listed.places), []) if listed else items_of(scope, tree)
    )
    if others:
        return None
    plain = id(tree) in scope.plain and is_plain_name(tree.this)
    if negated:
        return column, None
    intervals: list[Interval] = []
    for values in sets_of(scope, column, members, plain=plain):
        found = _intervals(column, values)
        if found is None:
            return column, None
        intervals += found
    return column, Reach.of(intervals)


def _is(tree: exp.Is, scope: Scope, negated: bool) -> Place:
    column = _column(tree.this, scope)
    if column is None:
        return None
    if isinstance(tree.expression, exp.Null):
        return column, None if negated else Reach(())
    return column, _of_flags(column, scope, tree, negated)


def _flag(tree: Any, scope: Scope, negated: bool) -> Place:
    column = _column(tree, scope)
    if column is None or not pt.is_boolean(column.type):
        return None
    return column, _of_flags(column, scope, tree, negated)


def _of_flags(column: Node, scope: Scope, tree: Any, negated: bool) -> Reach | None:
    """Return which of the two booleans a condition holds of."""
    if not pt.is_boolean(column.type):
        return None
    both = pa.array([False, True])
    held = _holds(scope.boolean(tree, "WHERE"), negated)(both)
    return Reach.of((place, place) for place in np.flatnonzero(held).tolist())


_RULES: Mapping[type, Callable[[Any, Scope, bool], Place]] = {
    exp.EQ: _comparison,
    exp.NEQ: _comparison,
    exp.LT: _comparison,
    exp.LTE: _comparison,
    exp.GT: _comparison,
    exp.GTE: _comparison,
    exp.Between: _between,
    exp.In: _in,
    exp.Is: _is,
    exp.Column: _flag,
    exp.Dot: _flag,
}


# ---- where values lie


def _beside(scope: Scope, column: Node, value: Node, tree: Any) -> pa.Array:
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
    return None if values.null_count else rule(column.type, values)


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
    """Return what is near: values of two units are compared in the coarser one."""
    if (kind.tz is None) != (values.type.tz is None):
        return None
    mine, theirs = _SECOND[kind.unit], _SECOND[values.type.unit]
    near = 0 if mine == theirs else max(mine // theirs, 1)
    found = [value * mine // theirs for value in numbers_of(values.view(pa.int64())).tolist()]
    return [(value - near, value + near) for value in found]


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


def _with_nans(reach: Reach, holds: Callable[[pa.Array], Flags], kind: pa.DataType) -> Reach:
    """Put the NaNs where they are in an index, at both ends: a condition takes all for one."""
    reach = common(reach, Reach((INFINITIES,)))
    if not holds(array_of([math.nan], kind))[0]:
        return reach
    below, above = INFINITIES
    return either(reach, Reach(((None, below - 1), (above + 1, None))))
