"""The part of a handle that changes rows in bulk, columns and files."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from lancekit.handle import Handle
from lancekit.operations.compact_plan import check_file_version
from lancekit.operations.delete import delete_rows
from lancekit.operations.results import UpdateResult
from lancekit.operations.retry import RetryPolicy
from lancekit.operations.update import check_updates, check_where, update_columns
from lancekit.optimize import DatasetOptimizer

__all__ = ["Changing"]


class Changing(Handle):
    """Updates, changes of the schema, compaction, cleanup."""

    def update(
        self,
        updates: dict[str, str],
        where: Any = None,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
        data_storage_version: str | None = None,
    ) -> UpdateResult:
        """Give columns new values in the rows that a condition selects, and move the handle.

        Parameters
        ----------
        updates
            An SQL expression for each column to change.  All of them see the row as it was, so
            ``{"a": "b", "b": "a"}`` swaps two columns.
        where
            SQL text or a pyarrow expression; all rows by default.  Rows for which it is null stay.
        conflict_retries, retry_timeout
            How often and how long to do it again when others change the same rows meanwhile.
        data_storage_version
            The format of the new files, that of the dataset by default.

        Returns
        -------
        UpdateResult
            The number of rows, under pylance's key ``num_rows_updated``.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        PredicateError
            An expression does not fit the schema, or a value does not fit its column.
        RetriesExhaustedError
            Others changed the same rows before every attempt.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2], "y": [10, 20]}, "memory://update-example")
        >>> ds.update({"x": "y", "y": "x"}, where="x = 2")["num_rows_updated"]
        1
        >>> ds.to_table(filter="x = 20").to_pylist()
        [{'x': 20, 'y': 2}]
        """
        changes, condition = check_updates(updates), check_where(where)
        policy = RetryPolicy(conflict_retries, retry_timeout)
        version = check_file_version("data_storage_version", data_storage_version)
        return self._move(
            lambda snapshot: update_columns(snapshot, changes, condition, policy, version)
        )

    def truncate_table(self) -> None:
        """Delete all rows, and move the handle; the schema stays."""
        self._move(lambda snapshot: delete_rows(snapshot, "true", RetryPolicy()))

    @property
    def optimize(self) -> DatasetOptimizer:
        """The maintenance of the dataset's files."""
        return DatasetOptimizer(self)
