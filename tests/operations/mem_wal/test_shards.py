"""What is told of shards."""

from __future__ import annotations

from pathlib import Path

import pytest

import lancekit as lk
from lancekit._format.mem_wal.names import manifest_name
from lancekit.errors import CorruptFileError
from tests.support.shards import SHARD, newest, opened, rows, with_shards


def test_how_far_shards_are(tmp_path: Path) -> None:
    ds = with_shards(tmp_path)
    for number in (4, 5):
        with ds.mem_wal_writer(SHARD) as writer:
            writer.put(rows(number, number))
    writer = ds.mem_wal_writer(SHARD)
    writer.put(rows(6))
    ours = lk.dataset(tmp_path)
    done = [lk.CompactedSsTable(SHARD, 1)]
    merge = ours.merge_insert("id").when_not_matched_insert_all()
    merge.mark_sstables_as_compacted(done).execute(rows(4))
    (found,) = ours.mem_wal_shards()
    assert [(one.number, one.merged, one.rows) for one in found.generations] == [
        *((1, True, 2), (2, False, 2)),
    ]
    assert [one.number for one in found.unmerged_generations] == [2]
    assert (found.epoch, found.sealed, found.current_generation) == (3, False, 3)
    assert (found.merged_generation, found.log_entries, found.spec_id) == (1, 2, 0)
    assert found.generations[1].path == newest(tmp_path).sstables[1].path
    old = ours.checkout_version(2).mem_wal_shards()[0]
    assert old.merged_generation == 0
    opened(tmp_path).store.put(manifest_name(found.version + 1), b"")
    with pytest.raises(CorruptFileError):
        ours.mem_wal_shards()
