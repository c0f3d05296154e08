"""The part of a dataset handle that sets up write-ahead logs, and opens shard writers."""

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
    from lancekit._api.answer import Answer
    from lancekit._api.lsm_scanner import LsmScanner
    from lancekit._api.shard_writer import ShardWriter
    from lancekit._format.mem_wal.details import ShardingSpec
    from lancekit._operations.mem_wal.router import Acknowledged, Router
    from lancekit._operations.mem_wal.shards import Shards


@checked_methods
class MemWal(Handle):
    """Write-ahead logs: initialization, sharding, shard writers and scans."""

    @takes(MemWalArguments)
    def initialize_mem_wal(self, arguments: MemWalArguments) -> Answer:
        """Enable write-ahead logs for the table, once; the handle moves.

        Rows are assigned to shards by bucket, by the value of a column, or all to one shard.
        Without a sharding spec, the caller that opens a writer picks the shard.  Upserts need a
        primary key, with columns of integers, bool, text or binary.

        The writer settings are the defaults of later writers.

        Returns
        -------
        Answer
            The change that was made.

        Raises
        ------
        IndexExistsError
            The table has write-ahead logs already.
        IndexNotFoundError, ColumnNotFoundError
            A named index or column does not exist.
        InvalidArgumentError, UnsupportedTypeError
            More than one sharding was given, a number is out of range, or a column or index is not
            supported.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://mem-wal-example", primary_key="id")
        >>> _ = ds.initialize_mem_wal(bucket_column="id", num_buckets=4)
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
        return self._done(
            "initialize_mem_wal", lambda read: initialize(read, sharding, maintained, settings)
        )

    def mem_wal_index_details(self) -> dict[str, Any] | None:
        """Return the table's write-ahead log settings, or ``None`` if it has no write-ahead logs.

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
            "sharding_specs": [*map(_spec_as_dict, details.specs)],
        }

    def mem_wal_shards(self) -> Shards:
        """Return the shards that exist now, with the merge progress of the handle's version.

        pylance has no counterpart.

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
        """Set up a scan of the newest version together with the unmerged rows of the shards.

        Each run reads the state at its start, whatever the handle's version.  It reads the table's
        newest version, the unmerged generations of its shards, and their logs, even without a
        writer.

        Raises
        ------
        InvalidArgumentError
            The handle is pinned to a version, which has no rows of shards.

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
        """Open the writer of a shard, and fence its previous writer.

        Rows have the columns of the newest version, whatever the handle's version.  Settings that
        are not passed come from the table (`initialize_mem_wal`), or are pylance's defaults.

        Returns
        -------
        ShardWriter
            The writer; close it, or use it in a ``with`` block.

        Raises
        ------
        InvalidArgumentError
            `initialize_mem_wal` was not called, the id is no UUID, or a setting is invalid.
        FencedError
            Another writer opened the shard at the same time.
        ShardError
            The shard is sealed.
        CorruptFileError
            Acknowledged rows in the shard's log are missing or damaged.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://mem-wal-writing-example", primary_key="id")
        >>> _ = ds.initialize_mem_wal()
        >>> with ds.mem_wal_writer("00000000-0000-0000-0000-000000000001") as writer:
        ...     _ = writer.put({"id": [2, 3]})
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
        """Put rows into their shards, by the table's sharding spec.

        A table without a sharding spec has one shard for all rows.  A table that has a primary key
        and no MemWAL gets one first, in its own version (`initialize_mem_wal`).

        A shard's writer is opened when its first row comes.  The process keeps the writers of the
        last 8 tables, for all handles that are used with the same `lk.options`.  Any number of
        processes can call this method at the same time: they take turns.  A shard that another
        writer took is taken back after that writer's turn.

        Parameters
        ----------
        data, schema
            The rows, as in `ShardWriter.put`.
        flush
            Flush all rows of the writers into generations, and close the writers.  The next call
            opens new ones.  Another writer that took a shard flushes the rows of its log.
        timeout
            The longest wait while the memory of a shard's writer is full.
        claim_timeout
            How long to keep reclaiming a shard that other writers take before the rows are in its
            log.

        Returns
        -------
        dict
            For each shard, the acknowledged ``rows``, the ``epoch`` of the writer and the last
            ``position`` of the log.

        Raises
        ------
        InvalidArgumentError
            The table has neither a MemWAL nor a primary key, or a timeout is negative.
        SchemaMismatchError, NullKeyError, ConstraintViolationError
            The rows do not fit the table; nothing is written.
        ShardError
            Some shards did not acknowledge their rows.  ``context`` has ``acknowledged``, rows by
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
                    # the shards' error has the acknowledgements of the other shards
                    raise (error if done else lacking) from None
        if flush:
            router.close()
        return {str(shard): one for shard, one in done.items()}

    def _cast(
        self, router: Router, data: object, schema: pa.Schema | None = None
    ) -> tuple[Router, pa.Table]:
        """Cast rows to the table's columns, and return them with the router that accepts them.

        If the rows have the columns of a newer version than the router, a new router replaces it.
        """
        try:
            return router, router.cast(data, schema)
        except SchemaMismatchError:
            newer = self._own_router(router)
            if newer is router:
                raise
            return newer, newer.cast(data, schema)

    def _own_router(self, stale: Router | None = None) -> Router:
        """Return this process's router, a new one after a fork or if the columns have changed.

        A `stale` router is replaced if the newest version has other columns.
        """
        from lancekit._commit.protocol import check_not_replaced
        from lancekit._format.mem_wal.names import mem_wal_entry
        from lancekit._operations.mem_wal.initialize import initialized
        from lancekit._operations.mem_wal.router import Router, cache_router, cached_router
        from lancekit._operations.mem_wal.settings import writer_settings

        # without the lock, several first threads would each make a router, and take shards from
        # each other; it is per process, because a fork never releases the lock of another thread
        with self.__dict__.setdefault(f"_making_{os.getpid()}", threading.Lock()):
            router, now = self._router, self._snapshot
            if router is not None and not router.is_of_this_process:
                router = None
            is_first = router is None
            if is_first:
                check_not_replaced(now)  # the rows are for the handle's table
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
                        f"{self.uri} was replaced by another table: its newest version is "
                        f"{newest.version}, this handle has version {self._snapshot.version}.",
                        hint=f"Open the new table: {self._location.code}.",
                        uri=self.uri,
                    )
                if not is_first:  # otherwise it was checked above
                    check_not_replaced(self._snapshot)
                if mem_wal_entry(newest.indices) is None and newest.manifest.schema.primary_key:
                    newest = self._initialized()
                router = Router(newest, writer_settings(initialized(newest).defaults))
                self._router = router
                cache_router(self._location, router)
            return router

    def _initialized(self) -> Snapshot:
        """Initialize write-ahead logs, move the handle, and return the newest version."""
        from lancekit._operations.mem_wal.initialize import initialize

        with suppress(IndexExistsError):  # another process was first
            # a newer version may have dropped the logs of the handle's version
            newest = latest_snapshot(self._location)
            self._move(lambda _: (initialize(newest, None), None))
        return latest_snapshot(self._location)


def _spec_as_dict(spec: ShardingSpec) -> dict[str, object]:
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
            f"shard_id must be a UUID, got {shown(text)}.",
            hint="Pass one as text: str(uuid.uuid4()) for a new shard.",
            argument="shard_id",
        ) from error
