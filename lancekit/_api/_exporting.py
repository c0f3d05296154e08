"""The part of a dataset handle that gives rows and versions to other libraries and places."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lancekit._api._handle import Handle
from lancekit._arguments.checks import check_count
from lancekit._arguments.record import takes
from lancekit._arguments.scan import ScanArguments
from lancekit._checked import checked_methods

if TYPE_CHECKING:
    import duckdb
    import polars as pl

    from lancekit._api.scanner import LanceScanner
    from lancekit._arguments.record import Columns
    from lancekit._operations.common.new_file import WrittenFiles


@checked_methods
class Exporting(Handle):
    """Frames and relations of other libraries, exported files, and packs."""

    @takes(
        ScanArguments,
        "columns filter limit offset nearest batch_size batch_readahead fragment_readahead "
        "scan_in_order",
    )
    def to_polars(self, arguments: ScanArguments) -> pl.DataFrame:
        """Read rows into a Polars DataFrame; `lancekit.scan_polars` returns a lazy frame.

        Returns
        -------
        polars.DataFrame
            The rows.

        Raises
        ------
        NotOfferedError
            The package ``polars`` is not installed.
        UnsupportedTypeError
            Polars has no type for a column.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://to-polars-example")
        >>> ds.to_polars(filter="x > 1")["x"].to_list()
        [2, 3]
        """
        from lancekit._pipeline.frames import polars_frame

        return polars_frame(self._scanned(arguments).to_table())

    def to_duckdb(
        self,
        connection: duckdb.DuckDBPyConnection | None = None,
        *,
        columns: Columns = None,
        filter: object = None,  # noqa: A002
    ) -> duckdb.DuckDBPyRelation:
        """Return a DuckDB relation over this version; each of its queries reads again.

        Batches are read while the query runs.  DuckDB does not pass the columns and filters of its
        queries to the scan: pass ``columns`` and ``filter`` to read less.

        Parameters
        ----------
        connection
            The connection of the relation.  By default DuckDB's own.
        columns, filter
            As in `to_table`.

        Returns
        -------
        duckdb.DuckDBPyRelation
            The relation.

        Raises
        ------
        NotOfferedError
            The package ``duckdb`` is not installed.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://to-duckdb-example")
        >>> ds.to_duckdb().aggregate("sum(x)").fetchall()
        [(6,)]
        """
        from lancekit._api.exports import duckdb_relation

        wanted = ScanArguments(columns=columns, filter=filter)
        return duckdb_relation(self._scanned(wanted), connection)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        columns: Columns = None,
        filter: object = None,  # noqa: A002
        overwrite: bool = False,
        max_rows_per_file: int = 1 << 20,
    ) -> WrittenFiles:
        """Write rows to a Parquet file, a CSV file, or a folder of Parquet files.

        Rows are read and written batch by batch.  The file or folder appears when it is complete.
        Blobs are written as bytes, JSON as text.  CSV files have times with a zone in UTC, and
        ``lk.read_csv(path, schema=ds.schema)`` reads the same values.  Nulls are empty fields; a
        CSV file of one column has empty lines for them, which pandas and pyarrow skip: it warns.

        Parameters
        ----------
        path
            A name that ends with ``.parquet`` or ``.csv``, or a folder, on the local disk.
        columns, filter
            As in `to_table`.
        overwrite
            Replace a file, or a folder with files of an export.
        max_rows_per_file
            The most rows of a file in a folder.

        Returns
        -------
        WrittenFiles
            The path, the number of rows and files, and their size in bytes.

        Raises
        ------
        DatasetExistsError
            There is such a file or folder, or the folder has other files.
        UnsupportedTypeError
            The file cannot hold a column.  Nothing is written.
        InvalidArgumentError
            The suffix is unknown, or the folder of ``path`` does not exist.

        Examples
        --------
        >>> ds.export("prices.csv", columns=["id", "price"], filter="price > 3")  # doctest: +SKIP
        """
        from lancekit._api.exports import exported

        most = check_count("max_rows_per_file", max_rows_per_file, least=1)
        wanted = ScanArguments(columns=columns, filter=filter, blob_handling="all_binary")
        return exported(self, wanted, path, overwrite=overwrite, most=most)

    def pack(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> WrittenFiles:
        """Write this version with all of its files to a zip file: `lancekit.unpack` reads it.

        The zip file contains a complete dataset of one version, with its schema, metadata, config
        and indices.  Files in base paths are copied.  It has no tags, branches, or rows of shards.

        Parameters
        ----------
        path
            The zip file, on the local disk.
        overwrite
            Replace an existing file.

        Returns
        -------
        WrittenFiles
            The path, the number of rows, entries and bytes.

        Raises
        ------
        DatasetExistsError
            The file exists.
        NotOfferedError
            The version refers to blobs outside of the dataset.
        CorruptFileError
            A file of the version is missing.

        Examples
        --------
        >>> ds.pack("prices.zip").num_rows  # doctest: +SKIP
        """
        from lancekit._operations.common.new_file import local_path
        from lancekit._operations.maintenance.packed import pack_version

        return pack_version(self._snapshot, local_path(path, "pack()"), overwrite=overwrite)

    def _scanned(self, arguments: ScanArguments) -> LanceScanner:
        from lancekit._api.scanner import scan_of

        arguments = arguments.over(self._scan_defaults)
        self._check_shards(requested=arguments.include_mem_wal)
        return scan_of(self._snapshot, arguments)
