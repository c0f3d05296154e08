"""A compiled expression, and the schema and rules that it is compiled with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyarrow import types as pt
from sqlglot import exp

from lancekit.errors import PredicateError
from lancekit.scan._kernels import Value, family
from lancekit.scan._literals import as_type

__all__ = ["Node", "Rows", "Scope", "beside", "constant", "pair", "same_family"]

Rows: TypeAlias = Callable[[str], pa.Array]  # column by name

# The arguments of syntax nodes that the rules look at.
_ARGUMENTS = frozenset({"this", "expression", "expressions"})
_MORE_ARGUMENTS: Mapping[type, frozenset[str]] = {
    exp.Column: frozenset({"table", "db", "catalog"}),
    exp.Literal: frozenset({"is_string"}),
    exp.Cast: frozenset({"to"}),
    exp.Between: frozenset({"low", "high"}),
    exp.Like: frozenset({"negate"}),
    exp.ILike: frozenset({"negate"}),
    exp.DPipe: frozenset({"safe"}),
    exp.Case: frozenset({"ifs", "default"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A compiled expression: what it reads, what it gives, how.

    ``example`` is what it gives for no rows, from which types are told; ``field`` the path of a
    plain column; ``literal`` a one-tuple of a literal's value.
    """

    run: Callable[[Rows], Value]
    example: Value
    columns: frozenset[str] = frozenset()
    field: str = ""
    literal: tuple[Any, ...] = ()

    @property
    def type(self) -> pa.DataType:
        """The type of the values."""
        return self.example.type


@dataclass(frozen=True, slots=True)
class Scope:
    sql: str
    fields: Mapping[str, pa.DataType]
    rules: Mapping[type, Callable[[Any, Scope], Node]]

    def fail(self, message: str, hint: str = "", **context: Any) -> PredicateError:
        return PredicateError(
            f"in the filter {self.sql!r}: {message}", hint=hint, sql=self.sql, **context
        )

    def compile(self, tree: Any) -> Node:
        rule = self.rules.get(type(tree))
        if rule is None:
            raise self.fail(
                f"{tree.sql()!r} ({type(tree).__name__}) is not part of the filter language."
            )
        given = {name for name, value in tree.args.items() if value}
        if unknown := given - _ARGUMENTS - _MORE_ARGUMENTS.get(type(tree), frozenset()):
            # What the rule does not look at must not be dropped in silence.
            raise self.fail(f"{tree.sql()!r}: {', '.join(sorted(unknown))} is not supported.")
        return rule(tree, self)

    def call(self, label: str, kernel: Callable[..., Value], args: Sequence[Node]) -> Node:
        """Make the node of a kernel over its arguments; a try on no rows comes first."""
        runs = [arg.run for arg in args]

        def run(rows: Rows) -> Value:
            return kernel(*(r(rows) for r in runs))

        try:
            example = kernel(*(arg.example for arg in args))
        except (pa.ArrowException, ArithmeticError, LookupError, TypeError, ValueError) as error:
            kinds = ", ".join(str(arg.type) for arg in args)
            reason = str(error).splitlines()[0]
            raise self.fail(f"{label} does not work on {kinds}: {reason}.") from error
        columns = frozenset().union(*(arg.columns for arg in args))
        return Node(run=run, example=example, columns=columns)

    def boolean(self, tree: Any, label: str) -> Node:
        node = self.compile(tree)
        if pt.is_null(node.type):
            return constant(pa.scalar(None, pa.bool_()))
        if not pt.is_boolean(node.type):
            raise self.fail(f"{label} needs conditions, but {tree.sql()!r} is {node.type}.")
        return node


def constant(value: pa.Scalar, *literal: Any) -> Node:
    return Node(run=lambda _rows: value, example=value, literal=literal)


def beside(node: Node, other: Node) -> Node:
    """Give a literal the type of the column beside it."""
    if not node.literal or other.literal:
        return node
    value = node.literal[0]
    if other.field or value is None or family(other.type) == "moment":
        label = other.field or "expression"
        return constant(as_type(value, other.type, label), value)
    return node


def pair(left: Node, right: Node) -> tuple[Node, Node]:
    return beside(left, right), beside(right, left)


def same_family(scope: Scope, label: str, nodes: Sequence[Node]) -> None:
    families = {family(n.type) for n in nodes} - {"null"}
    if len(families) > 1:
        sides = " and ".join(f"{n.field or 'an expression'} ({n.type})" for n in nodes)
        raise scope.fail(f"{label} cannot relate {sides}.", "Write a CAST on one side.")
