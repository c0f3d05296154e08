"""FSST decoder, for tables of up to 255 symbols (docs/format/data-files.md, 11.7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit import _arrow_kernels as ak
from lancekit._compiled.kernel import Values, kernel
from lancekit._file.kernels.bounds import allowed, claim
from lancekit._file.kernels.faults import require
from lancekit._file.kernels.memory import Bytes, Ints, scratch
from lancekit._file.kernels.values import Variable
from lancekit._format.arrow_parts import strings_of, viewed
from lancekit._lazy import cached_property

_ESCAPE = 255
_MAGIC = 0x46535354
_EVERY_BYTE = bytes(range(256))
_CROSSES = "an FSST escape crosses a value"

#: Length that marks an escape; no symbol is that long.
_NEVER = 255

#: Codes decoded at a time; an even number.
_BLOCK = 1 << 19

#: For fewer codes, decoding one by one is faster than building the table of pairs.
_MANY = 1 << 18

#: Codes that the kernel decodes before it looks up where their strings begin.
_STRETCH = 1 << 12

#: Spare bytes of the output buffer: the kernel reserves 8 bytes for each code of a stretch, and
#: the copy of the last symbol may write 8 bytes past its end.
_SLACK = 8 * _STRETCH + 8

#: Number of codes sampled to estimate the decoded size, and the safety factor of the estimate.
_SAMPLE, _MARGIN = 1 << 12, 1.1

#: More codes than this may decode to more than 2 GiB.
_MOST = 1 << 28


@kernel("u1 u1", saves=0)
def most_bytes(codes: Values, lengths: Values) -> int:
    """Return an upper bound of the decoded bytes, as if no code were a literal byte."""
    size = 0
    for at in range(codes.size):
        size += lengths[np.uint64(codes[np.uint64(at)])]
    return size


@kernel("u1 T u1 u1 =i4 =u1 =i4", over="i4 i8", saves=6)
def decode_codes(
    codes: Values,
    offsets: Values,
    lengths: Values,
    symbols: Values,
    marks: Values,
    out: Values,
    places: Values,
) -> int:
    """Decode the codes between offsets; return the number of decoded bytes.

    The kernel copies 8 bytes for each symbol, whatever its length, so ``out`` needs `_SLACK` spare
    bytes.  Too small an ``out`` is reported like damage.  In ``lengths`` an escape has length 1,
    and codes without a symbol have length 0.

    A loop over the codes of each short string would end at a branch that the processor
    mispredicts.  So codes are decoded in stretches.  ``marks`` records where each code begins in
    ``out``, -1 for literal bytes, and the strings' begins in ``places`` are picked from it.
    """
    at = 0
    value = 0
    here, end = np.int64(offsets[0]), np.int64(offsets[np.uint64(offsets.size - 1)])
    most = marks.size - 2
    while here < end:
        first = here
        stop = min(here + most, end)
        if at + 8 * (stop - here) + 8 > out.size:
            return -1
        while here < stop:
            code = codes[np.uint64(here)]
            marks[np.uint64(here - first)] = at
            if code == 255:
                here += 1
                if here >= end:
                    return -1
                marks[np.uint64(here - first)] = -1
                out[np.uint64(at)] = codes[np.uint64(here)]
                at += 1
            else:
                length = lengths[np.uint64(code)]
                if length == 0:
                    return -1
                symbol = 8 * np.int64(code)
                # all loads come before all stores, so that they compile to one load and one store
                b0, b1 = symbols[np.uint64(symbol)], symbols[np.uint64(symbol + 1)]
                b2, b3 = symbols[np.uint64(symbol + 2)], symbols[np.uint64(symbol + 3)]
                b4, b5 = symbols[np.uint64(symbol + 4)], symbols[np.uint64(symbol + 5)]
                b6, b7 = symbols[np.uint64(symbol + 6)], symbols[np.uint64(symbol + 7)]
                out[np.uint64(at)], out[np.uint64(at + 1)] = b0, b1
                out[np.uint64(at + 2)], out[np.uint64(at + 3)] = b2, b3
                out[np.uint64(at + 4)], out[np.uint64(at + 5)] = b4, b5
                out[np.uint64(at + 6)], out[np.uint64(at + 7)] = b6, b7
                at += length
            here += 1
        while value < offsets.size and offsets[np.uint64(value)] < here:
            mark = marks[np.uint64(offsets[np.uint64(value)] - first)]
            if mark < 0:
                return -1
            places[np.uint64(value)] = mark
            value += 1
    for last in range(value, offsets.size):
        places[np.uint64(last)] = at
    return at


@lru_cache(maxsize=16)
def symbol_table(table: bytes) -> SymbolTable:
    """Parse a symbol table; cached, because pages are read in pieces."""
    return SymbolTable(table)


class SymbolTable:
    """Symbol table of one page.

    Arrow decodes: codes index a binary array of their symbols, and ``take`` concatenates.  Its cost
    is per element.  With enough codes to pay for an array of all pairs, codes are decoded in pairs.
    """

    def __init__(self, table: bytes) -> None:
        require(len(table) >= 8, "an FSST symbol table is too short")
        header = int.from_bytes(table[:8], "little")
        require(header >> 32 == _MAGIC, "an FSST symbol table has no magic number")
        self.compressed = bool(header >> 24 & 0xFF)
        if not self.compressed:
            return
        count = header & 0xFF
        require(len(table) >= 8 + 9 * count, "an FSST symbol table is too short")
        symbols = np.frombuffer(table, np.uint8, 8 * count, 8).reshape(count, 8)
        sizes = np.frombuffer(table, np.uint8, count, 8 + 8 * count)
        require(
            bool(((sizes >= 1) & (sizes <= 8)).all()), "an FSST symbol is not 1 to 8 bytes long"
        )
        self._count = count
        self._symbols = np.zeros(2048, np.uint8)
        self._symbols[: 8 * count] = symbols.reshape(-1)
        # entries of single codes: the symbols, then the literal bytes that follow an escape
        self._lengths = np.ones(512, np.uint8)
        self._lengths[:count], self._lengths[count:256] = sizes, 0
        data = symbols[np.arange(8) < sizes[:, None]].tobytes() + _EVERY_BYTE
        borders = np.zeros(513, np.int32)
        np.cumsum(self._lengths, out=borders[1:])
        self._entries = strings_of(borders, data, pa.binary())

    @cached_property
    def _pairs(self) -> pa.Array:
        """Decoded bytes of all pairs of codes, at index ``first + 256 * second``.

        A second block of the same size holds the pairs whose first code is a literal byte.
        """
        codes = np.arange(1 << 16, dtype=np.uint16).view(np.uint8).astype(np.uint16)
        table = np.tile(codes, 2).reshape(2, -1, 2)
        plain, behind = table[0], table[1]
        plain[plain[:, 0] == _ESCAPE, 1] += 256
        behind[:, 0] += 256
        _, borders, data = ak.take(self._entries, table.reshape(-1)).buffers()
        every_second = viewed(borders, np.int32)[::2].copy()
        return pa.Array.from_buffers(pa.binary(), 1 << 17, [None, pa.py_buffer(every_second), data])

    @cached_property
    def _firsts(self) -> NDArray[np.uint8]:
        """Number of bytes of each pair's first code; `_NEVER` for an escape."""
        lengths = self._lengths[:256].copy()
        lengths[_ESCAPE] = _NEVER
        return np.concatenate((np.tile(lengths, 256), np.ones(1 << 16, np.uint8)))

    def decode(self, codes: Variable) -> Variable:
        """Return the strings that the codes stand for."""
        if not self.compressed or codes.count == 0:
            return codes
        return self._compiled(codes) or self._decoded(codes)

    def _compiled(self, codes: Variable) -> Variable | None:
        """Decode with the kernel; return ``None`` if it is not loaded or reports a fault."""
        begin, end = int(codes.offsets[0]), int(codes.offsets[-1])
        if end - begin >= _MOST or (call := decode_codes.ready(end - begin)) is None:
            return None
        data = codes.data[begin:end]
        offsets = codes.offsets - begin if begin else codes.offsets
        lengths = self._lengths[:256].copy()
        lengths[_ESCAPE] = 1
        places = np.empty(len(offsets), np.int32)
        marks = np.empty(_STRETCH + 2, np.int32)
        for most in _most_bytes(data, lengths):
            if most + _SLACK > allowed():
                return None
            out = scratch(most + _SLACK)
            size = call(data, offsets, lengths, self._symbols, marks, out, places)
            if size >= 0:
                return Variable(places, out[:size])
        return None

    def _decoded(self, codes: Variable) -> Variable:
        begin, end = int(codes.offsets[0]), int(codes.offsets[-1])
        data = codes.data[begin:end]
        offsets = codes.offsets - begin if begin else codes.offsets
        literals = _literals(data)
        require(not literals.size or literals[-1] < data.size, _CROSSES)
        if self._count < _ESCAPE:
            unknown = np.flatnonzero((data >= self._count) & (data < _ESCAPE))
            # literal bytes can have any value
            require(not unknown.size or np.isin(unknown, literals).all(), "a code has no symbol")
        # each code stands for 8 bytes at most
        kind: type[np.signedinteger] = np.int32 if data.size < 1 << 28 else np.int64
        places = np.zeros(len(offsets), kind)
        if data.size == 0:
            return Variable(places, data)
        decode = self._in_pairs if data.size >= _MANY else self._singly
        parts = []
        size = 0
        starts = np.arange(0, data.size + _BLOCK, _BLOCK).astype(offsets.dtype)
        starts[-1] = data.size
        borders_of = [*np.searchsorted(offsets, starts[:-1]).tolist(), len(offsets)]
        marks_of = np.searchsorted(literals, starts)
        for block, (start, stop) in enumerate(pairwise(starts.tolist())):
            first, last = borders_of[block : block + 2]
            marks = literals[marks_of[block] : marks_of[block + 1]] - start
            part, borders = decode(data[start:stop], marks, offsets[first:last] - start)
            np.add(borders, size, out=places[first:last], casting="same_kind")
            size += part.size
            claim(size, "strings of symbols")
            parts.append(part)
        return Variable(places, _join(parts, size))

    def _singly(
        self, data: Bytes, literals: Ints, offsets: Ints
    ) -> tuple[Bytes, NDArray[np.generic]]:
        """Decode codes one by one; return the bytes, and where the codes at ``offsets`` begin."""
        index = data.astype(np.uint16)
        index[literals] |= 256
        part, borders = _taken(self._entries, index)
        # an escape as the last code of a value would swallow the next value's first
        require((index.take(offsets, mode="clip")[offsets < data.size] < 256).all(), _CROSSES)
        return part, borders.take(offsets)

    def _in_pairs(
        self, data: Bytes, literals: Ints, offsets: Ints
    ) -> tuple[Bytes, NDArray[np.generic]]:
        """Decode codes in pairs; return the bytes, and where the codes at ``offsets`` begin."""
        size = data.size
        if size % 2:
            data = np.append(data, np.uint8(_ESCAPE))  # an escape at the end decodes to no bytes
        index: NDArray[np.unsignedinteger] = data.view("<u2")
        if literals.size:
            index = index.astype(np.uint32)
            index[literals[literals % 2 == 0] >> 1] |= 1 << 16
        elif not index.flags.aligned:
            index = index.copy()
        part, borders = _taken(self._pairs, index)
        pair, second = offsets >> 1, (offsets & 1).astype(np.uint8)
        pairs = index.take(pair, mode="clip")
        # a value that starts at the second code of a pair begins after the first code's bytes
        before = self._firsts.take(pairs) * second
        literal = (pairs >> 16 > second) & (offsets < size)
        require(not ((before == _NEVER) | literal).any(), _CROSSES)
        return part, borders.take(pair) + before


def _most_bytes(codes: Bytes, lengths: NDArray[np.uint8]) -> Iterator[int]:
    """Yield bounds of the decoded bytes: an estimate from a sample, then a guaranteed bound."""
    sample = codes[:: max(1, codes.size // _SAMPLE)]
    if sample.size:
        yield int(_MARGIN * codes.size * lengths[sample].mean())
    bound = most_bytes.ready(0)
    yield bound(codes, lengths) if bound else 8 * codes.size


def decode_by_page(codes: Variable, tables: Sequence[bytes], counts: Ints) -> Variable:
    """Decode the strings of several pages; each page has a count and a symbol table."""
    parts = []
    first = 0
    for table, count in zip(tables, counts.tolist(), strict=True):
        if count:
            part = Variable(codes.offsets[first : first + count + 1], codes.data)
            parts.append(symbol_table(table).decode(part))
        first += count
    sizes = [int(part.offsets[-1]) - int(part.offsets[0]) for part in parts]
    total = sum(sizes)
    kind: type[np.signedinteger] = np.int32 if total < 1 << 31 else np.int64
    offsets = np.zeros(first + 1, kind)
    at = place = 0
    data = []
    for part, size in zip(parts, sizes, strict=True):
        begin = int(part.offsets[0])
        target = offsets[at + 1 : at + part.count + 1]
        np.add(part.offsets[1:], place - begin, out=target, casting="same_kind")
        data.append(part.data[begin : begin + size])
        at, place = at + part.count, place + size
    return Variable(offsets, _join(data, total) if data else np.empty(0, np.uint8))


def _taken(
    entries: pa.Array, index: NDArray[np.unsignedinteger]
) -> tuple[Bytes, NDArray[np.int32]]:
    """Concatenate entries; return the bytes, and where each entry begins."""
    _, borders, data = ak.take(entries, index).buffers()
    joined = viewed(data)
    places = viewed(borders, np.int32)[: len(index) + 1]
    return joined[: int(places[-1])], places


def _join(parts: list[Bytes], size: int) -> Bytes:
    if len(parts) == 1:
        return parts[0]
    out = scratch(size)
    np.concatenate(parts, out=out)
    return out


def _literals(data: Bytes) -> Ints:
    """Return the positions of literal bytes, which follow an escape."""
    escapes: Ints = np.flatnonzero(data == _ESCAPE)
    if escapes.size == 0:
        return escapes
    # in a run of 255s every second byte is a literal
    first = np.ones(escapes.size, bool)
    first[1:] = np.diff(escapes) != 1
    if first.all():
        return escapes + 1
    starts = np.flatnonzero(first)
    place = np.arange(escapes.size) - np.repeat(starts, np.diff(np.append(starts, escapes.size)))
    marks: Ints = escapes[place % 2 == 0] + 1
    return marks
