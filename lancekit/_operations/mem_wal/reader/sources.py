"""The generations and logs that are read together with a table.

Manifests and logs are read first, then the table's newest version, and parts that it has merged are
left out.  The other order could miss rows that are merged after the version was read and drained
before the manifest is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

from lancekit._cache import remembered
from lancekit._format.mem_wal.details import details_of
from lancekit._format.mem_wal.names import LOGS
from lancekit._format.mem_wal.shard_manifest import ShardManifest
from lancekit._lazy import cached_property
from lancekit._legible import warn
from lancekit._operations.mem_wal.reader.newest import Newest, newest_of
from lancekit._operations.mem_wal.reader.parts import (
    CACHE_KIND,
    FIRST_ID,
    MemoryRows,
    Part,
    Parts,
    ShardState,
    cache_key,
)
from lancekit._operations.unmerged.marks import check_shards
from lancekit._scan.fragments.source import FragmentSource
from lancekit._shards.entry import Entry
from lancekit._shards.log import replayable, torn_message
from lancekit._shards.manifests import latest
from lancekit._shards.schema import Shard, shard_of, shards_of
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError, LancekitError

T = TypeVar("T")

#: the number of attempts if listed files are removed during a read, and the first pause
_ATTEMPTS, _PAUSE_SECONDS = 6, 0.005


@dataclass(frozen=True, eq=False, kw_only=True)
class ReadSet:
    """A version of a table, and the parts of its shards that it lacks.

    base: the version.
    keys: the primary key, empty for a table without.
    parts: the parts, newest rows first.
    """

    base: Snapshot
    keys: tuple[str, ...]
    parts: tuple[Part, ...] = field(repr=False)

    @cached_property
    def newest(self) -> Newest | None:
        """The map from keys to their newest rows; ``None`` without keys or parts."""
        if not self.keys or not self.parts:
            return None
        identities = tuple(part.identity for part in self.parts)
        view, known = self.parts[0].view, None if None in identities else identities
        key = cache_key(known, "newest", view.key_ids, view.key_types)
        return remembered(CACHE_KIND, key, self._newest, lambda found: found.nbytes)

    def _newest(self) -> Newest:
        ids = range(FIRST_ID, FIRST_ID + len(self.parts))
        return newest_of(self.keys, [part.keys for part in self.parts], ids)

    @cached_property
    def fragments(self) -> tuple[FragmentSource, ...]:
        """The parts as fragments of the table, with rows numbered after its own."""
        before, found = self.base.manifest.num_rows, []
        for number, part in enumerate(self.parts):
            found.append(part.as_fragment(number, self.base.location.open_files, before))
            before += found[-1].num_rows
        return tuple(found)

    @property
    def describe(self) -> str:
        """The parts that are read with the table, for plans."""
        if not self.parts:
            return "shards have no rows to read with the table"
        rows = sum(part.fragment.num_rows for part in self.parts)
        shards = len({part.shard for part in self.parts})
        return (
            f"{rows:,} rows of {len(self.parts)} generations of {shards} shards are read with the "
            "table; only the newest row of each key is returned"
        )

    def is_like(self, other: ReadSet) -> bool:
        """Return True if another read set has the same files."""
        return self._files == other._files

    @property
    def _files(self) -> tuple[object, ...]:
        names = [(part.shard, part.fragment.files[0].name) for part in self.parts]
        return self.base.version, *names

    @property
    def generations(self) -> tuple[int, ...]:
        """The generation of each part."""
        return tuple(part.generation for part in self.parts)


def newest_read_set(
    location: BranchLocation, writers: Mapping[UUID, Sequence[MemoryRows]] | None = None
) -> ReadSet:
    """Return the current state of a table, including its shards.

    writers: the unflushed rows of this process's writers, by shard, read before this call.

    Raises LancekitError, OSError: a file cannot be read, and not because of a concurrent merge.
    """
    known = writers or {}

    def read() -> ReadSet:
        shards = {shard.id: shard for shard in shards_of(location.store)}
        shards |= {id_: shard_of(location.store, id_) for id_ in known}
        states = [_state(shards[id_], known.get(id_)) for id_ in sorted(shards)]
        base = latest_snapshot(location)
        check_shards(base, {one.shard.id for one in states if one})
        if details_of(base.indices) is not None:
            return read_set(base, filter(None, states))
        # the rows may be of an overwritten table, or the reference dropped the MemWAL
        if any(one and (one.sstables or one.entries or one.memory) for one in states):
            warn(
                f"{location.uri} has rows in {location.store.uri}/{LOGS} but no MemWAL: they were "
                "not read. ds.initialize_mem_wal() resumes the logs, or says why it cannot."
            )
        return read_set(base, ())

    return again_if_gone(read)


def again_if_gone(read: Callable[[], T]) -> T:
    """Retry a read several times: a concurrent merge can remove files."""
    for attempt in range(_ATTEMPTS):
        with suppress(LancekitError, OSError):
            return read()
        time.sleep(_PAUSE_SECONDS * 2**attempt)
    return read()


def _state(shard: Shard, memory: Sequence[MemoryRows] | None) -> ShardState | None:
    """Return the contents of a shard; retry if its manifest moves while the log is read."""
    manifest = latest(shard)
    while manifest is not None:
        if memory is not None:
            return ShardState(shard=shard, sstables=manifest.sstables, memory=tuple(memory))
        entries, failure = _entries(shard, manifest)
        again = latest(shard)
        if again is not None and _cursor(again) == _cursor(manifest):
            if failure is not None:
                raise failure
            return ShardState(
                shard=shard, sstables=manifest.sstables, manifest=manifest, entries=entries
            )
        manifest = again
    return None


def _entries(
    shard: Shard, manifest: ShardManifest
) -> tuple[tuple[Entry, ...], CorruptFileError | None]:
    """Return the entries of a log, or the error: a cleanup may have removed flushed entries."""
    try:
        found = tuple(replayable(shard, manifest))
    except CorruptFileError as error:
        return (), error
    if found and found[-1].torn:
        warn(f"{torn_message(shard, found[-1].position)}; the next writer moves it aside.")
    return tuple(entry for entry in found if entry.batches), None


def _cursor(manifest: ShardManifest) -> tuple[int, int]:
    return manifest.replay_after, manifest.current_generation


def read_set(base: Snapshot, states: Iterable[ShardState]) -> ReadSet:
    """Return a version of a table with the parts of shards that it has not merged.

    Raises LancekitError, OSError: a generation cannot be read.
    """
    of = Parts(base)
    parts = [part for state in states for part in of.of(state)]
    # the sort is stable: parts of one generation stay newest first
    parts.sort(key=lambda part: part.generation, reverse=True)
    return ReadSet(base=base, keys=of.view.keys, parts=tuple(parts))
