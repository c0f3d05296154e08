"""The shards of a table, and the state of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from lancekit._display import Displayed
from lancekit._format.mem_wal.shard_manifest import ShardManifest
from lancekit._legible import shown
from lancekit._operations.unmerged.marks import Marks, check_shards, lost_shards
from lancekit._operations.unmerged.waiting_rows import WaitingRows
from lancekit._shards.entry import count_entry_rows
from lancekit._shards.log import positions
from lancekit._shards.manifests import latest
from lancekit._shards.schema import Shard, shards_of
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError, InvalidArgumentError, InvalidTypeError


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation that a shard lists.

    `merged` is True if the version already has its rows.  `rows` and `bytes` are the counts of its
    writer, hidden rows and tombstones included.
    """

    number: int
    path: str
    merged: bool
    rows: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardInfo:
    """A shard as its newest manifest and the version describe it.

    Attributes
    ----------
    shard_id
        The UUID of the shard.
    spec_id, values
        The sharding spec that routes rows to the shard, 0 for none, and the values of the spec's
        fields for these rows, by field id: bytes.
    version, epoch, sealed
        The version of the newest manifest, the epoch of the current writer, and whether the shard
        is sealed against writes.
    current_generation
        The number of the next generation.
    merged_generation
        The last generation whose rows the version has.
    generations
        The generations that the manifest lists.
    log_entries
        The number of log entries whose rows are in no generation, up to the last entry with rows,
        sentinels of writers included.
    """

    shard_id: str
    spec_id: int
    values: Mapping[str, Any] = field(default_factory=dict)
    version: int
    epoch: int
    sealed: bool
    current_generation: int
    merged_generation: int
    generations: tuple[Generation, ...]
    log_entries: int

    @property
    def unmerged_generations(self) -> tuple[Generation, ...]:
        """The generations whose rows the version does not have."""
        return tuple(one for one in self.generations if not one.merged)


class Shards(Displayed, list[ShardInfo]):
    """The shards of a table, sorted by id: a list with a card."""

    #: the rows that wait to be merged, for the card
    waiting: WaitingRows = WaitingRows()

    def _plain(self) -> str:
        return ", ".join(one.shard_id for one in self) or "no shards"


def shard_infos(snapshot: Snapshot) -> Shards:
    """Return the state of each shard of a version's branch, sorted by id.

    Raises CorruptFileError: the newest manifest of a shard is damaged, or a shard is missing.
    """
    marks = Marks(snapshot)
    manifests = {s: m for s in shards_of(snapshot.store) if (m := latest(s)) is not None}
    check_shards(snapshot, {shard.id for shard in manifests})
    return Shards(_info(shard, manifest, marks) for shard, manifest in manifests.items())


def _info(shard: Shard, manifest: ShardManifest, marks: Marks) -> ShardInfo:
    return ShardInfo(
        shard_id=str(shard.id),
        spec_id=manifest.spec_id,
        values=manifest.values,
        version=manifest.version,
        epoch=manifest.writer_epoch,
        sealed=manifest.sealed,
        current_generation=manifest.current_generation,
        merged_generation=marks.merged.get(shard.id, 0),
        generations=tuple(
            Generation(
                one.generation,
                one.path,
                marks.has(shard.id, one.generation),
                one.physical_rows,
                one.in_memory_bytes,
            )
            for one in manifest.sstables
        ),
        log_entries=_entries(shard, manifest),
    )


def _entries(shard: Shard, manifest: ShardManifest) -> int:
    """Count the entries up to the last one with rows; usually this reads one entry."""
    numbers = [number for number in positions(shard) if number > manifest.replay_after]
    while numbers and not _has_rows(shard, numbers[-1]):
        numbers.pop()
    return len(numbers)


def _has_rows(shard: Shard, number: int) -> bool:
    try:
        return count_entry_rows(shard, number) > 0
    except FileNotFoundError:  # a cleanup removed it
        return False
    except CorruptFileError:
        return True


def chosen_shards(snapshot: Snapshot, ids: object = None, *, lost: bool = False) -> list[Shard]:
    """Return the requested shards of a version's branch, all by default.

    With `lost`, all includes missing shards instead of raising for them.

    Raises InvalidArgumentError: an id is not a UUID, or the branch has no such shard.
    Raises CorruptFileError: a shard is missing.
    """
    every = shards_of(snapshot.store)
    if ids is None:
        if lost:
            listed = {shard.id for shard in every}
            return every + [one for one in lost_shards(snapshot) if one.id not in listed]
        check_shards(snapshot)
        return every
    if isinstance(ids, str | UUID) or not isinstance(ids, Iterable):
        raise InvalidTypeError(f"shards must be a list of shard ids, got {shown(ids)}.")
    by_id = {shard.id: shard for shard in every}
    wanted = [_id_of(one) for one in ids]
    if unknown := [one for one in wanted if one not in by_id]:
        raise InvalidArgumentError(
            f"{snapshot.location.uri} has no shard {unknown[0]}.",
            hint="ds.mem_wal_shards() lists the shards.",
            shard=str(unknown[0]),
        )
    return [by_id[one] for one in dict.fromkeys(wanted)]


def _id_of(shard: UUID | str) -> UUID:
    try:
        return shard if isinstance(shard, UUID) else UUID(shard)
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(f"Ids of shards must be UUIDs, got {shown(shard)}.") from error
