"""Rows of generations that a table does not take, and why."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lancekit import arrow_compute as pc
from lancekit import arrow_kernels as ak
from lancekit.errors import (
    ConstraintViolationError,
    LancekitError,
    NullKeyError,
    PredicateError,
    SchemaMismatchError,
    UnsupportedTypeError,
)
from lancekit.file.columns.split_leaves import columns_of_20
from lancekit.format.schema import LanceSchema
from lancekit.operations.constraints.of_rows import RowConstraints
from lancekit.operations.constraints.stored import Constraint
from lancekit.operations.mem_wal.newest_rows import NewestRows
from lancekit.pipeline.casts.batches import cast_all
from lancekit.pipeline.casts.plan import plan_cast
from lancekit.scan.expressions.condition import Condition
from lancekit.versions.snapshot import Snapshot

__all__ = ["OF_ROWS", "refused_rows"]

#: errors of a merge that a row may be the reason of
OF_ROWS = (
    ConstraintViolationError,
    NullKeyError,
    PredicateError,
    SchemaMismatchError,
    UnsupportedTypeError,
)

Check = Callable[[pa.RecordBatch], object]
Refused = tuple[int, str]


def refused_rows(table: Snapshot, rows: NewestRows) -> dict[int, str]:
    """Return the rows that a version does not take, by their places, and the reason for each.

    Conditions of the whole table name no row.
    """
    checks, found = _Checks.of(table), dict[int, str]()
    first = 0
    for batch in rows.reader():
        for row, reason in checks.refused(batch):
            found.setdefault(int(rows.places[first + row]), reason)
        first += batch.num_rows
    return found


@dataclass(frozen=True, slots=True)
class _Checks:
    """The checks of rows that a merge makes."""

    schema: LanceSchema
    constraints: RowConstraints
    is_20: bool

    @classmethod
    def of(cls, table: Snapshot) -> _Checks:
        manifest = table.manifest
        is_20 = manifest.new_file_version == "2.0"
        return cls(manifest.schema, RowConstraints.of(table), is_20)

    def refused(self, batch: pa.RecordBatch) -> Iterator[Refused]:
        """Yield the rows of a batch that fail a check; a row may come several times."""
        for constraint, condition, _ in self.constraints.conditions:
            try:
                yield from _all(condition.broken.mask(batch), _breaks(constraint))
            except PredicateError:
                yield from _apart(batch, _single(constraint, condition))
        sound = np.ones(batch.num_rows, bool)
        for field in batch.schema:
            if not field.nullable and ak.null_count(nulls := batch.column(field.name)):
                sound &= ~nulls.is_null().to_numpy(zero_copy_only=False)
                yield from _all(nulls.is_null(), f"column {field.name!r} takes no nulls")
        left = ak.filter(batch, sound)
        places = np.flatnonzero(sound)
        yield from ((int(places[row]), reason) for row, reason in _apart(left, self._store))

    def _store(self, batch: pa.RecordBatch) -> None:
        """Bring rows into the form that files have."""
        form = self.schema.to_arrow()
        for rows in cast_all(plan_cast(form, form), [batch]):
            for field in self.schema.fields:
                if self.is_20 and field.children:
                    deque(columns_of_20(rows.column(field.name), field), maxlen=0)


def _all(mask: pa.Array, reason: str) -> Iterator[Refused]:
    return ((int(row), reason) for row in np.flatnonzero(pc.fill_null(mask, False)))


def _breaks(constraint: Constraint) -> str:
    return f"breaks the constraint {constraint.name!r} ({constraint.condition})"


def _single(constraint: Constraint, condition: Condition) -> Check:
    def check(batch: pa.RecordBatch) -> None:
        try:
            broken = pc.any(condition.broken.mask(batch)).as_py()
        except PredicateError as error:
            cannot = f"the constraint {constraint.name!r} cannot be computed: {error.message}"
            raise PredicateError(cannot) from error
        if broken:
            raise ConstraintViolationError(_breaks(constraint))

    return check


def _apart(batch: pa.RecordBatch, check: Check, first: int = 0) -> Iterator[Refused]:
    """Yield the rows that fail a check which names none: halves of the rows are tried in turn."""
    if not batch.num_rows:
        return
    try:
        check(batch)
    except OF_ROWS as error:
        if batch.num_rows == 1:
            yield first, _in_a_line(error)
            return
        half = batch.num_rows // 2
        yield from _apart(batch.slice(0, half), check, first)
        yield from _apart(batch.slice(half), check, first + half)


def _in_a_line(error: LancekitError) -> str:
    return " ".join(error.message.split())
