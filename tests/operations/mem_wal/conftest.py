"""A table for tests of the quarantine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import pytest

import lancekit as lk
from tests.support.mem_wal_model import table_of, write_with_pylance
from tests.support.quarantine_table import ONE, THREE, TWO, Make


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a table with three shards: ONE has a row with -5.0, key 1; all other rows are sound."""
    path = tmp_path_factory.mktemp("quarantine") / "t"
    ds = lance.write_dataset(table_of({key: (float(key), "") for key in range(5)}), str(path))
    ds.initialize_mem_wal()
    write_with_pylance(ds, ONE, {1: (-5.0, "bad"), 10: (10.0, "")}, [2])
    write_with_pylance(ds, TWO, {20: (20.0, "")}, [])
    write_with_pylance(ds, THREE, {30: (30.0, "")}, [])
    return path


@pytest.fixture
def made(saved: Path) -> Make:
    """Return what copies the table, and adds a constraint."""

    def make(path: Path, constraint: str = "v >= 0") -> Any:
        shutil.copytree(saved, path)
        ds = lk.dataset(str(path))
        ds.constraints.add("positive", constraint)
        return ds

    return make
