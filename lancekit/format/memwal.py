"""Details of the `__lance_mem_wal` entry: what was merged of each write-ahead region.

See docs/format/memwal.md, 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from lancekit.format.index import IndexDetails
from lancekit.format.pb import table_pb2 as pb
from lancekit.format.unknown_fields import parse

__all__ = [
    "LOGS",
    "MEM_WAL",
    "ShardProgress",
    "merged_generations",
    "parse_shard",
    "position",
    "with_generations",
]

#: the name of the system index
MEM_WAL = "__lance_mem_wal"

#: the folder of the logs, below that of a branch
LOGS = "_mem_wal"

_TYPE_URL = "/lance.table.MemWalIndexDetails"


def _parse(details: IndexDetails | None) -> pb.MemWalIndexDetails:
    return parse(pb.MemWalIndexDetails, details.value if details else b"", f"details of {MEM_WAL}")


def merged_generations(details: IndexDetails | None) -> dict[UUID, int]:
    """Return the last merged generation of each region."""
    return {
        UUID(bytes=entry.region_id.uuid.rjust(16, b"\0")[:16]): entry.generation
        for entry in _parse(details).merged_generations
    }


def with_generations(details: IndexDetails | None, merged: Mapping[UUID, int]) -> IndexDetails:
    """Return details in which some regions were merged up to another generation."""
    message = _parse(details)
    known = {entry.region_id.uuid: entry for entry in message.merged_generations}
    for region, generation in merged.items():
        entry = known.get(region.bytes)
        if entry is None:
            entry = message.merged_generations.add()
            entry.region_id.uuid = region.bytes
        entry.generation = generation
    type_url = details.type_url if details else _TYPE_URL
    return IndexDetails(type_url, message.SerializeToString())


@dataclass(frozen=True, slots=True)
class ShardProgress:
    """How far a shard is: its last flushed generation, and up to which entry those have all."""

    shard: UUID
    flushed: int
    replay_after: int


def parse_shard(data: bytes, where: str) -> ShardProgress:
    """Parse a manifest of a shard."""
    message = parse(pb.RegionManifest, data, where)
    return ShardProgress(
        shard=UUID(bytes=message.region_id.uuid.rjust(16, b"\0")[:16]),
        flushed=max((one.generation for one in message.flushed_generations), default=0),
        replay_after=message.replay_after_wal_entry_position,
    )


def position(name: str) -> int:
    """Return the number that a file of a shard is named by: its bits, the lowest first.

    Examples
    --------
    >>> position("0100.binpb"), position("version_hint.json")
    (2, 0)
    """
    bits = name.rpartition("/")[2].partition(".")[0]
    return int(bits[::-1], 2) if bits and set(bits) <= {"0", "1"} else 0
