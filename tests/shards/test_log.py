"""Entries of logs: those of the reference, ours for the reference, damage, and holes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format.mem_wal.names import LOGS, entry_name
from lancekit._format.mem_wal.shard_manifest import ShardManifest
from lancekit._shards.entry import Entry, encode_entry, encode_sentinel, read_entry
from lancekit._shards.log import positions, put_entry, replayable, tip
from lancekit._shards.schema import Shard, shard_of, wal_schema
from lancekit._storage.local import LocalStore
from lancekit.errors import CorruptFileError, UnsupportedFeatureError
from tests.support.shards import SHARD, newest, opened, rows, with_shards

MANIFEST = ShardManifest(shard=UUID(int=7), version=1, writer_epoch=1)
SCHEMA = pa.schema([pa.field("id", pa.int64(), False), pa.field("_tombstone", pa.bool_(), False)])


def data(*ids: int, epoch: int = 1, generation: int = 1) -> bytes:
    return encode_entry(SCHEMA, [batch(*ids)], epoch, generation)


def batch(*ids: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(ids, pa.int64()), pa.array([False] * len(ids))], schema=SCHEMA)


def logged(path: Path, entries: int) -> Shard:
    shard = shard_of(LocalStore(path), MANIFEST.shard)
    for number in range(1, entries + 1):
        assert put_entry(shard, number, data(number))
    return shard


def ids(entries: list[Entry]) -> list[int]:
    return [one for entry in entries for part in entry.batches for one in part["id"].to_pylist()]


def test_entries_of_the_reference_are_read(tmp_path: Path) -> None:
    ds = with_shards(tmp_path)
    first = ds.mem_wal_writer(SHARD)
    first.put(rows(4, 5))
    first.delete(pa.table({"id": [4, 9]}))
    writer = ds.mem_wal_writer(SHARD)
    writer.put(rows(6))
    shard, manifest = opened(tmp_path), newest(tmp_path)
    found = [*replayable(shard, manifest)]
    assert [(one.position, one.epoch, one.generation, one.sentinel) for one in found] == [
        *((1, 1, 1, False), (2, 1, 1, False), (3, 2, None, True), (4, 2, 1, False)),
    ]
    assert ids(found) == [4, 5, 4, 9, 6]
    assert found[1].batches[0]["_tombstone"].to_pylist() == [True, True]
    assert [positions(shard), tip(shard, 0), tip(shard, 2), tip(shard, 77)] == [
        [1, 2, 3, 4],
        4,
        4,
        4,
    ]
    writer.close()
    assert [*replayable(shard, newest(tmp_path))] == []


def test_the_reference_replays_ours(tmp_path: Path) -> None:
    ds = with_shards(tmp_path)
    with ds.mem_wal_writer(SHARD):
        pass
    shard = opened(tmp_path)
    schema = wal_schema(lk.dataset(tmp_path)._snapshot.manifest.schema)
    live = rows(1, 5).append_column("_tombstone", [[False, False]]).cast(schema)
    parts = live.to_batches(max_chunksize=1)
    assert put_entry(shard, 1, encode_entry(schema, parts, 1, 1))
    assert put_entry(shard, 2, encode_sentinel(1))
    assert not put_entry(shard, 2, b"")
    dead = live.slice(0, 1).set_column(3, schema.field(3), [[True]])
    assert put_entry(shard, 3, encode_entry(schema, dead.to_batches(), 1, 1))
    writer = ds.mem_wal_writer(SHARD)
    found = writer.lsm_scanner().to_table().sort_by("id")
    assert found.select(rows(2).column_names).cast(rows(2).schema) == rows(2, 3, 5)
    writer.close()
    assert read_entry(shard, 4) == Entry(4, 2, sentinel=True)
    assert newest(tmp_path).replay_after == 4


@pytest.mark.parametrize("cut", range(5))
def test_case_3_and_4_entries_cut_off(tmp_path: Path, cut: int) -> None:
    whole = encode_entry(SCHEMA, [batch(8), batch(9)], 1, 1)
    lengths = [0, 40, len(whole) - 12 - 8, len(whole) - 13, len(whole) // 2]
    shard = logged(tmp_path, 3)
    shard.store.put(entry_name(2), whole[: lengths[cut]])
    found = replayable(shard, MANIFEST)
    assert ids([next(found)]) == [1]
    with pytest.raises(CorruptFileError, match="Entry 2 "):
        next(found)
    for number in (3, 4):
        shard.store.put(entry_name(number), encode_sentinel(number))
    torn = [one for one in replayable(shard, MANIFEST) if one.torn]
    assert [(one.position, one.batches) for one in torn] == [(2, [])]


def test_every_byte_of_ours_is_guarded(tmp_path: Path) -> None:
    shard = logged(tmp_path, 1)
    whole = data(1)
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 0x41
        shard.store.put(entry_name(1), bytes(changed))
        with pytest.raises(CorruptFileError):
            read_entry(shard, 1)
    shard.store.put(entry_name(1), whole[:-12])  # as the reference writes it
    assert ids([read_entry(shard, 1)]) == [1]


def test_case_5_a_hole_is_named(tmp_path: Path) -> None:
    shard = logged(tmp_path, 4)
    shard.store.delete(entry_name(2))
    with pytest.raises(CorruptFileError, match=r"Entry 2 .*missing"):
        [*replayable(shard, MANIFEST)]
    for number in (3, 4):
        shard.store.put(entry_name(number), encode_sentinel(2))
    with pytest.raises(CorruptFileError, match=r"Entry 2 .*missing"):
        [*replayable(shard, MANIFEST)]
    shard.store.put(entry_name((1 << 64) - 1), data(9))
    with pytest.raises(CorruptFileError, match=r"Entry 2 .*missing"):
        [*replayable(shard, MANIFEST)]


def test_a_listing_that_lacks_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shard = logged(tmp_path, 4)
    monkeypatch.setattr("lancekit._shards.log.positions", lambda _: [2, 4])
    assert ids([*replayable(shard, MANIFEST)]) == [1, 2, 3, 4]


def test_case_6_other_files_do_not_matter(tmp_path: Path) -> None:
    shard = logged(tmp_path, 2)
    for name in ("x", f"{entry_name(9)[4:]}.tmp.0a", f"{entry_name(9)[4:]}#1", ".tmp-1.arrow"):
        (tmp_path / LOGS / SHARD / "wal" / name).write_bytes(b"1")
    assert positions(shard) == [1, 2]


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"replay_after": 2, "current_generation": 2}, ""),
        (
            {"current_generation": 2},
            "position 1 .* rows of generation 1, which are in no generation",
        ),
        (
            {"replay_after": 2},
            "position 2 of the log counts as flushed, but has rows of generation 1",
        ),
        (
            {"replay_after": 3, "current_generation": 2},
            "position 3 of the log counts as flushed, but has rows of generation 2",
        ),
        (
            {"replay_after": 9},
            "position 3 of the log counts as flushed, but has rows of generation 2",
        ),
        ({"replay_after": 9, "current_generation": 9}, ""),
        ({"last_seen": 5}, "an entry at position 5, .* ends at 4"),
        ({"last_seen": 4}, ""),
    ],
)
def test_manifests_that_contradict_the_log(tmp_path: Path, changed: Any, match: str) -> None:
    shard = logged(tmp_path, 2)
    put_entry(shard, 3, data(3, generation=2))
    put_entry(shard, 4, encode_sentinel(2))
    manifest = replace(MANIFEST, **changed)
    if match:
        with pytest.raises(CorruptFileError, match=match):
            [*replayable(shard, manifest)]
    else:
        kept = [number for number in (1, 2, 3) if number > manifest.replay_after]
        assert ids([*replayable(shard, manifest)]) == kept


def test_metadata_that_are_not_understood(tmp_path: Path) -> None:
    shard = logged(tmp_path, 0)

    def with_metadata(**said: str) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, SCHEMA.with_metadata(said)) as writer:
            writer.write_batch(batch(1))
        return sink.getvalue().to_pybytes()

    for wrong in ({}, {"writer_epoch": "x"}, {"writer_epoch": "1", "generation": "-"}):
        shard.store.put(entry_name(1), with_metadata(**wrong))
        with pytest.raises(CorruptFileError, match="is damaged"):
            read_entry(shard, 1)
    no_text = with_metadata(writer_epoch="1").replace(b"id", b"\xff\xff")
    shard.store.put(entry_name(1), no_text)
    with pytest.raises(CorruptFileError, match="is damaged"):
        read_entry(shard, 1)
    shard.store.put(entry_name(1), with_metadata(writer_epoch="1", mem_wal_target_generation="1"))
    with pytest.raises(UnsupportedFeatureError, match="blobs"):
        read_entry(shard, 1)
    shard.store.put(entry_name(1), with_metadata(writer_epoch="3"))
    assert read_entry(shard, 1) == Entry(1, 3)
    with pytest.raises(FileNotFoundError):
        read_entry(shard, 2)
