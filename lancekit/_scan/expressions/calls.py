"""Function calls in an expression, checked against the function table."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from lancekit._arrow_values import scalar_of
from lancekit._format.arrow_parts import item_field
from lancekit._scan.expressions.columns import pick_part
from lancekit._scan.expressions.kernels.casts import arrow_type
from lancekit._scan.expressions.kernels.function import Function
from lancekit._scan.expressions.kernels.functions import FUNCTIONS
from lancekit._scan.expressions.kernels.operators import family
from lancekit._scan.expressions.kernels.temporal import CLOCK
from lancekit._scan.expressions.literals import natural
from lancekit._scan.expressions.scope import Bound, Scope, cast_number, constant
from lancekit._scan.expressions.syntax import Syntax


def array(tree: Syntax, scope: Scope) -> Bound:
    """Bind a list of literals."""
    items = [scope.compile(item) for item in tree.parts]
    if not all(item.literal for item in items):
        raise scope.fail(tree, "a list may hold only literals.")
    return constant(scalar_of([natural(i.literal[0]).as_py() for i in items]))


def one_type(scope: Scope, label: str, nodes: Sequence[Bound]) -> list[Bound]:
    """Coerce literals among arguments to the type of the first column argument."""
    typed = next((n for n in nodes if n.field), None)
    if typed is not None:
        nodes = [scope.coerce(n, typed) for n in nodes]
    scope.same_family(label, nodes)
    return list(nodes)


def call_function(tree: Syntax, scope: Scope) -> Bound:
    """Bind a function call."""
    name = tree.value.lower()
    if name in BY_SYNTAX:
        return BY_SYNTAX[name](tree, scope)
    function = FUNCTIONS.get(name)
    if function is None:
        close = difflib.get_close_matches(name, [*FUNCTIONS, *BY_SYNTAX], 3, 0.6)
        hint = f"Did you mean {' or '.join(close)}?" if close else ""
        raise scope.fail(tree, f"there is no function {name!r}.", hint, function=name)
    args = [scope.compile(arg) for arg in tree.parts]
    _check_arguments(tree, scope, name, function, args)
    if function.same:
        args = one_type(scope, name, args)
    elif function.families == ("list", "") and family(args[0].type) == "list":
        item = replace(args[0], example=pa.nulls(0, item_field(args[0].type).type))
        args = [args[0], scope.coerce(args[1], item)]
    return scope.call(name, args, tree)


def _arrow_cast(function: str) -> Callable[[Syntax, Scope], Bound]:
    def rule(tree: Syntax, scope: Scope) -> Bound:
        named = [part.kind == "literal" and isinstance(part.value, str) for part in tree.parts]
        if len(named) != 2 or not named[1]:
            raise scope.fail(tree, f"{tree.value} takes a value and the name of a type in quotes.")
        value, name = tree.parts
        kind = arrow_type(name.value)
        if kind is None:
            raise scope.fail(name, f"{name.value!r} is not an Arrow type.")
        node = scope.compile(value)
        exact = cast_number(node, kind, tree, scope, tries=function == "TRY_CAST")
        if exact is not None:
            return exact
        done = scope.call(function, [node], tree, options=(kind,), label=tree.value)
        return replace(done, cast_of=node) if function == "CAST" else done

    return rule


def _clock(tree: Syntax, scope: Scope) -> Bound:
    if tree.parts:
        raise scope.fail(tree, f"{tree.value} takes no arguments.")
    return constant(CLOCK[tree.value.lower()](scope.now))


# functions that are another spelling of syntax, or that need more than values
BY_SYNTAX: Mapping[str, Callable[[Syntax, Scope], Bound]] = {
    "arrow_cast": _arrow_cast("CAST"),
    "arrow_try_cast": _arrow_cast("TRY_CAST"),
    "make_array": array,
    "make_list": array,
    **dict.fromkeys(CLOCK, _clock),
    "get_field": pick_part,
    "list_element": pick_part,
    "array_extract": pick_part,
    "list_extract": pick_part,
    "array_element": pick_part,
}


def _check_arguments(
    tree: Syntax, scope: Scope, name: str, function: Function, args: list[Bound]
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
