"""A piece of text that is bound, and the schema and rules that it is bound with."""

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

#: the type of a call before it was tried
_UNKNOWN = pa.null()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A piece of the text that is bound: its expression, and what is known of it beside others.

    expr: the expression.
    example: what it gives for no rows, from which types are told: a scalar if it reads no column.
    literal: a one-tuple of the value of a literal that is written out.
    cast_of: what was cast to be it.
    stored: the same values before they were converted to a type that Arrow has kernels for.
    position: its place in the text.
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
        """The path of the column or field that it is, empty if it is none."""
        found = field_of(self.expr)
        return found.path if found is not None else ""

    @property
    def number(self) -> int | Decimal | None:
        """The number that the text is, as it is written, ``None`` if it is anything else."""
        return self.literal[0] if self.literal and type(self.literal[0]) in (int, Decimal) else None

    @property
    def columns(self) -> frozenset[str]:
        """The paths of the columns that it reads."""
        return columns_of(self.expr)

    @property
    def as_stored(self) -> Bound:
        """The same values as they are stored: half floats, dictionaries, extensions."""
        return self.stored or self

    def computable(self) -> Bound:
        """Return the same values as types that Arrow has kernels for."""
        if not isinstance(self.example, pa.Array):
            return self
        example = as_plain(self.example)
        if example is self.example:
            return self
        expr = Call(example.type, "PLAIN", (self.expr,), at=self.expr.at)
        return replace(self, expr=expr, example=example, stored=self)

    def placed(self, position: int) -> Bound:
        """Return the same at another place in the text; as `replace`, which takes longer."""
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
    """What an expression is compiled with.

    ``plain`` holds the ids of the tree's conditions that are joined by nothing but ``AND`` and
    ``OR``: there a literal has to be of the type of the column beside it.  ``now`` is the time of
    the query, in nanoseconds since 1970.  ``nodes`` has what was compiled, by the ids of the
    pieces, which it keeps alive.
    """

    sql: str
    fields: Mapping[str, pa.DataType]
    rules: Mapping[str, Callable[[Syntax, Scope], Bound]]
    plain: frozenset[int]
    now: int
    nodes: dict[int, tuple[Syntax, Bound]] = field(default_factory=dict)

    def text(self, tree: Syntax) -> str:
        """Return a piece of the text as it is written."""
        return self.sql[tree.start : tree.end]

    def fail(
        self, tree: Syntax | Bound | int, message: str, hint: str = "", **context: object
    ) -> PredicateError:
        """Return the error of a piece of the text, of its node, or of a place."""
        match tree:
            case int():
                position = tree
            case Bound():
                position = tree.position
            case Syntax():
                position = tree.at
        return failure(self.sql, message, position, hint, **context)

    def compile(self, tree: Syntax) -> Bound:
        """Return the node of a piece of the text, by the rule for its kind."""
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
        """Bind the call of a function; a try on no rows comes first.

        ``tree`` is the piece of the text that a failure points at, the first argument if it is
        not given; ``label`` is what the function is called in errors, if not by its name.
        """
        position = tree.at if tree is not None else args[0].position if args else 0
        at = Place(self.sql, position)
        expr = Call(_UNKNOWN, function, tuple(arg.expr for arg in args), options, at=at)
        return self.tried(expr, args, label or function)

    def tried(self, expr: Call | InList, args: Sequence[Bound], label: str) -> Bound:
        """Return an expression with the type that a try on no rows gives."""
        try:
            example = kernel_of(expr)(*(arg.example for arg in args))
        except Refused as error:
            raise self.fail(expr.at.position, f"{error}.") from error
        except FAILURES as error:
            kinds = ", ".join(str(arg.type) for arg in args)
            message = f"{label} does not work on {kinds}: {reason(error)}."
            raise self.fail(expr.at.position, message) from error
        expr = replace(expr, type=example.type)
        return Bound(expr=expr, example=example, position=expr.at.position)

    def boolean(self, tree: Syntax, label: str) -> Bound:
        """Compile a condition."""
        node = self.compile(tree)
        if pt.is_null(node.type):
            return constant(scalar_of(None, pa.bool_()))
        if not pt.is_boolean(node.type):
            what = f"{label} needs conditions, but {self.text(tree)!r} is {node.type}."
            raise self.fail(tree, what)
        return node

    def beside(self, node: Bound, other: Bound, *, plain: bool = False) -> Bound:
        """Give a literal the type of what stands beside it.

        In a plain condition it has to be a value of the column's type; elsewhere numbers meet in
        a type that holds both.
        """
        if other.literal or not node.literal:
            return node
        value = node.literal[0]
        give = as_type if plain and other.field else loosely
        try:
            scalar = give(value, other.type, other.field or "the expression")
        except PredicateError as error:
            raise self.fail(node, error.message, error.hint, **error.context) from error
        return replace(constant(scalar, value), position=node.position)

    def pair(self, left: Bound, right: Bound, *, plain: bool = False) -> tuple[Bound, Bound]:
        """Put two nodes beside each other, each of which may be a literal."""
        beside = partial(self.beside, plain=plain)
        return beside(left, right), beside(right, left)

    def same_family(self, label: str, nodes: Sequence[Bound]) -> None:
        """Refuse to relate numbers to texts, and the like."""
        families = {family(n.type) for n in nodes} - {"null"}
        if len(families) > 1 and families != {"text", "bytes"}:
            sides = " and ".join(f"{n.field or 'an expression'} ({n.type})" for n in nodes)
            raise self.fail(
                nodes[0], f"{label} cannot relate {sides}.", "Write a CAST on one side."
            )


def constant(value: pa.Scalar, *literal: object) -> Bound:
    """Return what gives the same value for all rows."""
    return Bound(expr=Literal(value.type, value), example=value, literal=literal)


def cast_number(
    node: Bound, kind: pa.DataType, tree: Syntax, scope: Scope, *, tries: bool
) -> Bound | None:
    """Cast a number in the text to a decimal by its digits, not by the double next to it.

    ``None`` if this is another cast.
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
