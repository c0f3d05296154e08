"""What is asked of all fragments at once, read from their encoded messages by NumPy.

A table may have a hundred thousand fragments; making an object of each costs a second, and most
questions (which ids, how many rows) concern one or two fields of each.  Here all messages are
walked side by side: step k looks at the k-th field of every message that has so many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancekit.errors import CorruptFileError
from lancekit.format.pb import table_pb2 as pb
from lancekit.format.wire import parse

__all__ = ["FragmentFacts", "Totals", "facts_of", "totals_of_files"]

Numbers: TypeAlias = NDArray[np.uint64]
Offsets: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
# a row address has 32 bits for the fragment, and 32 for the row in it
_LAST_ID, _MOST_ROWS = np.uint64((1 << 32) - 1), np.uint64(1 << 32)
# up to so many messages are parsed one by one sooner than side by side
_FEW = 64
# a varint that starts at the last byte may be looked at this far behind the end
_PADDING = bytes(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over the fragments of a version."""

    rows: int
    deleted_rows: int
    data_files: int
    deletion_files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class FragmentFacts:
    """One entry per fragment; `deleted` counts rows, `has_deletions` tells whether a file does."""

    ids: Numbers
    physical_rows: Numbers
    deleted: Numbers
    has_deletions: Flags

    def take(self, which: NDArray[Any]) -> FragmentFacts:
        """Return the entries at positions, or where a mask is set."""
        return FragmentFacts(
            self.ids[which], self.physical_rows[which], self.deleted[which],
            self.has_deletions[which],
        )  # fmt: skip

    def followed_by(self, other: FragmentFacts) -> FragmentFacts:
        """Return the entries of both."""
        return FragmentFacts(
            np.concatenate([self.ids, other.ids]),
            np.concatenate([self.physical_rows, other.physical_rows]),
            np.concatenate([self.deleted, other.deleted]),
            np.concatenate([self.has_deletions, other.has_deletions]),
        )


class _Messages(NamedTuple):
    """Messages in one buffer, from `starts` to `stops`."""

    data: NDArray[np.uint8]
    starts: Offsets
    stops: Offsets


class _Fields(NamedTuple):
    """One field of each of some messages; `value` is a number, or the length of what starts."""

    message: Offsets
    number: Numbers
    kind: Numbers
    value: Numbers
    start: Offsets

    def where(self, number: int, kind: int) -> _Fields:
        chosen = (self.number == number) & (self.kind == kind)
        return _Fields(*(column[chosen] for column in self))


def facts_of(encoded: Sequence[bytes]) -> FragmentFacts:
    """Return what is asked of fragments, from their encoded messages.

    Raises
    ------
    CorruptFileError
        A message is damaged, or claims more than a row address could name.
    """
    if len(encoded) <= _FEW:
        return _facts_of_few(encoded)
    messages, count = _joined(encoded), len(encoded)
    ids, rows, deleted = (np.zeros(count, np.uint64) for _ in range(3))
    has_deletions = np.zeros(count, np.bool_)
    for fields in _walk(messages):
        found = fields.where(1, _VARINT)
        ids[found.message] = found.value
        found = fields.where(4, _VARINT)
        rows[found.message] = found.value
        found = fields.where(3, _LENGTH)
        has_deletions[found.message] = True
        for inner in _walk(_inside(messages, found)):
            number = inner.where(4, _VARINT)
            deleted[found.message[number.message]] = number.value
    if (ids > _LAST_ID).any() or (rows > _MOST_ROWS).any() or (deleted > rows).any():
        raise _damaged()
    return FragmentFacts(ids, rows, deleted, has_deletions)


def totals_of_files(encoded: Sequence[bytes]) -> tuple[int, int]:
    """Return how many data files fragments have, and the bytes of these as far as known.

    Raises
    ------
    CorruptFileError
        A message is damaged.
    """
    files = size = 0
    if len(encoded) <= _FEW:
        for fragment in _parsed(encoded):
            files += len(fragment.files)
            size += sum(file.file_size_bytes for file in fragment.files)
        return files, size
    messages = _joined(encoded)
    for fields in _walk(messages):
        found = fields.where(2, _LENGTH)
        files += found.message.size
        for inner in _walk(_inside(messages, found)):
            size += int(inner.where(6, _VARINT).value.sum())
    return files, size


def _parsed(encoded: Sequence[bytes]) -> Iterator[pb.DataFragment]:
    return (parse(pb.DataFragment, data, "a manifest's fragment") for data in encoded)


def _facts_of_few(encoded: Sequence[bytes]) -> FragmentFacts:
    rows = [
        (f.id, f.physical_rows, f.deletion_file.num_deleted_rows, f.HasField("deletion_file"))
        for f in _parsed(encoded)
    ]
    columns = zip(*rows, strict=True) if rows else ((), (), (), ())
    kinds = (np.uint64, np.uint64, np.uint64, np.bool_)
    return FragmentFacts(*map(np.array, columns, kinds))


def _joined(encoded: Sequence[bytes]) -> _Messages:
    data = np.frombuffer(b"".join(encoded) + _PADDING, np.uint8)
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    stops = np.cumsum(lengths)
    return _Messages(data, stops - lengths, stops)


def _inside(messages: _Messages, fields: _Fields) -> _Messages:
    return _Messages(messages.data, fields.start, fields.start + fields.value.astype(np.int64))


def _walk(messages: _Messages) -> Iterator[_Fields]:
    """Yield the first field of every message, then the second of those that have one, ..."""
    data, at, stops = messages
    which = np.arange(at.size)
    while True:
        more = at < stops
        if not more.all():
            which, at, stops = which[more], at[more], stops[more]
        if not which.size:
            return
        tag, at = _varints(data, at)
        kind = tag & np.uint64(7)
        if kind.any() and ((kind == _FIXED64) | (kind == _FIXED32)).any():
            value, start, at = _with_fixed(data, kind, at)
        else:
            value, start = _varints(data, at)
            at = np.where(kind == _LENGTH, start + _bounded(value), start)
        # groups are of protobuf's past: nothing writes them
        known = (kind == _VARINT) | (kind == _LENGTH) | (kind == _FIXED64) | (kind == _FIXED32)
        if not known.all() or (at > stops).any():
            raise _damaged()
        yield _Fields(which, tag >> np.uint64(3), kind, value, start)


def _with_fixed(
    data: NDArray[np.uint8], kind: Numbers, at: Offsets
) -> tuple[Numbers, Offsets, Offsets]:
    """Read a step in which some fields have a fixed width; no known field does, so no value."""
    value = np.zeros(at.size, np.uint64)
    start = at.copy()
    after = at + np.where(kind == _FIXED64, 8, 4)
    variable = np.flatnonzero((kind == _VARINT) | (kind == _LENGTH))
    value[variable], start[variable] = _varints(data, at[variable])
    after[variable] = start[variable] + np.where(
        kind[variable] == _LENGTH, _bounded(value[variable]), 0
    )
    return value, start, after


def _varints(data: NDArray[np.uint8], at: Offsets) -> tuple[Numbers, Offsets]:
    """Return the numbers that start at each position, and where each ends."""
    byte = data[at]
    at = at + 1
    value = (byte & 0x7F).astype(np.uint64)
    going = np.flatnonzero(byte >= 0x80)
    shift = 7
    while going.size:
        if shift > 63 or int(at.max()) >= data.size:
            raise _damaged()
        byte = data[at[going]]
        at[going] += 1
        value[going] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        going = going[byte >= 0x80]
        shift += 7
    return value, at


def _bounded(lengths: Numbers) -> Offsets:
    """Return lengths as offsets that stay far from overflow; too long is too long."""
    return np.minimum(lengths, np.uint64(1 << 40)).astype(np.int64)


def _damaged() -> CorruptFileError:
    return CorruptFileError(
        "The fragments of a manifest are damaged.",
        hint="Restore the manifest from a copy, or open an earlier version.",
    )
