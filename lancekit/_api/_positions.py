"""The part of a dataset handle that reads single rows: by position, by id, at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._arguments.checks import check_count, check_hints
from lancekit._checked import TAKEN_ELSEWHERE, checked_methods, not_taken_here
from lancekit._defaults import READ_AHEAD
from lancekit.errors import InvalidArgumentError

if TYPE_CHECKING:
    from lancekit._api.blob_values import BlobFile
    from lancekit._arguments.record import Columns
    from lancekit._scan.fragments.blobs import BlobPlace
    from lancekit._scan.fragments.source import FragmentSources
    from lancekit._scan.take import Numbers


@checked_methods
class Positions(Handle):
    """Random access to rows of the handle's version."""

    def take(self, indices: list[int] | pa.Array, columns: Columns = None) -> pa.Table:
        """Read the rows at the given positions, in the given order.

        Parameters
        ----------
        indices
            Positions from 0 on.  Duplicates are allowed.
        columns
            As in `scanner`, except that a path ``s.x`` returns column ``s`` with only ``x``.  A
            repeated hidden column such as ``_rowid`` is returned repeatedly, other columns once.

        Returns
        -------
        pyarrow.Table
            One row for each position.

        Raises
        ------
        RowOutOfRangeError
            A position is negative, or not below `count_rows`.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> ds = lk.write_dataset(pa.table({"x": [10, 20, 30]}), "memory://take-example")
        >>> ds.take([2, 0])["x"].to_pylist()
        [30, 10]
        """
        from lancekit._scan.take import parse_positions

        positions = parse_positions(indices, self._snapshot.manifest.num_rows)
        return self._take(lambda _: positions, columns)

    def _take_rows(
        self,
        row_ids: list[int] | pa.Array,
        columns: Columns = None,
        *,
        ignore_deletions: bool = False,
        with_row_id: bool = False,
        with_row_address: bool = False,
    ) -> pa.Table:
        """Read the rows with the given row ids, in the given order; deleted rows are left out.

        Parameters
        ----------
        row_ids
            Values of ``_rowid``: stable ids, or addresses.  Duplicates are allowed.
        columns
            As in `take`.
        ignore_deletions
            A hint: it is checked, and changes no result.
        with_row_id, with_row_address
            Append ``_rowid`` or ``_rowaddr``.

        Raises
        ------
        RowNotFoundError
            The ids are addresses, and there never was a row at one.
        """
        from lancekit._scan.take import row_positions

        check_hints(ignore_deletions=ignore_deletions)
        hidden = {"_rowid": with_row_id, "_rowaddr": with_row_address}
        more = [name for name, wanted in hidden.items() if wanted and name not in (columns or ())]
        if isinstance(columns, dict):
            columns = {**columns, **{name: name for name in more}}
        elif more:
            known = self._snapshot.manifest.schema.names if columns is None else columns
            columns = [*known, *more]
        return self._take(lambda sources: row_positions(sources, row_ids), columns)

    def _take(
        self, positions: Callable[[FragmentSources], npt.NDArray[np.int64]], columns: Columns
    ) -> pa.Table:
        from lancekit._api.planned_scan import output_columns
        from lancekit._format.extensions import resolved
        from lancekit._scan.fragments.blobs import blob_view
        from lancekit._scan.fragments.source import fragment_sources
        from lancekit._scan.take import take_rows

        schema = blob_view(self._snapshot.manifest.schema)
        sources = fragment_sources(self._snapshot, schema)
        outputs = output_columns(columns)
        table = take_rows(sources, sources.ends, outputs, positions(sources), schema)
        if not table.num_columns:
            return table
        metadata = dict(self._snapshot.manifest.schema.metadata)
        return resolved(table.replace_schema_metadata(metadata or None))

    def sample(
        self, num_rows: int, columns: Columns = None, randomize_order: bool = True, **kwargs: object
    ) -> pa.Table:
        """Read random rows, each at most once.

        Parameters
        ----------
        num_rows
            The number of rows.
        columns
            As in `take`.
        randomize_order
            Return the rows in random order; otherwise in row order.

        Returns
        -------
        pyarrow.Table
            The rows.

        Raises
        ------
        InvalidArgumentError
            The version has fewer rows.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": range(100)}, "memory://random-example")
        >>> ds.sample(5, ["x"]).num_rows
        5
        """
        rows = check_count("num_rows", num_rows)
        if kwargs:
            refused = next(iter(kwargs))
            if refused in TAKEN_ELSEWHERE:
                raise not_taken_here("LanceDataset.sample", refused)
            raise InvalidArgumentError(
                f"sample({refused}=...) is not supported.", hint="Filter after taking the sample."
            )
        total = self._snapshot.manifest.num_rows
        if rows > total:
            raise InvalidArgumentError(f"Cannot sample {rows} rows: the version has {total}.")
        drawn = np.random.default_rng().choice(total, rows, replace=False)
        positions = drawn if randomize_order else np.sort(drawn)
        return self._take(lambda _: positions, columns)

    def take_blobs(
        self,
        blob_column: str,
        ids: list[int] | pa.Array | None = None,
        addresses: list[int] | pa.Array | None = None,
        indices: list[int] | pa.Array | None = None,
        *,
        buffer_size: int = READ_AHEAD,
    ) -> list[BlobFile | None]:
        """Return blobs as files, in the given order; ``None`` for a null.

        Parameters
        ----------
        blob_column
            The name of the column, or the path of a nested one.
        ids, addresses, indices
            Exactly one of: row ids, row addresses, or positions.
        buffer_size
            The number of bytes to read ahead.

        Returns
        -------
        list of BlobFile or None
            One file for each row.

        Raises
        ------
        ColumnNotFoundError, InvalidArgumentError
            The column does not exist, or has no blobs.
        RowOutOfRangeError
            A position does not exist.
        RowNotFoundError
            No row has the id or address, or the row was deleted.
        UntrustedBaseError
            A blob is outside of the dataset's folder, in a place that
            ``lancekit.options.trusted_bases`` does not list.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> rows = pa.table([lk.blob_array([b"abc"])], schema=pa.schema([lk.blob_field("b")]))
        >>> ds = lk.write_dataset(rows, "memory://take-blobs-example")
        >>> ds.take_blobs("b", indices=[0])[0].read()
        b'abc'
        """
        from lancekit._api.blob_values import BlobFile

        rows = _only_selector(ids=ids, addresses=addresses, indices=indices)
        _, places = self._blob_places(blob_column, *rows)
        return [None if place is None else BlobFile(place, buffer_size) for place in places]

    def read_blobs(
        self,
        blob_column: str,
        ids: list[int] | pa.Array | None = None,
        addresses: list[int] | pa.Array | None = None,
        indices: list[int] | pa.Array | None = None,
        *,
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, bytes | None]]:
        """Read whole blobs, in the given order.

        Parameters
        ----------
        blob_column, ids, addresses, indices
            As in `take_blobs`.
        io_buffer_size, preserve_order
            Hints that change no result.

        Returns
        -------
        list of tuple
            The row's address and the bytes, ``None`` for a null.

        Raises
        ------
        ColumnNotFoundError, InvalidArgumentError, RowOutOfRangeError, UntrustedBaseError
            As in `take_blobs`.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> rows = pa.table([lk.blob_array([b"abc", None])], schema=pa.schema([lk.blob_field("b")]))
        >>> lk.write_dataset(rows, "memory://read-blobs-example").read_blobs("b", indices=[0, 1])
        [(0, b'abc'), (1, None)]
        """
        from lancekit._scan.fragments.blobs import read_blobs

        _check_hints(io_buffer_size, preserve_order)
        rows = _only_selector(ids=ids, addresses=addresses, indices=indices)
        found, places = self._blob_places(blob_column, *rows)
        return list(zip(found.tolist(), read_blobs(places), strict=True))

    def read_blob_ranges(
        self,
        blob_column: str,
        requests: Sequence[tuple[int, int, int]],
        *,
        selector: Literal["ids", "addresses", "indices"],
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, int, bytes | None]]:
        """Read ranges of blobs, in the given order.

        Parameters
        ----------
        requests
            Tuples of a row, and the offset and length of the range in its blob.
        selector
            The meaning of the row numbers: ``"ids"``, ``"addresses"`` or ``"indices"``.
        io_buffer_size, preserve_order
            Hints that change no result.

        Returns
        -------
        list of tuple
            The number of each request, the row's address, and the bytes, ``None`` for a null.

        Raises
        ------
        InvalidArgumentError
            A range ends after its blob; other errors as in `take_blobs`.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> rows = pa.table([lk.blob_array([b"abc"])], schema=pa.schema([lk.blob_field("b")]))
        >>> ds = lk.write_dataset(rows, "memory://blob-ranges-example")
        >>> ds.read_blob_ranges("b", [(0, 1, 2)], selector="indices")
        [(0, 0, b'bc')]
        """
        from lancekit._api.blob_values import BlobFile
        from lancekit._choice import check_choice

        _check_hints(io_buffer_size, preserve_order)
        check_choice("selector", selector, ("ids", "addresses", "indices"))
        found, places = self._blob_places(blob_column, selector, [row for row, _, _ in requests])
        parts = []
        for number, (place, (_, offset, length)) in enumerate(zip(places, requests, strict=True)):
            data = None if place is None else BlobFile(place).read_range(offset, length)
            parts.append((number, int(found[number]), data))
        return parts

    def _blob_places(
        self, path: str, kind: str, rows: object
    ) -> tuple[Numbers, list[BlobPlace | None]]:
        from lancekit._format.field_marks import holds_blobs
        from lancekit._format.paths import find_field
        from lancekit._scan.fragments.blobs import blob_view
        from lancekit._scan.fragments.source import fragment_sources
        from lancekit._scan.take import blob_places, row_addresses

        schema = self._snapshot.manifest.schema
        field = find_field(schema, path)[-1]
        if not holds_blobs(field.metadata):
            raise InvalidArgumentError(
                f"Column {path!r} of type {field.to_arrow().type} is not a blob column.",
                hint="Read it with take() or to_table().",
                column=path,
            )
        sources = fragment_sources(self._snapshot, blob_view(schema))
        addresses = row_addresses(sources, kind, rows)
        return addresses, blob_places(sources, path, addresses)


def _check_hints(io_buffer_size: int | None, preserve_order: bool | None) -> None:
    check_hints(io_buffer_size=io_buffer_size, preserve_order=preserve_order)
    if io_buffer_size is not None:
        check_count("io_buffer_size", io_buffer_size, least=1)  # scans accept 0, blobs do not


def _only_selector(**rows: object) -> tuple[str, object]:
    given = [(kind, values) for kind, values in rows.items() if values is not None]
    if len(given) != 1:
        raise InvalidArgumentError(
            f"Exactly one of ids, addresses and indices must be passed, got {len(given)}."
        )
    return given[0]
