"""Words that are spelt almost as others: what a plain count of changed letters tells."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from lancekit._index.inverted import fst as fuzzy
from lancekit._index.inverted.fst import Spelling, alternatives, near


def changes(one: str, other: str) -> int:
    costs = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        before, costs = costs, [at]
        for place, wanted in enumerate(other, 1):
            exchanged = before[place - 1] + (letter != wanted)
            costs.append(min(before[place] + 1, costs[-1] + 1, exchanged))
    return costs[-1]


@pytest.mark.parametrize("at_once", [1, 1 << 22])
def test_words_are_near_if_few_letters_change(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzzy, "_AT_ONCE", at_once)
    source = random.Random(5)
    words = ["".join(source.choices("abé😀", k=source.randint(0, 5))) for _ in range(60)]
    words = sorted(set(words))
    for token in ["", "ab", "é😀b", "aaaaaaa"]:
        for edits in range(4):
            found = near(pa.array(words, pa.string()), token, Spelling(edits))
            assert found == [word for word in words if changes(word, token) <= edits]


def test_the_beginning_is_counted_in_bytes() -> None:
    words = pa.array(["eis", "fis", "éis", "éos"])
    assert near(words, "éis", Spelling(1)) == ["eis", "fis", "éis", "éos"]
    assert near(words, "éis", Spelling(1, prefix=2)) == ["éis", "éos"]
    assert near(words, "éis", Spelling(1, prefix=3)) == ["éis"]
    assert near(words, "éis", Spelling(1, prefix=99)) == ["éis"]


def test_words_of_several_vocabularies_share_what_is_looked_for() -> None:
    words = [pa.array(["cat", "hat"]), pa.array(["bat", "cat", "dog"]), pa.array([], pa.string())]
    assert alternatives(["rat", "dig"], words, Spelling(1)) == [["bat", "cat", "hat"], ["dog"]]
    assert alternatives(["rat", "dig"], words, Spelling(1, most=2)) == [["bat", "cat"], []]
    assert alternatives(["rat"], [], Spelling(1)) == [[]]
