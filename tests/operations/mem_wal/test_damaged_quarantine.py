"""Tables of the quarantine that cannot be read: one call goes on without them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import lancekit as lk
from lancekit._format.mem_wal.names import LOGS
from lancekit._operations.mem_wal.reader import sources
from lancekit.errors import CorruptFileError, ReadOnlyError
from tests.support.damaged_logs import REPAIR


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read again at once what cannot be read: nobody merges it meanwhile."""
    monkeypatch.setattr(sources, "_PAUSE_SECONDS", 0)


def quarantined(path: Path) -> Any:
    ds = lk.write_dataset({"id": [0], "v": [0]}, path, primary_key="id")
    ds.mem_wal_upsert({"id": [1, 2], "v": [-7, -8]}, flush=True)
    ds.constraints.add("positive", "v >= 0")
    ds.merge_mem_wal(on_error="quarantine")
    return ds


@pytest.mark.parametrize("files", ["data", "_versions", ""])
def test_a_damaged_quarantine_stops_nothing_after_a_repair(tmp_path: Path, files: str) -> None:
    ds = quarantined(tmp_path)
    (table,) = (tmp_path / LOGS / "quarantine").iterdir()
    shutil.rmtree(table / files)
    ds.mem_wal_upsert({"id": [2, 3], "v": [2, 3]}, flush=True)
    for call in (
        lambda: lk.dataset(tmp_path).mem_wal_quarantine(),
        lambda: lk.dataset(tmp_path).merge_mem_wal(),
    ):
        with pytest.raises(CorruptFileError, match=f"{table}.*{REPAIR}"):
            call()
    with pytest.raises(ReadOnlyError):
        ds.at(ds.version).repair_mem_wal()
    (found,) = ds.repair_mem_wal()
    assert found.quarantine == table.name
    is_whole = files == "_versions"
    assert found.rows == {"data": 2, "_versions": 0, "": None}[files]
    assert (found.file is None) is (files == "")
    assert ds.mem_wal_quarantine().to_table()["id"].to_pylist() == ([1, 2] if is_whole else [])
    ds.merge_mem_wal()
    assert sorted(ds.to_table()["id"].to_pylist()) == ([0, 3] if is_whole else [0, 2, 3])
    assert ds.repair_mem_wal() == []
    if is_whole:
        ds.mem_wal_quarantine().put_back({"id": [1, 2], "v": [1, 2]})
        assert sorted(ds.to_table()["v"].to_pylist()) == [0, 1, 2, 3]
