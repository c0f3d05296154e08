"""What is done in a process of its own, with each library: one function for each case.

This module is imported by those processes, so it imports no library that is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["CASES", "Given", "scattered", "upsert"]

#: what an update changes, and a delete removes: so many of a thousand codes
_CODES = 10


@dataclass(frozen=True)
class Given:
    """What a case is given: where the dataset is, its rows or versions, which call this is."""

    at: str
    rows: int
    turn: int = 0
    #: rows to write, where the case writes some
    source: pa.Table | None = None
    #: rows to take
    positions: tuple[int, ...] = ()

    @property
    def middle(self) -> int:
        """An id in the middle."""
        return self.rows // 2

    @property
    def codes(self) -> tuple[int, int]:
        """A range of codes, which one row of a hundred has; others in each call."""
        return self.turn * _CODES, (self.turn + 1) * _CODES


def scattered(rows: int) -> tuple[int, ...]:
    """Return the positions of a thousand rows, all over and in no order; the same each time."""
    drawn = np.random.default_rng(5).choice(rows, min(1000, rows), replace=False)
    return tuple(int(position) for position in drawn)


Run = Callable[[Any, Given], object]


def _open(module: Any, given: Given) -> Any:
    return module.dataset(given.at)


def upsert(dataset: Any, source: Any) -> object:
    """Merge rows by their id: known ones are updated, others inserted."""
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return merge.execute(source)


def _merge(module: Any, given: Given) -> object:
    return upsert(_open(module, given), given.source)


def _filter(condition: str) -> Run:
    def run(module: Any, given: Given) -> object:
        return _open(module, given).to_table(filter=condition)

    return run


def _neighbours(module: Any, given: Given) -> object:
    first = given.middle
    return _open(module, given).to_table(filter=f"id >= {first} AND id < {first + 1000}")


def _update(module: Any, given: Given) -> object:
    low, high = given.codes
    where = f"code >= {low} AND code < {high}"
    return _open(module, given).update({"amount": "amount + 1"}, where=where)


def _delete(module: Any, given: Given) -> object:
    low, high = given.codes
    return _open(module, given).delete(f"code >= {low} AND code < {high}")


#: what is done with pylance or lancekit
CASES: dict[str, Run] = {
    "create": lambda m, g: m.write_dataset(g.source, g.at),
    "create 100": lambda m, g: m.write_dataset(g.source, g.at, max_rows_per_file=g.rows // 100),
    "open": _open,
    "open by number": lambda m, g: m.dataset(g.at, version=max(g.rows // 2, 1)),
    "list by number": lambda m, g: [v["version"] for v in _open(m, g).versions()],
    "list with times": lambda m, g: [v["timestamp"] for v in _open(m, g).versions()],
    "scan": lambda m, g: _open(m, g).to_table(),
    "two columns": lambda m, g: _open(m, g).to_table(columns=["id", "amount"]),
    "one column": lambda m, g: _open(m, g).to_table(columns=["id"]),
    "filter": _filter("code = 7"),
    "neighbours": _neighbours,
    "count": lambda m, g: _open(m, g).count_rows("code = 7"),
    "take": lambda m, g: _open(m, g).take(list(g.positions)),
    "append": lambda m, g: m.write_dataset(g.source, g.at, mode="append"),
    "merge": _merge,
    "update": _update,
    "delete": _delete,
    "add column": lambda m, g: _open(m, g).add_columns({f"twice_{g.turn}": "amount * 2"}),
    "compact": lambda m, g: _open(m, g).optimize.compact_files(),
}
