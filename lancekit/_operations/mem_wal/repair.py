"""Repair write-ahead logs: move damaged files aside, and record missing ones.

See docs/format/memwal.md, 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from lancekit._format.mem_wal.names import (
    ASIDE,
    MANIFESTS,
    entry_name,
    generation_number,
    manifest_name,
    mem_wal_entry,
    position,
)
from lancekit._format.mem_wal.shard_manifest import ShardManifest, parse_shard_manifest
from lancekit._operations.mem_wal.claim import fence
from lancekit._operations.mem_wal.damaged_generations import (
    UNLISTED,
    entry_report,
    fault_of_generation,
    generation_report,
    relisted,
    rewritten,
)
from lancekit._operations.mem_wal.initialize import initialized
from lancekit._operations.mem_wal.quarantine import SetAside
from lancekit._shards.aside import Note, put_note
from lancekit._shards.entry import read_entry
from lancekit._shards.log import (
    contradiction,
    copy_aside,
    entry_rows,
    lost_end,
    positions,
    set_aside,
)
from lancekit._shards.manifests import change, latest, lost_manifests, put_next
from lancekit._shards.schema import Shard, wal_schema
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CorruptFileError, RetriesExhaustedError, UnsupportedFeatureError


def repair_logs(snapshot: Snapshot, shards: Iterable[Shard]) -> list[SetAside]:
    """Move damaged files of shards aside; shards without damage keep their writers.

    snapshot: the newest version of the table, with its marks of merged generations.
    """
    return [
        _noted(snapshot, shard, found) for shard in shards for found in _repaired(snapshot, shard)
    ]


def _noted(snapshot: Snapshot, shard: Shard, found: SetAside) -> SetAside:
    """Write the note of a file that was moved: it shows later which rows are the newest.

    A repair that is stopped before this leaves a file without a note.  Its rows are put back only
    if the caller requests unsure rows.
    """
    entry = mem_wal_entry(snapshot.indices)
    if found.file is not None and found.manifest is None and entry is not None:
        note = Note(
            version=snapshot.version,
            logs=str(entry.uuid),
            created=str(entry.created_at),
            merged=initialized(snapshot).merged.get(shard.id, 0),
            whole=found.reason in (lost_manifests(shard).message, UNLISTED),
            done=found.rows == 0 and found.position is None,  # it was rewritten
        )
        put_note(shard, found.file.removeprefix(f"{shard.store.uri}/"), note)
    return found


def _repaired(snapshot: Snapshot, shard: Shard) -> Iterator[SetAside]:
    merged = initialized(snapshot).merged.get(shard.id, 0)
    found = _newest_usable(shard)
    if found.manifest is None:
        if found.faulty or _lost_all(shard, merged):
            yield from _restarted(snapshot, shard, merged, found)
        return
    manifest, schema = found.manifest, snapshot.manifest.schema
    log_schema = wal_schema(schema)
    damaged = [
        (table, reason)
        for table in manifest.sstables
        if table.generation > merged and (reason := fault_of_generation(shard, table, schema))
    ]
    end = lost_end(shard, manifest, positions(shard))
    stray: list[SetAside] = []
    if not found.is_newest:
        manifest = _put_on_top(shard, manifest, found.newest, merged)
        if any(_faults(shard, manifest, log_schema)):
            manifest, stray = relisted(snapshot, shard, manifest)
    elif damaged or end or any(_faults(shard, manifest, log_schema)):
        # fence the shard's writer: the repair takes the position of its next entry
        manifest = change(shard, None, lambda now: replace(now, writer_epoch=now.writer_epoch + 1))
    yield from _moved_manifests(shard, found)
    if manifest is found.manifest:
        return
    for number, reason in list(_faults(shard, manifest, log_schema)):
        yield entry_report(shard, number, reason, set_aside(shard, number, manifest.writer_epoch))
    yield from stray
    if end:
        reason = f"The log ends before entry {end[-1]}, which a manifest records."
        yield SetAside(
            shard_id=str(shard.id), position=end[0], last_position=end[-1], file=None, reason=reason
        )
    last = fence(shard, manifest)
    change(shard, None, lambda now: replace(now, last_seen=last))
    for table, reason in damaged:
        yield from rewritten(snapshot, shard, table, reason)


def _lost_all(shard: Shard, merged: int) -> bool:
    """Return True if a shard without manifests had some."""
    try:
        return latest(shard) is None and merged > 0
    except CorruptFileError:
        return True


def _moved_manifests(shard: Shard, found: _UsableManifest) -> Iterator[SetAside]:
    """Move faulty manifests aside; the log has the rows that they referenced."""
    for version, reason in found.faulty.items():
        name = manifest_name(version)
        aside = f"{ASIDE}/{name}"
        with suppress(FileNotFoundError):  # a cleanup removed it
            shard.store.put(aside, shard.store.read(name))
            shard.store.delete(name)
            file = f"{shard.store.uri}/{aside}"
            yield SetAside(
                shard_id=str(shard.id), manifest=version, file=file, reason=reason, rows=0
            )


# ---- the log


def _faults(
    shard: Shard, manifest: ShardManifest, log_schema: pa.Schema
) -> Iterator[tuple[int, str]]:
    """Yield the positions of entries that replay needs and cannot read, and the reasons."""
    for number in range(manifest.replay_after + 1, max(positions(shard), default=0) + 1):
        try:
            entry_rows(read_entry(shard, number), log_schema)
        except FileNotFoundError:
            yield number, f"{shard.store.uri}/{entry_name(number)} is missing."
        except CorruptFileError as error:
            yield number, error.message
        except UnsupportedFeatureError:
            continue


# ---- a shard without a usable manifest


def _restarted(
    snapshot: Snapshot, shard: Shard, merged: int, found: _UsableManifest
) -> Iterator[SetAside]:
    """Restart a shard without manifests, after all of its remaining files.

    Files are copied before the manifest is put.  After it they are unneeded, and a cleanup removes
    them.
    """
    reason = lost_manifests(shard).message
    numbers, epoch, generation = positions(shard), found.newest, merged
    for number in numbers:
        with suppress(CorruptFileError, UnsupportedFeatureError, FileNotFoundError):
            entry = read_entry(shard, number)
            epoch, generation = max(epoch, entry.epoch), max(generation, entry.generation or 0)
            if entry.sentinel:
                continue
        yield entry_report(shard, number, reason, copy_aside(shard, number))
    for folder in shard.store.list_folders(""):
        own = generation_number(folder)
        if own:
            generation = max(generation, own)
            yield generation_report(snapshot, shard, folder, reason)
    before = ShardManifest(
        shard=shard.id,
        version=found.newest,
        writer_epoch=epoch + 1,
        current_generation=generation + 1,
    )
    last = fence(shard, before)
    first = replace(before, version=found.newest + 1, replay_after=last, last_seen=last)
    if put_next(shard, first) and not numbers:
        yield SetAside(shard_id=str(shard.id), file=None, reason=reason)
    yield from _moved_manifests(shard, found)


# ---- manifests that are damaged or contradict the log, and the manifest that replaces them
#
# See docs/format/memwal.md, 2.


class _UsableManifest(NamedTuple):
    """The newest usable manifest of a shard.

    manifest: the manifest, or ``None`` if no manifest is usable.
    newest: the version of the newest manifest, usable or not, or 0 without manifests.
    faulty: the reason why each unusable manifest is unusable, by version, newest first.
    """

    manifest: ShardManifest | None
    newest: int
    faulty: Mapping[int, str]

    @property
    def is_newest(self) -> bool:
        """True if the newest manifest of the shard is usable."""
        return self.manifest is not None and self.manifest.version == self.newest


def _newest_usable(shard: Shard) -> _UsableManifest:
    """Find the newest manifest that is undamaged and does not contradict the log.

    Older manifests must be undamaged, too, because a cleanup reads them.
    """
    names = shard.store.list_names(MANIFESTS)
    versions = {position(name) for name in names if name.endswith(".binpb")} - {0}
    found, faulty = None, dict[int, str]()
    for version in sorted(versions, reverse=True):
        where = f"{shard.store.uri}/{manifest_name(version)}"
        try:
            manifest = parse_shard_manifest(bytes(shard.store.read(manifest_name(version))), where)
        except FileNotFoundError:  # a cleanup removed it
            continue
        except CorruptFileError as error:
            faulty[version] = error.message
            continue
        if (manifest.version, manifest.shard) != (version, shard.id):
            actual = f"version {manifest.version} of shard {manifest.shard}"
            faulty[version] = f"{where} is damaged: it declares itself {actual}."
        elif found is None:
            if fault := contradiction(shard, manifest):
                faulty[version] = f"{where} contradicts the write-ahead log: {fault}."
            else:
                found = manifest
    return _UsableManifest(found, max(versions, default=0), faulty)


def _put_on_top(shard: Shard, manifest: ShardManifest, newest: int, merged: int) -> ShardManifest:
    """Put a usable manifest on top of newer faulty ones, with a higher epoch than all of these.

    The log and the table's marks supply the facts about later generations that the manifest lacks.

    Raises RetriesExhaustedError: another writer put the next manifest first.
    """
    epoch, done = manifest.writer_epoch + newest - manifest.version, manifest.replay_after
    for number in positions(shard):
        try:
            entry = read_entry(shard, number)
        except (CorruptFileError, UnsupportedFeatureError, FileNotFoundError):
            continue
        epoch = max(epoch, entry.epoch)
        if entry.generation is not None and entry.generation <= merged:
            done = max(done, number)
    following = replace(
        manifest,
        version=newest + 1,
        writer_epoch=epoch + 1,
        replay_after=done,
        current_generation=max(manifest.current_generation, merged + 1),
        sstables=tuple(table for table in manifest.sstables if table.generation > merged),
    )
    if put_next(shard, following):
        return following
    raise RetriesExhaustedError(
        f"Shard {shard.id} was changed by another writer while it was repaired.",
        hint="Try again.",
        shard=str(shard.id),
    )
