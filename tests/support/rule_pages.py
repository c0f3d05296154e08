"""The pages of the reference that tables of rules make: conflicts and casts.

``python -m tests.support.rule_pages`` writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.support import casts_page, conflict_page

__all__ = ["RULE_PAGES"]

REFERENCE = Path(__file__).parents[2] / "docs/reference"
#: what makes the text of each page
RULE_PAGES: dict[str, Callable[[], str]] = {
    "conflict-rules.md": conflict_page.document,
    "casts.md": casts_page.document,
}


if __name__ == "__main__":
    for name, text in RULE_PAGES.items():
        (REFERENCE / name).write_text(text(), encoding="utf-8")
