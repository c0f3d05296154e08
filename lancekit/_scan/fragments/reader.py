"""Reader of one fragment: columns in several files, deleted rows, row ids.

`lancekit._scan.fragments.source` has the facts that need no open file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import arrow_of
from lancekit._file.columns.blocks import BlockBounds
from lancekit._file.columns.physical import FileColumn, column_owners
from lancekit._file.reader import FileReader
from lancekit._format import row_address
from lancekit._format.deletions import to_offsets
from lancekit._format.fragment import columns_of_files
from lancekit._format.paths import by_first, parse_path, path_field, pick, pruned
from lancekit._format.schema import LanceField, LanceSchema
from lancekit._lazy import cached_property
from lancekit._scan.fragments.blobs import (
    BlobPlace,
    find_blobs,
    is_stored_v2,
    resolve_blobs,
    stored_blobs,
)
from lancekit._scan.fragments.rebatch import taken
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.fragments.split_fields import as_stored, joined, stored_part
from lancekit._versions.snapshot import missing_file, read_deletions
from lancekit.errors import CorruptFileError
from lancekit.progress import step

if TYPE_CHECKING:
    from lancekit._format.row_ids import RowIds, RowVersions

Offsets = npt.NDArray[np.int64]

#: a scattered read pays below this share of a range's rows; above it, reading all is faster
_SCATTERED_SHARE = 1 / 16

#: in fragments with more rows than this, deleted rows are looked up block by block
_MANY_ROWS = 1 << 27


class _Part(NamedTuple):
    """The part of a top-level field in one file; `as_is` if it is stored in the requested form."""

    subset: LanceField
    file_index: int
    column: FileColumn
    as_is: bool


#: up to this row count, a manifest is trusted: an array of all rows takes at most 128 MB
_TRUSTED_ROWS = 1 << 24


class FragmentReader:
    """An open fragment. Rows are physical offsets, deleted ones included, unless stated otherwise.

    A file is opened when one of its columns is first read.
    """

    def __init__(self, source: FragmentSource) -> None:
        self.source = source
        self._open: dict[int, FileReader] = {}
        self._v1_of_files: dict[int, frozenset[int]] = {}

    @cached_property
    def physical_rows(self) -> int:
        """The number of rows; a huge number in the manifest is first compared with a file."""
        claimed = self.source.fragment.physical_rows
        if claimed > _TRUSTED_ROWS and self.source.files:
            self.file(0)
        return claimed

    @cached_property
    def deleted(self) -> BitMap:
        """The deleted offsets."""
        source = self.source
        if source.deletion is None:
            return BitMap()
        return read_deletions(source.deletion, source.fragment, source.version)

    @cached_property
    def live(self) -> Offsets | None:
        """The visible offsets, ascending; ``None`` if all rows are visible."""
        if self.source.with_deleted or not self.deleted:
            return None
        mask = np.ones(self.physical_rows, bool)
        mask[to_offsets(self.deleted)] = False
        return np.flatnonzero(mask)

    def live_between(self, start: int, stop: int) -> Offsets | range:
        """Return the live offsets in a range, as a `range` where nothing in it is deleted."""
        if self._lists_deleted_by_block:
            return self._live_in(start, stop)
        if self.live is None:
            return range(start, stop)
        first, last = np.searchsorted(self.live, (start, stop))
        if last - first == stop - start:
            return range(start, stop)
        return self.live[first:last]

    @property
    def _lists_deleted_by_block(self) -> bool:
        """True if deleted rows are listed for one block at a time, as they may be very many."""
        return self.physical_rows > _MANY_ROWS and not self.source.with_deleted

    def _live_in(self, start: int, stop: int) -> Offsets | range:
        gone = to_offsets(self.deleted & BitMap(range(start, stop)))
        if not len(gone):
            return range(start, stop)
        mask = np.ones(stop - start, bool)
        mask[gone.astype(np.int64) - start] = False
        return start + np.flatnonzero(mask)

    def offsets_at(self, positions: Offsets) -> Offsets:
        """Return the offsets of live rows by their positions in the whole dataset."""
        rows = positions - self.source.first_row
        if self._lists_deleted_by_block:
            return np.array([self._offset_of(row) for row in rows.tolist()], np.int64)
        return rows if self.live is None else self.live[rows]

    def live_rows(self, window: range) -> Offsets | range:
        """Return the offsets of a range of live rows, numbered without deleted rows."""
        if self._lists_deleted_by_block and window:
            first, last = (self._offset_of(row) for row in (window.start, window.stop - 1))
            return self._live_in(first, last + 1)
        return window if self.live is None else self.live[window.start : window.stop]

    def _offset_of(self, row: int) -> int:
        """Return the offset of a live row, numbered without deleted rows."""
        deleted = self.deleted
        return bisect_left(
            range(self.physical_rows), row + 1, key=lambda at: at + 1 - deleted.rank(at)
        )

    def read(self, columns: Sequence[str], rows: Offsets | range) -> pa.Table:
        """Read columns of the given ascending offsets; hidden columns by their names.

        A path such as ``s.x`` gives a column of that name; only the requested part is read.
        """
        step()  # a stop or a progress bar takes effect between two blocks
        if not columns:
            return rows_without_columns(len(rows))
        stored = self._read_stored([name for name in columns if name not in META_COLUMNS], rows)
        arrays = []
        for name in columns:
            if name in stored:
                arrays.append(stored[name])
            else:
                offsets = as_offsets(rows)
                values = self.hidden(name, offsets)
                gone = self._gone(offsets) if name in ("_rowid", "_rowaddr") else None
                arrays.append(pa.chunked_array([arrow_of(np.asarray(values, np.uint64), gone)]))
        schema = pa.schema([column_field(self.source.schema, name) for name in columns])
        return pa.table(arrays, schema=schema)

    def hidden(self, name: str, rows: Offsets) -> npt.NDArray[np.uint64]:
        """Return a hidden column, by its name."""
        return META_COLUMNS[name](self, rows)

    def _read_stored(
        self, paths: Sequence[str], rows: Offsets | range
    ) -> Mapping[str, pa.ChunkedArray]:
        """Read stored columns from the files that have them; return them by path."""
        below = by_first(map(parse_path, paths))
        fields = [self._pruned(top, wanted) for top, wanted in below.items()]
        parts = {field.name: list(self._parts(field)) for field in fields}
        by_file: dict[int, list[FileColumn]] = {}
        for part in chain.from_iterable(parts.values()):
            by_file.setdefault(part.file_index, []).append(part.column)
        read = {index: self._read_file(index, columns, rows) for index, columns in by_file.items()}
        found: dict[str, pa.ChunkedArray] = {}
        for field in fields:
            arrays = [
                column if part.as_is else resolve_blobs(part.subset, column, self.source, index)
                for part in parts[field.name]
                for index in [part.file_index]
                for column in [read[index][field.name]]
            ]
            found[field.name] = joined(field, arrays, len(rows))
        if found.keys() == set(paths):  # only whole columns
            return found
        return {path: pick(found[top], rest) for path in paths for top, *rest in [parse_path(path)]}

    def _read_file(
        self, file_index: int, wanted: list[FileColumn], rows: Offsets | range
    ) -> Mapping[str, pa.ChunkedArray]:
        reader = self.file(file_index)
        around = range(0) if len(rows) == 0 else range(int(rows[0]), int(rows[-1]) + 1)
        if isinstance(rows, np.ndarray) and len(rows) == len(around) and (np.diff(rows) == 1).all():
            rows = around  # the rows are contiguous
        if isinstance(rows, range) or len(rows) <= len(around) * _SCATTERED_SHARE:
            table = reader.read(wanted, rows)
        else:
            table = taken(reader.read(wanted, around), rows - around.start)
        return dict(zip(table.column_names, table.columns, strict=True))

    def bounds(
        self, name: str, rows: range
    ) -> tuple[pa.DataType, list[tuple[range, BlockBounds | None]]]:
        """Return the stored type of a column, and the cached bounds of each block of some rows."""
        parts = list(self._parts(self._pruned(name, [[]])))
        if len(parts) != 1:
            return pa.null(), []
        column = parts[0].column
        return column.field.type, list(self.file(parts[0].file_index).bounds(column, rows))

    @cached_property
    def _columns_of_files(self) -> list[dict[int, int]]:
        return columns_of_files(self.source.fragment)

    def _pruned(self, top: str, paths: Sequence[Sequence[str]]) -> LanceField:
        """Return a field with only the requested paths; structs that a file packs stay whole."""
        return pruned(as_stored(self.source.schema.field(top), self._columns_of_files), paths)

    def _parts(self, field: LanceField) -> Iterator[_Part]:
        """Yield each file's part of a field."""
        taken: set[int] = set()
        for file_index, columns in enumerate(self._columns_of_files):
            subset = stored_part(field, columns.keys(), taken)
            if subset is not None:
                own = [f.id for f in subset.walk() if f.id in columns]
                taken.update(own)
                places = tuple(columns[field_id] for field_id in own)
                stored = stored_blobs(subset, self._v1_blobs(file_index, subset))
                column = FileColumn(stored.to_arrow(), places)
                yield _Part(subset, file_index, column, as_is=stored is subset)

    def _v1_blobs(self, file_index: int, subset: LanceField) -> Collection[int]:
        """Return the ids of blob v2 fields that a file stores as blob v1."""
        if not subset.children or not any(map(is_stored_v2, subset.walk())):
            return ()
        found = self._v1_of_files.get(file_index)
        if found is None:
            reader = self.file(file_index)
            owners = dict(column_owners(reader.stored_schema, reader.version))
            columns = self._columns_of_files[file_index]
            found = self._v1_of_files[file_index] = frozenset(
                id_
                for id_, at in columns.items()  # a damaged manifest may name any column
                if at in owners and owners[at].logical_type == "large_binary"
            )
        return found

    def find_blobs(self, path: str, rows: Offsets) -> list[BlobPlace | None]:
        """Return the locations of a column's blobs; ``path`` is the path of its descriptors."""
        top, *rest = parse_path(path)
        for part in self._parts(self._pruned(top, [rest])):
            stored = self._read_file(part.file_index, [part.column], rows)[top]
            descriptors = ak.combine_chunks(pick(stored, rest))
            return list(find_blobs(descriptors, self.source, part.file_index))
        return [None] * len(rows)

    def file(self, file_index: int) -> FileReader:
        """Return one of the fragment's files, opened; its row count is checked."""
        reader = self._open.get(file_index)
        if reader is None:
            location = self.source.files[file_index]
            try:
                files = self.source.location.open_files
                reader = files.open(
                    location.store, location.name, location.size, compared=self.source.compared
                )
            except FileNotFoundError as error:
                raise missing_file(location, self.source.version) from error
            claimed = self.source.fragment.physical_rows
            if reader.num_rows != claimed:
                raise CorruptFileError(
                    f"{location} has {reader.num_rows} rows, but {self.source.where} records "
                    f"{claimed}.",
                    file=str(location),
                )
            self._open[file_index] = reader
        return reader

    def split(self, rows: Offsets) -> Iterator[tuple[FragmentReader, Offsets]]:
        """Yield ascending rows as offsets in their fragment, for fragments that have any."""
        if len(rows):
            yield self, rows

    # ---- hidden columns

    def addresses(self, rows: Offsets) -> npt.NDArray[np.uint64]:
        """Return the row addresses: fragment id in the upper 32 bits, offset in the lower."""
        return row_address.addresses(self.source.fragment.id, rows.astype(np.uint64))

    @cached_property
    def stable_ids(self) -> RowIds | None:
        """The stable row ids; ``None`` if row ids are addresses."""
        if not self.source.stable_row_ids:
            return None
        from lancekit._format.row_ids import read_row_ids

        encoded = self._sequence("row_ids")
        if encoded is None:
            return None
        return read_row_ids(encoded, self.physical_rows, self.source.where)

    def row_ids(self, rows: Offsets) -> npt.NDArray[np.uint64]:
        """Return the row ids: stable ones if the table has them, else the addresses."""
        return self.addresses(rows) if self.stable_ids is None else self.stable_ids.at(rows)

    def _gone(self, rows: Offsets) -> npt.NDArray[np.bool_] | None:
        """Return a mask of deleted rows, if deleted rows are read at all."""
        if not self.source.with_deleted:
            return None
        return np.isin(rows, to_offsets(self.deleted))

    def row_positions(self, rows: Offsets) -> npt.NDArray[np.uint64]:
        """Return the positions of live rows in the whole dataset."""
        within = rows if self.live is None else np.searchsorted(self.live, rows)
        return (within + self.source.first_row).astype(np.uint64)

    @cached_property
    def _created(self) -> RowVersions:
        return self._versions("created_at")

    @cached_property
    def _updated(self) -> RowVersions:
        return self._versions("last_updated_at")

    def _versions(self, name: str) -> RowVersions:
        from lancekit._format.row_ids import read_row_versions

        return read_row_versions(self._sequence(name), self.physical_rows, self.source.where)

    def _sequence(self, name: str) -> bytes | None:
        """Return an encoded sequence of the rows, from the manifest or the file that holds it."""
        from lancekit._versions.row_sequences import read_sequence

        source = self.source
        return read_sequence(
            source.fragment,
            name,
            open_file=self.file,
            location=source.location,
            version=source.version,
        )

    def created_at(self, rows: Offsets) -> npt.NDArray[np.uint64]:
        """Return the version that created each row; 1 where it is not recorded."""
        return self._created.at(rows)

    def last_updated_at(self, rows: Offsets) -> npt.NDArray[np.uint64]:
        """Return the version that last changed each row; 1 where it is not recorded."""
        return self._updated.at(rows)


#: the columns that are not stored, in the order in which a scan appends them
META_COLUMNS: Mapping[str, Callable[[FragmentReader, Offsets], npt.NDArray[np.uint64]]] = {
    "_rowid": FragmentReader.row_ids,
    "_rowaddr": FragmentReader.addresses,
    "_rowoffset": FragmentReader.row_positions,
    "_row_last_updated_at_version": FragmentReader.last_updated_at,
    "_row_created_at_version": FragmentReader.created_at,
}


def column_field(schema: LanceSchema, name: str) -> pa.Field:
    """Return the Arrow field of a stored or hidden column."""
    if name in META_COLUMNS:
        return pa.field(name, pa.uint64())
    return path_field(schema, name)


def as_offsets(rows: Offsets | range) -> Offsets:
    """Return rows as an array of offsets."""
    return np.arange(rows.start, rows.stop) if isinstance(rows, range) else rows


def rows_without_columns(count: int) -> pa.Table:
    """Return a table with rows but no columns; most functions of Arrow would lose the row count."""
    return pa.table({"_": pa.nulls(count)}).select([])
