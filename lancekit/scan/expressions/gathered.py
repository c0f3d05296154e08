"""Members of lists and chains that differ in nothing but their literals, compiled once.

Where they ask whether something is one of some values, they are one set; else one after the
other is computed with the same kernels.  What cannot be, or fails, is compiled one by one, as if
nothing had been gathered: so errors are those of the members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancekit.errors import PredicateError
from lancekit.format.paths import parse_path, pick
from lancekit.scan.expressions.kernels.operators import Value
from lancekit.scan.expressions.kernels.operators import plain as as_plain
from lancekit.scan.expressions.membership import Members, among
from lancekit.scan.expressions.scope import Node, Rows, Scope, Unlike
from lancekit.scan.expressions.syntax import Gathered, gathered_in, kind_of, listed_in, slot_of

__all__ = ["chain", "is_plain_name", "items_of", "plain_conditions"]

_KERNELS: Mapping[str, Callable[[Value, Value], Value]] = {
    "or": pc.or_kleene,
    "and": pc.and_kleene,
}


def _was_compared(tree: Any) -> bool:
    """Tell of NOT IN whether it stands for ``<>`` of each literal."""
    listed = listed_in(tree.this) if kind_of(tree) == "not" and kind_of(tree.this) == "in" else None
    return listed is not None and listed.compared


def plain_conditions(tree: Any) -> frozenset[int]:
    """Return the ids of conditions that only AND, OR and parentheses are around."""
    waiting, found = [tree], []
    while waiting:
        tree = waiting.pop()
        if kind_of(tree) in ("and", "or"):
            waiting += [tree.this, tree.expression]
        elif kind_of(tree) == "paren" or _was_compared(tree):
            waiting.append(tree.this)
        else:
            found.append(id(tree))
    return frozenset(found)


def is_plain_name(tree: Any) -> bool:
    """Tell whether a tree is a column, and none within another."""
    return kind_of(tree) == "column" and len(tree.parts) == 1


def _within(scope: Scope, tree: Any, *, plain: bool) -> Scope:
    conditions = plain_conditions(tree) if plain else frozenset()
    return replace(scope, plain=conditions, varied={}, met=set(), nodes={})


def _check_met(scope: Scope, gathered: Gathered) -> None:
    """Make sure that no literal in which members differ was looked at as that of the first."""
    if not gathered.alike.slots.keys() <= scope.met:
        raise Unlike


# ---- members of a list


def items_of(scope: Scope, tree: Any) -> tuple[Members, list[Node]]:
    """Return what stands in a list: members that are values, and others, one by one."""
    members, others = Members(), list[Node]()
    for item in tree.expressions:
        gathered = gathered_in(item)
        if gathered is None:
            node = scope.compile(item)
            if node.literal:
                members.add(node.literal, (node.position,))
            else:
                others.append(node)
            continue
        inner = _within(scope, gathered.tree, plain=False)
        try:
            found = _constants(inner, [gathered.tree])
            _check_met(inner, gathered)
            members.join(found)
        except (Unlike, PredicateError):
            others += _one_by_one(scope, gathered, scope.compile)
    return members, others


def _constants(scope: Scope, trees: Sequence[Any]) -> Members:
    """Compute what depends on no row, for all members at once."""
    members = Members()
    for tree in trees:
        node = scope.compile(tree)
        if node.many:
            members.add(node.many.values, node.many.places)
        elif node.literal:
            members.add(node.literal, (node.position,))
        elif node.columns:
            raise Unlike
        else:
            value = node.run(scope.varied.__getitem__)
            array = pa.repeat(value, 1) if isinstance(value, pa.Scalar) else value
            if array.type != node.type:
                raise Unlike
            members.folded.append(array)
    return members


def _one_by_one(scope: Scope, gathered: Gathered, compiled: Callable[[Any], Node]) -> list[Node]:
    from lancekit.scan.expressions.parser import parse_part  # loads sqlglot

    return [compiled(parse_part(scope.sql, span)) for span in gathered.alike.spans]


# ---- members of a chain


def chain(tree: Any, gathered: Gathered, scope: Scope) -> Node:
    """Compile members of a chain of AND or OR."""
    joint, plain = gathered.alike.joint, id(tree) in scope.plain

    @cache
    def apart() -> Node:
        def compiled(part: Any) -> Node:
            return _within(scope, part, plain=plain).boolean(part, joint.upper())

        nodes = _one_by_one(scope, gathered, compiled)
        return scope.call(joint.upper(), lambda *values: reduce(_KERNELS[joint], values), nodes)

    try:
        inner = _within(scope, gathered.tree, plain=plain)
        node = _as_set(gathered, inner) or _in_turn(gathered, inner, apart)
        _check_met(inner, gathered)
    except (Unlike, PredicateError):
        return apart()
    return node


def _as_set(gathered: Gathered, scope: Scope) -> Node | None:
    """Make one look-up of ``x = 1 OR x = 2 ...``, or ``x <> 1 AND NOT x IN (2, 3) ...``."""
    tree, negated = gathered.tree, gathered.alike.joint == "and"
    while kind_of(tree) in ("paren", "not"):
        negated ^= kind_of(tree) == "not"
        tree = tree.this
    negated ^= kind_of(tree) in ("neq", "nullsafeneq")
    sides = _sides(tree)
    if negated or sides is None or _differs(sides[0]):
        return None
    node, members = scope.compile(sides[0]), _constants(scope, sides[1])
    in_list = kind_of(tree) == "in"
    if node.literal or (node.cast_of and members.values and not (in_list and not members.folded)):
        return None  # literals are looked at one by one
    plain = id(tree) in scope.plain and (is_plain_name(sides[0]) if in_list else bool(node.field))
    found = among(scope, node, members, tree, plain=plain)
    if kind_of(tree) in ("nullsafeeq", "nullsafeneq"):
        found = _with_nulls(scope, node, found, members, tree)
    inverted = gathered.alike.joint == "and"
    return scope.call("NOT", pc.invert, [found]) if inverted else found


def _sides(tree: Any) -> tuple[Any, list[Any]] | None:
    """Return what is looked for, and where."""
    match kind_of(tree):
        case "in":
            return tree.this, list(tree.expressions)
        case "eq" | "neq" | "nullsafeeq" | "nullsafeneq":
            sides = tree.this, tree.expression
            one, other = sides if _differs(tree.expression) else sides[::-1]
            return one, [other]
    return None


def _differs(tree: Any) -> bool:
    return any(slot_of(node) for node in tree.walk())


def _with_nulls(scope: Scope, node: Node, found: Node, members: Members, tree: Any) -> Node:
    """Look a null up as a value of its own."""
    has_null = members.has_null

    def run(is_in: Value, value: Value) -> Value:
        known = pc.fill_null(is_in, False)
        return pc.or_(known, pc.is_null(value)) if has_null else known

    return scope.call("IS NOT DISTINCT FROM", run, [found, node], tree)


def _in_turn(gathered: Gathered, scope: Scope, apart: Callable[[], Node]) -> Node:
    """Compute one member after the other, with the kernels of the first."""
    joint, count = gathered.alike.joint, len(gathered.alike.spans) if gathered.alike.slots else 1
    node = scope.boolean(gathered.tree, joint.upper())

    def each(rows: Rows) -> Iterator[Value]:
        columns = cache(rows)
        for number in range(count):

            def one(name: str, number: int = number) -> Any:
                varied = scope.varied.get(name)
                return columns(name) if varied is None else varied[number]

            yield node.run(one)

    def run(rows: Rows) -> Value:
        try:
            return reduce(_KERNELS[joint], each(rows))
        except PredicateError:
            return apart().run(rows)  # the error of the member, at its place

    def no_rows(path: str) -> pa.Array:
        top, *rest = parse_path(path)
        return as_plain(pick(pa.array([], scope.fields[top]), rest))

    reduce(lambda _, one: one, each(no_rows))  # each of them could be one that does not compile
    return Node(run=run, example=node.example, columns=node.columns, position=node.position)
