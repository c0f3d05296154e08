"""Files of shards that are gone: an error names them, and a repair keeps what is left."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format.mem_wal.names import LOGS, MANIFESTS, position
from lancekit._operations.mem_wal.reader import sources
from lancekit.errors import CorruptFileError, FencedError
from tests.support.shards import SHARD

FOLDER = Path(LOGS) / SHARD


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read again at once what cannot be read: nobody merges it meanwhile."""
    monkeypatch.setattr(sources, "_PAUSE_SECONDS", 0)


def rows(*ids: int) -> dict[str, list[int]]:
    return {"id": list(ids), "v": list(ids)}


def made(path: Path, *, generation: bool = True, log: bool = True) -> lk.ShardWriter:
    """Put id 1 into a generation and id 2 into the log of a shard of a table with id 0."""
    ds = lk.write_dataset(rows(0), path, primary_key="id")
    ds.initialize_mem_wal()
    if generation:
        with ds.mem_wal_writer(SHARD) as first:
            first.put(rows(1))
    writer = ds.mem_wal_writer(SHARD)
    if log:
        writer.put(rows(2))
    return writer


def read(path: Path) -> list[int]:
    found = lk.dataset(path).to_table(columns=["id"], include_mem_wal=True)
    return sorted(found.column(0).to_pylist())


def remove_manifests(path: Path) -> None:
    for file in (path / FOLDER / MANIFESTS).glob("*.binpb"):
        file.unlink()


LOSSES: dict[str, Callable[[Path], object]] = {
    "manifests": remove_manifests,
    "the folder of manifests": lambda path: shutil.rmtree(path / FOLDER / MANIFESTS),
}
REFUSED: dict[str, Callable[[Any], object]] = {
    "read": lambda ds: ds.to_table(include_mem_wal=True),
    "count": lambda ds: ds.count_rows(include_mem_wal=True),
    "look up": lambda ds: ds.to_table(filter="id = 1", include_mem_wal=True),
    "list": lambda ds: ds.mem_wal_shards(),
    "writer": lambda ds: ds.mem_wal_writer(SHARD),
    "merge": lambda ds: ds.merge_mem_wal(),
    "merge and flush": lambda ds: ds.merge_mem_wal(flush=True),
    "cleanup": lambda ds: ds.cleanup_mem_wal(),
    "overwrite": lambda ds: lk.write_dataset(rows(5), ds.uri, mode="overwrite"),
    "restore": lambda ds: lk.dataset(ds.uri, version=1).restore(),
    "drop": lambda ds: ds.drop_index("__lance_mem_wal"),
}


@pytest.mark.parametrize("what", ["generation", "log", "both"])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_lost_manifests_are_an_error(
    tmp_path: Path, loss: Callable[[Path], object], what: str
) -> None:
    made(tmp_path, generation=what != "log", log=what != "generation")
    loss(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    for name, call in REFUSED.items():
        with pytest.raises(CorruptFileError, match=f"{SHARD}.*{MANIFESTS}.*") as caught:
            call(lk.dataset(tmp_path))
        assert "ds.repair_mem_wal()" in caught.value.hint, name
    assert not lk.dataset(tmp_path).to_table().num_rows > 1
    assert sorted(tmp_path.rglob("*")) == before
    assert "unmerged rows" in repr(lk.dataset(tmp_path))


@pytest.mark.parametrize("what", ["generation", "log", "both"])
def test_a_repair_begins_a_shard_without_manifests_again(tmp_path: Path, what: str) -> None:
    writer = made(tmp_path, generation=what != "log", log=what != "generation")
    remove_manifests(tmp_path)
    ds = lk.dataset(tmp_path)
    found = ds.repair_mem_wal()
    assert found
    assert "moved aside" in repr(found)
    kept = []
    for one in found:
        assert one.file is not None
        if one.generation is None:
            kept += pa.ipc.open_stream(Path(one.file).read_bytes()).read_all()["id"].to_pylist()
        else:
            kept += lk.dataset(one.file).to_table()["id"].to_pylist()
    assert set(kept) == {"generation": {1}, "log": {2}, "both": {1, 2}}[what]
    with pytest.raises(FencedError):
        writer.put(rows(3))
    assert read(tmp_path) == [0]
    ds.mem_wal_upsert(rows(4))
    with ds.mem_wal_writer(SHARD) as again:
        again.put(rows(5))
        assert read(tmp_path) == [0, 4, 5]
    ds.merge_mem_wal(flush=True)
    assert sorted(lk.dataset(tmp_path).to_table()["id"].to_pylist()) == [0, 4, 5]
    assert not ds.repair_mem_wal()


def test_a_lost_folder_of_a_shard_is_an_error(tmp_path: Path) -> None:
    writer = made(tmp_path)
    lk.dataset(tmp_path).merge_mem_wal()
    kept = tmp_path / FOLDER
    kept.rename(tmp_path / "kept")
    with pytest.raises(FencedError, match="not written"):
        writer.put(rows(3))
    for _ in range(2):
        for call in REFUSED.values():
            with pytest.raises(CorruptFileError, match=SHARD):
                call(lk.dataset(tmp_path))
        shutil.rmtree(kept, ignore_errors=True)
    ds = lk.dataset(tmp_path)
    (found,) = ds.repair_mem_wal()
    assert found.file is None
    assert read(tmp_path) == [0, 1, 2]
    with ds.mem_wal_writer(SHARD) as again:
        again.put(rows(4))
    assert ds.mem_wal_shards()[0].generations[0].number == 3
    ds.merge_mem_wal()
    assert read(tmp_path) == [0, 1, 2, 4]


def test_branches_and_clones_do_not_miss_the_shards_of_their_source(tmp_path: Path) -> None:
    made(tmp_path / "t", log=False)
    ds = lk.dataset(tmp_path / "t")
    ds.merge_mem_wal()
    branch = ds.create_branch("b")
    shallow = ds.shallow_clone(str(tmp_path / "shallow"), None)
    shutil.copytree(
        tmp_path / "t", tmp_path / "deep", ignore=lambda *_: [LOGS]
    )  # the history tells of the shard
    for line in (branch, shallow):
        for _ in range(2):
            assert line.to_table(include_mem_wal=True).num_rows == 2
            assert line.merge_mem_wal()["num_merged_generations"] == 0
            assert list(line.mem_wal_shards()) == []
            line.delete("id = 77")
            line.cleanup_old_versions(delete_unverified=True, retain_versions=1)
    assert read(tmp_path / "deep") == [0, 1]  # without any logs


def test_what_is_no_loss_is_no_error(tmp_path: Path) -> None:
    made(tmp_path, log=False).close()
    ds = lk.dataset(tmp_path)
    begun = tmp_path / LOGS / "00000000-0000-4000-8000-000000000001"
    (begun / MANIFESTS).mkdir(parents=True)  # the first manifest is about to be written
    # only the sentinel of a claim is left: a shard without rows
    left = tmp_path / LOGS / "00000000-0000-4000-8000-000000000002"
    for _ in range(2):
        ds.mem_wal_writer(left.name).close()
    remove_manifests_of(left)
    assert read(tmp_path) == [0, 1]
    ds.merge_mem_wal()
    assert read(tmp_path) == [0, 1]


def remove_manifests_of(shard: Path) -> None:
    for file in (shard / MANIFESTS).glob("*.binpb"):
        file.unlink()


@pytest.mark.cover
@pytest.mark.parametrize("collected", [False, True])
@pytest.mark.parametrize("loss", ["folder", "manifest"])
def test_a_lost_generation_is_named_and_can_be_given_up(
    tmp_path: Path, loss: str, collected: bool
) -> None:
    writer = made(tmp_path)
    ds = lk.dataset(tmp_path)
    (generation,) = ds.mem_wal_shards()[0].generations
    folder = tmp_path / FOLDER / generation.path
    if collected:
        ds.cleanup_mem_wal(grace=timedelta(0))
    if loss == "folder":
        shutil.rmtree(folder)
    else:
        (file,) = (folder / "_versions").glob("*.manifest")
        file.write_bytes(file.read_bytes()[:-40])
    for call in (read, lambda path: lk.dataset(path).merge_mem_wal()):
        with pytest.raises(CorruptFileError, match=f"{folder}.*") as caught:
            call(tmp_path)
        assert "ds.repair_mem_wal()" in caught.value.hint
    writer.put(rows(3))
    found = ds.repair_mem_wal()
    kept = []
    for one in found:
        if one.position is not None:
            kept += pa.ipc.open_stream(Path(one.file).read_bytes()).read_all()["id"].to_pylist()
    # the last entry of a log stays; a generation is written again from the log, or its data file
    is_lost = collected and loss == "folder"
    assert kept == []
    assert (found[0].rows, len(found)) == (int(is_lost), 1)
    with pytest.raises(FencedError):
        writer.put(rows(4))
    left = [0, *([] if is_lost else [1]), 2, 3]
    assert read(tmp_path) == left
    ds.mem_wal_upsert(rows(5))
    ds.merge_mem_wal(flush=True)
    assert read(tmp_path) == [*left, 5]
    assert not ds.repair_mem_wal()


def test_a_writer_whose_manifest_is_lost_is_fenced(tmp_path: Path) -> None:
    writer = made(tmp_path)
    files = sorted(
        (tmp_path / FOLDER / MANIFESTS).glob("*.binpb"), key=lambda file: position(file.name)
    )
    for file in files[-2:]:  # its claim
        file.unlink()
    with pytest.raises(FencedError):
        lk.dataset(tmp_path).mem_wal_writer(SHARD)
    with lk.dataset(tmp_path).mem_wal_writer(SHARD) as again:
        again.put(rows(3))
    with pytest.raises(FencedError):
        writer.put(rows(4))
    assert read(tmp_path) == [0, 1, 2, 3]


@pytest.mark.parametrize("library", ["lancekit", "pylance"])
@pytest.mark.parametrize("many", [1, 2, 3])
def test_without_the_newest_manifests_rows_are_read_or_missed(
    tmp_path: Path, many: int, library: str
) -> None:
    if library == "lancekit":
        made(tmp_path)
    else:
        lk.write_dataset(rows(0), tmp_path, primary_key="id")
        ds = lance.dataset(str(tmp_path))
        ds.initialize_mem_wal()
        with ds.mem_wal_writer(SHARD) as writer:
            writer.put(pa.table(rows(1)))
        writer = ds.mem_wal_writer(SHARD)
        writer.put(pa.table(rows(2)))
    folder = tmp_path / FOLDER / MANIFESTS
    files = sorted(folder.glob("*.binpb"), key=lambda file: position(file.name))
    for file in files[-min(many, len(files) - 1) :]:
        file.unlink()
    try:
        assert read(tmp_path) == [0, 1, 2]
    except CorruptFileError as error:
        assert LOGS in str(error)  # noqa: PT017
        return
    with suppress(FencedError):  # the epoch is taken where the manifest of a claim is lost
        lk.dataset(tmp_path).mem_wal_writer(SHARD)
    with lk.dataset(tmp_path).mem_wal_writer(SHARD) as again:
        again.put(rows(3))
    assert read(tmp_path) == [0, 1, 2, 3]


@pytest.mark.parametrize("later", ["nothing", "an entry", "a writer"])
def test_the_newest_entry_is_missed_if_anything_tells_of_it(tmp_path: Path, later: str) -> None:
    writer = made(tmp_path)
    writer.put(rows(3))
    if later == "a writer":
        lk.dataset(tmp_path).mem_wal_writer(SHARD)
    if later == "an entry":
        writer.put(rows(4))
    files = sorted((tmp_path / FOLDER / "wal").iterdir(), key=lambda file: position(file.name))
    for file in files[3:4] if later == "an entry" else files[3:]:  # id 3, and a sentinel
        file.unlink()
    if later == "nothing":
        assert read(tmp_path) == [0, 1, 2]
        return
    with pytest.raises(CorruptFileError, match=LOGS):
        read(tmp_path)


def test_a_shard_that_a_version_has_merged_is_repaired_without_manifests(tmp_path: Path) -> None:
    made(tmp_path).close()
    lk.dataset(tmp_path).merge_mem_wal(flush=True)
    with lk.dataset(tmp_path).mem_wal_writer(SHARD) as writer:
        writer.put(rows(3))
    remove_manifests(tmp_path)
    ds = lk.dataset(tmp_path)
    with pytest.raises(CorruptFileError, match=MANIFESTS):
        read(tmp_path)
    assert ds.repair_mem_wal()
    assert read(tmp_path) == [0, 1, 2]
    with ds.mem_wal_writer(SHARD) as again:
        again.put(rows(4))
    ds.merge_mem_wal(flush=True)
    assert read(tmp_path) == [0, 1, 2, 4]


def test_a_log_without_its_end_stays_an_error_however_often_it_is_tried(tmp_path: Path) -> None:
    """A refused claim puts nothing: its sentinel would be an entry like those that are missing."""
    writers = [made(tmp_path, generation=False)]
    for number in (3, 4):  # each takes the shard from the one before
        writers.append(lk.dataset(tmp_path).mem_wal_writer(SHARD))
        writers[-1].put(rows(number))
    entries = sorted((tmp_path / FOLDER / "wal").glob("*.arrow"), key=lambda f: position(f.name))
    for file in entries[-3:]:
        file.unlink()
    before = sorted(tmp_path.rglob("*"))
    for _ in range(6):
        for call in (REFUSED["writer"], REFUSED["read"]):
            with pytest.raises(CorruptFileError, match="the log had an entry at position"):
                call(lk.dataset(tmp_path))
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.cover
@pytest.mark.parametrize("writers", ["first", "second", "second by pylance", "pylance"])
@pytest.mark.parametrize("flushed", [False, True])
def test_a_log_without_any_entry_is_missed(tmp_path: Path, writers: str, flushed: bool) -> None:
    """The first writer of a shard puts no sentinel: its manifest tells of its first entry."""
    ds = lk.write_dataset(rows(0), tmp_path)
    ds.initialize_mem_wal()
    theirs = lance.dataset(str(tmp_path))
    first: Any = (theirs if writers == "pylance" else ds).mem_wal_writer(SHARD)
    first.put(rows(1))
    if flushed:
        first.close()
        first = (theirs if writers == "pylance" else ds).mem_wal_writer(SHARD)
        first.put(rows(2))
    if writers.startswith("second"):
        second: Any = (theirs if "pylance" in writers else ds).mem_wal_writer(SHARD)
        second.put(rows(3))
    expected = sorted(read(tmp_path))
    shutil.rmtree(tmp_path / FOLDER / "wal")
    if writers == "pylance" and not flushed:  # which tells of nothing: docs/damage.md
        assert read(tmp_path) == [0]
        return
    with pytest.raises(CorruptFileError, match=r"The end of the write-ahead log .* is missing"):
        read(tmp_path)
    with pytest.raises(CorruptFileError, match="is missing"):
        ds.mem_wal_writer(SHARD)
    lost = ds.repair_mem_wal()
    assert [part.reason for part in lost]
    kept = [0, 1] if flushed else [0]
    assert read(tmp_path) == kept
    assert set(kept) < set(expected)
    with ds.mem_wal_writer(SHARD) as again:
        again.put(rows(4))
    assert read(tmp_path) == [*kept, 4]
    assert len(ds.repair_mem_wal()) == 0
    by_pylance = theirs.mem_wal_writer(SHARD)
    by_pylance.put(rows(5))
    assert read(tmp_path) == [*kept, 4, 5]
