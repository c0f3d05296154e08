"""Calls of functions in an expression, checked against the table of functions."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from lancekit.format.arrow_parts import item_field
from lancekit.scan.expressions.columns import pick_part
from lancekit.scan.expressions.kernels.casts import arrow_type, cast, try_cast
from lancekit.scan.expressions.kernels.function import Function
from lancekit.scan.expressions.kernels.functions import FUNCTIONS
from lancekit.scan.expressions.kernels.operators import Value, family
from lancekit.scan.expressions.kernels.scalars import scalar_of
from lancekit.scan.expressions.kernels.temporal import CLOCK
from lancekit.scan.expressions.literals import exact_decimal, natural
from lancekit.scan.expressions.scope import Node, Scope, constant
from lancekit.scan.expressions.syntax import kind_of

__all__ = ["BY_SYNTAX", "array", "call_function", "cast_number", "one_type"]


def array(tree: Any, scope: Scope) -> Node:
    """Compile a list of literals."""
    items = [scope.compile(item) for item in tree.expressions]
    if not all(item.literal for item in items):
        raise scope.fail(tree, "a list may hold only literals.")
    return constant(scalar_of([natural(i.literal[0]).as_py() for i in items]))


def one_type(scope: Scope, label: str, nodes: Sequence[Node]) -> list[Node]:
    """Give literals among arguments the type of the columns beside them."""
    typed = next((n for n in nodes if n.field), None)
    if typed is not None:
        nodes = [scope.beside(n, typed) for n in nodes]
    scope.same_family(label, nodes)
    return list(nodes)


def call_function(tree: Any, scope: Scope) -> Node:
    """Compile the call of a function by its name."""
    name = str(tree.this).lower()
    if name in BY_SYNTAX:
        return BY_SYNTAX[name](tree, scope)
    function = FUNCTIONS.get(name)
    if function is None:
        close = difflib.get_close_matches(name, [*FUNCTIONS, *BY_SYNTAX], 3, 0.6)
        hint = f"Did you mean {' or '.join(close)}?" if close else ""
        raise scope.fail(tree, f"there is no function {name!r}.", hint, function=name)
    args = [scope.compile(arg) for arg in tree.expressions]
    _check_arguments(tree, scope, name, function, args)
    if function.same:
        args = one_type(scope, name, args)
    elif function.families == ("list", "") and family(args[0].type) == "list":
        item = Node(
            run=args[0].run,
            example=pa.array([], item_field(args[0].type).type),
            field=args[0].field,
        )
        args = [args[0], scope.beside(args[1], item)]
    return scope.call(name, partial(function.run, name), args, tree)


def cast_number(node: Node, kind: pa.DataType, tree: Any, scope: Scope) -> Node | None:
    """Cast a number in the text to a decimal by its digits, not by the double next to it.

    ``None`` if this is another cast.
    """
    given = node.literal or (node.many.values if node.many else ())
    if not pt.is_decimal(kind) or not given or type(given[0]) not in (int, Decimal):
        return None
    tries = kind_of(tree) == "trycast" or tree.name.lower() == "arrow_try_cast"

    def one(value: int | Decimal) -> pa.Scalar:
        try:
            return exact_decimal(value, kind)
        except pa.ArrowInvalid as error:
            if tries:
                return scalar_of(None, kind)
            raise scope.fail(tree, f"{value} is not a value of type {kind}.") from error

    if node.many:
        return scope.vary(pa.array([one(value) for value in given], kind))
    return constant(one(given[0]))


def _arrow_cast(kernel: Callable[..., Value]) -> Callable[[Any, Scope], Node]:
    def rule(tree: Any, scope: Scope) -> Node:
        if len(tree.expressions) != 2 or not tree.expressions[1].is_string:
            raise scope.fail(tree, f"{tree.name} takes a value and the name of a type in quotes.")
        value, name = tree.expressions
        kind = arrow_type(name.this)
        if kind is None:
            raise scope.fail(name, f"{name.this!r} is not a type of Arrow's.")
        node = scope.compile(value)
        if (exact := cast_number(node, kind, tree, scope)) is not None:
            return exact
        done = scope.call(tree.name, lambda v: kernel(v, kind), [node], tree)
        return replace(done, cast_of=node) if kernel is cast else done

    return rule


def _clock(tree: Any, scope: Scope) -> Node:
    if tree.expressions:
        raise scope.fail(tree, f"{tree.name} takes no arguments.")
    return constant(CLOCK[tree.name.lower()](scope.now))


# functions that do the same as a piece of syntax, or look at more than values
BY_SYNTAX: Mapping[str, Callable[[Any, Scope], Node]] = {
    "arrow_cast": _arrow_cast(cast),
    "arrow_try_cast": _arrow_cast(try_cast),
    "make_array": array,
    "make_list": array,
    **dict.fromkeys(CLOCK, _clock),
    "get_field": lambda tree, scope: pick_part(tree, tree.expressions, scope),
    "list_element": lambda tree, scope: pick_part(tree, tree.expressions, scope),
    "array_extract": lambda tree, scope: pick_part(tree, tree.expressions, scope),
    "list_extract": lambda tree, scope: pick_part(tree, tree.expressions, scope),
    "array_element": lambda tree, scope: pick_part(tree, tree.expressions, scope),
}


def _check_arguments(
    tree: Any, scope: Scope, name: str, function: Function, args: list[Node]
) -> None:
    if not function.least <= len(args) <= function.most:
        raise scope.fail(
            tree, f"{name} takes {function.least} to {function.most} arguments, not {len(args)}."
        )
    for i, arg in enumerate(args):
        wanted = function.families[min(i, len(function.families) - 1)]
        if wanted and family(arg.type) not in (wanted, "null"):
            raise scope.fail(
                arg, f"{name} takes a {wanted}, but {arg.field or 'the argument'} is {arg.type}."
            )
