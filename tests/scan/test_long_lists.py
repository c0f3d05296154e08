"""Long lists, and chains of comparisons, are what they would be if each literal were parsed."""

from __future__ import annotations

import re
from random import Random

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._scan.expressions import bind as _members
from lancekit._scan.expressions import lexer as _chains
from lancekit._scan.expressions import lexer as _lexer
from lancekit._scan.expressions import parser as _parser
from lancekit._scan.expressions.predicate import _LONG_TEXTS, _SHORT_TEXTS, Predicate
from lancekit._scan.expressions.syntax import Listed
from lancekit.errors import PredicateError
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


#: members of lists, with what differs between them in braces
CONSTANTS = (
    *("DATE '{day}'", "date '{day}'", "TIMESTAMP '{day} {time}'", "TIMESTAMP '{day}'"),
    *(
        "TIMESTAMP '{day}T{time}Z'",
        "TIMESTAMP(3) '{day} {time}'",
        "TIMESTAMP '{day} {time}.123456'",
    ),
    *(
        "CAST('{n}' AS BIGINT)",
        "CAST({n} AS SMALLINT)",
        "CAST({n} AS TINYINT)",
        "TRY_CAST({n} AS TINYINT)",
    ),
    *(
        "CAST('{w}' AS INT)",
        "TRY_CAST('{w}' AS INT)",
        "CAST('{f}' AS DOUBLE)",
        "CAST({f} AS DECIMAL(10, 2))",
    ),
    *("CAST('{day}' AS DATE)", "CAST({n} AS DECIMAL({p}, 2))", "CAST('{nan}' AS DOUBLE)"),
    *("{n} + 2", "{n} + {n}", "-{n}", "- {n}", "-{f}", "({n})", "{n} * 1.5", "{f} + 1", "10 / {n}"),
    *("X'6{p}'", "X'6{p}6'", "'{w}'", "{n}", "{f}", "lower('{w}')", "'{w}' || 'b'", "abs({n})"),
    *("9223372036854775807 + {n}", "{n}00000000000000000000", "NULL", "TRUE", "i + {n}", "k"),
    *("'{w}' = 'a'", "{n} = {n}", "coalesce(NULL, {n})", "arrow_cast({n}, 'Int{bits}')"),
    *("regexp_like('a', '{w}')", "make_array({n})", "nullif({n}, {n})", '"{w}"', "X'6'", "{n}e1"),
    *("DATE '{day}' + {n}", "TIMESTAMP '{day} {time}' - TIMESTAMP '{day} 00:00:00'"),
)
#: members of chains
TERMS = (
    *("{c} = {x}", "{x} = {c}", "{c} <> {x}", "{c} != {x}", "{c} < {x}", "{x} >= {c}"),
    *("{c} IS NOT DISTINCT FROM {x}", "{c} IS DISTINCT FROM {x}", "{c} IN ({x}, {x})"),
    *("{c} NOT IN ({x}, {x})", "{c} IN ({x}, NULL)", "{c} BETWEEN {x} AND {x}", "NOT {c} = {x}"),
    *(
        "{c} NOT BETWEEN {x} AND {x}",
        "s LIKE '{w}%'",
        "s NOT LIKE '%{w}' ESCAPE '{w}'",
        "NOT ({c} = {x})",
    ),
    *("({c} = {x} AND s = '{w}')", "{c} = {x} AND b", "({c} = {x})", "{c} = {x} IS NULL", "b", "c"),
    *("{c} + {n} = {x}", "r.x = {n}", "r['x'] = {n}", "regexp_like(s, '{w}')", "10 / i = {n}"),
    *(
        "CAST(i AS SMALLINT) = {n}",
        "CAST(i AS STRING) = '{n}'",
        "CAST(k AS DECIMAL(20, 2)) IN ({n}, {f})",
    ),
    *("({c} = {x} OR k = {n})", "substr(s, {p}, 1) = '{w}'", "{c} IN ({x})", "{x} IN ({x}, {c})"),
    *("lower(s) = lower('{w}')", "upper('{w}') <> s", "length(s) = {n}", "{c} = /* {n} */ {x}"),
    *(
        "{c} = {x} -- it\n",
        "coalesce({c} = {x}, FALSE)",
        "({c} = {x}) = b",
        "{c} = -{n}",
        "{n} = {n}",
    ),
)


DAYS = ["2020-01-01", "1999-12-31", "1970-01-01", "2020-02-29"]


def filled(random: Random, form: str, days: list[str] = DAYS) -> str:
    return form.format(
        day=random.choice(days),
        time=random.choice(["12:00:00", "00:00:00", "23:59:59"]),
        n=random.choice(["0", "1", "2", "5", "100", "300"][: random.choice([5, 5, 6])]),
        f=random.choice(FRACTIONS[:1] + FRACTIONS[2:] + ["0.0", "1.125"]),
        w=random.choice(["a", "ab", "B%", "12", "", "é", "1", "i"]),
        nan=random.choice(["NaN", "0.0", "-0.0", "inf", "1"]),
        p=random.choice("12"),
        bits=random.choice(["8", "16"]),
        c="{c}",
        x="{x}",
    )


def fitting(constant: str) -> tuple[str, ...]:
    """Return columns that a constant may be compared with."""
    if "{day}" in constant:
        return ("d", "m")
    is_text = "'{w}'" in constant and "CAST" not in constant
    return ("s", "t") if is_text else ("i", "k", "h", "f", "g", "q", "r.x", "coalesce(i, k)")


def gathered(random: Random) -> str:
    """Return a condition of members of few sorts, in any order."""
    column, joint = random.choice(COLUMNS), random.choice([" OR ", " AND ", " or "])

    def members(forms: list[str]) -> list[str]:
        days = random.choice([DAYS, DAYS, DAYS, [*DAYS, "2020-1-1"]])
        return [filled(random, random.choice(forms), days) for _ in range(random.randint(2, 7))]

    constants = random.choices(CONSTANTS, k=random.choice([1, 1, 2, 3]))
    if random.random() < 0.8:  # most of them of one sort, and the columns, too
        constants = [x for x in constants if fitting(x) == fitting(constants[0])]
        column, columns = random.choice(fitting(constants[0])), fitting(constants[0])
    else:
        columns = random.choices(COLUMNS, k=random.choice([1, 1, 2]))
    terms = [
        form.replace("{x}", random.choice(constants)).replace("{c}", random.choice(columns))
        for form in random.choices(TERMS, k=random.choice([1, 1, 2, 3]))
    ]
    return random.choice(
        [
            f"{column} IN ({', '.join(members(constants))})",
            f"{column} NOT IN ({', '.join(members(constants))})",
            *[joint.join(members(terms)) for _ in range(4)],
        ]
    )


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
    one = random.choice(forms) if random.random() < 0.3 else gathered(random)
    around = ["{0}", "({0})", "b AND {0}", "{0} AND b", "b OR {0} OR c", "NOT {0}", "({0}) AND c"]
    around += ["i BETWEEN 1 AND {0}", "{0} + 1 = 2", "1 + {0}", "{0} IS NULL", "({0}) IS NULL"]
    around += ["-- i = 1 OR i = 2\n{0}", "{0} -- {0}", "/* {0} */ {0}", "coalesce({0}, b)"]
    return random.choice(around).format(one)


def answer(sql: str) -> object:
    for cache in (_parser.parse, _SHORT_TEXTS, _LONG_TEXTS):
        cache.cache_clear()
    try:
        return np.flatnonzero(Predicate.parse(sql, ROWS.schema).mask(ROWS)).tolist()
    except PredicateError as error:
        return error.context.get("position")


def lengths(monkeypatch, few: int) -> None:
    """Say how many members are many; of a great many, lists are read literal by literal."""
    for module in (_chains, _members):
        monkeypatch.setattr(module, "_FEW", few)
    monkeypatch.setattr(_lexer, "_LIST", LISTS if few == 1 else re.compile(r"(?!)"))


LISTS = _lexer._LIST


@pytest.mark.torture
def test_lifted_or_parsed_it_is_the_same(monkeypatch, whole):
    random, found = Random(11), 0
    for _ in range(20_000 if whole else 350):
        sql = condition(random)
        lengths(monkeypatch, few=1)
        mine = answer(sql)
        lifted = isinstance(mine, list) and any(
            isinstance(piece.value, Listed) for piece in _parser.parse(sql).walk()
        )
        lengths(monkeypatch, few=10**9)
        parsed = answer(sql)
        if isinstance(mine, int) and isinstance(parsed, int):
            continue  # both refuse: which of two mistakes is told first may differ
        assert mine == parsed, sql
        found += lifted
    assert found > 30


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


@pytest.mark.parametrize("count", [3, 40])
def test_members_that_are_alike_select_the_references_rows(count):
    random = Random(count)
    dataset = lance.write_dataset(ROWS, "memory://alike")
    lists = [
        ("d", "DATE '{day}'"),
        ("m", "TIMESTAMP '{day} {time}'"),
        ("i", "CAST('{n}' AS BIGINT)"),
        ("h", "CAST({n} AS SMALLINT)"),
        ("i", "{n} + 2"),
        ("f", "CAST('{nan}' AS DOUBLE)"),
        ("q", "{n}"),
        ("k", "CAST('{n}' AS INT), {n}, {n} * 2"),
    ]
    chains = [
        "i = {n} OR s = '{w}'",
        "{n} = i OR s LIKE '{w}%'",
        "i BETWEEN {n} AND {n} OR f < -{n}",
        "i IN ({n}, {n}) OR d = DATE '{day}' OR s IS NULL",
        "(i = {n} AND s = '{w}') OR 'ab' = s",
        "NOT (i = {n}) AND d <> DATE '{day}'",
        "i NOT IN ({n}, {n}) AND s NOT LIKE '{w}_'",
        "i NOT IN ({n}, NULL) AND k <> {n}",
        "i > {n} AND lower(s) <> '{w}'",
    ]
    for column, form in lists:
        some = ", ".join(filled(random, form) for _ in range(count))
        for sql in (
            f"{column} IN ({some})",
            f"{column} NOT IN ({some})",
            f"{column} NOT IN ({some}, NULL)",
            f"{column} IN ({some}, NULL) IS NULL",
        ):
            expected = dataset.to_table(columns=["n"], filter=sql)["n"].to_pylist()
            assert answer(sql) == expected, sql
    for form in chains:
        joint = " OR " if " OR " in form else " AND "
        sql = joint.join(filled(random, form) for _ in range(count))
        for whole in (sql, f"({sql}) IS NULL", f"b AND ({sql})"):
            expected = dataset.to_table(columns=["n"], filter=whole)["n"].to_pylist()
            assert answer(whole) == expected, whole


NUMBERS = ", ".join(map(str, range(100)))
DATES = ", ".join(f"DATE '2020-01-{n:02}'" for n in range(1, 31))


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


def said(sql: str) -> str:
    for cache in (_parser.parse, _SHORT_TEXTS, _LONG_TEXTS):
        cache.cache_clear()
    with pytest.raises(PredicateError) as caught:
        Predicate.parse(sql, ROWS.schema).mask(ROWS)
    return str(caught.value)


@pytest.mark.parametrize(
    "sql",
    [
        f"b AND d IN ({DATES}, DATE 'x')",
        f"d IN ({DATES}, i)",
        f"d IN ({DATES}) AND nosuch = 1",
        f"b AND d IN ({DATES}) foo",
        " OR ".join(f"i + 9223372036854775{n} < 0" for n in range(760, 808)),
        " OR ".join(f"CAST({n} AS TINYINT) = i" for n in range(80, 129)),
        " OR ".join(f"i = {n} OR s = '{n}'" for n in range(50)) + " OR s = 1.5",
        " OR ".join(f"s = '{n}' OR i = DATE '2020-01-01'" for n in range(50)),
        " AND ".join(f"NOT regexp_like(s, '{'(' if n == 30 else n}')" for n in range(40)),
        " OR ".join(f"nosuch = {n} OR i = {n}" for n in range(50)),
    ],
)
def test_mistakes_of_members_that_are_alike_are_those_of_each(sql, monkeypatch):
    mine = said(sql)
    lengths(monkeypatch, few=10**9)
    assert mine == said(sql)


@pytest.mark.parametrize(
    ("sql", "most"),
    [
        ("i IN (" + ", ".join(map(str, range(2, 4_000))) + ")", 2),
        ("s IN (" + ", ".join(f"'a{n}'" for n in range(4_000)) + ", 'a')", 2),
        (" OR ".join(f"i = {n}" for n in range(2, 4_000)), 2),
        (" AND ".join(f"s <> 'a{n}'" for n in range(4_000)), 2),
        ("NOT (k IN (" + ", ".join(map(str, range(4_000))) + "))", 3),
        (" OR ".join(f"i = {n} OR s = 'a{n}'" for n in range(2_000)), 5),
        ("d IN (" + ", ".join(f"DATE '{1900 + n % 200}-01-01'" for n in range(3_000)) + ")", 6_002),
        (" OR ".join(f"i IN ({n}, {n + 1}) OR 'a{n}' = s" for n in range(2_000)), 10_001),
        (" OR ".join(f"k < -{n} OR s LIKE '{n}%'" for n in range(1_000)), 6_001),
    ],
)
def test_a_list_is_one_piece_however_long_it_is(sql, most):
    assert sum(1 for _ in _parser.parse(sql).walk()) <= most
    assert isinstance(answer(sql), list)


def test_row_ids_in_lists(tmp_path):
    rows = pa.table({"i": range(10_000)})
    numbers = list(range(0, 9000, 3))
    listed = "_rowid IN (" + ", ".join(map(str, numbers)) + ")"
    chained = " OR ".join(f"_rowid = {n}" for n in numbers)
    mixed = " OR ".join(f"(_rowid = {n} AND i > {n % 5})" for n in numbers)
    for sql in (listed, chained, mixed, f"i > 1 AND ({chained})"):
        assert Predicate.parse(sql, rows.schema).points("_rowid") == frozenset(numbers)
    assert Predicate.parse(listed + " OR i = 1", rows.schema).points("_rowid") is None
    with_null = Predicate.parse(listed[:-1] + ", NULL)", rows.schema)
    assert with_null.points("_rowid") == frozenset(numbers)
    with pytest.raises(PredicateError, match="-1 is not a value"):
        Predicate.parse("_rowid IN (" + ", ".join(["-1"] * 20) + ")", rows.schema)
    ds = lk.write_dataset(rows, tmp_path / "rows")
    assert ds.to_table(filter=chained)["i"].to_pylist() == numbers
    ds.delete(listed)
    assert ds.count_rows() == 10_000 - len(numbers)


def test_comments_without_an_end_take_linear_time():
    """One of them is all of the rest: looked at from each, it took minutes."""
    text = "i = 1 OR " + "/* " * 200_000
    assert answer(text) == text.index("/*")
