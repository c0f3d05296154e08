"""NumPy parser for many protobuf messages at once: step k reads the k-th field of each message.

A table may have 100,000 fragments.  An object for each takes a second to build, and most callers
need one or two fields of each (ids, numbers of rows).
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
# parsing a varint at the last byte may read this many bytes past the end
_PADDING = bytes(16)


class Messages(NamedTuple):
    """Messages in one buffer, from `starts` to `stops`."""

    data: NDArray[np.uint8]
    starts: Offsets
    stops: Offsets


class Fields(NamedTuple):
    """One field of several messages; `value` is a number, or the length of bytes at `start`."""

    message: Offsets
    number: Numbers
    kind: Numbers
    value: Numbers
    start: Offsets

    def where(self, number: int, kind: int) -> Fields:
        """Select the fields with a number and a wire type."""
        return self.take((self.number == number) & (self.kind == kind))

    def take(self, mask: NDArray[np.bool_]) -> Fields:
        """Select the fields that a mask marks."""
        message, number, kind, value, start = self
        return Fields(message[mask], number[mask], kind[mask], value[mask], start[mask])


def joined(encoded: Sequence[bytes]) -> Messages:
    """Concatenate messages into one buffer."""
    data = np.frombuffer(b"".join(encoded) + _PADDING, np.uint8)
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    stops = np.cumsum(lengths)
    return Messages(data, stops - lengths, stops)


def inside(messages: Messages, fields: Fields) -> Messages:
    """Return the messages that are nested in fields."""
    return Messages(messages.data, fields.start, fields.start + fields.value.astype(np.int64))


def walk(messages: Messages) -> Iterator[Fields]:
    """Yield the first field of every message, then the second field of messages that have one, ...

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
        # groups are obsolete in protobuf, and no writer uses them
        known = (kind == VARINT) | (kind == LENGTH) | (kind == _FIXED64) | (kind == _FIXED32)
        if not known.all() or (at > stops).any():
            raise damaged()
        yield Fields(which, tag >> np.uint64(3), kind, value, start)


def _with_fixed(
    data: NDArray[np.uint8], kind: Numbers, at: Offsets
) -> tuple[Numbers, Offsets, Offsets]:
    """Read a step with fields of fixed width, whose values are skipped: no known field has one."""
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
    """Decode the varint at each position; return also the positions after them."""
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
    """Return lengths as offsets, clipped far below overflow: longer ones are damage anyway."""
    return np.minimum(lengths, np.uint64(1 << 40)).astype(np.int64)


def damaged() -> CorruptFileError:
    """Return the error for damaged fragment messages."""
    return CorruptFileError(
        "The fragments of a manifest are damaged.",
        hint="Restore the manifest from a copy, or open an earlier version.",
    )


# ---- ids of indexed fields, without decoding the rest of the index section
#
# See docs/format/table.md, 2.1, and message `IndexSection`.


def indexed_fields(data: bytes, where: str) -> frozenset[int]:
    """Return the ids of all fields that have an index.

    Raises CorruptFileError: the section does not parse; ``where`` names its file.
    """
    section = parse(pb.IndexSection, data, f"index section of {where}")
    return frozenset(field for index in section.indices for field in index.fields)
