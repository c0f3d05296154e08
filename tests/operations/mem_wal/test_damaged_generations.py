"""Generations that cannot be read whole: written again, or named with their keys."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import lancekit as lk
from lancekit._format.mem_wal.names import LOGS
from lancekit._operations.mem_wal.reader import sources
from lancekit.errors import CorruptFileError
from tests.support.damaged_logs import FOLDER, REPAIR, cut, made, works
from tests.support.shards import SHARD


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read again at once what cannot be read: nobody merges it meanwhile."""
    monkeypatch.setattr(sources, "_PAUSE_SECONDS", 0)


#: which files of a generation are damaged
FILES = ["data/*", "_pk_index/page_data.lance", "_pk_index/page_lookup.lance", "_deletions/*"]
FILES += ["_versions/*.manifest"]


@pytest.mark.cover(2)
@pytest.mark.parametrize("damage", [cut, Path.unlink])
@pytest.mark.parametrize("files", FILES)
@pytest.mark.parametrize("collected", [False, True])
def test_a_generation_is_written_again_from_its_data_file_or_the_log(
    tmp_path: Path, files: str, damage: Callable[[Path], object], collected: bool
) -> None:
    ds = made(tmp_path, collected=collected)
    (file,) = (tmp_path / FOLDER).glob(f"*_gen_1/{files}")
    damage(file)
    kept = sorted(f.read_bytes() for f in (file.parent.parent).rglob("*") if f.is_file())
    if "_pk_index" not in files:
        with pytest.raises(CorruptFileError, match=f"{LOGS}.*{REPAIR}"):
            lk.dataset(tmp_path).to_table(include_mem_wal=True)
    found, *entries = ds.repair_mem_wal()
    assert found.generation == 1
    assert found.file is not None
    assert [one.position is not None for one in entries] == [True] * len(entries)
    aside = Path(found.file)
    assert sorted(f.read_bytes() for f in aside.rglob("*") if f.is_file()) == kept
    is_lost = collected and files == "data/*"
    assert len(entries) == is_lost  # the last one, which a cleanup keeps
    assert found.rows == (4 if is_lost else 0)
    if is_lost:
        assert found.keys.to_pydict() == {"id": [1, 2, 2, 3]}
        assert "4 rows lost (id 1, 2, 2, 3)" in found.words
    works(tmp_path, 0, *(() if is_lost else (1, 2, 3)), 4)


def test_columns_that_are_left_of_a_lost_generation_are_read_by_the_call_that_is_named(
    tmp_path: Path,
) -> None:
    ds = made(tmp_path, collected=True)
    (file,) = (tmp_path / FOLDER).glob("*_gen_1/data/*")
    data = file.read_bytes()
    at = data.index(b"v2")
    file.write_bytes(data[:at] + b"?" + data[at + 1 :])
    with pytest.raises(CorruptFileError, match=REPAIR):
        lk.dataset(tmp_path).merge_mem_wal()
    found, _entry = ds.repair_mem_wal()
    assert found.rows == 4
    left = eval(found.read_by, {"lancekit": lk})
    assert left["id"].to_pylist() == [1, 2, 2, 3]
    assert f"{found.read_by} reads the remaining rows" in found.words
    works(tmp_path, 0, 4)


def test_the_report_has_whole_paths_below_the_table(tmp_path: Path) -> None:
    ds = made(tmp_path, collected=True)
    shutil.rmtree(next((tmp_path / FOLDER).glob("*_gen_1")) / "data")
    done = ds.repair_mem_wal()
    assert (tmp_path / done[0].path).is_dir()
    assert done[0].path in repr(done)
    assert done[0].path in done._repr_html_()


def test_deleted_rows_of_structs_are_read_and_repaired_in_format_20(tmp_path: Path) -> None:
    """Its files have no null structs: those of generations and of memory are newer."""
    structs = [{"id": number, "s": {"a": number}} for number in range(4)]
    ds = lk.write_dataset(structs, tmp_path, primary_key="id", data_storage_version="2.0")
    ds.initialize_mem_wal()
    writer = ds.mem_wal_writer(SHARD)
    writer.put(structs[:2])
    writer.delete({"id": [3]})
    for step in ("memory and log", "generation", "repaired"):
        if step == "generation":
            writer.close()
        if step == "repaired":
            shutil.rmtree(next((tmp_path / FOLDER).glob("*_gen_1")) / "data")
            (found,) = ds.repair_mem_wal()
            assert found.rows == 0
        read = lk.dataset(tmp_path).to_table(include_mem_wal=True, order_by=["id"])
        assert read.to_pylist() == structs[:3]
        if step == "memory and log":
            scanned = writer.lsm_scanner().to_table().to_pylist()
            assert sorted(scanned, key=lambda row: row["id"]) == structs[:3]
