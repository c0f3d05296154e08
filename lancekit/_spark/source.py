"""The rows of a write or a merge as a Spark DataFrame, or transferred to Spark."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._format.extensions import stored_schema
from lancekit._format.fragment import Fragment
from lancekit._own_files import new_folder
from lancekit._pipeline.casts.batches import cast_all
from lancekit._pipeline.casts.plan import CastPlan, plan_cast
from lancekit._pipeline.engine import EngineName
from lancekit._pipeline.inputs import as_reader, is_spark_dataframe, scan_of
from lancekit._pipeline.join_files import join_small_files
from lancekit._pipeline.merge_plan import MergeClauses, MergeJob, MergeWork
from lancekit._pipeline.merge_strategy import CLOSURE_BYTES, MatchPlan, choose_match, collects_keys
from lancekit._pipeline.source_keys import SourceKeys, key_lookup
from lancekit._pipeline.write_columns import ColumnsTask
from lancekit._pipeline.write_rows import WriteTask, report_fragments, write_fragments
from lancekit._scan.fragment_rows import ScanRequest, row_bytes
from lancekit._scan.index_lookup import IndexLookup
from lancekit._scan.outputs import plan_columns
from lancekit._scan.scan import Scan
from lancekit._spark.columns import write_joined
from lancekit._spark.frames.scan import pieces_frame, scan_pieces
from lancekit._spark.frames.types import (
    arrow_schema,
    restore,
    spark_schema,
    to_spark_batch,
    wire_schema,
)
from lancekit._spark.frames.wire_rows import by_position, gathered, subschema
from lancekit._spark.jobs.client import client_of
from lancekit._spark.jobs.collect import answer_limit, collect, map_batches, run_action
from lancekit._spark.jobs.worker import of_partition
from lancekit._spark.merge.cached_source import CachedSource, SourceSummary, cache_columns, survey
from lancekit._spark.merge.match_keys import check_by_grouping
from lancekit._spark.merge.merge import merge_by_join, merge_by_pairs
from lancekit._spark.merge.merge_task import lent_columns
from lancekit._spark.session.preflight import check_workers
from lancekit._spark.session.session import spark_session
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, SourceChangedError, StorageError
from lancekit.progress import FragmentWriteProgress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Result = TypeVar("Result")


class SparkSource:
    """Rows that Spark's tasks process.

    For a merge, Spark caches them before their keys are first read.  So a frame that returns other
    rows each time (``rand()``, a sample, a table that grows) has the same rows from then on.  If
    cached rows are lost with a machine, and recomputed rows differ, the work starts again once,
    with rows cached on two machines.  Row numbers in errors count within a partition.

    frame: the rows, in wire form.
    schema: their schema; for an Arrow source its own types, which Spark may lack.
    ordered: whether the rows have an order.
    """

    engine: EngineName = "spark"

    def __init__(self, frame: DataFrame, schema: pa.Schema, *, ordered: bool = False) -> None:
        self.frame = frame
        self.schema = schema
        self._own = schema  # of the frame
        self._first_casts: CastPlan | None = None
        self._ordered = ordered
        self._transferred: _Transferred | None = None
        self._cached: CachedSource | None = None
        self._twice = False
        self._grouped: tuple[str, ...] = ()  # keys that Spark found to be unique
        self._unchecked: tuple[str, ...] = ()  # the same keys after their rows were cached again
        self._found: dict[tuple[object, ...], SourceSummary] = {}
        self._keys: dict[tuple[object, ...], SourceKeys] = {}

    def write(
        self, plan: CastPlan, task: WriteTask, progress: FragmentWriteProgress | None = None
    ) -> list[Fragment]:
        """Cast the rows and write them, to files of about ``options.target_file_bytes``.

        The fragments are in partition order; ``progress`` gets them after all are written.
        """
        schema, plan = self._own, self._whole(plan)

        def work(batches: Iterable[pa.RecordBatch]) -> list[Fragment]:
            return write_fragments(cast_all(plan, restore(batches, schema)), of_partition(task))

        check_workers(self.frame.sparkSession)
        frame = gathered(self.frame) if self._transferred is None else self.frame
        written = collect(frame, work, written_to=task.targets)
        new = join_small_files(task, chain.from_iterable(written))
        report_fragments(progress, new, task)
        return new

    def check_keys(
        self, plan: CastPlan, clauses: MergeClauses, on: tuple[str, ...] | None = None
    ) -> None:
        """Raise ``DuplicateKeysError`` if a key without a null occurs more than once.

        Raises InvalidArgumentError: the first or last of several rows should be kept, but the rows
            have no order.
        """
        self._steadily(self._check_keys, self._whole(plan), clauses, on)

    def _check_keys(
        self, plan: CastPlan, clauses: MergeClauses, on: tuple[str, ...] | None
    ) -> None:
        collected = self._collects_keys(plan, clauses)
        if clauses.dedupe is not None and not (self._ordered and collected):
            raise InvalidArgumentError(
                f"dedupe={clauses.dedupe!r} needs an order, but rows on Spark have none.",
                hint="Pass a column as dedupe_by: the row with its largest value is kept.",
                dedupe=clauses.dedupe,
            )
        if on is not None and collected:
            kept = self._keys_of(plan, clauses).kept
            columns, _ = self._survey(plan, MergeClauses(on=on)).keys()
            at = None if kept is None else pa.array(kept)
            SourceKeys.choose(on, columns if at is None else [ak.take(c, at) for c in columns])
        elif collected:
            self._keys_of(plan, clauses)
        elif on is not None or clauses.dedupe_by is None:
            self._grouped = on or clauses.on
            check_by_grouping(self._cache(plan), plan, self._grouped)

    def match(self, plan: CastPlan, clauses: MergeClauses, snapshot: Snapshot) -> MatchPlan:
        """Return how a merge of the cast rows into a version would find its keys."""
        plan = self._whole(plan)
        found, schema = self._survey(plan, clauses), snapshot.manifest.schema
        condition = clauses.condition_on(plan.target, schema.to_arrow())
        lent = lent_columns(plan.target, clauses, condition, schema.names, dry=False)
        return choose_match(
            engine=self.engine,
            source_rows=found.rows,
            key_bytes=found.key_bytes,
            target_rows=snapshot.manifest.num_rows,
            most_key_bytes=self._most_key_bytes(),
            update_bytes=row_bytes(schema, ScanRequest(outputs=plan_columns(schema, lent))),
            lookup=self.indices(plan, clauses, snapshot),
            by_address=clauses.by_address,
        )

    def indices(
        self, plan: CastPlan, clauses: MergeClauses, snapshot: Snapshot
    ) -> IndexLookup | None:
        """Return the lookup of the keys in a version's indices, if the keys are collected."""
        plan = self._whole(plan)
        here = clauses.use_index and not clauses.by_address and self._collects_keys(plan, clauses)
        return key_lookup(snapshot, self._keys_of(plan, clauses).table) if here else None

    def merge(self, job: MergeJob) -> MergeWork:
        """Run a merge of the cast rows; can be called again for a newer target."""
        return self._steadily(self._merge, replace(job, casts=self._whole(job.casts)))

    def _merge(self, job: MergeJob) -> MergeWork:
        casts, clauses = job.casts, job.clauses
        cached = self._cache(casts)
        match = self.match(casts, clauses, job.snapshot)
        if match.strategy in {"broadcast", "shuffle"}:
            if self._unchecked:
                check_by_grouping(cached, casts, self._unchecked)
                self._unchecked = ()
            return merge_by_join(cached, self._survey(casts, clauses), job, match)
        found = self._survey(casts, clauses)
        return merge_by_pairs(cached, found, partial(self._take_keys, casts, clauses), job, match)

    def join_columns(
        self, plan: CastPlan, tasks: Sequence[ColumnsTask], left_on: str, right_on: str
    ) -> list[Fragment]:
        """Write columns beside the fragments; several rows with one key are an error."""
        plan = self._whole(plan)
        cached = self._cache(plan)
        return write_joined(cached.frame, cached.schema, plan, tasks, left_on, right_on)

    def close(self) -> None:
        """Release Spark's cache of the rows."""
        self._release()
        if self._transferred is not None:
            self._transferred.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _release(self) -> None:
        if self._cached is not None:
            self._cached.release()
            self._cached = None
        self._found.clear()
        self._keys.clear()

    def _steadily(self, work: Callable[..., Result], *arguments: object) -> Result:
        """Run work on the rows; if cached rows turn out different, start again once."""
        try:
            return work(*arguments)
        except SourceChangedError:
            if self._twice:
                raise
            self._release()
            self._twice, self._unchecked = True, self._grouped
            return work(*arguments)

    def _collects_keys(self, plan: CastPlan, clauses: MergeClauses) -> bool:
        """Return True if the keys are collected in this process; addresses always are."""
        found = self._survey(plan, clauses)
        most = self._most_key_bytes()
        return clauses.by_address or collects_keys(found.rows, found.key_bytes, most)

    def _most_key_bytes(self) -> int:
        limit = answer_limit(self.frame.sparkSession)
        return CLOSURE_BYTES if limit is None else min(CLOSURE_BYTES, limit // 2)

    def _whole(self, plan: CastPlan) -> CastPlan:
        """Return a plan that first casts to the schema that the caller named."""
        return plan if self._first_casts is None else replace(plan, first=self._first_casts)

    def _cache(self, plan: CastPlan) -> CachedSource:
        if self._cached is None:
            check_workers(self.frame.sparkSession)
            wanted = set(plan.target.names)
            names = [name for name in self._own.names if name in wanted]
            read = None if self._transferred is None else self._transferred.read
            if read is None:
                self._cached = cache_columns(self.frame, self._own, names, twice=self._twice)
            else:  # a cache would only be another copy
                self._cached = CachedSource(read(names), subschema(self._own, names), read)
        return self._cached

    def _survey(self, plan: CastPlan, clauses: MergeClauses) -> SourceSummary:
        cache_key = _cache_key(plan, clauses)
        if cache_key not in self._found:
            self._found[cache_key] = survey(self._cache(plan), plan, clauses)
        return self._found[cache_key]

    def _keys_of(self, plan: CastPlan, clauses: MergeClauses) -> SourceKeys:
        cache_key = _cache_key(plan, clauses)
        if cache_key not in self._keys:
            columns, order = self._survey(plan, clauses).keys()
            self._keys.clear()
            self._keys[cache_key] = SourceKeys.choose(
                clauses.on, columns, dedupe=clauses.dedupe, order=order
            )
        return self._keys[cache_key]

    def _take_keys(self, plan: CastPlan, clauses: MergeClauses) -> SourceKeys:
        """Return the keys without keeping them; a merge that starts again collects them again."""
        keys = self._keys_of(plan, clauses)
        self._keys.clear()
        return keys


def open_source(data: object, schema: pa.Schema | None) -> SparkSource:
    """Open a Spark DataFrame, or any rows that `as_reader` accepts, as a source.

    If a schema is given for a DataFrame, tasks first cast its rows to it.

    Raises UnsupportedTypeError: Spark or Arrow has no equivalent of a column's type.
    Raises InvalidTypeError: the data has no type that can be read as rows.
    Raises SchemaMismatchError: the columns cannot be cast to the schema.
    """
    if is_spark_dataframe(data):
        source = SparkSource(data, arrow_schema(data.schema))
        if schema is not None:
            source._first_casts = plan_cast(source._own, stored_schema(schema), whose="schema=")
            source.schema = source._first_casts.target
        return source
    rows = transfer(spark_session(), data, schema)
    source = SparkSource(rows.frame, rows.schema, ordered=True)
    source._transferred = rows
    weakref.finalize(source, rows.release)  # writes do not close a source
    return source


def _cache_key(plan: CastPlan, clauses: MergeClauses) -> tuple[object, ...]:
    """Return the cache key of keys and summaries."""
    return (clauses.on, clauses.dedupe, clauses.dedupe_by, *plan.target.types)


# ---- rows from outside Spark, transferred to where its tasks can read them, in any number
#
# Tasks scan the rows of a dataset.  Few other rows are sent along.  More rows pass through this
# process piece by piece: into files, if the tasks can read this machine's disk, else to Spark,
# which caches each piece before the next is read.

#: bytes of a piece, which one task reads, and which this process holds at the same time
_PIECE_BYTES = 16 << 20
#: pieces that are passed to Spark together for caching
_AT_ONCE = 4

Read = Callable[[Sequence[str]], "DataFrame"]


@dataclass(frozen=True)
class _Transferred:
    """Rows in wire form, named by position, in partitions that are worth a file each.

    frame, schema: all columns, and their true schema.
    read: returns a frame of some columns without reading the others, if the rows are stable.
    release: removes the temporary data of the rows.
    """

    frame: DataFrame
    schema: pa.Schema
    read: Read | None = None
    release: Callable[[], object] = lambda: None


def transfer(session: SparkSession, data: object, schema: pa.Schema | None) -> _Transferred:
    """Transfer rows that `as_reader` accepts to Spark; this process holds few at the same time.

    Raises UnsupportedTypeError: Spark has no equivalent of a column's type, or of a value.
    Raises InvalidTypeError: the data has no type that can be read as rows.
    """
    scan = scan_of(data)
    scanned = None if scan is None else _scanned(session, scan)
    if scanned is not None:
        return scanned
    reader = as_reader(data, schema)
    wire = wire_schema(reader.schema, exact=True)
    pieces = _pieces((to_spark_batch(batch, wire) for batch in reader), wire)
    first = list(islice(pieces, 2))
    if len(first) < 2:
        few = _sent(session, [*first, wire.empty_table()][0], wire)
        return _Transferred(gathered(few), reader.schema)
    every = chain(first, pieces)
    del first
    elsewhere = client_of(session).elsewhere() is not None
    return (in_checkpoints if elsewhere else in_files)(session, every, reader.schema)


def _scanned(session: SparkSession, scan: Scan) -> _Transferred | None:
    """Return a scan that tasks run; ``None`` if they cannot read the data, or select the rows."""
    limited = scan.limit is not None or scan.offset
    if limited and scan.request.predicate is not None:
        return None
    schema = scan.request.schema
    outputs = {output.field.name: output for output in scan.request.outputs}
    pieces = scan_pieces(scan, client_of(session).parallelism())

    def read(names: Sequence[str]) -> DataFrame:
        wire = by_position("c", wire_schema(subschema(schema, names), exact=True))
        request = replace(scan.request, outputs=tuple(outputs[name] for name in names))
        convert = partial(to_spark_batch, wire=wire)
        return gathered(pieces_frame(session, pieces, request, convert, wire))

    try:
        return _Transferred(read(schema.names), schema, read)
    except StorageError:
        return None  # a dataset in this process's memory, or on a disk that tasks cannot read


def _pieces(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield rows in tables of about `_PIECE_BYTES`; none without rows."""
    cached: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        step = max(batch.num_rows * _PIECE_BYTES // max(batch.nbytes, 1), 1)
        for start in range(0, batch.num_rows, step):
            part = batch.slice(start, step)
            cached.append(part)
            size += part.nbytes
            if size >= _PIECE_BYTES:
                yield pa.Table.from_batches(cached, schema)
                cached, size = [], 0
    if cached:
        yield pa.Table.from_batches(cached, schema)


def _sent(session: SparkSession, rows: pa.Table, wire: pa.Schema) -> DataFrame:
    # by position, because Spark treats `a` and `A` as one name
    named = by_position("c", wire)
    # PySpark refuses structs of an Arrow table without rows
    data = rows.rename_columns(named.names) if rows.num_rows else list[object]()
    return session.createDataFrame(data, spark_schema(named))


def in_files(session: SparkSession, pieces: Iterable[pa.Table], schema: pa.Schema) -> _Transferred:
    """Write pieces in wire form to a temporary folder, for tasks on this machine."""
    folder = new_folder("source")
    release = partial(shutil.rmtree, folder, ignore_errors=True)
    wire = wire_schema(schema, exact=True)
    paths: list[str] = []
    try:
        for piece in pieces:
            paths.append(str(Path(folder, f"{len(paths)}.arrow")))
            with pa.OSFile(paths[-1], "wb") as file, pa.ipc.new_file(file, wire) as writer:
                writer.write_table(piece)
    except BaseException:
        release()
        raise

    def read(names: Sequence[str]) -> DataFrame:
        places = [schema.get_field_index(name) for name in names]
        named = by_position("c", subschema(wire, names))

        def load(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            some = pa.ipc.IpcReadOptions(included_fields=places)
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    file = pa.ipc.open_file(pa.memory_map(paths[number]), options=some)
                    for at in range(file.num_record_batches):
                        # the file's order of columns is fixed, and may differ from `names`
                        found = file.get_batch(at).select(list(names))
                        yield pa.RecordBatch.from_arrays(found.columns, schema=named)

        numbers = session.range(0, len(paths), 1, len(paths))
        return gathered(map_batches(numbers, load, spark_schema(named)))

    return _Transferred(read(schema.names), schema, read, release)


def in_checkpoints(
    session: SparkSession, pieces: Iterable[pa.Table], schema: pa.Schema
) -> _Transferred:
    """Pass pieces in wire form to Spark one after the other, which caches them on its machines."""
    from pyspark import StorageLevel

    wire = wire_schema(schema, exact=True)
    rest, frames = iter(pieces), list["DataFrame"]()
    while some := list(islice(rest, _AT_ONCE)):
        # one partition each, because cached partitions lose their order when they are combined
        frame = _sent(session, pa.concat_tables(some), wire).coalesce(1)
        keep = partial(frame.localCheckpoint, storageLevel=StorageLevel.MEMORY_AND_DISK)
        frames.append(run_action(session, keep, what="reading the source"))
    whole = reduce(type(frames[0]).unionAll, frames)

    def read(names: Sequence[str]) -> DataFrame:
        places = [f"c{schema.get_field_index(name)}" for name in names]
        return whole.select(*places).toDF(*(f"c{at}" for at in range(len(names))))

    return _Transferred(whole, schema, read)
