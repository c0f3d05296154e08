import pickle

import pyarrow as pa
import pytest

from lancekit._scan.expressions.condition import parse_condition
from lancekit.errors import InvalidTypeError, PredicateError

SCHEMA = pa.schema(
    {
        "x": pa.int64(),
        "y": pa.float64(),
        "s": pa.string(),
        "count": pa.int8(),
        "a`(b": pa.int8(),
        "p": pa.struct({"q": pa.int32(), "r.t": pa.string()}),
        "l": pa.list_(pa.int8()),
    }
)


@pytest.mark.parametrize(
    "text",
    [
        "x >= -120",
        "x > 0 -- of all",
        "x > 0 /* of all */ AND s <> 'count(*)'",
        "s = 'sum(x) > (' OR `a``(b` = 1",
        "count > 3",
        "`count` > 3 AND (x) > 1",
        "p.q > 1",
        "x IN (" + ", ".join(map(str, range(5000))) + ")",
    ],
    ids=lambda text: text[:20],
)
def test_conditions_of_rows(text: str) -> None:
    condition = parse_condition(text, SCHEMA)
    assert condition.of_rows
    assert condition.text == text
    assert pickle.loads(pickle.dumps(condition)) == condition


@pytest.mark.parametrize(
    ("text", "aggregates", "columns"),
    [
        ("count(*) > 3", ["count(*)"], ""),
        ("COUNT ( * ) > 3 and count(*) < 9", ["COUNT ( * )", "count(*)"], ""),
        ("count(*) = count(*)", ["count(*)"], ""),
        ("count(DISTINCT x) = count(*)", ["count(DISTINCT x)", "count(*)"], "x"),
        ("count(distinct x, coalesce(s, ',')) > 1", ["count(distinct x, coalesce(s, ','))"], "s x"),
        (
            "sum(x + count) / count(*) > avg(y)",
            ["sum(x + count)", "count(*)", "avg(y)"],
            "count x y",
        ),
        ("max(length(s)) <= 3 -- all", ["max(length(s))"], "s"),
        (
            "count(*) FILTER (WHERE s = ')' AND (x > 1)) <= 0.1 * count(*)",
            ["count(*) FILTER (WHERE s = ')' AND (x > 1))", "count(*)"],
            "s x",
        ),
        ("min(`a``(b`) > 1", ["min(`a``(b`)"], "a`(b"),
        ("max(p.q) > 1", ["max(p.q)"], "p.q"),
        ("count(/* any */ * -- row\n) > 1", ["count(/* any */ * -- row\n)"], ""),
        ("coalesce(max(x), 0) < 7 AND NOT min(s) IN ('sum(x)')", ["max(x)", "min(s)"], "s x"),
    ],
)
def test_conditions_of_tables(text: str, aggregates: list[str], columns: str) -> None:
    condition = parse_condition(text, SCHEMA)
    assert not condition.of_rows
    assert [one.text for one in condition.aggregates] == aggregates
    assert condition.columns == set(columns.split())
    assert pickle.loads(pickle.dumps(condition)) == condition


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "empty"),
        ("x", "not true or false"),
        ("1 = 1", "uses no column"),
        ("_rowid > 3", "_rowid"),
        ("max(_rowid) > 3", "_rowid"),
        ("z > 3", "no column 'z'"),
        ("count(z) > 3", "no column 'z'"),
        ("count(*) > x", "'x' must be inside an aggregate"),
        ("count(*) > z", "no column 'z'"),
        ("count(*)", "not true or false"),
        ("count() > 1", "count takes one argument"),
        ("count(x, y) > 1", "count takes one argument"),
        ("sum(*) > 1", "not part of the filter language"),
        ("sum(DISTINCT x) > 1", "DISTINCT is only for count"),
        ("count(DISTINCT *) > 1", "not part of the filter language"),
        ("count(DISTINCT l) > 1", r"count\(DISTINCT\) does not support list"),
        ("sum(s) > 1", "sum does not support string"),
        ("min(p) > 1", "min does not support struct"),
        ("sum(max(x)) > 1", "an aggregate cannot be inside another"),
        ("count(*) FILTER (WHERE max(x) > 1) > 1", "an aggregate cannot be inside another"),
        ("count(* > 1", "does not parse"),
        ("count(*) FILTER (WHERE x > 1", "something is missing after '1'"),
        ("count(*) FILTER (WHERE ) > 1", "something is missing after 'WHERE'"),
        ("count(*) FILTER (x > 1) > 1", "does not parse|not one expression|not part of"),
        ("count(*) OVER () > 1", "does not parse|not one expression|not part of|not supported"),
        ("median(x) > 1", "no function 'median'"),
        ("count('x) > 1", "is not closed"),
        ("x > 1) OR (x < 1", "does not parse|not one expression"),
        ("x > (SELECT 1)", "."),
        ("count(*) > (SELECT count(*) FROM other)", "."),
        ("read_csv('/etc/passwd') > 1", "no function"),
        ("(" * 2000 + "x > 1" + ")" * 2000, "too deeply"),
        ("sum(" + "(" * 2000 + "x" + ")" * 2000 + ") > 1", "too deeply"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_condition(text: str, what: str) -> None:
    with pytest.raises(PredicateError, match=what):
        parse_condition(text, SCHEMA)


def test_a_condition_is_text() -> None:
    with pytest.raises(InvalidTypeError, match="A condition must be SQL text, got 3"):
        parse_condition(3, SCHEMA)  # type: ignore[arg-type]
