"""The part of a handle that makes a table one with shards, and tells of these."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._arguments.checks import check_items, check_wait
from lancekit._arguments.record import takes
from lancekit._arguments.write import MemWalArguments, ShardWriterArguments
from lancekit._checked import checked_methods
from lancekit._defaults import CLAIM_TIMEOUT, PUT_TIMEOUT
from lancekit._legible import shown
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import IndexExistsError, InvalidArgumentError, SchemaMismatchError, ShardError

if TYPE_CHECKING:
    from lancekit._api.lsm_scanner import LsmScanner
    from lancekit._api.shard_writer import ShardWriter
    from lancekit._format.mem_wal.details import ShardingSpec
    from lancekit._operations.mem_wal.router import Acknowledged, Router
    from lancekit._operations.mem_wal.shards import Shards


@checked_methods
class MemWal(Handle):
    """Write-ahead logs: how rows are given to shards, and which shards there are."""

    @takes(MemWalArguments)
    def initialize_mem_wal(self, arguments: MemWalArguments) -> None:
        """Let the table have write-ahead logs, once; the handle moves.

        Rows are given to shards by their bucket, by the value of a column, or all to one; without
        any of these by whoever opens a writer. A primary key is needed for rows to take the place
        of others; its columns are of integers, bool, text or binary.

        The settings of writers are the defaults of those that are opened later.

        Raises
        ------
        IndexExistsError
            The table may have logs already.
        IndexNotFoundError, ColumnNotFoundError
            There is no index, or no column, of a name.
        InvalidArgumentError, UnsupportedTypeError
            More than one way to shards was given, or a number, a column or an index that cannot
            be used.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://mem-wal-example", primary_key="id")
        >>> ds.initialize_mem_wal(bucket_column="id", num_buckets=4)
        >>> ds.mem_wal_index_details()["num_shards"]
        4
        """
        from lancekit._operations.mem_wal.initialize import Sharding, initialize
        from lancekit._operations.mem_wal.settings import given_settings

        settings = given_settings(arguments.given)
        sharding = Sharding(
            bucket_column=arguments.bucket_column,
            num_buckets=arguments.num_buckets,
            identity_column=arguments.identity_column,
            unsharded=arguments.unsharded,
        )
        maintained = arguments.maintained_indexes
        if maintained is not None:
            maintained = check_items("maintained_indexes", maintained, str, "names")
        self._move(lambda read: (initialize(read, sharding, maintained, settings), None))

    def mem_wal_index_details(self) -> dict[str, Any] | None:
        """Return what the table says of its write-ahead logs, ``None`` if it may not have any.

        Returns
        -------
        dict or None
            ``num_shards``, ``maintained_indexes``, ``maintain_all_indexes``,
            ``writer_config_defaults`` and ``sharding_specs``.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://mem-wal-details-example")
        >>> ds.mem_wal_index_details() is None
        True
        """
        from lancekit._format.mem_wal.details import details_of

        details = details_of(self._snapshot.indices)
        if details is None:
            return None
        return {
            "num_shards": details.num_shards,
            "maintained_indexes": [*details.maintained],
            "maintain_all_indexes": bool(details.maintain_all),
            "writer_config_defaults": dict(details.defaults),
            "sharding_specs": [*map(_told, details.specs)],
        }

    def mem_wal_shards(self) -> Shards:
        """Return which shards there are, and how far each is; pylance has nothing of the kind.

        They are those that there are now, whatever the handle's version; what is merged is told of
        that version.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://mem-wal-shards-example")
        >>> len(ds.mem_wal_shards())
        0
        """
        from lancekit._operations.mem_wal.shards import shard_infos
        from lancekit._operations.unmerged.counts import waiting_rows

        found = shard_infos(self._snapshot)
        found.waiting = replace(waiting_rows(self._snapshot), refused=self._merge_refused)
        return found

    def lsm_scanner(self) -> LsmScanner:
        """Set up a scan of the newest version and of what the shards hold that it does not.

        Each run reads what there is then: the table's newest version, wherever the handle is, its
        shards' generations that are not merged, and their logs, whether or not somebody writes to
        them.

        Raises
        ------
        InvalidArgumentError
            The handle is pinned to a version, in which no rows of shards are.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1, 2]}, "memory://lsm-scanner", primary_key="id")
        >>> ds.lsm_scanner().project(["id"]).limit(1).count_rows()
        1
        """
        from lancekit._api.lsm_scanner import LsmScanner
        from lancekit._operations.mem_wal.reader.sources import newest_read_set

        self._check_shards()
        return LsmScanner(self._snapshot, partial(newest_read_set, self._location))

    _router: Router | None = None

    @takes(ShardWriterArguments)
    def mem_wal_writer(self, arguments: ShardWriterArguments) -> ShardWriter:
        """Open the writer of a shard, whose writer before cannot write any more.

        Rows have the columns of the newest version, whichever the handle is at.  What is not said
        here is as the table says (`initialize_mem_wal`), or else as pylance has it.

        Raises
        ------
        InvalidArgumentError
            `initialize_mem_wal` was not called, the id is no UUID, or a setting cannot be used.
        FencedError
            Another writer took the shard at the same time.
        ShardError
            The shard is sealed.
        CorruptFileError
            Rows in its log are missing or damaged that were acknowledged.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://mem-wal-writing-example", primary_key="id")
        >>> ds.initialize_mem_wal()
        >>> with ds.mem_wal_writer("00000000-0000-0000-0000-000000000001") as writer:
        ...     writer.put({"id": [2, 3]})
        """
        from lancekit._api.shard_writer import ShardWriter
        from lancekit._operations.mem_wal.initialize import initialized
        from lancekit._operations.mem_wal.open_writer import open_writer
        from lancekit._operations.mem_wal.settings import given_settings, writer_settings

        given = given_settings(arguments.given)
        self._check_movable()
        shard = _shard(arguments.shard_id)
        newest = latest_snapshot(self._location)
        settings = writer_settings(initialized(newest).defaults, given)
        return ShardWriter(newest, shard, *open_writer(newest, shard, settings))

    def mem_wal_upsert(
        self,
        data: object,
        *,
        schema: pa.Schema | None = None,
        flush: bool = False,
        timeout: timedelta = PUT_TIMEOUT,
        claim_timeout: timedelta = CLAIM_TIMEOUT,
    ) -> dict[str, Acknowledged]:
        """Put rows into the shards that they belong to, as the table says.

        A table that does not say it has one shard for all rows; one with a primary key and without
        a MemWAL is initialized so first, in a version of its own (`initialize_mem_wal`).

        A writer is opened for each shard when the first row comes for it.  The process keeps the
        writers of the last 8 tables, for all handles that are used with the same `lk.options`.
        Any number of processes may call this at once: they take turns. A shard that another writer
        took is taken back once that one had its turn.

        Parameters
        ----------
        data, schema
            Rows, as `ShardWriter.put` takes them.
        flush
            Make generations of all that the writers have, and close them; the next call opens new
            ones.  Another writer that took a shard has the rows from its log, and makes the
            generation.
        timeout
            How long to wait while the memory of a shard's writer is full.
        claim_timeout
            How long to take a shard again that other writers take before the rows are in its log.

        Returns
        -------
        dict
            For each shard what it acknowledged: ``rows``, the ``epoch`` of the writer and the last
            ``position`` of the log.

        Raises
        ------
        InvalidArgumentError
            The table has neither a MemWAL nor a primary key, or a timeout is negative.
        SchemaMismatchError, NullKeyError, ConstraintViolationError
            The rows do not fit the table; nothing is written.
        ShardError
            Some shards did not acknowledge their rows; ``context`` has ``acknowledged``, rows by
            shard, and ``failed``, errors by shard.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://upsert-example", primary_key="id")
        >>> sum(shard.rows for shard in ds.mem_wal_upsert({"id": [2, 3, 4]}).values())
        3
        """
        from lancekit._operations.mem_wal.router import columns_changed
        from lancekit._operations.mem_wal.writer_messages import put_begun

        for name, wait in (("timeout", timeout), ("claim_timeout", claim_timeout)):
            check_wait(name, wait)
        put_begun()
        self._check_movable()
        router, rows = self._cast(self._own_router(), data, schema)
        done: dict[UUID, Acknowledged] = {}
        while True:
            try:
                done = router.put(rows, timeout, claim_timeout, done)
                break
            except ShardError as error:
                if not columns_changed(error):
                    raise
                done = {UUID(shard): one for shard, one in error.context["shards"].items()}
                try:
                    router, rows = self._cast(self._own_router(router), rows)
                except SchemaMismatchError as lacking:
                    # the error of the shards says what other shards acknowledged
                    raise (error if done else lacking) from None
        if flush:
            router.close()
        return {str(shard): one for shard, one in done.items()}

    def _cast(
        self, router: Router, data: object, schema: pa.Schema | None = None
    ) -> tuple[Router, pa.Table]:
        """Return rows as the table has them, and the writers that take them.

        The rows may have the columns of a newer version than the writers have.
        """
        try:
            return router, router.cast(data, schema)
        except SchemaMismatchError:
            newer = self._own_router(router)
            if newer is router:
                raise
            return newer, newer.cast(data, schema)

    def _own_router(self, stale: Router | None = None) -> Router:
        """Return the writers that the process keeps; new ones after a fork or new columns.

        Those that are `stale` are replaced if the newest version has other columns.
        """
        from lancekit._commit.protocol import check_not_replaced
        from lancekit._format.mem_wal.names import mem_wal_entry
        from lancekit._operations.mem_wal.initialize import initialized
        from lancekit._operations.mem_wal.router import Router, cache_router, cached_router
        from lancekit._operations.mem_wal.settings import writer_settings

        # of threads that come first at once each would make one, and these take shards away; after
        # a fork nobody releases a lock that another thread held
        with self.__dict__.setdefault(f"_making_{os.getpid()}", threading.Lock()):
            router, now = self._router, self._snapshot
            if router is not None and not router.is_of_this_process:
                router = None
            is_first = router is None
            if is_first:
                check_not_replaced(now)  # the rows are meant for the table of the handle
                router = self._router = cached_router(self._location, now)
            newer = router is not None and now.version > router.version
            if router is not None and router is stale and not router.ended:
                newer, now = True, latest_snapshot(self._location)
            if router is not None and (router.ended or (newer and not router.fits(now))):
                router.retire()
                router = None
            if router is None:
                newest = latest_snapshot(self._location)
                if newest.version < self._snapshot.version:
                    raise InvalidArgumentError(
                        f"{self.uri} is another table now: its newest version is {newest.version}, "
                        f"and this handle is at version {self._snapshot.version}.",
                        hint=f"Open the table that is there now: {self._location.code}.",
                        uri=self.uri,
                    )
                if not is_first:  # else it was looked at just now
                    check_not_replaced(self._snapshot)
                if mem_wal_entry(newest.indices) is None and newest.manifest.schema.primary_key:
                    newest = self._initialized()
                router = Router(newest, writer_settings(initialized(newest).defaults))
                self._router = router
                cache_router(self._location, router)
            return router

    def _initialized(self) -> Snapshot:
        """Return the newest version, which may have logs now; the handle moves to it."""
        from lancekit._operations.mem_wal.initialize import initialize

        with suppress(IndexExistsError):  # another process was first
            # the handle's own version may have logs that the newest one has no more
            newest = latest_snapshot(self._location)
            self._move(lambda _: (initialize(newest, None), None))
        return latest_snapshot(self._location)


def _told(spec: ShardingSpec) -> dict[str, object]:
    return {
        "spec_id": spec.spec_id,
        "fields": [
            {
                "field_id": field.field_id,
                "source_ids": [*field.source_ids],
                "transform": field.transform,
                "expression": field.expression,
                "result_type": field.result_type,
                "parameters": dict(field.parameters),
            }
            for field in spec.fields
        ],
    }


def _shard(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise InvalidArgumentError(
            f"shard_id is {shown(text)}, which is no UUID.",
            hint="Pass one as text: str(uuid.uuid4()) for a new shard.",
            argument="shard_id",
        ) from error
