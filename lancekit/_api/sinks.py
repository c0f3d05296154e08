"""`stream_sink`, `mem_wal_sink`: batches of a stream into a dataset, or into its shards."""

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
from lancekit._operations.mem_wal.settings import WriterSettings, writer_settings
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

# ---- what is closed at the end of a `with`


class Closing(ABC):
    """A `with` closes it; after an error, too, whose place no error of closing takes.

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
    def close(self) -> None:
        """Be done."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.close()
            return
        with suppress(LancekitError):  # what went wrong first is what counts
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
    """Return what puts each batch of a stream into the shards of a table, without a version for it.

    For ``foreachBatch`` of Spark, and for any program that has batches: rows go to the shards that
    the table says, and are durable, and seen by readers, when the call returns.

    A batch that is given again, after a crash or by a restarted query, is put again.  With a
    primary key its rows take the place of themselves: each is there once.  Without one they are
    there twice; `stream_sink` knows batches by their numbers, and makes a version for each.

    Parameters
    ----------
    uri
        The dataset, for which `initialize_mem_wal` was called.  All rows go to one shard if that
        did not say which row belongs to which.
    query
        What the stream is called: cards name it.
    branch
        A branch to write to.
    storage_options
        As in `dataset`.
    timeout
        How long to wait while the memory of a shard's writer is full.
    claim_timeout
        How long to take a shard again that other writers take before the rows are in its log.

    Returns
    -------
    MemWalSink
        Call it with the rows of a batch, and with the batch's number if there is one.

    Raises
    ------
    InvalidArgumentError
        An argument that cannot be used, or the table has no MemWAL.
    DatasetNotFoundError, BranchNotFoundError
        There is no such table.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"id": [1]}, "memory://mem-wal-sink-example", primary_key="id")
    >>> ds.initialize_mem_wal(bucket_column="id", num_buckets=2)
    >>> sink = lk.mem_wal_sink("memory://mem-wal-sink-example", query="orders")
    >>> sum(shard.rows for shard in sink({"id": [2, 3, 4]}, batch=0).values())
    3
    >>> stream = orders.writeStream.foreachBatch(sink)  # doctest: +SKIP
    """
    if not query:
        raise InvalidArgumentError(
            "query is empty.", hint="Name the stream, for example query='orders'."
        )
    for name, wait in (("timeout", timeout), ("claim_timeout", claim_timeout)):
        check_wait(name, wait)
    # a worker that calls it over Connect has another working directory
    place = open_location(check_place(uri), storage_options).root.uri
    given = None if storage_options is None else dict(storage_options)
    return MemWalSink(place, query, branch, given, timeout, claim_timeout, options.current())


@checked_methods
class MemWalSink(Closing, Displayed):
    """Puts batches of rows into the shards of a table; `mem_wal_sink` makes it.

    Its writers are opened when the first row comes for their shard, and are of the process that
    calls it: sent to another one, it opens its own there, and takes the shards.
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
        #: all that another process needs; options are those of the process that made the sink
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
        """Where the table is."""
        return self._location.uri

    @property
    def branch(self) -> str | None:
        """The branch that is written to; ``None`` for main."""
        return self._location.branch

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the primary key, by which a row that is put again is there once."""
        return tuple(field.name for field in self._snapshot.manifest.schema.primary_key)

    @property
    def delivery(self) -> str:
        """``"exactly once"`` with a primary key, ``"at least once"`` without."""
        return "exactly once" if self.key else "at least once"

    @property
    def sharding(self) -> ShardingSpec:
        """What gives rows to shards."""
        return self._spec

    @property
    def batches(self) -> int:
        """How many batches this sink has put, those that were given again among them."""
        return self._batches

    @property
    def last_batch(self) -> int | None:
        """The number of the last one."""
        return self._last

    @property
    def shards(self) -> dict[str, Acknowledged]:
        """For each shard the rows that it acknowledged, its writer's epoch and its log's end."""
        return dict(self._shards)

    @checked
    def __call__(self, rows: object, batch: int | None = None) -> dict[str, Acknowledged]:
        """Put the rows of a batch; when this returns they are durable, and readers see them.

        Parameters
        ----------
        rows
            A Spark DataFrame, whose rows come to this process, or whatever `write_dataset` takes,
            with all columns.  Of rows of one key the last one counts.
        batch
            The batch's number, 0 or more.

        Returns
        -------
        dict
            For each shard what it acknowledged: ``rows``, the ``epoch`` of the writer and the last
            ``position`` of the log.

        Raises
        ------
        InvalidArgumentError
            The batch's number is negative.
        SchemaMismatchError, NullKeyError, ConstraintViolationError
            The rows do not fit the table.
        ShardError
            Some shards did not acknowledge their rows; give the batch again.
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
        """Make generations of what the writers have in memory, so that a merge finds all rows.

        The next batch opens new writers.  Another writer that took a shard has the rows from its
        log, and makes the generation.

        Raises
        ------
        FencedError
            The table or its logs ended; or another writer has a shard, and the table has
            ``durable_write=False``: rows may be in no log.
        LancekitError
            A generation could not be written; its rows are in the log.
        """
        with self._own_lock():
            router, self._router = self._router, None
            if router is not None:
                router.close()

    def _opened(self) -> Router:
        """Return writers for the newest version."""
        newest = self._newest()
        settings = _settings(newest)
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
        """Return the lock; after a fork, in which another thread may have held it, a new one."""
        if os.getpid() != self._process:
            self._process, self._lock, self._router = os.getpid(), threading.Lock(), None
        return self._lock

    def _newest(self) -> Snapshot:
        return resolve(self._location.on(None), Reference(branch=self._location.branch))


def _settings(snapshot: Snapshot) -> WriterSettings:
    return writer_settings(initialized(snapshot).defaults)


def _in_this_process(rows: object) -> object:
    if not is_spark_dataframe(rows):
        return rows
    from lancekit._spark.frames.runner import collected

    return collected(rows, what="a batch of a stream")


def _add(done: dict[str, Acknowledged], more: Mapping[str, Acknowledged]) -> None:
    for shard, one in more.items():
        before = done[shard].rows if shard in done else 0
        done[shard] = replace(one, rows=before + one.rows)


# ---- `stream_sink`: batches of a streaming query into a dataset, each exactly once

_MODES = ("append", "merge")


@checked
@takes(StreamArguments)
def stream_sink(arguments: StreamArguments) -> StreamSink:
    """Return a function for ``foreachBatch`` that writes each batch of a stream exactly once.

    A batch is one commit, which also notes its number in the config of the table, under
    ``lancekit.stream.<query>``.  A batch that Spark gives again, after a crash or a restart from
    the checkpoint, is known by that and passed over, whatever was written or cleaned up since.  If
    `lancekit.options.provenance` asks for it, its commit says where this function was called.

    Returns
    -------
    StreamSink
        Call it with a DataFrame and the batch's number; it returns whether it wrote the batch.

    Raises
    ------
    InvalidArgumentError
        An argument that cannot be used.

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
            f"query is {query!r}.", hint="Name the streaming query, for example query='clicks'."
        )
    check_choice("mode", mode, _MODES)
    keys = check_names("on", arguments.on)
    if keys and mode != "merge":
        raise InvalidArgumentError("on= is for a merge.", hint='Pass mode="merge" with it.')
    from lancekit._spark.stream_sink import StreamSink

    options = arguments.storage_options
    return StreamSink(
        # a worker that calls it over Connect has another working directory
        uri=open_location(check_place(uri), options).root.uri,
        query=query,
        settings=size_settings(
            arguments,
            "append",
            stable_row_ids=arguments.enable_stable_row_ids,
            message=arguments.commit_message,
            # batches come in a thread, or over Connect in a process, that knows no cell
            properties=dict(recorded(arguments.transaction_properties or {})),
        ),
        storage_options=None if options is None else dict(options),
        branch=arguments.branch,
        merge=mode == "merge",
        on=keys,
    )
