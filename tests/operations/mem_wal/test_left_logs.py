"""Rows of logs that have ended do not come into the table that follows."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format.mem_wal.names import LOGS, MEM_WAL
from lancekit.errors import ShardError


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
    with pytest.raises(ShardError, match=f"by '{ending}'.*Move .*{LOGS} to another place"):
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


def _writes(ds: Any) -> Any:
    return ds.mem_wal_writer(str(uuid.UUID(int=1)))


@pytest.mark.parametrize("primary_key", [True, False])
def test_one_hint_is_enough_after_an_overwrite(tmp_path: Path, primary_key: bool) -> None:
    """Each call that fails names the folder to move, and then the same rows can be put."""
    path = tmp_path / "t"
    ds = _rows_in_logs(path)
    ds.mem_wal_upsert({"id": [5], "v": [5]})
    rows = lance.dataset(path).to_table()
    plain = pa.table(rows.columns, rows.column_names)
    lance.write_dataset(rows if primary_key else plain, path, mode="overwrite")
    with pytest.raises(ShardError, match=f"Move .*{LOGS} to another place") as caught:
        ds.mem_wal_upsert({"id": [6], "v": [6]})
    assert str(caught.value).count("mem_wal_upsert(rows)") == 1
    for do in (_writes, upsert, lambda ds: ds.merge_mem_wal(), lambda ds: ds.cleanup_mem_wal()):
        with pytest.raises(ShardError, match=f"Move .*{LOGS} to another place"):
            do(lk.dataset(path))
    shutil.move(path / LOGS, tmp_path / "old")
    if not primary_key:
        lk.dataset(path).initialize_mem_wal(unsharded=True)
    upsert(lk.dataset(path))
