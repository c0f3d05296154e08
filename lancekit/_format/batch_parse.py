"""Many messages walked at once by NumPy: step k looks at the k-th field of every one.

A table may have a hundred thousand fragments; making an object of each costs a second, and most
questions (which ids, how many rows) concern one or two fields of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancekit._format.pb import table_pb2 as pb
from lancekit._format.unknown_fields import parse
from lancekit.errors import CorruptFileError

Numbers: TypeAlias = NDArray[np.uint64]
Offsets: TypeAlias = NDArray[np.int64]

VARINT, _FIXED64, LENGTH, _FIXED32 = 0, 1, 2, 5
# a varint that starts at the last byte may be looked at this far behind the end
_PADDING = bytes(16)


class Messages(NamedTuple):
    """Messages in one buffer, from `starts` to `stops`."""

    data: NDArray[np.uint8]
    starts: Offsets
    stops: Offsets


class Fields(NamedTuple):
    """One field of each of some messages; `value` is a number, or the length of what starts."""

    message: Offsets
    number: Numbers
    kind: Numbers
    value: Numbers
    start: Offsets

    def where(self, number: int, kind: int) -> Fields:
        """Return those of a number and kind."""
        return self.take((self.number == number) & (self.kind == kind))

    def take(self, chosen: NDArray[np.bool_]) -> Fields:
        """Return those that a mask has set."""
        message, number, kind, value, start = self
        return Fields(message[chosen], number[chosen], kind[chosen], value[chosen], start[chosen])


def joined(encoded: Sequence[bytes]) -> Messages:
    """Return messages in one buffer."""
    data = np.frombuffer(b"".join(encoded) + _PADDING, np.uint8)
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    stops = np.cumsum(lengths)
    return Messages(data, stops - lengths, stops)


def inside(messages: Messages, fields: Fields) -> Messages:
    """Return the messages that fields hold."""
    return Messages(messages.data, fields.start, fields.start + fields.value.astype(np.int64))


def walk(messages: Messages) -> Iterator[Fields]:
    """Yield the first field of every message, then the second of those that have one, ...

    Raises CorruptFileError: a message is damaged.
    """
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
            at = np.where(kind == LENGTH, start + _bounded(value), start)
        # groups are of protobuf's past: nothing writes them
        known = (kind == VARINT) | (kind == LENGTH) | (kind == _FIXED64) | (kind == _FIXED32)
        if not known.all() or (at > stops).any():
            raise damaged()
        yield Fields(which, tag >> np.uint64(3), kind, value, start)


def _with_fixed(
    data: NDArray[np.uint8], kind: Numbers, at: Offsets
) -> tuple[Numbers, Offsets, Offsets]:
    """Read a step in which some fields have a fixed width; no known field does, so no value."""
    value = np.zeros(at.size, np.uint64)
    start = at.copy()
    after = at + np.where(kind == _FIXED64, 8, 4)
    variable = np.flatnonzero((kind == VARINT) | (kind == LENGTH))
    value[variable], start[variable] = _varints(data, at[variable])
    after[variable] = start[variable] + np.where(
        kind[variable] == LENGTH, _bounded(value[variable]), 0
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
            raise damaged()
        byte = data[at[going]]
        at[going] += 1
        value[going] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        going = going[byte >= 0x80]
        shift += 7
    return value, at


def _bounded(lengths: Numbers) -> Offsets:
    """Return lengths as offsets that stay far from overflow; too long is too long."""
    return np.minimum(lengths, np.uint64(1 << 40)).astype(np.int64)


def damaged() -> CorruptFileError:
    """Return the error for fragments that make no sense."""
    return CorruptFileError(
        "The fragments of a manifest are damaged.",
        hint="Restore the manifest from a copy, or open an earlier version.",
    )


# ---- which fields the indices of a version are of, without all else that indices say of
# themselves
#
# See docs/format/table.md, 2.1, and message `IndexSection`.


def indexed_fields(data: bytes, where: str) -> frozenset[int]:
    """Return the ids of all fields that some index is of.

    Raises CorruptFileError: the section does not parse; ``where`` names its file.
    """
    section = parse(pb.IndexSection, data, f"index section of {where}")
    return frozenset(field for index in section.indices for field in index.fields)
