"""A source joined with the target's keys by Spark, where keys are too many to travel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancekit._pipeline.casts.plan import CastPlan
from lancekit._pipeline.keys.probe import key_values
from lancekit._pipeline.keys.source_keys import key_schema, repeated_in_source
from lancekit._scan.fragment_rows import ScanRequest
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.outputs import plan_columns
from lancekit._spark.frames.scan import fragment_frame
from lancekit._spark.frames.types import from_spark_batch, to_spark_batch, wire_schema
from lancekit._spark.frames.wire_rows import (
    FAILURE,
    by_place,
    gathered,
    key_wire,
    pack_keys,
    prepare,
    raise_failure,
    unpack_keys,
)
from lancekit._spark.jobs.collect import run_action
from lancekit._spark.merge.cached_source import CachedSource, SameKeys
from lancekit._spark.merge.merge_task import ADDRESS, MatchedRows, MergeTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["check_by_grouping", "join_frame"]

#: keys that are brought back for a message
_SAMPLE = 20


def check_by_grouping(held: CachedSource, plan: CastPlan, on: tuple[str, ...]) -> None:
    """Raise ``DuplicateKeysError`` if a key of the source, without a null, is there twice."""
    schema = key_schema(plan.target, on)
    keys = [f"k{at}" for at in range(len(on))]
    known = " and ".join(f"{key} is not null" for key in keys)
    rows = prepare(held.frame, held.schema, plan, on, ())
    groups = rows.groupBy(*keys, FAILURE).count()
    found = groups.where(f"{FAILURE} is not null or (`count` > 1 and {known})")
    session = held.frame.sparkSession
    sample = run_action(session, found.limit(_SAMPLE).toArrow)
    raise_failure(sample.column(FAILURE))
    if sample.num_rows:
        total = run_action(session, found.selectExpr("sum(`count`) as n").toArrow)
        repeated = unpack_keys(sample.select(keys), schema)
        shown = key_values(repeated, on, np.arange(repeated.num_rows))
        raise repeated_in_source(on, shown, total.column("n")[0].as_py())


def join_frame(
    held: CachedSource,
    plan: CastPlan,
    check: SameKeys,
    target: Sequence[FragmentSource],
    work: MergeTask,
    *,
    broadcast: bool,
) -> tuple[DataFrame, Callable[[Iterable[pa.RecordBatch]], Iterator[MatchedRows]]]:
    """Return the source's rows with what they match, and how a task reads them.

    Parameters
    ----------
    held, plan
        The source, and the casts to the dataset's types.
    check
        Tells whether a partition has the keys that it had.
    target
        The target's fragments.
    work
        What is done with the rows, which says what is needed of both sides.
    broadcast
        Whether the target's keys go to the tasks that hold the source, or both sides are sorted.
    """
    on = work.clauses.on
    source = prepare(held.frame, held.schema, plan, on, work.source.names, check)
    if work.clauses.dedupe_by is not None:
        source = _largest(source, work, work.clauses.dedupe_by)
    keys = _target_keys(held.frame.sparkSession, target, work)
    names = [f"k{at}" for at in range(len(on))]
    # Spark thinks that a scan has as many rows as tasks, and would broadcast any target.
    joined = source.join(keys.hint("broadcast" if broadcast else "merge"), names, "left")
    s, t = by_place("s", work.source).names, by_place("t", work.lent).names
    rows = joined.select(*s, *t, FAILURE, ADDRESS)
    # the source's partitions were gathered; to gather them again would give tasks other numbers,
    # by which `check` knows a partition
    return rows if broadcast else gathered(rows), _Reader(work.source, work.lent)


def _largest(source: DataFrame, work: MergeTask, by: str) -> DataFrame:
    """Keep of the rows of one key that with the largest value; all rows without a whole key."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    order = f.col(f"s{work.source.get_field_index(by)}")
    if pa.types.is_floating(work.source.field(by).type):
        order = f.nanvl(order, f.lit(None))
    keys = [f"k{at}" for at in range(len(work.clauses.on))]
    window = Window.partitionBy(*keys).orderBy(order.desc_nulls_last())
    known = " and ".join(f"{key} is not null" for key in keys)
    numbered = source.withColumn("place", f.row_number().over(window))
    return numbered.where(f"place = 1 or not ({known}) or {FAILURE} is not null").drop("place")


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads joined rows on a worker."""

    source: pa.Schema
    lent: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[MatchedRows]:
        width = len(self.source)
        for batch in batches:
            raise_failure(batch.column(FAILURE))
            places = range(batch.num_columns)
            yield MatchedRows(
                source=from_spark_batch(batch.select(places[:width]), self.source),
                lent=from_spark_batch(batch.select(places[width:-2]), self.lent),
                address=batch.column(ADDRESS),
            )


def _target_keys(
    session: SparkSession, target: Sequence[FragmentSource], work: MergeTask
) -> DataFrame:
    """Return the target's keys as ``k*``, what it lends as ``t*``, and its rows' addresses."""
    schema, on = work.task.schema, work.clauses.on
    names = list(dict.fromkeys([*on, *work.lent.names]))
    request = ScanRequest(outputs=plan_columns(schema, [*names, "_rowaddr"]))
    keys = key_wire(key_schema(schema.to_arrow(), on))
    lent = wire_schema(work.lent, exact=True)
    out = pa.schema([*by_place("k", keys), *by_place("t", lent), (ADDRESS, pa.int64())])

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        packed = pack_keys([batch.column(name) for name in on], keys)
        sent = to_spark_batch(batch.select(lent.names), lent).columns
        address = batch.column("_rowaddr").cast(pa.int64())
        return pa.RecordBatch.from_arrays([*packed, *sent, address], schema=out)

    return fragment_frame(session, target, request, convert, out)
