"""The part of a handle that changes rows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from lancekit._api._handle import Handle
from lancekit._arguments.checks import (
    check_names,
)
from lancekit._checked import checked_methods
from lancekit._defaults import CONFLICT_RETRIES, RETRY_TIMEOUT
from lancekit.errors import InvalidArgumentError

if TYPE_CHECKING:
    from lancekit._api.merge_builder import MergeInsertBuilder
    from lancekit._operations.common.results import DeleteResult, UpdateResult

__all__ = ["Rows"]


@checked_methods
class Rows(Handle):
    """Deletes, updates and merge-inserts."""

    def delete(
        self,
        predicate: object,
        *,
        conflict_retries: int = CONFLICT_RETRIES,
        retry_timeout: timedelta = RETRY_TIMEOUT,
    ) -> DeleteResult:
        """Delete the rows that a predicate selects, and move the handle.

        Parameters
        ----------
        predicate
            SQL text or a pyarrow expression; rows for which it is null stay.
        conflict_retries, retry_timeout
            How often and how long to do it again when others change the same rows meanwhile.

        Raises
        ------
        PredicateError
            It does not fit the schema.
        RetriesExhaustedError
            Others changed the same rows before every attempt.
        """
        from lancekit._operations.common.retry import RetryPolicy
        from lancekit._operations.delete import delete_rows

        policy = RetryPolicy(conflict_retries, retry_timeout)
        return self._move(lambda snapshot: delete_rows(snapshot, predicate, policy))

    def update(
        self,
        updates: dict[str, str],
        where: object = None,
        conflict_retries: int = CONFLICT_RETRIES,
        retry_timeout: timedelta = RETRY_TIMEOUT,
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
        from lancekit._format.storage_version import check_storage_version
        from lancekit._operations.common.retry import RetryPolicy
        from lancekit._operations.update import check_updates, check_where, update_columns

        changes, condition = check_updates(updates), check_where(where)
        policy = RetryPolicy(conflict_retries, retry_timeout)
        version = check_storage_version("data_storage_version", data_storage_version)
        return self._move(
            lambda snapshot: update_columns(snapshot, changes, condition, policy, version)
        )

    def truncate_table(self) -> None:
        """Delete all rows, and move the handle; the schema stays."""
        from lancekit._operations.common.retry import RetryPolicy
        from lancekit._operations.delete import delete_rows

        self._move(lambda snapshot: delete_rows(snapshot, "true", RetryPolicy()))

    def merge_insert(
        self,
        on: str | Iterable[str] | None = None,
        *,
        dedupe: str | None = None,
        dedupe_by: str | None = None,
    ) -> MergeInsertBuilder:
        """Start a merge-insert on key columns, the primary key by default.

        A path such as ``s.id`` is a key inside a struct.  Of several source rows of one key
        ``dedupe`` keeps the ``"first"`` or the ``"last"``, ``dedupe_by`` that with the largest
        value of a column; else they are refused.

        Raises
        ------
        ColumnNotFoundError
            A key column is not in the schema.
        InvalidArgumentError
            No column was named, and the dataset has no primary key.
        """
        from lancekit._api.merge_builder import MergeInsertBuilder
        from lancekit._format.paths import find_field, spelled

        schema = self._snapshot.manifest.schema
        names = tuple(spelled(schema, name) for name in check_names("on", on))
        names = names or tuple(f.name for f in schema.primary_key)
        if not names:
            raise InvalidArgumentError(
                "A merge-insert needs key columns, and the dataset has no primary key.",
                hint='Name them: merge_insert(["id"]).',
            )
        for name in names:
            find_field(schema, name)
        builder = MergeInsertBuilder(self, names)
        if dedupe is None and dedupe_by is None:
            return builder
        return builder.dedupe(dedupe, by=dedupe_by)
