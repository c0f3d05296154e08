"""What both libraries answer to the same question, side by side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk

ROWS = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]})


def both(path: Path, ask: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return what each library answers of one dataset."""
    return ask(lk.dataset(path)), ask(lance.dataset(path))


@pytest.mark.parametrize("library", [lk, lance])
def test_max_field_id_counts_what_files_still_hold(tmp_path: Path, library: ModuleType) -> None:
    library.write_dataset(ROWS, tmp_path)
    steps: list[tuple[Callable[[Any], Any], int]] = [
        (lambda ds: ds.add_columns({"c": "a + 1", "d": "a + 2"}), 3),
        (lambda ds: ds.drop_columns(["d"]), 3),
        (lambda ds: ds.alter_columns({"path": "c", "data_type": pa.int32()}), 4),
        (lambda ds: ds.drop_columns(["b"]), 4),
        (lambda ds: ds.drop_columns(["c"]), 1),
    ]
    for step, highest in steps:
        step(library.dataset(tmp_path))
        assert both(tmp_path, lambda ds: ds.max_field_id) == (highest, highest)


@pytest.mark.parametrize(
    "columns",
    [
        ["_rowid", "_rowid"],
        ["a", "a"],
        ["_rowaddr", "a", "_rowid", "_rowaddr"],
        ["s.x", "_rowid", "s.y", "s.x", "_rowid"],
        ["b", "_rowaddr", "a"],
    ],
)
def test_columns_of_take_that_are_named_twice(tmp_path: Path, columns: list[str]) -> None:
    structs = [{"x": 1, "y": 2}, {"x": 3, "y": 4}, None]
    lance.write_dataset(ROWS.append_column("s", pa.array(structs)), tmp_path)
    mine, theirs = both(tmp_path, lambda ds: ds.take([2, 0], columns=columns))
    assert mine.equals(theirs)
