"""Pages that go from one file into another as they are: nothing of them is decoded."""

from __future__ import annotations

from collections.abc import Sequence

from lancekit._file.container.footer import StoredPage
from lancekit._file.kernels.arrow_buffers import Encoded
from lancekit._file.kernels.faults import located
from lancekit._file.reader import FileReader

__all__ = ["encoded", "pages_of"]


def pages_of(reader: FileReader, columns: Sequence[int]) -> list[list[StoredPage]] | None:
    """Return the pages of some physical columns of a file of 2.1 or newer.

    ``None`` if they are to be read as rows instead: where checksums are to be compared, where rows
    of pages are not those of the file (items of vectors of structs, or damage).
    """
    container = reader.container
    if container.checksums is not None or container.version < (2, 1):
        return None
    with located(container.source.name):
        found = [container.pages(column) for column in columns]
    rows = [sum(stored.page.length for stored in pages) for pages in found]
    return found if set(rows) == {reader.num_rows} else None


def encoded(stored: StoredPage) -> Encoded:
    """Return a page with its bytes, to be written as it is."""
    page = stored.page
    return Encoded(page.length, stored.encoding, tuple(map(page.read, range(len(page.sizes)))))
