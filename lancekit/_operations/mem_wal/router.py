"""Rows that find their shards: one call for many, with a writer each."""

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
from lancekit._operations.mem_wal.claim import LONG_LOG, LOOK_SECONDS, Turn
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

#: how many shards are written to at the same time
_THREADS = 16


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Rows that a shard has: how many, the epoch of its writer, and how far its log is written."""

    rows: int
    epoch: int
    position: int


def sharding_of(snapshot: Snapshot) -> ShardingSpec:
    """Return what gives a table's rows to shards: all to one if the table does not say it.

    Raises InvalidArgumentError: the table has no shards, or dropped the column that gives rows to
        shards.
    """
    spec = spec_of(initialized(snapshot)) or ONE_SHARD
    there = {column.id for column in snapshot.manifest.schema.fields}
    for one in spec.fields:
        if not there.issuperset(one.source_ids):
            raise InvalidArgumentError(
                f"{snapshot.called} of {snapshot.location.uri} gives rows to shards by the "
                f"{one.transform} of a column that was dropped.",
                hint=f"Call ds.merge_mem_wal(flush=True), ds.drop_index({MEM_WAL!r}), then "
                "ds.initialize_mem_wal() with a column that the table has.",
                uri=snapshot.location.uri,
            )
    return spec


@dataclass(slots=True)
class _OwnWriter:
    """The writer of a shard, once it is opened, and what is held while it is opened or closed."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    opened: tuple[Writer, ShardRows] | None = None
    turn: Turn = field(default_factory=Turn)

    def forget(self, writer: Writer) -> None:
        """Have the next row open another one, unless that is done already."""
        with self.lock:
            if self.opened is not None and self.opened[0] is writer:
                self.opened = None


class Router:
    """The writers of a table's shards, each opened when the first row comes for it.

    snapshot: the table's newest version.
    settings: what the writers keep to.
    """

    def __init__(self, snapshot: Snapshot, settings: WriterSettings) -> None:
        self._snapshot = snapshot
        self._settings = settings
        self._spec = sharding_of(snapshot)
        self._constraints = RowConstraints.of(snapshot)
        self._process = os.getpid()
        self._writers: dict[UUID, _OwnWriter] = {}
        #: the newest version that a writer saw; a cleanup may have removed the versions before it
        self._seen = snapshot
        #: whether the logs of the table ended, so that others have to take the router's place
        self.ended = False

    @property
    def schema(self) -> LanceSchema:
        """The table's, when the router was made; rows have to have it."""
        return self._snapshot.manifest.schema

    @property
    def version(self) -> int:
        """The table's version at that time."""
        return self._snapshot.version

    @property
    def is_of_this_process(self) -> bool:
        """Whether it was made here: one that was forked along has writers of another process."""
        return os.getpid() == self._process

    def is_live(self) -> bool:
        """Look whether a writer is open, no shard sealed, and all logs take rows."""
        found = [own.opened[0] for own in tuple(self._writers.values()) if own.opened]
        writers = [writer for writer in found if writer.state == "open"]
        is_live = bool(writers) and not self.ended
        for writer in writers:
            try:
                writer.check_rows(look=True)
                is_live = is_live and not writer.is_sealed()
            except (LancekitError, OSError) as error:
                is_live = False
                _keep_rows(writer, error)
        return is_live

    def fits(self, newest: Snapshot) -> bool:
        """Tell whether a newer version takes the same rows into the same shards.

        One whose number is lower is of a table that took the place of this one.
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
        """Return rows of any kind as the table has them.

        Raises InvalidTypeError, SchemaMismatchError: they cannot be read as rows, or do not fit the
            table.
        """
        columns = self.schema.to_arrow()
        reader = opened_rows(data, schema, columns)
        # a generation is one file
        rows = cast_all(plan_cast(reader.schema, columns), reader, divide=False)
        return pa.Table.from_batches(rows, columns)

    def put(
        self,
        rows: pa.Table,
        timeout: timedelta,
        claim_timeout: timedelta = CLAIM_TIMEOUT,
        acknowledged: Mapping[UUID, Acknowledged] | None = None,
    ) -> dict[UUID, Acknowledged]:
        """Give rows to their shards; return what each shard acknowledged.

        rows: rows as `cast` returns them.
        timeout: how long to wait while the memory of a writer is full.
        claim_timeout: how long to take a shard again that other writers take.
        acknowledged: what shards acknowledged of the same rows before: the first rows of each.

        Raises ConstraintViolationError: a row breaks a constraint of the table; nothing is written.
        Raises ShardError: some shards did not acknowledge all of their rows: ``context`` has
            ``failed``, errors by shard, ``acknowledged``, the number of rows by shard, and
            ``shards``, what was acknowledged by shard.  A shard fails with `SchemaMismatchError` if
            the columns of the table changed.
        """
        for batch in rows.to_batches():  # before any of them is written
            self._constraints.check(batch)
        parts = list(shares(rows, self._spec, self.schema))
        done = dict(acknowledged or {})
        failed: dict[UUID, LancekitError] = {}
        deadline = monotonic() + claim_timeout.total_seconds()

        def put_one(part: tuple[UUID, Share, pa.Table]) -> None:
            shard, share, own = part
            most = self._settings.max_memtable_rows  # a put is never divided
            try:
                first = done[shard].rows if shard in done else 0
                for start in range(first, own.num_rows, most):
                    piece = own.slice(start, most)
                    put = self._put(shard, share, piece, timeout, claim_timeout, deadline)
                    done[shard] = replace(put, rows=start + put.rows)
            except LancekitError as error:
                failed[shard] = error

        beside_each_other(put_one, parts)
        if failed:
            raise _not_all(done, failed)
        return done

    def close(self) -> None:
        """Close the writers: what is in their memory becomes generations.

        Another writer that took a shard has the rows from its log, and makes the generation.

        Raises LancekitError: that of the first writer that could not; the others are closed too.
        """
        errors = []
        logged = self._settings.durable_write

        def close_one(own: _OwnWriter) -> None:
            with own.lock:  # nobody opens one of a shard whose writer is not done
                opened, own.opened = own.opened, None
                try:
                    if opened is not None:
                        opened[0].close()
                except LancekitError as error:
                    is_taken = isinstance(error, FencedError) and not error.context.get("ended")
                    if not (is_taken and logged):
                        errors.append(error)

        beside_each_other(close_one, list(self._writers.values()))
        if errors:
            raise errors[0]

    def retire(self) -> None:
        """Close the writers for others that take their place.

        What cannot become a generation is in the log, from where the next writer has it.
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
        waits = True  # until the writer itself says what became of the rows
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
                # one that is fenced, or was just closed, wrote nothing: it is safe to do it again
                again = isinstance(error, FencedError | RetriesExhaustedError)
                if writer is not None:
                    _keep_rows(writer, error)
                if writer is not None and writer.state != "open":
                    own.forget(writer)
                    again = again or writer.state == "closed"
                self.ended = self.ended or bool(error.context.get("ended"))
                if self.ended or not again:
                    raise
                if monotonic() >= deadline:
                    raise not_taken(shard, claim_timeout) from error
            waits = True
            sleep(LOOK_SECONDS)

    def _writer(
        self, own: _OwnWriter, shard: UUID, share: Share, deadline: float
    ) -> tuple[Writer, ShardRows]:
        """Return the open writer of a shard; open it when it is the caller's turn."""
        while True:
            with own.lock:  # not held while this waits: `close` needs it
                found = own.opened
                if found is not None and found[0].state == "open":
                    return found
                epoch, free = own.turn.look(shard_of(self._snapshot.store, shard))
                started = monotonic()
                if free or started >= deadline:
                    found = own.opened = open_writer(
                        self._snapshot,
                        shard,
                        self._settings,
                        share,
                        after=epoch,
                        seen=self._seen,
                    )
                    own.turn.held = found[0].epoch
                    if own.turn.is_contended and found[0].memory().batches > LONG_LOG:
                        with suppress(LancekitError):  # the rows stay in the log
                            found[0].flush()
                    own.turn.cost = monotonic() - started
                    return found
            sleep(min(LOOK_SECONDS, max(deadline - started, 0)))


def _keep_rows(writer: Writer, error: Exception) -> None:
    """Make a generation of the rows in memory if the log lost its end: they are there alone."""
    if isinstance(error, LancekitError) and error.context.get("cut"):
        with suppress(LancekitError):
            writer.close()


def beside_each_other(work: Callable[[T], None], of: Sequence[T]) -> None:
    """Do something of several shards at the same time, with the options of who calls."""
    if len(of) < 2:
        for one in of:
            work(one)
        return
    told = on_behalf(work)
    with ThreadPoolExecutor(min(len(of), _THREADS)) as pool:
        for done in [pool.submit(copy_context().run, told, one) for one in of]:
            done.result()


def columns_changed(error: LancekitError) -> bool:
    """Tell whether rows were not put only because the table has other columns now."""
    failed = error.context.get("failed", {}).values()
    return bool(failed) and all(one.context.get("columns_changed") for one in failed)


def _not_all(done: Mapping[UUID, Acknowledged], failed: Mapping[UUID, LancekitError]) -> ShardError:
    ended = all(error.context.get("ended") for error in failed.values())
    shown = {
        shard: error.message if ended else f"{error.message} {error.hint or ''}"
        for shard, error in failed.items()
    }
    hint = (
        "Do what is said of each shard. Then call it again with the same rows: with a primary key "
        "those that were acknowledged count once."
    )
    return ShardError(
        f"{len(failed)} of {len(done) + len(failed)} shards did not acknowledge their rows.",
        details=[f"  {shard}: {said}" for shard, said in shown.items()],
        hint=next(iter(failed.values())).hint if ended else hint,  # the table ended for all shards
        acknowledged={str(shard): rows.rows for shard, rows in done.items()},
        shards={str(shard): rows for shard, rows in done.items()},
        failed={str(shard): error for shard, error in failed.items()},
    )


# ---- the writers of `mem_wal_upsert`, which a process keeps between handles of one table
#
# A handle for each row would claim the shard for each row: after a pause in which the writer
# before, of the same process, could go on, and with three files that are flushed to the disk.

#: of how many tables the writers are kept: each may hold a memtable
_MOST = 8

#: replaced as a whole, so that threads need no lock, which a fork could leave locked
_kept: tuple[tuple[BranchLocation, Options, Router], ...] = ()


def kept_router(location: BranchLocation, now: Snapshot) -> Router | None:
    """Return the kept writers of a table, if a handle at a version of it can use them.

    They were opened with the options in force now, a writer is open, and the table is still there
    with the same columns.
    """
    current = options.current()
    for place, said, router in _kept:
        if router.is_of_this_process and place == location and said == current:
            # a version without logs fits nothing, and is seen by the look
            usable = router.is_live() and (now.version <= router.version or router.fits(now))
            return router if usable else None
    return None


def keep_router(location: BranchLocation, router: Router) -> None:
    """Keep the writers of a table, in the place of others with the same options."""
    global _kept  # noqa: PLW0603  # it stands for the process
    entry = (location, options.current(), router)
    _kept = (*(one for one in _kept if one[:2] != entry[:2]), entry)[-_MOST:]
