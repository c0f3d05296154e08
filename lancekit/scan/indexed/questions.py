"""A filter as questions of single columns, joined by AND and OR.

``NOT`` is taken down to the conditions, which changes nothing of which rows a filter is true for:
so what is null never has to be known.  Of the conditions those become questions that relate one
column with constants; conditions of one column that are joined become one question, so that
``x >= 1 AND x < 3`` asks for what lies between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, reduce

import numpy as np

from lancekit.errors import LancekitError
from lancekit.index.search.question import Joint, Question, Questions
from lancekit.index.search.reach import common, either
from lancekit.scan.expressions.nodes import Call, Expr
from lancekit.scan.expressions.predicate import Predicate
from lancekit.scan.indexed.conditions import condition

__all__ = ["questions_of"]


@lru_cache(maxsize=64)
def _questions(expr: Expr) -> Questions | None:
    try:
        return _asked(expr, negated=False)
    except LancekitError:
        return None


def questions_of(predicate: Predicate) -> Questions | None:
    """Return what a filter asks of single columns, ``None`` if rows with any values may be wanted.

    Examples
    --------
    >>> import pyarrow as pa
    >>> schema = pa.schema({"x": pa.int8(), "y": pa.int8()})
    >>> asked = questions_of(Predicate.parse("NOT (x < 3 OR x > 5) AND x + y > 4", schema))
    >>> [part.column for part in asked.parts], asked.parts[0].reach.intervals, asked.whole
    (['x'], ((3, 5),), False)
    """
    return _questions(predicate.expr)


# ---- AND, OR and NOT


def _asked(expr: Expr, *, negated: bool) -> Questions | None:
    while isinstance(expr, Call) and expr.function == "NOT":
        negated = not negated
        (expr,) = expr.args
    if isinstance(expr, Call) and expr.function in ("AND", "OR"):
        all_of = (expr.function == "AND") is not negated
        return _joint([_asked(part, negated=negated) for part in expr.args], all_of)
    return condition(expr, negated)


def _joint(parts: Sequence[Questions | None], all_of: bool) -> Questions | None:
    known = [part for part in parts if part is not None]
    if not known or (len(known) < len(parts) and not all_of):
        return None
    by_column: dict[object, list[Question]] = {}
    joints: list[Joint] = []
    for part in known:
        if isinstance(part, Question):
            # what is asked in a form of its own stays a question of its own
            key = part.column if not (part.runs or part.items) else (part.column, id(part))
            by_column.setdefault(key, []).append(part)
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
