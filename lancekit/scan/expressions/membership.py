"""Which values are among many: ``IN`` a list of literals, looked up as sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lancekit import arrow_kernels as ak
from lancekit.errors import PredicateError
from lancekit.file.kernels.bits import pack
from lancekit.file.kernels.memory import numbers_of
from lancekit.format.arrow_parts import decimal_size
from lancekit.scan.expressions.kernels.moments import members_in_unit
from lancekit.scan.expressions.kernels.operators import (
    COMPARISONS,
    Value,
    align,
    as_array,
    family,
)
from lancekit.scan.expressions.kernels.scalars import scalar_of
from lancekit.scan.expressions.literals import at_once, natural
from lancekit.scan.expressions.scope import Node, Scope, constant
from lancekit.scan.expressions.syntax import Syntax

__all__ = ["Members", "among", "items_of", "sets_of"]

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

    def nodes(self) -> Iterator[Node]:
        """Yield each as a constant of its own."""
        for value, place in zip(self.values, self.places, strict=True):
            yield replace(constant(natural(value), value), position=place)
        for array in self.folded:
            yield from map(constant, array)


def items_of(scope: Scope, tree: Syntax) -> tuple[Members, list[Node]]:
    """Return what stands in a list: members that are values, and others, one by one."""
    if tree.value is not None:
        return Members(tree.value.values, tree.value.places), []
    nodes = [scope.compile(item) for item in tree.parts[1:]]
    literals = [node for node in nodes if node.literal]
    members = Members([node.literal[0] for node in literals], [node.position for node in literals])
    others = [node for node in nodes if not node.literal]
    return members, others if len(others) < _FEW else _folded(members, others)


def _folded(members: Members, nodes: Sequence[Node]) -> list[Node]:
    """Put values that depend on no row among the members, and return what is left."""
    others = list[Node]()
    by_type: dict[pa.DataType, list[pa.Scalar]] = {}
    for node in nodes:
        value = None if node.columns else _computed(node)
        if value is None:
            others.append(node)
        else:
            by_type.setdefault(value.type, []).append(value)
    members.folded += [pa.array(values, kind) for kind, values in by_type.items()]
    return others


def _computed(node: Node) -> pa.Scalar | None:
    try:
        value = node.run(_never)
    except PredicateError:  # told when rows are looked at
        return None
    return value if isinstance(value, pa.Scalar) and value.type == node.type else None


def among(scope: Scope, node: Node, members: Members, tree: Syntax, *, plain: bool) -> Node:
    """Tell where an expression is one of many.

    As ``=`` with each of them, joined by ``OR``, tells it.
    """
    sets = sets_of(scope, node, members, plain=plain)
    missing = scalar_of(None if members.has_null else False, pa.bool_())

    def run(value: Value) -> Value:
        none: Value = scalar_of(False)
        found = reduce(pc.or_, [_is_in(value, some) for some in sets], none)
        told = pc.if_else(found, scalar_of(True), missing)
        return pc.if_else(pc.is_valid(value), told, scalar_of(None, pa.bool_()))

    return scope.call("IN", run, [node], tree)


def sets_of(scope: Scope, node: Node, members: Members, *, plain: bool) -> list[pa.Array]:
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
    scope: Scope, node: Node, values: Sequence[Any], places: Iterable[int], *, plain: bool
) -> list[pa.Array]:
    """Return the literals as arrays, one for each type that they take beside the expression."""
    whole = at_once([value for value in values if value is not None], node.type, plain=plain)
    if whole is not None:
        return [whole]
    by_type: dict[pa.DataType, list[Value]] = {}
    for value, place in zip(values, places, strict=True):
        if value is not None:
            literal = Node(run=_never, example=scalar_of(None), literal=(value,), position=place)
            given = scope.beside(literal, node, plain=plain).example
            by_type.setdefault(given.type, []).append(given)
    return [pa.array(scalars, kind) for kind, scalars in by_type.items()]


def _never(_argument: object) -> Any:
    raise AssertionError("what stands in a list reads no column")


# ---- looking up


def _is_in(value: Value, some: pa.Array) -> Value:
    """Tell where a value equals one of some others."""
    if value.type != some.type and family(value.type) == family(some.type) == "moment":
        value, some = members_in_unit(value, some)
    left, right = align(value, some)
    left, right = _alike(left, as_array(right, len(some)))
    if left.type != right.type:  # what Arrow compares, and has no sets of
        return reduce(pc.or_, [COMPARISONS["="](value, other) for other in some])
    if pt.is_floating(left.type):
        left, right = pc.add(left, 0.0), pc.add(right, 0.0)  # one zero
    if isinstance(left, pa.Scalar) or not pt.is_integer(left.type) or left.type.bit_width < 16:
        return pc.is_in(left, value_set=right)
    # what is found for nulls does not matter
    return _among_integers(left.fill_null(scalar_of(0, left.type)), right)


#: bytes of a table for each number that is looked up in it, at most
_TABLE_BYTES = 64
#: of fewer members, one after the other is looked for
_FEW_MEMBERS = 48


def _among_integers(left: pa.Array, right: pa.Array) -> pa.Array:
    """Look whole numbers up in a table where they lie close enough, else by their hashes."""
    numbers, members = numbers_of(left), numbers_of(right)
    span = int(members.max()) - int(members.min())
    most = min(_TABLE_BYTES * (len(left) + len(right)), np.iinfo(members.dtype).max)
    few = len(members) < _FEW_MEMBERS
    if span > most and not few:
        return pc.is_in(left, value_set=right)
    found = np.isin(numbers, members, kind=None if few else "table")
    return pa.BooleanArray.from_buffers(pa.bool_(), len(left), [None, pa.py_buffer(pack(found))])


def _alike(left: Value, right: pa.Array) -> tuple[Value, pa.Array]:
    """Bring both to one type, where one holds the values of both."""
    kinds = left.type, right.type
    if kinds[0] == kinds[1]:
        return left, right
    for test, common in ((pt.is_integer, pa.int64()), (pt.is_floating, pa.float64())):
        if all(map(test, kinds)):
            return pc.cast(left, common), right.cast(common)
    if all(map(pt.is_decimal, kinds)):
        sizes = [decimal_size(kind) for kind in kinds]
        scale = max(places for _, places in sizes)
        whole = max(digits - places for digits, places in sizes)
        wide = pa.decimal256(whole + scale, scale)
        return pc.cast(left, wide), right.cast(wide)
    if pt.is_string(kinds[1]) and pt.is_large_string(kinds[0]):
        return left, right.cast(kinds[0])
    if pt.is_timestamp(kinds[1]) and pt.is_date(kinds[0]):
        return pc.cast(left, kinds[1]), right
    if pt.is_date(kinds[1]) and pt.is_timestamp(kinds[0]):
        return left, right.cast(kinds[0])
    return left, right
