"""Merges of plain tables: what becomes of rows that two sides changed since one version."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
#: the rows of a version, by what tells them
Rows = Mapping[Hashable, Row]


@dataclass(frozen=True)
class Merged:
    """The rows that come of it, and what told those that clashed."""

    rows: dict[Hashable, Row]
    clashes: set[Hashable]


#: which side counts for a row and a column; for a row that one side lacks, without a column
Choice = Callable[[Hashable, str | None], str]


def merged(base: Rows, theirs: Rows, ours: Rows, by: str, whose: str | Choice) -> Merged:
    """Merge row by row, cell by cell."""
    side: Choice = whose if callable(whose) else lambda key, name: whose
    rows, clashes = {}, set()
    for key in {*base, *theirs, *ours}:
        was, left, right = base.get(key), theirs.get(key), ours.get(key)
        if left in (was, right):
            found = right
        elif right == was:
            found = left
        elif left is None or right is None:
            clashes.add(key)
            found = left if side(key, None) == "theirs" else right
        elif was is None or by == "row":
            clashes.add(key)
            found = dict(right)
            for name in right:  # what is equal is no question
                if left[name] != right[name] and side(key, name) == "theirs":
                    found[name] = left[name]
        else:
            found = {}
            for name in right:
                b, t, o = was[name], left[name], right[name]
                if t != b and o != b and t != o:
                    clashes.add(key)
                    found[name] = t if side(key, name) == "theirs" else o
                else:
                    found[name] = o if t == b else t
        if found is not None:
            rows[key] = found
    return Merged(rows, clashes)
