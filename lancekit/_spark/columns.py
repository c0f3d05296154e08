"""New columns that Spark joins by a key, sorts by row address, and writes.

Only the keys of the dataset are read.  The values of each fragment go to one task, which writes
them beside the fragment.  A fragment without a match gets no file.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._format import row_address
from lancekit._format.fragment import Fragment
from lancekit._pipeline.casts.plan import CastPlan
from lancekit._pipeline.column_patch import Arriving
from lancekit._pipeline.write_columns import ColumnsTask, write_columns
from lancekit._pipeline.write_rows import WriteTarget, delete_fragments
from lancekit._scan.fragment_rows import ScanRequest
from lancekit._scan.fragments.reader import column_field
from lancekit._scan.outputs import plan_columns
from lancekit._spark.frames.scan import fragment_frame
from lancekit._spark.frames.types import typed_parts
from lancekit._spark.frames.wire_rows import FAILURE, key_wire, pack_keys, prepare, raise_failure
from lancekit._spark.jobs.client import most_tasks
from lancekit._spark.jobs.collect import collect
from lancekit._spark.merge.merge_task import ADDRESS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PIECE = "piece"


def write_joined(
    frame: DataFrame,
    schema: pa.Schema,
    plan: CastPlan,
    tasks: Sequence[ColumnsTask],
    left_on: str,
    right_on: str,
) -> list[Fragment]:
    """Write columns of a frame beside the fragments whose rows have its keys.

    frame, schema: the rows in wire form, by position, and their true schema.
    plan: casts the key ``right_on`` and the new columns to the dataset's types.
    tasks: the fragments and the columns to write; their makers are not used.
    left_on: the dataset's key column.

    Returns
    -------
    list
        The fragments in the order of the tasks; fragments without a match are unchanged.

    Raises DuplicateKeysError: a row of the dataset has several matches.
    """
    if not tasks:
        return []
    session = frame.sparkSession
    new = tasks[0].write.schema.to_arrow()
    ordered = sorted(tasks, key=lambda task: task.source.fragment.id)
    parts = _parts(ordered, most_tasks(session))
    bounds = np.array([part[0].source.fragment.id for part in parts[1:]], np.int64)
    source = prepare(frame, schema, plan, [right_on], new.names)
    # a left join keeps the rows that carry a failure
    joined = source.join(_keys(session, ordered, left_on, bounds).hint("merge"), ["k0"], "left")
    matched = joined.where(f"{ADDRESS} is not null or {FAILURE} is not null")
    names = [f"s{at}" for at in range(len(new))]
    chosen = matched.selectExpr(*names, ADDRESS, FAILURE, f"coalesce({_PIECE}, 0) as {_PIECE}")
    laid = chosen.repartitionById(len(parts), _PIECE).sortWithinPartitions(ADDRESS)
    packed = tuple(pickle.dumps({t.source.fragment.id: t for t in part}) for part in parts)
    written = collect(
        laid,
        _Write(new, left_on, packed),
        written_to=(WriteTarget(tasks[0].write.store),),
        what="adding columns",
    )
    by_id = {fragment.id: fragment for fragments in written for fragment in fragments}
    sources = (task.source.fragment for task in tasks)
    return [by_id.get(fragment.id, fragment) for fragment in sources]


def _parts(tasks: Sequence[ColumnsTask], most: int) -> list[Sequence[ColumnsTask]]:
    """Split tasks into parts of about equal numbers of rows."""
    ends = np.cumsum([task.source.fragment.physical_rows for task in tasks])
    cuts = np.searchsorted(ends, ends[-1] * np.arange(1, most) / most, side="left") + 1
    starts = np.unique(np.minimum([0, *cuts], len(tasks) - 1))
    return [tasks[a:b] for a, b in zip(starts, [*starts[1:], len(tasks)], strict=True)]


def _keys(
    session: object, tasks: Sequence[ColumnsTask], left_on: str, bounds: npt.NDArray[np.int64]
) -> DataFrame:
    """Return the dataset's keys, with their rows' addresses and the numbers of their parts."""
    schema = tasks[0].source.schema
    keys = key_wire(pa.schema([("k0", column_field(schema, left_on).type)]))
    outputs = plan_columns(schema, list(dict.fromkeys([left_on, "_rowaddr"])))
    out = pa.schema([("k0", keys.types[0]), (ADDRESS, pa.int64()), (_PIECE, pa.int32())])

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        address = batch.column("_rowaddr").cast(pa.int64())
        places = np.searchsorted(bounds, row_address.fragment_ids(address.to_numpy()), side="right")
        packed = pack_keys([batch.column(left_on)], keys)
        columns = [*packed, address, pa.array(places, pa.int32())]
        return pa.RecordBatch.from_arrays(columns, schema=out)

    sources = [task.source for task in tasks]
    return fragment_frame(session, sources, ScanRequest(outputs=outputs), convert, out)


@dataclass(frozen=True)
class _Write:
    """A function that writes the columns of a part's fragments on a worker."""

    new: pa.Schema
    left_on: str
    packed: tuple[bytes, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> list[Fragment]:
        pieces: list[int] = []
        arriving = Arriving(self._values(batches, pieces), self.new, self.left_on)
        tasks: dict[int, ColumnsTask] = {}
        written: list[Fragment] = []
        try:
            while (address := arriving.address()) is not None:
                tasks = tasks or pickle.loads(self.packed[pieces[0]])  # noqa: S301  # made above
                task = tasks[row_address.parts(address)[0]]
                written.append(write_columns(replace(task, maker=arriving)))
        except BaseException:
            if written:
                store = next(iter(tasks.values())).write.store
                delete_fragments(store, (replace(f, files=f.files[-1:]) for f in written))
            raise
        return written

    def _values(
        self, batches: Iterable[pa.RecordBatch], pieces: list[int]
    ) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            raise_failure(batch.column(FAILURE))
            if batch.num_rows:
                pieces.append(batch.column(_PIECE)[0].as_py())
                for values, rows in typed_parts(batch, self.new):
                    yield values.append_column(ADDRESS, rows.column(ADDRESS))
