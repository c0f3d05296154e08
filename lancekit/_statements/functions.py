"""Functions and operators of statements: argument types, result types, and text for each engine.

A statement has the same result in this process (DuckDB), on Spark, and in filters.  The tables here
only have functions on which the engines agree for every value.  Others are refused, for example
logarithms, regular expressions and orders of lists, which differ between Java and C.  Division by
zero is null, because an error would depend on the order in which an engine evaluates conditions.
Integers are computed as bigint, and overflow is an error on both engines.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancekit._scan.expressions.kernels.functions import FUNCTIONS as OF_FILTERS
from lancekit._statements.literals import coerce, is_constant, widened
from lancekit._statements.scope import Scope
from lancekit._statements.tree import BIGINT, DOUBLE, TEXT, TIMESTAMP, Expr, decimal_of, family

if TYPE_CHECKING:
    from sqlglot import exp

BOOL = pa.bool_()

#: the type families of each argument, separated by ``|``: ``""`` is any type, ``number`` is integer
#: or fraction, ``same`` is the common type of all ``same`` arguments; the last entry may repeat
Signature = Sequence[str]


@dataclass(frozen=True, slots=True)
class Function:
    """A function: its argument types, its result type, and its text for each engine.

    `kind` is the result type, or ``"same"`` for the type of the (first) argument.  `wide` is the
    type that numbers are widened to: ``"bigint"``, ``"double"``, ``"number"`` (bigint for integers,
    else double), or empty.  Texts have ``{0}``, ``{1}`` for the arguments, ``{all}`` for all.
    `literal` has the range of each argument that must be a constant integer.  `filter` is ``None``
    for functions that filters lack, and `least` is the fewest arguments, if some are optional.
    """

    takes: Signature
    kind: pa.DataType | str
    local: str
    spark: str
    filter: str | None = None
    least: int = -1
    wide: str = ""
    literal: Mapping[int, range] | None = None

    @property
    def fewest(self) -> int:
        """The minimal number of arguments."""
        return len(self.takes) if self.least < 0 else self.least


def _shared(takes: Signature, kind: pa.DataType | str, text: str, **more: Any) -> Function:
    """Return a function with the same text for both engines and for filters."""
    return Function(takes, kind, text, text, text, **more)


def _both(takes: Signature, kind: pa.DataType | str, text: str, **more: Any) -> Function:
    """Return a function with the same text for both engines, which filters lack."""
    return Function(takes, kind, text, text, **more)


#: the operators, by the names that expressions have
OPERATORS: Mapping[str, Function] = {
    **{
        one: _shared(("same", "same"), BOOL, f"({{0}} {one} {{1}})")
        for one in ("=", "<>", "<", "<=", ">", ">=")
    },
    "same": replace(
        _shared(("same", "same"), BOOL, "({0} IS NOT DISTINCT FROM {1})"), spark="({0} <=> {1})"
    ),
    "not": _shared(("condition",), BOOL, "(NOT {0})"),
    "is null": _shared(("",), BOOL, "({0} IS NULL)"),
    "is true": _shared(("condition",), BOOL, "({0} IS TRUE)"),
    "is false": _shared(("condition",), BOOL, "({0} IS FALSE)"),
    "like": Function(
        ("text", "text"),
        BOOL,
        "({0} LIKE {1} ESCAPE '\\')",
        "({0} LIKE {1} ESCAPE '\\\\')",
        "({0} LIKE {1})",
    ),
    **{
        one: _shared(("number", "number"), "same", f"({{0}} {one} {{1}})", wide="number")
        for one in ("+", "-", "*")
    },
    "negative": _shared(("number",), "same", "(0 - {0})", wide="number"),
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
    "%": _shared(("number", "number"), "same", "({0} % nullif({1}, 0))", wide="number"),
    "||": Function(("text", "text"), TEXT, "({0} || {1})", "concat({0}, {1})", "({0} || {1})"),
}


def _part(name: str, local: str = "{0}") -> Function:
    """Return the function that extracts a part of a date or time, as a bigint."""
    moments = ("date|timestamp",) if name in _DAYS else ("timestamp",)
    text = f"CAST({name}({{0}}) AS BIGINT)"
    found = f"CAST(date_part('{name}', {{0}}) AS bigint)" if name in _IN_FILTERS else None
    return Function(moments, BIGINT, local.format(text), text, found)


#: doubles from 2**52 on have no fraction
_WHOLE = "4503599627370496e0"
_DAYS = ("year", "quarter", "month", "day", "dayofmonth", "dayofyear", "dayofweek")
_IN_FILTERS = ("year", "quarter", "month", "day", "hour", "minute")

#: functions of single rows
FUNCTIONS: Mapping[str, Function] = {
    "coalesce": _shared(("same",), "same", "coalesce({all})", least=1),
    **dict.fromkeys(("ifnull", "nvl"), _shared(("same", "same"), "same", "coalesce({all})")),
    "nullif": _shared(("same", "same"), "same", "nullif({0}, {1})"),
    "greatest": _both(("same",), "same", "greatest({all})", least=2),
    "least": _both(("same",), "same", "least({all})", least=2),
    "if": Function(
        ("condition", "same", "same"),
        "same",
        "CASE WHEN {0} THEN {1} ELSE {2} END",
        "if({0}, {1}, {2})",
    ),
    **{
        name: replace(_shared(("text",), TEXT, f"{name}({{0}})"), local=f"lancekit_{name}({{0}})")
        for name in ("lower", "upper")
    },
    **{
        name: replace(
            _both(("text",), BIGINT, "CAST(length({0}) AS BIGINT)"),
            filter="CAST(char_length({0}) AS bigint)",
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
            literal={1: range(1, 1 << 31), 2: range(1 << 31)},
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
            literal={1: range(1 << 31)},
        )
        for name in ("left", "right")
    },
    **{
        name: Function(("text", "text"), BOOL, f"{one}({{all}})", spark, f"{one}({{all}})")
        for name in ("startswith", "starts_with", "endswith", "ends_with", "contains")
        for one, spark in [(name.replace("swith", "s_with"), name.replace("_", "") + "({all})")]
    },
    "abs": _shared(("number",), "same", "abs({0})", wide="number"),
    "round": _both(
        ("number", "integer"),
        "same",
        f"CASE WHEN abs({{0}}) < {_WHOLE} THEN round({{0}} * {{scale}}) / {{scale}} ELSE {{0}} END",
        least=1,
        wide="double",
        literal={1: range(16)},
    ),
    **{
        name: Function(
            ("number",),
            DOUBLE,
            f"{name}({{0}})",
            f"CASE WHEN abs({{0}}) < {_WHOLE} THEN CAST({name}({{0}}) AS DOUBLE) ELSE {{0}} END",
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


def _aggregate(takes: str, kind: pa.DataType | str, text: str, wide: str = "") -> Function:
    return _both((takes,), kind, text, wide=wide)


_ORDERED = "condition|integer|fraction|decimal|text|bytes|date|timestamp|instant"
#: aggregate functions; ``{d}`` is DISTINCT or empty
AGGREGATES: Mapping[str, Function] = {
    "count": _aggregate("", BIGINT, "count({d}{0})"),
    "sum": _aggregate("number", "same", "sum({d}{0})", "number"),
    "avg": _aggregate("number", DOUBLE, "avg({d}{0})", "double"),
    "mean": _aggregate("number", DOUBLE, "avg({d}{0})", "double"),
    "min": _aggregate(_ORDERED, "same", "min({0})"),
    "max": _aggregate(_ORDERED, "same", "max({0})"),
    "stddev": _aggregate("number", DOUBLE, "stddev_samp({0})", "double"),
    "variance": _aggregate("number", DOUBLE, "var_samp({0})", "double"),
    **{
        name: _aggregate("number", DOUBLE, f"{name}({{0}})", "double")
        for name in ("median", "stddev_samp", "stddev_pop", "var_samp", "var_pop")
    },
    **{name: _aggregate("condition", BOOL, f"{name}({{0}})") for name in ("bool_and", "bool_or")},
}

#: window functions, which need OVER with an order
WINDOWS: Mapping[str, Function] = {
    **{
        name: _both((), BIGINT, f"CAST({name}() {{over}} AS BIGINT)")
        for name in ("row_number", "rank", "dense_rank")
    },
    **{name: _both(("",), "same", f"{name}({{0}}) {{over}}") for name in ("lag", "lead")},
}

# ---- calls of functions, checked against the tables above

_NUMBERS = frozenset({"integer", "fraction"})


def call(
    name: str, args: Sequence[Expr], tree: exp.Expression, scope: Scope, *, distinct: bool = False
) -> Expr:
    """Bind the call of a function by its name.

    Raises PredicateError: the function does not exist, or the arguments do not fit.
    """
    if name in AGGREGATES:
        return _aggregate_call(name, args, tree, scope, distinct=distinct)
    if distinct:
        raise scope.text.fail(tree, f"DISTINCT is for aggregates, not for {name}:")
    if name in WINDOWS:
        found = apply(name, WINDOWS[name], args, tree, scope)
        return Expr("window function", found.args, found.kind, name)
    if name not in FUNCTIONS:
        close = difflib.get_close_matches(name, [*FUNCTIONS, *AGGREGATES, *WINDOWS], 3, 0.6)
        hint = f"Did you mean {' or '.join(close)}?" if close else ""
        if name in OF_FILTERS:
            hint = (
                f"Filters and new columns have it: `ds.to_table(columns={{'x': '{name}(...)'}})`."
            )
        message = f"there is no function {name!r} with the same meaning on all engines:"
        raise scope.text.fail(tree, message, hint, function=name)
    if name == "round" and args and family(args[0].kind) == "integer":
        return _rounded(args, tree, scope)
    return apply(name, FUNCTIONS[name], args, tree, scope)


def _rounded(args: Sequence[Expr], tree: exp.Expression, scope: Scope) -> Expr:
    """Bind ``round`` of an integer: exact, and halves are rounded away from zero."""
    apply("round", replace(FUNCTIONS["round"], literal={1: range(-18, 16)}), args, tree, scope)
    digits = int(args[1].value) if len(args) > 1 else 0
    if digits >= 0:
        return args[0]  # an integer is round already

    def operate(name: str, *sides: Expr) -> Expr:
        return apply(name, OPERATORS[name], sides, tree, scope)

    two, step, half = (Expr("literal", (), BIGINT, n) for n in (2, 10**-digits, 10**-digits // 2))
    halves = operate("div", args[0], half)  # an odd half rounds away from zero
    return operate("*", operate("div", operate("+", halves, operate("%", halves, two)), two), step)


def apply(
    name: str, function: Function, args: Sequence[Expr], tree: exp.Expression, scope: Scope
) -> Expr:
    """Bind a function or an operator to its arguments, after type checks and coercion."""
    takes = function.takes
    repeats = "same" in takes[-1:] or name in ("concat", "concat_ws")
    most = 1000 if repeats else len(takes)
    if not function.fewest <= len(args) <= most:
        many = f"{function.fewest}" + ("" if most == function.fewest else f" to {most}")
        raise scope.text.fail(tree, f"{name} takes {many} arguments, not {len(args)}:")
    wanted = [takes[min(at, len(takes) - 1)] for at in range(len(args))]
    for at, arg in enumerate(args):
        _check(name, wanted[at], arg, scope)
        allowed = (function.literal or {}).get(at)
        known = is_constant(arg) and type(arg.value) is int
        if allowed is not None and not (known and arg.value in allowed):
            ends = f"from {allowed[0]} to {allowed[-1]:,}"
            message = f"argument {at + 1} of {name} must be a constant integer {ends}:"
            raise scope.text.fail(arg, message)
    given, same = list(args), [at for at, one in enumerate(wanted) if one == "same"]
    coerced = coerce([args[at] for at in same], name, tree, scope) if same else []
    for at, arg in zip(same, coerced, strict=True):
        given[at] = arg
    if same and function.kind == BOOL and family(coerced[0].kind) == "other":
        raise scope.text.fail(tree, f"{name} cannot compare {coerced[0].kind}:")
    given = [_wide(function.wide, arg, given) for arg in given]
    kind = function.kind
    if isinstance(kind, str):
        kind = given[-1 if "same" in takes else 0].kind
    return Expr(name, tuple(given), kind)


def _check(name: str, wanted: str, arg: Expr, scope: Scope) -> None:
    if wanted in ("", "same") or family(arg.kind) == "null":
        return
    families = _NUMBERS if wanted == "number" else frozenset(wanted.split("|"))
    if family(arg.kind) in families:
        return
    hint = ""
    if family(arg.kind) == "decimal" and "number" in wanted:
        hint = "Engines round decimals differently: write CAST(... AS DOUBLE)."
    if family(arg.kind) == "instant" and "timestamp" in families:
        scan = """ds.to_table(columns={"hour": "date_trunc('hour', at)"})"""
        hint = f"Scans know time zones: pass the rows of one as the table, such as {scan}."
    shown = wanted.replace("|", ", ")
    raise scope.text.fail(arg, f"{name} takes {shown}, but this is {arg.kind}:", hint)


def _wide(wide: str, arg: Expr, args: Sequence[Expr]) -> Expr:
    if not wide or (family(arg.kind) not in {*_NUMBERS, "null"}):
        return arg
    fractions = wide == "double" or any(family(one.kind) == "fraction" for one in args)
    return widened(arg, DOUBLE if fractions else BIGINT)


def _aggregate_call(
    name: str, args: Sequence[Expr], tree: exp.Expression, scope: Scope, *, distinct: bool
) -> Expr:
    function = AGGREGATES[name]
    if not scope.aggregates:
        raise scope.text.fail(tree, f"{name} is an aggregate, which cannot be used here:")
    if name == "count" and not args:
        return Expr("aggregate", (), BIGINT, (name, False, False))
    if distinct and "{d}" not in function.local:
        distinct = name not in ("min", "max", "bool_and", "bool_or")
        if distinct:
            raise scope.text.fail(tree, f"DISTINCT is not supported for {name}:")
    if distinct and args and family(args[0].kind) == "other":
        raise scope.text.fail(tree, f"DISTINCT cannot compare {args[0].kind}:")
    exact = name == "sum" and args and family(args[0].kind) == "decimal"
    if exact and len(args) == 1:
        kind = decimal_of(args[0].kind)
        return Expr("aggregate", (args[0],), kind, (name, distinct, False))
    found = apply(name, function, args, tree, scope)
    return Expr("aggregate", found.args, found.kind, (name, distinct, False))
