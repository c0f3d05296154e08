"""Tokens are those of pylance: word by word, and letter by letter."""

from __future__ import annotations

import random
import unicodedata
from typing import Any

import lance
import pyarrow as pa
import pytest

from lancekit._index.inverted.analyzer import Analyzer
from lancekit._index.inverted.settings import AnalyzerSettings, parse_settings
from lancekit._index.inverted.stop_words import LANGUAGES, stop_words
from lancekit.errors import CorruptFileError, UnsupportedFeatureError

#: what both sides know of: later versions of Unicode have more
LETTERS = [
    chr(code)
    for code in range(32, 0x2FFFF)
    if not 0xD800 <= code < 0xF900 and unicodedata.category(chr(code)) != "Cn"
]
COMMON = [chr(code) for code in range(32, 0x250)]
WORDS = """The Cats and Dogs' running, naïve façade über-cool don't I'm x86_64 ГОРОД ΟΔΟΣ हिन्दी
    日本語 Straße generously communities dying internationally adding emergency A a in it"""


def same(text: str, **settings: Any) -> None:
    """Compare with pylance, which counts from the first token."""
    mine = Analyzer(AnalyzerSettings(**settings)).tokens(text)
    theirs = lance.tokenize(text, **settings)
    first = mine[0].position if mine else 0
    assert [(token.text, token.position - first) for token in mine] == [
        (token.text, token.position) for token in theirs
    ]


SETTINGS: list[dict[str, Any]] = [
    {},
    {"stem": False},
    {"lower_case": False},
    {"remove_stop_words": False},
    {"custom_stop_words": ["cat", "e"]},
    {"ascii_folding": False},
    {"max_token_length": 5},
    {"max_token_length": None},
    {"base_tokenizer": "whitespace"},
    {"base_tokenizer": "raw"},
    {"base_tokenizer": "ngram", "stem": False, "remove_stop_words": False},
    {"base_tokenizer": "ngram", "min_ngram_length": 1, "stem": True, "remove_stop_words": True},
    {
        "base_tokenizer": "ngram",
        "max_ngram_length": 5,
        "prefix_only": True,
        "stem": False,
        "remove_stop_words": False,
    },
    {"language": "German", "remove_stop_words": False},
    {"language": "French"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_tokens_are_those_of_pylance(settings: dict[str, Any]) -> None:
    same(f"{WORDS} {'x' * 39} {'y' * 40} {'ü' * 20}", **settings)
    same("", **settings)
    source = random.Random(7)
    for _ in range(60):
        some = source.choices(LETTERS, k=30) + source.choices(COMMON, k=30) + [" "] * 8
        source.shuffle(some)
        same("".join(some), **settings)


def test_every_letter_is_as_in_pylance() -> None:
    for start in range(0, len(LETTERS), 4096):
        part = LETTERS[start : start + 4096]
        same(" ".join(f"q{letter}q" for letter in part), stem=False)


def test_stop_words_are_those_of_pylance() -> None:
    ours = "a an and were will would could ought no nor not cannot its itself re can now just hers"
    same(f"{ours} herself himself myself yours yourself yourselves", stem=False)
    alone = " ".join(sorted(Analyzer(AnalyzerSettings(stem=False))._stops))
    assert not lance.tokenize(alone, stem=False, base_tokenizer="whitespace")


@pytest.mark.parametrize("language", LANGUAGES)
def test_languages_are_those_of_pylance(language: str) -> None:
    """Words of a language that are no stop words of it are those of the others."""
    words = sorted({word for each in LANGUAGES for word in stop_words(each)})
    alone = {"base_tokenizer": "whitespace", "ascii_folding": False, "language": language}
    kept = lance.tokenize(" ".join(words), stem=False, lower_case=False, **alone)
    assert {token.text for token in kept} == {*words} - stop_words(language)
    same(" ".join(words[:: 1 if language == "English" else 9]), **alone)


def test_the_tokens_of_many_texts_are_those_of_each() -> None:
    texts = ["late snow, late", None, "", "the", "Snow"]
    table = Analyzer(AnalyzerSettings()).table(pa.array(texts))
    found = zip(table.texts.tolist(), table.codes.tolist(), table.positions.tolist(), strict=True)
    assert [(text, table.vocabulary[code], place) for text, code, place in found] == [
        (0, "late", 0),
        (0, "snow", 1),
        (0, "late", 2),
        (4, "snow", 0),
    ]


def test_settings_that_are_not_known_are_named() -> None:
    assert parse_settings("{}", "here") == AnalyzerSettings()
    with pytest.raises(
        UnsupportedFeatureError,
        match="here needs tokenizer 'jieba/default' for 'text'",
    ):
        parse_settings('{"base_tokenizer": "jieba/default"}', "here")
    with pytest.raises(UnsupportedFeatureError, match="tokenizer 'simple' for 'json'"):
        parse_settings('{"lance_tokenizer": "json"}', "here")
    for damaged in (
        "",
        "[]",
        '{"min_ngram_length": 4}',
        '{"max_ngram_length": "x"}',
        '{"custom_stop_words": 1}',
    ):
        with pytest.raises(
            CorruptFileError, match=r"here has (unknown token|invalid n-gram) settings"
        ):
            parse_settings(damaged, "here")
    with pytest.raises(
        UnsupportedFeatureError, match="No stop words are known for language 'german'"
    ):
        Analyzer(AnalyzerSettings(language="german", stem=False))
    with pytest.raises(UnsupportedFeatureError, match="No stemmer is known for language 'Klingon'"):
        Analyzer(AnalyzerSettings(language="Klingon"))
