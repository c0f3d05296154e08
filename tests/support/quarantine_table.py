"""What tests of the quarantine ask of a table: its rows, and the rows that wait."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance

from tests.support.mem_wal_model import Rows, write_with_pylance

__all__ = ["ONE", "OTHERS", "THREE", "TWO", "Make", "put", "rows_of", "values", "waiting"]

ONE, TWO, THREE = (str(uuid.UUID(int=number)) for number in (1, 2, 3))
OTHERS = {0: 0.0, 3: 3.0, 4: 4.0}

Make = Callable[..., Any]


def put(path: Path, shard: str, rows: Rows, gone: tuple[int, ...] = ()) -> None:
    """Write a generation with pylance, which knows no constraints."""
    write_with_pylance(lance.dataset(str(path)), shard, rows, list(gone))


def values(path: Path) -> dict[int, float | None]:
    """Return the values of a table by key, as pylance reads it."""
    table = lance.dataset(str(path)).to_table()
    assert table.num_rows == len(set(table["id"].to_pylist()))
    return dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


def waiting(ds: Any) -> list[tuple[int, float | None, str, int]]:
    """Return the rows in quarantine: key, value, shard, generation."""
    names = ["id", "v", "_quarantine_shard", "_quarantine_generation"]
    return [tuple(row[name] for name in names) for row in rows_of(ds)]


def rows_of(ds: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ds.mem_wal_quarantine().to_table().to_pylist()
    return rows
