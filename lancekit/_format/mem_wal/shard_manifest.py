"""Manifests of shards (docs/format/memwal.md, 2)."""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa

from lancekit._format import _codecs as c
from lancekit._format._codecs import Part, decode, encode, wire
from lancekit._format.pb import table_pb2 as pb
from lancekit._format.unknown_fields import parse, take_unknown
from lancekit.errors import CorruptFileError

ACTIVE, SEALED = 0, 1

#: lancekit's own field 27754 with 8 random bytes, so that no two manifests are equal files
_UNIQUE_TAG, _UNIQUE_BYTES = b"\xd1\xc6\r", 8
#: lancekit's own field 27755 ("lk") with 8 bytes: version, and CRC-32 of all bytes before
_CHECKSUM, _CHECKSUM_TAG, _CRC_BYTES = struct.Struct("<3sII"), b"\xd9\xc6\r", 4
#: matches a folder of the list of generations, and no other field
_FOLDER = re.compile(rb"[0-9a-f]{8}_gen_[1-9]")


@dataclass(frozen=True, slots=True)
class SsTable(Part):
    """Flushed generation: its number, its folder in the shard, and its sizes.

    `manifest_crc32` is the CRC-32 of the generation's manifest file; only lancekit writes it.
    """

    generation: int = wire(c.whole())
    path: str = wire(c.TEXT)
    in_memory_bytes: int | None = wire(c.maybe_whole(), default=None)
    physical_rows: int | None = wire(c.maybe_whole(), default=None)
    primary_key_bytes: int | None = wire(c.maybe_whole(), default=None)
    manifest_crc32: int | None = wire(c.maybe_whole(32), default=None)


@dataclass(frozen=True, slots=True)
class ShardFieldValue(Part):
    """Value of a sharding field for all rows of a shard: its bytes, or UTF-8."""

    field_id: str = wire(c.TEXT)
    value: bytes = wire(c.DATA)


_SSTABLES = c.parts(SsTable)
_FIELD_VALUES = c.parts(ShardFieldValue)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardManifest(Part):
    """One version of a shard's state.

    shard: the shard's id.
    version: from 1, without gaps.
    spec_id: the sharding spec that assigns rows to it, or 0 without a spec.
    writer_epoch: fencing epoch of the current writer.  Entries and manifests of earlier epochs are
        void.
    replay_after: the last log entry whose rows are all in the generations.
    last_seen: a log entry that exists.  Later entries may exist, too.
    current_generation: the number of the next generation.
    sstables: generations that are flushed and not drained.
    field_values: values of the sharding fields for all rows of the shard.
    status: 0 if rows can be written, 1 if the shard is sealed.
    """

    shard: UUID = wire(c.UUIDS, name="shard_id")
    version: int = wire(c.whole())
    spec_id: int = wire(c.whole(32), name="shard_spec_id", default=0)
    writer_epoch: int = wire(c.whole())
    replay_after: int = wire(c.whole(), name="replay_after_wal_entry_position", default=0)
    last_seen: int = wire(c.whole(), name="wal_entry_position_last_seen", default=0)
    current_generation: int = wire(c.whole(), default=1)
    sstables: tuple[SsTable, ...] = wire(_SSTABLES, default=())
    field_values: tuple[ShardFieldValue, ...] = wire(_FIELD_VALUES, default=())
    status: int = wire(c.whole(32), default=ACTIVE)

    @property
    def sealed(self) -> bool:
        """True if the shard accepts no more writes."""
        return self.status != ACTIVE

    @property
    def flushed(self) -> int:
        """Highest generation in `sstables`; 0 without any."""
        return max((table.generation for table in self.sstables), default=0)

    @property
    def values(self) -> Mapping[str, bytes]:
        """Encoded values of the sharding fields, by field id."""
        return {one.field_id: one.value for one in self.field_values}


def parse_shard_manifest(data: bytes | pa.Buffer, where: str) -> ShardManifest:
    """Parse a shard manifest.

    Raises CorruptFileError: the bytes are damaged or empty, the checksum is wrong, or a generation
        is outside of the list of generations.  The error names `where`.
    """
    data, checksum = bytes(data), b""
    if data[-_CHECKSUM.size :].startswith(_CHECKSUM_TAG):
        data, checksum = data[: -_CHECKSUM.size], data[-_CHECKSUM.size :]
    # the random bytes are dropped, because each manifest gets new ones
    unique = -len(_UNIQUE_TAG) - _UNIQUE_BYTES
    has_unique = bool(checksum) and data[unique:].startswith(_UNIQUE_TAG)
    message = parse(pb.ShardManifest, data[:unique] if has_unique else data, where)
    if not message.version:
        raise _damaged(where, "it has no version")
    if _FOLDER.search(take_unknown(message)):
        raise _damaged(where, "a generation is in a field that is not the list of generations")
    expected = _checksum_of(data, message.version)
    # writers that do not know the checksum keep it: it then names an earlier version and is ignored
    if checksum != expected and checksum[:-_CRC_BYTES] == expected[:-_CRC_BYTES]:
        raise _damaged(where, "its checksum does not match")
    return decode(ShardManifest, message)


def _damaged(where: str, why: str) -> CorruptFileError:
    return CorruptFileError(
        f"{where} is damaged: {why}.",
        hint="Restore the file from a copy: rows of the shard cannot be found without it.",
        file=where,
    )


def with_checksum(data: bytes, version: int) -> bytes:
    """Append random bytes and a checksum to an encoded manifest, in fields that others ignore.

    A log that was removed and recreated could have a manifest with the same content, and object
    stores identify objects by content.
    """
    data += _UNIQUE_TAG + os.urandom(_UNIQUE_BYTES)
    return data + _checksum_of(data, version)


def _checksum_of(data: bytes, version: int) -> bytes:
    return _CHECKSUM.pack(_CHECKSUM_TAG, version & 0xFFFF_FFFF, zlib.crc32(data))


def encode_shard_manifest(manifest: ShardManifest) -> bytes:
    """Encode a manifest.

    Examples
    --------
    >>> made = ShardManifest(shard=UUID(int=7), version=1, writer_epoch=1)
    >>> parse_shard_manifest(encode_shard_manifest(made), "a manifest") == made
    True
    """
    message = pb.ShardManifest()
    encode(manifest, message)
    return message.SerializeToString()
