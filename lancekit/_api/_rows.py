"""The part of a handle that changes rows and columns."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._arguments.checks import check_count, check_names
from lancekit._checked import checked_methods
from lancekit._defaults import CONFLICT_RETRIES, RETRY_TIMEOUT
from lancekit._legible import shown
from lancekit.errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    from lancekit._api.column import DatasetColumn
    from lancekit._api.merge_builder import MergeInsertBuilder
    from lancekit._arguments.record import AlterColumn
    from lancekit._operations.common.results import DeleteResult, UpdateResult


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
        from lancekit._format.data_file import check_storage_version
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


# ---- the part of a handle that changes columns


@checked_methods
class Columns(Handle):
    """Columns looked at, added, replaced, altered and dropped."""

    #: rows are read by `to_batches`; ``ds[...]`` alone would make a handle a sequence of columns
    __iter__ = None

    def __getitem__(self, column: str) -> DatasetColumn:
        """Return a column of this version: its card, and ``.statistics()`` of its values.

        Raises
        ------
        ColumnNotFoundError
            There is no column, or field of a struct, of that name or path.
        """
        from lancekit._api.column import DatasetColumn

        if not isinstance(column, str):
            raise InvalidTypeError(
                f"ds[...] got {shown(column)}.",
                hint='Pass the name of a column, ds["name"]; rows are read by ds.take([0]).',
            )
        return DatasetColumn(self._snapshot, column)

    def _ipython_key_completions_(self) -> list[str]:
        return self._snapshot.manifest.schema.names

    def add_columns(
        self,
        transforms: object,
        read_columns: list[str] | None = None,
        reader_schema: pa.Schema | None = None,
        batch_size: int | None = None,
        *,
        on: str | None = None,
        num_threads: int = 1,
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
        num_threads
            The threads that call a function.  By default all calls come from the thread that
            called this method, one after the other; with more, calls overlap, so the function must
            be safe to call from several threads.  On Spark, tasks call it in their own processes.

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
        from lancekit._operations.add_columns import NewColumns, add_columns

        if on is not None:
            self.merge(transforms, on, schema=reader_schema)
            return
        rows = None if batch_size is None else check_count("batch_size", batch_size, least=1)
        new = NewColumns(
            transforms=transforms,
            read_columns=read_columns,
            schema=reader_schema,
            batch_size=rows,
            num_threads=check_count("num_threads", num_threads, least=1),
        )
        self._move(lambda snapshot: (add_columns(snapshot, new), None))

    def merge(
        self,
        data_obj: object,
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
        from lancekit._operations.add_columns import merge_rows

        self._move(
            lambda snapshot: (merge_rows(snapshot, data_obj, schema, left_on, right_on), None)
        )

    def replace_columns(
        self,
        transforms: object,
        read_columns: list[str] | None = None,
        reader_schema: pa.Schema | None = None,
        batch_size: int | None = None,
        *,
        num_threads: int = 1,
        conflict_retries: int = CONFLICT_RETRIES,
        retry_timeout: timedelta = RETRY_TIMEOUT,
    ) -> UpdateResult:
        """Give columns new values in all rows, and move the handle; their types stay.

        Each fragment gets one new file with these columns.  No row moves, and the other columns
        are neither read (if the values are not made of them) nor written, so this is the cheap way
        to change one column of a wide table; `update` is that for some of the rows.

        Parameters
        ----------
        transforms
            SQL expressions by the names of columns, which all see the row as it was; or a function
            that gets record batches of live rows and returns columns of the dataset, one row for
            each; or rows in the dataset's order (Arrow, pandas, a reader).
        read_columns
            The columns that a function gets, hidden ones too; all by default.
        reader_schema
            The columns that a function or rows bring, and their types.
        batch_size
            The most rows that a function gets at a time, 8192 by default.
        num_threads
            The threads that call a function, as in `add_columns`.
        conflict_retries, retry_timeout
            How often and how long to do it again when others change the same fragments meanwhile;
            not for rows, which can be read only once.

        Returns
        -------
        UpdateResult
            The number of rows, the columns, the new version, and how it went.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        InvalidArgumentError
            There are fewer or more values than rows.
        PredicateError, SchemaMismatchError
            An expression or its values do not fit the columns.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2], "y": ["a", "b"]}, "memory://replace-example")
        >>> ds.replace_columns({"x": "x * 10"})["num_rows_updated"]
        2
        >>> _ = ds.replace_columns([{"y": "c"}, {"y": "d"}])
        >>> ds.to_table().to_pylist()
        [{'x': 10, 'y': 'c'}, {'x': 20, 'y': 'd'}]
        """
        from lancekit._operations.add_columns import NewColumns
        from lancekit._operations.common.retry import RetryPolicy
        from lancekit._operations.replace_columns import replace_columns

        rows = None if batch_size is None else check_count("batch_size", batch_size, least=1)
        new = NewColumns(
            transforms=transforms,
            read_columns=read_columns,
            schema=reader_schema,
            batch_size=rows,
            num_threads=check_count("num_threads", num_threads, least=1),
        )
        policy = RetryPolicy(conflict_retries, retry_timeout)
        return self._move(lambda snapshot: replace_columns(snapshot, new, policy))

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
        from lancekit._operations.alter_columns import drop_columns

        self._move(lambda snapshot: (drop_columns(snapshot, columns), None))

    def alter_columns(self, *alterations: AlterColumn) -> None:
        """Rename columns, make them nullable or not, or cast them; the handle moves.

        Parameters
        ----------
        alterations
            Dictionaries with a ``path`` and at least one of ``name`` (a new one), ``nullable``
            and ``data_type`` (of the same kind: whole numbers, floats, texts, bytes, times,
            lists of these, extension types that are stored as these).  Casts write a new file
            for each fragment.

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
        from lancekit._operations.alter_columns import alter_columns, check_alterations

        checked = check_alterations(alterations)
        self._move(lambda snapshot: (alter_columns(snapshot, checked), None))
