"""Functions that make long texts of short ones say so before they do; odd values are refused."""

from __future__ import annotations

import resource
from contextlib import suppress
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lancekit._scan.expressions.kernels import function as _function
from lancekit._scan.expressions.kernels.functions import FUNCTIONS
from lancekit._scan.expressions.predicate import _SHORT_TEXTS, Predicate, compile_expression
from lancekit.errors import PredicateError
from tests.scan.filter_rows import ROWS

LONG = "lpad('x', 100)"


@pytest.mark.parametrize(
    ("sql", "name", "size"),
    [
        ("lpad(s, 2147483647, 'x')", "lpad", 2147483648),
        ("rpad(s, 600000000, 'é')", "rpad", 1200000001),
        ("repeat(s, 9223372036854775807)", "repeat", 9223372036854775808),
        (f"replace({LONG}, ' ', 'abcdefgh')", "replace", 908),
        (f"replace({LONG}, '', 'abcdefgh')", "replace", 908),
        (f"regexp_replace({LONG}, '.', 'abcdefgh', 'g')", "regexp_replace", 908),
        (f"concat({', '.join([LONG] * 6)})", "concat", 600),
        (f"concat_ws('-', {', '.join([LONG] * 6)})", "concat_ws", 601),
        (f"repeat({LONG}, 4) || {LONG} || {LONG}", r"\|\|", 600),
    ],
)
def test_a_text_that_is_too_large_is_refused_before_it_is_made(sql, name, size, monkeypatch):
    if size < 1000:
        monkeypatch.setattr(_function, "_LARGEST", 500)
    rows = pa.table({"s": pa.array(["a"], pa.large_string())})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(PredicateError, match=f"{name} would give up to [0-9,]+ bytes") as caught:
        compile_expression(sql, rows.schema).evaluate(rows)
    assert type(caught.value) is PredicateError
    assert f"{size:,}" in caught.value.message
    assert [line.strip() for line in str(caught.value).split("\n")[1:]] == [sql, "^"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


@pytest.mark.parametrize(
    "sql",
    [
        *("lpad(s, 50, 'é')", "rpad(s, n, s)", "repeat(s, n)", "replace(s, 'a', 'bcdefgh')"),
        *("concat(s, n, s)", "s || s", "coalesce(z, s)", "greatest(s, 'b')", "nvl2(s, s, 'x')"),
        *("regexp_replace(s, '.', '<$0>', 'g')", "concat_ws('-', s, s)", "replace(s, s, s)"),
    ],
)
def test_what_is_too_large_for_all_rows_is_made_for_some_at_a_time(sql, monkeypatch):
    texts = [None if n % 7 == 0 else "a" * (n % 9) for n in range(200)]
    rows = pa.table({"s": texts, "n": pa.array(range(200)), "z": pa.nulls(200, pa.string())})
    whole = compile_expression(sql, rows.schema).evaluate(rows)
    calls = []
    kernel = _function.Function.run

    def counted(self, name, *args):
        calls.append(name)
        return kernel(self, name, *args)

    monkeypatch.setattr(_function.Function, "run", counted)
    _SHORT_TEXTS.cache_clear()  # what was compiled has the function as it was
    monkeypatch.setattr(_function, "_AT_ONCE", 800)
    assert compile_expression(sql, rows.schema).evaluate(rows).equals(whole)
    assert len(calls) > 4
    some = Predicate.parse(f"length({sql}) > 3", rows.schema).mask(rows)
    assert some.equals(pc.fill_null(pc.greater(pc.utf8_length(whole), 3), False))


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("cast(k as decimal(99,2))", r"there is no decimal\(99,2\)"),
        ("cast(k as decimal(0,0))", "at most p = 38 digits"),
        ("cast(k as decimal(5,2,1))", "at most p = 38 digits|there is no"),
        ("cast(k as decimal(99999999999999,2))", "there is no"),
        ("try_cast(k as decimal(39,2))", r"there is no decimal\(39,2\)"),
        ("cast(ts as timestamp(99))", r"there is no cast to timestamp\(99\)"),
        ("cast(s as varchar(2))", r"there is no cast to varchar\(2\)"),
        ("arrow_cast(k, 'Decimal128(99,2)')", "is not an Arrow type"),
        ("arrow_cast(k, 'Decimal256(77,2)')", "is not an Arrow type"),
        ("arrow_cast(null, 'FixedSizeBinary(4097)')", "is not an Arrow type"),
        ("arrow_cast(null, 'FixedSizeBinary(-1)')", "is not an Arrow type"),
        ("arrow_cast(k, 'Decimal128(x,2)')", "is not an Arrow type"),
        ("s = '\ud800'", "U\\+D800 is an unpaired surrogate"),
        ("`\udfff` = 1", "U\\+DFFF is an unpaired surrogate"),
        ("s in ('a', '\ud800')", "U\\+D800 is an unpaired surrogate"),
        ("factorial(k + 1000000000)", "more than 64 bits"),
    ],
)
def test_what_is_no_type_or_text_is_told(sql, reason):
    with pytest.raises(PredicateError, match=reason):
        compile_expression(sql, ROWS.schema).evaluate(ROWS)


ODD = [
    *("2147483647", "-2147483648", "9223372036854775807", "-9223372036854775808", "9" * 400),
    *("1e400", "-0.0", "0", "-1", "1.5", "null", "''", "'('", "'x'", "'\\'", "'%'", "'é😀'"),
    *("'2020-01-01'", "true", "X'00'", "'\x00'", "1e999999999", "0.1e-999999999", "'NaN'", "[1]"),
    *("[]", "s", "i", "f", "dec", "big", "d", "ts", "tm", "dur", "st", "l", "b", "bin", "u64"),
]
FORMS = [
    *("{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} / {1}", "{0} % {1}", "{0} || {1}", "{0} << {1}"),
    *("{0} = {1}", "{0} < {1}", "{0} IS DISTINCT FROM {1}", "{0} LIKE {1}", "{0} ILIKE {1}"),
    *("{0} BETWEEN {1} AND {2}", "{0} IN ({1}, {2})", "{0}[{1}]", "-{0}", "NOT {0}", "{0} IS NULL"),
    *("{0} LIKE {1} ESCAPE '!'", "DATE {0}", "TIMESTAMP {0}", "[{0}, {1}]", "cast({0} as date)"),
    *("cast({0} as decimal(20, 5))", "try_cast({0} as int)", "arrow_cast({0}, 'Date64')"),
]


@pytest.mark.torture
def test_odd_values_get_an_answer_or_our_own_error(whole):
    random, forms = Random(7), list(FORMS)
    for name, function in FUNCTIONS.items():
        for count in range(function.least, min(function.most, 4) + 1):
            forms += [f"{name}({', '.join(f'{{{i}}}' for i in range(count))})"]
    for form in forms:
        for _ in range(100 if whole else 3):
            sql = form.format(*random.choices(ODD, k=4))
            with suppress(PredicateError):
                compile_expression(sql, ROWS.schema).evaluate(ROWS)


@pytest.mark.parametrize("digits", [400, 5000])
def test_numbers_of_any_length_are_read(digits):
    for sql in ("{0} > g", "g < {0}", "g IN ({0}, 1)", f"g IN ({{0}}{', 1' * 20})", "abs({0}) > 1"):
        assert Predicate.parse(sql.format("9" * digits), ROWS.schema).columns <= {"g"}
    assert mask(f"g < {'9' * digits}") == mask("g IS NOT NULL")
    assert mask(f"g > -{'9' * digits}") == mask("g IS NOT NULL")
    for sql in ("i = {0}", "i IN (1, {0})", "_rowid = {0}", "cast({0} as bigint) = 1"):
        with pytest.raises(PredicateError):
            Predicate.parse(sql.format("9" * digits), ROWS.schema).mask(ROWS)


def mask(sql: str) -> list[bool]:
    return Predicate.parse(sql, ROWS.schema).mask(ROWS).to_pylist()


@pytest.mark.parametrize("depth", [100, 1500])
def test_depth_gets_an_answer_or_our_own_error(depth):
    for first, again, last in [
        ("b", "", ""),
        ("i", " + i", " > 1"),
        ("", "(", "b"),
        ("", "NOT ", "b"),
        ("i = -", " -", "i"),
        ("", "abs(", "i"),
        ("i", "[1]", ""),
        ("st", ".x", ""),
        ("i", "::int", " = 1"),
        ("b", " OR (i = 1 AND b)", ""),
        ("b", " AND (_rowid = 1 OR b)", ""),
        ("b", " = b", ""),
        ("i", " BETWEEN i", ""),
        ("s", " || s", " = 'a'"),
    ]:
        sql = first + again * depth + last
        if "(" in again and ")" not in again:
            sql += ")" * depth
        with suppress(PredicateError):
            Predicate.parse(sql, ROWS.schema).points("_rowid")
