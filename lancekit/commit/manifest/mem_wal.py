"""Progress of write-ahead regions that are merged into the table (docs/format/memwal.md, 7)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace

from pyroaring import BitMap

from lancekit.errors import IncompatibleConflictError
from lancekit.format.index import IndexMetadata
from lancekit.format.mem_wal.details import merged_generations, with_generations
from lancekit.format.mem_wal.names import MEM_WAL
from lancekit.format.operations import CompactedSsTable

__all__ = ["advanced"]


def advanced(
    indices: tuple[IndexMetadata, ...], merged: Iterable[CompactedSsTable], version: int
) -> tuple[IndexMetadata, ...]:
    """Return the indices with the regions' progress recorded by ``version``.

    Raises
    ------
    IncompatibleConflictError
        A generation was merged before: its rows would be merged twice.
    """
    new = {entry.shard_id: entry.generation for entry in merged}
    if not new:
        return indices
    entry = next((index for index in indices if index.name == MEM_WAL), None)
    known = merged_generations(entry.index_details if entry else None)
    for region, generation in new.items():
        if generation <= known.get(region, -1):
            raise IncompatibleConflictError(
                f"Generation {generation} of region {region} cannot be merged: the table has "
                f"merged the region up to generation {known[region]}.",
                hint="Leave out the generations that were merged already.",
                region=str(region),
                generation=generation,
            )
    entry = entry or IndexMetadata(
        uuid=uuid.uuid4(), name=MEM_WAL, index_version=0, fragment_ids=BitMap()
    )
    # a new uuid, since readers cache what an index says by it
    changed = replace(
        entry,
        uuid=uuid.uuid4(),
        dataset_version=version,
        index_details=with_generations(entry.index_details, new),
    )
    return (*(index for index in indices if index.name != MEM_WAL), changed)
