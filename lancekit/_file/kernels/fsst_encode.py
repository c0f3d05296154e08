"""FSST encoder: trains a symbol table and encodes strings with it.

See docs/format/data-files.md, 11.7.

Encoding is greedy: it takes the longest symbol that fits at each position.  Each step depends on
the length of the previous symbol, so the data is divided into lanes that step in parallel.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from lancekit._compiled.kernel import Values, kernel
from lancekit._file.kernels.memory import Bytes, Ints, Offsets, starts_of

_ESCAPE = 255
_LONGEST = 8
_TABLE_BYTES = 2312
_MAGIC = 0x46535354
_COMPRESSED = 1 << 24

#: Bytes that one lane encodes; no symbol crosses the border between two lanes.
_LANE = 512

#: Bytes whose lanes step together, enough to amortise a NumPy call.
_TILE = 1 << 22

#: Steps between two checks for finished lanes.
_STEPS = 8

#: Bytes past the data that lanes may touch, including a full window.
_MARGIN = (_STEPS + 1) * _LONGEST

#: Symbols of 3 bytes and more are found by a hash of their first 3 bytes; one for each slot.
_SLOT_BITS = 13
_PRIME = np.uint64(2971215073)

#: Bytes of the training sample, and the number of training rounds.
_SAMPLE = 1 << 15
_ROUNDS = 5
_PAIRS = 2000

#: Masks of the lowest n bytes of a word, by n.
_LOW = np.array([(1 << 8 * n) - 1 for n in range(_LONGEST)] + [2**64 - 1], np.uint64)


@overload
def _slot(words: np.uint64) -> np.int64: ...
@overload
def _slot(words: NDArray[np.uint64]) -> Ints: ...
def _slot(words: np.uint64 | NDArray[np.uint64]) -> np.int64 | Ints:
    """Return the hash slot of the symbols that start with a word's lowest three bytes."""
    mixed = (words & np.uint64(0xFFFFFF)) * _PRIME >> np.uint64(15)
    slots: np.int64 | Ints = (mixed & np.uint64((1 << _SLOT_BITS) - 1)).astype(np.int64)
    return slots


@dataclass(frozen=True, slots=True)
class _Codes:
    """Codes in order, before the escaped bytes are inserted.

    `steps` are length * 256 + code.  `places` are the positions in the data where codes begin.
    `firsts` are the numbers of the codes that begin a string.
    """

    steps: NDArray[np.uint16]
    places: Ints
    firsts: Ints


@kernel("u1 i8 u8 u8 u2 u2 u8 =u2 =i8 =u1 =i8", saves=20)
def step_through(
    padded: Values,
    offsets: Values,
    long: Values,
    mask: Values,
    long_step: Values,
    short: Values,
    low: Values,
    steps: Values,
    places: Values,
    codes: Values,
    borders: Values,
) -> int:
    """Encode strings; ``padded`` has 8 spare bytes at its end.

    If ``codes`` is not empty, it gets the codes with their literal bytes, and ``borders`` are
    positions in it.  Otherwise ``steps`` and ``places`` are filled; ``borders`` are code numbers.
    """
    written = codes.size > 0
    size = offsets[np.uint64(offsets.size - 1)]
    if size + 8 > padded.size or size > (codes.size // 2 if written else steps.size):
        return -1
    found = 0
    at: int | np.int64
    for value in range(offsets.size - 1):
        at, stop = offsets[np.uint64(value)], offsets[np.uint64(value + 1)]
        if at < 0 or stop < at or stop > size:
            return -1
        borders[np.uint64(value)] = found
        while at < stop:
            word = np.uint64(padded[np.uint64(at)])
            for byte in range(1, 8):
                word |= np.uint64(padded[np.uint64(at + byte)]) << np.uint64(8 * byte)
            left = min(8, stop - at, 512 - (at & 511))
            word &= low[np.uint64(left)]
            slot = (word & np.uint64(0xFFFFFF)) * np.uint64(2971215073) >> np.uint64(15)
            slot &= np.uint64(8191)
            if (word & mask[slot]) == long[slot]:
                step = long_step[slot]
            else:
                step = short[word & np.uint64(0xFFFF)]
            if written:
                # the next code overwrites this byte, unless this code is an escape
                codes[np.uint64(found)] = step & 255
                codes[np.uint64(found + 1)] = word & np.uint64(255)
                found += int((step & 255) == 255)
            else:
                steps[np.uint64(found)] = step
                places[np.uint64(found)] = at
            found += 1
            at += np.int64(step >> 8)
    borders[np.uint64(offsets.size - 1)] = found
    return found


class SymbolEncoder:
    r"""Encoder with up to 255 symbols of 1 to 8 bytes without NUL bytes.

    Bytes past the end of a string read as NUL during encoding, so no symbol matches across it.

    Examples
    --------
    >>> import numpy as np
    >>> encoder = SymbolEncoder([b"na", b"ba"])
    >>> data = np.frombuffer(b"bananaX", np.uint8)
    >>> codes, offsets = encoder.encode(data, np.array([0, 6, 7]))
    >>> codes.tobytes(), offsets.tolist()
    (b'\x01\x00\x00\xffX', [0, 3, 5])
    """

    def __init__(self, symbols: Sequence[bytes]) -> None:
        self._symbols = tuple(symbols)
        slots = 1 << _SLOT_BITS
        # an empty slot: no masked word equals all ones
        self._long = np.full(slots, 2**64 - 1, np.uint64)
        self._mask = np.zeros(slots, np.uint64)
        self._long_step = np.zeros(slots, np.uint16)
        short = np.full((256, 256), 1 << 8 | _ESCAPE, np.uint16)  # [second byte, first byte]
        for code, symbol in sorted(enumerate(symbols), key=lambda item: len(item[1])):
            step = len(symbol) << 8 | code
            if len(symbol) == 1:
                short[:, symbol[0]] = step
            elif len(symbol) == 2:
                short[symbol[1], symbol[0]] = step
            else:
                word = np.uint64(int.from_bytes(symbol, "little"))
                slot = _slot(word)
                self._long[slot], self._mask[slot] = word, _LOW[len(symbol)]
                self._long_step[slot] = step
        self._short = short.reshape(-1)

    def table(self) -> bytes:
        """Return the stored symbol table: header, symbols, their lengths, padding."""
        header = _MAGIC << 32 | _COMPRESSED | len(self._symbols)
        symbols = b"".join(symbol.ljust(_LONGEST, b"\0") for symbol in self._symbols)
        stored = struct.pack("<Q", header) + symbols + bytes(map(len, self._symbols))
        return stored.ljust(_TABLE_BYTES, b"\0")

    def encode(self, data: Bytes, offsets: Offsets) -> tuple[Bytes, Ints]:
        """Encode the strings between ``offsets``, which cover all of ``data``.

        Returns
        -------
        The codes, and the offsets of the strings in them.
        """
        if (call := step_through.ready(len(data))) is not None and len(data):
            written, borders = np.empty(2 * len(data), np.uint8), np.empty(len(offsets), np.int64)
            empty = np.empty(0, np.uint16), np.empty(0, np.int64)
            size = call(*self._tables(data, offsets), *empty, written, borders)
            if size >= 0:
                return written[:size], borders
        found = self._codes(data, offsets)
        codes = found.steps.astype(np.uint8)
        filled = np.flatnonzero(offsets[1:] > offsets[:-1])
        counts = np.zeros(len(offsets) - 1, np.int64)
        escaped = codes == _ESCAPE
        if not escaped.any():
            counts[filled] = np.diff(found.firsts, append=len(codes))
            return codes, starts_of(counts)
        both = np.stack((codes, data[found.places]), axis=1)
        keep = np.stack((np.ones(len(codes), bool), escaped), axis=1)
        before = np.cumsum(escaped)[found.firsts] - escaped[found.firsts] + found.firsts
        total = len(codes) + int(escaped.sum())
        counts[filled] = np.diff(before, append=total)
        return both[keep], starts_of(counts)

    def _codes(self, data: Bytes, offsets: Offsets) -> _Codes:
        if (call := step_through.ready(len(data))) is None:
            return self._codes_in_lanes(data, offsets)
        steps, places = np.empty(len(data), np.uint16), np.empty(len(data), np.int64)
        borders = np.empty(len(offsets), np.int64)
        found = call(*self._tables(data, offsets), steps, places, np.empty(0, np.uint8), borders)
        if found < 0:
            return self._codes_in_lanes(data, offsets)
        firsts = borders[:-1][borders[1:] > borders[:-1]]
        return _Codes(steps[:found], places[:found], firsts)

    def _tables(self, data: Bytes, offsets: Offsets) -> tuple[NDArray[np.generic], ...]:
        """Return the kernel's input arrays."""
        padded = np.zeros(len(data) + _LONGEST, np.uint8)
        padded[: len(data)] = data
        borders = offsets.astype(np.int64, copy=False)
        return (padded, borders, self._long, self._mask, self._long_step, self._short, _LOW)

    def _codes_in_lanes(self, data: Bytes, offsets: Offsets) -> _Codes:
        size = len(data)
        padded = np.zeros(size + _MARGIN + _LONGEST, np.uint8)
        padded[:size] = data
        # eight-byte words, one from each position
        words: NDArray[np.uint64] = np.ndarray(
            (size + _MARGIN,), np.dtype("<u8"), buffer=padded, strides=(1,)
        )
        left = _bytes_left(offsets, size)
        steps = np.zeros(size + _MARGIN, np.uint16)
        for start in range(0, size, _TILE):
            place = np.arange(start, min(size, start + _TILE), _LANE)
            end = np.minimum(place + _LANE, size)
            while len(place):
                for _ in range(_STEPS):
                    # a finished lane continues into the next lane and repeats the same steps
                    word = words[place] & _LOW.take(left.take(place))
                    slot = _slot(word)
                    fits = (word & self._mask.take(slot)) == self._long.take(slot)
                    pair = (word & np.uint64(0xFFFF)).view(np.int64)
                    step = np.where(fits, self._long_step.take(slot), self._short.take(pair))
                    steps[place] = step
                    place = place + (step >> 8)
                going = place < end
                place, end = place[going], end[going]
        steps = steps[:size]
        places = np.flatnonzero(steps)
        begins = offsets[:-1][offsets[1:] > offsets[:-1]]
        return _Codes(steps[places], places, np.searchsorted(places, begins))


def _bytes_left(offsets: Offsets, size: int) -> Bytes:
    """Return the bytes that a symbol may cover from each position: 8, or up to the next border."""
    left = np.full(size + _MARGIN, _LONGEST, np.uint8)
    lanes = np.arange(_LANE, size + 1, _LANE)
    ends = offsets[1:]
    for count in range(_LONGEST - 1, 0, -1):  # the nearest border is written last
        before = ends - count
        left[before[before >= 0]] = count
        left[lanes - count] = count
    left[size:] = 1
    return left


def train(data: Bytes, offsets: Offsets) -> SymbolEncoder:
    """Train a symbol table on a sample spread over the strings.

    Every round encodes the sample.  The codes and pairs of codes that cover most of the sample
    become the next symbols.
    """
    sample, borders = _sample(data, offsets)
    symbols: list[bytes] = []
    for _ in range(_ROUNDS):
        found = SymbolEncoder(symbols)._codes(sample, borders)
        symbols = _highest_gains(_gains(sample, found, symbols))
    return SymbolEncoder(symbols)


def _sample(data: Bytes, offsets: Offsets) -> tuple[Bytes, Ints]:
    size = int(offsets[-1])
    if size <= _SAMPLE:
        return data, np.asarray(offsets, np.int64)
    pieces = 64
    each = _SAMPLE // pieces
    starts = np.linspace(0, size - each, pieces).astype(np.int64)
    first = np.searchsorted(offsets, starts)
    parts: list[Bytes] = []
    borders: list[Ints] = []
    for start, index in zip(starts.tolist(), first.tolist(), strict=True):
        inside = offsets[index : np.searchsorted(offsets, start + each)] - start
        borders.append(inside[inside > 0] + len(parts) * each)
        borders.append(np.array([(len(parts) + 1) * each]))
        parts.append(data[start : start + each])
    return np.concatenate(parts), np.concatenate(([0], *borders)).astype(np.int64)


def _gains(sample: Bytes, found: _Codes, symbols: Sequence[bytes]) -> dict[bytes, int]:
    """Return the bytes that each code and each pair of codes covers; literal bytes weigh more."""
    codes = (found.steps & 0xFF).astype(np.int64)
    codes = np.where(codes == _ESCAPE, 256 + sample[found.places].astype(np.int64), codes)

    def text(code: int) -> bytes:
        return symbols[code] if code < 256 else bytes([code - 256])

    gains: dict[bytes, int] = {}

    def count(symbol: bytes, times: int) -> None:
        if 0 not in symbol:
            gains[symbol] = gains.get(symbol, 0) + times * len(symbol)

    singles = np.bincount(codes, minlength=512)
    for code in np.flatnonzero(singles).tolist():
        symbol = text(code)
        # an escape takes two bytes where a symbol would take one
        count(symbol, int(singles[code]) * (8 if len(symbol) == 1 else 1))
    inside = np.ones(len(codes), bool)
    inside[found.firsts] = False
    pairs, times = np.unique((codes[:-1] << 9 | codes[1:])[inside[1:]], return_counts=True)
    often = np.argsort(-times, kind="stable")[:_PAIRS]
    for pair, number in zip(pairs[often].tolist(), times[often].tolist(), strict=True):
        count((text(pair >> 9) + text(pair & 511))[:_LONGEST], number)
    return gains


def _highest_gains(gains: dict[bytes, int]) -> list[bytes]:
    """Return the up to 255 symbols with the highest gain, at most one for each hash slot."""
    selected: list[bytes] = []
    used_slots: set[int] = set()
    for symbol in sorted(gains, key=lambda s: (-gains[s], s)):
        if len(symbol) > 2:
            slot = int(_slot(np.uint64(int.from_bytes(symbol, "little"))))
            if slot in used_slots:
                continue
            used_slots.add(slot)
        selected.append(symbol)
        if len(selected) == _ESCAPE:
            break
    return selected
