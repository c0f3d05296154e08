"""Rows of a write-ahead log, which are in no version yet (docs/format/memwal.md, 1)."""

from __future__ import annotations

from lancekit.errors import UnsupportedFeatureError
from lancekit.format.mem_wal.details import MemWalDetails, details_of
from lancekit.shards.log import positions
from lancekit.shards.manifests import latest
from lancekit.shards.shard import shards_of
from lancekit.versions.snapshot import Snapshot

__all__ = ["check_logs_merged"]


def check_logs_merged(snapshot: Snapshot) -> None:
    """Raise ``UnsupportedFeatureError`` if a branch has rows in logs that its versions lack."""
    merged = (details_of(snapshot.indices) or MemWalDetails()).merged
    for shard in shards_of(snapshot.store):
        found = latest(shard)
        if found is None:
            continue
        waiting = any(number > found.replay_after for number in positions(shard))
        if waiting or found.flushed > merged.get(shard.id, 0):
            raise UnsupportedFeatureError(
                f"{snapshot.line.uri} has rows in its write-ahead log that are in no version yet: "
                "they would be left behind.",
                hint="Have its writer merge the log into the branch first.",
                shard=str(shard.id),
            )
