"""Casts of record batches by a cast plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._format.schema import PRIMARY_KEY
from lancekit._pipeline.casts.plan import CastPlan
from lancekit.errors import NullKeyError


def cast_all(plan: CastPlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cast batches one by one; row numbers in errors count over all batches.

    A batch with too many categories for one file is split.

    Raises NullKeyError: a primary-key column holds a null.
    Raises SchemaMismatchError: a value does not fit.
    """
    first_row = 0
    keys = [f.name for f in plan.target if PRIMARY_KEY.encode() in (f.metadata or {})]
    for batch in batches:
        _check_no_null(batch, keys, first_row)
        yield from plan.pieces(batch, first_row)
        first_row += batch.num_rows


def _check_no_null(batch: pa.RecordBatch, keys: Sequence[str], first_row: int) -> None:
    for name in keys:
        column = batch.column(name) if name in batch.schema.names else None
        if column is not None and ak.null_count(column):
            row = first_row + pc.index(column.is_null(), True).as_py()
            raise NullKeyError(
                f"Primary-key column {name!r} holds {ak.null_count(column)} nulls, "
                f"the first in row {row}.",
                hint="Fill or drop these rows, or choose other columns (primary_key=[] for none).",
                column=name,
                row=row,
            )
