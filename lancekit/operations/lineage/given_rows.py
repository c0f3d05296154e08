"""Conflicts that a function settles: its rows, each in the place of the row that it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import arrow_kernels as ak
from lancekit.errors import SchemaMismatchError
from lancekit.operations.lineage.conflicts import Conflicts
from lancekit.operations.lineage.merged_rows import Settled
from lancekit.operations.lineage.rows import NOWHERE, read_rows
from lancekit.operations.lineage.three_way_plan import ThreeWay
from lancekit.operations.lineage.told_rows import pair_with_conflicts
from lancekit.operations.lineage.write_rows import Given, stored_columns
from lancekit.pipeline.casts.plan import plan_cast
from lancekit.pipeline.diff.row_values import row_values, rows_at_a_time
from lancekit.pipeline.diff.side import Addresses
from lancekit.pipeline.diff.values import differing
from lancekit.pipeline.engine.inputs import as_reader
from lancekit.scan.fragments.category_keys import joined

__all__ = ["settled_by"]


_ID = "_rowid"


def settled_by(plan: ThreeWay, rows: Any) -> tuple[Settled, Given | None]:
    """Return what is to be done if rows say what becomes of the conflicts.

    A row belongs to the conflict with its key, or its ``_rowid``; a conflict without a row is one
    of which nothing is left.

    Raises
    ------
    InvalidArgumentError
        A row belongs to no conflict, or two to the same.
    SchemaMismatchError
        The rows do not fit the columns.
    """
    conflicts = Conflicts(plan)
    names = conflicts.key
    schema = plan.schema.to_arrow()
    wanted = schema if plan.key else schema.append(pa.field(_ID, pa.uint64(), False))
    given = _read(rows, wanted)
    for name in names:
        if name not in given.column_names:
            raise SchemaMismatchError(
                f"The rows that settle the conflicts lack {name!r}, which tells what they are.",
                hint=f"Return rows with all columns and {', '.join(names)}.",
                missing=[name],
            )
    cast = plan_cast(given.schema, wanted)
    batches = [cast.apply(batch) for batch in given.to_batches()]
    table = pa.Table.from_batches(batches, wanted)
    hint = "Return at most one row for each conflict, with its key."
    match = pair_with_conflicts(conflicts.keys(), table, names, hint=hint)
    ours = plan.clashes.ours
    left = np.ones(len(ours), bool)
    left[match.old] = False
    gone = ours[left & (ours != NOWHERE)]
    settled = replace(plan.agreed, deleted=np.union1d(plan.agreed.deleted, gone))
    places = ours[match.old]
    order = np.argsort(places, kind="stable")  # those that are nowhere come last
    chosen = ak.cast(ak.take(table.select(schema.names), match.new[order]), schema)
    replaced = places[order][places[order] != NOWHERE]
    origins = plan.clashes.theirs[match.old[order]][len(replaced) :]
    return settled, Given(chosen, replaced, _widths(plan, chosen, replaced), origins)


def _widths(plan: ThreeWay, rows: pa.Table, places: Addresses) -> npt.NDArray[np.int64]:
    """Count the values in which the first rows differ from rows of ours, in its columns."""
    widths = np.zeros(len(places), np.int64)
    columns = [pair for pair in stored_columns(plan) if not pair.is_lacked]
    side, step = read_rows(plan.ours, places, plan.ours.manifest.schema), rows_at_a_time(columns)
    for start in range(0, len(places), step):
        part = places[start : start + step]
        before = row_values(columns, side, part, new=True)
        for pair, values in zip(columns, before, strict=True):
            given = rows[pair.name].slice(start, len(part))
            widths[start : start + step] += differing(values, joined(given.chunks, pair.kind))
    return widths


def _read(rows: Any, wanted: pa.Schema) -> pa.Table:
    """Return rows as a table; Python's may have the hidden column that tells them, too."""
    if isinstance(rows, list) and not rows:
        return wanted.empty_table()
    if isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows):
        rows = {name: [row.get(name) for row in rows] for name in dict.fromkeys(chain(*rows))}
    if not isinstance(rows, Mapping) or _ID not in rows:
        return as_reader(rows, None, wanted).read_all()
    others = {name: values for name, values in rows.items() if name != _ID}
    table = as_reader(others, None, wanted).read_all()
    return table.append_column(_ID, pa.array(rows[_ID], pa.uint64()))
