"""Wrong arguments: a call that was drawn well, with one of its arguments spoiled."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

from tests.differential.filters import spoiled
from tests.differential.scene import Step

__all__ = ["spoil"]

_NONSENSE = (
    None, -1, 0, 1.5, 10**20, "", "nosuch", "é", b"x", [], ["nosuch"], {}, {"a": 1}, True, object,
    timedelta(days=-1), ["n", "n"], ("b9", None), {"n": "nosuch + 1"}, {"y": "1 +"}, [None],
    {1: "n"}, float("nan"),
)  # fmt: skip
#: arguments of the calls here, not of lancekit's
_KEPT = {"rows", "at", "of", "do", "clauses", "how", "explain", "positional"}
_ADDED: tuple[dict[str, Any], ...] = (
    {"nosuch": 1},
    {"nearest": {"column": "n", "q": [1.0]}},
    {"nearest": {"column": "fsl", "q": [1.0, 2.0]}},
    {"full_text_query": "apple"},
    {"limit": -3},
    {"offset": -1},
    {"batch_size": 0},
    {"order_by": ["nosuch"]},
    {"fragments": []},
    {"include_deleted_rows": True, "with_row_id": False},
    {"blob_handling": "nosuch"},
    {"columns": ["n", "n"]},
    {"columns": {"n": ""}},
    {"filter": "n"},
    {"filter": "n = 1 = 2"},
    {"filter": 5},
)


def spoil(draw: Random, step: Step) -> Step:
    """Return the call with a misspelt text, a value of a wrong type, or an argument too much."""
    names = [name for name in step.arguments if name not in _KEPT]
    texts = [n for n in names if isinstance(step.arguments[n], str) and step.arguments[n]]
    kind = draw.randrange(10)
    if kind < 6 and texts:
        name = draw.choice(texts)
        return step.having(**{name: spoiled(draw, step.arguments[name])})
    if kind < 9 and names:
        name = draw.choice(names)
        value = step.arguments[name]
        if isinstance(value, list) and value and draw.random() < 0.5:
            return step.having(**{name: [*value[1:], f"{value[0]}x"]})
        return step.having(**{name: draw.choice(_NONSENSE)})
    return step.having(**draw.choice(_ADDED))
