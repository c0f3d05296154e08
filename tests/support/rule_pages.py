"""The pages of the reference that tables of rules make: conflicts and casts.

``python -m tests.support.rule_pages`` writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lancekit._commit.rules import document as conflicts
from lancekit._pipeline.casts import document as casts

__all__ = ["RULE_PAGES"]

REFERENCE = Path(__file__).parents[2] / "docs/reference"
#: what makes the text of each page
RULE_PAGES: dict[str, Callable[[], str]] = {
    "conflict-rules.md": conflicts.document,
    "casts.md": casts.document,
}


if __name__ == "__main__":
    for name, text in RULE_PAGES.items():
        (REFERENCE / name).write_text(text(), encoding="utf-8")
