"""A memtable becomes a generation: its files first, then the manifest that lists it.

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
from lancekit._operations.index.segments import (
    IndexedField,
    IndexTarget,
    read_rows,
    write_segment,
)
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
    """Whose memtables become generations: a shard's, of one writer.

    shard, epoch: the shard, and the epoch that its writer has.
    schema: the table's.
    storage_version: the format of the generations' files.
    table: the table's branch, whose newest version says which indices generations have.
    watch: looks whether the table still has its logs.
    """

    shard: Shard
    epoch: int
    schema: LanceSchema
    storage_version: str
    table: BranchLocation
    watch: TableWatch

    def flush(self, memtable: Memtable) -> None:
        """Write a memtable as the next generation of its shard, and list it.

        What a flush leaves that does not get as far is an unlisted folder, for collections.

        Raises FencedError: another writer has the shard, or the logs of the table ended: nothing is
            listed.
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


# ---- memtables that are full become generations, in the background
#
# See docs/format/memwal.md, 9.


class FlushQueue:
    """The full memtables of a writer, oldest first.

    One background thread at a time makes generations of the memtables, in order.  Callers hold the
    lock of ``changed``, which is the writer's.

    tables: memtables that were full when the writer was opened.
    changed: notified when a memtable is gone, and when a flush failed.
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
        #: why nothing more is flushed; the writer sets it if its log failed
        self.ended: LancekitError | None = None
        #: why the last flush failed
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
            self._begin(self._flush_all)  # which needs the lock
            self.running = True

    def wait(self) -> None:
        """Return when all memtables are generations; raise why one is not."""
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


# ---- the indices of generations: of the kinds of the table's, and made with their settings
#
# See docs/format/memwal.md, 4.

LOGGER = logging.getLogger(__name__)


def _maintained(table: Snapshot) -> Iterator[tuple[IndexMetadata, IndexKind]]:
    """Yield which indices of a table its generations have, each by its newest segment.

    Of those that the table's entry names, or of all of them, those of a top-level column and of a
    kind that generations have.
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
    """Makes the indices of a generation, as the newest version of its table has them.

    An index is made to find rows sooner, and rows are found without: one that cannot be made is
    left out, which is logged, and the generation is written.
    """

    table: BranchLocation

    def __call__(self, generation: Snapshot) -> tuple[IndexMetadata, ...]:
        """Write the files of the indices; return what the generation's manifest says of them."""
        try:
            table = latest_snapshot(self.table)
            wanted = list(_maintained(table))
        except Exception as error:  # whatever it is, rows come first
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
    """Make an index of a generation like one of its table; ``None`` if that cannot be done."""
    column = IndexedField(field=field, path=field.name, type=field.to_arrow().type)
    builder, new = builder_of(kind), uuid.uuid4()
    if builder.bare is None or not kind.fits(column.type):
        return None
    try:
        stored = OpenSegment.open(table.base_store(like.base_id), like, kind, column.type)
        (fragment,) = generation.manifest.fragments.ids.tolist()
        target = IndexTarget(snapshot=generation, column=column, kind=kind, name=like.name)
        content = builder.extended(builder.bare(stored), read_rows(target, [fragment]))
        return write_segment(target, content, [fragment], uuid=new)
    except Exception as error:  # whatever it is, rows come first
        delete_segment(generation.store, new)
        uri, name = table.location.uri, like.name
        LOGGER.warning("a generation of %s lacks the index %s: %s", uri, name, error)
        return None
