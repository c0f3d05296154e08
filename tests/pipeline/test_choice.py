"""Where work on the user's rows runs, by how many they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._hooks import hooks
from lancekit._pipeline.engine import choose_source

COLUMNS = {"x": [1, 2, 3]}
TABLE = pa.table(COLUMNS)

KNOWN: dict[str, Any] = {
    "table": TABLE,
    "batch": TABLE.to_batches()[0],
    "batches": TABLE.slice(1).to_batches() + TABLE.slice(2).to_batches(),
    "pandas": pd.DataFrame(COLUMNS),
    "Polars": pl.DataFrame(COLUMNS),
    "columns": COLUMNS,
    "rows": [{"x": 1}, {"x": 2}, {"x": 3}],
}


@pytest.mark.parametrize("kind", KNOWN)
def test_what_knows_its_length(kind: str) -> None:
    assert choose_source(KNOWN[kind], is_frame=False).why.startswith("3 rows are fewer than")


def test_a_dataset_knows_its_rows(tmp_path: Path) -> None:
    lance.write_dataset(TABLE, tmp_path).delete("x = 1")
    ds = lk.dataset(tmp_path)
    assert choose_source(ds, is_frame=False).why.startswith("2 rows are fewer than")


@pytest.mark.parametrize("rows", [TABLE.to_reader(), iter(TABLE.to_batches()), None])
def test_what_has_to_be_read_is_not_counted(rows: Any) -> None:
    assert "is unknown" in choose_source(rows, is_frame=False).why


def test_a_merge_is_explained_with_the_rows_of_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks.spark, "is_active", lambda: False)  # a test before may have one
    ds = lk.write_dataset({"x": [1]}, "memory://choice-of-a-merge")
    told = ds.merge_insert("x").when_not_matched_insert_all().explain(pd.DataFrame(COLUMNS))
    assert "not known" not in str(told)
    assert "3 rows are fewer" in told.why
    assert "are fewer" not in str(told)  # there is no choice without a session
