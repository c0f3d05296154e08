"""Texts stay easy to read: rates of long sentences, pronouns and dialect have bars."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from tests.support.plain_words import (
    HARD,
    PACKAGE,
    ROOT,
    Text,
    markdown_texts,
    places,
    texts,
)

#: places per 1,000 words: of all kinds, of the hard kinds, and of all kinds in one file
ALL, HARDEST, FILE = 7, 1, 15
#: a file of fewer words has no bar of its own
WORDS = 300
#: the most words of all guides: pages that are neither generated nor tables
GUIDES = 30_000
TABLES = {"gallery", "performance", "interplay", "compatibility", "features"}
TABLES |= {"pylance-coverage"}


@cache
def counts() -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Return by file the number of words, of places, and of hard places."""
    words, found, hard = Counter[str](), Counter[str](), Counter[str]()
    for text in texts():
        words[text.path] += len(text.words.split())
        for place in places(text):
            found[text.path] += 1
            hard[text.path] += place.kind in HARD
    return words, found, hard


@pytest.mark.parametrize("package", [True, False], ids=["package", "pages"])
def test_the_rates_of_all_texts(package: bool) -> None:
    words, found, hard = (
        sum(n for path, n in counter.items() if path.startswith(PACKAGE) == package)
        for counter in counts()
    )
    assert words > 50_000
    assert found / words <= ALL / 1000
    assert hard / words <= HARDEST / 1000


def test_the_guides_are_short() -> None:
    pages = (path for path in (ROOT / "docs").glob("*.md") if path.stem not in TABLES)
    words = sum(len(text.words.split()) for p in pages for text in markdown_texts(p, p.name))
    assert words <= GUIDES


def test_the_rate_of_each_file() -> None:
    words, found, _ = counts()
    rates = {path: 1000 * found[path] / n for path, n in words.items() if n >= WORDS}
    assert {path: rate for path, rate in rates.items() if rate > FILE} == {}


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        ("Return the number of rows.", []),
        ("Whether rows match.", ["opening"]),
        ("Return what is stored of it.", ["empty", "pronoun", "pronoun"]),
        ("Write the rows anew; close the file; return: done.", ["chain", "dialect"]),
        (f"Return {'a row and ' * 8}nothing.", ["long"]),
        ("Call `what is` and ``told by``.", []),
    ],
)
def test_what_is_counted(words: str, kinds: list[str]) -> None:
    text = Text("x.py", 1, 1, True, words)
    assert [place.kind for place in places(text)] == kinds
