"""Damaged and missing files of write-ahead logs: moved aside, so that the logs can be used again.

See docs/format/memwal.md, 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from lancekit.errors import CorruptFileError, UnsupportedFeatureError
from lancekit.format.mem_wal.names import entry_name, generation_number, mem_wal_entry
from lancekit.format.mem_wal.shard_manifest import ShardManifest
from lancekit.operations.mem_wal.claim import fence
from lancekit.operations.mem_wal.damaged_generations import (
    UNLISTED,
    fault_of_generation,
    listed_again,
    of_entry,
    of_generation,
    replaced,
)
from lancekit.operations.mem_wal.damaged_manifests import (
    Standing,
    moved_aside,
    put_over,
    standing,
)
from lancekit.operations.mem_wal.initialize import initialized
from lancekit.operations.mem_wal.set_aside import SetAside
from lancekit.shards.aside import Note, put_note
from lancekit.shards.by_id import entry_rows
from lancekit.shards.entry import read_entry
from lancekit.shards.log import copy_aside, lost_end, positions, set_aside
from lancekit.shards.manifests import change, latest, lost_manifests, put_next
from lancekit.shards.schema import wal_schema
from lancekit.shards.shard import Shard
from lancekit.versions.snapshot import Snapshot

__all__ = ["repair_logs"]


def repair_logs(snapshot: Snapshot, shards: Iterable[Shard]) -> list[SetAside]:
    """Move aside what is damaged in shards; shards without damage keep their writers.

    Parameters
    ----------
    snapshot
        The newest version of the table, which says what it has of each shard.
    shards
        The shards.
    """
    return [
        _noted(snapshot, shard, found) for shard in shards for found in _repaired(snapshot, shard)
    ]


def _noted(snapshot: Snapshot, shard: Shard, found: SetAside) -> SetAside:
    """Put a note beside a file that was moved: what the table had tells later which rows are newer.

    A repair that is stopped before leaves a file without a note, whose rows go back if asked for.
    """
    entry = mem_wal_entry(snapshot.indices)
    if found.file is not None and found.manifest is None and entry is not None:
        note = Note(
            version=snapshot.version,
            logs=str(entry.uuid),
            created=str(entry.created_at),
            merged=initialized(snapshot).merged.get(shard.id, 0),
            whole=found.reason in (lost_manifests(shard).message, UNLISTED),
            done=found.rows == 0 and found.position is None,  # it was written again
        )
        put_note(shard, found.file.removeprefix(f"{shard.store.uri}/"), note)
    return found


def _repaired(snapshot: Snapshot, shard: Shard) -> Iterator[SetAside]:
    merged = initialized(snapshot).merged.get(shard.id, 0)
    found = standing(shard)
    if found.manifest is None:
        if found.faulty or _lost_all(shard, merged):
            yield from _begun_again(snapshot, shard, merged, found)
        return
    manifest, schema = found.manifest, snapshot.manifest.schema
    form = wal_schema(schema)
    damaged = [
        (table, reason)
        for table in manifest.sstables
        if table.generation > merged and (reason := fault_of_generation(shard, table, schema))
    ]
    end = lost_end(shard, manifest, positions(shard))
    stray: list[SetAside] = []
    if not found.is_newest:
        manifest = put_over(shard, manifest, found.newest, merged)
        if any(_faults(shard, manifest, form)):
            manifest, stray = listed_again(snapshot, shard, manifest)
    elif damaged or end or any(_faults(shard, manifest, form)):
        # who writes to the shard has to stop: the place of its next entry is taken
        manifest = change(shard, None, lambda now: replace(now, writer_epoch=now.writer_epoch + 1))
    yield from _moved_manifests(shard, found)
    if manifest is found.manifest:
        return
    for position, reason in list(_faults(shard, manifest, form)):
        aside = set_aside(shard, position, manifest.writer_epoch)
        yield of_entry(shard, position, reason, aside)
    yield from stray
    if end:
        reason = f"The log ends before entry {end[-1]}, which a manifest tells of."
        yield SetAside(
            shard_id=str(shard.id),
            position=end[0],
            last_position=end[-1],
            file=None,
            reason=reason,
        )
    last = fence(shard, manifest)
    change(shard, None, lambda now: replace(now, last_seen=last))
    for table, reason in damaged:
        yield from replaced(snapshot, shard, table, reason)


def _lost_all(shard: Shard, merged: int) -> bool:
    """Tell whether a shard without manifests had some."""
    try:
        return latest(shard) is None and merged > 0
    except CorruptFileError:
        return True


def _moved_manifests(shard: Shard, found: Standing) -> Iterator[SetAside]:
    """Move faulty manifests aside; the log has what they said of rows."""
    for version, reason in found.faulty.items():
        with suppress(FileNotFoundError):  # a cleanup was first
            file = f"{shard.store.uri}/{moved_aside(shard, version)}"
            yield SetAside(
                shard_id=str(shard.id), manifest=version, file=file, reason=reason, rows=0
            )


# ---- the log


def _faults(shard: Shard, manifest: ShardManifest, form: pa.Schema) -> Iterator[tuple[int, str]]:
    """Yield the positions of entries that are to be replayed and cannot be, and why."""
    numbers = positions(shard)
    for number in range(manifest.replay_after + 1, max(numbers, default=0) + 1):
        try:
            entry_rows(read_entry(shard, number), form)
        except FileNotFoundError:
            yield number, f"{shard.store.uri}/{entry_name(number)} is missing."
        except CorruptFileError as error:
            yield number, error.message
        except UnsupportedFeatureError:
            continue


# ---- a shard without a manifest that can be used


def _begun_again(
    snapshot: Snapshot, shard: Shard, merged: int, found: Standing
) -> Iterator[SetAside]:
    """Begin a shard without manifests again, behind all that is left of it.

    Files are copied before the manifest is put: nobody needs them after it, and a cleanup removes
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
        yield of_entry(shard, number, reason, copy_aside(shard, number))
    for folder in shard.store.list_folders(""):
        own = generation_number(folder)
        if own:
            generation = max(generation, own)
            yield of_generation(snapshot, shard, folder, reason)
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
