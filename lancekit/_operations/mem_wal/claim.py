"""Claim a shard for a writer, and decide when a waiting process may do so.

The order of steps makes a claim safe.  The previous writer puts its next entry at the position of
the sentinel, and learns of the new epoch.  All entries that it put before are replayed.

See docs/format/memwal.md, 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic

import pyarrow as pa

from lancekit._format.mem_wal.names import WAL, entry_name
from lancekit._format.mem_wal.shard_manifest import ShardFieldValue, ShardManifest
from lancekit._legible import warn
from lancekit._operations.mem_wal.generation import Memtable, replayed
from lancekit._shards.entry import Entry, encode_sentinel, read_entry
from lancekit._shards.log import (
    check_log,
    copy_aside,
    positions,
    put_entry,
    replayable,
    set_aside,
    tip,
    torn_message,
)
from lancekit._shards.manifests import change, fenced, latest, put_next
from lancekit._shards.schema import Shard
from lancekit.errors import (
    CorruptFileError,
    RetriesExhaustedError,
    ShardError,
    UnsupportedFeatureError,
)

#: a hint for rows that a shard refuses
_ELSEWHERE = (
    "Write to another shard with ds.mem_wal_writer(str(uuid.uuid4())), or to the table with "
    "ds.merge_insert."
)
#: the number of attempts to put the manifest of a claim
_ATTEMPTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A shard that was claimed.

    epoch: the epoch of its new writer.
    position: the position of the next entry.
    memtables: the rows of the log that no generation has, ascending.  The last memtable is active.
    healed: the position of a torn entry that a sentinel replaced.  Its bytes were moved aside.
    manifest_version: the version of the shard's newest manifest.
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
    """Claim a shard, fencing its current writer, and replay its log.

    shard: the shard, which does not have to exist yet.
    schema: the result of `wal_schema` for the table's schema.
    merged: the last generation of the shard that the table has.  A new shard starts after it.
    spec_id, values: the sharding spec and values of a new shard.
    sealed: claim a sealed shard, too.
    after: the epoch that the claimer saw, or 0 for no manifest.  If another writer claimed the
        shard since, nothing is claimed.

    Raises FencedError, RetriesExhaustedError: another writer claimed the shard at the same time, or
        since the epoch `after`.
    Raises ShardError: the shard is sealed, or its generations are not above `merged`.
    Raises CorruptFileError: the manifest or the log is damaged: an entry with rows follows a
        missing or damaged one.  Nothing is overwritten.
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
        entries, healed = _entries_to_replay(shard, manifest)
    except (CorruptFileError, FileNotFoundError):
        _check_not_fenced(shard, epoch)  # a newer writer's cleanup can remove entries
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
    """Put the manifest that claims a shard; return it, and entries older than its first one."""
    for _ in range(_ATTEMPTS):
        newest, strays = latest(shard), list[int]()
        epoch = 0 if newest is None else newest.writer_epoch
        if after is not None and epoch != after:
            raise fenced(shard, after, epoch)
        if newest is not None:
            _check_open(shard, newest, merged, sealed=sealed)
            if not _log_agrees(shard, newest):
                continue
            following = replace(
                newest, version=newest.version + 1, writer_epoch=newest.writer_epoch + 1
            )
        else:
            following, strays = first, positions(shard)
        if put_next(shard, following):
            return following, strays
        # a process that only drained the shard keeps the epoch
        winner = latest(shard)
        if winner is not None and winner.writer_epoch >= following.writer_epoch:
            raise fenced(shard, following.writer_epoch, winner.writer_epoch)
    raise RetriesExhaustedError(
        f"Gave up on shard {shard.id}: other writers changed it {_ATTEMPTS} times in the meantime.",
        hint="Try again.",
        shard=str(shard.id),
    )


def _log_agrees(shard: Shard, manifest: ShardManifest) -> bool:
    """Check the log against the manifest before a claim; return False if the manifest is outdated.

    Without this check, the sentinel of a claim could take the position of a lost entry.

    Raises CorruptFileError: the log contradicts the manifest.
    """
    try:
        check_log(shard, manifest, positions(shard))
    except CorruptFileError:
        now = latest(shard)  # a flush and a cleanup can explain the contradiction
        if now is None or now.version == manifest.version:
            raise
        return False
    return True


def _check_open(shard: Shard, manifest: ShardManifest, merged: int, *, sealed: bool) -> None:
    if manifest.sealed and not sealed:
        raise ShardError(
            f"Shard {shard.id} is sealed and accepts no more rows.",
            hint=f"{_ELSEWHERE} ds.merge_mem_wal(flush=True) merges its rows.",
            shard=str(shard.id),
        )
    if manifest.current_generation <= merged:
        raise ShardError(
            f"The next generation of shard {shard.id} is {manifest.current_generation}, but the "
            f"table records all up to {merged} as merged: new rows would count as merged.",
            hint="The shard was created by a writer that ignores the marks of a branch or a "
            f"clone. {_ELSEWHERE}",
            shard=str(shard.id),
            generation=manifest.current_generation,
            merged=merged,
        )


def _move_strays(shard: Shard, numbers: Sequence[int]) -> None:
    """Move aside entries that are older than the first manifest of a shard.

    A writer of a table that was at this location before put them, or the manifests are lost.
    """
    for number in numbers:
        aside = copy_aside(shard, number)
        shard.store.delete(entry_name(number))
        warn(
            f"Entry {number} of the write-ahead log of shard {shard.id} precedes the shard's "
            f"first manifest. It was moved to {shard.store.uri}/{aside}."
        )


def fence(shard: Shard, manifest: ShardManifest) -> int:
    """Put a sentinel after the last entry, to fence earlier writers; return its position.

    If the end of the log is lost, the sentinel still goes after the manifest's cursor.  Replay
    skips entries before the cursor.
    """
    sentinel = encode_sentinel(manifest.writer_epoch)
    # listed, not probed by name: probing would stop at a hole and fill it
    position = max([manifest.replay_after, *positions(shard)]) + 1
    while not put_entry(shard, position, sentinel):
        position += 1  # the previous writer was faster, and its entry is replayed
    return position


def _entries_to_replay(shard: Shard, manifest: ShardManifest) -> tuple[list[Entry], int | None]:
    """Return the entries to replay, and the position of a torn entry, which is moved aside."""
    entries: list[Entry] = []
    for entry in replayable(shard, manifest):
        name = entry_name(entry.position)
        if entry.torn:
            aside = set_aside(shard, entry.position, manifest.writer_epoch)
            message = torn_message(shard, entry.position)
            warn(f"{message}, and was moved to {shard.store.uri}/{aside}.")
            return entries, entry.position  # nothing comes after it
        # rows of this epoch come from a writer whose manifest is lost: the next claim fences it
        if entry.epoch > manifest.writer_epoch - (not entry.sentinel):
            raise fenced(shard, manifest.writer_epoch, entry.epoch)
        if not entry.checked:
            # the reference does not flush: a torn entry would block the replay of later ones
            shard.store.flush(name)
        entries.append(entry)
    return entries, None


def _check_not_fenced(shard: Shard, epoch: int) -> None:
    """Raise `FencedError` if another writer has claimed the shard since."""
    newest = latest(shard)
    if newest is not None and newest.writer_epoch != epoch:
        raise fenced(shard, epoch, newest.writer_epoch)


# ---- turns: many writers share a shard without a lock
#
# The format has no lock: a claim fences the current writer, which loses its work since the last
# put.  So a claimer first watches the shard.  It leaves the writer time to read the log and to put
# rows for one turn.  Among several claimers, whoever has watched more claims may claim earlier.
# A claim names the epoch that it follows, so one of several concurrent claims succeeds and the
# others lose nothing.  Writers of the reference do not watch: they fence, as the format allows.

#: the pause between two polls of a shard
POLL_SECONDS = 0.03
#: the shortest time that a writer with puts keeps its shard
_TURN_SECONDS = 0.15
#: the number of extra polls that a claimer waits, one less for each claim that it has watched
_STEPS = 10
#: a writer that has put rows and then paused for so long gives up its shard
_IDLE_SECONDS = 0.15
#: the longest time for a writer to claim the shard and put its first row
_FIRST_SECONDS = 3.0
#: the log length at which writers that take turns flush: each turn reads the whole log
LONG_LOG = 300
#: the longest time for that flush: if the writer is fenced, the next one starts over
_LONG_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class _State:
    """The state of a shard at one poll: epoch, manifest version, and end of the log."""

    epoch: int
    version: int
    tip: int


class Turn:
    """Watches a shard until it may be claimed.  Not thread-safe.

    own_epoch: the epoch of the claimer's last claim.  Reclaiming it fences no other process.
    cost: the seconds that its last claim took, a measure of the machine and the storage.
    """

    def __init__(self) -> None:
        self.own_epoch = 0
        self.cost = 0.0
        self._begun: int | None = None
        self._state = _State(0, 0, 0)
        self._claimed = self._changed = 0.0
        self._put: float | None = None
        self._is_long = False

    @property
    def is_contended(self) -> bool:
        """True if other writers put rows while the claimer waits."""
        return self._begun is not None

    def begin(self) -> None:
        """Forget the watched claims, because the claimer's rows are in the log."""
        self._begun = None

    def poll(self, shard: Shard) -> tuple[int, bool]:
        """Poll the shard; return its epoch, and whether it may be claimed now.

        Raises CorruptFileError: the newest manifest is damaged.
        """
        manifest, now = latest(shard), monotonic()
        if manifest is None:
            return 0, True
        epoch = manifest.writer_epoch
        if epoch == self.own_epoch:
            return epoch, True
        if self._begun is None:
            if shard.store.stamp(WAL) is not None:  # no entry was put for seconds
                return epoch, True
            self._begun, self._state = epoch, _State(0, 0, 0)
        state = _State(epoch, manifest.version, tip(shard, self._state.tip or manifest.last_seen))
        if state.epoch != self._state.epoch:
            self._claimed, self._put = now, None
        if state != self._state:
            self._state, self._changed = state, now
        if self._put is None and _has_put(shard, manifest, state.tip):
            self._put = now
        self._is_long = state.tip - manifest.replay_after > LONG_LOG
        return epoch, self._is_over(now, epoch - self._begun)

    def _is_over(self, now: float, seen: int) -> bool:
        if self._put is None:
            patience = _LONG_SECONDS if self._is_long else _FIRST_SECONDS
            return now - self._claimed >= max(patience, 3 * self.cost)
        longer = POLL_SECONDS * max(0, _STEPS - seen)
        idle = now - self._changed >= _IDLE_SECONDS + longer / 4
        return idle or now - self._put >= _TURN_SECONDS + longer


def _has_put(shard: Shard, manifest: ShardManifest, end: int) -> bool:
    """Return True if the writer has put rows since its claim, or no entry is left to replay."""
    if end <= manifest.replay_after:
        return True
    with suppress(FileNotFoundError, CorruptFileError, UnsupportedFeatureError):
        entry = read_entry(shard, end)
        return not entry.sentinel and entry.epoch == manifest.writer_epoch
    return True  # the claim raises the error
