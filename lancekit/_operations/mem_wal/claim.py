"""How a writer takes a shard: a manifest with the next epoch, a sentinel, then what the log has.

The order is what makes it safe: the writer before puts its next entry where the sentinel is, and
learns of the epoch; what it put until then is replayed.

See docs/format/memwal.md, 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lancekit._format.mem_wal.names import entry_name
from lancekit._format.mem_wal.shard_manifest import ShardFieldValue, ShardManifest
from lancekit._legible import warn
from lancekit._operations.mem_wal.memtable import Memtable, replayed
from lancekit._shards.entry import Entry, encode_sentinel
from lancekit._shards.log import (
    check_reach,
    copy_aside,
    positions,
    put_entry,
    replayable,
    set_aside,
    told_torn,
)
from lancekit._shards.manifests import change, fenced, latest, put_next
from lancekit._shards.shard import Shard
from lancekit.errors import CorruptFileError, RetriesExhaustedError, ShardError

__all__ = ["Claim", "claim", "fence"]

#: what to do with rows that a shard does not take
_ELSEWHERE = (
    "Write to another shard with ds.mem_wal_writer(str(uuid.uuid4())), or into the table with "
    "ds.merge_insert."
)
#: how often others may change the shard meanwhile
_ATTEMPTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A shard that is taken.

    Attributes
    ----------
    epoch
        That of its writer from now on.
    position
        Where the next entry of the log goes.
    memtables
        What the log has and no generation, ascending; the last one is to be written to.
    healed
        The position of a torn entry, in whose place a sentinel is now; its bytes were moved aside.
    manifest_version
        The shard's newest manifest.
    """

    epoch: int
    position: int
    memtables: list[Memtable]
    manifest_version: int
    healed: int | None = None


def claim(
    shard: Shard,
    schema: pa.Schema,
    *,
    merged: int = 0,
    spec_id: int = 0,
    values: tuple[ShardFieldValue, ...] = (),
    sealed: bool = False,
    after: int | None = None,
) -> Claim:
    """Take a shard from whoever has it, and read what its log has.

    Parameters
    ----------
    shard
        The shard; it need not be there yet.
    schema
        What `wal_schema` makes of the table's schema.
    merged
        The last generation of the shard that the table has; those of a new shard come after it.
    spec_id, values
        What a new shard says of its rows.
    sealed
        Take a sealed shard, too.
    after
        The epoch that the claimer saw, 0 for no manifest: claim nothing if another writer claimed
        the shard since.

    Raises
    ------
    FencedError, RetriesExhaustedError
        Others took it at the same time, or since the epoch `after`.
    ShardError
        It is sealed, or of another history than the table.
    CorruptFileError
        The manifest or the log is damaged: an entry that is no sentinel comes after one that is
        missing or damaged.  Nothing was written over.
    """
    first = ShardManifest(
        shard=shard.id,
        version=1,
        writer_epoch=1,
        current_generation=merged + 1,
        spec_id=spec_id,
        field_values=values,
    )
    manifest, strays = _next_epoch(shard, first, merged, sealed=sealed, after=after)
    epoch = manifest.writer_epoch
    _move_strays(shard, strays)
    last = fence(shard, manifest) if epoch > 1 else max(positions(shard), default=0)
    try:
        entries, healed = _read_past(shard, manifest)
    except (CorruptFileError, FileNotFoundError):
        _check_own(shard, epoch)  # who has it now may have collected what was to be replayed
        raise
    last = max([last, *(entry.position for entry in entries)])
    tables = replayed(entries, manifest.current_generation, schema)
    if last > manifest.last_seen:
        manifest = change(shard, epoch, lambda newest: replace(newest, last_seen=last))
    return Claim(
        epoch=epoch,
        position=last + 1,
        memtables=tables,
        healed=healed,
        manifest_version=manifest.version,
    )


def _next_epoch(
    shard: Shard, first: ShardManifest, merged: int, *, sealed: bool, after: int | None
) -> tuple[ShardManifest, Sequence[int]]:
    """Put the manifest that takes a shard; return it, and the entries before the first one."""
    for _ in range(_ATTEMPTS):
        newest, strays = latest(shard), list[int]()
        epoch = 0 if newest is None else newest.writer_epoch
        if after is not None and epoch != after:
            raise fenced(shard, after, epoch)
        if newest is not None:
            _check_open(shard, newest, merged, sealed=sealed)
            if not _reaches(shard, newest):
                continue
            following = replace(
                newest, version=newest.version + 1, writer_epoch=newest.writer_epoch + 1
            )
        else:
            following, strays = first, positions(shard)
        if put_next(shard, following):
            return following, strays
        # who only drained it leaves the epoch alone
        winner = latest(shard)
        if winner is not None and winner.writer_epoch >= following.writer_epoch:
            raise fenced(shard, following.writer_epoch, winner.writer_epoch)
    raise RetriesExhaustedError(
        f"Shard {shard.id} was changed by others {_ATTEMPTS} times meanwhile.",
        hint="Try again.",
        shard=str(shard.id),
    )


def _reaches(shard: Shard, manifest: ShardManifest) -> bool:
    """Check the log before anything is put; return False if the manifest is not the newest now.

    The sentinel of a claim would be an entry where acknowledged ones are missing.

    Raises
    ------
    CorruptFileError
        The log contradicts the manifest.
    """
    try:
        check_reach(shard, manifest, positions(shard))
    except CorruptFileError:
        now = latest(shard)  # a flush and a cleanup since explain it
        if now is None or now.version == manifest.version:
            raise
        return False
    return True


def _check_open(shard: Shard, manifest: ShardManifest, merged: int, *, sealed: bool) -> None:
    if manifest.sealed and not sealed:
        raise ShardError(
            f"Shard {shard.id} is sealed: it takes no more rows.",
            hint=f"{_ELSEWHERE} ds.merge_mem_wal(flush=True) merges the rows that it has.",
            shard=str(shard.id),
        )
    if manifest.current_generation <= merged:
        raise ShardError(
            f"The next generation of shard {shard.id} is {manifest.current_generation}, and the "
            f"table says that it has all up to {merged}: rows would be taken for merged ones.",
            hint="The shard was begun by a writer that does not know what a branch or a clone "
            f"inherits. {_ELSEWHERE}",
            shard=str(shard.id),
            generation=manifest.current_generation,
            merged=merged,
        )


def _move_strays(shard: Shard, numbers: Sequence[int]) -> None:
    """Move entries aside that were there before the first manifest of a shard.

    A writer of a table that was in this place before put them, or the manifests are lost.
    """
    for number in numbers:
        aside = copy_aside(shard, number)
        shard.store.delete(entry_name(number))
        warn(
            f"Entry {number} of the write-ahead log of shard {shard.id} belongs to no manifest of "
            f"the shard. It was moved to {shard.store.uri}/{aside}."
        )


def fence(shard: Shard, manifest: ShardManifest) -> int:
    """Put a sentinel behind the last entry, to keep earlier writers out; return its position.

    Where the log lost its entries, the next one is still behind the cursor: nobody would replay it
    otherwise.
    """
    sentinel = encode_sentinel(manifest.writer_epoch)
    # listed, not looked for by name: that would take a hole for the end, and fill it
    position = max([manifest.replay_after, *positions(shard)]) + 1
    while not put_entry(shard, position, sentinel):
        position += 1  # the writer before was quicker; what it put is replayed
    return position


def _read_past(shard: Shard, manifest: ShardManifest) -> tuple[list[Entry], int | None]:
    """Return what there is to replay, and the position of a torn entry, which is healed."""
    entries: list[Entry] = []
    for entry in replayable(shard, manifest):
        name = entry_name(entry.position)
        if entry.torn:
            aside = set_aside(shard, entry.position, manifest.writer_epoch)
            warn(f"{told_torn(shard, entry.position)}, and was moved to {shard.store.uri}/{aside}.")
            return entries, entry.position  # nothing comes after it
        # rows of this very epoch are of a writer whose manifest is lost: the next claim fences it
        if entry.epoch > manifest.writer_epoch - (not entry.sentinel):
            raise fenced(shard, manifest.writer_epoch, entry.epoch)
        if not entry.checked:
            # the reference flushes nothing: if this got torn, nobody would read what comes later
            shard.store.flush(name)
        entries.append(entry)
    return entries, None


def _check_own(shard: Shard, epoch: int) -> None:
    """Raise `FencedError` if another writer took the shard meanwhile."""
    newest = latest(shard)
    if newest is not None and newest.writer_epoch != epoch:
        raise fenced(shard, epoch, newest.writer_epoch)
