"""What a table is read together with: the generations and logs of its shards.

Manifests and logs are read first, then the newest version of the table, and what that version has
merged is left out.  The other way around rows could be missed: those that are merged after the
version was read, and drained before the manifest was.
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
    FIRST_ID,
    KIND,
    Memory,
    Part,
    Parts,
    ShardState,
    known_by,
)
from lancekit._operations.unmerged.marks import check_shards
from lancekit._scan.fragments.source import FragmentSource
from lancekit._shards.entry import Entry
from lancekit._shards.log import replayable, told_torn
from lancekit._shards.manifests import latest
from lancekit._shards.schema import Shard, shard_of, shards_of
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError, LancekitError

T = TypeVar("T")

#: how often all is looked at again if what a manifest lists goes meanwhile, and the first pause
_ATTEMPTS, _PAUSE_SECONDS = 6, 0.005


@dataclass(frozen=True, eq=False, kw_only=True)
class ReadSet:
    """A version of a table, and what its shards hold that is not in it.

    base: the version.
    keys: the primary key; nothing for a table without.
    parts: those of newer rows first.
    """

    base: Snapshot
    keys: tuple[str, ...]
    parts: tuple[Part, ...] = field(repr=False)

    @cached_property
    def newest(self) -> Newest | None:
        """Where keys lead; ``None`` if there are none, or no parts."""
        if not self.keys or not self.parts:
            return None
        identities = tuple(part.identity for part in self.parts)
        view, known = self.parts[0].view, None if None in identities else identities
        key = known_by(known, "newest", view.key_ids, view.key_types)
        return remembered(KIND, key, self._newest, lambda found: found.bytes_held)

    def _newest(self) -> Newest:
        ids = range(FIRST_ID, FIRST_ID + len(self.parts))
        return newest_of(self.keys, [part.keys for part in self.parts], ids)

    @cached_property
    def fragments(self) -> tuple[FragmentSource, ...]:
        """The parts as fragments of the table, behind its own."""
        before, found = self.base.manifest.num_rows, []
        for number, part in enumerate(self.parts):
            found.append(part.seen(number, self.base.location.open_files, before))
            before += found[-1].num_rows
        return tuple(found)

    @property
    def describe(self) -> str:
        """What is read with the table, in words."""
        if not self.parts:
            return "no rows of shards are left to be read with the table"
        rows = sum(part.fragment.num_rows for part in self.parts)
        shards = len({part.shard for part in self.parts})
        return (
            f"{rows:,} rows of {len(self.parts)} generations of {shards} shards are read with the "
            "table, of each key the newest row"
        )

    def is_like(self, other: ReadSet) -> bool:
        """Tell whether another one reads the same files."""
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
    location: BranchLocation, writers: Mapping[UUID, Sequence[Memory]] | None = None
) -> ReadSet:
    """Return what a table is at this moment, its shards included.

    line: the table.
    writers: by shards, what writers of this process hold, asked before.

    Raises LancekitError, OSError: something cannot be read, and not because it was just merged.
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
        # what an overwrite left is not its; and the reference drops a MemWAL while rows wait
        if any(one and (one.sstables or one.entries or one.memory) for one in states):
            warn(
                f"{location.uri} has rows in {location.store.uri}/{LOGS} and no MemWAL: they were "
                "not read. ds.initialize_mem_wal() takes the logs up, or says why it cannot."
            )
        return read_set(base, ())

    return again_if_gone(read)


def again_if_gone(read: Callable[[], T]) -> T:
    """Read again what cannot be read, some times: what is merged meanwhile goes."""
    for attempt in range(_ATTEMPTS):
        with suppress(LancekitError, OSError):
            return read()
        time.sleep(_PAUSE_SECONDS * 2**attempt)
    return read()


def _state(shard: Shard, memory: Sequence[Memory] | None) -> ShardState | None:
    """Return what a shard holds: its manifest may not move while the log is read."""
    manifest = latest(shard)
    while manifest is not None:
        if memory is not None:
            return ShardState(shard=shard, sstables=manifest.sstables, memory=tuple(memory))
        entries, failure = _entries(shard, manifest)
        again = latest(shard)
        if again is not None and _reach(again) == _reach(manifest):
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
    """Return the entries of a log, or the error: those that a generation has may be collected."""
    try:
        found = tuple(replayable(shard, manifest))
    except CorruptFileError as error:
        return (), error
    if found and found[-1].torn:
        warn(f"{told_torn(shard, found[-1].position)}; the next writer moves it aside.")
    return tuple(entry for entry in found if entry.batches), None


def _reach(manifest: ShardManifest) -> tuple[int, int]:
    return manifest.replay_after, manifest.current_generation


def read_set(base: Snapshot, states: Iterable[ShardState]) -> ReadSet:
    """Return a version of a table, and what shards hold that it has not merged.

    Raises LancekitError, OSError: a generation cannot be read.
    """
    of = Parts(base)
    parts = [part for state in states for part in of.of(state)]
    # the sort is stable: parts of a generation stay, the newest first
    parts.sort(key=lambda part: part.generation, reverse=True)
    return ReadSet(base=base, keys=of.view.keys, parts=tuple(parts))
