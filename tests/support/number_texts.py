"""Numbers as cards show them."""

from __future__ import annotations

import re

__all__ = ["ungrouped"]


def ungrouped(text: str) -> str:
    """Return a text with its numbers written as in code: 1000 in the place of 1,000."""
    return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
