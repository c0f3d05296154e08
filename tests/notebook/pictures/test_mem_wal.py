"""Shards of write-ahead logs."""

from uuid import UUID

import lancekit as lk
from lancekit._api.lance_dataset import LanceDataset
from lancekit._operations.mem_wal.shards import Generation, ShardInfo, Shards
from tests.notebook.conftest import rows
from tests.notebook.pictures.support import parsed, words


def test_shards(tmp_path):
    ds = lk.write_dataset(rows(1), tmp_path / "logs.lance", primary_key="id")
    assert str(ds.plot.mem_wal()).endswith(": no shards")
    parsed(ds.plot.mem_wal())
    ds.initialize_mem_wal(unsharded=True)
    for at, number in ((1, 1), (2, 3)):
        for i in range(number):
            with ds.mem_wal_writer(str(UUID(int=at << 124))) as writer:
                writer.put(rows(*range(10 * i, 10 * i + 5)))
    ds.merge_mem_wal([str(UUID(int=1 << 124))])
    with ds.mem_wal_writer(str(UUID(int=3 << 124))) as writer:
        writer.put(rows(1))
        picture = ds.plot.mem_wal()
    assert "3 shards: 3 generations with 15 rows to merge, of 2000000…" in picture.alt
    lines = picture.text.splitlines()
    assert lines[1].split() == [
        "2000000…",
        "·",
        "epoch",
        "3",
        "▒▒▒",
        "15",
        "rows",
        "to",
        "merge",
        "0",
        "log",
        "entries",
    ]
    assert any("□" in line and "1 log entry" in line for line in lines[1:4])
    assert any("█" in line for line in lines[1:4])
    said = words(parsed(picture))
    assert {"generations", "rows to merge", "15", "+1 entry", "2000000… · epoch 3"} <= set(said)


def test_very_many_shards(monkeypatch):
    def shard(at):
        own = tuple(Generation(g, "x", False, None, None) for g in range(1, 30))
        return ShardInfo(
            shard_id=str(UUID(int=at << 100)), spec_id=0, version=1, epoch=1, sealed=at % 2 == 0,
            current_generation=30, merged_generation=0, generations=own[: at % 30], log_entries=0,
        )  # fmt: skip

    shards = Shards(shard(at) for at in range(200))
    monkeypatch.setattr(LanceDataset, "mem_wal_shards", lambda _: shards)
    picture = lk.write_dataset(rows(1), "memory://many-shards").plot.mem_wal()
    assert "20 of 200 shards, most rows to merge first" in picture.text
    assert len(picture.svg) < 80_000
    parsed(picture)
