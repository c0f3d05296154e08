"""Stable row ids and row versions: run-length and bitmap segments to NumPy (table format, 5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lancekit.errors import CorruptFileError
from lancekit.format.pb import rowids_pb2 as pb
from lancekit.format.wire import parse

__all__ = ["parse_row_ids", "parse_row_versions", "segment_values"]

U64Array = npt.NDArray[np.uint64]


def parse_row_ids(data: bytes, num_rows: int, where: str) -> U64Array:
    """Return the row id of each of the ``num_rows`` physical rows.

    Raises
    ------
    CorruptFileError
        The sequence is too short; surplus ids are ignored, as the reference does.
    """
    sequence = parse(pb.RowIdSequence, data, f"row ids of {where}")
    parts = [segment_values(segment) for segment in sequence.segments]
    ids = np.concatenate(parts) if parts else np.empty(0, np.uint64)
    if len(ids) < num_rows:
        raise CorruptFileError(
            f"The row ids of {where} end after {len(ids)} of {num_rows} rows.", fragment=where
        )
    return ids[:num_rows]


def parse_row_versions(data: bytes | None, num_rows: int, where: str) -> U64Array:
    """Return the version of each physical row; all 1 where nothing is recorded."""
    if data is None:
        return np.ones(num_rows, np.uint64)
    sequence = parse(pb.RowDatasetVersionSequence, data, f"row versions of {where}")
    # only the number of values in a span counts: spans restart after a compaction
    lengths = [len(segment_values(run.span)) for run in sequence.runs]
    versions = np.array([run.version for run in sequence.runs], np.uint64)
    out = np.repeat(versions, lengths)
    if len(out) < num_rows:
        raise CorruptFileError(
            f"The row versions of {where} end after {len(out)} of {num_rows} rows.", fragment=where
        )
    return out[:num_rows]


def segment_values(segment: pb.U64Segment) -> U64Array:
    """Expand one segment."""
    kind = segment.WhichOneof("segment")
    return _SEGMENTS[kind](getattr(segment, kind)) if kind else np.empty(0, np.uint64)


def _range(segment: pb.U64Segment.Range) -> U64Array:
    return np.arange(segment.start, segment.end, dtype=np.uint64)


def _with_holes(segment: pb.U64Segment.RangeWithHoles) -> U64Array:
    values = np.arange(segment.start, segment.end, dtype=np.uint64)
    holes = _array(segment.holes)
    return values[~np.isin(values, holes, assume_unique=True)]


def _with_bitmap(segment: pb.U64Segment.RangeWithBitmap) -> U64Array:
    # least significant bit first, against the format's own comment: both references do so
    bits = np.unpackbits(np.frombuffer(segment.bitmap, np.uint8), bitorder="little")
    values = np.arange(segment.start, segment.end, dtype=np.uint64)
    if len(bits) < len(values):
        raise CorruptFileError(
            f"A row-id bitmap has {len(bits)} bits for a range of {len(values)} ids."
        )
    present: U64Array = values[bits[: len(values)].astype(bool)]
    return present


def _array(encoded: Any) -> U64Array:
    kind = encoded.WhichOneof("array")
    if kind == "u64_array":
        return np.frombuffer(encoded.u64_array.values, "<u8").astype(np.uint64)
    small, width = (encoded.u32_array, "<u4") if kind == "u32_array" else (encoded.u16_array, "<u2")
    values: U64Array = np.frombuffer(small.offsets, width).astype(np.uint64)
    values += np.uint64(small.base)
    return values


_SEGMENTS: dict[str, Callable[..., U64Array]] = {
    "range": _range,
    "range_with_holes": _with_holes,
    "range_with_bitmap": _with_bitmap,
    "sorted_array": _array,
    "array": _array,
}
