"""B-tree search: sorted values with their rows, in pages; a second file has each page's bounds.

See docs/format/indices.md, 7.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import flags_of, numbers_of
from lancekit._cache import VALUES, cache_limit
from lancekit._file.kernels.memory import owned, ranges
from lancekit._index.row_sets import Rows, rows_of
from lancekit._index.search.index_query import ColumnCondition, IntervalSet, Ranks, filled, ranks_of
from lancekit._index.segment import IndexFileReader, Segment, array_bytes
from lancekit.errors import CorruptFileError, UnsupportedFeatureError

LOOKUP, DATA = "page_lookup.lance", "page_data.lance"

_PAGE_ROWS = 4096
#: if a search reads more than this share of the index, a scan of the column is faster
_SHARE = 1 / 8
#: up to this many rows, the index is always searched
_FEW = 4 * _PAGE_ROWS
#: a search of at most this many pages caches them: it is a lookup, not a range
_FEW_PAGES = 4
#: in more pages than this, rows are narrowed down by reading every 512th value, then every 64th
_MANY_PAGES, _STEPS = 32, (512, 64)
#: before that: rounds of interpolation between numbers, and rows of the margin on both sides
_GUESSES, _CLOSE = 3, 32
#: about the number of rows that are then read for each value in the query
_PER_VALUE = 100


@dataclass(frozen=True, slots=True, eq=False)
class _Pages:
    """The bounds of each page's values; undefined for a page without values."""

    page_rows: int
    least: Ranks
    greatest: Ranks
    begins_null: npt.NDArray[np.bool_]
    has_values: npt.NDArray[np.bool_]
    nulls: npt.NDArray[np.int64]

    @property
    def nbytes(self) -> int:
        return array_bytes(self.least, self.greatest, self.begins_null, self.has_values, self.nulls)

    def may_match(self, condition: ColumnCondition) -> npt.NDArray[np.bool_]:
        """Return a mask of the pages that may have a matching value, by their bounds."""
        wanted = self.has_values
        if condition.interval_set is not None and wanted.any():
            # after nulls, any value up to the greatest may follow
            least = np.where(self.begins_null, self.greatest, self.least)
            below = condition.interval_set.touches(least, self.greatest)
            if self.begins_null.any():
                below |= self.begins_null
            wanted = wanted & below
        some_null = self.nulls > 0
        return wanted | some_null if some_null.any() and condition.of_null else wanted


def search(segment: Segment, condition: ColumnCondition, *, always: bool) -> Rows | None:
    """Return the rows of a segment that match a condition.

    ``None`` if a scan of the column is faster, unless `always` is True.

    Raises LancekitError, OSError: the files cannot be read.
    """
    pages, num_rows = _known(segment)
    wanted = np.flatnonzero(pages.may_match(condition))
    narrow = _single_values(condition, len(wanted))
    values = pages.page_rows * len(wanted) if narrow is None else _PER_VALUE * len(narrow.intervals)
    if not always and values > max(_FEW, num_rows * _SHARE):
        return None
    if len(wanted) <= _FEW_PAGES:
        found = [_of_page(segment, int(page), pages.page_rows, num_rows) for page in wanted]
        parts = [ids[condition.matches(values)] for values, ids in found]
        return rows_of(np.concatenate(parts)) if parts else {}
    data = segment.file(DATA)
    rows = (
        _rows_of(wanted, pages.page_rows, num_rows)
        if narrow is None
        else _narrowed(data, narrow, pages, wanted, num_rows)
    )
    places = np.flatnonzero(condition.matches(data.read("values", rows)))
    if not len(places):
        return {}
    matching = places + rows.start if isinstance(rows, range) else rows[places]
    first, last = int(matching[0]), int(matching[-1])
    follow = last - first + 1 == len(matching)
    ids = data.read("ids", range(first, last + 1) if follow else matching)
    return rows_of(_checked_ids(data, ids))


def load(segment: Segment) -> None:
    """Cache a segment's page bounds, and its pages unless they are larger than the cache."""
    pages, num_rows = _known(segment)
    if sum(file.size_bytes for file in segment.index.files) > cache_limit():
        return
    for page in range(len(pages.nulls)):
        _of_page(segment, page, pages.page_rows, num_rows)


def _known(segment: Segment) -> tuple[_Pages, int]:
    """Return the bounds of the pages, and the number of rows."""
    pages = segment.remembered(LOOKUP, "pages", _read_pages, lambda pages: pages.nbytes)
    num_rows = segment.remembered(DATA, "rows", lambda data: data.num_rows, lambda _: 0)
    if -(-num_rows // pages.page_rows) != len(pages.nulls):
        raise CorruptFileError(f"{LOOKUP} must have one row for each page of {DATA}.")
    return pages, num_rows


def _single_values(condition: ColumnCondition, pages: int) -> IntervalSet | None:
    """Return the query's intervals if they are many single values, on at most two pages each."""
    interval_set = condition.interval_set
    if interval_set is None or not _MANY_PAGES < pages <= 2 * len(interval_set.intervals):
        return None
    return interval_set


def _narrowed(
    data: IndexFileReader,
    interval_set: IntervalSet,
    pages: _Pages,
    wanted: npt.NDArray[np.intp],
    num_rows: int,
) -> npt.NDArray[np.int64]:
    """Return the rows of some pages that may match, narrowed down by reading a few values."""
    starts = wanted * pages.page_rows
    found = _Ranges(
        starts=starts,
        stops=np.minimum(starts + pages.page_rows, num_rows),
        least=pages.least[wanted],
        greatest=pages.greatest[wanted],
        any_value=pages.nulls[wanted] > 0,
    )
    for _ in range(_GUESSES if pages.least.dtype != object else 0):
        found = found.cut(data, interval_set, found.guesses(interval_set))
    for step in _STEPS:
        found = found.cut(data, interval_set, found.steps(step))
    return ranges(found.starts, found.stops - found.starts)


@dataclass(frozen=True, slots=True, eq=False)
class _Ranges:
    """Ranges of rows that may match, with bounds of their values.

    After nulls, any value may follow: such ranges are not narrowed.
    """

    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    least: Ranks
    greatest: Ranks
    any_value: npt.NDArray[np.bool_]

    def steps(self, step: int) -> npt.NDArray[np.int64]:
        """Return the rows at which to cut, a number of rows apart."""
        count = (self.stops - self.starts - 1) // step
        within = ranges(np.ones(len(count), np.int64), count)
        return np.repeat(self.starts, count) + step * within

    def guesses(self, interval_set: IntervalSet) -> npt.NDArray[np.int64]:
        """Return the rows at which to cut: around interpolated positions of the query's values."""
        lows, first, count = interval_set.begins(self.least, self.greatest)
        rows = self.stops - self.starts
        count[self.any_value | (rows <= 4 * _CLOSE)] = 0
        owners = np.repeat(np.arange(len(rows)), count)
        least = self.least[owners].astype(np.float64)
        span = self.greatest[owners].astype(np.float64) - least
        share = (lows[ranges(first, count)].astype(np.float64) - least) / np.maximum(span, 1)
        guess = self.starts[owners] + (share * rows[owners]).astype(np.int64)
        places, owners = np.concatenate([guess - _CLOSE, guess + _CLOSE]), np.tile(owners, 2)
        return places[(places > self.starts[owners]) & (places < self.stops[owners])]

    def cut(
        self, data: IndexFileReader, interval_set: IntervalSet, places: npt.NDArray[np.int64]
    ) -> _Ranges:
        """Split the ranges at some rows, and return the parts that may match."""
        if not len(places):
            return self
        starts = np.union1d(self.starts, places)
        owners = np.searchsorted(self.starts, starts, "right") - 1
        is_new, is_last = starts != self.starts[owners], np.append(owners[1:] != owners[:-1], True)
        least = self.least[owners]
        least[is_new] = _ranks_at(data, starts[is_new], least.dtype)
        greatest = np.where(is_last, self.greatest[owners], np.roll(least, -1))
        any_value = self.any_value[owners]
        some = interval_set.touches(least, greatest) | any_value
        return _Ranges(
            starts=starts[some],
            stops=np.where(is_last, self.stops[owners], np.roll(starts, -1))[some],
            least=least[some],
            greatest=greatest[some],
            any_value=any_value[some],
        )


def _ranks_at(
    data: IndexFileReader, rows: npt.NDArray[np.int64], kind: np.dtype[np.generic]
) -> Ranks:
    values = data.read("values", rows)
    ranks = ranks_of(values)
    if ranks is None or ranks.dtype != kind:
        raise CorruptFileError(
            f"{data.where} has values of {values.type}, which differs from its page bounds."
        )
    return filled(ranks, flags_of(values.is_valid()))


def _of_page(
    segment: Segment, page: int, page_rows: int, num_rows: int
) -> tuple[pa.Array, npt.NDArray[np.uint64]]:
    """Return the values and the ids or addresses of a page, cached."""
    rows = range(page * page_rows, min((page + 1) * page_rows, num_rows))
    return segment.remembered(
        DATA,
        rows,
        lambda data: _read_page(data, rows),
        lambda values_and_ids: values_and_ids[0].nbytes + values_and_ids[1].nbytes,
        VALUES,
    )


def _read_page(data: IndexFileReader, rows: range) -> tuple[pa.Array, npt.NDArray[np.uint64]]:
    values, ids = data.read_all(["values", "ids"], rows)
    return owned(values), _checked_ids(data, ids).copy()


def _read_pages(lookup: IndexFileReader) -> _Pages:
    """Read the bounds of all pages."""
    if lookup.metadata.get("range_partitioned", "false").lower() != "false":
        raise UnsupportedFeatureError(f"{lookup.where} refers to several page files.")
    size = lookup.metadata.get("batch_size", str(_PAGE_ROWS))
    if not (size.isdecimal() and int(size)):
        raise CorruptFileError(f"{lookup.where} has an invalid page size of {size!r} rows.")
    least, greatest, *counts = lookup.read_all(["min", "max", "page_idx", "null_count"])
    ranks = ranks_of(least), ranks_of(greatest)
    numbers, nulls = (_whole(lookup, values) for values in counts)
    if ranks[0] is None or ranks[1] is None:
        raise UnsupportedFeatureError(
            f"{lookup.where} has values of {least.type}, which is not supported."
        )
    if (numbers != np.arange(len(numbers))).any():
        raise CorruptFileError(f"{lookup.where} has unordered pages.")
    has_values = flags_of(pc.is_valid(greatest))
    return _Pages(
        page_rows=int(size),
        least=filled(ranks[0], flags_of(pc.is_valid(least))),
        greatest=filled(ranks[1], has_values),
        begins_null=flags_of(pc.is_null(least)),
        has_values=has_values,
        nulls=nulls,
    )


def _whole(lookup: IndexFileReader, values: pa.Array) -> npt.NDArray[np.int64]:
    if not pa.types.is_integer(values.type) or ak.null_count(values):
        raise CorruptFileError(f"{lookup.where} has invalid page numbers or null counts.")
    return numbers_of(values).astype(np.int64)


def _rows_of(
    pages: npt.NDArray[np.intp], page_rows: int, num_rows: int
) -> npt.NDArray[np.int64] | range:
    if len(pages) and int(pages[-1]) - int(pages[0]) + 1 == len(pages):
        return range(int(pages[0]) * page_rows, min((int(pages[-1]) + 1) * page_rows, num_rows))
    rows = (pages[:, None] * page_rows + np.arange(page_rows)).ravel()
    return rows[rows < num_rows]


def _checked_ids(data: IndexFileReader, found: pa.Array) -> npt.NDArray[np.uint64]:
    if found.type != pa.uint64() or ak.null_count(found):
        raise CorruptFileError(f"{data.where} has row ids that are null or not uint64.")
    return numbers_of(found)
