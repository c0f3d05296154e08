"""Calls of functions, checked against the table of `functions`."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lancekit._statements.functions import AGGREGATES, FUNCTIONS, WINDOWS, Function
from lancekit._statements.kinds import BIGINT, DOUBLE, decimal_of, family
from lancekit._statements.literals import is_constant
from lancekit._statements.meeting import meet, widened
from lancekit._statements.scope import Scope
from lancekit._statements.tree import Expr

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["apply", "call"]

_NUMBERS = frozenset({"integer", "fraction"})


def call(
    name: str, args: Sequence[Expr], tree: exp.Expression, scope: Scope, *, distinct: bool = False
) -> Expr:
    """Return the call of a function by its name.

    Raises
    ------
    PredicateError
        There is no such function, or the arguments do not fit it.
    """
    if name in AGGREGATES:
        return _aggregate(name, args, tree, scope, distinct=distinct)
    if distinct:
        raise scope.text.fail(tree, f"DISTINCT goes with aggregates, not with {name}:")
    if name in WINDOWS:
        found = apply(name, WINDOWS[name], args, tree, scope)
        return Expr("window function", found.args, found.kind, name)
    if name not in FUNCTIONS:
        close = difflib.get_close_matches(name, [*FUNCTIONS, *AGGREGATES, *WINDOWS], 3, 0.6)
        raise scope.text.fail(
            tree,
            f"there is no function {name!r} that means the same on all engines:",
            f"Did you mean {' or '.join(close)}?" if close else "",
            function=name,
        )
    if name == "round" and args and family(args[0].kind) == "integer":
        return args[0]  # it has no digits behind the point
    return apply(name, FUNCTIONS[name], args, tree, scope)


def apply(
    name: str, function: Function, args: Sequence[Expr], tree: exp.Expression, scope: Scope
) -> Expr:
    """Return a function or an operator over its arguments, whose types are brought together."""
    takes = function.takes
    goes_on = bool(takes) and (takes[-1] == "same" or (function.least >= 0 and _endless(name)))
    most = 1000 if goes_on else len(takes)
    if not function.fewest <= len(args) <= most:
        many = f"{function.fewest}" + ("" if most == function.fewest else f" to {most}")
        raise scope.text.fail(tree, f"{name} takes {many} arguments, not {len(args)}:")
    for at, arg in enumerate(args):
        _check(name, takes[min(at, len(takes) - 1)], arg, scope)
        _check_constant(name, function, at, arg, scope)
    given = _alike(name, function, args, tree, scope)
    given = [_wide(function.wide, arg, given) for arg in given]
    kind = function.kind
    if isinstance(kind, str):
        kind = given[-1 if "same" in takes else 0].kind
    return Expr(name, tuple(given), kind)


def _endless(name: str) -> bool:
    return name in ("concat", "concat_ws")


def _check(name: str, wanted: str, arg: Expr, scope: Scope) -> None:
    if wanted in ("", "same") or family(arg.kind) == "null":
        return
    families = _NUMBERS if wanted == "number" else frozenset(wanted.split("|"))
    if family(arg.kind) in families:
        return
    hint = ""
    if family(arg.kind) == "decimal" and "number" in wanted:
        hint = "Engines round decimals differently: write CAST(... AS DOUBLE)."
    shown = wanted.replace("|", ", ")
    raise scope.text.fail(arg, f"{name} takes {shown}, and this is {arg.kind}:", hint)


def _check_constant(name: str, function: Function, at: int, arg: Expr, scope: Scope) -> None:
    test = (function.literal or {}).get(at)
    if test is not None and not (is_constant(arg) and test(arg.value)):
        raise scope.text.fail(
            arg, f"argument {at + 1} of {name} is a constant, and a number that counts:"
        )


def _alike(
    name: str, function: Function, args: Sequence[Expr], tree: exp.Expression, scope: Scope
) -> list[Expr]:
    """Bring arguments to one type that are to have one."""
    takes = function.takes
    same = [at for at in range(len(args)) if takes[min(at, len(takes) - 1)] == "same"]
    met = meet([args[at] for at in same], name, tree, scope) if same else []
    found = list(args)
    for at, arg in zip(same, met, strict=True):
        found[at] = arg
    if same and function.kind == pa.bool_() and family(met[0].kind) == "other":
        raise scope.text.fail(tree, f"{name} does not compare {met[0].kind}:")
    return found


def _wide(wide: str, arg: Expr, args: Sequence[Expr]) -> Expr:
    if not wide or (family(arg.kind) not in {*_NUMBERS, "null"}):
        return arg
    fractions = wide == "double" or any(family(one.kind) == "fraction" for one in args)
    return widened(arg, DOUBLE if fractions else BIGINT)


def _aggregate(
    name: str, args: Sequence[Expr], tree: exp.Expression, scope: Scope, *, distinct: bool
) -> Expr:
    function = AGGREGATES[name]
    if not scope.aggregates:
        raise scope.text.fail(tree, f"{name} cannot stand here, where each row is by itself:")
    if name == "count" and not args:
        return Expr("aggregate", (), BIGINT, (name, False, False))
    if distinct and "{d}" not in function.local:
        distinct = name not in ("min", "max", "bool_and", "bool_or")
        if distinct:
            raise scope.text.fail(tree, f"DISTINCT does not go with {name}:")
    if distinct and args and family(args[0].kind) == "other":
        raise scope.text.fail(tree, f"DISTINCT does not compare {args[0].kind}:")
    exact = name == "sum" and args and family(args[0].kind) == "decimal"
    if exact and len(args) == 1:
        kind = decimal_of(args[0].kind)
        return Expr("aggregate", (args[0],), kind, (name, distinct, False))
    found = apply(name, function, args, tree, scope)
    return Expr("aggregate", found.args, found.kind, (name, distinct, False))
