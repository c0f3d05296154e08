"""Preparation of a source's rows for joins and groupings on Spark.

Columns are named by their position, because Spark treats ``a`` and ``A`` as one name.  If a step is
not the last of a job, a worker's error travels in a separate column, as in `jobs`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._pipeline.casts.batches import cast_all
from lancekit._pipeline.casts.plan import CastPlan
from lancekit._pipeline.hashed_keys import FLOAT_BITS, comparable
from lancekit._pipeline.source_keys import key_columns, key_schema
from lancekit._spark.frames.types import (
    from_spark_batch,
    restore,
    spark_schema,
    to_spark_batch,
    wire_schema,
)
from lancekit._spark.jobs.client import most_tasks
from lancekit._spark.jobs.collect import map_batches
from lancekit.errors import LancekitError, SourceChangedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FAILURE = "failure"


def by_position(letter: str, schema: pa.Schema) -> pa.Schema:
    """Return a schema with columns named by a letter and their position; all are nullable."""
    return pa.schema([(f"{letter}{at}", kind) for at, kind in enumerate(schema.types)])


def subschema(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """Return the fields of some columns, in the order of the names."""
    return pa.schema([schema.field(name) for name in names])


def gathered(frame: DataFrame) -> DataFrame:
    """Limit the partitions: many small ones would write many small files, and start slowly."""
    return frame.coalesce(most_tasks(frame.sparkSession))


def prepare(
    frame: DataFrame,
    schema: pa.Schema,
    plan: CastPlan,
    on: Sequence[str],
    shipped: Sequence[str],
    check: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]] = iter,
) -> DataFrame:
    """Cast a source's rows, and arrange their columns for a join or a grouping.

    frame: the rows, in wire form, in as few partitions as `gathered` leaves.
    schema: their true schema.
    plan: the casts to the dataset's types; other columns are not read.
    on: the key columns, which become ``k0``, ``k1``, ...
    shipped: further columns to keep, as ``s0``, ``s1``, ...
    check: checks the cast rows of a partition, and passes them on.

    Returns
    -------
    DataFrame
        ``s*``, ``k*`` and ``failure``.
    """
    wanted = set(plan.target.names)
    read = [at for at, name in enumerate(schema.names) if name in wanted]
    own = pa.schema([schema.field(at) for at in read])
    wire = wire_schema(subschema(plan.target, shipped), exact=True)
    keys = key_wire(key_schema(plan.target, on))
    out = pa.schema([*by_position("s", wire), *by_position("k", keys), (FAILURE, pa.binary())])

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for batch in check(cast_all(plan, restore(batches, own))):
                sent = to_spark_batch(batch.select(shipped), wire).columns
                packed = pack_keys(key_columns(batch, on), keys)
                blank = pa.nulls(batch.num_rows, pa.binary())
                yield pa.RecordBatch.from_arrays([*sent, *packed, blank], schema=out)
        except LancekitError as error:
            yield failure_row(error, out)

    names = [f"c{at}" for at in range(len(schema))]
    columns = frame.toDF(*names).select(*(names[at] for at in read))
    return map_batches(columns, work, spark_schema(out))


def failure_row(error: LancekitError, schema: pa.Schema, **others: int) -> pa.RecordBatch:
    """Return a row that carries an error: nulls, and the values of ``others`` for its route.

    A ``SourceChangedError`` is raised instead: if Spark repeats a part of a shuffle, the task that
    would read the row may have ended.
    """
    if isinstance(error, SourceChangedError):
        raise error
    return pa.RecordBatch.from_pylist([{**others, FAILURE: pickle.dumps(error)}], schema=schema)


def raise_failure(failures: pa.Array | pa.ChunkedArray) -> None:
    """Raise the error of a `failure_row`, if any."""
    found = ak.drop_null(failures)
    if len(found):
        raise pickle.loads(found[0].as_py())  # noqa: S301  # made above


# ---- key columns on Spark, compared as in this process
#
# To Spark, 0.0 and -0.0 are one key, to Arrow two.  So floats are compared by their bits, with
# one NaN.  All other types are compared in their exact wire form.


def _bits_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(f.name, FLOAT_BITS.get(f.type, (f.type, f.type))[1]) for f in schema])


def key_wire(schema: pa.Schema) -> pa.Schema:
    """Return the schema in which key columns are compared on Spark."""
    return wire_schema(_bits_schema(schema), exact=True)


def pack_keys(columns: Sequence[pa.Array], wire: pa.Schema) -> list[pa.Array]:
    """Convert key columns to the form of `key_wire`."""
    columns = [comparable(column) if column.type in FLOAT_BITS else column for column in columns]
    batch = pa.RecordBatch.from_arrays(columns, names=wire.names)
    return to_spark_batch(batch, wire).columns


def unpack_keys(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Convert key columns back to the types of a schema."""
    bits = _bits_schema(schema)
    batch = from_spark_batch(ak.combine_chunks(table).to_batches()[0], bits)
    columns = [
        _from_bits(column, field.type) for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.table(columns, names=schema.names)


def _from_bits(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values.view(FLOAT_BITS[kind][0]).cast(kind) if kind in FLOAT_BITS else values
