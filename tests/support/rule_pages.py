"""The pages of the reference that tables of rules make: conflicts and casts.

``python -m tests.support.rule_pages`` writes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from lancekit._commit.rules import document as conflicts
from lancekit._pipeline.casts import document as casts

__all__ = ["RULE_PAGES", "text_of_rules"]

REFERENCE = Path(__file__).parents[2] / "docs/reference"
#: what makes the text of each page, with links as of a page in ``docs/``
RULE_PAGES: dict[str, Callable[[], str]] = {
    "conflict-rules.md": conflicts.document,
    "casts.md": casts.document,
}


def text_of_rules(page: str) -> str:
    """Return the text of a page, with links to guides as of a page in ``docs/reference/``."""
    return re.sub(r"\]\((?=[\w-]+\.md)", "](../", RULE_PAGES[page]())


if __name__ == "__main__":
    for name in RULE_PAGES:
        (REFERENCE / name).write_text(text_of_rules(name), encoding="utf-8")
