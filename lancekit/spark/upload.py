"""Rows from elsewhere than Spark, brought to where its tasks can read them, however many they are.

A dataset's are scanned by the tasks.  Few rows are sent along.  More of them go through this
process a piece at a time: into files, if the tasks see this machine's disk, else to Spark, which
keeps each piece before the next one is read.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancekit.errors import StorageError
from lancekit.own_files import new_folder
from lancekit.pipeline.engine.inputs import as_reader, scan_of
from lancekit.scan.scan import Scan
from lancekit.spark.frames.scan import pieces_frame, scan_pieces
from lancekit.spark.frames.types import spark_schema, to_spark_batch, wire_schema
from lancekit.spark.frames.wire_rows import by_place, gathered, subschema
from lancekit.spark.jobs.client import client_of
from lancekit.spark.jobs.collect import map_batches, run_action

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Brought", "bring", "in_checkpoints", "in_files"]

#: bytes of a piece that one task reads, and that this process holds at a time
_PIECE_BYTES = 16 << 20
#: pieces that Spark is given at a time where it has to keep them
_AT_ONCE = 4

Read = Callable[[Sequence[str]], "DataFrame"]


@dataclass(frozen=True)
class Brought:
    """Rows in wire form, by place, in partitions that are worth a file each.

    Attributes
    ----------
    frame, schema
        All columns, and what they really are.
    read
        Makes a frame of some of the columns without reading the others, if the rows stay what they
        are each time.
    release
        Removes what was made for them.
    """

    frame: DataFrame
    schema: pa.Schema
    read: Read | None = None
    release: Callable[[], object] = lambda: None


def bring(session: SparkSession, data: Any, schema: pa.Schema | None) -> Brought:
    """Bring any rows that `as_reader` takes to Spark; this process holds few of them at a time.

    Raises
    ------
    UnsupportedTypeError
        A column of a type, or a value, that Spark has no equal for.
    InvalidTypeError
        The data are of no kind that can be read as rows.
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
        return Brought(gathered(few), reader.schema)
    every = chain(first, pieces)
    del first
    elsewhere = client_of(session).elsewhere() is not None
    return (in_checkpoints if elsewhere else in_files)(session, every, reader.schema)


def _scanned(session: SparkSession, scan: Scan) -> Brought | None:
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
        return Brought(read(schema.names), schema, read)
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
    data: Any = rows.rename_columns(named.names) if rows.num_rows else []
    return session.createDataFrame(data, spark_schema(named))


def in_files(session: SparkSession, pieces: Iterable[pa.Table], schema: pa.Schema) -> Brought:
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

    return Brought(read(schema.names), schema, read, release)


def in_checkpoints(session: SparkSession, pieces: Iterable[pa.Table], schema: pa.Schema) -> Brought:
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

    return Brought(whole, schema, read)
