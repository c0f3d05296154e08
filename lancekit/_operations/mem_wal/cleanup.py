"""Remove files of shards that are no longer needed: merged generations, log entries, manifests.

The files of every manifest that was the newest one within the grace period stay, for readers of
that manifest.  See docs/format/memwal.md, 7.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import timedelta

from lancekit._display import Displayed
from lancekit._format.mem_wal.names import (
    MANIFESTS,
    QUARANTINE,
    WAL,
    entry_name,
    generation_number,
    manifest_name,
    position,
)
from lancekit._format.mem_wal.shard_manifest import ShardManifest, parse_shard_manifest
from lancekit._operations.cleanup.plan import IN_FLIGHT
from lancekit._operations.unmerged.marks import EMPTIED, Marks, quarantine_ids
from lancekit._shards.entry import read_entry
from lancekit._shards.manifests import latest
from lancekit._shards.schema import Shard
from lancekit._storage.base import ObjectInfo
from lancekit._versions.listing import list_versions
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import CorruptFileError, UnsupportedFeatureError, VersionNotFoundError

#: the number of newest manifests that stay at any age: a slow writer must not find the name of its
#: next manifest free because that manifest was put and removed
_MANIFESTS_KEPT = 100

#: an entry of more bytes has rows: a sentinel has no columns
_SENTINEL_BYTES = 4096


@dataclass(frozen=True, kw_only=True, repr=False)
class MemWalCleanupStats(Displayed):
    """The counts of a cleanup of shards: removed generations, log entries, manifests, and bytes.

    `quarantines_removed` counts quarantine tables whose rows no version has in quarantine.
    """

    generations_removed: int = 0
    log_entries_removed: int = 0
    manifests_removed: int = 0
    quarantines_removed: int = 0
    files_removed: int = 0
    bytes_removed: int = 0

    def __add__(self, other: MemWalCleanupStats) -> MemWalCleanupStats:
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return MemWalCleanupStats(**sums)

    def _plain(self) -> str:
        return (
            f"MemWalCleanupStats(generations_removed={self.generations_removed}, "
            f"log_entries_removed={self.log_entries_removed}, "
            f"manifests_removed={self.manifests_removed}, "
            f"quarantines_removed={self.quarantines_removed}, bytes_removed={self.bytes_removed})"
        )


def clean_shards(shards: Iterable[Shard], grace: timedelta) -> MemWalCleanupStats:
    """Remove files that are older than the grace period and that no reader since can need."""
    generations, entries, manifests = 0, 0, 0
    gone: list[ObjectInfo] = []
    for shard in shards:
        # list files before manifests: a file put in between is not listed, or is still needed
        files = _Files.of(shard)
        newest = latest(shard)
        if newest is None:
            continue
        needed = _Needed.by(shard, files, newest, time.time() - grace.total_seconds())
        for folder, inside in needed.unneeded_generations(files):
            shard.store.delete_tree(folder)
            gone += inside
            generations += 1
        for file in needed.unneeded_entries(shard, files):
            shard.store.delete(file.name)
            gone.append(file)
            entries += 1
        for file in needed.unneeded_manifests(files):
            shard.store.delete(file.name)
            gone.append(file)
            manifests += 1
    return MemWalCleanupStats(
        generations_removed=generations,
        log_entries_removed=entries,
        manifests_removed=manifests,
        files_removed=len(gone),
        bytes_removed=sum(file.size for file in gone),
    )


def clean_quarantine(newest: Snapshot, grace: timedelta) -> MemWalCleanupStats:
    """Remove quarantine tables older than the grace period whose rows wait in no version.

    Such a table remains after its rows were put back or discarded, and a cleanup removed the
    versions in which they waited.  A table that no version marks stays for at least `IN_FLIGHT`.
    It may belong to a stopped merge, or to a commit that is about to mark it.
    """
    now, gone, tables = time.time(), list[ObjectInfo](), 0
    old = {}
    for folder in newest.store.list_folders(QUARANTINE):
        inside = newest.store.list_tree(f"{QUARANTINE}/{folder}")
        if _all_older(inside, now, grace):
            old[folder] = inside
    # list files before versions: a table that is marked later is younger than the grace period
    waiting, emptied = _marked_tables(newest) if old else (set[str](), set[str]())
    for folder, inside in old.items():
        may_land = folder not in emptied and not _all_older(inside, now, IN_FLIGHT)
        if folder not in waiting and not may_land:
            newest.store.delete_tree(f"{QUARANTINE}/{folder}")
            gone += inside
            tables += 1
    return MemWalCleanupStats(
        quarantines_removed=tables,
        files_removed=len(gone),
        bytes_removed=sum(file.size for file in gone),
    )


def _all_older(files: Iterable[ObjectInfo], now: float, age: timedelta) -> bool:
    since = now - age.total_seconds()
    return all(file.modified <= since and file.regular for file in files)


def _marked_tables(newest: Snapshot) -> tuple[set[str], set[str]]:
    """Return the tables whose rows wait in a version, and the tables that a version emptied.

    All existing versions count, because a restore can bring each one back.
    """
    waiting, emptied = set[str](), set[str]()
    for version in list_versions(newest.location).versions:
        with suppress(VersionNotFoundError):  # another cleanup removed it
            snapshot = load_snapshot(newest.location, version)
            waiting |= set(map(str, quarantine_ids(snapshot)))
            emptied |= {str(one) for one, mark in Marks(snapshot).merged.items() if mark == EMPTIED}
    return waiting, emptied


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of a shard: manifests and entries by their numbers, generations by folder."""

    manifests: Mapping[int, ObjectInfo]
    entries: Mapping[int, ObjectInfo]
    generations: Mapping[str, list[ObjectInfo]]

    @classmethod
    def of(cls, shard: Shard) -> _Files:
        numbered: dict[str, dict[int, ObjectInfo]] = {MANIFESTS: {}, WAL: {}}
        named = {MANIFESTS: manifest_name, WAL: entry_name}
        generations: dict[str, list[ObjectInfo]] = {}
        for file in shard.store.list_tree():
            folder = file.name.partition("/")[0]
            if folder in numbered:
                number = position(file.name)
                if number and file.name == named[folder](number) and file.regular:
                    numbered[folder][number] = file
            elif generation_number(folder):
                generations.setdefault(folder, []).append(file)
        return cls(numbered[MANIFESTS], numbered[WAL], generations)


@dataclass(frozen=True, slots=True)
class _Needed:
    """The parts of a shard that its newest manifest, or an earlier one within the grace, needs."""

    newest: ShardManifest
    since: float
    first_manifest: int
    folders: frozenset[str]
    replay_after: int

    @classmethod
    def by(cls, shard: Shard, files: _Files, newest: ShardManifest, since: float) -> _Needed:
        before = [number for number, file in files.manifests.items() if file.modified <= since]
        first = min(max(before, default=0), newest.version)
        window = [newest]
        for number in sorted(files.manifests):
            if first <= number < newest.version:
                name = manifest_name(number)
                with suppress(FileNotFoundError):  # another cleanup removed it
                    where = f"{shard.store.uri}/{name}"
                    window.append(parse_shard_manifest(shard.store.read(name), where))
        return cls(
            newest=newest,
            since=since,
            first_manifest=first,
            folders=frozenset(table.path for one in window for table in one.sstables),
            replay_after=min(one.replay_after for one in window),
        )

    def unneeded_generations(self, files: _Files) -> Iterator[tuple[str, list[ObjectInfo]]]:
        """Yield folders of generations that were drained, or that a writer never listed.

        Folders of future generation numbers stay: a writer may be about to list them.
        """
        for folder, inside in files.generations.items():
            is_old = all(file.modified <= self.since and file.regular for file in inside)
            past = generation_number(folder) < self.newest.current_generation
            if is_old and past and folder not in self.folders:
                yield folder, inside

    def unneeded_entries(self, shard: Shard, files: _Files) -> Iterator[ObjectInfo]:
        """Yield entries whose rows are in generations.

        Sentinels stay: a writer of any earlier epoch, however long it was stopped, must find its
        next position taken.  The last entry stays, too, because it marks the end of the log.
        """
        last = max(files.entries, default=0)
        for number, file in sorted(files.entries.items()):
            done = number <= self.replay_after and number not in {last, self.newest.last_seen}
            if done and file.modified <= self.since and not _fences(shard, number, file):
                yield file

    def unneeded_manifests(self, files: _Files) -> Iterator[ObjectInfo]:
        """Yield manifests from before the grace period, except the newest ones."""
        stop = min(self.first_manifest, self.newest.version - _MANIFESTS_KEPT)
        for number, file in sorted(files.manifests.items()):
            if number < stop:
                yield file


def _fences(shard: Shard, number: int, file: ObjectInfo) -> bool:
    if file.size > _SENTINEL_BYTES:
        return False
    try:
        return read_entry(shard, number).sentinel
    except (CorruptFileError, UnsupportedFeatureError, FileNotFoundError):
        return True  # unreadable, or removed by another cleanup
