"""Rows of a write-ahead log, which are in no version yet (docs/format/memwal.md, 1)."""

from __future__ import annotations

from lancekit.errors import UnsupportedFeatureError
from lancekit.format.memwal import LOGS, MEM_WAL, merged_generations, parse_shard, position
from lancekit.versions.snapshot import Snapshot

__all__ = ["check_logs_merged"]


def check_logs_merged(snapshot: Snapshot) -> None:
    """Raise ``UnsupportedFeatureError`` if a branch has rows in logs that its versions lack."""
    store, shards = snapshot.store, dict[str, list[str]]()
    for file in store.list_tree(LOGS):
        _, shard, *rest = file.name.split("/")
        shards.setdefault(shard, []).append("/".join(rest))
    details = next((i.index_details for i in snapshot.indices if i.name == MEM_WAL), None)
    merged = merged_generations(details)
    for shard, files in shards.items():
        manifests = [name for name in files if name.startswith("manifest/") and position(name)]
        if not manifests:
            continue
        newest = f"{LOGS}/{shard}/{max(manifests, key=position)}"
        found = parse_shard(bytes(store.read(newest)), newest)
        waiting = any(
            position(name) > found.replay_after for name in files if name.startswith("wal/")
        )
        if waiting or found.flushed > merged.get(found.shard, 0):
            raise UnsupportedFeatureError(
                f"{snapshot.line.uri} has rows in its write-ahead log that are in no version yet: "
                "they would be left behind.",
                hint="Have its writer merge the log into the branch first.",
                shard=str(found.shard),
            )
