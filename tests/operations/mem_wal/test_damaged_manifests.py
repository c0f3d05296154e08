"""Manifests of shards that are damaged, and logs without their end: the shard goes on."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format.mem_wal.names import MANIFESTS, position
from lancekit._operations.mem_wal.reader import sources
from lancekit.errors import CorruptFileError
from tests.support.damaged_logs import FOLDER, REPAIR, cut, made, read, rows, works
from tests.support.shards import SHARD


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read again at once what cannot be read: nobody merges it meanwhile."""
    monkeypatch.setattr(sources, "_PAUSE_SECONDS", 0)


def manifests(path: Path) -> list[Path]:
    found = (path / FOLDER / MANIFESTS).glob("*.binpb")
    return sorted(found, key=lambda file: position(file.name))


@pytest.mark.cover(2)
@pytest.mark.parametrize("how_many", [1, 2, 99])
@pytest.mark.parametrize("collected", [False, True])
@pytest.mark.parametrize("merged", [False, True])
def test_older_manifests_stand_in_for_damaged_ones(
    tmp_path: Path, how_many: int, collected: bool, merged: bool
) -> None:
    ds = made(tmp_path, collected=False)
    for _ in range(2):
        ds.mem_wal_writer(SHARD).close()
        ds.mem_wal_writer(SHARD).put(rows(5))
    with ds.mem_wal_writer(SHARD) as last:
        last.put(rows(6))
    if merged:
        ds.merge_mem_wal()
    if collected:
        ds.cleanup_mem_wal(grace=timedelta(0))
    expected = read(tmp_path)
    damaged = manifests(tmp_path)[-how_many:]
    for file in damaged:
        cut(file)
    with pytest.raises(CorruptFileError, match=f"{MANIFESTS}.*{REPAIR}"):
        read(tmp_path)
    done = lk.dataset(tmp_path).repair_mem_wal()
    assert [one.manifest for one in done if one.manifest] == [
        position(file.name) for file in reversed(damaged)
    ]
    assert all(Path(one.file).is_file() for one in done if one.manifest and one.file)
    if how_many < 99:
        works(tmp_path, *expected)
    else:  # no manifest is left: all files are copied aside
        assert {one.generation for one in done if one.rows} >= ({1} if not collected else set())
        works(tmp_path, 0, *([1, 2, 3, 4, 5, 6] if merged else []))


def test_a_damaged_older_manifest_stops_a_cleanup_until_a_repair(tmp_path: Path) -> None:
    ds = made(tmp_path, collected=False)
    cut(manifests(tmp_path)[1])
    with pytest.raises(CorruptFileError, match=REPAIR):
        ds.cleanup_mem_wal()
    writer = ds.mem_wal_writer(SHARD)
    (found,) = ds.repair_mem_wal()
    assert (found.manifest, found.rows) == (2, 0)
    writer.put(rows(5))  # nothing that the writer needs was damaged
    ds.cleanup_mem_wal()
    works(tmp_path, 0, 1, 2, 3, 4, 5)


def test_a_manifest_of_the_reference_that_contradicts_the_log_is_moved_aside(
    tmp_path: Path,
) -> None:
    ds = lk.write_dataset(rows(0), tmp_path, primary_key="id")
    ds.initialize_mem_wal()
    reference = lance.dataset(str(tmp_path))
    for ids in ([1], [2]):
        with reference.mem_wal_writer(SHARD) as writer:
            writer.put(pa.table(rows(*ids), schema=reference.schema))
    newest = manifests(tmp_path)[-1]
    data = bytearray(newest.read_bytes())
    at = next(i for i in range(30) if data[i] == 6 << 3)  # the next generation
    data[at + 1] = 1
    newest.write_bytes(data)
    with pytest.raises(CorruptFileError, match=f"contradict.*{REPAIR}"):
        read(tmp_path)
    assert lk.dataset(tmp_path).repair_mem_wal()
    works(tmp_path, 0, 1, 2)


def log(path: Path) -> list[Path]:
    found = (path / FOLDER / "wal").glob("*.arrow")
    return sorted(found, key=lambda file: position(file.name))


def test_a_log_goes_on_behind_its_lost_end_after_a_repair(tmp_path: Path) -> None:
    ds = made(tmp_path, collected=False)
    ds.mem_wal_writer(SHARD).put(rows(5))
    ds.mem_wal_writer(SHARD).put(rows(6))  # its manifest tells of the sentinel before
    gone = log(tmp_path)[-4:]
    for file in gone:
        file.unlink()
    with pytest.raises(CorruptFileError, match=r"the log had an entry at position") as caught:
        read(tmp_path)
    assert MANIFESTS not in str(caught.value.context["file"])
    assert "ds.repair_mem_wal()" in caught.value.hint
    (found,) = ds.repair_mem_wal()
    first = position(gone[0].name)
    assert (found.position, found.file, found.rows) == (first, None, None)
    assert found.last_position == first + 2
    assert found.called == f"entries {first} to {first + 2}"
    works(tmp_path, 0, 1, 2, 3, 4)


def test_rows_that_are_put_after_the_whole_log_was_lost_are_read(tmp_path: Path) -> None:
    ds = lk.write_dataset(rows(0), tmp_path, primary_key="id")
    ds.initialize_mem_wal()
    for number in (1, 2):
        with ds.mem_wal_writer(SHARD) as writer:
            writer.put(rows(number))
    shutil.rmtree(tmp_path / FOLDER / "wal")
    lk.dataset(tmp_path).mem_wal_writer(SHARD).put(rows(3))
    assert read(tmp_path) == [0, 1, 2, 3]
    works(tmp_path, 0, 1, 2, 3)
