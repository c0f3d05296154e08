"""Which generations of a branch's shards a version has (docs/format/memwal.md, 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from lancekit._format.mem_wal.details import MemWalDetails, details_of
from lancekit._lazy import cached_property
from lancekit._versions.ancestor import source_of
from lancekit._versions.snapshot import Snapshot

__all__ = ["Marks"]


@dataclass(frozen=True, eq=False)
class Marks:
    """Which generations of its branch's shards a version has."""

    snapshot: Snapshot

    @cached_property
    def merged(self) -> Mapping[UUID, int]:
        """The last generation of each shard that the version says it has."""
        return (details_of(self.snapshot.indices) or MemWalDetails()).merged

    @cached_property
    def inherited(self) -> Mapping[UUID, int]:
        """What of that a branch or a clone began with: of shards that are not its own."""
        source = source_of(self.snapshot.line)
        return {} if source is None else Marks(source).merged

    def has(self, shard: UUID, generation: int) -> bool:
        """Tell whether the version has the rows of a generation.

        A writer that does not know of marks begins the shards of branches at 1: what it wrote is
        not what the mark is of.
        """
        return self.merged.get(shard, 0) >= generation > self.inherited.get(shard, 0)
