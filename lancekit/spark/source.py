"""The rows of a write or a merge as a Spark DataFrame, or brought to Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from lancekit.format.fragment import Fragment
from lancekit.pipeline.casts import CastPlan
from lancekit.pipeline.inputs import as_reader, is_spark_dataframe
from lancekit.pipeline.merge import MergeClauses, MergeWork
from lancekit.pipeline.probe import key_values
from lancekit.pipeline.source import cast_all, duplicate_keys
from lancekit.pipeline.write import WriteTask, delete_fragments, write_fragments
from lancekit.scan.sources import FragmentSource
from lancekit.spark.jobs import collect, run_action
from lancekit.spark.keys import unpack_keys
from lancekit.spark.merge import merge_on_spark
from lancekit.spark.prepare import (
    FAILURE,
    by_place,
    gathered,
    pick,
    prepare,
    raise_failure,
    restore,
)
from lancekit.spark.session import spark_session
from lancekit.spark.types import arrow_schema, spark_schema, to_spark_batch, wire_schema

__all__ = ["SparkSource"]

#: keys that are brought back for a message
_SAMPLE = 20


@dataclass(frozen=True, slots=True)
class SparkSource:
    """Rows that are worked on by Spark's tasks.

    Every job reads the rows anew, so a source that gives others each time (``rand()``, a sample, a
    table that grows) should be written to a table first.  An error that names a row counts within
    a partition.

    Attributes
    ----------
    frame
        The rows, in wire form.
    schema
        Their schema: of an Arrow source its own types, which Spark may not have.
    """

    frame: Any
    schema: pa.Schema
    engine: str = "spark"

    @classmethod
    def open(cls, data: Any, schema: pa.Schema | None) -> SparkSource:
        """Return a Spark DataFrame, or any rows that `as_reader` takes, as a source.

        Raises
        ------
        UnsupportedTypeError
            A column of a type that Spark, or Arrow, has no equal for.
        InvalidTypeError
            The data are of no kind that can be read as rows.
        """
        if is_spark_dataframe(data):
            return cls(data, arrow_schema(data.schema))
        table = as_reader(data, schema).read_all()
        wire = wire_schema(table.schema, exact=True)
        sent = pa.Table.from_batches(
            [to_spark_batch(batch, wire) for batch in table.to_batches()], wire
        )
        # by place, for Spark takes `a` and `A` for one
        named = by_place("c", wire)
        frame = spark_session().createDataFrame(
            sent.rename_columns(named.names), spark_schema(named)
        )
        return cls(frame, table.schema)

    def write(self, plan: CastPlan, task: WriteTask) -> list[Fragment]:
        """Cast the rows and write them, at least one file per partition that has rows.

        There are at most two partitions per core; the fragments come in the partitions' order.
        """
        schema = self.schema

        def work(batches: Iterable[pa.RecordBatch]) -> list[Fragment]:
            return write_fragments(cast_all(plan, restore(batches, schema)), task)

        discard = partial(delete_fragments, task.store)
        written = collect(gathered(self.frame), work, discard=discard)
        return [fragment for fragments in written for fragment in fragments]

    def check_keys(self, plan: CastPlan, on: tuple[str, ...]) -> None:
        """Raise ``DuplicateKeysError`` if a key, without a null, occurs more than once."""
        schema = pick(plan.target, on)
        keys = [f"k{at}" for at in range(len(on))]
        known = " and ".join(f"{key} is not null" for key in keys)
        rows = prepare(self.frame, self.schema, CastPlan(source=plan.source, target=schema), on, ())
        groups = rows.groupBy(*keys, FAILURE).count()
        found = groups.where(f"{FAILURE} is not null or (`count` > 1 and {known})")
        session = self.frame.sparkSession
        sample = run_action(session, found.limit(_SAMPLE).toArrow)
        raise_failure(sample.column(FAILURE))
        if sample.num_rows:
            total = run_action(session, found.selectExpr("sum(`count`) as n").toArrow)
            repeated = unpack_keys(sample.select(keys), schema)
            shown = key_values(repeated, on, np.arange(repeated.num_rows))
            raise duplicate_keys(on, shown, total.column("n")[0].as_py())

    def merge(
        self,
        plan: CastPlan,
        target: Sequence[FragmentSource],
        clauses: MergeClauses,
        task: WriteTask,
    ) -> MergeWork:
        """Work out a merge of the cast rows; may be called again on a newer target."""
        return merge_on_spark(self.frame, self.schema, plan, target, clauses, task)
