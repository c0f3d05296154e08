"""What a scan asks for of rows that a search has chosen."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import flags_of
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragment_rows import block_rows, computed
from lancekit._scan.fragments.reader import column_field
from lancekit._scan.outputs import Output
from lancekit._scan.scan import Scan
from lancekit._scan.take import rows_at

__all__ = ["POSITION", "Narrowed", "chosen_rows", "fulfilling"]

#: makes of a filter one that asks more of rows; of ``None`` what asks no more than that
Narrowed: TypeAlias = Callable[[Predicate | None], Predicate]

#: the column of the rows' positions in the dataset
POSITION = "position"


def fulfilling(
    scan: Scan, positions: npt.NDArray[np.int64], predicate: Predicate
) -> npt.NDArray[np.bool_]:
    """Tell which rows of a scan's fragments fulfil a filter, whose columns are read of them."""
    sources = sorted(scan.sources, key=lambda source: source.first_row)
    names = sorted(predicate.columns)
    columns = [Output(column_field(sources[0].schema, name), path=name) for name in names]
    return flags_of(predicate.mask(rows_at(sources, columns, positions)))


def chosen_rows(scan: Scan, wanted: pa.Table, late: Predicate | None) -> Generator[pa.Table]:
    """Yield the outputs of a scan of some rows, in their order.

    Parameters
    ----------
    wanted
        Where the rows are (`POSITION`), and what the search makes of them, by its columns' names.
    late
        What is asked of the rows that were chosen.
    """
    made = [name for name in wanted.column_names if name != POSITION]
    names = set[str]().union(*(output.inputs for output in scan.request.outputs))
    names |= set() if late is None else late.columns
    names -= set(made)
    sources = sorted(scan.sources, key=lambda source: source.first_row)
    schema = sources[0].schema
    inputs = [Output(column_field(schema, name), path=name) for name in sorted(names)]
    step = block_rows(schema, replace(scan.request, outputs=tuple(inputs), predicate=None))
    for start in range(0, wanted.num_rows, step):
        found = wanted.slice(start, step)
        rows = rows_at(sources, inputs, found[POSITION].to_numpy())
        arrays = dict(zip([one.column for one in inputs], rows.columns, strict=True))
        arrays |= {name: found[name] for name in made}
        if late is not None:
            asked = {*late.columns, made[-1]}  # a constant has rows, too
            mask = late.mask(pa.table({name: arrays[name] for name in sorted(asked)}))
            kept = np.flatnonzero(flags_of(mask))
            arrays = {name: ak.take(array, kept) for name, array in arrays.items()}
        yield computed(scan.request.outputs, arrays, len(arrays[made[-1]]))
