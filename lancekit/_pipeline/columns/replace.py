"""New values of whole columns, for `pipeline.columns` to write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._pipeline.columns.write import Calls, Maker
from lancekit._scan.expressions.assignment import Assignment
from lancekit.errors import SchemaMismatchError

__all__ = ["Assigned", "Filled"]


@dataclass(frozen=True, slots=True)
class Assigned:
    """Columns of SQL expressions over the rows as they were, in the columns' own types."""

    assignments: tuple[Assignment, ...]
    calls: None = None

    @property
    def columns(self) -> Sequence[str]:
        """The columns that the expressions read."""
        read = {name for a in self.assignments for name in a.expression.columns}
        return sorted(read) or ["_rowaddr"]

    def make(self, rows: pa.Table) -> Sequence[pa.Array]:
        """Evaluate the expressions."""
        return [assignment.evaluate(rows) for assignment in self.assignments]


@dataclass(frozen=True, slots=True)
class Filled:
    """Columns of another maker, where those that take no nulls have none."""

    maker: Maker
    schema: pa.Schema

    @property
    def columns(self) -> Sequence[str]:
        """The columns that the maker reads."""
        return self.maker.columns

    @property
    def calls(self) -> Calls | None:
        """How the maker is called."""
        return self.maker.calls

    def make(self, rows: pa.Table) -> Sequence[pa.Array | pa.ChunkedArray]:
        """Make the columns, and look for nulls."""
        made = self.maker.make(rows)
        for field, values in zip(self.schema, made, strict=True):
            if ak.null_count(values) and not field.nullable:
                raise SchemaMismatchError(
                    f"{ak.null_count(values)} of {len(values)} new values of column {field.name!r} "
                    "are null, and it cannot be null.",
                    hint="Give these rows another value, or make the column nullable: "
                    f"alter_columns({{'path': {field.name!r}, 'nullable': True}}).",
                    column=field.name,
                )
        return made
