"""Expressions as objects mean what their SQL text means, wherever text is accepted."""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import lancekit as lk
from lancekit._scan.expressions.parser import parse
from lancekit._scan.expressions.predicate import Predicate, compile_expression
from lancekit.errors import InvalidArgumentError, InvalidTypeError, PredicateError
from tests.scan.test_syntax_text import shape

col, D = lk.col, Decimal
ROWS = pa.table(
    {
        "x": pa.array([1, 60, 61, None, -7]),
        "y": pa.array([5, 60, None, 4, 3]),
        "f": [0.5, 60.5, float("nan"), None, -1.25],
        "name": ["ann", "Bob", None, "b%b", " a "],
        "day": pa.array([dt.date(2026, month, 7) for month in (1, 2, 3, 4, 5)]),
        "at": pa.array([dt.datetime(2026, 1, 2, hour) for hour in range(5)], pa.timestamp("us")),
        "s": pa.array([{"a": n, "b.c": n % 2} for n in range(5)]),
        "tags": pa.array([["a"], ["a", "b"], [], None, ["b"]]),
        'größe, "x"': [1, 2, 3, 4, 5],
    }
)


# ---- random conditions: as objects, as text, and as Python functions of a row

Condition = tuple[Any, str, Any]
NUMBERS: dict[str, Any] = {"x": lambda row: row["x"], "y": lambda row: row["y"]}
OPERATORS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _null(function: Any, *values: Any) -> Any:
    return None if None in values else function(*values)


@st.composite
def numbers(draw: Any) -> Condition:
    name = draw(st.sampled_from(["x", "y"]))
    if draw(st.booleans()):
        return col(name), f"`{name}`", NUMBERS[name]
    sign, add = draw(st.sampled_from([("+", operator.add), ("-", operator.sub)]))
    count = draw(st.integers(0, 9))
    made = add(col(name), count)
    return made, f"(`{name}` {sign} {count})", lambda row: _null(add, row[name], count)


@st.composite
def comparisons(draw: Any) -> Condition:
    left, sql, of = draw(numbers())
    match draw(st.sampled_from(["compare", "null", "in", "between"])):
        case "null":
            return left.is_null(), f"{sql} IS NULL", lambda row: of(row) is None
        case "in":
            found = draw(st.lists(st.integers(-9, 70), min_size=1, max_size=4))
            text = ", ".join(map(str, found))
            return (
                left.is_in(found),
                f"{sql} IN ({text})",
                lambda row: _null(found.__contains__, of(row)),
            )
        case "between":
            low, high = draw(st.integers(-9, 9)), draw(st.integers(0, 70))
            between = lambda row: _null(lambda one: low <= one <= high, of(row))  # noqa: E731
            return left.between(low, high), f"{sql} BETWEEN {low} AND {high}", between
    mark = draw(st.sampled_from(list(OPERATORS)))
    right, other, of_other = draw(numbers())
    compare = OPERATORS[mark]
    model = lambda row: _null(compare, of(row), of_other(row))  # noqa: E731
    return compare(left, right), f"{sql} {mark} {other}", model


def _and(left: Any, right: Any) -> Any:
    return False if False in (left, right) else _null(lambda *_: True, left, right)


def _or(left: Any, right: Any) -> Any:
    return True if True in (left, right) else _null(lambda *_: False, left, right)


def _joined(children: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    def both(pair: tuple[Condition, Condition]) -> Condition:
        (a, sql, of), (b, other, of_other) = pair
        return a & b, f"(({sql}) AND ({other}))", lambda row: _and(of(row), of_other(row))

    def one(pair: tuple[Condition, Condition]) -> Condition:
        (a, sql, of), (b, other, of_other) = pair
        return a | b, f"(({sql}) OR ({other}))", lambda row: _or(of(row), of_other(row))

    def neither(child: Condition) -> Condition:
        a, sql, of = child
        return ~a, f"(NOT ({sql}))", lambda row: _null(operator.not_, of(row))

    pairs = st.tuples(children, children)
    return st.one_of(pairs.map(both), pairs.map(one), children.map(neither))


@given(st.recursive(comparisons(), _joined, max_leaves=8))
def test_random_conditions_find_the_rows_of_their_text(condition: Condition) -> None:
    made, text, model = condition
    found = Predicate.parse(made.sql, ROWS.schema).mask(ROWS).to_pylist()
    assert found == Predicate.parse(text, ROWS.schema).mask(ROWS).to_pylist()
    assert found == [model(row) is True for row in ROWS.to_pylist()]
    assert shape(parse(str(made))) == shape(made.sql.tree)


# ---- each operator and method, with its text

SAME: list[tuple[Any, str]] = [
    (col("x") > 60, "x > 60"),
    (col("x") > 60, "x > 60"),
    (col("x") == 60.0, "x = 60"),
    (np.int64(60) <= col("x"), "x >= 60"),
    (pd.Timestamp("2026-01-02 02:00") < col("at"), "at > TIMESTAMP '2026-01-02 02:00:00'"),
    (col("day") >= "2026-03-07", "day >= '2026-03-07'"),
    (col("x") != 60, "x <> 60"),
    ((col("x") > 0) & True, "x > 0 AND TRUE"),
    (False | (col("x") > 0), "FALSE OR x > 0"),
    (~(col("x") > 0), "NOT (x > 0)"),
    (col("x") + 1, "x + 1"),
    (1 + col("x"), "1 + x"),
    (col("x") - 1, "x - 1"),
    (1 - col("x"), "1 - x"),
    (col("x") * 2, "x * 2"),
    (2 * col("x"), "2 * x"),
    (col("x") / 2, "CAST(x AS double) / 2"),
    (100 / col("y"), "CAST(100 AS double) / y"),
    (1.5 / col("y"), "1.5 / y"),
    (col("x") / col("y") / 4, "CAST(x AS double) / y / 4"),
    (col("x").cast(float) / 2, "CAST(x AS double) / 2"),
    (2 ** col("y"), "power(2, y)"),
    (col("x") % 4, "x % 4"),
    (100 % col("y"), "100 % y"),
    (col("y") ** 2, "power(y, 2)"),
    (-col("x"), "-x"),
    (abs(col("x")), "abs(x)"),
    (round(col("f")), "round(f)"),
    (round(col("f"), 1), "round(f, 1)"),
    (col("f").ceil(), "ceil(f)"),
    (col("f").floor(), "floor(f)"),
    (col("y").sqrt(), "sqrt(y)"),
    (col("f").exp(), "exp(f)"),
    (col("y").log(), "ln(y)"),
    (col("f").is_nan(), "isnan(f)"),
    (col("f").fill_nan(0), "nanvl(f, 0)"),
    (col("x").fill_null(0), "coalesce(x, 0)"),
    (col("x").is_null(), "x IS NULL"),
    (col("x").is_not_null(), "x IS NOT NULL"),
    (col("x").is_in([]), "FALSE"),
    (col("x").is_in(np.array([1, 61])), "x IN (1, 61)"),
    (col("x").is_in(pd.Series([1, 61])), "x IN (1, 61)"),
    (col("x").is_in(pa.array([1, 61])), "x IN (1, 61)"),
    (col("x").is_in({1, None}), "x IN (1, NULL)"),
    (col("x").is_in(range(60, 62)), "x IN (60, 61)"),
    (col("x").is_in([col("y"), 1]), "x IN (y, 1)"),
    (col("day").is_in([dt.date(2026, 1, 7)]), "day IN ('2026-01-07')"),
    (col("x").between(1, 60), "x BETWEEN 1 AND 60"),
    (col("x").eq_missing(col("y")), "x IS NOT DISTINCT FROM y"),
    (col("x").eq_missing(None), "x IS NULL"),
    (col("name").like("b%"), "name LIKE 'b%'"),
    (col("name").ilike("b%"), "name ILIKE 'b%'"),
    (col("name").rlike("^[ab]"), "regexp_like(name, '^[ab]')"),
    (col("name").contains("n"), "contains(name, 'n')"),
    (col("name").starts_with("a"), "starts_with(name, 'a')"),
    (col("name").ends_with("b"), "ends_with(name, 'b')"),
    (col("tags").array_contains("b"), "array_contains(tags, 'b')"),
    (col("name").lower(), "lower(name)"),
    (col("name").upper(), "upper(name)"),
    (col("name").trim(), "trim(name)"),
    (col("name").length(), "length(name)"),
    (col("name").replace("b", "c"), "replace(name, 'b', 'c')"),
    (col("name").concat("-", col("x")), "concat(name, '-', x)"),
    (col("day").year(), "date_part('year', day)"),
    (col("day").month(), "date_part('month', day)"),
    (col("day").day(), "date_part('day', day)"),
    (col("at").hour(), "date_part('hour', at)"),
    (col("x").cast("double"), "CAST(x AS double)"),
    (col("x").cast("decimal(9, 2)"), "CAST(x AS decimal(9, 2))"),
    (col("x").cast("float32"), "arrow_cast(x, 'Float32')"),
    (col("x").cast(pa.int8()), "arrow_cast(x, 'Int8')"),
    (col("x").cast(float), "CAST(x AS double)"),
    (
        col("at").cast(pa.timestamp("s", "UTC")),
        "arrow_cast(at, 'Timestamp(Second, Some(\"UTC\"))')",
    ),
    (col("s.a"), "s.a"),
    (col("s", "b.c"), "s.`b.c`"),
    (col("s.`b.c`"), "s.`b.c`"),
    (col("s")["a"] + 1, "s.a + 1"),
    (col('größe, "x"'), '`größe, "x"`'),
    (col("X"), "x"),
    ((col("x") + col("y")).alias("z"), "x + y"),
    (lk.lit("x"), "'x'"),
    (lk.lit(lk.col("x")), "x"),
]


@pytest.mark.parametrize(("made", "text"), SAME, ids=str)
def test_each_operator_and_method_has_a_text(made: lk.Expression, text: str) -> None:
    found = compile_expression(made.sql, ROWS.schema)
    expected = compile_expression(text, ROWS.schema)
    assert found.type == expected.type
    assert found.columns == expected.columns
    again = compile_expression(str(made), ROWS.schema).evaluate(ROWS)
    for values in (found.evaluate(ROWS), again):
        assert repr(values.to_pylist()) == repr(expected.evaluate(ROWS).to_pylist())


def test_quotients_are_doubles() -> None:
    rows = pa.table({"minute": pa.array([90, -30, None], pa.int8())})
    for made, expected in [
        (col("minute") / 60, [1.5, -0.5, None]),
        (45 / col("minute"), [0.5, -1.5, None]),
        (np.int64(45) / col("minute"), [0.5, -1.5, None]),
    ]:
        assert compile_expression(made.sql, rows.schema).evaluate(rows).to_pylist() == expected
        assert str(made).startswith("CAST(")


def test_names_of_pyspark_and_polars() -> None:
    x, name = col("x"), col("name")
    for one, other in [
        (x.isin([1]), x.is_in([1])),
        (x.isNull(), x.is_null()),
        (x.isNotNull(), x.is_not_null()),
        (x.is_between(1, 2), x.between(1, 2)),
        (x.eqNullSafe(1), x.eq_missing(1)),
        (x.astype("int"), x.cast("int")),
        (name.startswith("a"), name.starts_with("a")),
        (name.endswith("a"), name.ends_with("a")),
        (col("f").isNaN(), col("f").is_nan()),
        (col("s").getField("a"), col("s.a")),
    ]:
        assert str(one) == str(other)


def test_a_long_chain_and_a_long_list() -> None:
    made = col("x") == 0
    for number in range(1, 3000):
        made |= col("x") == number
    assert Predicate.parse(made.sql, ROWS.schema).mask(ROWS).to_pylist()[:3] == [True] * 3
    listed = col("x").is_in(range(100_000))
    assert Predicate.parse(listed.sql, ROWS.schema).mask(ROWS).to_pylist()[:3] == [True] * 3
    deep = col("x")
    for _ in range(100_000):
        deep = deep + 1
    with pytest.raises(InvalidArgumentError, match="nested too deeply"):
        str(deep)


# ---- words of Python, and mistakes

x = col("x")
WRONG: dict[str, tuple[Any, str]] = {
    "and": (lambda: x > 1 and x < 3, "Use & instead of `and`"),
    "or": (lambda: x > 1 or x < 3, "| instead of `or`"),
    "not": (lambda: not x > 1, "~ instead of `not`"),
    "if": (lambda: 1 if x > 1 else 2, "one for each row"),
    "chained": (lambda: 1 < x < 3, r"\.between\(low, high\)"),
    "in a list": (lambda: x in [1, 2], r"\.is_in\(\[\.\.\.\]\) instead of `in`"),
    "item in": (lambda: 3 in x, r"\.is_in"),
    "iteration": (lambda: list(x), "has no items"),
    "none": (lambda: x == None, r"\.is_null\(\)"),  # noqa: E711
    "list": (lambda: x == [1], r"\.is_in"),
    "array": (lambda: x == np.array([1, 2]), r"\.is_in"),
    "precedence": (lambda: (x > 60) & (x < 3) | 60, "parentheses"),
    "precedence, too": (lambda: 60 & (x < 3), "parentheses"),
    "text in is_in": (lambda: x.is_in("a"), r"\.is_in\(\['a'\]\)"),
    "type": (lambda: x.cast("nope"), "'double'"),
    "type, too": (lambda: x.cast("int) OR (true"), "cannot be cast"),
    "name": (lambda: col(5), "name of a column"),  # type: ignore[arg-type]
    "no name": (lambda: col(""), "name of a column"),
    "position": (lambda: x[0], "name of a column or field"),  # type: ignore[arg-type]
    "value": (lambda: x > object(), "no"),
    "floor": (lambda: x // 2, r"\(a / b\)\.floor\(\)"),
    "floor, reflected": (lambda: 2 // x, r"\(a / b\)\.floor\(\)"),
    "xor": (lambda: x ^ 2, r"a \*\* b for a power"),
    "plus": (lambda: +x, "unary \\+"),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_name_what_to_write(case: str) -> None:
    line, said = WRONG[case]
    with pytest.raises((InvalidTypeError, InvalidArgumentError), match=said):
        line()


def test_an_expression_is_no_key() -> None:
    with pytest.raises(TypeError, match="cannot be a key"):
        hash(x)


# ---- where expressions are used


@pytest.fixture
def ds(tmp_path: Path) -> lk.LanceDataset:
    return lk.write_dataset(ROWS, str(tmp_path / "d"))


def test_reads_take_them(ds: lk.LanceDataset) -> None:
    some = col("x") > 1
    assert ds.count_rows(some) == 2
    assert ds.to_pandas(filter=some)["x"].tolist() == [60, 61]
    assert ds.scanner(filter=some).count_rows() == 2
    assert ds.get_fragments()[0].count_rows(some) == 2
    assert lk.ScannerBuilder(ds).filter(some).to_scanner().count_rows() == 2
    assert "`x` > 1" in str(ds.explain.to_table(filter=some))
    double = {"y": [120, 122]}
    assert ds.to_table({"y": col("x") * 2}, filter=some).to_pydict() == double
    assert ds.to_table([(col("x") * 2).alias("y")], filter=some).to_pydict() == double
    names = ["x", col("y"), col("s.a"), col("s", "b.c"), (col("x") + 1).alias("z"), "_rowid"]
    assert ds.to_table(names).column_names == ["x", "y", "s.a", "s.`b.c`", "z", "_rowid"]
    assert ds.take([1], ["x", (col("x") + 1).alias("z")]).to_pylist() == [{"x": 60, "z": 61}]
    assert ds.take([1], {"z": col("x") + 1}).to_pylist() == [{"z": 61}]
    with pytest.raises(InvalidArgumentError, match=r"no name.*\.alias"):
        ds.to_table([col("x") + 1])
    with pytest.raises(InvalidArgumentError, match="called 'x'"):
        ds.to_table(["x", col("x")])
    with pytest.raises(PredicateError, match="there is no column 'nope'"):
        ds.count_rows(col("nope") > 1)


def test_changes_take_them(ds: lk.LanceDataset) -> None:
    assert ds.delete(col("x") == 61)["num_deleted_rows"] == 1
    assert ds.update({"x": col("x") + col("y"), "name": lk.lit("z")}, col("x") > 1)
    assert ds.to_table(["x", "name"], filter="x = 120").to_pylist() == [{"x": 120, "name": "z"}]
    ds.add_columns({"next": col("x") + 1, "one": 1, "price": D("1.10")})
    kinds = [pa.int64(), pa.int64(), pa.decimal128(3, 2)]
    assert [ds.schema.field(name).type for name in ("next", "one", "price")] == kinds
    ds.replace_columns({"one": 2})
    assert ds.to_table()["one"].to_pylist() == [2] * 4
    found = ds.bisect(col("one") < 2, good=ds.version - 1)
    assert found.version == ds.version
    assert ds.diff(1, filter=col("x") > 1).counts.inserted >= 0
    ds.constraints.add("positive", col("one") > 0)
    (rule,) = ds.constraints.list()
    assert rule.condition == "`one` > 0"
    with pytest.raises(lk.errors.ConstraintViolationError):
        ds.update({"one": -1})


def test_conditions_of_merges(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1, 2, 3], "rev": [5, 5, 5]}, str(tmp_path / "m"))
    newer = (lk.source("rev") > lk.target("rev")) & (lk.target("id") < 3)
    merge = ds.merge_insert("id").when_matched_update_all(newer)
    done = merge.execute({"id": [1, 2, 3], "rev": [6, 4, 9]})
    assert (done["num_updated_rows"], ds.to_table()["rev"].to_pylist()) == (1, [5, 5, 6])
    ds.merge_insert("id").when_not_matched_by_source_delete(col("rev") > 5).execute({"id": [2]})
    assert sorted(ds.to_table()["id"].to_pylist()) == [2, 3]
    merge = ds.merge_insert("id").when_not_matched_by_source_delete(lk.target("id") == 3)
    assert merge.execute({"id": [9]})["num_deleted_rows"] == 1
    merge = ds.merge_insert("id").when_matched_update_all(col("rev") > 0)
    with pytest.raises(PredicateError, match=r"lk\.source\('rev'\) or lk\.target\('rev'\)"):
        merge.execute({"id": [2], "rev": [7]})
    structs = lk.write_dataset({"id": [1, 2], "target": [{"id": 5}, {"id": 6}]}, "memory://target")
    merge = structs.merge_insert("id").when_not_matched_by_source_delete(col("target.id") == 5)
    assert merge.execute({"id": [9]})["num_deleted_rows"] == 1
    with pytest.raises(InvalidTypeError, match=r"lk\.source\('rev'\) > lk\.target\('rev'\)"):
        ds.merge_insert("id").when_matched_update_all(5)  # type: ignore[arg-type]


@pytest.mark.spark
def test_spark_takes_them(spark: SparkSession, ds: lk.LanceDataset) -> None:
    some = (col("x") > 1) & (col("at") > pd.Timestamp("2026-01-02"))
    frame = ds.to_spark(columns={"y": col("x") * 2}, filter=some)
    assert sorted(row.y for row in frame.collect()) == [120, 122]
    frame = ds.to_spark(columns=["x", (col("x") * 2).alias("y")], filter=some)
    assert sorted(row.y for row in frame.collect()) == [120, 122]
    with lk.options(engine="spark"):
        assert ds.count_rows(some) == 2
        assert ds.to_table(["x"], filter=some)["x"].to_pylist() == [60, 61]
        ds.update({"f": 0.1, "day": dt.date(2020, 1, 1)}, some)
        ds.add_columns({"more": col("x") + 1})
        newer = lk.source("x") > lk.target("y")
        ds.merge_insert("x").when_matched_update_all(newer).execute({"x": [60, 61], "y": [1, 2]})
        ds.delete(col("x") == 61)
    assert ds.to_table(["f", "more"], filter=col("day") == dt.date(2020, 1, 1)).to_pylist() == [
        {"f": 0.1, "more": 61}
    ]


# ---- new values that are no text


@pytest.mark.parametrize(
    ("column", "value", "stored"),
    [
        ("x", 7, 7),
        ("x", 7.0, 7),
        ("x", None, None),
        ("x", pd.NA, None),
        ("f", np.float32(0.5), 0.5),
        ("f", 3, 3.0),
        ("name", lk.lit("it's"), "it's"),
        ("at", lk.lit("2020-01-02 01:00:00"), dt.datetime(2020, 1, 2, 1)),
        ("at", lk.lit("2020-01-02T01:00:00.50"), dt.datetime(2020, 1, 2, 1, 0, 0, 500_000)),
        ("day", lk.lit("2020-01-02"), dt.date(2020, 1, 2)),
        ("day", dt.date(2020, 1, 2), dt.date(2020, 1, 2)),
        ("day", pd.Timestamp("2020-01-02"), dt.date(2020, 1, 2)),
        ("at", dt.date(2020, 1, 2), dt.datetime(2020, 1, 2)),
        ("at", pd.NaT, None),
        ("tags", lk.lit(["q"]), ["q"]),
    ],
)
def test_constants_as_new_values(
    ds: lk.LanceDataset, column: str, value: object, stored: object
) -> None:
    ds.update({column: value})
    assert ds.to_table()[column].to_pylist() == [stored] * 5


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("x", 0.5),
        ("x", D("0.5")),
        ("day", pd.Timestamp("2020-01-02 05:00")),
        ("day", lk.lit("2020-01-02 05:00:00")),
        ("at", lk.lit("2020-01-02 05:00:00.123456789")),
        ("f", (1 << 53) + 1),
    ],
)
def test_constants_are_not_rounded(ds: lk.LanceDataset, column: str, value: object) -> None:
    with pytest.raises(PredicateError, match=f"would become .* in column '{column}'"):
        ds.update({column: value})
    assert ds.version == 1


KINDS = pa.table(
    {
        "number": [1],
        "double": [0.5],
        "price": [D("1.10")],
        "text": ["a"],
        "word": pa.array(["a"]).dictionary_encode(),
        "data": [b"a"],
        "flag": [True],
        "day": [dt.date(2020, 1, 1)],
        "at": [dt.datetime(2020, 1, 1)],
        "hour": [dt.time(1)],
        "span": pa.array([dt.timedelta(1)]),
    }
)
GIVEN = [5, 0.5, D("1.10"), lk.lit("a"), b"a", True, dt.date(2020, 1, 1)]
GIVEN += [dt.datetime(2020, 1, 1), dt.time(1), dt.timedelta(1)]
FITS = {
    "number": (int,),
    "double": (int, float, D),
    "price": (int, float, D),
    "text": (lk.Expression,),
    "word": (lk.Expression,),
    "data": (bytes,),
    "flag": (bool,),
    "day": (dt.date,),
    "at": (dt.date,),
    "hour": (dt.time,),
    "span": (dt.timedelta,),
}


@pytest.mark.parametrize("column", KINDS.column_names)
@pytest.mark.parametrize("value", GIVEN, ids=lambda value: type(value).__name__)
def test_constants_of_another_kind_are_refused(column: str, value: object) -> None:
    if isinstance(value, FITS[column]) and isinstance(value, bool) <= (column == "flag"):
        return
    ds = lk.write_dataset(KINDS, f"memory://kinds-{column}")
    for call in (ds.update, ds.replace_columns):
        with pytest.raises(PredicateError, match=f"column '{column}' of type"):
            call({column: value})
    assert ds.version == 1
    ds.update({column: None})


def test_a_zone_is_not_dropped(ds: lk.LanceDataset) -> None:
    moment = dt.datetime(2020, 1, 2, 1, tzinfo=dt.UTC)
    for value in (moment, lk.lit("2020-01-02 01:00:00+02:00")):
        with pytest.raises(PredicateError, match=r"time zone, which column 'at'.*tzinfo=None"):
            ds.update({"at": value})
    rows = pa.table({"at": pa.array([moment], pa.timestamp("us", "Europe/Berlin"))})
    zoned = lk.write_dataset(rows, "memory://zone-of-a-value")
    zoned.update({"at": lk.lit("2020-01-02 03:00:00")})
    assert zoned.to_table()["at"][0].as_py() == moment + dt.timedelta(hours=1)


@pytest.mark.parametrize(
    ("column", "text"), [("day", "2024-06-30"), ("at", "2024-06-30"), ("name", "555-1234")]
)
def test_a_date_without_quotes_is_no_difference(
    ds: lk.LanceDataset, column: str, text: str
) -> None:
    with pytest.raises(
        PredicateError, match=rf"\{{'{column}': \"'{text}'\"\}}.*lk\.lit\('{text}'\)"
    ):
        ds.update({column: text})
    ds.update({"name": "1", "x": "7 - 5"})
    assert ds.take([0], ["name", "x"]).to_pylist() == [{"name": "1", "x": 2}]


def test_mistakes_in_new_values(ds: lk.LanceDataset) -> None:
    for call in (ds.update, ds.replace_columns, ds.add_columns):
        with pytest.raises(PredicateError, match=r"\"'closed'\".*lk\.lit\('closed'\)"):
            call({"name" if call != ds.add_columns else "note": "closed"})
    with pytest.raises(PredicateError, match=r"\"'on hold'\""):
        ds.update({"name": "on hold"})
    with pytest.raises(PredicateError, match=r"Did you mean `name`\?.*\"'nam'\""):
        ds.update({"name": "nam"})
    for wrong in ("name", {5: 1}, [("name", 1)]):
        with pytest.raises(InvalidTypeError, match=r"ds\.update\(\{'\w+': '0'\}\)"):
            ds.update(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="column 'x' must be SQL text"):
        ds.update({"x": object()})
    with pytest.raises(InvalidTypeError, match=r"pa\.field\('note'"):
        ds.add_columns({"note": None})


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (np.sqrt, "sqrt(`x`)"),
        (np.isnan, "isnan(`x`)"),
        (lambda x: np.add(1, x), "1 + `x`"),
        (lambda x: np.int64(3) < x, "`x` > 3"),
        (lambda x: np.float32(0.5) * x, "0.5 * `x`"),
        (lambda x: x >= np.int8(3), "`x` >= 3"),
        (lambda x: x.isin(1, 2), "`x` IN (1, 2)"),
        (lambda x: x.cast(np.float32), "arrow_cast(`x`, 'Float32')"),
        (lambda x: x.cast(np.dtype("int8")), "arrow_cast(`x`, 'Int8')"),
        (lambda x: x.cast(pl.Int16), "arrow_cast(`x`, 'Int16')"),
        (lambda x: x.cast(pl.Datetime("us")), "arrow_cast(`x`, 'Timestamp(Microsecond, None)')"),
    ],
)
def test_functions_and_types_of_other_libraries(made: Callable[[Any], object], text: str) -> None:
    assert str(made(lk.col("x"))) == text


@pytest.mark.parametrize("made", [np.sin, len, lambda x: x > pl.col("y")])
def test_what_expressions_do_not_have_is_answered(made: Callable[[Any], object]) -> None:
    with pytest.raises(InvalidTypeError) as seen:
        made(lk.col("x"))
    assert seen.value.hint
