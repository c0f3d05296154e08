"""The pages of one field of a legacy file, one for each batch: where they lie, and their bytes.

See docs/format/legacy.md, 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lancekit.file.container.footer import Container
from lancekit.file.kernels.faults import require
from lancekit.file.kernels.memory import Bytes, Ints, as_bytes, fetch, gather, starts_of
from lancekit.file.kernels.row_selection import Rows
from lancekit.lazy import cached_property
from lancekit.storage.base import RandomAccess

__all__ = ["Pages", "Runs", "read_pieces"]


class Runs(NamedTuple):
    """Rows that follow each other in one page each: the page, the first row, the one behind."""

    page: Ints
    first: Ints
    stop: Ints


@dataclass(frozen=True)
class Pages:
    """Where the pages of a field begin, and how many entries each has."""

    source: RandomAccess
    positions: Ints
    lengths: Ints

    @classmethod
    def of(cls, container: Container, column: int) -> Pages:
        """Read the part of the page table that is about one field; called inside of `located`."""
        require(0 <= column < len(container.column_table), f"there is no field {column}")
        table = np.frombuffer(container.tail.read(*container.column_table[column]), "<i8")
        return cls.checked(container, table[::2], table[1::2])

    @classmethod
    def checked(cls, container: Container, positions: Ints, lengths: Ints) -> Pages:
        """Return pages that begin in the file, and whose entries can be counted."""
        require(
            (positions >= 0).all() and (positions <= container.size).all(),
            "a page lies outside of the file",
        )
        most = (1 << 62) // max(1, len(lengths))
        require((lengths >= 0).all() and (lengths <= most).all(), "a page has an impossible length")
        return cls(container.source, positions, lengths)

    @cached_property
    def firsts(self) -> Ints:
        """The number of the first entry of each page, and of all entries."""
        return starts_of(self.lengths)

    def holding(self, times: int) -> Pages:
        """Return the same pages, counted in the parts that make an entry."""
        require((self.lengths <= (1 << 62) // max(1, times)).all(), "a page has too many values")
        return Pages(self.source, self.positions, self.lengths * times)

    def shorter(self) -> Pages:
        """Return pages of offsets as those of what is between them."""
        require((self.lengths > 0).all(), "a page of lists has no offsets")
        return Pages(self.source, self.positions, self.lengths - 1)

    def of_batches(self, rows: Ints | None) -> Pages:
        """Return the pages with as many entries as their batches have rows, if these are rows.

        The first releases wrote all of what a slice of structs is of.
        """
        if rows is None:
            return self
        require(
            len(rows) == len(self.lengths) and (self.lengths >= rows).all(),
            "a page has fewer rows than its batch",
        )
        return Pages(self.source, self.positions, rows)

    def runs(self, rows: Rows) -> Runs:
        """Return where some of the entries are, in order."""
        firsts = self.firsts
        if len(rows) == 0:
            return Runs(*np.zeros((3, 0), np.int64))
        if isinstance(rows, range):
            touched = slice(
                int(np.searchsorted(firsts, rows.start, "right")) - 1,
                int(np.searchsorted(firsts, rows.stop, "left")),
            )
            page = np.arange(touched.start, touched.stop)[self.lengths[touched] > 0]
            begin = np.maximum(firsts[page], rows.start)
            end = np.minimum(firsts[page + 1], rows.stop)
            return Runs(page, begin - firsts[page], end - firsts[page])
        pages = np.searchsorted(firsts, rows, "right") - 1
        new = np.flatnonzero((rows[1:] != rows[:-1] + 1) | (pages[1:] != pages[:-1])) + 1
        begins = np.concatenate(([0], new))
        page, first = pages[begins], rows[begins]
        first = first - firsts[page]
        return Runs(page, first, first + np.diff(np.append(begins, len(rows))))


def read_pieces(source: RandomAccess, starts: Ints, stops: Ints) -> Bytes:
    """Return byte ranges of the file, back to back; they must ascend, as pages do."""
    require(
        len(starts) == 0
        or (
            starts[0] >= 0
            and stops[-1] <= source.size()
            and (stops >= starts).all()
            and (starts[1:] >= stops[:-1]).all()
        ),
        "pages lie outside of the file, or one in another",
    )
    data, places = fetch(source, 0, starts, stops)
    return as_bytes(gather(data, places, stops - starts))
