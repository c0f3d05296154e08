"""`ExecutionPlan`: what a planner has planned, to be run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

__all__ = ["ExecutionPlan"]


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """A look-up or search that is planned; each run reads what there is then.

    Attributes
    ----------
    schema
        The schema of the result.
    dataset_schema
        That of the table.
    """

    schema: pa.Schema
    dataset_schema: pa.Schema
    _told: Callable[[], str]
    _run: Callable[[], pa.Table]

    def explain(self) -> str:
        """Tell what a run would read."""
        return self._told()

    def to_table(self) -> pa.Table:
        """Run it, and return the rows."""
        return self._run()

    def to_reader(self) -> pa.RecordBatchReader:
        """Run it, and return the rows as an Arrow reader."""
        return self.to_table().to_reader()

    def to_batches(self) -> list[pa.RecordBatch]:
        """Run it, and return the rows in batches."""
        return self.to_table().to_batches()
