"""The part of a handle that writes whole columns anew."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa

from lancekit.api._handle import Handle
from lancekit.api.pylance.arguments import check_count
from lancekit.checked import checked_methods
from lancekit.operations.columns.add import NewColumns
from lancekit.operations.columns.replace import replace_columns
from lancekit.operations.common.results import UpdateResult
from lancekit.operations.common.retry import RetryPolicy

__all__ = ["Replacing"]


@checked_methods
class Replacing(Handle):
    """New values of columns, for all rows at once."""

    def replace_columns(
        self,
        transforms: Any,
        read_columns: list[str] | None = None,
        reader_schema: pa.Schema | None = None,
        batch_size: int | None = None,
        *,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
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
        rows = None if batch_size is None else check_count("batch_size", batch_size, least=1)
        new = NewColumns(
            transforms=transforms, read_columns=read_columns, schema=reader_schema, batch_size=rows
        )
        policy = RetryPolicy(conflict_retries, retry_timeout)
        return self._move(lambda snapshot: replace_columns(snapshot, new, policy))
