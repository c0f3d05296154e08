"""Damaged and missing entries of logs: moved aside, so that the shard can be used again.

See docs/format/memwal.md, 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from lancekit.display import Displayed
from lancekit.errors import CorruptFileError
from lancekit.format.mem_wal.shard_manifest import ShardManifest
from lancekit.legible import plural
from lancekit.operations.mem_wal.claim import fence
from lancekit.shards.log import replayable, set_aside
from lancekit.shards.manifests import change, latest
from lancekit.shards.shard import Shard

__all__ = ["MemWalRepair", "SetAside", "repair_logs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """An entry of a log that was damaged or missing.

    Attributes
    ----------
    shard_id, position
        Where the entry was.
    file
        The URI of the file that has its bytes now; ``None`` if the entry was missing.
    reason
        What was wrong with the entry.
    """

    shard_id: str
    position: int
    file: str | None
    reason: str


class MemWalRepair(Displayed, list[SetAside]):
    """The entries that a repair moved aside: a list with a card."""

    def _plain(self) -> str:
        if not self:
            return "no entry of a log was damaged"
        lines = (f"entry {one.position} of shard {one.shard_id}: {one.file}" for one in self)
        return "\n".join([f"{plural(len(self), 'entry', 'entries')} moved aside", *lines])


def repair_logs(shards: Iterable[Shard]) -> MemWalRepair:
    """Move the damaged entries of logs aside; shards without any keep their writers.

    Raises
    ------
    CorruptFileError
        The manifest of a shard is damaged.
    """
    return MemWalRepair(found for shard in shards for found in _repaired(shard))


def _repaired(shard: Shard) -> Iterator[SetAside]:
    manifest = latest(shard)
    if manifest is None or _fault(shard, manifest) is None:
        return
    # who writes to the shard has to stop: the place of its next entry is taken
    manifest = change(
        shard, None, lambda newest: replace(newest, writer_epoch=newest.writer_epoch + 1)
    )
    fence(shard, manifest.writer_epoch)
    while (fault := _fault(shard, manifest)) is not None:
        position, reason = fault
        aside = set_aside(shard, position, manifest.writer_epoch)
        yield SetAside(
            shard_id=str(shard.id),
            position=position,
            file=f"{shard.store.uri}/{aside}" if aside else None,
            reason=reason,
        )


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
