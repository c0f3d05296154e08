"""Types as Python that makes them, for hints that can be run."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from lancekit.format.arrow_parts import item_field

__all__ = ["spelled"]

#: types whose text is not the name of the function that makes them
_NAMES = {
    "bool": "bool_",
    "date32[day]": "date32",
    "date64[ms]": "date64",
    "double": "float64",
    "float": "float32",
    "halffloat": "float16",
}


def spelled(kind: Any, otherwise: str) -> str:
    """Return the code for a type, or `otherwise` for a type that has no short one.

    Examples
    --------
    >>> spelled(pa.list_(pa.timestamp("us", "UTC")), "?")
    "pa.list_(pa.timestamp('us', 'UTC'))"
    >>> spelled(pa.map_(pa.int8(), pa.int8()), "?")
    '?'
    """
    if pt.is_timestamp(kind):
        return f"pa.timestamp({kind.unit!r}{'' if kind.tz is None else f', {kind.tz!r}'})"
    if pt.is_time(kind) or pt.is_duration(kind):
        return f"pa.{str(kind).partition('[')[0]}({kind.unit!r})"
    if pt.is_decimal(kind):
        return f"pa.{str(kind).partition('(')[0]}({kind.precision}, {kind.scale})"
    if pt.is_list(kind) or pt.is_large_list(kind):
        items = spelled(item_field(kind).type, "")
        make = "list_" if pt.is_list(kind) else "large_list"
        return f"pa.{make}({items})" if items else otherwise
    if pt.is_struct(kind):
        fields = [(field.name, spelled(field.type, "")) for field in kind]
        listed = ", ".join(f"({name!r}, {code})" for name, code in fields)
        return f"pa.struct([{listed}])" if all(code for _, code in fields) else otherwise
    name = _NAMES.get(str(kind), str(kind))
    return f"pa.{name}()" if name.isidentifier() and hasattr(pa, name) else otherwise
