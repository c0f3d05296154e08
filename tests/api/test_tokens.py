"""`tokenize`, as pylance has it."""

from __future__ import annotations

from typing import Any

import lance
import pytest

import lancekit as lk
from lancekit.errors import InvalidArgumentError, InvalidTypeError, NotOfferedError

TEXTS = (
    "the Cats and Dogs",
    "",
    "of the",
    "late, the late-running caf\N{LATIN SMALL LETTER E WITH ACUTE}",
    "x" * 45 + " y",
)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"analyzer": "text", "stem": None, "language": None},
        {"language": "Spanish", "stem": False},
        {"max_token_length": None, "base_tokenizer": "whitespace"},
        {"max_token_length": 4},
        {"base_tokenizer": "ngram", "min_ngram_length": 2, "prefix_only": False},
        {"custom_stop_words": ["late"], "lower_case": False, "ascii_folding": False},
    ],
    ids=str,
)
def test_tokens_are_those_of_pylance(text: str, settings: dict[str, Any]) -> None:
    theirs = lance.tokenize(text, **settings)
    ours = lk.tokenize(text, **settings)
    assert [(one.text, one.position) for one in ours] == [
        (one.text, one.position) for one in theirs
    ]


@pytest.mark.parametrize(
    ("arguments", "error", "theirs"),
    [
        ({"query": 5}, InvalidTypeError, TypeError),
        ({"query": "x", "analyzer": "zz"}, InvalidArgumentError, ValueError),
        ({"query": "x", "base_tokenizer": "zz"}, InvalidArgumentError, ValueError),
        ({"query": "x", "language": "Klingon"}, InvalidArgumentError, ValueError),
        ({"query": "x", "split_identifiers": True}, NotOfferedError, ValueError),
        ({"query": "x", "min_ngram_length": 5}, InvalidArgumentError, None),
    ],
)
def test_what_is_none(
    arguments: dict[str, Any], error: type[Exception], theirs: type[Exception] | None
) -> None:
    with pytest.raises(error):
        lk.tokenize(**arguments)
    if theirs is not None:
        with pytest.raises(theirs):
            lance.tokenize(**arguments)
