"""Columns of every type that scalar indices are made of, and filters on them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

import lancekit as lk

NAN = math.nan
_WORDS = ["b", "a", None, "c", "a", "", "zz", "b", None, "é", "Abc", "abcd"]
_FLOATS = [1.0, NAN, -NAN, None, 0.0, -0.0, -5.5, math.inf, -math.inf, 2.0, 3.0, None]
_FEW = [1, 2, None, 4, 1, 1, -7, None, 3, 2, 9, 4]
_LISTS = [["x", "y"], ["x"], None, [], ["y", None], ["z", "z"], [None], ["x", "z"], ["y"], []]
_LISTS += [["w"], ["x", None, "x"]]

#: by name, values with nulls, empty texts, zeros of both signs and values that are no number
COLUMNS: Mapping[str, pa.Array] = {
    "boolean": pa.array([True, None, False, True] * 3),
    "int8": pa.array(_FEW, pa.int8()),
    "int32": pa.array(_FEW, pa.int32()),
    "uint64": pa.array([0, 1 << 63, (1 << 64) - 1, None] * 3, pa.uint64()),
    "half": pa.array(_FLOATS, pa.float32()).cast(pa.float16()),
    "float": pa.array(_FLOATS, pa.float32()),
    "double": pa.array(_FLOATS, pa.float64()),
    "text": pa.array(_WORDS),
    "large_text": pa.array(_WORDS, pa.large_string()),
    "bytes": pa.array([None if word is None else word.encode() for word in _WORDS]),
    "fixed": pa.array([b"abcd", None, b"aaaa", b"zzzz"] * 3, pa.binary(4)),
    "decimal": pa.array([Decimal("1.50"), None, Decimal("-3.25")] * 4, pa.decimal128(10, 2)),
    "large_decimal": pa.array([Decimal("1.5"), None, Decimal("-3.2")] * 4, pa.decimal256(40, 1)),
    "date": pa.array(_FEW, pa.int32()).cast(pa.date32()),
    "time": pa.array([1, 2, None, 4] * 3, pa.time64("us")),
    "stamp": pa.array(_FEW, pa.timestamp("us")),
    "zoned": pa.array(_FEW, pa.timestamp("ms", "UTC")),
    "duration": pa.array(_FEW, pa.duration("s")),
    "labels": pa.array(_LISTS),
    "large_labels": pa.array(_LISTS, pa.large_list(pa.string())),
    "numbers": pa.array([[1, 2], None, [], [2], [None, 3], [1]] * 2, pa.list_(pa.int32())),
}

_NULL = ("{} IS NULL", "{} IS NOT NULL")
_NUMBERS = ("{} = 1", "{} < 2", "{} >= 2 AND {} < 9", "{} != 1", "NOT ({} < 2)", "{} IN (1, 4, 77)")
_REALS = ("{} = 0.0", "{} < 0.5", "{} > 2", "{} < 0", "{} <= -0.0", "{} IN (0.0, 1.0)", "{} != 1")
_TEXTS = ("{} = 'a'", "{} < 'b'", "{} >= 'a' AND {} < 'c'", "{} != ''", "{} = 'é'", "{} LIKE 'ab%'")
_TEXTS += ("{} = ''", "{} IN ('a', 'zz')", "contains({}, 'bcd')")
_DATES = ("{} = date '1970-01-02'", "{} > date '1970-01-02'")
_LABELS = ("array_has({}, 'x')", "array_has_any({}, ['x', 'w'])", "array_has_all({}, ['x', 'z'])")
_LABELS += ("NOT array_has({}, 'x')",)
_FILTERS: Mapping[str, tuple[str, ...]] = {
    "boolean": ("{}", "NOT {}", "{} = false"),
    "int8": _NUMBERS,
    "int32": _NUMBERS,
    "uint64": ("{} = 0", "{} > 1", "{} = 18446744073709551615"),
    "float": _REALS,
    "double": (*_REALS, "{} = cast('NaN' AS DOUBLE)"),
    "text": _TEXTS,
    "large_text": _TEXTS,
    "decimal": ("{} = cast(1.5 AS DECIMAL(10, 2))", "{} < cast(0 AS DECIMAL(10, 2))"),
    "date": _DATES,
    "stamp": ("{} > timestamp '1970-01-01 00:00:00.000002'",),
    "labels": _LABELS,
    "large_labels": _LABELS,
    "numbers": ("array_has({}, 2)", "NOT array_has({}, 1)"),
}


def filters_on(column: str) -> list[str]:
    """Return filters that an index of the column may answer."""
    return [text.replace("{}", column) for text in (*_NULL, *_FILTERS.get(column, ()))]


def rows(copies: int = 3, *, leave_out: tuple[str, ...] = ()) -> pa.Table:
    """Return the columns, several times behind each other, and a number for each row."""
    table = pa.table({name: values for name, values in COLUMNS.items() if name not in leave_out})
    table = pa.concat_tables([table] * copies)
    return table.append_column("row", pa.array(range(table.num_rows), pa.int64()))


def unlike(path: Path | str, columns: list[str]) -> list[tuple[str, Any, Any]]:
    """Return the filters that pylance answers otherwise with an index than without one."""
    ds = lance.dataset(str(path))
    found = []
    for text in (text for column in columns for text in filters_on(column)):
        by_index = ds.to_table(["row"], filter=text)["row"].to_pylist()
        by_scan = ds.to_table(["row"], filter=text, use_scalar_index=False)["row"].to_pylist()
        if by_index != by_scan:
            found.append((text, by_index, by_scan))
    return found


def unlike_here(path: Path | str, columns: list[str]) -> list[tuple[str, Any, Any]]:
    """Return the filters that lancekit answers otherwise with an index than without one."""
    ds = lk.dataset(str(path))
    found = []
    for text in (text for column in columns for text in filters_on(column)):
        by_index, by_scan = (
            ds.to_table(["row"], filter=text, use_scalar_index=use)["row"].to_pylist()
            for use in (True, False)
        )
        if by_index != by_scan:
            found.append((text, by_index, by_scan))
    return found


def answered_by_index(path: Path | str, column: str) -> int:
    """Return for how many of the filters on a column pylance plans to ask an index."""
    ds = lance.dataset(str(path))
    plans = [ds.scanner(filter=text).explain_plan() for text in filters_on(column)]
    return sum("ScalarIndexQuery" in plan for plan in plans)
