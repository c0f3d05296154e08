"""The part of a dataset handle that changes rows and columns."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._arguments.checks import check_count
from lancekit._checked import checked_methods
from lancekit._defaults import CONFLICT_RETRIES, RETRY_TIMEOUT
from lancekit._legible import shown
from lancekit.errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    from lancekit._api.answer import Answer
    from lancekit._api.merge_builder import MergeInsertBuilder
    from lancekit._arguments.record import AlterColumn, Values
    from lancekit._operations.common.results import DeleteResult, UpdateResult
    from lancekit._scan.expressions.objects import Filter


@checked_methods
class Rows(Handle):
    """Deletes, updates and merge-inserts."""

    def delete(
        self,
        predicate: Filter,
        *,
        conflict_retries: int = CONFLICT_RETRIES,
        retry_timeout: timedelta = RETRY_TIMEOUT,
    ) -> DeleteResult:
        """Delete the rows that match a predicate, and move the handle.

        Parameters
        ----------
        predicate
            SQL text, an expression (``lk.col("x") > 3``) or a pyarrow expression; rows where it is
            null stay.
        conflict_retries, retry_timeout
            How often and how long to retry while other writers change the same rows.

        Returns
        -------
        DeleteResult
            The number of deleted rows, and the new version.

        Raises
        ------
        PredicateError
            The predicate does not fit the schema.
        RetriesExhaustedError
            Other writers changed the same rows before every attempt.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://delete-example")
        >>> ds.delete("x > 1").num_deleted_rows
        2
        """
        from lancekit._operations.common.retry import RetryPolicy
        from lancekit._operations.delete import delete_rows

        policy = RetryPolicy(conflict_retries, retry_timeout)
        return self._move(lambda snapshot: delete_rows(snapshot, predicate, policy))

    def update(
        self,
        updates: Values,
        where: Filter | None = None,
        conflict_retries: int = CONFLICT_RETRIES,
        retry_timeout: timedelta = RETRY_TIMEOUT,
        data_storage_version: str | None = None,
    ) -> UpdateResult:
        """Update columns in the rows that match a condition, and move the handle.

        A warning names updated rows that share a new primary key.

        Parameters
        ----------
        updates
            The new value of each column: SQL text, an expression of `col` or `lit`, or a constant
            that is not text (``{"price": 0, "note": lk.lit("closed")}``).  All expressions use the
            old values of the row, so ``{"a": "b", "b": "a"}`` swaps two columns.
        where
            A condition as in `delete`; all rows by default.  Rows where it is null stay.
        conflict_retries, retry_timeout
            How often and how long to retry while other writers change the same rows.
        data_storage_version
            The format of the new files, by default the dataset's.

        Returns
        -------
        UpdateResult
            The number of rows, under pylance's key ``num_rows_updated``.

        Raises
        ------
        ColumnNotFoundError
            A column does not exist.
        PredicateError
            An expression does not fit the schema, or a value does not fit its column.
        RetriesExhaustedError
            Other writers changed the same rows before every attempt.

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

    def truncate_table(self) -> DeleteResult:
        """Delete all rows, and move the handle; the schema stays."""
        from lancekit._operations.common.retry import RetryPolicy
        from lancekit._operations.delete import delete_rows

        return self._move(lambda snapshot: delete_rows(snapshot, "true", RetryPolicy()))

    def merge_insert(
        self,
        on: str | Iterable[str] | None = None,
        *,
        dedupe: Literal["first", "last"] | None = None,
        dedupe_by: str | None = None,
        schema_mode: Literal["merge"] | None = None,
    ) -> MergeInsertBuilder:
        """Set up a merge-insert; `MergeInsertBuilder.execute` runs it.

        Parameters
        ----------
        on
            The key columns, nested ones by their paths (``s.id``); the primary key by default.
        dedupe, dedupe_by
            Which of several source rows with the same key to keep: the ``"first"`` or ``"last"``,
            or the one with the largest value of a column.  By default such rows are an error.
        schema_mode
            ``"merge"``: the merge adds the columns of the rows that the dataset lacks, in the same
            commit.  By default such rows are refused.

        Returns
        -------
        MergeInsertBuilder
            The builder; it does nothing before `MergeInsertBuilder.execute`.

        Raises
        ------
        ColumnNotFoundError
            A key column does not exist.
        InvalidArgumentError
            No column was named, and the dataset has no primary key.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://merge-insert-example", primary_key="id")
        >>> _ = ds.merge_insert().when_not_matched_insert_all().execute({"id": [1, 2]})
        >>> ds.to_table()["id"].to_pylist()
        [1, 2]
        """
        from lancekit._api.merge_builder import MergeInsertBuilder, merge_keys
        from lancekit._api.write_settings import check_schema_mode
        from lancekit._format.paths import find_field, spelled

        schema = self._snapshot.manifest.schema
        names = tuple(spelled(schema, name) for name in merge_keys(schema.to_arrow().names, on))
        names = names or tuple(f.name for f in schema.primary_key)
        if not names:
            raise InvalidArgumentError(
                "A merge-insert needs key columns, but the dataset has no primary key.",
                hint='Pass them: merge_insert(["id"]).',
            )
        for name in names:
            find_field(schema, name)
        builder = MergeInsertBuilder(self, names, new_columns=check_schema_mode(schema_mode))
        if dedupe is None and dedupe_by is None:
            return builder
        return builder.dedupe(dedupe, by=dedupe_by)


# ---- the part of a dataset handle that changes columns


@checked_methods
class Columns(Handle):
    """Access to columns, and their addition, replacement, alteration and removal."""

    def add_columns(
        self,
        transforms: object,
        read_columns: list[str] | None = None,
        reader_schema: pa.Schema | None = None,
        batch_size: int | None = None,
        *,
        on: str | None = None,
        num_threads: int = 1,
    ) -> Answer:
        """Add columns, and move the handle; existing files are not rewritten.

        Parameters
        ----------
        transforms
            SQL expressions or constants by the names of new columns, as in `update`.  Or a function
            from record batches of live rows to new columns with as many rows, as a batch, a table
            or a data frame.  Or rows in the dataset's order (Arrow, pandas, a reader).  Or an Arrow
            field, fields or schema, for columns of nulls.
        read_columns
            The columns that a function receives, also hidden ones; all by default.
        reader_schema
            The names and types of the new columns in rows, or in the results of a function.
        batch_size
            The most rows that a function receives at a time, 8192 by default.
        on
            A key column of the dataset and of the rows, which joins them in any order, as in
            `merge`.  The rows can then be a Spark DataFrame.
        num_threads
            The threads that call a function.  By default all calls come from the thread that called
            this method, one after the other.  With more threads, calls overlap, so the function
            must be safe to call from several threads.  Spark tasks call it in their own processes.

        Returns
        -------
        Answer
            The change, and the call that undoes it.

        Raises
        ------
        InvalidArgumentError
            A column exists already, or the number of values is not the number of rows.
        PredicateError
            An expression does not fit the schema.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://add-columns-example")
        >>> ds.add_columns({"double": "x * 2"})
        added column double · main:2; ds.undo() takes it back
        >>> _ = ds.add_columns(pa.field("note", pa.string()))
        >>> ds.to_table().to_pylist()
        [{'x': 1, 'double': 2, 'note': None}, {'x': 2, 'double': 4, 'note': None}]
        """
        from lancekit._operations.add_columns import NewColumns, add_columns

        if on is not None:
            return self.merge(transforms, on, schema=reader_schema)
        if isinstance(transforms, str):
            raise InvalidTypeError(
                f"New columns must be a dict, rows, a function or fields, got {shown(transforms)}.",
                hint=f"Use ds.add_columns({{{transforms!r}: '1'}}).",
            )
        rows = None if batch_size is None else check_count("batch_size", batch_size, least=1)
        new = NewColumns(
            transforms=transforms,
            read_columns=read_columns,
            schema=reader_schema,
            batch_size=rows,
            num_threads=check_count("num_threads", num_threads, least=1),
        )
        return self._done("add_columns", lambda snapshot: add_columns(snapshot, new))

    def merge(
        self,
        data_obj: object,
        left_on: str,
        right_on: str | None = None,
        schema: pa.Schema | None = None,
    ) -> Answer:
        """Add the columns of another table, joined by a key, and move the handle.

        Rows without a match get nulls; a null key matches no row.  Spark joins and writes if the
        other table is a Spark DataFrame.  Spark also does so for a dataset of
        ``lk.options.spark_threshold_rows`` while a session is active.

        Parameters
        ----------
        data_obj
            Rows as in `write_dataset`.  Of duplicate keys the last row wins.  The rows of a Spark
            DataFrame have no order, so their keys must be unique.
        left_on
            The dataset's key column, or a hidden one such as ``_rowid``.
        right_on
            The key column of the other table, by default of the same name.  Keys are cast without
            loss if both types are whole numbers, or both are text; other types must be equal.
        schema
            The columns of the rows and their types, as in `write_dataset`.

        Returns
        -------
        Answer
            The change, and the call that undoes it.

        Raises
        ------
        ColumnNotFoundError
            A key column does not exist.
        InvalidArgumentError
            The keys have different types, or a column exists already.
        DuplicateKeysError
            A key occurs more than once in a Spark DataFrame.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1, 2]}, "memory://merge-columns-example")
        >>> _ = ds.merge({"id": [2], "name": ["bob"]}, "id")
        >>> ds.to_table().to_pylist()
        [{'id': 1, 'name': None}, {'id': 2, 'name': 'bob'}]
        """
        from lancekit._operations.add_columns import merge_rows

        return self._done(
            "merge", lambda snapshot: merge_rows(snapshot, data_obj, schema, left_on, right_on)
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
        """Replace the values of columns in all rows, and move the handle; the types stay.

        Each fragment gets one new file with these columns.  No row moves, and the other columns are
        not written, and only read if an expression or a function uses them.  So this is the cheap
        way to change one column of a wide table.  `update` is the cheap way to change some rows.

        Parameters
        ----------
        transforms
            SQL expressions by the names of columns, which all use the old values of the row.  Or a
            function that receives record batches of live rows and returns columns of the dataset
            with as many rows.  Or rows in the dataset's order (Arrow, pandas, a reader).
        read_columns
            The columns that a function receives, also hidden ones; all by default.
        reader_schema
            The names and types of the columns in rows, or in the results of a function.
        batch_size
            The most rows that a function receives at a time, 8192 by default.
        num_threads
            The threads that call a function, as in `add_columns`.
        conflict_retries, retry_timeout
            How often and how long to retry while other writers change the same fragments.  Rows are
            not retried, because they can be read only once.

        Returns
        -------
        UpdateResult
            The number of rows, the columns, the new version, and the attempts.

        Raises
        ------
        ColumnNotFoundError
            A column does not exist.
        InvalidArgumentError
            The number of values is not the number of rows.
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

    def drop_columns(self, columns: str | list[str]) -> Answer:
        """Remove columns from the schema, and move the handle; the files are not changed.

        Parameters
        ----------
        columns
            Names, or paths of nested fields such as ``s.x``; a single one can be text.

        Raises
        ------
        ColumnNotFoundError
            A column does not exist.
        InvalidArgumentError
            No column would be left.
        """
        from lancekit._operations.alter_columns import drop_columns

        names = [columns] if isinstance(columns, str) else columns
        return self._done(
            "drop_columns", lambda snapshot: drop_columns(snapshot, names), columns=names
        )

    def alter_columns(self, *alterations: AlterColumn) -> Answer:
        """Rename or cast columns, or change their nullability; the handle moves.

        Parameters
        ----------
        alterations
            Dictionaries with a ``path`` and at least one of ``name``, ``nullable`` and
            ``data_type``.  The new type must be of the same family (whole numbers, floats, texts,
            bytes, times).  Lists and extension types follow their item and storage types.  Casts
            write a new file for each fragment.

        Raises
        ------
        ColumnNotFoundError
            A column does not exist.
        InvalidArgumentError
            A name is in use already, a column with nulls would not be nullable, or a cast is not
            possible.  Or an index would not fit the new values.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://alter-example")
        >>> ds.alter_columns({"path": "x", "name": "n", "data_type": pa.int8()})
        altered 1 column: x (name n, type int8) · main:2; ds.undo() takes it back
        >>> ds.schema.field("n").type
        DataType(int8)
        """
        from lancekit._operations.alter_columns import alter_columns, check_alterations

        checked = check_alterations(alterations)
        return self._done(
            "alter_columns", lambda snapshot: alter_columns(snapshot, checked), changes=checked
        )
