"""The parts of a fragment that read its rows, and that change it for a hand-made commit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._api.lance_schema import LanceSchema
from lancekit._api.planned_scan import OneFragment, output_columns
from lancekit._api.scanner import LanceScanner, scan_of
from lancekit._arguments.checks import check_count
from lancekit._arguments.record import Columns, takes
from lancekit._arguments.scan import FragmentFrameArguments, FragmentScanArguments, ScanArguments
from lancekit._checked import checked_methods
from lancekit._format.extensions import resolved
from lancekit._format.fragment import Fragment
from lancekit._operations.add_columns import NewColumns, key_like
from lancekit._operations.replace_columns import (
    add_to_fragment,
    join_to_fragment,
    update_in_fragment,
)
from lancekit._pipeline.inputs import as_reader
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.take import parse_positions, take_rows

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class FragmentSession:
    """Reads the same columns of a fragment repeatedly; made by `LanceFragment.open_session`."""

    _fragment: ReadingFragment
    _columns: Columns

    def take(self, indices: object) -> pa.Table:
        """Read rows by their positions among the fragment's live rows."""
        return self._fragment.take(indices, self._columns)


@checked_methods
class ReadingFragment(OneFragment):
    """Scans and positional reads of one fragment, with pylance's signatures."""

    _dataset: Handle

    @property
    def metadata(self) -> Fragment:
        """The fragment's entry in the manifest."""
        return self.source.fragment

    def count_rows(self, filter: object = None) -> int:  # noqa: A002
        """Count the fragment's rows, or only the rows that match a filter."""
        if filter is None:
            return self.metadata.num_rows
        return self.scanner(columns=[], filter=filter).count_rows()

    @takes(FragmentScanArguments, "")
    def scanner(self, arguments: FragmentScanArguments) -> LanceScanner:
        """Set up a scan of the fragment; nothing is read yet.

        Returns
        -------
        LanceScanner
            The scan.

        Raises
        ------
        ColumnNotFoundError, PredicateError
            A column or a filter does not fit the schema.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://fragment-scanner-example")
        >>> ds.get_fragments()[0].scanner(filter="x > 1").count_rows()
        2
        """
        return self._scan(arguments)

    def _scan(self, arguments: FragmentScanArguments | FragmentFrameArguments) -> LanceScanner:
        whole = arguments.as_(ScanArguments, fragments=[self])
        return scan_of(self._dataset._snapshot, whole)

    @takes(
        FragmentScanArguments,
        "columns filter limit offset with_row_id with_row_address blob_handling order_by "
        "use_scalar_index io_buffer_size late_materialization include_deleted_rows "
        "batch_size_bytes strict_batch_size",
    )
    def to_table(self, arguments: FragmentScanArguments) -> pa.Table:
        """Read the fragment's rows into an Arrow table.

        Returns
        -------
        pyarrow.Table
            The rows.

        Raises
        ------
        ColumnNotFoundError, PredicateError
            A column or a filter does not fit the schema.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://fragment-table-example")
        >>> ds.get_fragments()[0].to_table(limit=1).to_pydict()
        {'x': [1]}
        """
        return self._scan(arguments).to_table()

    @takes(FragmentScanArguments, "")
    def to_batches(self, arguments: FragmentScanArguments) -> Iterator[pa.RecordBatch]:
        """Read the fragment's rows batch by batch.

        Returns
        -------
        iterator of pyarrow.RecordBatch
            The rows; they are read as the iterator advances.

        Raises
        ------
        ColumnNotFoundError, PredicateError
            A column or a filter does not fit the schema.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://fragment-batches-example")
        >>> [batch.num_rows for batch in ds.get_fragments()[0].to_batches(batch_size=2)]
        [2, 1]
        """
        return self._scan(arguments).to_batches()

    @takes(
        FragmentFrameArguments,
        "columns filter limit offset batch_size with_row_id with_row_address blob_mode order_by",
    )
    def to_pandas(self, arguments: FragmentFrameArguments) -> pd.DataFrame:
        """Read the fragment's rows into a pandas DataFrame, as `LanceDataset.to_pandas` does.

        Returns
        -------
        pandas.DataFrame
            The rows.

        Raises
        ------
        ColumnNotFoundError, PredicateError
            A column or a filter does not fit the schema.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://fragment-pandas-example")
        >>> ds.get_fragments()[0].to_pandas()["x"].tolist()
        [1, 2, 3]
        """
        scanner = self._scan(arguments)
        return scanner.to_pandas(blob_mode=arguments.blob_mode, **arguments.for_arrow())

    def take(self, indices: object, columns: Columns = None) -> pa.Table:
        """Read rows by their positions among the fragment's live rows.

        Parameters
        ----------
        indices
            Positions from 0 on, in any order.
        columns
            As in `LanceDataset.take`.

        Returns
        -------
        pyarrow.Table
            The rows in the given order.

        Raises
        ------
        RowOutOfRangeError
            A position does not exist.
        ColumnNotFoundError
            A column does not exist.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://fragment-take-example")
        >>> ds.get_fragments()[0].take([2, 0])["x"].to_pylist()
        [3, 1]
        """
        schema = blob_view(self._dataset._snapshot.manifest.schema)
        rows = self.metadata.num_rows
        positions = parse_positions(indices, rows)
        alone, ends = replace(self.source, first_row=0), np.array([rows])
        wanted = output_columns(columns)
        return resolved(take_rows([alone], ends, wanted, positions, schema))

    def open_session(
        self,
        columns: list[str] | dict[str, str] | None = None,
        with_row_address: bool | None = None,
    ) -> FragmentSession:
        """Return an object for repeated `take` calls.

        Parameters
        ----------
        columns
            As in `take`.
        with_row_address
            Whether to append ``_rowaddr``.

        Returns
        -------
        FragmentSession
            An object with the method ``take(indices)``.

        Raises
        ------
        InvalidTypeError
            ``columns`` is not a list or dict; a column that does not exist is an error of ``take``.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://fragment-session-example")
        >>> ds.get_fragments()[0].open_session(["x"], True).take([1]).to_pydict()
        {'x': [2], '_rowaddr': [1]}
        """
        if with_row_address and isinstance(columns, dict):
            columns = {**columns, "_rowaddr": "_rowaddr"}
        elif with_row_address:
            names = self._dataset._snapshot.manifest.schema.names
            columns = [*(names if columns is None else columns), "_rowaddr"]
        return FragmentSession(self, columns)

    def head(self, num_rows: int) -> pa.Table:
        """Read the fragment's first rows."""
        return self.scanner().head(num_rows)


# ---- the part of a fragment that changes it, for a hand-made commit


@checked_methods
class ChangingFragment(OneFragment):
    """Writes files for a new state of the fragment, and returns the state without a commit."""

    _dataset: Handle

    def merge_columns(
        self,
        value_func: object,
        columns: list[str] | None = None,
        batch_size: int | None = None,
        reader_schema: pa.Schema | None = None,
    ) -> tuple[Fragment, LanceSchema]:
        """Write new columns, for a commit of `LanceOperation.Merge`.

        Parameters
        ----------
        value_func
            As ``transforms`` of `LanceDataset.add_columns`, for the rows of the fragment.
        columns, batch_size, reader_schema
            As ``read_columns``, ``batch_size`` and ``reader_schema`` of `LanceDataset.add_columns`.

        Returns
        -------
        tuple
            The fragment with a new file, and the schema to commit.

        Raises
        ------
        InvalidArgumentError
            A column exists already.
        PredicateError
            An expression does not fit the schema.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://fragment-columns-example")
        >>> fragment, schema = ds.get_fragments()[0].merge_columns({"y": "x * 10"})
        >>> change = lk.LanceOperation.Merge([fragment], schema)
        >>> lk.LanceDataset.commit(ds, change, ds.version).to_table()["y"].to_pylist()
        [10, 20]
        """
        rows = None if batch_size is None else check_count("batch_size", batch_size, least=1)
        new = NewColumns(
            transforms=value_func, read_columns=columns, schema=reader_schema, batch_size=rows
        )
        fragment, schema = add_to_fragment(self._dataset._snapshot, self.source, new)
        return fragment, LanceSchema(schema)

    def merge(
        self,
        data_obj: object,
        left_on: str,
        right_on: str | None = None,
        schema: pa.Schema | None = None,
    ) -> tuple[Fragment, LanceSchema]:
        """Write columns of another table, joined by a key, as in `LanceDataset.merge`.

        Parameters
        ----------
        data_obj, left_on, right_on, schema
            As in `LanceDataset.merge`.

        Returns
        -------
        tuple
            The fragment with a new file, and the schema to commit.

        Raises
        ------
        ColumnNotFoundError
            A key column does not exist.
        SchemaMismatchError
            The key columns differ in type.
        InvalidArgumentError
            A column exists already.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1, 2]}, "memory://fragment-merge-example")
        >>> new = {"id": [2, 1], "y": ["b", "a"]}
        >>> fragment, schema = ds.get_fragments()[0].merge(new, "id")
        >>> change = lk.LanceOperation.Merge([fragment], schema)
        >>> lk.LanceDataset.commit(ds, change, ds.version).to_table()["y"].to_pylist()
        ['a', 'b']
        """
        snapshot, on = self._dataset._snapshot, right_on or left_on
        table = as_reader(data_obj, schema, key_like(snapshot, left_on, on)).read_all()
        fragment, joined = join_to_fragment(snapshot, self.source, table, left_on, on)
        return fragment, LanceSchema(joined)

    def update_columns(
        self,
        data_obj: object,
        left_on: str = "_rowid",
        right_on: str | None = None,
        schema: pa.Schema | None = None,
        *,
        with_offsets: bool = False,
    ) -> tuple[Fragment, list[int]] | tuple[Fragment, list[int], bytes]:
        """Rewrite columns, for a commit of `LanceOperation.Update` in mode ``rewrite_columns``.

        Parameters
        ----------
        data_obj
            The new values with their keys; of duplicate keys the last row wins.  Rows of the
            fragment without a match keep their values.
        left_on, right_on
            The key column of the fragment, and of the new values.
        schema
            The columns of the new values and their types, as in `lancekit.write_dataset`.
        with_offsets
            Also return the offsets of the matched rows, as a portable Roaring bitmap.

        Returns
        -------
        tuple
            The fragment, the ids of the written fields, and the offsets if requested.

        Raises
        ------
        ColumnNotFoundError
            A column does not exist.
        SchemaMismatchError
            The key columns differ in type, or new values do not fit their column.
        InvalidArgumentError
            There are no columns but the key.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1, 2], "v": ["a", "b"]}, "memory://fragment-update-example")
        >>> fragment, fields = ds.get_fragments()[0].update_columns({"id": [2], "v": ["B"]}, "id")
        >>> fields
        [1]
        """
        snapshot, on = self._dataset._snapshot, right_on or left_on
        known = [field for field in snapshot.row_schema if field.name != on]
        like = pa.schema([*known, *key_like(snapshot, left_on, on)])
        table = as_reader(data_obj, schema, like).read_all()
        fragment, ids, rows = update_in_fragment(snapshot, self.source, table, left_on, on)
        return (fragment, ids, bytes(rows.serialize())) if with_offsets else (fragment, ids)
