"""Counts of rows that wait in shards, whichever library wrote them."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import lance
import pytest

import lancekit as lk
from lancekit._format.mem_wal.names import entry_name, manifest_name
from lancekit._operations.unmerged import waiting
from lancekit._operations.unmerged.counts import waiting_rows
from lancekit._operations.unmerged.waiting_rows import WaitingRows
from tests.support.faults import Faults, injected
from tests.support.mem_wal_model import table_of, write_with_pylance

ONE, TWO = (str(uuid.UUID(int=number)) for number in (1, 2))


def rows(*keys: int) -> Any:
    return table_of({key: (float(key), str(key)) for key in keys})


def count(ds: Any) -> WaitingRows:
    return waiting_rows(lk.dataset(ds.uri)._snapshot)


@pytest.fixture
def ds(tmp_path: Path) -> Any:
    """A table of pylance that may have shards."""
    found = lance.write_dataset(rows(0), str(tmp_path / "t"))
    found.initialize_mem_wal()
    return found


def test_rows_of_both_libraries_are_counted(ds: Any) -> None:
    assert not count(ds)
    assert count(ds).words == count(ds).merge_call == ""
    theirs = ds.mem_wal_writer(ONE)
    assert not count(ds)  # a log without entries
    theirs.put(rows(1, 2))
    assert count(ds) == WaitingRows(in_logs=2, shards=1)
    assert count(ds).words == "2 rows of 1 shard, 2 in logs"
    ours = lk.dataset(ds.uri).mem_wal_writer(TWO)
    ours.put(rows(3))
    ours.delete({"id": [4]})
    assert count(ds) == WaitingRows(in_logs=4, shards=2)
    theirs.close()
    assert count(ds) == WaitingRows(in_generations=2, in_logs=2, shards=2)
    assert count(ds).words == "4 rows of 2 shards, 2 in logs"
    assert count(ds).merge_call == "ds.merge_mem_wal(flush=True)"
    ours.close()
    assert count(ds).words == "4 rows of 2 shards"
    assert count(ds).merge_call == "ds.merge_mem_wal()"
    lk.dataset(ds.uri).merge_mem_wal()
    assert not count(ds)


def test_sentinels_are_no_rows(ds: Any) -> None:
    for _ in range(3):
        lk.dataset(ds.uri).mem_wal_writer(ONE)
    assert not count(ds)


def test_generations_that_are_merged_and_still_listed_are_left_out(ds: Any) -> None:
    write_with_pylance(ds, ONE, {1: (1.0, "a")}, [])
    mark = lance.mem_wal.CompactedSsTable(ONE, 1)
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.mark_sstables_as_compacted([mark]).execute(rows(1))
    assert lk.dataset(ds.uri).mem_wal_shards()[0].generations  # not drained
    assert not count(ds)


def test_branches_have_shards_of_their_own(ds: Any) -> None:
    branch = lk.dataset(ds.uri).create_branch("b")
    with branch.mem_wal_writer(ONE) as writer:
        writer.put(rows(1))
        assert not count(ds)
        assert waiting_rows(branch._snapshot) == WaitingRows(in_logs=1, shards=1)


def test_a_count_that_leaves_something_out_says_so(
    ds: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = lk.dataset(ds.uri).mem_wal_writer(ONE)
    for key in range(5):
        writer.put(rows(key))
    with monkeypatch.context() as patch:
        patch.setattr(waiting, "_MOST_ENTRIES", 3)
        assert count(ds) == WaitingRows(in_logs=3, shards=1, complete=False)
        assert count(ds).words == "at least 3 rows of 1 shard, 3 in logs"
    shard = tmp_path / "t" / "_mem_wal" / ONE
    entry = shard / entry_name(5)
    entry.write_bytes(entry.read_bytes()[:-40])
    assert count(ds).words == "at least 4 rows of 1 shard, 4 in logs"
    for path in (shard / "manifest").glob("*.binpb"):
        path.write_bytes(b"\xff")
    assert count(ds).words == "shards may have unmerged rows"
    assert (count(ds).damaged, count(ds).merge_call) == (True, "")
    assert "restore them from a copy" in count(ds).advice
    assert not (shard / manifest_name(9)).exists()


def test_rows_in_quarantine_are_told() -> None:
    assert WaitingRows(quarantined=1).words == "1 row in quarantine"
    assert not WaitingRows(quarantined=1).merge_call
    told = WaitingRows(in_generations=3, shards=1, quarantined=2)
    assert told.words == "3 rows of 1 shard, 2 rows in quarantine"


def requests(ds: Any) -> Counter[str]:
    """Return the calls of a store that a count makes, by their kinds."""
    with injected(Faults()) as faults:
        snapshot = lk.dataset(ds.uri)._snapshot
        faults.calls.clear()
        waiting_rows(snapshot)
    return Counter(call.kind for call in faults.calls)


def test_the_requests_of_a_count(tmp_path: Path, ds: Any) -> None:
    plain = lk.write_dataset(rows(*range(100)), str(tmp_path / "plain"), primary_key="id")
    plain.create_scalar_index("id", "BTREE")
    assert not requests(plain)
    assert requests(ds) == {"list_names": 1}
    write_with_pylance(ds, ONE, {1: (1.0, "a")}, [])
    assert requests(ds) == {"list_names": 2, "read": 3, "exists": 2}  # six of them for the shard
    writer = lk.dataset(ds.uri).mem_wal_writer(TWO)
    for key in range(40):
        writer.put(rows(key))
    most = 1 + 2 * 6 + waiting._MOST_REQUESTS  # of a store that is no local disk
    assert sum(requests(ds).values()) <= most
    assert count(ds) == WaitingRows(in_generations=1, in_logs=40, shards=2)
