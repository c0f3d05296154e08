"""Damaged and missing files of shards: copied aside, so that the shard can be used again.

See docs/format/memwal.md, 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from lancekit.display import Displayed
from lancekit.errors import CorruptFileError, UnsupportedFeatureError
from lancekit.format.mem_wal.details import mem_wal_entry
from lancekit.format.mem_wal.names import generation_number
from lancekit.format.mem_wal.shard_manifest import ShardManifest, SsTable
from lancekit.format.schema import LanceSchema
from lancekit.legible import plural
from lancekit.operations.mem_wal.claim import fence
from lancekit.operations.mem_wal.generation import open_generation
from lancekit.operations.mem_wal.initialize import initialized
from lancekit.shards.aside import Note, put_note
from lancekit.shards.log import (
    copy_aside,
    copy_folder_aside,
    positions,
    read_entry,
    replayable,
    set_aside,
)
from lancekit.shards.manifests import change, latest, lost_manifests, put_next
from lancekit.shards.shard import Shard
from lancekit.versions.snapshot import Snapshot

__all__ = ["MemWalRepair", "SetAside", "repair_logs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """An entry of a log or a generation that cannot be used where it was.

    Attributes
    ----------
    shard_id
        The shard.
    position
        The place of an entry in the log; ``None`` of a generation, and of a shard that is gone.
    generation
        The number of a generation; ``None`` of an entry, and of a shard that is gone.
    file
        The URI of the file or folder that has the bytes now; ``None`` if there were none.
    reason
        What was wrong.
    """

    shard_id: str
    position: int | None = None
    generation: int | None = None
    file: str | None
    reason: str

    @property
    def called(self) -> str:
        """What was set aside, as a phrase."""
        if self.position is not None:
            return f"entry {self.position}"
        return "all files" if self.generation is None else f"generation {self.generation}"


class MemWalRepair(Displayed, list[SetAside]):
    """The entries and generations that a repair set aside: a list with a card."""

    def _plain(self) -> str:
        if not self:
            return "no damage"
        lines = (f"{one.called} of shard {one.shard_id}: {one.file or 'missing'}" for one in self)
        return "\n".join([f"{plural(len(self), 'part')} of shards set aside", *lines])


def repair_logs(snapshot: Snapshot, shards: Iterable[Shard]) -> MemWalRepair:
    """Set aside what is damaged in shards; shards without damage keep their writers.

    Parameters
    ----------
    snapshot
        The newest version of the table, which says what it has of each shard.
    shards
        The shards.

    Raises
    ------
    CorruptFileError
        The manifest of a shard is damaged.
    """
    return MemWalRepair(
        _noted(snapshot, shard, found) for shard in shards for found in _repaired(snapshot, shard)
    )


def _noted(snapshot: Snapshot, shard: Shard, found: SetAside) -> SetAside:
    """Put a note beside a file that was moved: what the table had tells later which rows are newer.

    A repair that is stopped before leaves a file without a note, whose rows go back if asked for.
    """
    entry = mem_wal_entry(snapshot.indices)
    if found.file is not None and entry is not None:
        note = Note(
            version=snapshot.version,
            logs=str(entry.uuid),
            created=str(entry.created_at),
            merged=initialized(snapshot).merged.get(shard.id, 0),
            whole=found.reason == lost_manifests(shard).message,
        )
        put_note(shard, found.file.removeprefix(f"{shard.store.uri}/"), note)
    return found


def _repaired(snapshot: Snapshot, shard: Shard) -> Iterator[SetAside]:
    merged = initialized(snapshot).merged.get(shard.id, 0)
    try:
        manifest = latest(shard)
    except CorruptFileError as error:
        if not error.context.get("lost"):
            raise
        manifest = None
    if manifest is None:
        yield from _begun_again(shard, merged)
        return
    lost = [
        (table, reason)
        for table in manifest.sstables
        if table.generation > merged
        and (reason := _fault_of(shard, table, snapshot.manifest.schema))
    ]
    if not lost and _fault(shard, manifest) is None:
        return
    # who writes to the shard has to stop: the place of its next entry is taken
    manifest = change(
        shard, None, lambda newest: replace(newest, writer_epoch=newest.writer_epoch + 1)
    )
    fence(shard, manifest.writer_epoch)
    while (fault := _fault(shard, manifest)) is not None:
        position, reason = fault
        aside = set_aside(shard, position, manifest.writer_epoch)
        yield _aside(shard, reason, aside, position=position)
    for table, reason in lost:
        yield from _unlisted(shard, table, reason)


def _unlisted(shard: Shard, table: SsTable, reason: str) -> Iterator[SetAside]:
    """Take a generation off the manifest of its shard; copy what is left of its rows aside.

    The log has the rows of a generation until a cleanup removes the entries.
    """
    found = [_aside(shard, reason, copy_folder_aside(shard, table.path), table.generation)]
    for number in positions(shard):
        with suppress(CorruptFileError, UnsupportedFeatureError, FileNotFoundError):
            if read_entry(shard, number).generation == table.generation:
                found.append(_aside(shard, reason, copy_aside(shard, number), position=number))

    def without(newest: ShardManifest) -> ShardManifest:
        return replace(newest, sstables=tuple(t for t in newest.sstables if t.path != table.path))

    change(shard, None, without)
    yield from found


def _fault_of(shard: Shard, table: SsTable, schema: LanceSchema) -> str:
    """Return what is wrong with a generation as a whole; empty if it can be opened."""
    try:
        open_generation(shard, table, schema)
    except CorruptFileError as error:
        return error.message
    return ""


def _aside(
    shard: Shard, reason: str, name: str, generation: int | None = None, position: int | None = None
) -> SetAside:
    return SetAside(
        shard_id=str(shard.id),
        position=position,
        generation=generation,
        file=f"{shard.store.uri}/{name}" if name else None,
        reason=reason,
    )


def _begun_again(shard: Shard, merged: int) -> Iterator[SetAside]:
    """Begin a shard without manifests again, behind all that is left of it.

    Files are copied before the manifest is put: nobody needs them after it, and a cleanup removes
    them.
    """
    reason = lost_manifests(shard).message
    numbers, epoch, generation = positions(shard), 0, merged
    for number in numbers:
        with suppress(CorruptFileError, UnsupportedFeatureError, FileNotFoundError):
            entry = read_entry(shard, number)
            epoch, generation = max(epoch, entry.epoch), max(generation, entry.generation or 0)
            if entry.sentinel:
                continue
        yield _aside(shard, reason, copy_aside(shard, number), position=number)
    for folder in shard.store.list_folders(""):
        own = generation_number(folder)
        if own:
            generation = max(generation, own)
            yield _aside(shard, reason, copy_folder_aside(shard, folder), own)
    last = fence(shard, epoch + 1)
    first = ShardManifest(
        shard=shard.id,
        version=1,
        writer_epoch=epoch + 1,
        replay_after=last,
        last_seen=last,
        current_generation=generation + 1,
    )
    if put_next(shard, first) and not numbers:
        yield _aside(shard, reason, "")


def _fault(shard: Shard, manifest: ShardManifest) -> tuple[int, str] | None:
    """Return the position of the first entry that cannot be read, and what is wrong with it."""
    try:
        for entry in replayable(shard, manifest):
            if entry.torn:
                return entry.position, "The file ends before its end marker."
    except CorruptFileError as error:
        if "position" not in error.context:
            raise
        return error.context["position"], error.message
    return None
