"""A merge on Spark that updates columns where the rows are.

The new values of a fragment meet in one task, which writes the fragment's file.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import arrow_kernels as ak
from lancekit.errors import LancekitError
from lancekit.format import row_address
from lancekit.pipeline.columns.column_patch import (
    Patch,
    Patched,
    all_patched,
    try_patch,
)
from lancekit.pipeline.keys.repeated import repeated_since_checked
from lancekit.pipeline.merge.plan import MergeWork, guard_hashes
from lancekit.pipeline.merge.rewrite_columns import patch_task, rewritten_columns
from lancekit.pipeline.merge.strategy import MatchPlan
from lancekit.pipeline.rows.new_files import WriteTarget
from lancekit.scan.fragments.source import FragmentSource
from lancekit.spark.frames.types import from_spark_batch, spark_schema, to_spark_batch, wire_schema
from lancekit.spark.frames.wire_rows import (
    FAILURE,
    by_place,
    failure_row,
    raise_failure,
)
from lancekit.spark.jobs.client import most_tasks
from lancekit.spark.jobs.collect import collect, map_batches
from lancekit.spark.merge.merge_task import ADDRESS, MatchedRows, MergeTask, concatenated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["rewrite_fragments"]

_PIECE = "piece"


@dataclass(frozen=True, slots=True)
class _Part:
    """What a task wrote, and the hashes of the primary keys of its rows."""

    patched: tuple[Patched, ...]
    hashes: npt.NDArray[np.uint64]


def rewrite_fragments(
    frame: DataFrame,
    read: Callable[[Iterable[pa.RecordBatch]], Iterator[MatchedRows]],
    work: MergeTask,
    target: Sequence[FragmentSource],
    match: MatchPlan,
    skipped: int | None,
) -> MergeWork:
    """Write the source's columns anew for the fragments that have a match.

    Parameters
    ----------
    frame, read
        The source's rows with the addresses that they match, and how a task reads them.
    work
        What is done with them.
    target
        The target's fragments.
    match, skipped
        As in `MergeWork`.
    """
    most = most_tasks(frame.sparkSession)
    count = max(min(len(target), most), 1)  # a source that cannot be cast is an error of any table
    wire = wire_schema(work.source, exact=True)
    out = pa.schema(
        [*by_place("s", wire), (ADDRESS, pa.int64()), (_PIECE, pa.int32()), (FAILURE, pa.binary())]
    )
    ids = np.array([source.fragment.id for source in target])
    laid = map_batches(frame, _LayOut(read, work, ids, count, wire, out), spark_schema(out))
    # every row to the task that writes its fragment
    laid = laid.repartitionById(count, _PIECE).sortWithinPartitions(ADDRESS)
    packed = tuple(
        pickle.dumps({s.fragment.id: s for s in target[place::count]}) for place in range(count)
    )
    own = (WriteTarget(work.task.store),)
    parts = collect(laid, _Rewrite(work, packed), written_to=own)
    patched = tuple(each for part in parts for each in part.patched)
    hashes = concatenated([part.hashes for part in parts])
    return MergeWork(
        patched=patched,
        updated=sum(len(part.rows) for part in patched),
        skipped=skipped,
        inserted_hashes=hashes if work.clauses.guard else None,
        match=match,
    )


@dataclass(frozen=True)
class _LayOut:
    """Keeps the rows that update others, and says which task each goes to."""

    read: Callable[[Iterable[pa.RecordBatch]], Iterator[MatchedRows]]
    work: MergeTask
    ids: npt.NDArray[np.int64]
    count: int
    wire: pa.Schema
    out: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for joined in self.read(batches):
                rows = pa.array(joined.updates(self.work.condition))
                source, address = ak.take(joined.source, rows), ak.take(joined.address, rows)
                place = np.searchsorted(self.ids, row_address.fragment_ids(address.to_numpy()))
                columns = [
                    *to_spark_batch(source, self.wire).columns,
                    address,
                    pa.array(place % self.count, pa.int32()),
                    pa.nulls(len(address), pa.binary()),
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=self.out)
        except LancekitError as error:
            yield failure_row(error, self.out, **{_PIECE: 0})


@dataclass(frozen=True)
class _Rewrite:
    """Writes the files of the fragments whose rows come to a task."""

    work: MergeTask
    packed: tuple[bytes, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> _Part:
        clauses, task = self.work.clauses, self.work.task
        columns = rewritten_columns(self.work.source.names, clauses.on)
        write = patch_task(task, columns)
        found: list[Patched | LancekitError] = []
        hashes: list[npt.NDArray[np.uint64]] = []
        by_id: Mapping[int, FragmentSource] = {}
        for piece, id_, offsets, values in self._by_fragment(batches):
            by_id = by_id or pickle.loads(self.packed[piece])  # noqa: S301  # made by the driver
            if (np.diff(offsets) == 0).any():
                found.append(repeated_since_checked(clauses.on))
                break
            hashes.append(guard_hashes(values, clauses))
            patch = Patch(
                source=by_id[id_], offsets=offsets, values=values.select(columns), write=write
            )
            found.append(try_patch(patch))
        return _Part(all_patched(found, task.store), concatenated(hashes))

    def _by_fragment(
        self, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[tuple[int, int, npt.NDArray[np.int64], pa.Table]]:
        """Yield each fragment's rows together; they come sorted."""
        width = len(self.work.source)
        held: list[pa.RecordBatch] = []
        offsets: list[npt.NDArray[np.int64]] = []
        last = piece = -1
        for batch in batches:
            raise_failure(batch.column(FAILURE))
            if not batch.num_rows:
                continue
            piece = batch.column(_PIECE)[0].as_py()  # all rows of a task have the same
            addresses = batch.column(ADDRESS).to_numpy()
            source = from_spark_batch(batch.select(range(width)), self.work.source)
            ids = row_address.fragment_ids(addresses)
            cuts = [0, *(np.flatnonzero(np.diff(ids)) + 1).tolist(), len(ids)]
            for start, stop in pairwise(cuts):
                if held and ids[start] != last:
                    yield piece, last, np.concatenate(offsets), pa.Table.from_batches(held)
                    held, offsets = [], []
                last = int(ids[start])
                held.append(source.slice(start, stop - start))
                offsets.append(row_address.offsets(addresses[start:stop]))
        if held:
            yield piece, last, np.concatenate(offsets), pa.Table.from_batches(held)
