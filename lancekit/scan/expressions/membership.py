"""Which values are among many: ``IN`` a list of literals, looked up as sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lancekit import arrow_kernels as ak
from lancekit.errors import PredicateError
from lancekit.scan.expressions.evaluate import value_of
from lancekit.scan.expressions.kernels.operators import Value
from lancekit.scan.expressions.literals import at_once, natural
from lancekit.scan.expressions.nodes import InList, Place
from lancekit.scan.expressions.scope import Bound, Scope, constant
from lancekit.scan.expressions.syntax import Syntax

__all__ = ["Members", "among", "items_of"]

#: fewer values that are computed are compared one by one
_FEW = 16


@dataclass(slots=True)
class Members:
    """What is in a list: literals, which have places in the text, and values that are computed."""

    values: list[Any] = field(default_factory=list)
    places: Iterable[int] = ()
    folded: list[pa.Array] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.values or self.folded)

    @property
    def has_null(self) -> bool:
        """Whether a null is among them."""
        return None in self.values or any(ak.null_count(array) for array in self.folded)

    def nodes(self) -> Iterator[Bound]:
        """Yield each as a constant of its own."""
        for value, place in zip(self.values, self.places, strict=True):
            yield replace(constant(natural(value), value), position=place)
        for array in self.folded:
            yield from map(constant, array)


def items_of(scope: Scope, tree: Syntax) -> tuple[Members, list[Bound]]:
    """Return what stands in a list: members that are values, and others, one by one."""
    if tree.value is not None:
        return Members(tree.value.values, tree.value.places), []
    nodes = [scope.compile(item) for item in tree.parts[1:]]
    literals = [node for node in nodes if node.literal]
    members = Members([node.literal[0] for node in literals], [node.position for node in literals])
    others = [node for node in nodes if not node.literal]
    return members, others if len(others) < _FEW else _folded(members, others)


def _folded(members: Members, nodes: Sequence[Bound]) -> list[Bound]:
    """Put values that depend on no row among the members, and return what is left."""
    others = list[Bound]()
    by_type: dict[pa.DataType, list[pa.Scalar]] = {}
    for node in nodes:
        value = None if node.columns else _computed(node)
        if value is None:
            others.append(node)
        else:
            by_type.setdefault(value.type, []).append(value)
    members.folded += [pa.array(values, kind) for kind, values in by_type.items()]
    return others


def _computed(node: Bound) -> pa.Scalar | None:
    try:
        value = value_of(node.expr, _never)
    except PredicateError:  # told when rows are looked at
        return None
    return value if isinstance(value, pa.Scalar) and value.type == node.type else None


def among(scope: Scope, node: Bound, members: Members, tree: Syntax, *, plain: bool) -> Bound:
    """Tell where an expression is one of many.

    As ``=`` with each of them, joined by ``OR``, tells it.
    """
    sets = tuple(_sets_of(scope, node, members, plain=plain))
    at = Place(scope.sql, tree.at)
    expr = InList(pa.bool_(), node.expr, sets, members.has_null, at=at)
    return scope.tried(expr, [node], "IN")


def _sets_of(scope: Scope, node: Bound, members: Members, *, plain: bool) -> list[pa.Array]:
    """Return the members that are not null, as arrays of what they are beside an expression."""
    for array in members.folded:
        scope.same_family("=", [node, constant(array[0])])
    sets = [some for array in members.folded if len(some := ak.drop_null(array))]
    if any(value is not None for value in members.values):
        sets += _sets(scope, node, members.values, members.places, plain=plain)
    for some in sets:
        scope.same_family("=", [node, constant(some[0])])
    return sets


def _sets(
    scope: Scope, node: Bound, values: Sequence[Any], places: Iterable[int], *, plain: bool
) -> list[pa.Array]:
    """Return the literals as arrays, one for each type that they take beside the expression."""
    whole = at_once([value for value in values if value is not None], node.type, plain=plain)
    if whole is not None:
        return [whole]
    by_type: dict[pa.DataType, list[Value]] = {}
    for value, place in zip(values, places, strict=True):
        if value is not None:
            literal = replace(constant(natural(value), value), position=place)
            given = scope.beside(literal, node, plain=plain).example
            by_type.setdefault(given.type, []).append(given)
    return [pa.array(scalars, kind) for kind, scalars in by_type.items()]


def _never(_argument: object) -> Any:
    raise AssertionError("what stands in a list reads no column")
