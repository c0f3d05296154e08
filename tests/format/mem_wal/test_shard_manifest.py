"""Manifests of shards, as the reference writes them."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from lancekit._format.mem_wal.names import LOGS
from lancekit._format.mem_wal.shard_manifest import (
    ShardManifest,
    SsTable,
    encode_shard_manifest,
    parse_shard_manifest,
    with_checksum,
)
from lancekit.errors import CorruptFileError
from tests.support.shards import SHARD, newest, rows, with_shards


def test_bytes_are_those_of_the_reference(tmp_path: Path) -> None:
    ds = with_shards(tmp_path, bucket_column="id", num_buckets=4)
    for number in range(2):
        with ds.mem_wal_writer(SHARD) as writer:
            writer.put(rows(number))
    files = sorted((tmp_path / LOGS / SHARD / "manifest").glob("*.binpb"))
    assert len(files) == 5
    for file in files:
        data = file.read_bytes()
        assert encode_shard_manifest(parse_shard_manifest(data, file.name)) == data
    found = newest(tmp_path)
    assert (found.shard, found.version, found.spec_id, found.sealed) == (UUID(SHARD), 5, 1, False)
    assert (found.writer_epoch, found.replay_after, found.current_generation) == (2, 3, 3)
    assert [(one.generation, one.physical_rows) for one in found.sstables] == [(1, 1), (2, 1)]
    assert found.flushed == 2


def test_newer_fields_and_older_tables_are_kept() -> None:
    newer = b"\x08\x05\x92\x03\x02ab" + b"B\x08\x08\x03\x12\x01a\x92\x03\x00"
    made = parse_shard_manifest(newer, "it")
    assert made.sstables == (SsTable(3, "a", unknown=b"\x92\x03\x00"),)
    assert sorted(encode_shard_manifest(made)) == sorted(newer + b"Z\x12\x0a\x10" + bytes(16))
    assert parse_shard_manifest(b"\x08\x01\x78\x01", "it").sealed
    filled = parse_shard_manifest(b"\x08\x01\x72\x08\x0a\x01f\x12\x03abc", "it")
    assert filled.values == {"f": b"abc"}


@pytest.mark.parametrize("data", [b"", b"\x08", b"\x00" * 30, b"\x10\x01"])
def test_damage_names_the_file(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match=r"some file.* is damaged"):
        parse_shard_manifest(data, "some file")


@pytest.mark.parametrize("bit", range(8))
def test_a_generation_outside_of_the_list_is_damage(bit: int) -> None:
    """A field that nobody knows is carried on, and hides a generation if its number is damaged."""
    made = ShardManifest(
        shard=UUID(int=7), version=1, writer_epoch=1, sstables=(SsTable(1, "0a1b2c3d_gen_1"),)
    )
    data = bytearray(encode_shard_manifest(made))
    data[data.index(b"B")] ^= 1 << bit
    with pytest.raises(CorruptFileError, match=r"^a manifest"):
        parse_shard_manifest(data, "a manifest")


def test_manifests_do_not_grow_by_what_earlier_ones_had() -> None:
    made = ShardManifest(shard=UUID(int=7), version=1, writer_epoch=1)
    sizes = set()
    for _ in range(3):
        data = with_checksum(encode_shard_manifest(made), made.version)
        sizes.add(len(data))
        made = parse_shard_manifest(data, "a manifest")
    assert len(sizes) == 1
