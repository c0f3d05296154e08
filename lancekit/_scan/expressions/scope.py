"""Bound syntax nodes, and the scope that they are bound in: a schema and rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from lancekit._arrow_values import scalar_of
from lancekit._scan.expressions.evaluate import FAILURES, kernel_of, reason
from lancekit._scan.expressions.kernels.function import Refused
from lancekit._scan.expressions.kernels.operators import Value, family
from lancekit._scan.expressions.kernels.operators import plain as as_plain
from lancekit._scan.expressions.literals import as_type, exact_decimal, loosely
from lancekit._scan.expressions.nodes import (
    Call,
    Expr,
    InList,
    Literal,
    Place,
    columns_of,
    field_of,
)
from lancekit._scan.expressions.syntax import Syntax, failure
from lancekit.errors import PredicateError

#: the type of a call before it is bound
_UNKNOWN = pa.null()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A bound syntax node: its expression, and facts that decide how it combines with others.

    expr: the expression.
    example: its result for no rows, which has its type; a scalar if it reads no column.
    literal: a one-tuple of the value of a literal in the text.
    cast_of: the operand, if the node is a cast.
    stored: the same values before they were converted to a type that Arrow has kernels for.
    position: the position in the text.
    """

    expr: Expr
    example: Value
    literal: tuple[Any, ...] = ()
    cast_of: Bound | None = None
    stored: Bound | None = None
    position: int = 0

    @property
    def type(self) -> pa.DataType:
        """The type of the values."""
        return self.example.type

    @property
    def field(self) -> str:
        """The path of the column or field that the node refers to, else empty."""
        found = field_of(self.expr)
        return found.path if found is not None else ""

    @property
    def number(self) -> int | Decimal | None:
        """The number as written, if the node is a number literal; else ``None``."""
        return self.literal[0] if self.literal and type(self.literal[0]) in (int, Decimal) else None

    @property
    def columns(self) -> frozenset[str]:
        """The paths of the columns that the node reads."""
        return columns_of(self.expr)

    @property
    def as_stored(self) -> Bound:
        """The same values in their stored type: half floats, dictionaries, extensions."""
        return self.stored or self

    @property
    def compared_type(self) -> pa.DataType:
        """The type of literals beside it: half floats are computed as floats, and stay halves."""
        stored = self.as_stored.type
        return stored if pt.is_float16(stored) else self.type

    def computable(self) -> Bound:
        """Return the same values in a type that Arrow has kernels for."""
        if not isinstance(self.example, pa.Array):
            return self
        example = as_plain(self.example)
        if example is self.example:
            return self
        expr = Call(example.type, "PLAIN", (self.expr,), at=self.expr.at)
        return replace(self, expr=expr, example=example, stored=self)

    def placed(self, position: int) -> Bound:
        """Return a copy with another position in the text; faster than `replace`."""
        return Bound(
            expr=self.expr,
            example=self.example,
            literal=self.literal,
            cast_of=self.cast_of,
            stored=self.stored,
            position=position,
        )


@dataclass(frozen=True, slots=True)
class Scope:
    """The schema, rules and state that syntax nodes are bound with.

    ``strict`` has the ids of the conditions in the tree that are joined by ``AND`` and ``OR`` only.
    In these, a literal must be a value of the type of the column that it is compared with. For
    ``x NOT IN`` and ``x NOT BETWEEN`` it has False, and only floats are rounded to the type.
    ``now`` is the time of the query, in nanoseconds since 1970. ``nodes`` caches bound nodes by the
    ids of syntax nodes, and keeps these alive.
    """

    sql: str
    fields: Mapping[str, pa.DataType]
    rules: Mapping[str, Callable[[Syntax, Scope], Bound]]
    strict: Mapping[int, bool]
    now: int
    nodes: dict[int, tuple[Syntax, Bound]] = field(default_factory=dict)

    def text(self, tree: Syntax) -> str:
        """Return the text of a syntax node."""
        return self.sql[tree.start : tree.end]

    def fail(
        self, tree: Syntax | Bound | int, message: str, hint: str = "", **context: object
    ) -> PredicateError:
        """Return an error that points to a syntax node, a bound node, or a position."""
        match tree:
            case int():
                position = tree
            case Bound():
                position = tree.position
            case Syntax():
                position = tree.at
        return failure(self.sql, message, position, hint, **context)

    def compile(self, tree: Syntax) -> Bound:
        """Bind a syntax node by the rule for its kind."""
        known = self.nodes.get(id(tree))
        if known is not None:
            return known[1]
        rule = self.rules.get(tree.kind)
        if rule is None:
            raise self.fail(tree, f"{self.text(tree)!r} is not part of the filter language.")
        try:
            node = rule(tree, self)
        except PredicateError:
            raise
        except FAILURES as error:
            raise self.fail(
                tree, f"{self.text(tree)[:60]!r} does not work: {reason(error)}."
            ) from error
        node = node.computable().placed(tree.at)
        self.nodes[id(tree)] = tree, node
        return node

    def call(
        self,
        function: str,
        args: Sequence[Bound],
        tree: Syntax | None = None,
        *,
        options: tuple[object, ...] = (),
        label: str = "",
    ) -> Bound:
        """Bind a function call; its type is found by a run on no rows.

        ``tree`` is the syntax node that errors point to, by default the first argument. ``label``
        is the function's name in errors, if it differs from its own.
        """
        position = tree.at if tree is not None else args[0].position if args else 0
        at = Place(self.sql, position)
        expr = Call(_UNKNOWN, function, tuple(arg.expr for arg in args), options, at=at)
        return self.tried(expr, args, label or function)

    def tried(self, expr: Call | InList, args: Sequence[Bound], label: str) -> Bound:
        """Return an expression with the type that a run on no rows gives."""
        try:
            example = kernel_of(expr)(*(arg.example for arg in args))
        except Refused as error:
            raise self.fail(expr.at.position, f"{error}.") from error
        except FAILURES as error:
            kinds = ", ".join(str(arg.type) for arg in args)
            message = f"{label} does not work on {kinds}: {reason(error)}."
            is_text = label == "+" and any(str(arg.type).endswith("string") for arg in args)
            hint = "Join texts with ||, or with lk.col('x').concat(...)." if is_text else ""
            raise self.fail(expr.at.position, message, hint) from error
        expr = replace(expr, type=example.type)
        return Bound(expr=expr, example=example, position=expr.at.position)

    def boolean(self, tree: Syntax, label: str) -> Bound:
        """Bind a condition."""
        node = self.compile(tree)
        if pt.is_null(node.type):
            return constant(scalar_of(None, pa.bool_()))
        if not pt.is_boolean(node.type):
            what = f"{label} needs conditions, but {self.text(tree)!r} is {node.type}."
            raise self.fail(tree, what)
        return node

    def coerce(self, node: Bound, other: Bound, *, strict: bool = False) -> Bound:
        """Coerce a literal to the type of the other operand.

        In a strict condition, it must be a value of the column's type. Elsewhere, numbers are
        coerced to a type that holds both operands.
        """
        if other.literal or not node.literal:
            return node
        value = node.literal[0]
        try:
            if strict and other.field:
                scalar = as_type(value, other.compared_type, other.field)
            else:
                scalar = loosely(value, other.type, other.field or "the expression")
        except PredicateError as error:
            raise self.fail(node, error.message, error.hint, **error.context) from error
        return replace(constant(scalar, value), position=node.position)

    def pair(self, left: Bound, right: Bound, *, strict: bool = False) -> tuple[Bound, Bound]:
        """Coerce two operands to each other; either may be a literal."""
        coerce = partial(self.coerce, strict=strict)
        return coerce(left, right), coerce(right, left)

    def same_family(self, label: str, nodes: Sequence[Bound]) -> None:
        """Raise an error for operands of different type families, such as numbers and texts."""
        families = {family(n.type) for n in nodes} - {"null"}
        if len(families) > 1 and families != {"text", "bytes"}:
            sides = " and ".join(f"{n.field or 'an expression'} ({n.type})" for n in nodes)
            raise self.fail(
                nodes[0], f"{label} cannot compare {sides}.", "Write a CAST on one side."
            )


def constant(value: pa.Scalar, *literal: object) -> Bound:
    """Return a bound constant."""
    return Bound(expr=Literal(value.type, value), example=value, literal=literal)


def cast_number(
    node: Bound, kind: pa.DataType, tree: Syntax, scope: Scope, *, tries: bool
) -> Bound | None:
    """Cast a number in the text to a decimal by its digits, not by the nearest double.

    ``None`` if the cast is another one.
    """
    if not pt.is_decimal(kind) or not node.literal or type(node.literal[0]) not in (int, Decimal):
        return None
    (value,) = node.literal
    try:
        return constant(exact_decimal(value, kind))
    except pa.ArrowInvalid as error:
        if tries:
            return constant(scalar_of(None, kind))
        raise scope.fail(tree, f"{value} is not a value of type {kind}.") from error
