"""Flush memtables to generations: first the files, then the manifest that lists them.

See docs/format/memwal.md, 9.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from time import perf_counter

from lancekit._format.index import IndexMetadata
from lancekit._format.mem_wal.details import details_of
from lancekit._format.mem_wal.shard_manifest import ShardManifest
from lancekit._format.schema import LanceField, LanceSchema
from lancekit._index.build.builders import builder_of
from lancekit._index.build.files import delete_segment
from lancekit._index.build.read import OpenSegment
from lancekit._index.kinds import IndexKind, kept_up_as
from lancekit._interrupts import LOOK_SECONDS, heed
from lancekit._operations.index.segments import IndexedField, IndexTarget, read_rows, write_segment
from lancekit._operations.mem_wal.generation import Memtable, write_generation
from lancekit._operations.mem_wal.newest_rows import without
from lancekit._operations.mem_wal.settings import WriterSettings, WriterStats
from lancekit._operations.mem_wal.table_watch import TableWatch
from lancekit._shards.manifests import change
from lancekit._shards.schema import TOMBSTONE, Shard
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import LancekitError, ShardError


@dataclass(frozen=True, slots=True, kw_only=True)
class Flushes:
    """The target of a writer's flushes.

    shard, epoch: the shard, and the epoch of its writer.
    storage_version: the format version of the generations' files.
    table: the table's branch.  Its newest version defines the indices of generations.
    watch: checks that the logs of the table have not ended.
    """

    shard: Shard
    epoch: int
    schema: LanceSchema
    storage_version: str
    table: BranchLocation
    watch: TableWatch

    def flush(self, memtable: Memtable) -> None:
        """Write a memtable as the next generation of its shard, and list it.

        A flush that fails leaves an unlisted folder, which a cleanup removes.

        Raises FencedError: another writer has the shard, or the logs of the table ended.  Nothing
            is listed.
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
            if newest.current_generation > number:  # an earlier attempt listed it
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


# ---- background flushes of full memtables
#
# See docs/format/memwal.md, 9.


class FlushQueue:
    """The full memtables of a writer, oldest first.

    One background thread at a time flushes the memtables, in order.  Callers hold the lock of
    ``changed``, which is the writer's.

    tables: memtables that were full when the writer was opened.
    changed: notified when a memtable is flushed, and when a flush failed.
    begin: starts a function in a new thread.
    """

    def __init__(
        self,
        tables: Iterable[Memtable],
        flushes: Flushes,
        settings: WriterSettings,
        stats: WriterStats,
        changed: threading.Condition,
        begin: Callable[[Callable[[], None]], None],
    ) -> None:
        self.tables = deque(tables)
        #: the error that ended all flushes; the writer sets it if its log failed
        self.ended: LancekitError | None = None
        #: the error of the last flush
        self.error: BaseException | None = None
        self.running = False
        self._flushes, self._settings, self._stats = flushes, settings, stats
        self._changed, self._begin = changed, begin

    @property
    def bytes(self) -> int:
        """The bytes of all memtables."""
        return sum(table.bytes for table in self.tables)

    def start(self) -> None:
        """Start the background thread if memtables wait and no thread runs."""
        if self.tables and not self.running and self.ended is None:
            self._begin(self._flush_all)  # waits for the lock, and so for `running`
            self.running = True

    def wait(self) -> None:
        """Return when all memtables are flushed; raise the error of a flush that failed."""
        while self.tables and self.running:
            self._changed.wait(LOOK_SECONDS)
            heed()
        error = self.ended or self.error
        if self.tables and error is not None:
            raise copy(error) if isinstance(error, LancekitError) else error

    def _flush_all(self) -> None:
        failures, retries = 0, self._settings.max_wal_persist_retries
        while True:
            with self._changed:
                if not self.tables or self.ended is not None or failures > retries:
                    self.running = False
                    self._changed.notify_all()
                    return
                table = self.tables[0]
            started = perf_counter()
            try:
                self._flushes.flush(table)
            except BaseException as error:
                failures = failures + 1 if isinstance(error, Exception) else retries + 1
                with self._changed:
                    self._failed(error)
                time.sleep(self._settings.wal_persist_retry_base_delay_ms / 1000 * 2**failures)
                continue
            failures = 0
            with self._changed:
                self.tables.popleft()
                self.error = None
                self._stats.add("memtable_flush", started)
                self._stats.memtable_flush_rows += table.rows
                self._changed.notify_all()

    def _failed(self, error: BaseException) -> None:
        self._stats.memtable_flush_failures += 1
        self.error = error
        if isinstance(error, ShardError):  # another writer has the shard
            self.ended = error
        self._changed.notify_all()


# ---- the indices of generations, with the kinds and settings of the table's indices
#
# See docs/format/memwal.md, 4.

LOGGER = logging.getLogger(__name__)


def _maintained(table: Snapshot) -> Iterator[tuple[IndexMetadata, IndexKind]]:
    """Yield the newest segment of each index of a table that generations have, with its kind.

    These are the indices that the MemWAL entry names, or all, of one column and a supported kind.
    """
    details = details_of(table.indices)
    if details is None:
        return
    newest = {index.name: index for index in table.indices if not index.is_system}
    for name, index in newest.items():
        kind = kept_up_as(index)
        wanted = details.maintain_all or name in details.maintained
        if wanted and kind is not None and builder_of(kind).bare and len(index.fields) == 1:
            yield index, kind


@dataclass(frozen=True, slots=True)
class MaintainedIndices:
    """Builds the indices of a generation, as in the newest version of its table.

    Rows are found without indices, too, only slower.  An index that cannot be built is logged and
    left out.
    """

    table: BranchLocation

    def __call__(self, generation: Snapshot) -> tuple[IndexMetadata, ...]:
        """Write the index files; return their entries for the generation's manifest."""
        try:
            table = latest_snapshot(self.table)
            wanted = list(_maintained(table))
        except Exception as error:  # no error may keep the rows from being written
            LOGGER.warning("a generation of %s has no indices: %s", self.table.uri, error)
            return ()
        columns = {field.id: field for field in generation.manifest.schema.fields}
        made = (
            _made(table, generation, index, kind, columns[index.fields[0]])
            for index, kind in wanted
            if index.fields[0] in columns
        )
        return tuple(index for index in made if index is not None)


def _made(
    table: Snapshot, generation: Snapshot, like: IndexMetadata, kind: IndexKind, field: LanceField
) -> IndexMetadata | None:
    """Build an index of a generation like an index of its table; ``None`` if that fails."""
    column = IndexedField(field=field, path=field.name, type=field.to_arrow().type)
    builder, new = builder_of(kind), uuid.uuid4()
    if builder.bare is None or not kind.fits(column.type):
        return None
    try:
        stored = OpenSegment.open(table.base_store(like.base_id), like, kind, column.type)
        fragments = generation.manifest.fragments.ids.tolist()
        target = IndexTarget(snapshot=generation, column=column, kind=kind, name=like.name)
        content = builder.extended(builder.bare(stored), read_rows(target, fragments))
        return write_segment(target, content, fragments, uuid=new)
    except Exception as error:  # no error may keep the rows from being written
        delete_segment(generation.store, new)
        uri, name = table.location.uri, like.name
        LOGGER.warning("a generation of %s was written without the index %s: %s", uri, name, error)
        return None
