"""Letters without their marks, as far as ASCII has them."""

from __future__ import annotations

from functools import lru_cache
from unicodedata import normalize

__all__ = ["folded"]

#: what Unicode does not take apart
_LETTERS = {
    **{"Æ": "AE", "Ð": "D", "Ø": "O", "Þ": "TH", "ß": "ss", "æ": "ae", "ð": "d", "ø": "o"},
    **{
        "þ": "th",
        "Đ": "D",
        "đ": "d",
        "Ħ": "H",
        "ħ": "h",
        "\u0131": "i",
        "ĸ": "k",
        "Ł": "L",
        "ł": "l",
    },
    **{"Ŋ": "N", "ŋ": "n", "Œ": "OE", "œ": "oe", "Ŧ": "T", "ŧ": "t", "ẞ": "SS"},
}


def folded(text: str) -> str:
    """Return a text with each letter as ASCII has it; what is no letter of ASCII's stays.

    Examples
    --------
    >>> folded("naïve Straße, Łódź, 日本")
    'naive Strasse, Lodz, 日本'
    """
    return text if text.isascii() else "".join(map(_folded, text))


@lru_cache(4096)
def _folded(letter: str) -> str:
    apart = (_LETTERS.get(part, part) for part in normalize("NFKD", letter))
    return "".join(part for part in apart if part.isascii()) or letter
