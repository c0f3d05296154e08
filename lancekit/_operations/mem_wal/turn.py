"""Whose turn it is to take a shard, so that many writers get on without a lock.

The format has no lock: whoever claims a shard fences its writer, whose work since the last put is
lost.  So a claimer first watches the shard.  The writer gets the time to read the log and to put
rows for a turn.  Of those that watch, whoever saw more claims goes by claims earlier.  A claim
names the epoch that it follows, so that of several at once one succeeds and the others lose
nothing.  Writers of the reference do not watch; they fence as the format has it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from lancekit._format.mem_wal.names import WAL
from lancekit._format.mem_wal.shard_manifest import ShardManifest
from lancekit._shards.entry import read_entry
from lancekit._shards.log import tip
from lancekit._shards.manifests import latest
from lancekit._shards.shard import Shard
from lancekit.errors import CorruptFileError, UnsupportedFeatureError

__all__ = ["LONG_LOG", "LOOK_SECONDS", "Turn"]

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

    Attributes
    ----------
    held
        The epoch of the claimer's last claim: nobody else loses by the next one.
    cost
        How many seconds its last claim took: how slow the machine and the storage are.
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

        Raises
        ------
        CorruptFileError
            The newest manifest is damaged.
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
