"""A memtable becomes a generation: its files first, then the manifest that lists it.

See docs/format/memwal.md, 9.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lancekit.format.mem_wal.shard_manifest import ShardManifest
from lancekit.format.schema import LanceSchema
from lancekit.operations.mem_wal.generation import write_generation
from lancekit.operations.mem_wal.maintained import MaintainedIndices
from lancekit.operations.mem_wal.memtable import Memtable
from lancekit.operations.mem_wal.newest_rows import without
from lancekit.operations.mem_wal.table_watch import TableWatch
from lancekit.shards.manifests import change
from lancekit.shards.schema import TOMBSTONE
from lancekit.shards.shard import Shard
from lancekit.versions.line import Line

__all__ = ["Flushes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flushes:
    """Whose memtables become generations: a shard's, of one writer.

    Attributes
    ----------
    shard, epoch
        The shard, and the epoch that its writer has.
    schema
        The table's.
    storage_version
        The format of the generations' files.
    table
        The table's branch, whose newest version says which indices generations have.
    watch
        Looks whether the table still has its logs.
    """

    shard: Shard
    epoch: int
    schema: LanceSchema
    storage_version: str
    table: Line
    watch: TableWatch

    def flush(self, memtable: Memtable) -> None:
        """Write a memtable as the next generation of its shard, and list it.

        What a flush leaves that does not get as far is an unlisted folder, for collections.

        Raises
        ------
        FencedError
            Another writer has the shard, or the logs of the table ended: nothing is listed.
        """
        self.watch.check()
        number, last = memtable.generation, memtable.last_position
        schema = without(self.schema, memtable.lacking)
        columns = [*schema.names, TOMBSTONE]
        table = write_generation(
            self.shard,
            schema,
            [batch.select(columns) for batch in memtable.batches],
            number,
            self.storage_version,
            MaintainedIndices(self.table),
        )
        self.watch.check_written(lambda: self.shard.store.delete_tree(table.path))

        def listed(newest: ShardManifest) -> ShardManifest | None:
            if newest.current_generation > number:  # an attempt before this one got that far
                return None
            return replace(
                newest,
                sstables=(*newest.sstables, table),
                replay_after=last,
                last_seen=max(newest.last_seen, last),
                current_generation=number + 1,
            )

        newest = change(self.shard, self.epoch, listed)
        if self.watch.log is not None:
            self.watch.log.flushed(newest.version)
