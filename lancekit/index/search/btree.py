"""B-trees: sorted values with their rows, in pages; a second file tells the ends of each page.

See docs/format/indices.md, 7.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit.errors import CorruptFileError, UnsupportedFeatureError
from lancekit.file.kernels.bits import flags_of
from lancekit.file.kernels.memory import numbers_of
from lancekit.index.search.order import Ranks, filled, ranks_of
from lancekit.index.search.question import Question
from lancekit.index.search.row_sets import Rows, rows_of
from lancekit.index.search.segment import IndexFileReader, Segment, held_bytes

__all__ = ["search"]

_PAGE_ROWS = 4096
#: of more of the index than this it pays to look at the column itself
_SHARE = 1 / 8
#: but so few rows are looked up in any case
_FEW = 4 * _PAGE_ROWS


@dataclass(frozen=True, slots=True, eq=False)
class _Pages:
    """The ends of each page's values; where a page has no values, they mean nothing."""

    page_rows: int
    least: Ranks
    greatest: Ranks
    begins_null: npt.NDArray[np.bool_]
    has_values: npt.NDArray[np.bool_]
    nulls: npt.NDArray[np.int64]

    @property
    def bytes_held(self) -> int:
        return held_bytes(self.least, self.greatest, self.begins_null, self.has_values, self.nulls)

    def that_may_hold(self, question: Question, of_null: bool) -> npt.NDArray[np.bool_]:
        """Return which pages have a value that is asked for, as far as their ends tell."""
        wanted = self.has_values
        if question.reach is not None and wanted.any():
            # behind nulls any value may come that is no greater than the last
            least = np.where(self.begins_null, self.greatest, self.least)
            below = question.reach.touches(least, self.greatest)
            if self.begins_null.any():
                below |= self.begins_null
            wanted = wanted & below
        return wanted | (self.nulls > 0) if of_null else wanted


def search(segment: Segment, question: Question, *, always: bool) -> Rows | None:
    """Return the rows of a segment of which a question holds.

    ``None`` if it pays to look at the column itself, unless it is `always` to be answered.

    Raises
    ------
    LancekitError, OSError
        The files cannot be read.
    """
    lookup = segment.file("page_lookup.lance")
    pages = lookup.remembered("pages", lambda: _read_pages(lookup), lambda p: p.bytes_held)
    data = segment.file("page_data.lance")
    if -(-data.num_rows // pages.page_rows) != len(pages.nulls):
        raise CorruptFileError(f"{lookup.where} does not have as many rows as there are pages.")
    wanted = pages.that_may_hold(question, question.of_null())
    count = int(np.count_nonzero(wanted)) * pages.page_rows
    if not always and count > max(_FEW, data.num_rows * _SHARE):
        return None
    rows = _rows_of(np.flatnonzero(wanted), pages.page_rows, data.num_rows)
    if not len(rows):
        return {}
    places = np.flatnonzero(question.holds(data.read("values", rows)))
    if not len(places):
        return {}
    if isinstance(rows, range):
        chosen = places + rows.start
        if len(chosen) == chosen[-1] - chosen[0] + 1:
            found = data.read("ids", range(int(chosen[0]), int(chosen[-1]) + 1))
            return rows_of(_numbers(found, data))
    else:
        chosen = rows[places]
    return rows_of(_numbers(data.read("ids", chosen), data))


def _read_pages(lookup: IndexFileReader) -> _Pages:
    if lookup.metadata.get("range_partitioned", "false").lower() != "false":
        raise UnsupportedFeatureError(f"{lookup.where} leads to several files of pages.")
    size = lookup.metadata.get("batch_size", str(_PAGE_ROWS))
    if not (size.isdecimal() and int(size)):
        raise CorruptFileError(f"{lookup.where} says {size!r} rows of a page.")
    least, greatest = lookup.read("min"), lookup.read("max")
    ranks = ranks_of(least), ranks_of(greatest)
    numbers = _whole(lookup, "page_idx")
    if ranks[0] is None or ranks[1] is None:
        raise UnsupportedFeatureError(f"{lookup.where} has values of {least.type}.")
    if (numbers != np.arange(len(numbers))).any():
        raise CorruptFileError(f"{lookup.where} does not have its pages in order.")
    has_values = flags_of(greatest.is_valid())
    return _Pages(
        page_rows=int(size),
        least=filled(ranks[0], flags_of(least.is_valid())),
        greatest=filled(ranks[1], has_values),
        begins_null=flags_of(least.is_null()),
        has_values=has_values,
        nulls=_whole(lookup, "null_count"),
    )


def _whole(lookup: IndexFileReader, name: str) -> npt.NDArray[np.int64]:
    values = lookup.read(name)
    if not pa.types.is_integer(values.type) or values.null_count:
        raise CorruptFileError(f"{lookup.where} has a {name} that is no number.")
    return numbers_of(values).astype(np.int64)


def _rows_of(
    pages: npt.NDArray[np.intp], page_rows: int, num_rows: int
) -> npt.NDArray[np.int64] | range:
    if len(pages) and int(pages[-1]) - int(pages[0]) + 1 == len(pages):
        return range(int(pages[0]) * page_rows, min((int(pages[-1]) + 1) * page_rows, num_rows))
    rows = (pages[:, None] * page_rows + np.arange(page_rows)).ravel()
    return rows[rows < num_rows]


def _numbers(found: pa.Array, data: IndexFileReader) -> npt.NDArray[np.uint64]:
    if found.type != pa.uint64() or found.null_count:
        raise CorruptFileError(f"{data.where} has rows that are no numbers.")
    return numbers_of(found)
