"""Conditions and values that no schema is known of yet: text, and the syntax of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lancekit._scan.expressions.syntax import Syntax

__all__ = ["Unbound"]


class Unbound(str):
    """The text of a condition or value that is not bound to a schema yet, and its syntax.

    Whatever takes text takes it.  Where syntax was built, the text was written for messages, and
    is never parsed.  Can be pickled, as text.

    Parameters
    ----------
    sql
        The text.
    tree
        Its syntax; by default the text is parsed when that is needed.

    Examples
    --------
    >>> wanted = Unbound("x > 1")
    >>> wanted.tree.kind, wanted
    ('>', 'x > 1')
    """

    __slots__ = ("_tree",)
    _tree: Syntax | None

    def __new__(cls, sql: str, tree: Syntax | None = None) -> Unbound:
        """Return a text with its syntax; one that is unbound already stays itself."""
        if tree is None and isinstance(sql, Unbound):
            return sql
        made = super().__new__(cls, sql)
        made._tree = tree
        return made

    @property
    def tree(self) -> Syntax:
        """The syntax.

        Raises
        ------
        PredicateError
            The text does not parse.
        """
        if self._tree is not None:
            return self._tree
        from lancekit._scan.expressions.parser import parse  # few calls have a text to parse

        return parse(str(self))

    def __reduce__(self) -> tuple[object, ...]:
        return Unbound, (str(self),)  # pickle goes down a tree less far than the parser
