"""The public writer of a shard, and the evaluation of sharding specs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, NoReturn
from uuid import UUID

import pyarrow as pa

from lancekit._api.answer import Answer
from lancekit._api.lance_schema import LanceSchema
from lancekit._api.lsm_scanner import LsmScanner, ShardSnapshot
from lancekit._api.sinks import Closing
from lancekit._arguments.checks import check_items, check_wait
from lancekit._checked import checked, checked_methods
from lancekit._defaults import PUT_TIMEOUT
from lancekit._display import Displayed
from lancekit._format.mem_wal.details import ShardingField, ShardingSpec
from lancekit._format.mem_wal.sharding import shard_values
from lancekit._legible import shown
from lancekit._operations.mem_wal.reader.sources import ReadSet, newest_read_set
from lancekit._operations.mem_wal.settings import Memory
from lancekit._operations.mem_wal.shares import ShardRows
from lancekit._operations.mem_wal.writer import Writer
from lancekit._operations.mem_wal.writer_messages import put_begun
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, InvalidTypeError, SchemaMismatchError


@checked_methods
class ShardWriter(Closing, Displayed):
    """Writes to one shard; `mem_wal_writer` of a dataset opens it.

    Several threads can share a writer: their puts during a log write go into the next log entry
    together.  Opening a second writer of the shard, anywhere, fences this one.  The new writer
    replays everything that this one acknowledged.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"id": [1]}, "memory://writer-example", primary_key="id")
    >>> _ = ds.initialize_mem_wal()
    >>> with ds.mem_wal_writer("00000000-0000-0000-0000-000000000001") as writer:
    ...     _ = writer.put({"id": [2, 3]}), writer.delete({"id": [2]})
    >>> writer.stats()["put_count"]
    2
    """

    def __init__(self, snapshot: Snapshot, shard: UUID, writer: Writer, rows: ShardRows) -> None:
        self._snapshot = snapshot
        self._shard = shard
        self._writer = writer
        self._rows = rows

    def _plain(self) -> str:
        return f"ShardWriter({str(self._shard)!r}, {self._writer.state})"

    @property
    def shard_id(self) -> str:
        """The shard's UUID."""
        return str(self._shard)

    @property
    def state(self) -> str:
        """``"open"``, ``"closed"``, or ``"failed: "`` and the error that made the writer fail."""
        return self._writer.state

    @property
    def epoch(self) -> int:
        """The fencing epoch: the number of times that the shard was claimed.

        Puts of writers with an earlier epoch are refused.
        """
        return self._writer.epoch

    @property
    def position(self) -> int:
        """The last written entry of the log; readers see all entries up to it."""
        return self._writer.position

    def memory(self) -> Memory:
        """Return the memory use: of the memtable, of frozen memtables, and of waiting puts."""
        return self._writer.memory()

    def put(
        self, data: object, *, schema: pa.Schema | None = None, timeout: timedelta = PUT_TIMEOUT
    ) -> Answer:
        """Write rows, all or none; with a primary key, each replaces the row of its key.

        On return the rows are on disk and visible to readers, except with ``durable_write=False``.

        Parameters
        ----------
        data
            Rows in any form that `write_dataset` takes, except Spark, with all columns.
        schema
            The columns and types of the rows, if ``data`` has none.
        timeout
            The longest wait while memory is full.

        Returns
        -------
        Answer
            The change that was made.

        Raises
        ------
        SchemaMismatchError
            The rows do not fit the table, or the table has other columns or new constraints since
            the writer was opened.  Then open another writer; this one can still be closed.
        NullKeyError
            A key has a null.
        InvalidArgumentError
            There are more rows than ``max_memtable_rows``, or they belong to another shard.
        ConstraintViolationError
            Rows violate a row constraint.
        FencedError
            Another writer has the shard; the rows are not written.
        CommitUnknownError
            The storage failed: it is unknown if the rows are written.
        ShardError
            The writer is closed or failed, or memory stayed full for the timeout.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1], "v": [0]}, "memory://put-example", primary_key="id")
        >>> _ = ds.initialize_mem_wal()
        >>> with ds.mem_wal_writer("00000000-0000-0000-0000-000000000001") as writer:
        ...     writer.put({"id": [1, 2], "v": [5, 6]})
        put 2 rows into shard 00000000-0000-0000-0000-000000000001
        >>> ds.lsm_scanner().count_rows()
        2
        """
        return self._put("put", self._rows.live, data, schema, timeout)

    def delete(
        self, keys: object, *, schema: pa.Schema | None = None, timeout: timedelta = PUT_TIMEOUT
    ) -> Answer:
        """Delete rows by primary key; missing keys are no error.

        Parameters
        ----------
        keys
            The key columns; other columns are ignored.
        schema, timeout
            As in `put`.

        Returns
        -------
        Answer
            The change that was made.

        Raises
        ------
        InvalidArgumentError
            The table has no primary key; or as in `put`, like all other errors.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1, 2]}, "memory://shard-delete-example", primary_key="id")
        >>> _ = ds.initialize_mem_wal()
        >>> with ds.mem_wal_writer("00000000-0000-0000-0000-000000000001") as writer:
        ...     _ = writer.delete({"id": [1]})
        >>> ds.lsm_scanner().to_table()["id"].to_pylist()
        [2]
        """
        return self._put("delete", self._rows.tombstones, keys, schema, timeout)

    def _put(
        self,
        call: str,
        form: Callable[[object, pa.Schema | None], list[pa.RecordBatch]],
        data: object,
        schema: pa.Schema | None,
        timeout: timedelta,
    ) -> Answer:
        put_begun()
        try:
            batches = form(data, schema)
        except SchemaMismatchError:
            self._writer.check_rows(look=True)  # the table may have new columns
            raise
        self._writer.put(batches, check_wait("timeout", timeout))
        return self._done(call, sum(batch.num_rows for batch in batches))

    def _done(self, call: str, rows: int) -> Answer:
        at, shard = self._snapshot, {"shard": self.shard_id, "rows": rows}
        return Answer(
            call=f"writer.{call}", version=at.version, branch=at.location.name, _given=shard
        )

    def close(self) -> Answer:
        """Flush memory into a generation, and accept no more rows; a second call does nothing.

        Raises
        ------
        FencedError
            Another writer has the shard, and finds the unflushed rows in the log.
        LancekitError
            The generation could not be written; its rows are in the log for the next writer.
        """
        self._writer.close()
        return self._done("close", self._writer.stats.memtable_flush_rows)

    def stats(self) -> dict[str, int]:
        """Return counts and times of puts, log entries and generations.

        Returns
        -------
        dict
            ``put_count``, ``put_time_ms``, ``wal_flush_count``, ``wal_flush_bytes``,
            ``wal_flush_time_ms``, ``memtable_flush_count``, ``memtable_flush_rows``,
            ``memtable_flush_failures``, ``memtable_flush_time_ms``.
        """
        return self._writer.stats.shown()

    def memtable_stats(self) -> dict[str, int | None]:
        """Return statistics of memory: ``row_count``, ``generation``, ``frozen_count`` and more."""
        return self._writer.memory().shown()

    def lsm_scanner(self, shard_snapshots: list[ShardSnapshot] | None = None) -> LsmScanner:
        """Set up a scan of the table's newest version and of all of its shards.

        This writer's memory is read, too, so rows that are in no log yet are included
        (``durable_write=False``).

        Parameters
        ----------
        shard_snapshots
            Only for compatibility with pylance: the scan reads the present state of all shards.

        Raises
        ------
        FencedError, ShardError
            The writer is closed or failed; `LanceDataset.lsm_scanner` needs no writer.
        """
        if shard_snapshots is not None:
            check_items("shard_snapshots", shard_snapshots, ShardSnapshot, "ShardSnapshot objects")
        self._writer.memtables()
        return LsmScanner(self._snapshot, self._read)

    def _read(self) -> ReadSet:
        return newest_read_set(self._snapshot.location, {self._shard: self._writer.memtables()})

    def __reduce__(self) -> NoReturn:
        raise InvalidTypeError(
            "A shard writer cannot be sent to another process: a shard has only one.",
            hint="Send the dataset, and open a writer there: ds.mem_wal_writer(shard).",
            shard=str(self._shard),
        )


# ---- the evaluation of sharding specs

_FIELD = ("field_id", "source_ids", "transform", "expression", "result_type", "parameters")


@checked
def evaluate_sharding_spec(
    batch: pa.RecordBatch, spec: ShardingSpec | Mapping[str, object], schema: LanceSchema
) -> pa.RecordBatch:
    """Compute the fields of a sharding spec for each row.

    Parameters
    ----------
    batch
        The rows, with the source columns of the spec.
    spec
        The spec, or an item of ``sharding_specs`` of `LanceDataset.mem_wal_index_details`.
    schema
        The schema of the table, whose field ids the spec uses.

    Returns
    -------
    pyarrow.RecordBatch
        One column for each field of the spec.

    Raises
    ------
    ColumnNotFoundError
        The rows lack a column.
    InvalidArgumentError
        The spec is invalid.
    UnsupportedTypeError
        A column has a type that cannot be bucketed.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"id": [1, 2]}, "memory://evaluate-sharding-example")
    >>> _ = ds.initialize_mem_wal(bucket_column="id", num_buckets=8)
    >>> (spec,) = ds.mem_wal_index_details()["sharding_specs"]
    >>> batch = ds.to_table().to_batches()[0]
    >>> lk.mem_wal.evaluate_sharding_spec(batch, spec, ds.lance_schema).to_pydict()
    {'bucket': [4, 4]}
    """
    if not isinstance(schema, LanceSchema):
        raise InvalidTypeError(
            f"schema must be a LanceSchema, got {shown(schema)}.",
            hint="Pass ds.lance_schema.",
            argument="schema",
        )
    found = _parsed(spec) if isinstance(spec, Mapping) else spec
    if not isinstance(found, ShardingSpec):
        raise _no_spec(spec)
    return shard_values(batch, found, schema.__lance_schema__)


def _parsed(spec: Mapping[str, Any]) -> ShardingSpec:
    missing = {"spec_id", "fields"} - spec.keys()
    if missing:
        raise InvalidArgumentError(
            f"Invalid sharding spec: {sorted(missing)[0]!r} is missing.",
            hint="Pass a ShardingSpec, or a spec from ds.mem_wal_index_details().",
        )
    fields = spec["fields"]
    if isinstance(fields, str) or not isinstance(fields, Iterable):
        raise _no_spec(spec)
    return ShardingSpec(spec["spec_id"], tuple(map(_parsed_field, fields)))


def _parsed_field(field: object) -> ShardingField:
    if isinstance(field, ShardingField):
        return field
    if not isinstance(field, Mapping):
        raise _no_spec(field)
    if "field_id" not in field:
        raise InvalidArgumentError(
            "Invalid sharding spec: a field has no 'field_id'.", hint="Add a text as field_id."
        )
    return ShardingField(**{name: field[name] for name in _FIELD if name in field})


def _no_spec(spec: object) -> InvalidTypeError:
    return InvalidTypeError(
        f'Invalid sharding spec: expected a dict with "fields", got {shown(spec)}.',
        hint="Pass a ShardingSpec, or a spec from ds.mem_wal_index_details().",
    )
