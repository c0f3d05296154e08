"""Sinks for streams: `stream_sink` writes batches to a dataset, `mem_wal_sink` to its shards."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from lancekit._api.write_settings import size_settings
from lancekit._arguments.checks import check_count, check_names, check_place, check_wait
from lancekit._arguments.record import takes
from lancekit._arguments.write import StreamArguments
from lancekit._checked import checked, checked_methods
from lancekit._choice import check_choice
from lancekit._defaults import CLAIM_TIMEOUT, PUT_TIMEOUT
from lancekit._display import Displayed
from lancekit._format.mem_wal.details import ShardingSpec
from lancekit._operations.mem_wal.initialize import initialized
from lancekit._operations.mem_wal.router import Acknowledged, Router, sharding_of
from lancekit._operations.mem_wal.settings import writer_settings
from lancekit._operations.mem_wal.writer_messages import put_begun
from lancekit._pipeline.inputs import is_spark_dataframe
from lancekit._provenance import recorded
from lancekit._versions.branch_location import BranchLocation, open_location
from lancekit._versions.references import Reference, resolve
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, LancekitError, ShardError
from lancekit.options import Options, options

if TYPE_CHECKING:
    from lancekit._spark.stream_sink import StreamSink

# ---- the common base of context managers


class Closing(ABC):
    """Base class of context managers that call `close`, without hiding an earlier error.

    Examples
    --------
    >>> class Door(Closing):
    ...     def close(self):
    ...         print("closed")
    >>> with Door():
    ...     pass
    closed
    """

    @abstractmethod
    def close(self) -> object:
        """Release all resources."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.close()
            return
        with suppress(LancekitError):  # keep the first error
            self.close()


@checked
def mem_wal_sink(
    uri: str | os.PathLike[str],
    query: str,
    *,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    timeout: timedelta = PUT_TIMEOUT,
    claim_timeout: timedelta = CLAIM_TIMEOUT,
) -> MemWalSink:
    """Return a sink that puts batches of a stream into the shards of a table, without a commit.

    It is for ``foreachBatch`` of Spark, and for any program with batches.  Rows go to shards by the
    table's sharding spec.  On return they are durable, and readers see them.

    A batch that is repeated, after a crash or by a restarted query, is put again.  With a primary
    key its rows replace themselves, so each exists once.  Without one they are duplicated.
    `stream_sink` recognises batches by number instead, and commits a version for each.

    Parameters
    ----------
    uri
        The dataset, after `initialize_mem_wal`.  Without a sharding spec all rows go to one shard.
    query
        The name of the stream; cards show it.
    branch
        The branch to write to.
    storage_options
        As in `dataset`.
    timeout
        The longest wait while the memory of a shard's writer is full.
    claim_timeout
        How long to keep reclaiming a shard that other writers take before the rows are in its log.

    Returns
    -------
    MemWalSink
        Call it with the rows of a batch, and the batch number if known.

    Raises
    ------
    InvalidArgumentError
        An argument is invalid, or the table has no MemWAL.
    DatasetNotFoundError, BranchNotFoundError
        The table or branch does not exist.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"id": [1]}, "memory://mem-wal-sink-example", primary_key="id")
    >>> _ = ds.initialize_mem_wal(bucket_column="id", num_buckets=2)
    >>> sink = lk.mem_wal_sink("memory://mem-wal-sink-example", query="orders")
    >>> sum(shard.rows for shard in sink({"id": [2, 3, 4]}, batch=0).values())
    3
    >>> stream = orders.writeStream.foreachBatch(sink)  # doctest: +SKIP
    """
    if not query:
        raise InvalidArgumentError(
            "query must be the name of the stream, got an empty text.",
            hint="For example query='orders'.",
        )
    for name, wait in (("timeout", timeout), ("claim_timeout", claim_timeout)):
        check_wait(name, wait)
    # over Connect, a worker with another working directory calls the sink
    place = open_location(check_place(uri), storage_options).root.uri
    given = None if storage_options is None else dict(storage_options)
    return MemWalSink(place, query, branch, given, timeout, claim_timeout, options.current())


@checked_methods
class MemWalSink(Closing, Displayed):
    """Puts batches of rows into the shards of a table; `mem_wal_sink` makes it.

    A shard's writer is opened for its first row, and belongs to the calling process.  After a
    transfer to another process, the sink opens its own writers there, and takes the shards.
    """

    def __init__(
        self,
        uri: str,
        query: str,
        branch: str | None,
        storage_options: Mapping[str, str] | None,
        timeout: timedelta,
        claim_timeout: timedelta,
        values: Options,
    ) -> None:
        #: the state for another process, with the options of the process that made the sink
        self._state = (uri, query, branch, storage_options, timeout, claim_timeout, values)
        self._timeout, self._claim_timeout, self._values = timeout, claim_timeout, values
        self._location: BranchLocation = open_location(uri, storage_options).on(branch)
        self._process, self._lock = os.getpid(), threading.Lock()
        self._router: Router | None = None
        self._snapshot = self._newest()
        self._spec = sharding_of(self._snapshot)
        self._batches = 0
        self._last: int | None = None
        self._shards: dict[str, Acknowledged] = {}
        #: The name of the stream.
        self.query = query

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._state

    def _plain(self) -> str:
        return f"MemWalSink({self.query!r}, {self.delivery})"

    @property
    def uri(self) -> str:
        """The path or URI of the table."""
        return self._location.uri

    @property
    def branch(self) -> str | None:
        """The branch that is written to; ``None`` for main."""
        return self._location.branch

    @property
    def key(self) -> tuple[str, ...]:
        """The primary-key columns; with them a repeated row exists only once."""
        return tuple(field.name for field in self._snapshot.manifest.schema.primary_key)

    @property
    def delivery(self) -> str:
        """``"exactly once"`` with a primary key, ``"at least once"`` without."""
        return "exactly once" if self.key else "at least once"

    @property
    def sharding(self) -> ShardingSpec:
        """The sharding spec."""
        return self._spec

    @property
    def batches(self) -> int:
        """The number of batches that this sink has put, including repeated ones."""
        return self._batches

    @property
    def last_batch(self) -> int | None:
        """The number of the last batch; ``None`` if it had none."""
        return self._last

    @property
    def shards(self) -> dict[str, Acknowledged]:
        """The acknowledged rows, the writer's epoch and the last log position of each shard."""
        return dict(self._shards)

    @checked
    def __call__(self, rows: object, batch: int | None = None) -> dict[str, Acknowledged]:
        """Put the rows of a batch; on return they are durable, and readers see them.

        Parameters
        ----------
        rows
            A Spark DataFrame, whose rows are collected in this process, or any input of
            `write_dataset`, with all columns.  Of rows with the same key the last one wins.
        batch
            The number of the batch, 0 or more.

        Returns
        -------
        dict
            For each shard, the acknowledged ``rows``, the ``epoch`` of the writer and the last
            ``position`` of the log.

        Raises
        ------
        InvalidArgumentError
            The batch number is negative.
        SchemaMismatchError, NullKeyError, ConstraintViolationError
            The rows do not fit the table.
        ShardError
            Some shards did not acknowledge their rows; put the batch again.
        """
        if batch is not None:
            check_count("batch", batch)
        put_begun()
        with options(**asdict(self._values)):
            router = self._opened()
            table = router.cast(_in_this_process(rows))
            done: dict[str, Acknowledged] = {}
            try:
                put = router.put(table, self._timeout, self._claim_timeout)
                done = {str(shard): one for shard, one in put.items()}
            except ShardError as error:
                done = error.context.get("shards", {})
                raise
            finally:
                with self._own_lock():
                    _add(self._shards, done)
        with self._own_lock():
            self._batches += 1
            self._last = batch
        return done

    def close(self) -> None:
        """Flush the writers' memory into generations, so that a merge finds all rows.

        The next batch opens new writers.  A writer that took a shard flushes the rows of its log.

        Raises
        ------
        FencedError
            The table or its logs were removed.  Or another writer has a shard, and the table has
            ``durable_write=False``: rows may be in no log.
        LancekitError
            A generation could not be written; its rows are in the log.
        """
        with self._own_lock():
            router, self._router = self._router, None
            if router is not None:
                router.close()

    def _opened(self) -> Router:
        """Return the writers for the newest version."""
        newest = self._newest()
        settings = writer_settings(initialized(newest).defaults)
        with self._own_lock():
            router = self._router
            if router is not None and not router.fits(newest):
                router.retire()
                router = None
            if router is None:
                router = self._router = Router(newest, settings)
            self._snapshot, self._spec = newest, sharding_of(newest)
            return router

    def _own_lock(self) -> threading.Lock:
        """Return the lock; a new one after a fork, in which another thread may have held it."""
        if os.getpid() != self._process:
            self._process, self._lock, self._router = os.getpid(), threading.Lock(), None
        return self._lock

    def _newest(self) -> Snapshot:
        return resolve(self._location.on(None), Reference(branch=self._location.branch))


def _in_this_process(rows: object) -> object:
    if not is_spark_dataframe(rows):
        return rows
    from lancekit._spark.frames.runner import collected

    return collected(rows, what="a batch of a stream")


def _add(done: dict[str, Acknowledged], more: Mapping[str, Acknowledged]) -> None:
    for shard, one in more.items():
        before = done[shard].rows if shard in done else 0
        done[shard] = replace(one, rows=before + one.rows)


# ---- `stream_sink`: writes each batch of a streaming query exactly once

_MODES = ("append", "merge")


@checked
@takes(StreamArguments)
def stream_sink(arguments: StreamArguments) -> StreamSink:
    """Return a function for ``foreachBatch`` that writes each batch of a stream exactly once.

    Each batch makes one commit, which also records its number in the table's config, under
    ``lancekit.stream.<query>``.  If Spark repeats a batch, after a crash or a restart from the
    checkpoint, the record identifies it, and the batch is skipped.  Later writes and cleanups do
    not matter.  With `lancekit.options.provenance` the commit records the place of this call.

    Returns
    -------
    StreamSink
        Call it with a DataFrame and the batch number; it returns True if it wrote the batch.

    Raises
    ------
    InvalidArgumentError
        An argument is invalid.

    Examples
    --------
    >>> sink = stream_sink("events.lance", query="clicks")
    >>> sink.query
    'clicks'
    >>> stream = clicks.writeStream.foreachBatch(sink)  # doctest: +SKIP
    >>> stream.option("checkpointLocation", "clicks.checkpoint").start()  # doctest: +SKIP
    """
    query, mode, uri = arguments.query, arguments.mode, arguments.uri
    if not query:
        raise InvalidArgumentError(
            f"query must be the name of the streaming query, got {query!r}.",
            hint="For example query='clicks'.",
        )
    check_choice("mode", mode, _MODES)
    keys = check_names("on", arguments.on)
    if keys and mode != "merge":
        raise InvalidArgumentError("on= is only for merges.", hint='Pass mode="merge" too.')
    from lancekit._spark.stream_sink import StreamSink

    options = arguments.storage_options
    return StreamSink(
        # over Connect, a worker with another working directory calls the sink
        uri=open_location(check_place(uri), options).root.uri,
        query=query,
        settings=size_settings(
            arguments,
            "append",
            stable_row_ids=arguments.enable_stable_row_ids,
            message=arguments.commit_message,
            # batches run in a thread or a Connect process without the notebook cell
            properties=dict(recorded(arguments.transaction_properties or {})),
        ),
        storage_options=None if options is None else dict(options),
        branch=arguments.branch,
        merge=mode == "merge",
        on=keys,
    )
