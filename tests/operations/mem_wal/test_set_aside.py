"""Rows that a repair moved aside go back where no newer row of the key is there."""

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
from lancekit._format.mem_wal.names import LOGS, position
from lancekit._operations.mem_wal import flush_logs
from lancekit._operations.mem_wal.reader import sources
from lancekit.errors import (
    ConstraintViolationError,
    FencedError,
    InvalidArgumentError,
    LancekitError,
    ReadOnlyError,
)
from lancekit.mem_wal import MemWalPutBack
from tests.support.faults import MODES, Crash, Faults, attempt_on_copy
from tests.support.shards import SHARD

FOLDER = Path(LOGS) / SHARD
STATE, REASON = "_set_aside_state", "_set_aside_reason"


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_PAUSE_SECONDS", 0)


def table(path: Path, *, keyed: bool = True) -> lk.LanceDataset:
    key = "id" if keyed else None
    ds = lk.write_dataset({"id": [0, 1], "v": [0, 0]}, path, primary_key=key)
    ds.initialize_mem_wal()
    return ds


def rows(**values: int) -> dict[str, list[int]]:
    return {"id": [int(name[1:]) for name in values], "v": list(values.values())}


def read(path: Path) -> dict[int, int]:
    found = lk.dataset(path).to_table(include_mem_wal=True).to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["v"] for row in found}


def entry(path: Path, number: int) -> Path:
    files = {position(file.name): file for file in (path / FOLDER / "wal").glob("*.arrow")}
    return files[number]


def lose_generation(path: Path, number: int, first: int) -> None:
    """Lose a generation and its first entry, so that the log does not have all of its rows."""
    (folder,) = (path / FOLDER).glob(f"*_gen_{number}")
    shutil.rmtree(folder)
    entry(path, first).unlink()


def states(ds: lk.LanceDataset) -> dict[int, tuple[str, str]]:
    found = ds.mem_wal_set_aside().to_table().to_pylist()
    return {row["id"]: (row[STATE], row[REASON]) for row in found}


def with_lost_generation(path: Path) -> lk.LanceDataset:
    """Lose generation 2, which has ids 1 to 4, deletes 0, and comes after 4 = 1 in generation 1."""
    ds = table(path)
    with ds.mem_wal_writer(SHARD) as writer:
        writer.put(rows(_4=1))
    with ds.mem_wal_writer(SHARD) as writer:
        writer.put(rows(_9=9))
        first = writer.position
        writer.put(rows(_1=5, _2=2))
        writer.put(rows(_1=1, _3=3, _4=4))
        writer.delete({"id": [0]})
    lose_generation(path, 2, first)
    assert ds.repair_mem_wal()
    assert read(path) == {0: 0, 1: 0, 4: 1}
    return ds


def test_rows_of_a_lost_generation_go_back(tmp_path: Path) -> None:
    ds = with_lost_generation(tmp_path)
    aside = ds.mem_wal_set_aside()
    assert len(aside) == 6
    assert aside.to_table().column("_tombstone").to_pylist() == [*[False] * 5, True]
    assert aside._plain() == "6 rows moved aside by a repair: 1 older, 5 newest"
    card = repr(aside)
    assert "a later row of the key was also moved aside" in card
    assert "id = 0, deleted" in card
    assert aside.put_back() == MemWalPutBack(put_back=4, tombstones=1, older=1)
    assert read(tmp_path) == {1: 1, 2: 2, 3: 3, 4: 4}
    # nothing is left
    assert len(ds.mem_wal_set_aside()) == 0
    assert aside.put_back() == MemWalPutBack()
    ds.merge_mem_wal()
    assert dict(zip(*ds.to_table().to_pydict().values(), strict=True)) == {1: 1, 2: 2, 3: 3, 4: 4}


def collected(ds: lk.LanceDataset) -> None:
    """Take the later entries out of the log: what tells of later rows is elsewhere then."""
    ds.mem_wal_writer(SHARD).close()
    ds.cleanup_mem_wal(grace=timedelta(0))


def in_log(ds: lk.LanceDataset) -> None:
    writer = ds.mem_wal_writer(SHARD)
    writer.put(rows(_1=100, _5=100))
    writer.delete({"id": [2]})


def in_generation(ds: lk.LanceDataset) -> None:
    with ds.mem_wal_writer(SHARD) as writer:
        writer.put(rows(_1=100, _5=100))
        writer.delete({"id": [2]})


def in_generation_alone(ds: lk.LanceDataset) -> None:
    in_generation(ds)
    collected(ds)


def merged(ds: lk.LanceDataset) -> None:
    in_generation(ds)
    ds.merge_mem_wal()


@pytest.mark.parametrize("newer", [in_log, in_generation, in_generation_alone, merged])
def test_newer_rows_and_deletions_stay(
    tmp_path: Path, newer: Callable[[lk.LanceDataset], None]
) -> None:
    ds = with_lost_generation(tmp_path)
    aside = ds.mem_wal_set_aside()
    newer(ds)
    found = states(ds)
    assert {id_: state for id_, (state, _) in found.items()} == {
        0: "newest",
        1: "older",
        2: "older",
        3: "newest",
        4: "unsure" if newer is merged else "newest",  # generation 1 may have changed the row
    }
    # the rows are judged again when they go back
    done = aside.put_back(unsure=newer is merged)
    assert done == MemWalPutBack(put_back=2, tombstones=1, older=3)
    assert read(tmp_path) == {1: 100, 3: 3, 4: 4, 5: 100}
    assert len(ds.mem_wal_set_aside()) == 0


def test_what_a_merge_may_have_deleted_is_unsure(tmp_path: Path) -> None:
    ds = with_lost_generation(tmp_path)
    merged(ds)
    collected(ds)
    found = states(ds)
    assert found[0][0] == "newest"  # its row in the table did not change
    assert found[1] == ("unsure", "the table's row changed after version 2")
    assert found[2] == ("unsure", "a merge after version 2 may have deleted the key")
    assert ds.mem_wal_set_aside().put_back() == MemWalPutBack(tombstones=1, older=1, unsure=4)
    assert read(tmp_path) == {1: 100, 4: 1, 5: 100}
    # what is left can be chosen
    left = ds.mem_wal_set_aside()
    chosen = left.to_table().to_pandas().query("id == 3 or id == 4")
    assert left.put_back(chosen) == MemWalPutBack(unsure=2)
    assert left.put_back({"id": [3]}, unsure=True) == MemWalPutBack(put_back=1)
    assert left.put_back(chosen, unsure=True) == MemWalPutBack(put_back=1, older=1)
    assert read(tmp_path) == {1: 100, 3: 3, 4: 4, 5: 100}
    ds.mem_wal_set_aside().discard()
    assert len(ds.mem_wal_set_aside()) == 0


def test_a_row_that_was_written_to_the_table_since_stays(tmp_path: Path) -> None:
    ds = with_lost_generation(tmp_path)
    upsert = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    upsert.execute(rows(_1=50, _2=50))
    # a write that leaves the values of the others leaves them newest
    ds.optimize.compact_files()
    assert states(ds)[1] == ("older", "the table's row was written after version 2")
    assert ds.mem_wal_set_aside().put_back() == MemWalPutBack(put_back=2, tombstones=1, older=3)
    assert read(tmp_path) == {1: 50, 2: 50, 3: 3, 4: 4}


def test_the_table_before_the_repair_is_gone(tmp_path: Path) -> None:
    ds = with_lost_generation(tmp_path)
    ds.insert(rows(_9=9))
    lance.dataset(str(tmp_path)).cleanup_old_versions(
        older_than=timedelta(0), delete_unverified=True
    )
    found = states(ds)
    assert found[1] == ("unsure", "the table has the key, and version 2 was cleaned up")
    assert found[3] == ("newest", "")


def test_a_damaged_entry_is_unsure(tmp_path: Path) -> None:
    ds = table(tmp_path)
    writer = ds.mem_wal_writer(SHARD)
    writer.put(rows(_2=2))
    writer.put(rows(_3=3))
    writer.put(rows(_4=4))
    file = entry(tmp_path, writer.position - 1)
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    ds.repair_mem_wal()
    aside = ds.mem_wal_set_aside()
    ((state, reason),) = states(ds).values()
    assert state == "unsure"
    assert "checksum" in reason
    assert aside.put_back() == MemWalPutBack(unsure=1)
    assert read(tmp_path) == {0: 0, 1: 0, 2: 2, 4: 4}
    assert aside.put_back(rows(_3=33), unsure=True) == MemWalPutBack(put_back=1)
    assert read(tmp_path) == {0: 0, 1: 0, 2: 2, 3: 33, 4: 4}


def test_files_of_which_no_row_can_be_read(tmp_path: Path) -> None:
    ds = table(tmp_path)
    writer = ds.mem_wal_writer(SHARD)
    writer.put(rows(_2=2))
    writer.put(rows(_3=3))
    file = entry(tmp_path, writer.position - 1)
    file.write_bytes(b"x" * 100 + file.read_bytes()[100:])
    (moved,) = ds.repair_mem_wal()
    aside = ds.mem_wal_set_aside()
    assert [*aside.unreadable] == [moved.file]
    assert f"{moved.file} cannot be read: " in aside._plain()
    assert "unreadable  " in repr(aside)
    assert (len(aside), aside.put_back()) == (0, MemWalPutBack())
    assert ds.mem_wal_set_aside().unreadable
    aside.discard()
    assert not ds.mem_wal_set_aside().unreadable


@pytest.mark.parametrize("keyed", [True, False])
def test_a_shard_that_lost_its_manifests(tmp_path: Path, keyed: bool) -> None:
    """Its entries and generations were moved, those that the table has merged, too."""
    ds = table(tmp_path, keyed=keyed)
    with ds.mem_wal_writer(SHARD) as writer:
        writer.put(rows(_2=2))
    ds.merge_mem_wal()
    with ds.mem_wal_writer(SHARD) as writer:
        writer.put(rows(_3=3))
        writer.put(rows(_4=4))
    ds.mem_wal_writer(SHARD).put(rows(_5=5))
    everything = read(tmp_path)
    for file in (tmp_path / FOLDER / "manifest").iterdir():
        file.unlink()
    ds.repair_mem_wal()
    assert read(tmp_path) == {0: 0, 1: 0, 2: 2}
    assert ds.mem_wal_set_aside().put_back().put_back == 3
    assert read(tmp_path) == everything
    assert len(ds.mem_wal_set_aside()) == 0
    ds.merge_mem_wal(flush=True)
    assert lance.dataset(str(tmp_path)).count_rows() == len(everything)


def test_what_no_repair_moved_is_unsure(tmp_path: Path) -> None:
    ds = table(tmp_path)
    writer = ds.mem_wal_writer(SHARD)
    writer.put(rows(_2=2))
    file = entry(tmp_path, writer.position)
    file.write_bytes(file.read_bytes()[:-20])  # as a power cut leaves it
    with pytest.warns(UserWarning, match="torn"):
        ds.mem_wal_writer(SHARD)
    assert states(ds)[2] == (
        "unsure",
        "no readable note of a repair: the table's state then is unknown",
    )
    assert ds.mem_wal_set_aside().put_back(unsure=True).put_back == 1
    assert read(tmp_path)[2] == 2


def test_rows_from_before_a_column_and_a_table(tmp_path: Path) -> None:
    ds = with_lost_generation(tmp_path)
    ds.alter_columns({"path": "v", "name": "w"})
    assert states(ds)[3] == ("newest", "")
    reference = lance.dataset(str(tmp_path))
    reference.add_columns(reference.schema.field("w").with_name("new"))
    ds = lk.dataset(tmp_path)
    assert states(ds)[3] == ("unsure", "the row was put before the table had 'new'")
    ds.drop_columns(["new"])
    kept = tmp_path / "kept"
    shutil.move(tmp_path / LOGS, kept)
    lance.write_dataset(reference.to_table(), str(tmp_path), mode="overwrite")
    ds = lk.dataset(tmp_path)
    ds.initialize_mem_wal()
    shutil.move(kept, tmp_path / LOGS)
    assert {state for state, _ in states(ds).values()} <= {"unsure"}


def test_a_row_that_the_table_refuses_leaves_all_of_the_shard(tmp_path: Path) -> None:
    ds = with_lost_generation(tmp_path)
    ds.constraints.add("small", "v < 4")
    aside = ds.mem_wal_set_aside()
    with pytest.raises(ConstraintViolationError):
        aside.put_back()
    assert read(tmp_path) == {0: 0, 1: 0, 4: 1}
    ds.constraints.drop("small")
    assert aside.put_back().put_back == 4


def test_what_cannot_be_named(tmp_path: Path) -> None:
    aside = with_lost_generation(tmp_path).mem_wal_set_aside()
    with pytest.raises(InvalidArgumentError, match="does not identify rows"):
        aside.put_back({"v": [1]})
    plain = table(tmp_path / "plain", keyed=False)
    with pytest.raises(InvalidArgumentError, match="without a primary key"):
        plain.mem_wal_set_aside().put_back({"id": [1]})
    pinned = lk.dataset(tmp_path).at(1)
    for call in (lambda: pinned.mem_wal_set_aside().put_back(), pinned.mem_wal_set_aside().discard):
        with pytest.raises(ReadOnlyError):
            call()
    named: Any = lk.write_dataset({"_set_aside_row": [1]}, tmp_path / "named")
    with pytest.raises(InvalidArgumentError, match="_set_aside_row"):
        named.mem_wal_set_aside()


def test_a_key_in_quarantine_is_unsure(tmp_path: Path) -> None:
    ds = table(tmp_path)
    with ds.mem_wal_writer(SHARD) as writer:
        writer.put(rows(_2=-2))
    with ds.mem_wal_writer(SHARD) as writer:
        writer.put(rows(_9=9))
        first = writer.position
        writer.put(rows(_2=2))
    lose_generation(tmp_path, 2, first)
    ds.repair_mem_wal()
    ds.constraints.add("positive", "v >= 0")
    ds.merge_mem_wal(on_error="quarantine")
    assert states(ds)[2] == ("unsure", "the quarantine has a row of the key")


@pytest.mark.torture
@pytest.mark.parametrize("then", ["at once", "after a cleanup"])
def test_rows_without_a_key_go_back_once(
    tmp_path: Path, then: str, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever call to the store a first attempt is killed at."""
    # the writer that was killed stands for one of another process: a merge does not flush it
    monkeypatch.setattr(flush_logs, "writers_of", lambda _: [])
    saved, path = tmp_path / "saved", tmp_path / "t"
    ds = table(saved, keyed=False)
    with ds.mem_wal_writer(SHARD) as writer:
        writer.put(rows(_3=3, _4=4, _5=5))
    writer = ds.mem_wal_writer(SHARD)
    writer.put(rows(_6=6))
    writer.put(rows(_7=7))
    everything = read(saved)
    for file in (saved / FOLDER / "manifest").iterdir():
        file.unlink()
    ds.repair_mem_wal()
    lost = set(everything) - set(read(saved))
    assert lost == {3, 4, 5, 6, 7}

    def put_back(path: Path) -> None:
        lk.dataset(path).mem_wal_set_aside().put_back()

    with lk.options(fsync=False):
        record = Faults()
        attempt_on_copy(put_back, saved, path, record)
        assert read(path) == everything
        every = [Faults(c.number, mode) for c in record.calls for mode in MODES[c.kind]]
        for faults in every if whole else every[:: len(every) // 12]:
            with suppress(Crash, LancekitError):
                attempt_on_copy(put_back, saved, path, faults)
            if then == "after a cleanup":
                lk.dataset(path).mem_wal_writer(SHARD).close()
                lk.dataset(path).merge_mem_wal(flush=True)
                lk.dataset(path).cleanup_mem_wal(grace=timedelta(0))
            put_back(path)
            assert read(path) == everything, faults
            assert len(lk.dataset(path).mem_wal_set_aside()) == 0, faults


def test_a_branch_repairs_its_own_shards(tmp_path: Path) -> None:
    ds = table(tmp_path)
    with ds.mem_wal_writer(SHARD) as writer:
        writer.put(rows(_5=5))
    branch = ds.create_branch("b")
    with branch.mem_wal_writer(SHARD) as writer:
        writer.put(rows(_1=1))
        writer.put(rows(_2=2))
    lose_generation(tmp_path / "tree" / "b", 1, 1)
    assert not ds.repair_mem_wal()
    assert branch.repair_mem_wal()
    assert not len(ds.mem_wal_set_aside())
    writer = branch.mem_wal_writer(SHARD)
    assert branch.mem_wal_set_aside().put_back() == MemWalPutBack(put_back=1)
    with pytest.raises(FencedError):
        writer.put(rows(_7=7))
    found = branch.to_table(include_mem_wal=True).to_pylist()
    assert {row["id"]: row["v"] for row in found} == {0: 0, 1: 0, 2: 2}
    assert read(tmp_path) == {0: 0, 1: 0, 5: 5}


@pytest.mark.parametrize("how", ["a frame of to_pandas", "rows of the table's columns"])
def test_corrected_rows_go_back(tmp_path: Path, how: str) -> None:
    ds = with_lost_generation(tmp_path)
    aside = ds.mem_wal_set_aside()
    if how == "a frame of to_pandas":
        frame = aside.to_pandas()
        frame.loc[frame["id"] == 3, "v"] = 33
        given: Any = frame[::-1].reset_index(drop=True)  # in any order
        done = MemWalPutBack(put_back=4, tombstones=1, older=1)
        expected = {1: 1, 2: 2, 3: 33, 4: 4}
    else:
        given = rows(_3=33, _0=7)  # 0 is deleted in the file: the row that is given is put
        done = MemWalPutBack(put_back=2)
        expected = {0: 7, 1: 0, 3: 33, 4: 1}
    assert aside.put_back(given) == done
    assert read(tmp_path) == expected


def test_corrected_rows_that_say_too_little_or_too_much(tmp_path: Path) -> None:
    ds = with_lost_generation(tmp_path)
    ds.add_columns(pa.field("w", pa.int64()))
    aside = ds.mem_wal_set_aside()
    with pytest.raises(InvalidArgumentError, match=r"lacks column 'w'.*pass only 'id'"):
        aside.put_back(rows(_3=33))
    frame = aside.to_pandas()
    frame.loc[frame["id"] == 3, "id"] = 30
    with pytest.raises(InvalidArgumentError, match="id = 3 was corrected to id = 30"):
        aside.put_back(frame)
    assert 3 not in read(tmp_path)
