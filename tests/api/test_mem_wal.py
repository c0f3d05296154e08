"""Tables with shards, as users see them; `lancekit.mem_wal`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance.mem_wal
import pytest

import lancekit as lk
import lancekit.mem_wal
from lancekit.errors import IncompatibleConflictError, InvalidTypeError
from tests.support.shards import SHARD, rows, with_shards


def merging(ds: Any) -> Any:
    return ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()


def merged(ds: lk.LanceDataset) -> dict[str, int]:
    return {one.shard_id: one.merged_generation for one in ds.mem_wal_shards()}


def test_merges_are_marked_in_the_version_that_has_their_rows(tmp_path: Path) -> None:
    reference = with_shards(tmp_path)
    with reference.mem_wal_writer(SHARD) as writer:
        writer.put(rows(4))
    ds = lk.dataset(tmp_path)
    marks = [lk.mem_wal.CompactedSsTable(SHARD, 1)]
    assert merging(ds).mark_sstables_as_compacted(marks).execute(rows(4)).num_inserted_rows == 1
    assert merged(ds) == {SHARD: 1}
    with pytest.raises(IncompatibleConflictError, match=SHARD):
        merging(ds).mark_sstables_as_compacted(marks).execute(rows(5))
    theirs = merging(lance.dataset(str(tmp_path)))
    theirs.mark_sstables_as_compacted([lance.mem_wal.CompactedSsTable(SHARD, 2)])
    theirs.execute(rows(6))
    assert merged(lk.dataset(tmp_path)) == {SHARD: 2}


def test_a_merge_that_is_committed_later_keeps_its_mark(tmp_path: Path) -> None:
    with with_shards(tmp_path).mem_wal_writer(SHARD) as writer:
        writer.put(rows(4))
    ds = lk.dataset(tmp_path)
    builder = merging(ds).mark_sstables_as_compacted([lk.CompactedSsTable(SHARD, 1)])
    transaction, _ = builder.execute_uncommitted(rows(4))
    ds = lk.LanceDataset.commit(ds, transaction)
    assert merged(ds) == {SHARD: 1}
    nothing = merging(ds).mark_sstables_as_compacted([lk.CompactedSsTable(SHARD, 2)])
    nothing.execute(rows())
    assert merged(ds) == {SHARD: 2}


def test_what_is_no_mark() -> None:
    ds = lk.write_dataset({"id": [1]}, "memory://no-mark")
    for wrong in ([1], 3, SHARD):
        with pytest.raises(InvalidTypeError):
            merging(ds).mark_sstables_as_compacted(wrong)
    for shard in ("x", 3):
        with pytest.raises(ValueError, match="shard_id"):
            lk.CompactedSsTable(shard, 1)  # type: ignore[arg-type]


def test_there_are_no_details_without_an_entry(tmp_path: Path) -> None:
    ds = lk.write_dataset(rows(1), tmp_path)
    assert ds.mem_wal_index_details() is None
    assert ds.mem_wal_shards() == []
