"""A source on Spark with stable rows: cached, counted by partition, and its keys collected.

A row is identified by its number, which counts over all partitions in order.
Cached rows can be lost with a machine.  A source such as ``rand()``, or with rows in varying order,
then computes other rows; checksums of the keys detect this.  One checksum depends on the order of
rows, for merges that identify rows by their numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._format.arrow_parts import one_of, string_parts, viewed
from lancekit._format.paths import top_of
from lancekit._pipeline.casts.batches import cast_all
from lancekit._pipeline.casts.plan import CastPlan
from lancekit._pipeline.casts.rules import BYTE_TYPES, TEXT_TYPES
from lancekit._pipeline.hashed_keys import comparable, hash_rows, known_rows
from lancekit._pipeline.merge_plan import MergeClauses
from lancekit._pipeline.merge_strategy import WIDE_BYTES
from lancekit._pipeline.source_keys import key_columns, key_schema
from lancekit._spark.frames.types import restore
from lancekit._spark.frames.wire_rows import gathered, subschema
from lancekit._spark.jobs.client import is_connect, most_tasks
from lancekit._spark.jobs.collect import (
    answer_room,
    check_answers,
    collect,
    map_batches,
    run_action,
)
from lancekit._spark.jobs.worker import this_partition
from lancekit.errors import SourceChangedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: most key bytes that a partition returns with its count, which saves a job
_AT_ONCE = 4 << 20
#: key bytes of a row that passes through Spark
_CHUNK = 4 << 20


@dataclass(frozen=True)
class CachedSource:
    """Columns of a source that do not change: cached by Spark, or stored in files.

    `frame` has them as ``c0``, ``c1``, ..., in wire form; `schema` is their schema.  For columns in
    files, `read` returns some columns in the same partitions, without reading the others.
    """

    frame: DataFrame
    schema: pa.Schema
    read: Callable[[Sequence[str]], DataFrame] | None = None

    def select(self, names: Sequence[str]) -> tuple[DataFrame, pa.Schema]:
        """Return some of the columns, and their schema."""
        if self.read is not None:
            return self.read(names), subschema(self.schema, names)
        columns = [f"c{self.schema.get_field_index(name)}" for name in names]
        return self.frame.select(*columns), subschema(self.schema, names)

    def release(self) -> None:
        """Release Spark's cache of the rows."""
        if self.read is not None:
            return
        try:
            self.frame.unpersist()
        except Exception:  # the session has ended, and its cache with it
            return


def cache_columns(
    frame: DataFrame, schema: pa.Schema, names: Sequence[str], *, twice: bool = False
) -> CachedSource:
    """Cache some columns of a frame, in memory if there is space, else on disk.

    With `twice`, rows are cached on two machines if there are two, and survive the loss of one.
    """
    from pyspark import StorageLevel

    # by position, because Spark treats `a` and `A` as one name
    places = [schema.get_field_index(name) for name in names]
    columns = [f"c{at}" for at in range(len(names))]
    every = frame.toDF(*(f"r{at}" for at in range(len(schema))))
    chosen = gathered(every.select(*(f"r{at}" for at in places)).toDF(*columns))
    level = StorageLevel.MEMORY_AND_DISK_2 if twice else StorageLevel.MEMORY_AND_DISK
    if is_connect(frame.sparkSession):
        # It sends the plan again each time; with rand(), the plan differs, and finds no cache.
        kept = run_action(
            frame.sparkSession,
            partial(chosen.localCheckpoint, storageLevel=level),
            what="reading the source",
        )
    else:
        kept = chosen.persist(level)
    return CachedSource(kept, subschema(schema, names))


@dataclass
class KeySum:
    """Checksums of key columns, independent of how the rows are split into batches."""

    _parts: dict[tuple[int, int], int] = field(default_factory=dict)
    _rows: int = 0
    _known: int = 0

    def add(self, columns: Sequence[pa.Array]) -> None:
        """Add the next batch."""
        for at, column in enumerate(columns):
            valid = pc.is_valid(column).to_numpy(zero_copy_only=False).view(np.uint8)
            for part, data in enumerate(chain([valid], _contents(ak.drop_null(column)))):
                self._parts[at, part] = zlib.crc32(data.data, self._parts.get((at, part), 0))
        known = [comparable(column) for column in columns]
        hashes = hash_rows(known)[known_rows(known)]
        self._rows += len(columns[0])
        self._known += int(hashes.sum(dtype=np.uint64)) + len(hashes)

    @property
    def ordered(self) -> int:
        """The checksum of the keys in their order."""
        return zlib.crc32(repr(sorted(self._parts.items())).encode())

    @property
    def unordered(self) -> tuple[int, int]:
        """The number of rows, and a checksum of the keys without nulls in any order."""
        return self._rows, self._known % (1 << 64)


def _contents(values: pa.Array) -> Iterator[npt.NDArray[np.uint8]]:
    kind = values.type
    if pa.types.is_dictionary(kind):
        yield from _contents(values.cast(kind.value_type))
    elif pa.types.is_boolean(kind):
        yield values.to_numpy(zero_copy_only=False).view(np.uint8)
    elif pa.types.is_null(kind) or not len(values):
        return
    elif _is_variable(kind):
        ends, data = string_parts(values.cast(pa.large_binary()))
        yield np.diff(ends).view(np.uint8)
        yield data[ends[0] : ends[-1]]
    else:
        width = kind.bit_width // 8
        first = values.offset * width
        yield viewed(values.buffers()[1])[first : first + len(values) * width]


#: True for types whose values vary in length
_is_variable = one_of(*TEXT_TYPES, *BYTE_TYPES)


@dataclass(frozen=True, slots=True)
class _Part:
    """The summary of a partition; `keys` only if they are few."""

    rows: int
    key_bytes: int
    key_sum: KeySum
    keys: bytes | None


@dataclass(frozen=True)
class SourceSummary:
    """The summary of a source's partitions.

    starts: the number of each partition's first row, and last the number of all rows.
    sums: the checksums of the partitions' keys.
    key_bytes: the bytes of all keys.
    """

    starts: npt.NDArray[np.int64]
    sums: tuple[KeySum, ...]
    key_bytes: int
    _frame: DataFrame
    _maker: _Maker
    _few: list[bytes | None]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.starts[-1])

    def check(self, on: tuple[str, ...]) -> SameKeys:
        """Return a check for tasks that a partition has the same keys, in any order."""
        return SameKeys(on, tuple(key_sum.unordered for key_sum in self.sums))

    def keys(self) -> tuple[list[pa.Array], pa.Array | None]:
        """Collect the key columns, and the column that orders rows, in row order.

        Raises SourceChangedError: cached rows were lost, and recomputed rows differ.
        Raises EngineError: the keys are more than ``spark.driver.maxResultSize`` allows.
        """
        packed: list[bytes] | list[pa.Buffer]
        packed = [part for part in self._few if part is not None]
        is_complete = len(packed) == len(self.sums)
        self._few.clear()  # the caller keeps the keys, and needs no second copy
        if not is_complete:
            what = f"The keys of {self.rows:,} rows"
            check_answers(self._frame.sparkSession, self.key_bytes, what)
            packed = _fetch(self._frame, self._maker)
        tables = [pa.ipc.open_stream(part).read_all() for part in packed]
        table = pa.concat_tables([self._maker.schema.empty_table(), *tables])
        del packed, tables
        if table.num_rows != self.rows:
            raise other_rows()
        count = len(self._maker.on)
        columns = [ak.combine_chunks(column) for column in table.columns]
        return columns[:count], columns[count] if len(columns) > count else None


@dataclass(frozen=True)
class SameKeys:
    """A check that passes on the rows of a partition.  Can be sent to a worker."""

    on: tuple[str, ...]
    sums: tuple[tuple[int, int], ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows; raise ``SourceChangedError`` after the last one if keys differ."""
        key_sum = KeySum()
        for batch in batches:
            key_sum.add(key_columns(batch, self.on))
            yield batch
        if key_sum.unordered != self.sums[this_partition()]:
            raise other_rows()


def other_rows() -> SourceChangedError:
    """Return the error for a source whose cached rows were lost and whose new rows differ."""
    return SourceChangedError(
        "Spark lost a cached part of the source twice, and the recomputed part was different.",
        hint="Write the source to a table first, and merge the table.",
    )


def survey(source: CachedSource, plan: CastPlan, clauses: MergeClauses) -> SourceSummary:
    """Count the rows of a source and compute checksums of their keys; this fills the cache.

    Raises NullKeyError, SchemaMismatchError: a key does not fit.
    """
    names = [top_of(name) if name not in plan.target.names else name for name in clauses.on]
    if clauses.dedupe_by is not None:
        names.append(clauses.dedupe_by)
    names = list(dict.fromkeys(names))
    frame, own = source.select(names)
    casts = CastPlan(source=plan.source, target=subschema(plan.target, names))
    maker = _Maker(own, casts, clauses.on, clauses.dedupe_by)
    # all partitions together return no more than the limit of keys, even if 1,000 answer at once
    most = most_tasks(frame.sparkSession)
    at_once = min(_AT_ONCE, WIDE_BYTES // most, answer_room(frame.sparkSession, most).most)

    def work(batches: Iterable[pa.RecordBatch]) -> _Part:
        rows, size, key_sum, few = 0, 0, KeySum(), list[pa.RecordBatch]()
        for batch in maker(batches):
            rows += batch.num_rows
            size += batch.nbytes
            key_sum.add(batch.columns[: len(maker.on)])
            if size <= at_once:
                few.append(batch)
        packed = _pack(few, maker.schema) if size <= at_once else None
        return _Part(rows, size, key_sum, packed)

    parts = collect(frame, work, what="reading the source")
    return SourceSummary(
        starts=np.cumsum([0, *(part.rows for part in parts)]),
        sums=tuple(part.key_sum for part in parts),
        key_bytes=sum(part.key_bytes for part in parts),
        _frame=frame,
        _maker=maker,
        _few=[part.keys for part in parts],
    )


@dataclass(frozen=True)
class _Maker:
    """A function that extracts the keys and the order column of rows.  Can be sent to a worker."""

    own: pa.Schema
    plan: CastPlan
    on: tuple[str, ...]
    order: str | None

    @property
    def schema(self) -> pa.Schema:
        fields = list(key_schema(self.plan.target, self.on))
        if self.order is not None:
            fields.append(pa.field("order", self.plan.target.field(self.order).type))
        return pa.schema(fields)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = self.schema
        for batch in cast_all(self.plan, restore(batches, self.own)):
            columns = key_columns(batch, self.on)
            if self.order is not None:
                columns.append(batch.column(self.order))
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _fetch(frame: DataFrame, maker: _Maker) -> list[pa.Buffer]:
    """Collect keys in large chunks, which costs Spark much less than rows."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition = this_partition()
        for place, chunk in enumerate(_chunks(maker(batches))):
            columns = [
                pa.array([partition], pa.int32()),
                pa.array([place], pa.int32()),
                pa.array([_pack(chunk, maker.schema)], pa.binary()),
            ]
            yield pa.RecordBatch.from_arrays(columns, names=["partition", "place", "data"])

    sent = map_batches(frame, work, "partition int, place int, data binary")
    rows = run_action(frame.sparkSession, sent.toArrow, what="reading keys")
    order = np.lexsort((rows["place"].to_numpy(), rows["partition"].to_numpy()))
    return [rows["data"][at].as_buffer() for at in order]  # no copy


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    chunk: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        chunk.append(batch)
        size += batch.nbytes
        if size >= _CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _pack(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(pa.Table.from_batches(batches, schema))
    return bytes(sink.getvalue())
