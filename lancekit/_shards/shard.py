"""A shard: a folder beside the versions of a branch (docs/format/memwal.md, 1)."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from lancekit._format.mem_wal.names import LOGS
from lancekit._storage.base import Store

__all__ = ["Shard", "shard_of", "shards_of"]


@dataclass(frozen=True, slots=True)
class Shard:
    """Where a shard is: `store` is rooted at its folder."""

    store: Store
    id: UUID


def shard_of(line_store: Store, shard: UUID) -> Shard:
    """Return a shard of a branch, which need not be there yet; `line_store` is the branch's."""
    return Shard(line_store.child(f"{LOGS}/{shard}"), shard)


def shards_of(line_store: Store) -> list[Shard]:
    """List the shards of a branch, by their ids; folders that are called otherwise are none."""
    found = []
    for name in line_store.list_folders(LOGS):
        try:
            shard = UUID(name)
        except ValueError:
            continue
        if str(shard) == name:
            found.append(shard_of(line_store, shard))
    return sorted(found, key=lambda one: one.id)
