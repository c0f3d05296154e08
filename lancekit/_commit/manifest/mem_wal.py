"""Progress of shards that are merged into the table (docs/format/memwal.md, 7)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from lancekit._format.index import IndexMetadata
from lancekit._format.mem_wal.details import merged_generations, with_generations
from lancekit._format.mem_wal.names import MEM_WAL, mem_wal_entry
from lancekit._format.operation_parts import CompactedSsTable
from lancekit.errors import IncompatibleConflictError, InvalidArgumentError

__all__ = ["advanced"]


def advanced(
    indices: tuple[IndexMetadata, ...], merged: Sequence[CompactedSsTable], version: int
) -> tuple[IndexMetadata, ...]:
    """Return the indices with the shards' progress recorded by ``version``.

    Raises
    ------
    IncompatibleConflictError
        A generation was merged before: its rows would be merged twice.
    InvalidArgumentError
        A shard is named twice, or the table has no entry to record it in.
    """
    new = {one.shard_id: one.generation for one in merged}
    if not new:
        return indices
    if len(new) < len(merged):
        raise InvalidArgumentError(
            "A shard of a write-ahead log is named twice in one change.",
            hint="Name the last generation of each shard that is merged.",
            shards=[str(one.shard_id) for one in merged],
        )
    entry = mem_wal_entry(indices)
    if entry is None:
        raise InvalidArgumentError(
            "Generations of write-ahead logs cannot be recorded as merged: the table has no "
            f"entry {MEM_WAL!r}.",
            hint="ds.initialize_mem_wal() makes it; an overwrite drops it.",
            index=MEM_WAL,
        )
    known = merged_generations(entry.index_details)
    for shard, generation in new.items():
        if generation <= known.get(shard, -1):
            raise IncompatibleConflictError(
                f"Generation {generation} of shard {shard} cannot be merged: the table has "
                f"merged the shard up to generation {known[shard]}.",
                hint="Leave out the generations that were merged already.",
                shard=str(shard),
                generation=generation,
            )
    # a new uuid, since readers cache what an index says by it
    changed = replace(
        entry,
        uuid=uuid.uuid4(),
        dataset_version=version,
        index_details=with_generations(entry.index_details, new),
    )
    return (*(index for index in indices if index is not entry), changed)
