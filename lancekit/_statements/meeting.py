"""Values that stand beside each other, brought to one type."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from lancekit._statements.kinds import BIGINT, DOUBLE, common, family
from lancekit._statements.literals import is_constant, retyped
from lancekit._statements.scope import Scope
from lancekit._statements.tree import Expr

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["meet", "widened"]


def widened(expr: Expr, kind: pa.DataType) -> Expr:
    """Return an expression as one of a wider type."""
    if expr.kind == kind:
        return expr
    if is_constant(expr) and (found := retyped(expr, kind)) is not None:
        return found
    return Expr("cast", (expr,), kind, place=expr.place)


def meet(args: Sequence[Expr], what: str, tree: exp.Expression, scope: Scope) -> list[Expr]:
    """Bring what stands beside each other to one type.

    A constant becomes what stands beside it, if it is such a value: text beside a date, a number
    beside a decimal.

    Raises
    ------
    PredicateError
        There is no type that all of them have a meaning in.
    """
    variable: list[pa.DataType | None] = [arg.kind for arg in args if not is_constant(arg)]
    kinds = variable or [arg.kind for arg in args]
    base = reduce(_common, kinds[1:], kinds[0])
    for arg in args if variable else ():
        if base is not None and is_constant(arg):
            base = _with_constant(base, arg)
    if base is None:
        shown = " and ".join(dict.fromkeys(str(arg.kind) for arg in args))
        raise scope.text.fail(
            tree, f"{what} cannot relate {shown}:", "Write a CAST on one side.", kinds=shown
        )
    return [_brought(arg, base, scope) for arg in args]


def _common(one: pa.DataType | None, other: pa.DataType | None) -> pa.DataType | None:
    return None if one is None or other is None else common(one, other)


def _with_constant(base: pa.DataType, arg: Expr) -> pa.DataType | None:
    if retyped(arg, base) is not None:
        return base
    families = family(base), family(arg.kind)
    if families[0] in ("date", "timestamp", "instant") and families[1] == "text":
        return base  # that the text is none is told where it stands
    if families == ("integer", "integer"):
        return BIGINT
    if families == ("decimal", "fraction") and isinstance(arg.value, Decimal):
        scale = max(-int(arg.value.as_tuple().exponent), base.scale)  # type: ignore[attr-defined]
        wider = pa.decimal128(38, scale)
        return wider if scale <= 18 and retyped(arg, wider) is not None else DOUBLE
    return common(base, arg.kind)


def _brought(arg: Expr, kind: pa.DataType, scope: Scope) -> Expr:
    if is_constant(arg):
        found = retyped(arg, kind)
        if found is None:
            raise scope.text.fail(
                arg,
                f"{arg.value!r} is not a value of {kind}, as what stands beside it is:",
                "Moments are written like '2020-01-31' and '2020-01-31 12:00:00'; "
                "with an offset, such as +00:00, for columns with a zone."
                if isinstance(arg.value, str)
                else "",
            )
        return found
    return widened(arg, kind)
