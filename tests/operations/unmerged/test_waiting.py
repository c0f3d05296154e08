"""What of shards no version has, told from logs and manifests that pylance wrote."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import lance
import pytest

import lancekit as lk
from lancekit._format import operations as ops
from lancekit._format.operation_parts import CompactedSsTable
from lancekit._operations.unmerged.waiting import WaitingShard, check_merged, waiting_shards
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError
from tests.support.mem_wal_model import table_of, write_with_pylance

SHARD = uuid.UUID(int=1)


def newest(ds: Any) -> Snapshot:
    return lk.dataset(ds.uri)._snapshot


def merge_by_hand(ds: Any, generation: int) -> None:
    """Mark a generation as merged, and leave it in the manifest."""
    mark = CompactedSsTable(SHARD, generation)
    operation = ops.Update(compacted_sstables=(mark,))
    lk.LanceDataset.commit(ds.uri, operation, read_version=lk.dataset(ds.uri).version)


def test_what_waits(tmp_path: Path) -> None:
    ds = lance.write_dataset(table_of({1: (1.0, "a")}), str(tmp_path / "t"))
    assert list(waiting_shards(newest(ds))) == []
    ds.initialize_mem_wal(unsharded=True)
    assert list(waiting_shards(newest(ds))) == []
    writer = ds.mem_wal_writer(str(SHARD))
    assert list(waiting_shards(newest(ds))) == []
    writer.put(table_of({2: (1.0, "a")}))
    assert list(waiting_shards(newest(ds))) == [WaitingShard(shard=SHARD, in_log=True)]
    writer.close()
    assert list(waiting_shards(newest(ds))) == [WaitingShard(shard=SHARD, unmerged=(1,))]
    write_with_pylance(ds, str(SHARD), {3: (1.0, "a")}, [])
    merge_by_hand(ds, 1)
    (found,) = waiting_shards(newest(ds))
    assert found == WaitingShard(shard=SHARD, unmerged=(2,), undrained=(1,))
    assert found.words == (
        f"shard {SHARD} has unmerged generations 2 and merged generations 1 to drain"
    )
    merge_by_hand(ds, 2)
    (found,) = waiting_shards(newest(ds))
    assert (found.has_rows, found.undrained) == (False, (1, 2))
    check_merged(newest(ds), "To look", drained=False)
    with pytest.raises(InvalidArgumentError, match="To look would lose rows"):
        check_merged(newest(ds), "To look")


def test_an_entry_that_only_takes_a_position_is_no_row(tmp_path: Path) -> None:
    ds = lance.write_dataset(table_of({1: (1.0, "a")}), str(tmp_path / "t"))
    ds.initialize_mem_wal(unsharded=True)
    for _ in range(3):
        ds.mem_wal_writer(str(SHARD)).close()
    assert len(list((tmp_path / "t/_mem_wal" / str(SHARD) / "wal").iterdir())) == 2
    assert list(waiting_shards(newest(ds))) == []
