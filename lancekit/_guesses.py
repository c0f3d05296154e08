"""The line that does what a user typed: errors for unknown names and arguments show it.

A line can contain placeholders, which `fitting` replaces by columns of the user's table: ``$key``,
``$number`` and ``$text`` are columns, ``$filter`` is a condition, ``$mean`` an aggregate, ``$zero``
a value, and ``$column`` the column that the user typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from operator import attrgetter
from string import Template

import numpy as np
import pyarrow as pa

from lancekit._guessed_names import ARGUMENTS, CALLS, NAMES, OPERATORS, VALUES
from lancekit._guessed_parts import Lines
from lancekit._legible import shown


def _by_name(tables: Mapping[str, Lines]) -> dict[tuple[str, str], str]:
    return {
        (owner, name): line
        for owner, lines in tables.items()
        for line, names in lines.items()
        for name in names.split()
    }


_LINES = _by_name(NAMES)
_OPERATORS = _by_name(OPERATORS)
_VALUES = _by_name(VALUES)
_CALLS = _by_name(CALLS)


def line_for(owner: str, name: str, of: object = None, **more: object) -> str:
    """Return the line for an unknown attribute or an operator of a class, or an empty text.

    owner: the name of the class; ``"lance"`` is the package.
    of: the object, whose columns the line shows.
    more: further placeholders.

    >>> line_for("LanceDataset", "history")
    'ds.versions()'
    """
    if name.startswith("__"):
        line = _OPERATORS.get((owner, name)) or _OPERATORS.get(("", name), "")
        return fitting(line, of, **more)
    kind = "" if _is_numeric(of, True) else ", not a number"
    line = _LINES.get((owner + kind, name)) or _LINES.get((owner, name), "")
    return fitting(line, of, **{"name": name, **more})


def argument_hint(
    function: str, known: Iterable[str], given: Mapping[str, object], of: object = None
) -> str:
    """Return a hint for arguments that do not fit a function, or an empty text.

    function: the function's name, which can begin with its class.
    known: the parameters of the function.
    given: the values of unknown arguments by name; a name can be a mark such as ``"(missing)"``.
        Lines have all of them as ``$given``, and as the condition ``$equal``.

    >>> argument_hint("scanner", ["columns", "filter"], {"where": "x > 3"})
    "Use filter='x > 3'."
    """
    names, allowed = (function, function.rpartition(".")[2]), set(known)
    named = {name: value for name, value in given.items() if name.isidentifier()}
    all_of_them = {"given": shown(named), "equal": repr(condition_of(named))}
    if named and "(missing)" in given:
        given = {**named, "(named)": None, **given}
    for name, value in given.items():
        marks = {name} if named or name != "(more)" else {name, "(positional)"}
        for parameter, line, guessed in ARGUMENTS:
            if marks & {*guessed.split()} and (parameter in allowed or parameter in names):
                text = shown((isinstance(value, list) and condition_of(value)) or value)
                return f"Use {fitting(line, of, name=name, value=text, **all_of_them)}."
        if close := similar(name, allowed):
            return f"Did you mean {close}=?"
    return ""


def condition_of(value: object) -> str:
    """Return the SQL text of a condition that is a list of triples or a dictionary.

    >>> condition_of([("x", ">", 1), ("s", "==", "a")]), condition_of({"x": 1}), condition_of(3)
    ("x > 1 AND s = 'a'", 'x = 1', '')
    """
    if isinstance(value, dict):
        value = [(name, "=", one) for name, one in value.items()]
    if not isinstance(value, list) or not all(isinstance(o, tuple) and len(o) == 3 for o in value):
        return ""
    return " AND ".join(f"{o[0]} {str(o[1]).replace('==', '=')} {shown(o[2])}" for o in value)


def condition_hint(value: object) -> str:
    """Return the hint for a value that is neither SQL text nor an expression."""
    polars = "For Polars expressions, use lk.scan_polars(ds).filter(...)."
    keys = {*value} if isinstance(value, dict) else set()
    if type(value).__name__.endswith("Query") or ("query" in keys and keys <= {"query", "columns"}):
        return "Use ds.to_table(full_text_query=...)."
    found = condition_of(value)
    return f"Use {found!r}." if found else f"Pass SQL text, or lk.col('x') > 3.  {polars}"


def item_line(item: object, of: object) -> str:
    """Return the line for an item that a dataset does not have.

    >>> item_line(3, None)
    'ds.take([3]), ds.to_batches(), or ds.to_table().to_pydict()'
    """
    match item:
        case int() | np.integer() if not isinstance(item, bool):
            at = int(item) if item >= 0 else f"len(ds) - {-item}"
            line = f"ds.take([{at}]), ds.to_batches(), or ds.to_table().to_pydict()"
        case (slice() | int() as rows, str() | list() as names):
            names = names if isinstance(names, list) else [names]
            line = f"ds.take([{rows}], columns={names})"
            if isinstance(rows, slice):
                line = f"ds.to_table(columns={names})[{rows.start or ''}:{rows.stop or ''}]"
        case tuple() if all(isinstance(name, str) for name in item):
            line = f"ds[{list(item)}]"
        case []:
            line = "ds.to_table(columns=[])"
        case slice():
            between = f"lk.col('$key').between({item.start!r}, {item.stop!r})"
            line = fitting(f"ds[10:20], or ds.to_table(filter={between})", of)
        case _:
            condition = condition_of(item) or fitting("$filter", of)
            line = f"ds.to_table(filter={condition!r})"
    return line


#: texts that are more than the name of a column, with the line that they mean
_MORE_THAN_NAMES = {
    r"(.+?)\s+(?:desc|DESC)\b.*|-(.+)": "order_by=[lk.ColumnOrdering({0!r}, ascending=False)]",
    r"(.+?)\s+(?:asc|ASC)\b.*": "order_by=[{0!r}]",
    r"(.+?)\s*(?:[<>=!]|(?:IS|is|IN|in)\b).*": "ds.to_table(filter={1!r})",
}


def column_line(name: str, known: Iterable[str]) -> str:
    """Return the line for a text in the place of a column's name, or an empty text.

    >>> column_line("x DESC", ["x"]), column_line("x > 3", ["x"])
    ("order_by=[lk.ColumnOrdering('x', ascending=False)]", "ds.to_table(filter='x > 3')")
    """
    for form, line in _MORE_THAN_NAMES.items():
        found = re.fullmatch(form, name)
        if found and (base := next(filter(None, found.groups()))) in known:
            return line.format(base, name)
    return ""


def rows_by(key: Sequence[str], values: object) -> str:
    """Return the condition for rows with the given keys, or an empty text.

    >>> rows_by(["id"], [1, 2]), rows_by(["id"], 3), rows_by(["id"], [{}])
    ('id IN (1, 2)', 'id = 3', '')
    """
    listed = list(values) if isinstance(values, list | tuple | set) else [values]
    if len(key) != 1 or not listed or not all(type(one) in (int, str) for one in listed):
        return ""
    if len(listed) == 1:
        return f"{key[0]} = {listed[0]!r}"
    return f"{key[0]} IN ({', '.join(map(repr, listed))})"


def choice_hint(argument: str, value: object, choices: Iterable[str]) -> str:
    """Return the hint for a value that an argument does not allow, or an empty text.

    >>> choice_hint("mode", "replace", ["create", "overwrite"])
    "Did you mean mode='overwrite'?"
    """
    if line := isinstance(value, str) and _CALLS.get((argument, value)):
        return f"Use {fitting(line, None)}."
    found = meant(argument, value, choices)
    return f"Did you mean {argument}={found!r}?" if found else ""


#: by the end of a name in a folder that is no dataset: how its rows are read; the last one counts
_SOURCES = {
    ".csv": "lk.read_csv({})",
    ".parquet": "lk.read_parquet({})",
    "_delta_log": "deltalake.DeltaTable({}).to_pyarrow_dataset()",
}


def place_hint(uri: str, names: Iterable[str]) -> str:
    """Return the hint for a place without a dataset, which has the names.

    >>> place_hint("rows.csv", [])
    "To copy its rows: lk.write_dataset(lk.read_csv('rows.csv'), 'new.lance')."
    """
    place, _, version = uri.rpartition("@")
    if place and version.isalnum():
        at = version if version.isdecimal() else repr(version)
        return f"Use lk.dataset({place!r}, version={at})."
    hint, known = "Check the path, or create the dataset with write_dataset().", [uri, *names]
    for end, rows in _SOURCES.items():
        if any(name.endswith(end) for name in known):
            hint = f"To copy its rows: lk.write_dataset({rows.format(repr(uri))}, 'new.lance')."
    return hint


def meant(argument: str, value: object, choices: Iterable[str]) -> str:
    """Return the choice that a value probably means, or an empty text.

    >>> meant("mode", "replace", ["create", "overwrite"]), meant("mode", "crate", ["create"])
    ('overwrite', 'create')
    """
    if not isinstance(value, str):
        return ""
    known = list(choices)
    found = _VALUES.get((argument, value), "") or similar(value, known)
    return found if found in known else ""


def similar(name: str, known: Iterable[str]) -> str:
    """Return the known name that is spelled most similarly, or an empty text."""
    names = list(known)
    folded = {one.replace("_", "").lower(): one for one in names}
    found = folded.get(name.replace("_", "").lower())
    return found or next(iter(get_close_matches(name, names, 1, 0.8)), "")


def fitting(line: str, of: object, **more: object) -> str:
    """Return a line with columns of a dataset in place of its placeholders."""
    if "$" not in line:
        return line
    return Template(line).safe_substitute(_columns(of) | more)


#: columns in place of placeholders without a dataset
_EXAMPLES = {"key": "id", "number": "price", "text": "name"}


def _columns(of: object) -> dict[str, str]:
    """Return the placeholders' values: columns of a handle, a column, or what holds a handle."""
    found, numeric, fields = dict(_EXAMPLES), True, dict[str, str]()
    if (types_and_key := _types_and_key(of)) is not None:
        fields, key = types_and_key
        fields = {name: kind for name, kind in fields.items() if name.isidentifier()}
        names = list(fields) or ["x"]
        others = [name for name in names if name not in key] or names
        numbers = [name for name in others if fields.get(name) in _NUMBERS]
        numeric = bool(numbers)
        found["key"] = (key or names)[0]
        found["number"] = (numbers or others)[0]
        found["text"] = next((name for name in names if fields.get(name) in _TEXTS), names[0])
    if isinstance(changed := getattr(of, "__dict__", {}).get("columns"), tuple) and changed:
        found["number"] = changed[0]  # of an update
    number = found["number"]
    known = dir(of)  # other names raise an error with a line
    column = next((getattr(of, name) for name in ("path", "column") if name in known), number)
    version = getattr(of, "version") if "version" in known else 1  # noqa: B009
    return {
        **found,
        "column": column,
        "item": number,
        "filter": f"{number} > 3" if numeric else f"{number} IS NOT NULL",
        "condition": f"{column} > 3" if _is_numeric(of, numeric) else f"{column} IS NOT NULL",
        "type": _narrow(of, found.get("number", ""), fields),
        "symbol": "+",
        "operand": "1",
        "mean": f"avg({number})" if numeric else f"count({number})",
        "zero": "0" if numeric else "NULL",
        "version": str(version if isinstance(version, int) else 1),
        "tag": "name",
        "branch": "name",
        "index": "name",
        "value": "1",
    }


def _types_and_key(of: object) -> tuple[dict[str, str], list[str]] | None:
    """Return the types of columns by name, and the key columns; ``None`` if they are unknown."""
    held = getattr(of, "__dict__", {})
    if isinstance(schema := held.get("schema"), pa.Schema):  # of the result of SQL
        return {field.name: str(field.type) for field in schema}, []
    holders = (held, *(vars(held[name]) for name in ("_handle", "_dataset") if name in held))
    found = next((one["_snapshot"] for one in holders if "_snapshot" in one), None)
    if found is None and "_plan" in held:
        found = held["_plan"].new  # of a diff
    if found is None:
        return None
    stored = attrgetter("manifest.schema")(found() if callable(found) else found)
    key = [field.name for field in stored.primary_key]
    return {field.name: field.logical_type for field in stored.fields}, key


def _narrow(of: object, number: str, fields: Mapping[str, str]) -> str:
    """Return another type of the same kind as a column's, to which it can be cast."""
    own = getattr(of, "_fields", ())
    kind = own[-1].logical_type if own else fields.get(number, "double")
    if kind in _TEXTS:
        return "pa.large_string()"
    return "pa.int32()" if "int" in kind else "pa.float32()"


def _is_numeric(of: object, numeric: bool) -> bool:
    fields = getattr(of, "_fields", ())
    return fields[-1].logical_type in _NUMBERS if fields else numeric


#: logical types of the format (table-format, "Field"): numbers, and text
_NUMBERS = frozenset({"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"})
_NUMBERS |= {"halffloat", "float", "double"}
_TEXTS = frozenset({"string", "large_string", "json", "arrow.json"})
