"""Paths to nested fields: ``s.y.z``, with backticks around a name that contains a dot."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit._format.column_names import column_not_found
from lancekit._format.field_marks import is_blob, may_be_packed
from lancekit._format.schema import LanceField, LanceSchema
from lancekit.errors import ColumnNotFoundError

Column = TypeVar("Column", pa.Array, pa.ChunkedArray, pa.Array | pa.ChunkedArray)

_PART = re.compile(r"(?:`((?:[^`]|``)+)`|([^.`]+))(\.(?=.)|$)", re.DOTALL)


def parse_path(text: str) -> tuple[str, ...]:
    """Split a path into names; a text that is not a path counts as one name.

    Examples
    --------
    >>> parse_path("s.`a.b`.c")
    ('s', 'a.b', 'c')
    """
    if "." not in text and "`" not in text:
        return (text,)
    names, at = [], 0
    while at < len(text):
        found = _PART.match(text, at)
        if found is None:
            return (text,)
        names.append(found[2] or found[1].replace("``", "`"))
        at = found.end()
    return tuple(names) or (text,)


def show_path(names: Sequence[str]) -> str:
    """Return the canonical text of a path.

    Examples
    --------
    >>> show_path(["s", "a.b"])
    's.`a.b`'
    """
    return ".".join(
        "`" + name.replace("`", "``") + "`" if "." in name or "`" in name else name
        for name in names
    )


def paths_by_id(schema: LanceSchema) -> dict[int, str]:
    """Return the path of every field, by the field's id."""

    def below(fields: Iterable[LanceField], above: tuple[str, ...]) -> Iterator[tuple[int, str]]:
        for field in fields:
            names = (*above, field.name)
            yield field.id, show_path(names)
            yield from below(field.children, names)

    return dict(below(schema.fields, ()))


def canonical(path: str) -> str:
    """Return a path in the canonical spelling of `show_path`."""
    return show_path(parse_path(path))


def top_of(path: str) -> str:
    """Return the top-level column of a path."""
    return parse_path(path)[0]


def find_field(schema: LanceSchema, path: str) -> tuple[LanceField, ...]:
    """Return the fields along a path, the top-level field first.

    Raises ColumnNotFoundError: the field does not exist, or the path leads into a list or map.
    """
    if path in schema:
        return (schema.field(path),)
    first, *rest = parse_path(path)
    if first not in schema:
        raise column_not_found(path, schema.names)
    chain = [schema.field(first)]
    for name in rest:
        parent = chain[-1]
        if parent.logical_type != "struct":
            raise ColumnNotFoundError(
                f"Column {path!r} does not exist: {parent.name!r} is {parent.to_arrow().type}, not "
                "a struct.",
                hint="Use the column itself.",
                column=path,
            )
        child = next((child for child in parent.children if child.name == name), None)
        if child is None:
            raise column_not_found(path, _leaf_paths(chain[0], (first,)))
        chain.append(child)
    return tuple(chain)


def spelled(schema: LanceSchema, path: str) -> str:
    """Return a path in the schema's spelling: exact, else the only match that ignores case.

    A path without a match is returned unchanged.

    Examples
    --------
    >>> schema = LanceSchema.from_arrow(pa.schema({"m": pa.struct({"userId": pa.int64()})}))
    >>> spelled(schema, "M.userid"), spelled(schema, "m.userId"), spelled(schema, "x")
    ('m.userId', 'm.userId', 'x')
    """
    if path in schema:
        return path
    names: list[str] = []
    fields = schema.fields
    for name in parse_path(path):
        same = [field for field in fields if field.name.lower() == name.lower()]
        found = [field for field in same if field.name == name] or same
        if len(found) != 1:
            return path
        names.append(found[0].name)
        fields = found[0].children
    return show_path(names)


def _leaf_paths(field: LanceField, names: tuple[str, ...]) -> list[str]:
    if field.logical_type != "struct":
        return [show_path(names)]
    return [path for child in field.children for path in _leaf_paths(child, (*names, child.name))]


def path_field(schema: LanceSchema, path: str) -> pa.Field:
    """Return the Arrow field at a path, with the path as its name."""
    chain = find_field(schema, path)
    last = chain[-1].to_arrow()
    if len(chain) == 1 and last.name == path:
        return last
    nullable = any(field.nullable for field in chain)
    return last.with_name(path).with_nullable(nullable)


def pick(values: Column, names: Sequence[str]) -> Column:
    """Return the struct field at a path; null where a struct on the path is null."""
    return pc.struct_field(values, list(names)) if names else values


def by_first(paths: Iterable[Sequence[str]]) -> dict[str, list[Sequence[str]]]:
    """Group paths by their first name; return the remaining names of each."""
    below: dict[str, list[Sequence[str]]] = {}
    for first, *rest in paths:
        below.setdefault(first, []).append(rest)
    return below


def pruned(field: LanceField, paths: Collection[Sequence[str]]) -> LanceField:
    """Reduce a field to the fields at paths below it; an empty path keeps the whole field.

    The schema's order is kept; packed structs and blobs stay whole.  Paths also lead through lists
    and maps, by the names of their parts.

    Raises ColumnNotFoundError: a path does not exist.
    """
    below = by_first(filter(None, paths))
    if not all(paths) or not below or _is_whole(field):
        return field
    names = [child.name for child in field.children]
    for name in below:
        if name not in names:
            raise column_not_found(f"{field.name}.{name}", names)
    selected = [pruned(child, below[child.name]) for child in field.children if child.name in below]
    return replace(field, children=tuple(selected))


def _is_whole(field: LanceField) -> bool:
    """Return True if a struct is, or may be, one column of a file, which is read whole."""
    marks = field.metadata
    return is_blob(marks) or may_be_packed(marks)
