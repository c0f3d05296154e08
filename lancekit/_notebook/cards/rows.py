"""Tables of Arrow rows on cards: bounded in rows, columns, characters and time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count as numbers
from typing import Protocol, TypeAlias, cast

import pyarrow as pa
from pyarrow import types as pt

from lancekit._legible import python_value
from lancekit._notebook.render.models import Column, Row, Table
from lancekit._notebook.render.words import cell, clean, count, cut, plural, size

#: the largest number of characters of a value, of a column's type, and of bytes to read of a value
_VALUE, _TYPE, _BYTES = 80, 30, 4 * 81
#: bytes of a binary value that are shown
_BINARY = 12
#: values to convert of a nested value: each has at least three characters, so more would be cut
_PARTS = 40


class _Scalar(Protocol):
    """An Arrow scalar; no class has all of these."""

    is_valid: bool
    type: pa.DataType
    value: pa.Scalar
    values: pa.Array

    def as_buffer(self) -> pa.Buffer: ...

    def __getitem__(self, at: int) -> pa.Scalar: ...


_Convert: TypeAlias = Callable[[_Scalar, Iterator[int]], object]


def rows_table(
    rows: pa.Table, total: int | None, *, most_rows: int, most_columns: int, types: bool = False
) -> Table:
    """Return the first rows and columns of a table, with the columns' types if requested.

    total: the number of rows that exist, ``None`` if unknown.
    """
    width = min(most_columns, rows.num_columns)
    shown = rows.select(range(width)).slice(0, most_rows)
    cells = [[_text(value) for value in column] for column in shown.columns]
    return Table(
        caption="Rows",
        columns=tuple(
            Column(
                clean(field.name),
                numeric=pt.is_integer(field.type) or pt.is_floating(field.type),
                detail=cut(clean(str(field.type)), _TYPE) if types else "",
            )
            for field in shown.schema
        ),
        rows=tuple(map(Row, zip(*cells, strict=True))),
        note=note(min(rows.num_rows, most_rows), total, rows.num_columns - width),
    )


def note(shown: int, total: int | None, more: int) -> str:
    """Return the line below a table: its share of the rows, and the number of further columns."""
    of = "first" if total is None else f"{count(shown)} of"
    hidden = f"; {plural(more, 'more column')}" if more > 0 else ""
    return f"{of} {plural(shown if total is None else total, 'row')}{hidden}"


def _text(value: pa.Scalar) -> str:
    return cell(_bounded(value, numbers()), _VALUE)


def _bounded(given: pa.Scalar, number: Iterator[int]) -> object:
    """Convert an Arrow scalar to Python; only the first parts of a long or nested value."""
    value = cast("_Scalar", given)
    if next(number) > _PARTS:
        return "…"
    if not value.is_valid:
        return None
    kind = value.type
    if pt.is_dictionary(kind):
        return _bounded(value.value, number)
    for is_kind, convert in _CONVERT.items():
        if is_kind(kind):
            return convert(value, number)
    if isinstance(kind, pa.BaseExtensionType) and not pt.is_primitive(kind.storage_type):
        return _bounded(value.value, number) if _is_long(kind.storage_type) else python_value(given)
    return python_value(given)


def _is_long(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in _CONVERT)


def _string(value: _Scalar, _number: Iterator[int]) -> str:
    return bytes(memoryview(value.as_buffer())[:_BYTES]).decode("utf-8", "ignore")


def _binary(value: _Scalar, _number: Iterator[int]) -> object:
    buffer = value.as_buffer()
    begin = bytes(memoryview(buffer)[:_BINARY])
    return begin if len(begin) == buffer.size else f"{begin!r}… {size(buffer.size)}"


def _list(value: _Scalar, number: Iterator[int]) -> list[object]:
    return [_bounded(one, number) for one in value.values.slice(0, _PARTS)]


def _map(value: _Scalar, number: Iterator[int]) -> list[object]:
    pairs = value.values.slice(0, _PARTS)
    return [tuple(_bounded(cast("_Scalar", one)[part], number) for part in (0, 1)) for one in pairs]


def _struct(value: _Scalar, number: Iterator[int]) -> dict[str, object]:
    kind = value.type
    return {
        kind.field(at).name: _bounded(value[at], number)
        for at in range(min(kind.num_fields, _PARTS))
    }


_CONVERT: Mapping[Callable[[pa.DataType], bool], _Convert] = {
    pt.is_string: _string,
    pt.is_large_string: _string,
    pt.is_string_view: _string,
    pt.is_binary: _binary,
    pt.is_large_binary: _binary,
    pt.is_binary_view: _binary,
    pt.is_fixed_size_binary: _binary,
    pt.is_list: _list,
    pt.is_large_list: _list,
    pt.is_list_view: _list,
    pt.is_large_list_view: _list,
    pt.is_fixed_size_list: _list,
    pt.is_map: _map,
    pt.is_struct: _struct,
}
