"""A compiled expression, and the schema and rules that it is compiled with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
from pyarrow import types as pt

from lancekit.errors import PredicateError
from lancekit.scan.expressions.alike import Slot
from lancekit.scan.expressions.error_position import TooLargeError, as_class, failure
from lancekit.scan.expressions.kernels.function import Refused, TooLarge
from lancekit.scan.expressions.kernels.operators import Value, family
from lancekit.scan.expressions.kernels.operators import plain as as_plain
from lancekit.scan.expressions.kernels.scalars import scalar_of
from lancekit.scan.expressions.literals import as_type, at_once, loosely, natural
from lancekit.scan.expressions.syntax import kind_of, start_of

__all__ = ["FAILURES", "Node", "Rows", "Scope", "Unlike", "constant"]

Rows: TypeAlias = Callable[[str], pa.Array]  # column by name

# The arguments of syntax nodes that the rules look at.
_ARGUMENTS = frozenset({"this", "expression", "expressions"})
_MORE_ARGUMENTS: Mapping[str, frozenset[str]] = {
    "column": frozenset({"table", "db", "catalog"}),
    "literal": frozenset({"is_string"}),
    "cast": frozenset({"to"}),
    "trycast": frozenset({"to", "safe", "requires_string"}),
    "between": frozenset({"low", "high"}),
    "like": frozenset({"negate"}),
    "ilike": frozenset({"negate"}),
    "dpipe": frozenset({"safe"}),
}


class Unlike(Exception):  # noqa: N818  # no error: a way that cannot be gone
    """What is compiled once for many members is not the same for all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A compiled expression: what it reads, what it gives, how.

    ``example`` is what it gives for no rows, from which types are told; ``field`` the path of a
    plain column; ``literal`` a one-tuple of a literal's value; ``many`` the values of a literal
    that is another for each of some members; ``cast_of`` what was cast to be it; ``stored`` the
    same values before `plain` converted them, if it did; ``position`` its place in the text.
    """

    run: Callable[[Rows], Value]
    example: Value
    columns: frozenset[str] = frozenset()
    field: str = ""
    literal: tuple[Any, ...] = ()
    many: Slot | None = None
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
            many=self.many,
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
    the query, in nanoseconds since 1970.  ``varied`` has what differs between members that are
    compiled as one, by names that rows give one value of; ``met`` where their literals stand.
    ``nodes`` has what was compiled, by the ids of the pieces' trees, which it keeps alive.
    """

    sql: str
    fields: Mapping[str, pa.DataType]
    rules: Mapping[str, Callable[[Any, Scope], Node]]
    plain: frozenset[int]
    now: int
    varied: dict[str, pa.Array] = field(default_factory=dict)
    met: set[int] = field(default_factory=set)
    nodes: dict[int, tuple[Any, Node]] = field(default_factory=dict)

    def fail(self, tree: Any, message: str, hint: str = "", **context: Any) -> PredicateError:
        """Return the error of a piece of the text, given by its tree, node or position."""
        match tree:
            case int():
                position = tree
            case Node():
                position = tree.position
            case _:
                position = start_of(tree)
        return failure(self.sql, message, position, hint, **context)

    def compile(self, tree: Any) -> Node:
        """Return the node of a piece of the text, by the rule for its kind."""
        known = self.nodes.get(id(tree))
        if known is not None:
            return known[1]
        rule = self.rules.get(kind_of(tree))
        if rule is None:
            raise self.fail(
                tree, f"{tree.sql()!r} ({type(tree).__name__}) is not part of the filter language."
            )
        given = {name for name, value in tree.args.items() if value}
        if unknown := given - _ARGUMENTS - _MORE_ARGUMENTS.get(kind_of(tree), frozenset()):
            # What the rule does not look at must not be dropped in silence.
            raise self.fail(tree, f"{tree.sql()!r}: {', '.join(sorted(unknown))} is not supported.")
        try:
            node = rule(tree, self)
        except PredicateError:
            raise
        except FAILURES as error:
            raise self.fail(
                tree, f"{tree.sql()[:60]!r} does not work: {_reason(error)}."
            ) from error
        node = node.computable().at(start_of(tree))
        self.nodes[id(tree)] = tree, node
        return node

    def call(
        self, label: str, kernel: Callable[..., Value], args: Sequence[Node], tree: Any = None
    ) -> Node:
        """Make the node of a kernel over its arguments; a try on no rows comes first.

        ``tree`` is the piece of the text that a failure points at, the first argument if it is
        not given.
        """
        runs = [arg.run for arg in args]
        position = start_of(tree) if tree is not None else args[0].position if args else 0

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

    def boolean(self, tree: Any, label: str) -> Node:
        """Compile a condition."""
        node = self.compile(tree)
        if pt.is_null(node.type):
            return constant(scalar_of(None, pa.bool_()))
        if not pt.is_boolean(node.type):
            raise self.fail(tree, f"{label} needs conditions, but {tree.sql()!r} is {node.type}.")
        return node

    def beside(self, node: Node, other: Node, *, plain: bool = False) -> Node:
        """Give a literal the type of what stands beside it.

        In a plain condition it has to be a value of the column's type; elsewhere numbers meet in
        a type that holds both.
        """
        if other.literal or other.many:
            return node
        if node.many:
            return self._each_beside(node, node.many, other, plain=plain)
        if not node.literal:
            return node
        value = node.literal[0]
        give = as_type if plain and other.field else loosely
        try:
            scalar = give(value, other.type, other.field or "the expression")
        except PredicateError as error:
            raise self.fail(node, error.message, error.hint, **error.context) from error
        return replace(constant(scalar, value), position=node.position)

    def _each_beside(self, node: Node, many: Slot, other: Node, *, plain: bool) -> Node:
        array = at_once(many.values, other.type, plain=plain and bool(other.field))
        if array is None:
            one_by_one = (
                self.beside(constant(natural(value), value), other, plain=plain).example
                for value in many.values
            )
            array = self.alike(one_by_one)
        return replace(self.vary(array), position=node.position)

    def vary(self, array: pa.Array, many: Slot | None = None) -> Node:
        """Make the node of what differs between members; ``many`` if it is literals."""
        name = f"\0{len(self.varied)}"
        self.varied[name] = array
        self.met.update(many.places[:1] if many else ())
        return Node(run=lambda rows: rows(name), example=array[0], many=many)

    def alike(self, values: Iterable[Value]) -> pa.Array:
        """Make an array of what members have; they cannot be compiled as one if types differ."""
        scalars = list(values)
        if len({scalar.type for scalar in scalars}) > 1:
            raise Unlike
        return pa.array(scalars, scalars[0].type)

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
