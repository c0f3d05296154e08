"""Columns of a compaction whose pages are copied: large ones gain nothing by being written anew.

Small pages are what a compaction is there to remove, so that a column is copied only where its
pages are large already; the others are read and written as rows (docs/format/operations.md, 6.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lancekit.file.columns.physical import owning_fields
from lancekit.file.container.footer import StoredPage
from lancekit.file.copied_pages import pages_of
from lancekit.file.reader import FileReader
from lancekit.format.field_marks import holds_blobs, is_blob_v2
from lancekit.format.fragment import columns_of_files
from lancekit.format.schema import LanceField
from lancekit.options import DEFAULT_GOAL
from lancekit.pipeline.rows.write import WriteTask
from lancekit.scan.fragments.reader import FragmentReader
from lancekit.scan.fragments.source import FragmentSource
from lancekit.storage.local import LocalStore

__all__ = ["LARGE_PAGE", "Pages", "columns_to_copy"]

#: of each physical column of a field the pages of all files, in order
Pages = list[list[StoredPage]]

#: Encoded bytes of a page that is copied: an eighth of a full one.  Of ten times smaller ones a
#: scan is as quick, but a thousand rows from here and there take twice as long.
LARGE_PAGE = 1 << 20
#: Files that are open at once.
_MOST_FILES = 512


def columns_to_copy(
    sources: Sequence[FragmentSource], write: WriteTask, least: int
) -> dict[str, Pages]:
    """Return the pages of the top-level fields that can be copied, if they are large enough.

    Parameters
    ----------
    sources
        The fragments that become one file.
    write
        How that is to be written.
    least
        Bytes that the pages of a column have on average.
    """
    if not _can_be_copied(sources, write, least):
        return {}
    readers = [FragmentReader(source).file(0) for source in sources]
    columns = columns_of_files(sources[0].fragment)[0]
    found = {field.name: _pages_of(field, columns, readers) for field in write.schema.fields}
    return {name: pages for name, pages in found.items() if pages and _are_large(pages, least)}


def _can_be_copied(sources: Sequence[FragmentSource], write: WriteTask, least: int) -> bool:
    """Tell whether all rows of each fragment lie in one file, and all files are alike.

    On an object store requests cost more than decoding.  Text that is written for a goal, and pages
    that are to have checksums or another size, are written anew.
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
) -> Pages | None:
    """Return the pages of a field, ``None`` if they cannot be copied.

    Blobs lie outside of their pages.  Dictionaries may have more values together than keys can
    tell apart.  A field that another type or name came to since is written as it is now.
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
    found: Pages = [[] for _ in owners]
    for reader in readers:
        if field not in reader.lance_schema.fields:
            return None
        pages = pages_of(reader, [columns[owner] for owner in owners])
        if pages is None:
            return None
        for column, more in zip(found, pages, strict=True):
            column.extend(more)
    return found


def _are_large(pages: Pages, least: int) -> bool:
    return all(
        sum(sum(stored.page.sizes) for stored in column) >= least * len(column) for column in pages
    )
