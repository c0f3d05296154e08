"""Rows that somebody names by their keys, each with the conflict that it is."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lancekit import arrow_kernels as ak
from lancekit.errors import InvalidArgumentError
from lancekit.legible import literals, python_value
from lancekit.pipeline.diff.match import Matches, match_keys
from lancekit.pipeline.diff.values import Seeds, digests

__all__ = ["pair_with_conflicts"]


def pair_with_conflicts(
    conflicts: pa.Table, rows: pa.Table, key: Sequence[str], *, hint: str
) -> Matches:
    """Pair conflicts (old) with rows (new) by their keys, which have the types of ``rows``.

    Raises
    ------
    InvalidArgumentError
        A row belongs to no conflict, or two to the same; ``hint`` is what to do.
    """
    seeds = Seeds.drawn()
    old, new = (
        digests([_array(part[name], rows.schema.field(name).type) for name in key], seeds)
        for part in (conflicts, rows)
    )
    found = match_keys(old, new)
    if len(found.alone.new) or len(found.repeated.new):
        at = int([*found.alone.new, *found.repeated.new][0])
        told = {name: python_value(rows[name][at]) for name in key}
        raise InvalidArgumentError(
            f"The row with {literals(told)} settles no conflict, or one that another row settles.",
            hint=hint,
            row=told,
        )
    return found


def _array(values: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    joined = ak.combine_chunks(values)
    return joined if joined.type == kind else ak.cast(joined, kind)
