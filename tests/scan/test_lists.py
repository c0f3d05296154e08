"""Long lists, and chains of comparisons, are what they would be if each literal were parsed."""

from __future__ import annotations

from random import Random

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import PredicateError
from lancekit.scan import _lists, _sql
from lancekit.scan._row_points import row_points
from lancekit.scan.predicate import _LONG_TEXTS, _SHORT_TEXTS, Predicate
from tests.scan.filter_random import random_rows

ROWS = random_rows(Random(5), 200)
COLUMNS = (
    "i",
    "k",
    "h",
    "u",
    "v",
    "f",
    "g",
    "q",
    "s",
    "t",
    "d",
    "m",
    "r.x",
    "r.y",
    "coalesce(i, k)",
)
WHOLE = [*map(str, range(-4, 5)), "300", "99999999999999999999", "NULL", "null"]
FRACTIONS = ["0.5", "-1.5", "2.0", "0.10", "1.10"]
WORDS = ["'a'", "'ab'", "'it''s'", "'b%'", "''", "'OR i = 1'", "'2020-01-01'", "'é'", "'12'"]


def literals(random: Random, count: int) -> list[str]:
    kind = random.choice(
        [WHOLE, WHOLE[:9], WORDS, WORDS, FRACTIONS, WHOLE + FRACTIONS, WHOLE + WORDS]
    )
    return [random.choice(kind) for _ in range(count)]


def condition(random: Random) -> str:
    column, some = random.choice(COLUMNS), literals(random, random.randint(1, 6))
    equal, unequal = random.choice(["=", "==", "  = "]), random.choice(["<>", "!="])
    forms = [
        f"{column} IN ({', '.join(some)})",
        f"{column} not in ({' ,'.join(some)})",
        " OR ".join(f"{column} {equal} {x}" for x in some),
        " and ".join(f"{column} {unequal} {x}" for x in some),
        f"NOT ({' OR '.join(f'{column} = {x}' for x in some)})",
        f"{some[0]} IN ({', '.join(some)})",
    ]
    one = random.choice(forms)
    around = ["{0}", "({0})", "b AND {0}", "{0} AND b", "b OR {0} OR c", "NOT {0}", "({0}) AND c"]
    around += ["i BETWEEN 1 AND {0}", "{0} + 1 = 2", "1 + {0}", "{0} IS NULL", "({0}) IS NULL"]
    around += ["-- i = 1 OR i = 2\n{0}", "{0} -- {0}", "/* {0} */ {0}", "coalesce({0}, b)"]
    return random.choice(around).format(one)


def answer(sql: str) -> object:
    for cache in (_sql.parse, _SHORT_TEXTS, _LONG_TEXTS):
        cache.cache_clear()
    try:
        return np.flatnonzero(Predicate.parse(sql, ROWS.schema).mask(ROWS)).tolist()
    except PredicateError as error:
        return error.context.get("position")


@pytest.mark.torture
def test_lifted_or_parsed_it_is_the_same(monkeypatch, whole):
    random, found = Random(11), 0
    for _ in range(20_000 if whole else 700):
        sql = condition(random)
        monkeypatch.setattr(_lists, "_FEW", 1)
        lifted = bool(_lists.lift(sql)[1])
        mine = answer(sql)
        monkeypatch.setattr(_lists, "_FEW", 10**9)
        parsed = answer(sql)
        if isinstance(mine, int) and isinstance(parsed, int):
            continue  # both refuse: which of two mistakes is told first may differ
        assert mine == parsed, sql
        found += lifted
    assert found > 200


@pytest.mark.parametrize("count", [3, 40])
def test_lists_select_the_references_rows(count):
    random = Random(count)
    dataset = lance.write_dataset(ROWS, "memory://rows")
    for column, kind in [("i", WHOLE[:9]), ("h", WHOLE[:9]), ("f", FRACTIONS), ("s", WORDS)]:
        some = [random.choice(kind) for _ in range(count)]
        for sql in (
            f"{column} IN ({', '.join(some)})",
            f"{column} NOT IN ({', '.join(some)})",
            f"{column} NOT IN ({', '.join(some)}, NULL)",
            f"{column} IN ({', '.join(some)}, NULL) IS NULL",
            " OR ".join(f"{column} = {x}" for x in some),
            "b AND " + " OR ".join(f"{column} = {x}" for x in some) + " AND c",
            " AND ".join(f"{column} <> {x}" for x in some),
        ):
            expected = dataset.to_table(columns=["n"], filter=sql)["n"].to_pylist()
            assert answer(sql) == expected, sql


NUMBERS = ", ".join(map(str, range(100)))


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        (f"b AND i IN ({NUMBERS}, 1.5, 7)", "1.5"),
        (f"b AND h IN ({NUMBERS}, 300, 7)", "300"),
        (f"b AND i IN ({NUMBERS}, 'x', 7)", "'x'"),
        (f"b AND i IN ({NUMBERS}, 7) AND nosuch = 1", "nosuch"),
        (f"b AND i IN ({NUMBERS}, 7) foo", "foo"),
        ("b AND i = 0 OR " + " OR ".join(f"i = {n}" for n in range(50)) + " OR i = 1.5", "1.5"),
        (" AND ".join(f"i <> {n}" for n in range(50)) + " AND i <> 1.5", "1.5"),
        (f"s IN ({NUMBERS})", "0"),
    ],
)
def test_a_mistake_in_a_list_is_pointed_at(sql, place):
    assert answer(sql) == (sql.index(place) if place == "0" else sql.rindex(place))


def test_how_many_there_are_does_not_matter():
    """Thousands are one look-up, not a tree of thousands of nodes."""
    for sql in (
        "i IN (" + ", ".join(map(str, range(2, 60_000))) + ")",
        "s IN (" + ", ".join(f"'a{n}'" for n in range(60_000)) + ", 'a')",
        " OR ".join(f"i = {n}" for n in range(2, 60_000)),
        " AND ".join(f"s <> 'a{n}'" for n in range(60_000)),
        "NOT (k IN (" + ", ".join(map(str, range(60_000))) + "))",
    ):
        nodes = sum(1 for _ in _sql.parse(sql).walk())
        assert nodes < 10
        assert isinstance(answer(sql), list)


def test_row_ids_in_lists(tmp_path):
    numbers = list(range(0, 9000, 3))
    listed = "_rowid IN (" + ", ".join(map(str, numbers)) + ")"
    chained = " OR ".join(f"_rowid = {n}" for n in numbers)
    mixed = " OR ".join(f"(_rowid = {n} AND i > {n % 5})" for n in numbers)
    for sql in (listed, chained, mixed, f"i > 1 AND ({chained})"):
        assert row_points(sql, "_rowid") == frozenset(numbers)
    assert row_points(listed + " OR i = 1", "_rowid") is None
    assert row_points("_rowid IN (" + ", ".join(["-1"] * 20) + ")", "_rowid") is None
    ds = lk.write_dataset(pa.table({"i": range(10_000)}), tmp_path / "rows")
    assert ds.to_table(filter=chained)["i"].to_pylist() == numbers
    ds.delete(listed)
    assert ds.count_rows() == 10_000 - len(numbers)
