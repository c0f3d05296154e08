"""FSST: strings as codes of a table of up to 255 symbols (file format, section 11.7)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lancekit.file.faults import require
from lancekit.file.memory import Bytes
from lancekit.file.raw import Variable

__all__ = ["SymbolTable"]

_ESCAPE = 255
_MAGIC = 0x46535354

#: So many codes fit into 32-bit offsets, whatever their symbols.
_NARROW = (1 << 31) // 8


class SymbolTable:
    """The symbols of one page.

    Arrow does the decoding: the codes index a binary array of the symbols, followed by the 256
    single bytes for what stands behind an escape, and ``take`` concatenates.
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
        symbols = [table[8 + 8 * i : 16 + 8 * i] for i in range(count)]
        lengths = table[8 + 8 * count : 8 + 9 * count]
        require(all(1 <= n <= 8 for n in lengths), "an FSST symbol is not 1 to 8 bytes long")
        entries = [symbol[:n] for symbol, n in zip(symbols, lengths, strict=True)]
        entries += [b""] * (256 - count)
        entries += [bytes([byte]) for byte in range(256)]
        self._count = count
        self._entries = pa.array(entries, pa.binary())

    def decode(self, codes: Variable) -> Variable:
        """Return the strings behind the codes."""
        if not self.compressed or codes.count == 0:
            return codes
        begin, end = int(codes.offsets[0]), int(codes.offsets[-1])
        data = codes.data[begin:end]
        offsets = codes.offsets - begin if begin else codes.offsets
        index = data.astype(np.uint16)
        literal = _literals(data)
        if literal is not None:
            # an escape as the last code of a value would swallow the next value's first
            require(
                not (literal[offsets[:-1][offsets[:-1] < data.size]]).any()
                and not (data[-1] == _ESCAPE and not literal[-1]),
                "an FSST escape crosses a value",
            )
            index[literal] += 256
        if ((data >= self._count) & (data < _ESCAPE)).any():  # literal bytes may be anything
            plain = index < _ESCAPE
            require(not plain.any() or index[plain].max() < self._count, "a code has no symbol")
        narrow = data.size < _NARROW
        entries = self._entries if narrow else self._entries.cast(pa.large_binary())
        _, borders, out = entries.take(pa.array(index)).buffers()
        places = np.frombuffer(borders, np.int32 if narrow else np.int64)[offsets]
        result: Any = np.empty(0, np.uint8) if out is None else np.frombuffer(out, np.uint8)
        return Variable(places, result)


def _literals(data: Bytes) -> Any:
    """Return which codes are literal bytes: those behind an escape; `None` if there are none."""
    escapes = np.flatnonzero(data == _ESCAPE)
    if escapes.size == 0:
        return None
    # in a run of 255s every second one is a literal
    first = np.ones(escapes.size, bool)
    first[1:] = np.diff(escapes) != 1
    starts = np.flatnonzero(first)
    place = np.arange(escapes.size) - np.repeat(starts, np.diff(np.append(starts, escapes.size)))
    marks = escapes[place % 2 == 0] + 1
    literal = np.zeros(data.size + 1, bool)
    literal[marks] = True
    return literal[: data.size]
