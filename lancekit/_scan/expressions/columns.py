"""Columns in an expression: by name, by path into a struct, by index in a list."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import pyarrow as pa
from pyarrow import types as pt

from lancekit._format.paths import parse_path, show_path
from lancekit._scan.expressions.kernels.operators import family
from lancekit._scan.expressions.nodes import FieldRef
from lancekit._scan.expressions.scope import Bound, Scope, constant
from lancekit._scan.expressions.syntax import Syntax


def _match(tree: Syntax, scope: Scope, name: str, names: Sequence[str], what: str) -> str:
    """Return the name as written, else the only name that differs in case."""
    if name in names:
        return name
    same = [n for n in names if n.lower() == name.lower()]
    if len(same) == 1:
        return same[0]
    close = same or difflib.get_close_matches(name, names, 3, 0.6)
    hint = f"Did you mean {' or '.join(f'`{n}`' for n in close)}?" if close else ""
    raise scope.fail(tree, f"there is no {what} {name!r}.", hint, column=name)


def _field(tree: Syntax, scope: Scope, name: str) -> Bound:
    found = _match(tree, scope, name, list(scope.fields), "column")
    kind = scope.fields[found]
    return Bound(expr=FieldRef(kind, found), example=_no_rows(kind))


@lru_cache(maxsize=256)
def _no_rows(kind: pa.DataType) -> pa.Array:
    return pa.nulls(0, kind)


def _child(tree: Syntax, scope: Scope, parent: Bound, name: str) -> Bound:
    parent = parent.as_stored
    if not pt.is_struct(parent.type):
        raise scope.fail(tree, f"{parent.field or 'the value'} is {parent.type}, without fields.")
    names = [f.name for f in parent.type]
    found = _match(tree, scope, name, names, f"field of {parent.field!r}")
    node = scope.call("FIELD", [parent], options=(found,), label=found)
    if not parent.field:
        return node
    path = show_path([*parse_path(parent.field), found])
    # by its path, so that only this field of the struct is read
    return Bound(expr=FieldRef(node.type, path), example=node.example)


def _clock(names: Sequence[str], scope: Scope) -> pa.Scalar | None:
    """Return the time for a name like ``current_date``, unless a column has that name."""
    from lancekit._scan.expressions.kernels.temporal import CLOCK  # loads the time functions

    word, *fields = (name.lower() for name in names)
    if fields or word not in CLOCK or word in {name.lower() for name in scope.fields}:
        return None
    return CLOCK[word](scope.now)


def _column(tree: Syntax, scope: Scope) -> Bound:
    names = tree.value
    word = names[0].lower()
    if word.startswith("current_") and (value := _clock(names, scope)) is not None:
        return constant(value)
    node = _field(tree, scope, names[0])
    for name in names[1:]:
        node = _child(tree, scope, node, name)
    return node


def pick_part(tree: Syntax, scope: Scope) -> Bound:
    """Bind a field of a struct by its name, or an element of a list by its index from 1 on."""
    if len(tree.parts) == 2:
        whole, key = map(scope.compile, tree.parts)
        if family(whole.type) == "list":
            return scope.call("ELEMENT", [whole.as_stored, key], label="[]")
        if key.literal and isinstance(key.literal[0], str):
            return _child(tree, scope, whole, key.literal[0])
    raise scope.fail(tree, f"{scope.text(tree)!r} is not part of the filter language.")


COLUMN_RULES: Mapping[str, Callable[[Syntax, Scope], Bound]] = {
    "column": _column,
    # the column of an aggregate's value, whose name is the aggregate's text
    "aggregate": lambda tree, scope: _field(tree, scope, scope.text(tree)),
    "field": lambda tree, scope: _child(tree, scope, scope.compile(tree.parts[0]), tree.value),
    "element": pick_part,
}
