"""Compaction of fragments, by decoded rows or copied pages; deleted rows are dropped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._cache import read_for_the_last_time
from lancekit._file.columns.physical import owning_fields
from lancekit._file.container.footer import StoredPage
from lancekit._file.kernels.arrow_buffers import Encoded
from lancekit._file.kernels.faults import located
from lancekit._file.reader import FileReader
from lancekit._format.field_marks import holds_blobs, is_blob_v2
from lancekit._format.fragment import Fragment, columns_of_files
from lancekit._format.row_ids_encode import encode_row_ids, encode_row_versions
from lancekit._format.schema import LanceField
from lancekit._pipeline.write_rows import WriteTask, write_fragments, write_with_pages
from lancekit._scan.fragment_rows import ScanRequest
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.outputs import plan_columns
from lancekit._scan.read import Read
from lancekit._scan.scan import Scan
from lancekit._storage.local import LocalStore
from lancekit.options import DEFAULT_GOAL
from lancekit.progress import step

# ---- columns whose pages are copied, because rewriting large pages gains nothing
#
# Compaction exists to remove small pages. So a column is copied only if its pages are already
# large; other columns are read and written as rows (docs/format/operations.md, 6.3).

#: for each physical column of a field, the pages of all files, in order
_Pages = list[list[StoredPage]]

#: The least average bytes of a column's encoded pages to copy them: an eighth of a full page.  With
#: pages ten times smaller, a scan is as fast, but 1,000 scattered rows take twice as long.
LARGE_PAGE = 1 << 20
#: Files that are open at the same time, at most.
_MOST_FILES = 512


def columns_to_copy(
    sources: Sequence[FragmentSource], write: WriteTask, least: int
) -> dict[str, _Pages]:
    """Return the pages of each top-level field whose pages can be copied and are large enough.

    sources: the fragments that become one file.
    write: the settings of the new file.
    least: the least average size of a column's pages, in bytes.
    """
    if not _can_be_copied(sources, write, least):
        return {}
    readers = [FragmentReader(source).file(0) for source in sources]
    columns = columns_of_files(sources[0].fragment)[0]
    found = {field.name: _pages_of(field, columns, readers) for field in write.schema.fields}
    return {name: pages for name, pages in found.items() if pages and _are_large(pages, least)}


def _can_be_copied(sources: Sequence[FragmentSource], write: WriteTask, least: int) -> bool:
    """Return True if each fragment has one file and no deletions, and all files match.

    On an object store, requests cost more than decoding.  Pages must be encoded again for another
    goal of ``optimize_for``, for checksums, and for another page size.
    """
    kinds = set()
    size = 0
    for source in sources:
        if source.deletion is not None or len(source.files) != 1:
            return False
        (file,) = source.fragment.files
        kinds.add((file.version, file.fields, file.column_indices))
        size += file.size_bytes
        if not isinstance(source.files[0].store, LocalStore) or not source.fragment.physical_rows:
            return False
    versions = {"{}.{}".format(*version) for version, *_ in kinds}
    return (
        len(kinds) == 1
        and versions == {write.storage_version} <= {"2.1", "2.2"}
        and len(sources) * least <= size <= write.max_bytes_per_file
        and len(sources) <= _MOST_FILES
        and write.optimize_for == DEFAULT_GOAL
        and write.max_page_bytes is None
        and not write.checksums
    )


def _pages_of(
    field: LanceField, columns: Mapping[int, int], readers: Sequence[FileReader]
) -> _Pages | None:
    """Return the pages of a field, or ``None`` if they cannot be copied.

    Blobs are stored outside of their pages.  Dictionaries of several files can have more values
    together than their keys can count.  A field whose type or name changed since must be rewritten.
    """
    parts = list(field.walk())
    if any(
        holds_blobs(part.metadata)
        or is_blob_v2(part.metadata)
        or part.logical_type.startswith("dict:")
        for part in parts
    ):
        return None
    owners = [owner.id for owner in owning_fields(field, readers[0].version)]
    if not columns.keys() >= set(owners):
        return None
    found: _Pages = [[] for _ in owners]
    for reader in readers:
        if field not in reader.lance_schema.fields:
            return None
        pages = pages_of(reader, [columns[owner] for owner in owners])
        if pages is None:
            return None
        for column, more in zip(found, pages, strict=True):
            column.extend(more)
    return found


def _are_large(pages: _Pages, least: int) -> bool:
    return all(
        sum(sum(stored.page.sizes) for stored in column) >= least * len(column) for column in pages
    )


Numbers = npt.NDArray[np.uint64]
#: row ids, and the versions that created and last updated each row
Sequences: TypeAlias = tuple[Numbers, Numbers, Numbers]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTask:
    """Adjacent fragments, and how to write their rows.  Can be sent to a worker.

    New fragments are of about equal size, and have at least `target_rows` each if the rows
    suffice.  Columns whose pages have on average `copied` bytes or more are copied where possible;
    ``None`` copies none.
    """

    sources: tuple[FragmentSource, ...]
    write: WriteTask
    target_rows: int
    copied: int | None = LARGE_PAGE

    @property
    def num_rows(self) -> int:
        """The number of rows to read, deleted ones included."""
        return sum(source.fragment.physical_rows for source in self.sources)


def compact_rows(task: CompactTask) -> tuple[Fragment, ...]:
    """Write the live rows of a task's fragments to new fragments, and return these uncommitted.

    With stable row ids, the row ids and row versions are copied.
    """
    with read_for_the_last_time():
        fragments = _written(task)
    if not task.sources[0].stable_row_ids:
        return tuple(fragments)
    return _with_sequences(fragments, [_sequences(source) for source in task.sources])


def _written(task: CompactTask) -> list[Fragment]:
    sizes, names = _sizes(task), task.write.schema.names
    pages = {}
    if len(sizes) == 1 and task.copied is not None:
        pages = columns_to_copy(task.sources, task.write, task.copied)
    if not pages:
        return write_fragments(_batches(task, names), task.write, sizes)
    others = [name for name in names if name not in pages]
    copies = {name: [map(encoded, column) for column in found] for name, found in pages.items()}
    batches = _batches(task, others) if others else ()
    written = write_with_pages(batches, copies, sizes[0], task.write)
    step(0 if others else task.num_rows)  # the scan of other columns counts the rows itself
    return [written]


def _sizes(task: CompactTask) -> list[int]:
    rows = sum(source.fragment.num_rows for source in task.sources)
    number = max(rows // max(task.target_rows, 1), 1)
    return [rows // number + (place < rows % number) for place in range(number)]


def _batches(task: CompactTask, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    whole = task.write.schema
    schema = replace(whole, fields=tuple(f for f in whole.fields if f.name in names))
    arrow = schema.to_arrow()
    request = ScanRequest(outputs=plan_columns(schema, None))
    for table in Scan(read=Read(task.sources), request=request).tables():
        for batch in table.to_batches():
            yield pa.RecordBatch.from_arrays(batch.columns, schema=arrow)


def _sequences(source: FragmentSource) -> Sequences:
    reader = FragmentReader(source)
    rows = np.arange(reader.physical_rows) if reader.live is None else reader.live
    return reader.row_ids(rows), reader.created_at(rows), reader.last_updated_at(rows)


def _with_sequences(
    fragments: Sequence[Fragment], parts: Sequence[Sequences]
) -> tuple[Fragment, ...]:
    """Give new fragments the row ids and row versions of their rows, in order."""
    pieces = cut(parts, [fragment.physical_rows for fragment in fragments])
    return tuple(
        replace(
            fragment,
            # one segment per source: ids ascend within most sources, but not across them
            row_ids=encode_row_ids(*ids),
            created_at=encode_row_versions(np.concatenate(created)),
            last_updated_at=encode_row_versions(np.concatenate(updated)),
        )
        for fragment, (ids, created, updated) in zip(fragments, pieces, strict=True)
    )


def cut(
    parts: Iterable[tuple[Numbers, ...]], sizes: Iterable[int]
) -> Iterator[tuple[tuple[Numbers, ...], ...]]:
    """Cut parts of parallel arrays into pieces; yield the pieces of each array for each size."""
    rest = iter(parts)
    current = next(rest)
    for size in sizes:
        pieces = []
        while size:
            if not len(current[0]):
                current = next(rest)
            pieces.append(tuple(array[:size] for array in current))
            current = tuple(array[size:] for array in current)
            size -= len(pieces[-1][0])  # noqa: PLW2901
        yield tuple(zip(*pieces, strict=True))


# ---- pages that are copied between files without decoding


def pages_of(reader: FileReader, columns: Sequence[int]) -> list[list[StoredPage]] | None:
    """Return the pages of some physical columns of a file of version 2.1 or newer.

    Return ``None`` if the columns must be read as rows: the file has checksums to compare, or the
    rows of the pages differ from the file's (items of vectors of structs, or damage).
    """
    container = reader.container
    if container.checksums is not None or container.version < (2, 1):
        return None
    with located(container.source.name):
        found = [container.pages(column) for column in columns]
    rows = [sum(stored.page.length for stored in pages) for pages in found]
    return found if set(rows) == {reader.num_rows} else None


def encoded(stored: StoredPage) -> Encoded:
    """Return a page with its encoded bytes, to be copied."""
    page = stored.page
    return Encoded(page.length, stored.encoding, tuple(map(page.read, range(len(page.sizes)))))
