"""A compiled expression, and the schema and rules that it is compiled with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
from pyarrow import types as pt

from lancekit.errors import PredicateError
from lancekit.scan.expressions.error_position import TooLargeError, as_class, failure
from lancekit.scan.expressions.kernels.function import Refused, TooLarge
from lancekit.scan.expressions.kernels.operators import Value, family
from lancekit.scan.expressions.kernels.operators import plain as as_plain
from lancekit.scan.expressions.kernels.scalars import scalar_of
from lancekit.scan.expressions.literals import as_type, loosely
from lancekit.scan.expressions.syntax import Syntax

__all__ = ["FAILURES", "Node", "Rows", "Scope", "constant"]

Rows: TypeAlias = Callable[[str], pa.Array]  # column by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A compiled expression: what it reads, what it gives, how.

    ``example`` is what it gives for no rows, from which types are told; ``field`` the path of a
    plain column; ``literal`` a one-tuple of a literal's value; ``cast_of`` what was cast to be it;
    ``stored`` the same values before `plain` converted them, if it did; ``position`` its place in
    the text.
    """

    run: Callable[[Rows], Value]
    example: Value
    columns: frozenset[str] = frozenset()
    field: str = ""
    literal: tuple[Any, ...] = ()
    cast_of: Node | None = None
    stored: Node | None = None
    position: int = 0

    @property
    def type(self) -> pa.DataType:
        """The type of the values."""
        return self.example.type

    @property
    def as_stored(self) -> Node:
        """The node of the values as they are stored: half floats, dictionaries, extensions."""
        return self.stored or self

    def computable(self) -> Node:
        """Return the node of the values as types that Arrow has kernels for."""
        if not isinstance(self.example, pa.Array):
            return self
        example = as_plain(self.example)
        if example is self.example:
            return self
        run = self.run

        def converted(rows: Rows) -> Value:
            values = run(rows)
            return as_plain(values) if isinstance(values, pa.Array) else values

        return replace(self, run=converted, example=example, stored=self)

    def at(self, position: int) -> Node:
        """Return the same at another place in the text; as `replace`, which takes longer."""
        return Node(
            run=self.run,
            example=self.example,
            columns=self.columns,
            field=self.field,
            literal=self.literal,
            cast_of=self.cast_of,
            stored=self.stored,
            position=position,
        )


# What Arrow raises, and NumPy and Python beside it, for values that a kernel does not take.
FAILURES = (
    pa.ArrowException,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
)


def _reason(error: BaseException) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0].rstrip(".")


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
    rules: Mapping[str, Callable[[Syntax, Scope], Node]]
    plain: frozenset[int]
    now: int
    nodes: dict[int, tuple[Syntax, Node]] = field(default_factory=dict)

    def text(self, tree: Syntax) -> str:
        """Return a piece of the text as it is written."""
        return self.sql[tree.start : tree.end]

    def fail(
        self, tree: Syntax | Node | int, message: str, hint: str = "", **context: Any
    ) -> PredicateError:
        """Return the error of a piece of the text, of its node, or of a place."""
        match tree:
            case int():
                position = tree
            case Node():
                position = tree.position
            case Syntax():
                position = tree.at
        return failure(self.sql, message, position, hint, **context)

    def compile(self, tree: Syntax) -> Node:
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
                tree, f"{self.text(tree)[:60]!r} does not work: {_reason(error)}."
            ) from error
        node = node.computable().at(tree.at)
        self.nodes[id(tree)] = tree, node
        return node

    def call(
        self,
        label: str,
        kernel: Callable[..., Value],
        args: Sequence[Node],
        tree: Syntax | None = None,
    ) -> Node:
        """Make the node of a kernel over its arguments; a try on no rows comes first.

        ``tree`` is the piece of the text that a failure points at, the first argument if it is
        not given.
        """
        runs = [arg.run for arg in args]
        position = tree.at if tree is not None else args[0].position if args else 0

        def run(rows: Rows) -> Value:
            values = [r(rows) for r in runs]
            try:
                return kernel(*values)
            except TooLarge as error:
                raise as_class(TooLargeError, self.fail(position, f"{error}.")) from error
            except Refused as error:
                raise self.fail(position, f"{error}.") from error
            except FAILURES as error:
                message = f"{self.sql[:60]!r} cannot be computed: {_reason(error)}."
                raise self.fail(position, message) from error

        try:
            example = kernel(*(arg.example for arg in args))
        except Refused as error:
            raise self.fail(position, f"{error}.") from error
        except FAILURES as error:
            kinds = ", ".join(str(arg.type) for arg in args)
            message = f"{label} does not work on {kinds}: {_reason(error)}."
            raise self.fail(position, message) from error
        columns = frozenset().union(*(arg.columns for arg in args))
        return Node(run=run, example=example, columns=columns, position=position)

    def boolean(self, tree: Syntax, label: str) -> Node:
        """Compile a condition."""
        node = self.compile(tree)
        if pt.is_null(node.type):
            return constant(scalar_of(None, pa.bool_()))
        if not pt.is_boolean(node.type):
            what = f"{label} needs conditions, but {self.text(tree)!r} is {node.type}."
            raise self.fail(tree, what)
        return node

    def beside(self, node: Node, other: Node, *, plain: bool = False) -> Node:
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

    def pair(self, left: Node, right: Node, *, plain: bool = False) -> tuple[Node, Node]:
        """Put two nodes beside each other, each of which may be a literal."""
        beside = partial(self.beside, plain=plain)
        return beside(left, right), beside(right, left)

    def same_family(self, label: str, nodes: Sequence[Node]) -> None:
        """Refuse to relate numbers to texts, and the like."""
        families = {family(n.type) for n in nodes} - {"null"}
        if len(families) > 1 and families != {"text", "bytes"}:
            sides = " and ".join(f"{n.field or 'an expression'} ({n.type})" for n in nodes)
            raise self.fail(
                nodes[0], f"{label} cannot relate {sides}.", "Write a CAST on one side."
            )


def constant(value: pa.Scalar, *literal: Any) -> Node:
    """Return the node of a value."""
    return Node(run=lambda _rows: value, example=value, literal=literal)
