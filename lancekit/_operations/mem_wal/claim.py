"""How a writer takes a shard, and whose turn it is to do so.

The order is what makes it safe: the writer before puts its next entry where the sentinel is, and
learns of the epoch; what it put until then is replayed.

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
    check_reach,
    copy_aside,
    positions,
    put_entry,
    replayable,
    set_aside,
    tip,
    told_torn,
)
from lancekit._shards.manifests import change, fenced, latest, put_next
from lancekit._shards.schema import Shard
from lancekit.errors import (
    CorruptFileError,
    RetriesExhaustedError,
    ShardError,
    UnsupportedFeatureError,
)

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

    epoch: that of its writer from now on.
    position: where the next entry of the log goes.
    memtables: what the log has and no generation, ascending; the last one is to be written to.
    healed: the position of a torn entry, in whose place a sentinel is now; its bytes were moved
        aside.
    manifest_version: the shard's newest manifest.
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

    shard: the shard; it need not be there yet.
    schema: what `wal_schema` makes of the table's schema.
    merged: the last generation of the shard that the table has; those of a new shard come after it.
    spec_id, values: what a new shard says of its rows.
    sealed: take a sealed shard, too.
    after: the epoch that the claimer saw, 0 for no manifest: claim nothing if another writer
        claimed the shard since.

    Raises FencedError, RetriesExhaustedError: others took it at the same time, or since the epoch
        `after`.
    Raises ShardError: it is sealed, or of another history than the table.
    Raises CorruptFileError: the manifest or the log is damaged: an entry that is no sentinel comes
        after one that is missing or damaged.  Nothing was written over.
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

    Raises CorruptFileError: the log contradicts the manifest.
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


# ---- whose turn it is to take a shard, so that many writers get on without a lock
#
# The format has no lock: whoever claims a shard fences its writer, whose work since the last put is
# lost.  So a claimer first watches the shard.  The writer gets the time to read the log and to put
# rows for a turn.  Of those that watch, whoever saw more claims goes by claims earlier.  A claim
# names the epoch that it follows, so that of several at once one succeeds and the others lose
# nothing.  Writers of the reference do not watch; they fence as the format has it.

#: the pause between two looks at a shard
LOOK_SECONDS = 0.03
#: how long a writer that puts rows keeps its shard at least
_TURN_SECONDS = 0.15
#: so many looks longer if the claimer saw no claim go by, one less for each that it saw
_STEPS = 10
#: a writer that put rows and then nothing for so long needs its shard no more
_IDLE_SECONDS = 0.15
#: how long a writer may take to claim the shard and to put its first row
_FIRST_SECONDS = 3.0
#: writers that take turns make a generation of a log of so many entries, which each reads
LONG_LOG = 300
#: and how long the writer may take then: if it is fenced meanwhile, the next one begins again
_LONG_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class _State:
    """A shard at a look: its epoch, its manifest's version, and the end of its log."""

    epoch: int
    version: int
    tip: int


class Turn:
    """Watches a shard until it may be claimed.  Not for several threads at once.

    held: the epoch of the claimer's last claim: nobody else loses by the next one.
    cost: how many seconds its last claim took: how slow the machine and the storage are.
    """

    def __init__(self) -> None:
        self.held = 0
        self.cost = 0.0
        self._begun: int | None = None
        self._state = _State(0, 0, 0)
        self._claimed = self._changed = 0.0
        self._put: float | None = None
        self._is_long = False

    @property
    def is_contended(self) -> bool:
        """Whether other writers put rows while the claimer waits."""
        return self._begun is not None

    def begin(self) -> None:
        """Forget which claims went by: the claimer got its rows into the log."""
        self._begun = None

    def look(self, shard: Shard) -> tuple[int, bool]:
        """Look at the shard; return its epoch, and whether it may be claimed now.

        Raises CorruptFileError: the newest manifest is damaged.
        """
        manifest, now = latest(shard), monotonic()
        if manifest is None:
            return 0, True
        epoch = manifest.writer_epoch
        if epoch == self.held:
            return epoch, True
        if self._begun is None:
            if shard.store.stamp(WAL) is not None:  # nobody put an entry for seconds
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
        longer = LOOK_SECONDS * max(0, _STEPS - seen)
        idle = now - self._changed >= _IDLE_SECONDS + longer / 4
        return idle or now - self._put >= _TURN_SECONDS + longer


def _has_put(shard: Shard, manifest: ShardManifest, end: int) -> bool:
    """Return whether the writer put rows since its claim, or left none in the log."""
    if end <= manifest.replay_after:
        return True
    with suppress(FileNotFoundError, CorruptFileError, UnsupportedFeatureError):
        entry = read_entry(shard, end)
        return not entry.sentinel and entry.epoch == manifest.writer_epoch
    return True  # a claim tells what is wrong
