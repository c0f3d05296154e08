"""What a filter's text means without parentheses is what it means to the reference."""

from __future__ import annotations

from random import Random

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._scan.expressions.parser import parse
from lancekit.errors import PredicateError

ROWS = pa.table(
    {
        "n": pa.array(range(6)),
        "x": pa.array([1, 2, 3, 0, -1, None], pa.int64()),
        "y": pa.array([2, 2, None, 0, 1, 3], pa.int64()),
        "b": [True, False, None, True, False, True],
        "c": [True, True, False, None, False, None],
        "s": ["a", "ab", None, "b", "1", "true"],
    }
)
NUMBERS = ("x", "y", "1", "2", "-1", "x + 1", "y * 2", "- x", "x % 2", "-x + y", "x << 1")
TEXTS = ("s", "'a'", "'a%'", "s || 'b'", "'1' || s")
FLAGS = ("b", "c", "TRUE", "NOT b", "b IS NULL", "c IS NOT TRUE", "x IS NOT NULL", "s LIKE 'a%'")
CONDITIONS = (
    *("{n} = {n}", "{n} < {n}", "{n} >= {n}", "{n} <> {n}", "{n} IN (1, {n})", "{n} NOT IN (1, 2)"),
    *(
        "{n} BETWEEN {n} AND {n}",
        "{n} NOT BETWEEN 0 AND {n}",
        "{n} IS NULL",
        "{n} + {n} IS NOT NULL",
    ),
    *("{t} LIKE {t}", "{t} NOT LIKE {t}", "{t} = {t}", "{t} IS NULL", "{t} ILIKE 'A' || '%'"),
    *(
        "{f} = {f}",
        "{f} <> {f}",
        "NOT {f}",
        "{f} IS TRUE",
        "{f} IS NOT FALSE",
        "{f} IS NULL",
        "{f}",
    ),
    *(
        "{f} AND {f}",
        "{f} OR {f}",
        "({f}) = {f}",
        "{f} = ({f})",
        "NOT {n} = {n}",
        "NOT {f} IS NULL",
    ),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("parser") / "rows.lance"
    lk.write_dataset(ROWS, place)
    return place


def condition(random: Random, depth: int) -> str:
    """Return conditions joined at random, nearly without parentheses."""
    if depth == 0:
        return random.choice(FLAGS)
    form = random.choice(CONDITIONS)
    while "{" in form:
        form = form.replace("{n}", random.choice(NUMBERS), 1)
        form = form.replace("{t}", random.choice(TEXTS), 1)
        form = form.replace("{f}", condition(random, random.choice([0, depth - 1])), 1)
    return form


def answer(dataset, sql: str) -> list[int] | None:
    try:
        return dataset.to_table(columns=["n"], filter=sql)["n"].to_pylist()
    except (PredicateError, ValueError, OSError, RuntimeError, NotImplementedError):
        return None


@pytest.mark.torture
def test_what_binds_closer_is_what_the_reference_says(place, whole):
    """Where both give rows, these are the same; a text without types is refused by either."""
    random, mine, theirs = Random(23), lk.dataset(place), lance.dataset(str(place))
    both = 0
    for _ in range(6_000 if whole else 400):
        sql = condition(random, random.randint(1, 3))
        found, expected = answer(mine, sql), answer(theirs, sql)
        if found is not None and expected is not None:
            assert found == expected, sql
            both += 1
    assert both > 100


@pytest.mark.parametrize(
    ("sql", "meant"),
    [
        ("b = b IS NULL", "(b = b) IS NULL"),
        ("x < 2 IS TRUE", "(x < 2) IS TRUE"),
        ("x < 2 IS NOT NULL", "(x < 2) IS NOT NULL"),
        ("x IN (1, 2) = b", "(x IN (1, 2)) = b"),
        ("x BETWEEN 1 AND 2 = b", "(x BETWEEN 1 AND 2) = b"),
        ("NOT x = 1 AND b", "(NOT (x = 1)) AND b"),
        ("b OR c AND x = 1", "b OR (c AND (x = 1))"),
        ("x * 2 || '0' = '20'", "((x * 2) || '0') = '20'"),
        ("1 + x << 1 = 4", "((1 + x) << 1) = 4"),
        ("s NOT LIKE 'a' || '%' IS TRUE", "(NOT (s LIKE ('a' || '%'))) IS TRUE"),
        ("7 - 4 - 2 = x", "((7 - 4) - 2) = x"),
    ],
)
def test_a_text_means_what_it_means_in_parentheses(place, sql, meant):
    mine, theirs = lk.dataset(place), lance.dataset(str(place))
    assert answer(mine, sql) == answer(theirs, sql) == answer(mine, meant)
    assert answer(mine, sql) is not None


@pytest.mark.parametrize(
    ("sql", "reason", "at"),
    [
        ("x BETWEEN 1 2", "'2' was not expected", 12),
        ("x >", "something is missing after '>'", 3),
        ("x > AND b", "something is missing after '>'", 3),
        ("x IN (1,)", "something is missing after ','", 8),
        ("x = 1 b", "'b' was not expected", 6),
        ("(x = 1", "something is missing after '1'", 6),
        ("x = 1)", "'\\)' was not expected", 5),
        ("x & 1 = 1", "'&' is not part of the filter language", 2),
        ("x IN (SELECT y)", "a query is not part of the filter language", 6),
        ("s = 'a", "a quote or comment is not closed", 4),
        ("x = 1 /* a", "a quote or comment is not closed", 6),
        ("x = 1; b", "not one expression", 7),
        ("CASE WHEN b THEN c END", "CASE is not part of this SQL", 0),
        ("x IS 5", "IS takes NULL, TRUE or FALSE", 0),
        ("x IN y", "IN takes a list of values", 0),
        ("s LIKE 'a' ESCAPE 'ab'", "ESCAPE takes one character", 0),
        ("INTERVAL '1 day' = x", "is not part of the filter language", 0),
        ("CAST(x int)", "'int' was not expected", 7),
        ("x.", "something is missing after '.'", 2),
    ],
)
def test_a_mistake_is_told_at_its_place(sql, reason, at):
    with pytest.raises(PredicateError, match=reason) as caught:
        parse(sql)
    assert caught.value.context["position"] == at


def test_each_piece_knows_its_text():
    sql = "a.`b c` = -1.50 -- it\nAND (lower( s ) LIKE 'it''s%' OR x IN (1, NULL))"
    tree = parse(sql)
    shown = {piece.kind: sql[piece.start : piece.end] for piece in tree.walk()}
    assert shown["column"] == "a.`b c`"
    assert shown["call"] == "lower( s )"
    assert shown["IN"] == "x IN (1, NULL)"
    assert shown["OR"] == "(lower( s ) LIKE 'it''s%' OR x IN (1, NULL))"
    values = {piece.value for piece in tree.walk() if piece.kind == "literal"}
    assert values == {"it's%", parse("-1.5").value}
