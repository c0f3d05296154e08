"""What functions and operators mean, and how each engine writes that.

A statement means one thing, whoever works it out: here in this process (DuckDB), Spark, or the
language of filters.  A function stands here if the engines can be brought to agree on it, for every
value; what they differ in (Java's and C's logarithms, regular expressions, orders of lists) is
refused.  Division by zero is null: an error would depend on which condition an engine looks at
first.  Whole numbers are computed as bigint, and overflow is an error on both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lancekit._statements.kinds import BIGINT, DOUBLE, TEXT, TIMESTAMP

__all__ = ["AGGREGATES", "FUNCTIONS", "OPERATORS", "WINDOWS", "Function", "Signature"]

BOOL = pa.bool_()

#: for each argument the families that it may have: ``|`` between several; ``""`` is any, ``same``
#: any, all of which meet in one type; ``number`` is integer or fraction; the last goes on
Signature = Sequence[str]


@dataclass(frozen=True, slots=True)
class Function:
    """A function: what it takes, the type that it gives, and how it is written.

    `kind` is a type, or ``"same"``: that of the (first) argument.  Numbers are computed as ``wide``
    says: ``"bigint"``, ``"double"``, ``"number"`` (bigint for integers, else double), or as they
    are.  Texts have ``{0}``, ``{1}`` for the arguments, ``{all}`` for all of them.  `literal` are
    the arguments that have to be constants, and what they have to be.
    """

    takes: Signature
    kind: pa.DataType | str
    local: str
    spark: str
    filter: str | None = None
    least: int = -1
    wide: str = ""
    literal: Mapping[int, Callable[[object], bool]] | None = None

    @property
    def fewest(self) -> int:
        """The least number of arguments."""
        return len(self.takes) if self.least < 0 else self.least


def _alike(takes: Signature, kind: pa.DataType | str, text: str, **more: Any) -> Function:
    """Return a function that all write the same."""
    return Function(takes, kind, text, text, text, **more)


def _both(takes: Signature, kind: pa.DataType | str, text: str, **more: Any) -> Function:
    """Return a function that both engines write the same, and filters do not have."""
    return Function(takes, kind, text, text, **more)


def _beside(text: str, symbols: tuple[str, ...]) -> dict[str, Function]:
    return {one: _alike(("same", "same"), BOOL, text.format(one)) for one in symbols}


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31


#: the operators, by the names that trees have
OPERATORS: Mapping[str, Function] = {
    **_beside("({{0}} {} {{1}})", ("=", "<>", "<", "<=", ">", ">=")),
    "same": Function(
        ("same", "same"),
        BOOL,
        "({0} IS NOT DISTINCT FROM {1})",
        "({0} <=> {1})",
        "({0} IS NOT DISTINCT FROM {1})",
    ),
    "not": _alike(("condition",), BOOL, "(NOT {0})"),
    "is null": _alike(("",), BOOL, "({0} IS NULL)"),
    "is true": _alike(("condition",), BOOL, "({0} IS TRUE)"),
    "is false": _alike(("condition",), BOOL, "({0} IS FALSE)"),
    "like": Function(
        ("text", "text"),
        BOOL,
        "({0} LIKE {1} ESCAPE '\\')",
        "({0} LIKE {1} ESCAPE '\\\\')",
        "({0} LIKE {1})",
    ),
    **{
        one: _alike(("number", "number"), "same", f"({{0}} {one} {{1}})", wide="number")
        for one in ("+", "-", "*")
    },
    "negative": Function(("number",), "same", "(0 - {0})", "(0 - {0})", "(0 - {0})", wide="number"),
    "/": Function(
        ("number", "number"),
        DOUBLE,
        "({0} / nullif({1}, CAST(0 AS DOUBLE)))",
        "({0} / nullif({1}, 0D))",
        "({0} / nullif({1}, 0.0))",
        wide="double",
    ),
    "div": Function(
        ("integer", "integer"),
        BIGINT,
        "({0} // nullif({1}, 0))",
        "({0} div nullif({1}, 0L))",
        "({0} / nullif({1}, 0))",
        wide="bigint",
    ),
    "%": Function(
        ("number", "number"),
        "same",
        "({0} % nullif({1}, 0))",
        "({0} % nullif({1}, 0))",
        "({0} % nullif({1}, 0))",
        wide="number",
    ),
    "||": Function(("text", "text"), TEXT, "({0} || {1})", "concat({0}, {1})", "({0} || {1})"),
}


def _part(name: str, local: str = "{0}") -> Function:
    """Return a part of a date or time, as a bigint."""
    moments = ("date|timestamp",) if name in _DAYS else ("timestamp",)
    text = f"CAST({name}({{0}}) AS BIGINT)"
    found = f"CAST(date_part('{name}', {{0}}) AS bigint)" if name in _IN_FILTERS else None
    return Function(moments, BIGINT, local.format(text), text, found)


_DAYS = ("year", "quarter", "month", "day", "dayofmonth", "dayofyear", "dayofweek")
_IN_FILTERS = ("year", "quarter", "month", "day", "hour", "minute")

_UPPER = {name: f"lancekit_{name}({{0}})" for name in ("lower", "upper")}

#: the functions of single rows
FUNCTIONS: Mapping[str, Function] = {
    "coalesce": _alike(("same",), "same", "coalesce({all})", least=1),
    "ifnull": _alike(("same", "same"), "same", "coalesce({all})"),
    "nvl": _alike(("same", "same"), "same", "coalesce({all})"),
    "nullif": _alike(("same", "same"), "same", "nullif({0}, {1})"),
    "greatest": _both(("same",), "same", "greatest({all})", least=2),
    "least": _both(("same",), "same", "least({all})", least=2),
    "if": Function(
        ("condition", "same", "same"),
        "same",
        "CASE WHEN {0} THEN {1} ELSE {2} END",
        "if({0}, {1}, {2})",
    ),
    **{
        name: Function(("text",), TEXT, local, f"{name}({{0}})", f"{name}({{0}})")
        for name, local in _UPPER.items()
    },
    **{
        name: Function(
            ("text",),
            BIGINT,
            "CAST(length({0}) AS BIGINT)",
            "CAST(length({0}) AS BIGINT)",
            "CAST(char_length({0}) AS bigint)",
        )
        for name in ("length", "char_length", "character_length")
    },
    **{
        name: Function(("text",), TEXT, f"{name}({{0}}, ' ')", f"{name}({{0}})", f"{name}({{0}})")
        for name in ("trim", "ltrim", "rtrim")
    },
    "concat": Function(("text",), TEXT, "({concat})", "concat({all})", "({concat})", least=1),
    "concat_ws": _both(("text", "text"), TEXT, "concat_ws({all})", least=2),
    **{
        name: _both(
            ("text", "integer", "integer"),
            TEXT,
            "substring({all})",
            least=2,
            literal={1: lambda value: _count(value) and value != 0, 2: _count},
        )
        for name in ("substring", "substr")
    },
    **{
        name: Function(
            ("text", "integer"),
            TEXT,
            f"{name}({{0}}, {{1}})",
            f"{name}({{0}}, CAST({{1}} AS INT))",
            f"{name}({{0}}, {{1}})",
            literal={1: _count},
        )
        for name in ("left", "right")
    },
    **{
        name: Function(("text", "text"), BOOL, f"{local}({{all}})", f"{name}({{all}})", inside)
        for name, local, inside in (
            ("startswith", "starts_with", "starts_with({all})"),
            ("endswith", "ends_with", "ends_with({all})"),
            ("contains", "contains", "contains({all})"),
        )
    },
    "abs": _alike(("number",), "same", "abs({0})", wide="number"),
    "round": _both(
        ("number", "integer"),
        "same",
        "CASE WHEN abs({0}) < 1e15 THEN round({0} * {scale}) / {scale} ELSE {0} END",
        least=1,
        wide="double",
        literal={1: lambda value: _count(value) and int(str(value)) <= 15},
    ),
    **{
        name: Function(
            ("number",),
            DOUBLE,
            f"{name}({{0}})",
            f"CASE WHEN abs({{0}}) < 1e15 THEN CAST({name}({{0}}) AS DOUBLE) ELSE {{0}} END",
            wide="double",
        )
        for name in ("floor", "ceil")
    },
    "sqrt": _both(("number",), DOUBLE, "sqrt(CASE WHEN {0} >= 0 THEN {0} END)", wide="double"),
    "isnan": Function(
        ("fraction",), BOOL, "isnan({0})", "if({0} IS NULL, NULL, isnan({0}))", "isnan({0})"
    ),
    **{name: _part(name) for name in ("year", "quarter", "month", "day", "dayofyear")},
    **{name: _part(name) for name in ("hour", "minute", "second")},
    "dayofmonth": _part("day"),
    "dayofweek": _part("dayofweek", "({0} + 1)"),
    "date_add": Function(
        ("date", "integer"),
        pa.date32(),
        "({0} + CAST({1} AS INTEGER))",
        "date_add({0}, CAST({1} AS INT))",
    ),
    "datediff": Function(
        ("date", "date"), BIGINT, "CAST({0} - {1} AS BIGINT)", "CAST(datediff({0}, {1}) AS BIGINT)"
    ),
}

_SPARK_TRUNCATED = {
    **{
        unit: f"CAST(trunc(CAST({{0}} AS DATE), '{unit}') AS TIMESTAMP_NTZ)"
        for unit in ("year", "quarter", "month", "week")
    },
    "day": "CAST(CAST({0} AS DATE) AS TIMESTAMP_NTZ)",
    "hour": "make_timestamp_ntz(year({0}), month({0}), day({0}), hour({0}), 0, 0)",
    "minute": "make_timestamp_ntz(year({0}), month({0}), day({0}), hour({0}), minute({0}), 0)",
}
#: ``date_trunc(unit, moment)``, by its unit
TRUNCATED: Mapping[str, Function] = {
    unit: Function(
        ("date|timestamp",), TIMESTAMP, f"CAST(date_trunc('{unit}', {{0}}) AS TIMESTAMP)", spark
    )
    for unit, spark in _SPARK_TRUNCATED.items()
}
__all__ += ["TRUNCATED"]


def _aggregate(takes: str, kind: pa.DataType | str, text: str, wide: str = "") -> Function:
    return _both((takes,), kind, text, wide=wide)


_ORDERED = "condition|integer|fraction|decimal|text|bytes|date|timestamp|instant"
#: the functions of many rows; ``{d}`` is DISTINCT, or nothing
AGGREGATES: Mapping[str, Function] = {
    "count": _aggregate("", BIGINT, "count({d}{0})"),
    "sum": _aggregate("number", "same", "sum({d}{0})", "number"),
    "avg": _aggregate("number", DOUBLE, "avg({d}{0})", "double"),
    "mean": _aggregate("number", DOUBLE, "avg({d}{0})", "double"),
    "min": _aggregate(_ORDERED, "same", "min({0})"),
    "max": _aggregate(_ORDERED, "same", "max({0})"),
    "median": _aggregate("number", DOUBLE, "median({0})", "double"),
    **{
        name: _aggregate("number", DOUBLE, f"{text}({{0}})", "double")
        for name, text in (
            ("stddev", "stddev_samp"),
            ("stddev_samp", "stddev_samp"),
            ("stddev_pop", "stddev_pop"),
            ("variance", "var_samp"),
            ("var_samp", "var_samp"),
            ("var_pop", "var_pop"),
        )
    },
    **{name: _aggregate("condition", BOOL, f"{name}({{0}})") for name in ("bool_and", "bool_or")},
}

#: functions of a row's place among others, which need OVER with an order
WINDOWS: Mapping[str, Function] = {
    **{
        name: _both((), BIGINT, f"CAST({name}() {{over}} AS BIGINT)")
        for name in ("row_number", "rank", "dense_rank")
    },
    **{name: _both(("",), "same", f"{name}({{0}}) {{over}}") for name in ("lag", "lead")},
}
