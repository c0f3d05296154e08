"""Decoder of a fragment's stable row ids and row versions (docs/format/table.md, 5).

A sequence is a list of segments: ranges, ranges with holes, bitmaps, arrays.  A segment's number of
values is known before any value is computed.  So a few bytes that claim 2**60 ids raise an error
instead of being expanded.  Ranges are never expanded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lancekit._format.pb import rowids_pb2 as pb
from lancekit._format.unknown_fields import parse
from lancekit._lazy import cached_property
from lancekit.errors import CorruptFileError

U64Array = npt.NDArray[np.uint64]
Offsets = npt.NDArray[np.int64]

_ABSENT = -1

#: from this many ranges on, they are decoded together
_MANY = 16


class _Segment(Protocol):
    """Distinct values in a fixed order."""

    @property
    def bounds(self) -> tuple[int, int]:
        """Lower and upper bound of the values."""

    @property
    def count(self) -> int:
        """Number of values; `len` could overflow for a damaged range."""

    def at(self, places: Offsets) -> U64Array:
        """Return the values at positions in the order."""

    def find(self, ids: U64Array) -> Offsets:
        """Return the position of each id, -1 if it is not a value."""


@dataclass(frozen=True, slots=True)
class _Span:
    """Range of values without its `holes`, which ascend."""

    start: int
    stop: int
    holes: U64Array

    @property
    def bounds(self) -> tuple[int, int]:
        return self.start, self.stop - 1

    @property
    def count(self) -> int:
        return self.stop - self.start - len(self.holes)

    def at(self, places: Offsets) -> U64Array:
        values: U64Array = places.astype(np.uint64) + np.uint64(self.start)
        if len(self.holes):
            # the value at a position follows all holes below it
            filled = self.holes - np.arange(len(self.holes), dtype=np.uint64)
            values += np.searchsorted(filled, values, side="right").astype(np.uint64)
        return values

    def find(self, ids: U64Array) -> Offsets:
        before = np.searchsorted(self.holes, ids)
        inside = (ids >= np.uint64(self.start)) & (ids < np.uint64(self.stop))
        if len(self.holes):
            nearest = self.holes[np.minimum(before, len(self.holes) - 1)]
            inside &= nearest != ids
        places = (ids - np.uint64(self.start)).astype(np.int64) - before
        return np.where(inside, places, _ABSENT)


@dataclass(frozen=True)
class _Ranges:
    """Consecutive ranges, as pylance writes them for rows that an update selected.

    Half a million such rows have as many ranges: an object for each takes seconds.
    """

    starts: U64Array
    stops: U64Array

    @property
    def bounds(self) -> tuple[int, int]:
        return int(self.starts.min()), int(self.stops.max()) - 1

    @cached_property
    def _ends(self) -> Offsets:
        return np.cumsum(self.stops - self.starts, dtype=np.int64)

    @property
    def count(self) -> int:
        return int(self._ends[-1])

    def at(self, places: Offsets) -> U64Array:
        owners = np.searchsorted(self._ends, places, side="right")
        # the last value of a range is at the position before the range's end
        return self.stops[owners] - (self._ends[owners] - places).astype(np.uint64)

    @cached_property
    def _order(self) -> Offsets:
        return np.argsort(self.starts, kind="stable")

    def find(self, ids: U64Array) -> Offsets:
        nearest = np.searchsorted(self.starts, ids, side="right", sorter=self._order) - 1
        owners = self._order[np.maximum(nearest, 0)]
        inside = (nearest >= 0) & (ids < self.stops[owners])
        places = self._ends[owners] - (self.stops[owners] - ids).astype(np.int64)
        return np.where(inside, places, _ABSENT)


@dataclass(frozen=True)
class _Values:
    values: U64Array

    @property
    def bounds(self) -> tuple[int, int]:
        return int(self.values.min()), int(self.values.max())

    @property
    def count(self) -> int:
        return len(self.values)

    def at(self, places: Offsets) -> U64Array:
        return self.values[places]

    @cached_property
    def _order(self) -> Offsets:
        return np.argsort(self.values, kind="stable")

    def find(self, ids: U64Array) -> Offsets:
        at = np.searchsorted(self.values, ids, sorter=self._order)
        places: Offsets = self._order[np.minimum(at, len(self.values) - 1)]
        return np.where(self.values[places] == ids, places, _ABSENT)


class RowIds:
    """Row ids of a fragment: one per physical row, including deleted rows."""

    def __init__(self, segments: Sequence[_Segment]) -> None:
        self._segments = segments
        self._starts = np.cumsum([0, *(segment.count for segment in segments)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def at(self, rows: Offsets) -> U64Array:
        """Return the row ids at physical offsets, which must be within the fragment."""
        out = np.empty(len(rows), np.uint64)
        if len(self._segments) == 1 or not len(rows):
            return self._segments[0].at(rows) if len(rows) else out
        owners = np.searchsorted(self._starts, rows, side="right") - 1
        order = np.argsort(owners, kind="stable")
        parts, firsts = np.unique(owners[order], return_index=True)
        for owner, positions in zip(parts.tolist(), np.split(order, firsts[1:]), strict=True):
            out[positions] = self._segments[owner].at(rows[positions] - self._starts[owner])
        return out

    def values(self) -> U64Array:
        """Return the row ids of all rows."""
        out = np.empty(len(self), np.uint64)
        for segment, start in zip(self._segments, self._starts.tolist(), strict=False):
            out[start : start + segment.count] = segment.at(np.arange(segment.count))
        return out

    def between(self, ids: U64Array) -> tuple[int, int]:
        """Return the range within ascending ids that can belong to the fragment."""
        bounds = [segment.bounds for segment in self._segments if segment.count]
        if not bounds:
            return 0, 0
        lowest, highest = min(low for low, _ in bounds), max(high for _, high in bounds)
        first = np.searchsorted(ids, np.uint64(lowest))
        return int(first), int(np.searchsorted(ids, np.uint64(highest), side="right"))

    def find(self, ids: U64Array) -> Offsets:
        """Return the physical offset of each id, -1 if it has none; ids must ascend."""
        out = np.full(len(ids), _ABSENT)
        for segment, start in zip(self._segments, self._starts.tolist(), strict=False):
            lowest, highest = segment.bounds
            first = int(np.searchsorted(ids, np.uint64(lowest)))
            stop = int(np.searchsorted(ids, np.uint64(highest), side="right"))
            if first < stop:
                found = segment.find(ids[first:stop])
                present = np.flatnonzero(found != _ABSENT)
                out[first + present] = found[present] + start
        return out


@dataclass(frozen=True, slots=True)
class RowVersions:
    """Version of each physical row, as runs: `ends[i]` is the end offset of run ``i``."""

    versions: U64Array
    ends: Offsets

    def at(self, rows: Offsets) -> U64Array:
        """Return the versions of the rows at physical offsets."""
        return self.versions[np.searchsorted(self.ends, rows, side="right")]

    def values(self) -> U64Array:
        """Return the versions of all rows."""
        return np.repeat(self.versions, np.diff(self.ends, prepend=0))


def read_row_ids(data: bytes, num_rows: int, where: str) -> RowIds:
    """Decode the row ids of a fragment with ``num_rows`` physical rows.

    Raises CorruptFileError: the number of ids differs from the rows, or the bytes are damaged.
    """
    segments = _row_id_segments(data, where)
    _check_count(
        sum(segment.count for segment in segments), num_rows, f"The row ids of {where}", where
    )
    return RowIds(segments)


def parse_row_ids(data: bytes, num_rows: int, where: str) -> U64Array:
    """Return the row id of each of the ``num_rows`` physical rows; errors as in `read_row_ids`."""
    return read_row_ids(data, num_rows, where).values()


def count_row_ids(data: bytes, where: str) -> int:
    """Return the number of row ids in a sequence."""
    return sum(segment.count for segment in _row_id_segments(data, where))


def read_row_id_bounds(data: bytes, where: str) -> tuple[int, int]:
    """Return the lower and upper bound of a sequence's row ids; the lower is higher if empty.

    Raises CorruptFileError: the bytes are damaged.
    """
    bounds = [segment.bounds for segment in _row_id_segments(data, where)]
    if not bounds:
        return (1 << 64) - 1, 0
    return min(lowest for lowest, _ in bounds), max(highest for _, highest in bounds)


def read_row_versions(data: bytes | None, num_rows: int, where: str) -> RowVersions:
    """Decode a sequence of versions; without one, all versions are 1."""
    if data is None:
        return RowVersions(np.ones(1, np.uint64), np.array([num_rows]))
    sequence = parse(pb.RowDatasetVersionSequence, data, f"row versions of {where}")
    # only the length of a span counts: spans restart after a compaction
    lengths = [_count(run.span, where) for run in sequence.runs]
    _check_count(sum(lengths), num_rows, f"The row versions of {where}", where)
    versions = np.array([run.version for run in sequence.runs], np.uint64)
    return RowVersions(versions, np.cumsum(lengths, dtype=np.int64))


def _check_count(count: int, num_rows: int, what: str, where: str) -> None:
    if count != num_rows:
        raise CorruptFileError(
            f"{what} end after {count} of {num_rows} rows."
            if count < num_rows
            else f"{what} are {count} instead of {num_rows}.",
            hint="Open an earlier version, or rewrite the fragment with its writer.",
            fragment=where,
        )


# ---- segments


def _row_id_segments(data: bytes, where: str) -> list[_Segment]:
    sequence = parse(pb.RowIdSequence, data, f"row ids of {where}")
    kinds = groupby(sequence.segments, lambda segment: segment.WhichOneof("segment"))
    segments = (made for kind, group in kinds for made in _segments(kind, list(group), where))
    return [segment for segment in segments if segment.count]


def _segments(
    kind: str | None, messages: Sequence[pb.U64Segment], where: str
) -> Iterator[_Segment]:
    """Yield the segments of consecutive messages of one kind; many ranges become one segment."""
    if kind != "range" or len(messages) < _MANY:
        yield from (_segment(message, where) for message in messages)
        return
    ends = [(message.range.start, message.range.end) for message in messages]
    count = sum(stop - start for start, stop in ends)
    if count >= 1 << 63 or any(stop < start for start, stop in ends):
        raise CorruptFileError(
            f"The {len(ends)} ranges of row ids of {where} are damaged: they have {count} values, "
            "or one ends before it begins.",
            fragment=where,
        )
    both = np.array(ends, np.uint64)
    filled = both[both[:, 1] > both[:, 0]]
    if len(filled):
        yield _Ranges(filled[:, 0].copy(), filled[:, 1].copy())


def _count(message: pb.U64Segment, where: str) -> int:
    if message.WhichOneof("segment") == "range" and message.range.end >= message.range.start:
        return int(message.range.end - message.range.start)
    return _segment(message, where).count


def _segment(message: pb.U64Segment, where: str) -> _Segment:
    kind = message.WhichOneof("segment")
    if kind is None:
        return _Values(np.empty(0, np.uint64))
    try:
        return _SEGMENTS[kind](getattr(message, kind))
    except ValueError as error:
        raise CorruptFileError(
            f"A segment of the row ids or versions of {where} is damaged: {error}.", fragment=where
        ) from error


def _span(start: int, end: int, holes: U64Array) -> _Segment:
    if end < start:
        raise ValueError(f"a range from {start} to {end}")
    return _Span(start, end, holes)


def _with_holes(segment: pb.U64Segment.RangeWithHoles) -> _Segment:
    holes = np.unique(_array(segment.holes))
    if len(holes) and not segment.start <= int(holes[0]) <= int(holes[-1]) < segment.end:
        raise ValueError(f"holes outside of the range from {segment.start} to {segment.end}")
    return _span(segment.start, segment.end, holes)


def _with_bitmap(segment: pb.U64Segment.RangeWithBitmap) -> _Segment:
    # least significant bit first, contrary to the format's comment: both references do so
    slots = segment.end - segment.start
    if not 0 <= slots <= 8 * len(segment.bitmap):
        raise ValueError(f"a bitmap of {len(segment.bitmap)} bytes for {slots} values")
    bits = np.unpackbits(np.frombuffer(segment.bitmap, np.uint8), bitorder="little")
    present = np.flatnonzero(bits[:slots]).astype(np.uint64)
    return _Values(present + np.uint64(segment.start))


def _array(encoded: pb.EncodedU64Array) -> U64Array:
    kind = encoded.WhichOneof("array")
    if kind is None:
        return np.empty(0, np.uint64)
    if kind == "u64_array":
        return np.frombuffer(encoded.u64_array.values, "<u8").astype(np.uint64)
    small, width = (encoded.u32_array, "<u4") if kind == "u32_array" else (encoded.u16_array, "<u2")
    offsets: U64Array = np.frombuffer(small.offsets, width).astype(np.uint64)
    if len(offsets) and small.base + int(offsets.max()) >= 1 << 64:
        raise ValueError(f"values above 64 bits, from {small.base}")
    return offsets + np.uint64(small.base)


_SEGMENTS: dict[str, Callable[[Any], _Segment]] = {
    "range": lambda segment: _span(segment.start, segment.end, np.empty(0, np.uint64)),
    "range_with_holes": _with_holes,
    "range_with_bitmap": _with_bitmap,
    "sorted_array": lambda segment: _Values(_array(segment)),
    "array": lambda segment: _Values(_array(segment)),
}
