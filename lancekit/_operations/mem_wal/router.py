"""Route rows to their shards: one call for many shards, with one writer each."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from datetime import timedelta
from time import monotonic, sleep
from typing import TypeVar
from uuid import UUID

import pyarrow as pa

from lancekit._defaults import CLAIM_TIMEOUT
from lancekit._format.mem_wal.details import ShardingSpec
from lancekit._format.mem_wal.names import MEM_WAL
from lancekit._format.schema import LanceSchema
from lancekit._interrupts import attempted, on_behalf
from lancekit._operations.checks.constraint_audit import RowConstraints
from lancekit._operations.checks.constraints import stored_constraints
from lancekit._operations.mem_wal.claim import LONG_LOG, POLL_SECONDS, Turn
from lancekit._operations.mem_wal.initialize import ONE_SHARD, initialized
from lancekit._operations.mem_wal.open_writer import open_writer
from lancekit._operations.mem_wal.settings import WriterSettings
from lancekit._operations.mem_wal.shares import ShardRows, Share, opened_rows, shares, spec_of
from lancekit._operations.mem_wal.writer import Writer
from lancekit._operations.mem_wal.writer_messages import AFTER_PUT, not_put, not_taken
from lancekit._pipeline.casts.batches import cast_all
from lancekit._pipeline.casts.plan import plan_cast
from lancekit._shards.schema import shard_of
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import (
    FencedError,
    InvalidArgumentError,
    LancekitError,
    RetriesExhaustedError,
    ShardError,
)
from lancekit.options import Options, options

T = TypeVar("T")

#: the most shards that are written to at the same time
_THREADS = 16


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Rows that a shard acknowledged: their number, the writer's epoch, the log's last position."""

    rows: int
    epoch: int
    position: int


def sharding_of(snapshot: Snapshot) -> ShardingSpec:
    """Return the sharding spec of a table: one shard for all rows if the table has none.

    Raises InvalidArgumentError: the table has no MemWAL, or dropped the sharding column.
    """
    spec = spec_of(initialized(snapshot)) or ONE_SHARD
    there = {column.id for column in snapshot.manifest.schema.fields}
    for one in spec.fields:
        if not there.issuperset(one.source_ids):
            raise InvalidArgumentError(
                f"{snapshot.called} of {snapshot.location.uri} routes rows to shards by the "
                f"{one.transform} of a column that was dropped.",
                hint=f"Call ds.merge_mem_wal(flush=True), ds.drop_index({MEM_WAL!r}), then "
                "ds.initialize_mem_wal() with a column that the table has.",
                uri=snapshot.location.uri,
            )
    return spec


@dataclass(slots=True)
class _OwnWriter:
    """The writer of a shard, once it is open; `lock` is held while it is opened or closed."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    opened: tuple[Writer, ShardRows] | None = None
    turn: Turn = field(default_factory=Turn)

    def forget(self, writer: Writer) -> None:
        """Drop a writer, so that the next row opens another; do nothing if it was replaced."""
        with self.lock:
            if self.opened is not None and self.opened[0] is writer:
                self.opened = None


class Router:
    """The writers of a table's shards, each opened when the first row for it arrives.

    snapshot: the table's newest version.
    """

    def __init__(self, snapshot: Snapshot, settings: WriterSettings) -> None:
        self._snapshot = snapshot
        self._settings = settings
        self._spec = sharding_of(snapshot)
        self._constraints = RowConstraints.of(snapshot)
        self._process = os.getpid()
        self._writers: dict[UUID, _OwnWriter] = {}
        #: the newest version that a writer saw; a cleanup may have removed earlier versions
        self._seen = snapshot
        #: True once the logs of the table ended: then a new router must replace this one
        self.ended = False

    @property
    def schema(self) -> LanceSchema:
        """The table's schema when the router was made; rows must have it."""
        return self._snapshot.manifest.schema

    @property
    def version(self) -> int:
        """The table's version when the router was made."""
        return self._snapshot.version

    @property
    def is_of_this_process(self) -> bool:
        """True if this process made the router: after a fork its writers belong to the parent."""
        return os.getpid() == self._process

    def is_live(self) -> bool:
        """Check that a writer is open, no shard is sealed, and all logs accept rows."""
        found = [own.opened[0] for own in tuple(self._writers.values()) if own.opened]
        writers = [writer for writer in found if writer.state == "open"]
        is_live = bool(writers) and not self.ended
        for writer in writers:
            try:
                writer.check_rows(look=True)
                is_live = is_live and not writer.is_sealed()
            except (LancekitError, OSError) as error:
                is_live = False
                _flush_if_log_cut(writer, error)
        return is_live

    def fits(self, newest: Snapshot) -> bool:
        """Return True if a newer version routes the same rows to the same shards.

        A version with a lower number is of a table that replaced this one.
        """
        if self.ended:
            return False
        mine, theirs = self._snapshot.manifest, newest.manifest
        if mine.version == theirs.version:
            return sharding_of(newest) == self._spec
        return (
            mine.version < theirs.version
            and mine.schema == theirs.schema
            and stored_constraints(mine.config) == stored_constraints(theirs.config)
            and initialized(newest).defaults == initialized(self._snapshot).defaults
            and sharding_of(newest) == self._spec
        )

    def cast(self, data: object, schema: pa.Schema | None = None) -> pa.Table:
        """Return rows of any kind, cast to the table's schema.

        Raises InvalidTypeError, SchemaMismatchError: the data cannot be read as rows, or does not
            fit the table.
        """
        columns = self.schema.to_arrow()
        reader = opened_rows(data, schema, columns)
        return pa.Table.from_batches(cast_all(plan_cast(reader.schema, columns), reader), columns)

    def put(
        self,
        rows: pa.Table,
        timeout: timedelta,
        claim_timeout: timedelta = CLAIM_TIMEOUT,
        acknowledged: Mapping[UUID, Acknowledged] | None = None,
    ) -> dict[UUID, Acknowledged]:
        """Put rows into their shards; return what each shard acknowledged.

        rows: the result of `cast`.
        timeout: how long to wait while the memory of a writer is full.
        claim_timeout: how long to reclaim a shard that other writers claim.
        acknowledged: the acknowledgements of an earlier call, for the first of these rows.

        Raises ConstraintViolationError: a row breaks a constraint of the table.  Nothing is
            written.
        Raises ShardError: some shards did not acknowledge all of their rows.  ``context`` has
            ``failed`` (errors by shard), ``acknowledged`` (row counts by shard) and ``shards``
            (`Acknowledged` by shard).  A shard fails with `SchemaMismatchError` if the columns of
            the table changed.
        """
        for batch in rows.to_batches():  # before any of them is written
            self._constraints.check(batch)
        parts = list(shares(rows, self._spec, self.schema))
        done = dict(acknowledged or {})
        failed: dict[UUID, LancekitError] = {}
        deadline = monotonic() + claim_timeout.total_seconds()

        def put_one(part: tuple[UUID, Share, pa.Table]) -> None:
            shard, share, own = part
            limit = self._settings.max_memtable_rows  # a put is never divided
            try:
                first = done[shard].rows if shard in done else 0
                for start in range(first, own.num_rows, limit):
                    piece = own.slice(start, limit)
                    put = self._put(shard, share, piece, timeout, claim_timeout, deadline)
                    done[shard] = replace(put, rows=start + put.rows)
            except LancekitError as error:
                failed[shard] = error

        in_parallel(put_one, parts)
        if failed:
            raise _not_all(done, failed)
        return done

    def close(self) -> None:
        """Close the writers, flushing their memory to generations.

        If another writer claimed a shard, it replays the rows from the log and flushes them.

        Raises LancekitError: the error of the first writer that failed.  All writers are closed.
        """
        errors = []
        logged = self._settings.durable_write

        def close_one(own: _OwnWriter) -> None:
            with own.lock:  # no thread opens a new writer before this one is closed
                opened, own.opened = own.opened, None
                try:
                    if opened is not None:
                        opened[0].close()
                except LancekitError as error:
                    is_taken = isinstance(error, FencedError) and not error.context.get("ended")
                    if not (is_taken and logged):
                        errors.append(error)

        in_parallel(close_one, list(self._writers.values()))
        if errors:
            raise errors[0]

    def retire(self) -> None:
        """Close the writers before other writers replace them; errors are ignored.

        Rows that cannot be flushed are in the log, and the next writer replays them.
        """
        with suppress(LancekitError):
            self.close()

    def _put(
        self,
        shard: UUID,
        share: Share,
        rows: pa.Table,
        timeout: timedelta,
        claim_timeout: timedelta,
        deadline: float,
    ) -> Acknowledged:
        own = self._writers.setdefault(shard, _OwnWriter())
        waits = True  # until the writer itself reports the state of the rows
        attempted(lambda _: not_put(shard) if waits else "", lambda: False, shard, AFTER_PUT)
        while True:
            writer = None
            try:
                writer, form = self._writer(own, shard, share, deadline)
                live, waits = form.live(rows), False
                writer.put(live, timeout)
                self._seen = max(self._seen, writer.seen, key=lambda seen: seen.version)
                own.turn.begin()
                return Acknowledged(rows.num_rows, writer.epoch, writer.position)
            except LancekitError as error:
                # a writer that is fenced or was just closed wrote nothing: retrying is safe
                again = isinstance(error, FencedError | RetriesExhaustedError)
                if writer is not None:
                    _flush_if_log_cut(writer, error)
                if writer is not None and writer.state != "open":
                    own.forget(writer)
                    again = again or writer.state == "closed"
                self.ended = self.ended or bool(error.context.get("ended"))
                if self.ended or not again:
                    raise
                if monotonic() >= deadline:
                    raise not_taken(shard, claim_timeout) from error
            waits = True
            sleep(POLL_SECONDS)

    def _writer(
        self, own: _OwnWriter, shard: UUID, share: Share, deadline: float
    ) -> tuple[Writer, ShardRows]:
        """Return the open writer of a shard; open it when it is the caller's turn."""
        while True:
            with own.lock:  # released while this sleeps, because `close` needs it
                found = own.opened
                if found is not None and found[0].state == "open":
                    return found
                epoch, free = own.turn.poll(shard_of(self._snapshot.store, shard))
                started = monotonic()
                if free or started >= deadline:
                    found = own.opened = open_writer(
                        self._snapshot, shard, self._settings, share, after=epoch, seen=self._seen
                    )
                    own.turn.own_epoch = found[0].epoch
                    if own.turn.is_contended and found[0].memory().batches > LONG_LOG:
                        with suppress(LancekitError):  # the rows stay in the log
                            found[0].flush()
                    own.turn.cost = monotonic() - started
                    return found
            sleep(min(POLL_SECONDS, max(deadline - started, 0)))


def _flush_if_log_cut(writer: Writer, error: Exception) -> None:
    """Flush a writer if its log lost its end: then only its memory has the rows."""
    if isinstance(error, LancekitError) and error.context.get("cut"):
        with suppress(LancekitError):
            writer.close()


def in_parallel(work: Callable[[T], None], of: Sequence[T]) -> None:
    """Call a function for several shards in parallel, with the caller's options."""
    if len(of) < 2:
        for one in of:
            work(one)
        return
    task = on_behalf(work)
    with ThreadPoolExecutor(min(len(of), _THREADS)) as pool:
        for done in [pool.submit(copy_context().run, task, one) for one in of]:
            done.result()


def columns_changed(error: LancekitError) -> bool:
    """Return True if rows were refused only because the table's columns changed."""
    failed = error.context.get("failed", {}).values()
    return bool(failed) and all(one.context.get("columns_changed") for one in failed)


def _not_all(done: Mapping[UUID, Acknowledged], failed: Mapping[UUID, LancekitError]) -> ShardError:
    ended = all(error.context.get("ended") for error in failed.values())
    shown = {
        shard: error.message if ended else f"{error.message} {error.hint or ''}"
        for shard, error in failed.items()
    }
    hint = (
        "Follow the hint of each shard. Then repeat the call with the same rows: with a primary "
        "key, acknowledged rows count once."
    )
    return ShardError(
        f"{len(failed)} of {len(done) + len(failed)} shards did not acknowledge their rows.",
        details=[f"  {shard}: {message}" for shard, message in shown.items()],
        hint=next(iter(failed.values())).hint if ended else hint,  # the table ended for all shards
        acknowledged={str(shard): rows.rows for shard, rows in done.items()},
        shards={str(shard): rows for shard, rows in done.items()},
        failed={str(shard): error for shard, error in failed.items()},
    )


# ---- the cached writers of `mem_wal_upsert`, shared by the handles of a table in a process
#
# Otherwise a new handle for each row would claim the shard for each row.  Each claim would wait for
# the previous writer, of the same process, and flush three files to disk.

#: the number of tables whose routers are cached: each can have a memtable in memory
_MAX_CACHED = 8

#: replaced as a whole, so that threads need no lock: a fork could leave a lock locked
_cached_routers: tuple[tuple[BranchLocation, Options, Router], ...] = ()


def cached_router(location: BranchLocation, now: Snapshot) -> Router | None:
    """Return the cached router of a table, if a handle at version `now` can use it.

    The router was made with the current options and has an open writer, and the table still exists
    with the same columns.
    """
    current = options.current()
    for place, opened_with, router in _cached_routers:
        if router.is_of_this_process and place == location and opened_with == current:
            # `fits` requires a version with logs; `is_live` is False once they ended
            usable = router.is_live() and (now.version <= router.version or router.fits(now))
            return router if usable else None
    return None


def cache_router(location: BranchLocation, router: Router) -> None:
    """Cache the router of a table, replacing a router with the same options."""
    global _cached_routers  # noqa: PLW0603  # one cache for the process
    entry = (location, options.current(), router)
    _cached_routers = (*(one for one in _cached_routers if one[:2] != entry[:2]), entry)[
        -_MAX_CACHED:
    ]
