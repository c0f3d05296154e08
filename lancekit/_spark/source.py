"""The rows of a write or a merge as a Spark DataFrame, or brought to Spark."""

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
from lancekit._spark.frames.wire_rows import by_place, gathered, subschema
from lancekit._spark.jobs.client import client_of
from lancekit._spark.jobs.collect import answer_limit, collect, map_batches, run_action
from lancekit._spark.jobs.worker import of_partition
from lancekit._spark.merge.cached_source import CachedSource, SourceSummary, hold, survey
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
    """Rows that are worked on by Spark's tasks.

    A merge has Spark cache them at its first look at their keys, so that a frame which gives other
    rows each time (``rand()``, a sample, a table that grows) is one and the same from then on.  If
    cached rows are lost with a machine, and come back different, the work begins again once, with
    rows that two machines keep.  An error that names a row counts within a partition.

    frame: the rows, in wire form.
    schema: their schema: of an Arrow source its own types, which Spark may not have.
    ordered: whether there is a first and a last row.
    """

    engine: EngineName = "spark"

    def __init__(self, frame: DataFrame, schema: pa.Schema, *, ordered: bool = False) -> None:
        self.frame = frame
        self.schema = schema
        self._own = schema  # of the frame
        self._given: CastPlan | None = None
        self._ordered = ordered
        self._brought: _Brought | None = None
        self._held: CachedSource | None = None
        self._twice = False
        self._grouped: tuple[str, ...] = ()  # keys of which Spark found each one once
        self._unchecked: tuple[str, ...] = ()  # those that came again since
        self._found: dict[tuple[object, ...], SourceSummary] = {}
        self._keys: dict[tuple[object, ...], SourceKeys] = {}

    @classmethod
    def open(cls, data: object, schema: pa.Schema | None) -> SparkSource:
        """Return a Spark DataFrame, or any rows that `as_reader` takes, as a source.

        A schema for a DataFrame is what the tasks cast its rows to first.

        Raises UnsupportedTypeError: a column of a type that Spark, or Arrow, has no equal for.
        Raises InvalidTypeError: the data are of no kind that can be read as rows.
        Raises SchemaMismatchError: the columns do not become those of the schema.
        """
        if is_spark_dataframe(data):
            source = cls(data, arrow_schema(data.schema))
            if schema is not None:
                source._given = plan_cast(source._own, stored_schema(schema), whose="schema=")
                source.schema = source._given.target
            return source
        rows = bring(spark_session(), data, schema)
        source = cls(rows.frame, rows.schema, ordered=True)
        source._brought = rows
        weakref.finalize(source, rows.release)  # a write does not close it
        return source

    def write(
        self, plan: CastPlan, task: WriteTask, progress: FragmentWriteProgress | None = None
    ) -> list[Fragment]:
        """Cast the rows and write them, to files of about ``options.target_file_bytes``.

        The fragments come in the partitions' order; ``progress`` is told when all are written.
        """
        schema, plan = self._own, self._whole(plan)

        def work(batches: Iterable[pa.RecordBatch]) -> list[Fragment]:
            return write_fragments(cast_all(plan, restore(batches, schema)), of_partition(task))

        check_workers(self.frame.sparkSession)
        frame = gathered(self.frame) if self._brought is None else self.frame
        written = collect(frame, work, written_to=task.targets)
        new = join_small_files(task, chain.from_iterable(written))
        report_fragments(progress, new, task)
        return new

    def check_keys(
        self, plan: CastPlan, clauses: MergeClauses, on: tuple[str, ...] | None = None
    ) -> None:
        """Raise ``DuplicateKeysError`` if a key, without a null, occurs more than once.

        Raises InvalidArgumentError: the first or last of several rows is to be kept, and the rows
            have no order.
        """
        self._steadily(self._check_keys, self._whole(plan), clauses, on)

    def _check_keys(
        self, plan: CastPlan, clauses: MergeClauses, on: tuple[str, ...] | None
    ) -> None:
        travel = self._travel(plan, clauses)
        if clauses.dedupe is not None and not (self._ordered and travel):
            raise InvalidArgumentError(
                f"dedupe={clauses.dedupe!r} needs an order, and rows on Spark have none.",
                hint="Name a column with dedupe_by: the row with its largest value is kept.",
                dedupe=clauses.dedupe,
            )
        if on is not None and travel:
            kept = self._keys_of(plan, clauses).kept
            columns, _ = self._survey(plan, MergeClauses(on=on)).keys()
            at = None if kept is None else pa.array(kept)
            SourceKeys.choose(on, columns if at is None else [ak.take(c, at) for c in columns])
        elif travel:
            self._keys_of(plan, clauses)
        elif on is not None or clauses.dedupe_by is None:
            self._grouped = on or clauses.on
            check_by_grouping(self._hold(plan), plan, self._grouped)

    def match(self, plan: CastPlan, clauses: MergeClauses, snapshot: Snapshot) -> MatchPlan:
        """Return how a merge of the cast rows into a version would find its keys."""
        plan = self._whole(plan)
        found, schema = self._survey(plan, clauses), snapshot.manifest.schema
        asked = clauses.condition_on(plan.target, schema.to_arrow())
        lent = lent_columns(plan.target, clauses, asked, schema.names, dry=False)
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
        """Return what asks the indices of a version for the keys, if they come to this process."""
        plan = self._whole(plan)
        here = clauses.use_index and not clauses.by_address and self._travel(plan, clauses)
        return key_lookup(snapshot, self._keys_of(plan, clauses).table) if here else None

    def merge(self, job: MergeJob) -> MergeWork:
        """Work out a merge of the cast rows; may be called again on a newer target."""
        return self._steadily(self._merge, replace(job, casts=self._whole(job.casts)))

    def _merge(self, job: MergeJob) -> MergeWork:
        casts, clauses = job.casts, job.clauses
        held = self._hold(casts)
        match = self.match(casts, clauses, job.snapshot)
        if match.strategy in {"broadcast", "shuffle"}:
            if self._unchecked:
                check_by_grouping(held, casts, self._unchecked)
                self._unchecked = ()
            return merge_by_join(held, self._survey(casts, clauses), job, match)
        found = self._survey(casts, clauses)
        return merge_by_pairs(held, found, partial(self._take_keys, casts, clauses), job, match)

    def join_columns(
        self, plan: CastPlan, tasks: Sequence[ColumnsTask], left_on: str, right_on: str
    ) -> list[Fragment]:
        """Write columns beside the fragments; a key that several rows have is an error."""
        plan = self._whole(plan)
        held = self._hold(plan)
        return write_joined(held.frame, held.schema, plan, tasks, left_on, right_on)

    def close(self) -> None:
        """Have Spark let go of the rows."""
        self._let_go()
        if self._brought is not None:
            self._brought.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _let_go(self) -> None:
        if self._held is not None:
            self._held.release()
            self._held = None
        self._found.clear()
        self._keys.clear()

    def _steadily(self, work: Callable[..., Result], *arguments: object) -> Result:
        """Do work on the rows; if these do not stay what they are, begin again once."""
        try:
            return work(*arguments)
        except SourceChangedError:
            if self._twice:
                raise
            self._let_go()
            self._twice, self._unchecked = True, self._grouped
            return work(*arguments)

    def _travel(self, plan: CastPlan, clauses: MergeClauses) -> bool:
        """Tell whether keys come to this process; addresses do, which are looked up nowhere."""
        found = self._survey(plan, clauses)
        most = self._most_key_bytes()
        return clauses.by_address or collects_keys(found.rows, found.key_bytes, most)

    def _most_key_bytes(self) -> int:
        limit = answer_limit(self.frame.sparkSession)
        return CLOSURE_BYTES if limit is None else min(CLOSURE_BYTES, limit // 2)

    def _whole(self, plan: CastPlan) -> CastPlan:
        """Return a plan with the casts to the schema that the caller named before it."""
        return plan if self._given is None else replace(plan, first=self._given)

    def _hold(self, plan: CastPlan) -> CachedSource:
        if self._held is None:
            check_workers(self.frame.sparkSession)
            wanted = set(plan.target.names)
            names = [name for name in self._own.names if name in wanted]
            read = None if self._brought is None else self._brought.read
            if read is None:
                self._held = hold(self.frame, self._own, names, twice=self._twice)
            else:  # Spark would only keep another copy
                self._held = CachedSource(read(names), subschema(self._own, names), read)
        return self._held

    def _survey(self, plan: CastPlan, clauses: MergeClauses) -> SourceSummary:
        about = _about(plan, clauses)
        if about not in self._found:
            self._found[about] = survey(self._hold(plan), plan, clauses)
        return self._found[about]

    def _keys_of(self, plan: CastPlan, clauses: MergeClauses) -> SourceKeys:
        about = _about(plan, clauses)
        if about not in self._keys:
            columns, order = self._survey(plan, clauses).keys()
            self._keys.clear()
            self._keys[about] = SourceKeys.choose(
                clauses.on, columns, dedupe=clauses.dedupe, order=order
            )
        return self._keys[about]

    def _take_keys(self, plan: CastPlan, clauses: MergeClauses) -> SourceKeys:
        """Return the keys and keep none; if the merge has to begin again, they come once more."""
        keys = self._keys_of(plan, clauses)
        self._keys.clear()
        return keys


def _about(plan: CastPlan, clauses: MergeClauses) -> tuple[object, ...]:
    """Return what keys depend on."""
    return (clauses.on, clauses.dedupe, clauses.dedupe_by, *plan.target.types)


# ---- rows from elsewhere than Spark, brought to where its tasks can read them, however many they
# are
#
# A dataset's are scanned by the tasks.  Few rows are sent along.  More of them go through this
# process a piece at a time: into files, if the tasks see this machine's disk, else to Spark, which
# keeps each piece before the next one is read.

#: bytes of a piece that one task reads, and that this process holds at a time
_PIECE_BYTES = 16 << 20
#: pieces that Spark is given at a time where it has to keep them
_AT_ONCE = 4

Read = Callable[[Sequence[str]], "DataFrame"]


@dataclass(frozen=True)
class _Brought:
    """Rows in wire form, by place, in partitions that are worth a file each.

    frame, schema: all columns, and what they really are.
    read: makes a frame of some of the columns without reading the others, if the rows stay what
        they are each time.
    release: removes what was made for them.
    """

    frame: DataFrame
    schema: pa.Schema
    read: Read | None = None
    release: Callable[[], object] = lambda: None


def bring(session: SparkSession, data: object, schema: pa.Schema | None) -> _Brought:
    """Bring any rows that `as_reader` takes to Spark; this process holds few of them at a time.

    Raises UnsupportedTypeError: a column of a type, or a value, that Spark has no equal for.
    Raises InvalidTypeError: the data are of no kind that can be read as rows.
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
        return _Brought(gathered(few), reader.schema)
    every = chain(first, pieces)
    del first
    elsewhere = client_of(session).elsewhere() is not None
    return (in_checkpoints if elsewhere else in_files)(session, every, reader.schema)


def _scanned(session: SparkSession, scan: Scan) -> _Brought | None:
    """Return a scan as the tasks read it; ``None`` if they cannot, or not tell which rows count."""
    limited = scan.limit is not None or scan.offset
    if limited and scan.request.predicate is not None:
        return None
    schema = scan.request.schema
    outputs = {output.field.name: output for output in scan.request.outputs}
    pieces = scan_pieces(scan, client_of(session).parallelism())

    def read(names: Sequence[str]) -> DataFrame:
        wire = by_place("c", wire_schema(subschema(schema, names), exact=True))
        request = replace(scan.request, outputs=tuple(outputs[name] for name in names))
        convert = partial(to_spark_batch, wire=wire)
        return gathered(pieces_frame(session, pieces, request, convert, wire))

    try:
        return _Brought(read(schema.names), schema, read)
    except StorageError:
        return None  # a dataset in this process's memory, or on its disk and the tasks elsewhere


def _pieces(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield rows in tables of about `_PIECE_BYTES`; none without rows."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        step = max(batch.num_rows * _PIECE_BYTES // max(batch.nbytes, 1), 1)
        for start in range(0, batch.num_rows, step):
            part = batch.slice(start, step)
            held.append(part)
            size += part.nbytes
            if size >= _PIECE_BYTES:
                yield pa.Table.from_batches(held, schema)
                held, size = [], 0
    if held:
        yield pa.Table.from_batches(held, schema)


def _sent(session: SparkSession, rows: pa.Table, wire: pa.Schema) -> DataFrame:
    # by place, for Spark takes `a` and `A` for one
    named = by_place("c", wire)
    # PySpark takes no structs of an Arrow table without rows
    data = rows.rename_columns(named.names) if rows.num_rows else list[object]()
    return session.createDataFrame(data, spark_schema(named))


def in_files(session: SparkSession, pieces: Iterable[pa.Table], schema: pa.Schema) -> _Brought:
    """Write pieces in wire form to a temporary folder of this machine, where the tasks run too."""
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
        named = by_place("c", subschema(wire, names))

        def load(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            some = pa.ipc.IpcReadOptions(included_fields=places)
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    file = pa.ipc.open_file(pa.memory_map(paths[number]), options=some)
                    for at in range(file.num_record_batches):
                        # in the file's order of columns, whatever was asked for
                        found = file.get_batch(at).select(list(names))
                        yield pa.RecordBatch.from_arrays(found.columns, schema=named)

        numbers = session.range(0, len(paths), 1, len(paths))
        return gathered(map_batches(numbers, load, spark_schema(named)))

    return _Brought(read(schema.names), schema, read, release)


def in_checkpoints(
    session: SparkSession, pieces: Iterable[pa.Table], schema: pa.Schema
) -> _Brought:
    """Give pieces in wire form to Spark one after the other, which keeps them on its machines."""
    from pyspark import StorageLevel

    wire = wire_schema(schema, exact=True)
    rest, frames = iter(pieces), list["DataFrame"]()
    while some := list(islice(rest, _AT_ONCE)):
        # one partition each: what is put together once it is kept loses its order
        frame = _sent(session, pa.concat_tables(some), wire).coalesce(1)
        keep = partial(frame.localCheckpoint, storageLevel=StorageLevel.MEMORY_AND_DISK)
        frames.append(run_action(session, keep, what="reading the source"))
    whole = reduce(type(frames[0]).unionAll, frames)

    def read(names: Sequence[str]) -> DataFrame:
        places = [f"c{schema.get_field_index(name)}" for name in names]
        return whole.select(*places).toDF(*(f"c{at}" for at in range(len(names))))

    return _Brought(whole, schema, read)
