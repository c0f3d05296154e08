"""Words of many texts at once: those of each text by itself."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from lancekit._index.inverted import analyzer
from lancekit._index.inverted.analyzer import splitter, texts_of, words_of
from lancekit._index.inverted.settings import AnalyzerSettings

LETTERS = [*"ab1Z_ .,-'\n\t\x00", "é", "—", "\u00a0", "ß", "日", "😀", "\u0345", "²"]


@pytest.mark.parametrize("at_once", [1, 40, 1 << 22])
@pytest.mark.parametrize("tokenizer", ["simple", "whitespace", "raw", "ngram"])
def test_words_are_those_of_each_text(
    tokenizer: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analyzer, "_AT_ONCE", at_once)
    split = splitter(AnalyzerSettings(base_tokenizer=tokenizer))
    source = random.Random(9)
    texts = [
        None if source.random() < 0.1 else "".join(source.choices(LETTERS[:limit], k=length))
        for limit in (13, len(LETTERS))
        for length in [*range(12)] * 6
    ]
    column = texts_of(pa.array(texts)).slice(3)
    found: list[str] = []
    sizes: list[int] = []
    for part, each in words_of(split, column):
        found += part.to_pylist()
        sizes += each.tolist()
    wanted = [[] if text is None else split(text) for text in texts[3:]]
    assert sizes == list(map(len, wanted))
    assert found == [word for one in wanted for word in one]


def test_lists_of_texts_are_one_text() -> None:
    lists = pa.array([["a b", None, "c"], None, [], [None, ""], ["", "d"], ["e", "", "f", ""]])
    assert texts_of(lists).to_pylist() == ["a b c", "", "", "", "d", "e  f "]
    assert not list(words_of(splitter(AnalyzerSettings()), texts_of(pa.array([], pa.string()))))
