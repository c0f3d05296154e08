"""B-trees: sorted values with their rows, in pages; a second file tells the ends of each page.

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
from lancekit._index.segment import IndexFileReader, Segment, held_bytes
from lancekit.errors import CorruptFileError, UnsupportedFeatureError

LOOKUP, DATA = "page_lookup.lance", "page_data.lance"

_PAGE_ROWS = 4096
#: of more of the index than this it pays to look at the column itself
_SHARE = 1 / 8
#: but so few rows are looked up in any case
_FEW = 4 * _PAGE_ROWS
#: pages that are remembered as they are read: those of a look-up, and not of a range
_FEW_PAGES = 4
#: in more pages than this it is looked where values are: at the first of so many, and again
_MANY_PAGES, _STEPS = 32, (512, 64)
#: of numbers it is guessed before where they are, so often: so many rows before and behind that
_GUESSES, _CLOSE = 3, 32
#: so many values are read of a page then for each that is wanted, about
_LOOKED_AT = 100


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

    def that_may_hold(self, condition: ColumnCondition) -> npt.NDArray[np.bool_]:
        """Return which pages have a value that is asked for, as far as their ends tell."""
        wanted = self.has_values
        if condition.interval_set is not None and wanted.any():
            # behind nulls any value may come that is no greater than the last
            least = np.where(self.begins_null, self.greatest, self.least)
            below = condition.interval_set.touches(least, self.greatest)
            if self.begins_null.any():
                below |= self.begins_null
            wanted = wanted & below
        some_null = self.nulls > 0
        return wanted | some_null if some_null.any() and condition.of_null else wanted


def search(segment: Segment, condition: ColumnCondition, *, always: bool) -> Rows | None:
    """Return the rows of a segment of which a question holds.

    ``None`` if it pays to look at the column itself, unless it is `always` to be answered.

    Raises LancekitError, OSError: the files cannot be read.
    """
    pages, num_rows = _known(segment)
    wanted = np.flatnonzero(pages.that_may_hold(condition))
    narrow = _single_values(condition, len(wanted))
    values = pages.page_rows * len(wanted) if narrow is None else _LOOKED_AT * len(narrow.intervals)
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
    chosen = places + rows.start if isinstance(rows, range) else rows[places]
    first, last = int(chosen[0]), int(chosen[-1])
    follow = last - first + 1 == len(chosen)
    return rows_of(_ids(data, range(first, last + 1) if follow else chosen))


def load(segment: Segment) -> None:
    """Remember a segment: its pages too, unless it is larger than all that is remembered."""
    pages, num_rows = _known(segment)
    if sum(file.size_bytes for file in segment.index.files) > cache_limit():
        return
    for page in range(len(pages.nulls)):
        _of_page(segment, page, pages.page_rows, num_rows)


def _known(segment: Segment) -> tuple[_Pages, int]:
    """Return the ends of the pages, and how many rows they have."""
    pages = segment.remembered(LOOKUP, "pages", _read_pages, lambda pages: pages.bytes_held)
    num_rows = segment.remembered(DATA, "rows", lambda data: data.num_rows, lambda _: 0)
    if -(-num_rows // pages.page_rows) != len(pages.nulls):
        raise CorruptFileError(f"{LOOKUP} has not as many rows as {DATA} has pages.")
    return pages, num_rows


def _single_values(condition: ColumnCondition, pages: int) -> IntervalSet | None:
    """Return where wanted values lie if few of each page are: of a range all would be."""
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
    """Return those rows of some pages that may be wanted, as far as some of their values tell."""
    starts = wanted * pages.page_rows
    found = _Stretches(
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
class _Stretches:
    """Rows that may be wanted, from and to, and between which values they lie.

    Behind nulls any value may come: of such stretches nothing is left out.
    """

    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    least: Ranks
    greatest: Ranks
    any_value: npt.NDArray[np.bool_]

    def steps(self, step: int) -> npt.NDArray[np.int64]:
        """Return where to cut, every so many rows."""
        count = (self.stops - self.starts - 1) // step
        within = ranges(np.ones(len(count), np.int64), count)
        return np.repeat(self.starts, count) + step * within

    def guesses(self, interval_set: IntervalSet) -> npt.NDArray[np.int64]:
        """Return where to cut: close before and behind wanted values if values grow evenly."""
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
    ) -> _Stretches:
        """Cut them inside, and return the parts that may be wanted."""
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
        return _Stretches(
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
        raise CorruptFileError(f"{data.where} has values of {values.type}.")
    return filled(ranks, flags_of(values.is_valid()))


def _of_page(
    segment: Segment, page: int, page_rows: int, num_rows: int
) -> tuple[pa.Array, npt.NDArray[np.uint64]]:
    """Return the values and the ids or addresses of a page, which is remembered."""
    rows = range(page * page_rows, min((page + 1) * page_rows, num_rows))
    return segment.remembered(
        DATA,
        rows,
        lambda data: _read_page(data, rows),
        lambda held: held[0].nbytes + held[1].nbytes,
        VALUES,
    )


def _read_page(data: IndexFileReader, rows: range) -> tuple[pa.Array, npt.NDArray[np.uint64]]:
    values, ids = data.read_all(["values", "ids"], rows)
    return owned(values), _checked_ids(data, ids).copy()


def _read_pages(lookup: IndexFileReader) -> _Pages:
    if lookup.metadata.get("range_partitioned", "false").lower() != "false":
        raise UnsupportedFeatureError(f"{lookup.where} leads to several files of pages.")
    size = lookup.metadata.get("batch_size", str(_PAGE_ROWS))
    if not (size.isdecimal() and int(size)):
        raise CorruptFileError(f"{lookup.where} says {size!r} rows of a page.")
    least, greatest, *counts = lookup.read_all(["min", "max", "page_idx", "null_count"])
    ranks = ranks_of(least), ranks_of(greatest)
    numbers, nulls = (_whole(lookup, values) for values in counts)
    if ranks[0] is None or ranks[1] is None:
        raise UnsupportedFeatureError(f"{lookup.where} has values of {least.type}.")
    if (numbers != np.arange(len(numbers))).any():
        raise CorruptFileError(f"{lookup.where} does not have its pages in order.")
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
        raise CorruptFileError(f"{lookup.where} counts pages and nulls by what is no number.")
    return numbers_of(values).astype(np.int64)


def _rows_of(
    pages: npt.NDArray[np.intp], page_rows: int, num_rows: int
) -> npt.NDArray[np.int64] | range:
    if len(pages) and int(pages[-1]) - int(pages[0]) + 1 == len(pages):
        return range(int(pages[0]) * page_rows, min((int(pages[-1]) + 1) * page_rows, num_rows))
    rows = (pages[:, None] * page_rows + np.arange(page_rows)).ravel()
    return rows[rows < num_rows]


def _ids(data: IndexFileReader, rows: npt.NDArray[np.int64] | range) -> npt.NDArray[np.uint64]:
    return _checked_ids(data, data.read("ids", rows))


def _checked_ids(data: IndexFileReader, found: pa.Array) -> npt.NDArray[np.uint64]:
    if found.type != pa.uint64() or ak.null_count(found):
        raise CorruptFileError(f"{data.where} has rows that are no numbers.")
    return numbers_of(found)
