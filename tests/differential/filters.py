"""Filters and values in SQL: drawn by a grammar, taken from the corpus, and spoiled on purpose."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.compute as pc

from tests.scan.filter_random import random_condition, random_value

__all__ = ["arrow_filter", "condition", "few_columns", "from_corpus", "spoiled", "value"]

_CORPUS = Path(__file__).parents[1] / "scan"
_PIECES = (
    "'", '"', "`", "(", ")", "[", "]", ",", ";", "$", "--", "/*", "/* c */", " -- x\n", " AND ",
    " OR ", " NOT ", " IS NULL", " IS NOT TRUE", " IN (1, 2)", " BETWEEN 1 AND", " LIKE ", "1e",
    "::int", ".", "=", "<>", "NULL", " nosuch ", "\\", "é", "\x00", "CASE WHEN", "-", "+", " % 0",
    "cast(", "count(*)", "SELECT 1",
)  # fmt: skip


@cache
def _lines() -> tuple[str, ...]:
    plain = (_CORPUS / "filters.txt").read_text().splitlines()
    known = (_CORPUS / "filter_differences.txt").read_text().splitlines()
    lines = [*plain, *(line.partition(" => ")[0] for line in known)]
    return tuple(line for line in lines if line and not line.startswith("#"))


def from_corpus(draw: Random) -> str:
    """Return a filter of the corpus as it is, or two of them put together."""
    one, other = draw.choice(_lines()), draw.choice(_lines())
    forms = (one, one, one, f"({one}) AND ({other})", f"({one}) OR ({other})", f"NOT ({one})")
    rare = (f"{one} AND {other}", f"{one} OR NOT {other}", f"({one}) IS NULL", f"n > 2 AND ({one})")
    return draw.choice(forms + rare)


def condition(draw: Random) -> str:
    """Return a condition on the columns of `filter_random`, or on those beside them."""
    if draw.random() < 0.25:
        return _beside(draw)
    return random_condition(draw, draw.randint(0, 2))


def _beside(draw: Random) -> str:
    number = draw.randint(-3, 60)
    more = random_condition(draw, 0)
    return draw.choice(
        [
            f"n = {number}",
            f"n IN ({', '.join(str(draw.randint(0, 99)) for _ in range(draw.randint(1, 30)))})",
            f"n BETWEEN {number} AND {number + 9}",
            f"_rowid = {number} OR _rowid = {number + 2}",
            f"_rowid < {number} AND {more}",
            f"x {draw.choice(['=', '<', '>=', '<>'])} {draw.choice(['0.0', '-0.0', '1.5', 'x'])}",
            "isnan(x)",
            f"bin = {draw.choice(['0xab', 'bin', 'X' + repr('61')])}",
            f"dic = '{draw.choice(['a', 'b', 'z'])}'",
            f"dic IN ('a', 'c') AND {more}",
            f"zt > timestamp '2020-01-0{draw.randint(1, 9)} 00:00:00'",
            "zt IS NULL OR nul IS NULL",
            f"array_has_any(l, [{draw.randint(0, 3)}, {draw.randint(0, 3)}])",
            f"array_has_all(l, [{draw.randint(0, 3)}])",
            f"w LIKE '%{draw.choice(['apple', 'fig', 'e'])}%'",
            f"contains(w, '{draw.choice(['berries', 'da', ''])}')",
            f"n > {number} AND {more}",
            f"({more}) AND n < {number}",
            f"i = {number % 5} OR i = 2 OR i = 3 OR i IS NULL",
            f"i <> 1 AND i <> {number % 4} AND {more}",
            "1 / i > 0 AND i <> 0",
            "b = c IS NULL",
            "NOT b = c IS NOT TRUE",
            f"i < k IS NOT NULL AND n > {number}",
            f"/* a /* b */ */ n > {number} -- c",
            f"n + 1 = {number} OR u = {abs(number) % 6}",
            f"s = '{draw.choice(['', 'a', 'ab', 'é'])}' AND n < {number}",
        ]
    )  # fmt: skip


def few_columns(draw: Random) -> str:
    """Return a condition on columns that all tables with a column `n` have."""
    number = draw.randint(-4, 60)
    simple = [
        f"n > {number}",
        f"n IN ({number}, 5, 3)",
        f"i {draw.choice(['=', '<', '<>'])} {number % 5}",
        f"f >= {draw.choice(['0.0', '-0.0', '1.5'])}",
        "b",
        f"s = '{draw.choice(['a', 'ab', ''])}'",
        "s IS NULL",
        f"w LIKE '%{draw.choice(['fig', 'apple'])}%'",
    ]
    one, other = draw.choice(simple), draw.choice(simple)
    return draw.choice([one, one, f"{one} AND {other}", f"{one} OR {other}", f"NOT ({one})"])


def value(draw: Random) -> str:
    """Return an expression of any type."""
    return random_value(draw, draw.randint(0, 2))


def spoiled(draw: Random, text: str) -> str:
    """Put something wrong into a text: a cut, a doubled word, a piece in the wrong place."""
    at = draw.randint(0, len(text))
    tokens = re.findall(r"\w+|\W", text) or [""]
    place = draw.randrange(len(tokens))
    match draw.randrange(6):
        case 0:
            return text[:at]
        case 1:
            return text[:at] + draw.choice(_PIECES) + text[at:]
        case 2:
            return text[:at] + text[at + 1 :]
        case 3:
            return "".join([*tokens[:place], tokens[place], " ", *tokens[place:]])
        case 4:
            return "".join([*tokens[:place], draw.choice(_PIECES), *tokens[place + 1 :]])
    return re.sub(r"\b([a-z]\w*)\b", r"\1x", text, count=1)


def arrow_filter(draw: Random) -> Any:
    """Return a filter as an expression of Arrow's."""
    number = draw.randint(-4, 40)
    simple = [
        pc.field("n") > number,
        pc.field("i") == draw.randint(-4, 4),
        pc.field("f") <= draw.choice([0.0, 1.0, float("nan")]),
        pc.field("s").isin(["a", "b%", ""]),
        pc.field("s").is_null(),
        ~pc.field("b"),
        pc.field("r", "x") > 0,
        pc.field("nosuch") == 1,
    ]
    one, other = draw.choice(simple), draw.choice(simple)
    return draw.choice([one, one & other, one | other, ~one])
