"""Columns, values and conditions for the tests of operations, drawn by hypothesis.

A condition is SQL, and a function of a row that knows SQL's unknown (``None``) and the order that
the format's filters see in floats.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.support.plain_model import Values, order

__all__ = ["ALWAYS", "KEYS", "POOLS", "SCHEMA", "Condition", "Draw", "condition", "table"]
__all__ += ["keyed_table", "pair_condition"]

#: hypothesis's `draw`
Draw = Callable[[st.SearchStrategy[Any]], Any]

LIST = pa.list_(pa.field("element", pa.int32()))  # as Spark calls it
STRUCT = pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())])
DAY = dt.date(2024, 2, 29)
NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 123456)

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64()),
        pa.field("g", pa.string()),
        pa.field("i", pa.int32()),
        pa.field("f", pa.float64()),
        pa.field("h", pa.float32()),
        pa.field("b", pa.bool_()),
        pa.field("day", pa.date32()),
        pa.field("t", pa.timestamp("us")),
        pa.field("z", pa.timestamp("us", "UTC")),
        pa.field("d", pa.decimal128(9, 2)),
        pa.field("y", pa.binary()),
        pa.field("l", LIST),
        pa.field("st", STRUCT),
    ]
)

#: by type: the values that columns of it hold
POOLS: dict[pa.DataType, list[Any]] = {
    pa.int64(): [None, 0, 1, 2, 3, 4, 5, 6, 7, 2**40, -1],
    pa.int32(): [None, 0, 1, 2, 3, 4, 5, -7, 2**31 - 1],
    pa.int16(): [None, 0, 1, 5, -7],
    pa.string(): [None, "", "a", "b", "ba", "ä€", "a'b", "x" * 40],
    pa.large_string(): [None, "", "a", "b", "ä€"],
    pa.float64(): [None, 0.0, -0.0, 0.5, 1.5, -2.25, float("nan"), float("inf"), 1e300],
    pa.float32(): [None, 0.0, -0.0, 0.5, 1.5, -2.25, float("nan"), float("-inf")],
    pa.bool_(): [None, True, False],
    pa.date32(): [None, DAY, dt.date(1969, 12, 31), dt.date(2100, 1, 1)],
    pa.timestamp("us"): [None, NOON, dt.datetime(1969, 7, 20, 20, 17)],
    pa.timestamp("us", "UTC"): [None, NOON.replace(tzinfo=dt.UTC)],
    pa.decimal128(9, 2): [None, Decimal("0.00"), Decimal("1.50"), Decimal("-1234567.89")],
    pa.binary(): [None, b"", b"\0", b"b\xff"],
    LIST: [None, [], [1], [2, None, 3], [7] * 9],
    STRUCT: [None, {"a": None, "b": None}, {"a": 1, "b": "x"}, {"a": 5, "b": None}],
}

#: what a merge may be on
KEYS: tuple[tuple[str, ...], ...] = (("k",), ("g",), ("k", "g"), ("day",), ("b", "k", "day"))


def _pool(field: pa.Field) -> list[Any]:
    pool = POOLS[field.type]
    return pool if field.nullable else [value for value in pool if value is not None]


def _row(schema: pa.Schema, seed: int) -> Values:
    return {f.name: random.Random(f"{seed} {f.name}").choice(_pool(f)) for f in schema}


def table(draw: Draw, schema: pa.Schema, most: int = 8, least: int = 0) -> pa.Table:
    """Draw rows of mixed values; a key may occur more than once."""
    seeds = draw(st.lists(st.integers(0, 9999), min_size=least, max_size=most))
    return pa.Table.from_pylist([_row(schema, seed) for seed in seeds], schema=schema)


def keyed_table(draw: Draw, schema: pa.Schema, on: Sequence[str], *, nulls: bool) -> pa.Table:
    """Draw rows no two of which have the same key; those with a null in it are no keys."""
    keys = st.tuples(
        *(st.sampled_from([v for v in _pool(schema.field(n)) if v is not None]) for n in on)
    )
    found = draw(st.lists(keys, max_size=6, unique=True))
    if nulls and all(schema.field(name).nullable for name in on):
        for _ in range(draw(st.integers(0, 2))):
            empty = draw(st.sampled_from(on))
            pools = [[None] if name == empty else _pool(schema.field(name)) for name in on]
            found.append(tuple(draw(st.sampled_from(pool)) for pool in pools))
    rows = [
        _row(schema, draw(st.integers(0, 9999))) | dict(zip(on, key, strict=True))
        for key in draw(st.permutations(found))
    ]
    return pa.Table.from_pylist(rows, schema=schema)


# ---- conditions


@dataclass(frozen=True)
class Condition:
    """SQL, and what it makes of a row (or of the source's row and the target's)."""

    sql: str
    of: Callable[..., Any]


ALWAYS = Condition("true", lambda _: True)


def _known(test: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else test(value)


def _less(bound: Any) -> Callable[[Any], Any]:
    return _known(lambda value: order(value) < order(bound))


_ANY: list[tuple[str, Callable[[Any], Any]]] = [
    ("{} IS NULL", lambda value: value is None),
    ("{} IS NOT NULL", lambda value: value is not None),
]
_WHOLE: list[tuple[str, Callable[[Any], Any]]] = [
    ("{} < 4", _less(4)),
    ("{} >= 2", _known(lambda value: value >= 2)),
    ("{} = 3", _known(lambda value: value == 3)),
    ("{} IN (1, 2, 5)", _known(lambda value: value in (1, 2, 5))),
    ("{} NOT IN (1, 2, 5)", _known(lambda value: value not in (1, 2, 5))),
    ("{} BETWEEN 1 AND 4", _known(lambda value: 1 <= value <= 4)),
    ("{} % 2 = 0", _known(lambda value: value % 2 == 0)),
]
_TEXT: list[tuple[str, Callable[[Any], Any]]] = [
    ("{} = 'a'", _known(lambda value: value == "a")),
    ("{} <> 'a'", _known(lambda value: value != "a")),
    ("{} LIKE 'b%'", _known(lambda value: value.startswith("b"))),
    ("{} < 'b'", _known(lambda value: value.encode() < b"b")),
    ("length({}) > 1", _known(lambda value: len(value) > 1)),
]
_FLOAT: list[tuple[str, Callable[[Any], Any]]] = [
    ("{} < 1.0", _less(1.0)),
    ("{} = 0.5", _known(lambda value: value == 0.5)),
    ("{} > 0.25", _known(lambda value: order(value) > order(0.25))),
]
_TESTS: dict[pa.DataType, list[tuple[str, Callable[[Any], Any]]]] = {
    pa.int64(): _WHOLE,
    pa.int32(): _WHOLE,
    pa.int16(): _WHOLE,
    pa.string(): _TEXT,
    pa.large_string(): _TEXT,
    pa.float64(): _FLOAT,
    pa.float32(): _FLOAT,
    pa.bool_(): [("{}", lambda value: value), ("NOT {}", _known(lambda value: not value))],
    pa.date32(): [("{} < date '2024-03-01'", _known(lambda value: value < dt.date(2024, 3, 1)))],
}


def _and(left: Any, right: Any) -> Any:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: Any, right: Any) -> Any:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


_JOINS: dict[str, Callable[[Any, Any], Any]] = {"AND": _and, "OR": _or}


def _simple(draw: Draw, schema: pa.Schema, prefix: str = "") -> Condition:
    field = draw(st.sampled_from(list(schema)))
    tests = _TESTS.get(field.type, []) + _ANY
    if prefix:  # the reference finds no `source.` within a function
        tests = [(sql, test) for sql, test in tests if "({})" not in sql]
    sql, test = draw(st.sampled_from(tests))
    return Condition(sql.format(prefix + field.name), lambda row, n=field.name: test(row[n]))


def _joined(draw: Draw, make: Callable[[], Condition]) -> Condition:
    first = make()
    if draw(st.booleans()):
        return first
    word, second = draw(st.sampled_from(sorted(_JOINS))), make()
    return Condition(
        f"({first.sql}) {word} ({second.sql})",
        lambda *rows: _JOINS[word](first.of(*rows), second.of(*rows)),
    )


def condition(draw: Draw, schema: pa.Schema) -> Condition:
    """Draw a condition on rows of a schema, simple or of two parts."""
    return _joined(draw, lambda: _simple(draw, schema))


def pair_condition(draw: Draw, source: pa.Schema, target: pa.Schema) -> Condition:
    """Draw a condition on a row of a merge's source and the row of the target that it meets."""
    shared = [f for f in source if f.type in POOLS and f.type in _TESTS and f.type != pa.bool_()]

    def make() -> Condition:
        kind = draw(st.sampled_from(["source", "target", "both"] if shared else ["target"]))
        if kind == "both":
            name = draw(st.sampled_from(shared)).name
            return Condition(
                f"source.{name} > target.{name}",
                lambda new, old: (
                    None
                    if new[name] is None or old[name] is None
                    else order(new[name]) > order(old[name])
                ),
            )
        one = _simple(draw, source if kind == "source" else target, f"{kind}.")
        return Condition(one.sql, lambda new, old: one.of(new if kind == "source" else old))

    return _joined(draw, make)
