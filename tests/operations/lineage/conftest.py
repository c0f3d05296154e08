"""A small table in two fragments, whose rows are told by addresses or by ids."""

from __future__ import annotations

from pathlib import Path

import pytest

import lancekit as lk


@pytest.fixture(params=[False, True], ids=["addresses", "stable"])
def ds(request: pytest.FixtureRequest, tmp_path: Path) -> lk.LanceDataset:
    rows = {"id": [1, 2, 3, 4], "name": ["a", "b", "c", "d"], "age": [1, 2, 3, 4]}
    return lk.write_dataset(
        rows,
        tmp_path / "t",
        primary_key="id",
        enable_stable_row_ids=request.param,
        max_rows_per_file=2,
    )
