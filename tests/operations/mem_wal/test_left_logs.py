"""Rows of logs that have ended do not come into the table that follows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import pytest

import lancekit as lk
from lancekit.errors import ShardError
from lancekit.format.mem_wal.names import LOGS, MEM_WAL


def upsert(ds: lk.LanceDataset) -> None:
    ds.mem_wal_upsert({"id": [9], "v": [9]})


def _rows_in_logs(path: Path) -> lk.LanceDataset:
    ds = lk.write_dataset({"id": [1, 2], "v": [10, 20]}, path, primary_key="id")
    ds.mem_wal_upsert({"id": [1, 4], "v": [11, 44]})
    return ds


ENDINGS: dict[str, Callable[[Path], object]] = {
    "overwrite": lambda path: lance.write_dataset(
        lance.dataset(path).to_table(), path, mode="overwrite"
    ),
    "restore": lambda path: lance.dataset(path, version=1).restore(),
}


@pytest.mark.parametrize("do", [lambda ds: ds.initialize_mem_wal(), upsert])
@pytest.mark.parametrize("ending", ENDINGS)
def test_after_an_end_by_the_reference(
    tmp_path: Path, ending: str, do: Callable[..., object]
) -> None:
    path = tmp_path / "t"
    _rows_in_logs(path)
    ENDINGS[ending](path)
    lance.dataset(path).delete("id = 100")  # some version more
    with pytest.raises(ShardError, match=f"of '{ending}'.*{LOGS}. Move the folder"):
        do(lk.dataset(path))
    shutil.move(path / LOGS, tmp_path / "old")
    do(lk.dataset(path))
    found = lk.dataset(path).to_table(filter="id < 9", include_mem_wal=True)
    assert sorted(found["v"].to_pylist()) == [10, 20]


def test_after_a_drop_the_logs_go_on(tmp_path: Path) -> None:
    path = tmp_path / "t"
    _rows_in_logs(path)
    lance.dataset(path).drop_index(MEM_WAL)
    upsert(lk.dataset(path))
    found = lk.dataset(path).to_table(include_mem_wal=True)
    assert sorted(found["id"].to_pylist()) == [1, 2, 4, 9]


def test_after_an_end_without_rows_in_logs(tmp_path: Path) -> None:
    path = tmp_path / "t"
    ds = _rows_in_logs(path)
    ds.merge_mem_wal(flush=True)
    ENDINGS["overwrite"](path)
    upsert(lk.dataset(path))
    assert lk.dataset(path).count_rows(include_mem_wal=True) == 4
