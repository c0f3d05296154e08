"""Encoder of stable row ids and row versions, with the reference's choice of segments.

See docs/format/table.md, 5.2.

The output is byte-identical to pylance's for the same ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lancekit._format.fragment import Fragment
from lancekit._format.pb import rowids_pb2 as pb
from lancekit._format.unknown_fields import parse

U64Array = npt.NDArray[np.uint64]

#: the reference's estimate of a segment's fixed cost in bytes
_OVERHEAD = 24

#: the highest id; no range can have it, because ranges store end + 1
_LAST = 2**64 - 1

_NONE = np.empty(0, np.uint64)


def encode_row_ids(*parts: range | U64Array) -> bytes:
    """Encode row ids, in order; each part becomes one segment.

    A part that continues the previous range extends it.

    Examples
    --------
    >>> encode_row_ids(range(100)).hex(" ")
    '0a 04 0a 02 10 64'
    """
    return _with_parts(pb.RowIdSequence(), parts).SerializeToString()


def append_row_ids(data: bytes, more: range, where: str) -> bytes:
    """Append a range of ids to an encoded sequence."""
    sequence = parse(pb.RowIdSequence, data, f"row ids of {where}")
    return _with_parts(sequence, [more]).SerializeToString()


def _with_parts(sequence: pb.RowIdSequence, parts: Iterable[range | U64Array]) -> pb.RowIdSequence:
    for part in parts:
        segment = _range(part) if isinstance(part, range) else _segment(part)
        last = sequence.segments[-1] if sequence.segments else pb.U64Segment()
        ranges = last.HasField("range") and segment.HasField("range")
        if ranges and last.range.end == segment.range.start:
            last.range.end = segment.range.end
        else:
            sequence.segments.append(segment)
    return sequence


def _range(values: range) -> pb.U64Segment:
    return pb.U64Segment(range=pb.U64Segment.Range(start=values.start, end=values.stop))


def _segment(values: U64Array) -> pb.U64Segment:
    """Encode values as the smallest kind of segment; the first one wins a tie."""
    values = np.asarray(values, np.uint64)
    if len(values) == 0:
        return _range(range(0))
    if len(values) > 1 and not bool((values[1:] > values[:-1]).all()):
        return pb.U64Segment(array=_array(values))
    low, high = int(values[0]), int(values[-1])
    if high == _LAST:
        return _sorted(values)
    slots = high - low + 1
    holes = slots - len(values)
    if holes == 0:
        return _range(range(low, high + 1))
    sizes = [
        _OVERHEAD + 4 * holes,
        _OVERHEAD + -(-slots // 8),
        _OVERHEAD + 2 * len(values),
    ]
    return [_with_holes, _with_bitmap, _sorted][sizes.index(min(sizes))](values)


def _present(values: U64Array) -> npt.NDArray[np.bool_]:
    present = np.zeros(int(values[-1]) - int(values[0]) + 1, bool)
    present[(values - values[0]).astype(np.int64)] = True
    return present


def _with_holes(values: U64Array) -> pb.U64Segment:
    holes = np.flatnonzero(~_present(values)).astype(np.uint64) + values[0]
    segment = pb.U64Segment.RangeWithHoles(
        start=int(values[0]), end=int(values[-1]) + 1, holes=_array(holes)
    )
    return pb.U64Segment(range_with_holes=segment)


def _with_bitmap(values: U64Array) -> pb.U64Segment:
    bitmap = np.packbits(_present(values), bitorder="little").tobytes()
    segment = pb.U64Segment.RangeWithBitmap(
        start=int(values[0]), end=int(values[-1]) + 1, bitmap=bitmap
    )
    return pb.U64Segment(range_with_bitmap=segment)


def _sorted(values: U64Array) -> pb.U64Segment:
    return pb.U64Segment(sorted_array=_array(values))


def _array(values: U64Array) -> pb.EncodedU64Array:
    base = values.min()
    spread = int(values.max()) - int(base)
    kinds = pb.EncodedU64Array
    if spread < 1 << 16:
        small = kinds.U16Array(base=int(base), offsets=(values - base).astype("<u2").tobytes())
        return kinds(u16_array=small)
    if spread < 1 << 32:
        wide = kinds.U32Array(base=int(base), offsets=(values - base).astype("<u4").tobytes())
        return kinds(u32_array=wide)
    return kinds(u64_array=kinds.U64Array(values=values.astype("<u8").tobytes()))


def uniform_versions(num_rows: int, version: int) -> bytes:
    """Encode one version for all rows.

    Examples
    --------
    >>> uniform_versions(100, 1).hex(" ")
    '0a 08 0a 04 0a 02 10 64 10 01'
    """
    return encode_row_versions(np.full(min(num_rows, 1), version, np.uint64), [num_rows])


def encode_row_versions(versions: U64Array, lengths: Iterable[int] | None = None) -> bytes:
    """Encode versions, in order, as runs of equal versions.

    versions: one for each row, or for each run.
    lengths: lengths of the runs.
    """
    if lengths is None:
        changes = np.flatnonzero(np.diff(versions)) + 1
        starts = np.concatenate([[0], changes]) if len(versions) else np.empty(0, np.int64)
        lengths = np.diff(starts, append=len(versions)).tolist()
        versions = versions[starts.astype(np.int64)]
    sequence = pb.RowDatasetVersionSequence()
    row = 0
    for version, length in zip(versions.tolist(), lengths, strict=False):
        span = _range(range(row, row + length))
        sequence.runs.append(pb.RowDatasetVersionRun(span=span, version=version))
        row += length
    return sequence.SerializeToString()


def with_row_ids(
    fragments: Iterable[Fragment],
    ids: U64Array,
    created: U64Array = _NONE,
) -> list[Fragment]:
    """Store the row ids of moved rows in the first rows of their new fragments.

    The commit assigns new ids to the rows after them.  ``created`` has the creating versions of the
    last of the rows with ids: deleted rows that come back, so that the table no longer has them.
    """
    out, start = [], 0
    versions = _NONE
    if len(created):
        versions = np.concatenate([np.zeros(len(ids) - len(created), np.uint64), created])
    for fragment in fragments:
        part = slice(start, start + fragment.physical_rows)
        start = part.stop
        ids_of = encode_row_ids(*_ascending(ids[part])) if len(ids[part]) else fragment.row_ids
        since = encode_row_versions(versions[part]) if versions[part].any() else fragment.created_at
        out.append(replace(fragment, row_ids=ids_of, created_at=since))
    return out


def _ascending(ids: U64Array) -> list[U64Array]:
    """Split ids into ascending pieces, which take fewer bytes, unless there are many pieces."""
    descents = np.flatnonzero(ids[1:] <= ids[:-1]) + 1
    if len(descents) * 16 >= len(ids):
        return [ids]
    return [near for piece in np.split(ids, descents) for near in _near(piece)]


def _near(ids: U64Array) -> list[U64Array]:
    """Split ascending ids into pieces that span at most 2**16, unless the pieces are short.

    An id then takes two bytes, and the manifest lists the ids of all moved rows.
    """
    if not len(ids):
        return [ids]
    cuts = np.flatnonzero(np.diff((ids - ids[0]) >> np.uint64(16))) + 1
    return np.split(ids, cuts) if len(cuts) * 512 < len(ids) else [ids]
