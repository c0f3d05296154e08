"""The part of a handle that changes rows in bulk, columns and files."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa

from lancekit.api._handle import Handle
from lancekit.api.optimizer import DatasetOptimizer
from lancekit.api.pylance.arguments import check_count, check_flag, check_hints
from lancekit.api.pylance.typed_dicts import AlterColumn
from lancekit.checked import checked_methods
from lancekit.format.storage_version import check_storage_version
from lancekit.operations.cleanup.plan import CleanupRequest, CleanupStats, cleanup_request
from lancekit.operations.cleanup.run import CleanupExplanation, clean_up, explain_cleanup
from lancekit.operations.columns.add import NewColumns, add_columns, merge_rows
from lancekit.operations.columns.alter import alter_columns, check_alterations, drop_columns
from lancekit.operations.common.results import UpdateResult
from lancekit.operations.common.retry import RetryPolicy
from lancekit.operations.delete import delete_rows
from lancekit.operations.update import check_updates, check_where, update_columns

__all__ = ["Changing"]


@checked_methods
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
        version = check_storage_version("data_storage_version", data_storage_version)
        return self._move(
            lambda snapshot: update_columns(snapshot, changes, condition, policy, version)
        )

    def truncate_table(self) -> None:
        """Delete all rows, and move the handle; the schema stays."""
        self._move(lambda snapshot: delete_rows(snapshot, "true", RetryPolicy()))

    def add_columns(
        self,
        transforms: Any,
        read_columns: list[str] | None = None,
        reader_schema: pa.Schema | None = None,
        batch_size: int | None = None,
        *,
        on: str | None = None,
    ) -> None:
        """Add columns, and move the handle; the files that are there stay.

        Parameters
        ----------
        transforms
            SQL expressions by the names of new columns; or a function that gets record batches of
            live rows and returns new columns, as a batch, a table or a data frame, one row for
            each; or rows in the dataset's order (Arrow, pandas, a reader); or an Arrow field,
            fields or schema, for columns of nulls.
        read_columns
            The columns that a function gets, hidden ones too; all by default.
        reader_schema
            The new columns that rows or a function bring, and their types.
        batch_size
            The most rows that a function gets at a time, 8192 by default.
        on
            A key column of the dataset and of the rows: they are found by it, whatever their
            order, as in `merge`.  Rows may be a Spark DataFrame then.

        Raises
        ------
        InvalidArgumentError
            A column is there already, or there are fewer or more values than rows.
        PredicateError
            An expression does not fit the schema.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://add-columns-example")
        >>> ds.add_columns({"double": "x * 2"})
        >>> ds.add_columns(pa.field("note", pa.string()))
        >>> ds.to_table().to_pylist()
        [{'x': 1, 'double': 2, 'note': None}, {'x': 2, 'double': 4, 'note': None}]
        """
        if on is not None:
            self.merge(transforms, on, schema=reader_schema)
            return
        rows = None if batch_size is None else check_count("batch_size", batch_size, least=1)
        new = NewColumns(
            transforms=transforms, read_columns=read_columns, schema=reader_schema, batch_size=rows
        )
        self._move(lambda snapshot: (add_columns(snapshot, new), None))

    def merge(
        self,
        data_obj: Any,
        left_on: str,
        right_on: str | None = None,
        schema: pa.Schema | None = None,
    ) -> None:
        """Add the columns of another table, found by a key, and move the handle.

        Rows without a match get nulls; a null key matches nothing.  With a Spark DataFrame, or a
        dataset of ``lk.options.spark_threshold_rows`` while a session is active, Spark joins and
        writes.

        Parameters
        ----------
        data_obj
            Rows as in `write_dataset`.  Of several with one key the last counts; those of a Spark
            DataFrame have no order, and need a key each.
        left_on
            The dataset's key column, or a hidden one such as ``_rowid``.
        right_on
            Their key column, by default of the same name.  Its type is the same, or one of whole
            numbers or of text for another: such keys are cast, without loss.
        schema
            The columns of the rows and their types, as in `write_dataset`.

        Raises
        ------
        ColumnNotFoundError
            A key column is not there.
        InvalidArgumentError
            The keys are of different types, or a column is there already.
        DuplicateKeysError
            A key occurs more than once in a Spark DataFrame.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1, 2]}, "memory://merge-columns-example")
        >>> ds.merge({"id": [2], "name": ["bob"]}, "id")
        >>> ds.to_table().to_pylist()
        [{'id': 1, 'name': None}, {'id': 2, 'name': 'bob'}]
        """
        self._move(
            lambda snapshot: (merge_rows(snapshot, data_obj, schema, left_on, right_on), None)
        )

    def drop_columns(self, columns: list[str]) -> None:
        """Take columns out of the schema, and move the handle; the files stay as they are.

        Parameters
        ----------
        columns
            Names, or paths of nested fields such as ``s.x``.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        InvalidArgumentError
            No column would be left.
        """
        self._move(lambda snapshot: (drop_columns(snapshot, columns), None))

    def alter_columns(self, *alterations: AlterColumn) -> None:
        """Rename columns, make them nullable or not, or cast them; the handle moves.

        Parameters
        ----------
        alterations
            Dictionaries with a ``path`` and at least one of ``name`` (a new one), ``nullable``
            and ``data_type`` (of the same kind: whole numbers, floats, texts, bytes, times,
            lists of these).  Casts write a new file for each fragment.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        InvalidArgumentError
            A name is taken, a column holds nulls that it may not have, it cannot be cast, or an
            index on it would not fit the new values.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://alter-example")
        >>> ds.alter_columns({"path": "x", "name": "n", "data_type": pa.int8()})
        >>> ds.schema.field("n").type
        DataType(int8)
        """
        checked = check_alterations(alterations)
        self._move(lambda snapshot: (alter_columns(snapshot, checked), None))

    def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: list[int] | None = None,
        delete_concurrency: int | None = None,
    ) -> CleanupStats:
        """Remove old versions of the handle's branch, and files that no version needs.

        The handle's version and newer ones stay, and so do tagged ones, those that branches
        forked from, and what any of them refers to.  A shallow clone elsewhere protects nothing.

        Parameters
        ----------
        older_than
            Remove versions that are older; two weeks if nothing else is given.
        retain_versions
            Keep the newest ones, so many of them.
        delete_unverified
            Remove files that belong to no version even if they are not seven days old.  One that
            belongs to a commit under way would be lost: only if nobody else writes.
        error_if_tagged_old_versions
            Whether a tagged version among them is an error, or passed over.
        delete_rate_limit, delete_concurrency
            The most files to remove in a second, and at a time.
        versions
            Remove only these versions.

        Raises
        ------
        RefConflictError
            A version to remove is tagged.
        InvalidArgumentError
            An argument that cannot be used.

        Examples
        --------
        >>> import lancekit as lk
        >>> from datetime import timedelta
        >>> ds = lk.write_dataset({"x": [1]}, "memory://cleanup-example")
        >>> ds.insert({"x": [2]}, mode="overwrite")
        >>> ds.cleanup_old_versions(timedelta(0)).old_versions
        1
        """
        request = _cleanup(
            older_than, retain_versions, delete_unverified, error_if_tagged_old_versions, versions
        )
        limits = {
            "delete_rate_limit": delete_rate_limit,
            "delete_concurrency": delete_concurrency,
        }
        for name, value in limits.items():
            if value is not None:
                check_count(name, value, least=1)
        return clean_up(
            self._snapshot, request, per_second=delete_rate_limit, concurrency=delete_concurrency
        )

    def explain_cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: list[int] | None = None,
        include_files: bool = False,
        max_files: int = 1000,
    ) -> CleanupExplanation:
        """Tell what `cleanup_old_versions` would remove; nothing is.

        The other arguments are those of `cleanup_old_versions`.

        Parameters
        ----------
        include_files, max_files
            Whether to list files, and how many at most.
        """
        check_hints(delete_rate_limit=delete_rate_limit)  # nothing is removed
        request = _cleanup(
            older_than, retain_versions, delete_unverified, error_if_tagged_old_versions, versions
        )
        most = check_count("max_files", max_files, least=1)
        return explain_cleanup(self._snapshot, request, include_files=include_files, max_files=most)

    @property
    def optimize(self) -> DatasetOptimizer:
        """The maintenance of the dataset's files."""
        return DatasetOptimizer(self)


def _cleanup(
    older_than: Any, retain_versions: Any, unverified: Any, tagged: Any, versions: Any
) -> CleanupRequest:
    check_flag("delete_unverified", unverified)
    check_flag("error_if_tagged_old_versions", tagged)
    return cleanup_request(older_than, retain_versions, unverified, tagged, versions)
