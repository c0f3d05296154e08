"""Syntax trees of filters: what the rules for pieces of a text know of them.

Two parsers make them.  `simple` makes `Tree` of the filters that most calls have; `parser` makes
sqlglot's expressions of all others.  Both have a kind, by which the rules are looked up, the same
pieces below the same names, and notes beside them (``meta``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lancekit.errors import PredicateError
from lancekit.scan.expressions.alike import Alike, Slot
from lancekit.scan.expressions.long_lists import Listed

__all__ = ["GATHERED", "LISTED", "SLOT", "START", "Gathered", "Tree"]
__all__ += ["gathered_in", "kind_of", "listed_in", "slot_of", "start_of"]

#: names of notes: a long list, members that are alike, the literals of these, a place in the text
LISTED, GATHERED, SLOT, START = "listed", "gathered", "slot", "first"


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A piece of a simple filter, as sqlglot has it: the same kind, the same names of its parts."""

    key: str
    args: Mapping[str, Any]
    meta: dict[str, Any] = field(default_factory=dict)

    @property
    def this(self) -> Any:
        """The first or the only part."""
        return self.args.get("this")

    @property
    def expression(self) -> Any:
        """The second part."""
        return self.args.get("expression")

    @property
    def expressions(self) -> Any:
        """The members of a list."""
        return self.args.get("expressions", [])

    @property
    def is_string(self) -> bool:
        """Whether a literal stands in quotes."""
        return bool(self.args.get("is_string"))

    @property
    def name(self) -> str:
        """The text of a name or literal."""
        return str(self.args["this"])

    @property
    def parts(self) -> list[Tree]:
        """The names of a column, of which a simple filter writes one."""
        return [self.args["this"]]

    def flatten(self) -> Iterator[Tree]:
        """Yield the parts of a chain in order: its tree leans to the left, and may be deep."""
        parts, tree = list[Tree](), self
        while tree.key == self.key:
            parts.append(tree.expression)
            tree = tree.this
        yield from (_unnested(part) for part in (tree, *reversed(parts)))

    def sql(self) -> str:
        """Refuse: errors show a piece as sqlglot writes it, so `compile_sql` asks its parser."""
        raise PredicateError("The text of a simple filter is written by sqlglot.")


def _unnested(tree: Tree) -> Tree:
    while tree.key == "paren":
        tree = tree.this
    return tree


@dataclass(frozen=True, slots=True)
class Gathered:
    """Members that are alike, and the tree of the first of them."""

    alike: Alike
    tree: Any


def kind_of(tree: Any) -> str:
    """Return the kind of a piece by sqlglot's word, empty if it is no piece."""
    return getattr(tree, "key", "")


def start_of(tree: Any) -> int:
    """Return the offset in the text of an expression's first piece, 0 if it is not known."""
    return int(tree.meta.get(START, 0))


def listed_in(tree: Any) -> Listed | None:
    """Return the long list that stands behind an ``IN``, if it was lifted out of the text."""
    return tree.expressions[0].meta.get(LISTED) if tree.expressions else None


def gathered_in(tree: Any) -> Gathered | None:
    """Return the members that a ``0`` in the text stands for, if it stands for some."""
    found: Gathered | None = tree.meta.get(GATHERED)
    return found


def slot_of(tree: Any) -> Slot | None:
    """Return the literals that members have in the place of this one, if they differ there."""
    found: Slot | None = tree.meta.get(SLOT)
    return found
