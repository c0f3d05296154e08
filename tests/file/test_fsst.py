"""FSST codes decode to the same strings, one by one, in pairs, and over the borders of blocks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancekit._file.kernels import fsst_decode as fsst
from lancekit._file.kernels.faults import Damaged
from lancekit._file.kernels.fsst_decode import SymbolTable
from lancekit._file.kernels.values import Variable
from tests.support.twins import Counted, agreed

SYMBOLS = [bytes([65 + k % 26]) * (1 + k % 8) for k in range(255)]


def _table(symbols: list[bytes]) -> bytes:
    header = 0x46535354 << 32 | 1 << 24 | len(symbols)
    body = b"".join(symbol.ljust(8, b"\0") for symbol in symbols)
    return header.to_bytes(8, "little") + body + bytes(map(len, symbols))


def _codes(rng: np.random.Generator, known: int, escapes: float) -> tuple[Variable, list[bytes]]:
    """Return values of random codes, and the strings they stand for."""
    codes, strings = [], []
    for size in rng.integers(0, 12, 300).tolist():
        code, string = b"", b""
        for symbol in rng.integers(0, known, size).tolist():
            if rng.random() < escapes:
                literal = bytes([int(rng.choice([255, symbol]))])
                code, string = code + b"\xff" + literal, string + literal
            else:
                code, string = code + bytes([symbol]), string + SYMBOLS[symbol]
        codes.append(code)
        strings.append(string)
    front = b"??"  # bytes before the first value
    offsets = np.cumsum([len(front), *map(len, codes)], dtype=np.int32)
    return Variable(offsets, np.frombuffer(front + b"".join(codes), np.uint8)), strings


@pytest.mark.parametrize(("many", "block"), [(1 << 30, 1 << 20), (1 << 30, 64), (0, 64), (0, 2)])
@pytest.mark.parametrize("known", [255, 20])
@pytest.mark.parametrize("escapes", [0.0, 0.02, 0.7])
def test_decodes(
    monkeypatch: pytest.MonkeyPatch, many: int, block: int, known: int, escapes: float
) -> None:
    monkeypatch.setattr(fsst, "_MANY", many)
    monkeypatch.setattr(fsst, "_BLOCK", block)
    codes, strings = _codes(np.random.default_rng(known), known, escapes)
    decoded = SymbolTable(_table(SYMBOLS[:known])).decode(codes)
    borders = decoded.offsets.tolist()
    data = decoded.data.tobytes()
    assert [data[a:b] for a, b in pairwise(borders)] == strings


@pytest.mark.parametrize("many", [0, 1 << 30])
@pytest.mark.parametrize(
    ("values", "fault"), [([b"\x00\xff", b"\x01"], "crosses"), ([b"\x00\x63"], "no symbol")]
)
def test_damaged_codes(
    monkeypatch: pytest.MonkeyPatch, many: int, values: list[bytes], fault: str
) -> None:
    monkeypatch.setattr(fsst, "_MANY", many)
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int32)
    codes = Variable(offsets, np.frombuffer(b"".join(values), np.uint8))
    with pytest.raises(Damaged, match=fault):
        SymbolTable(_table(SYMBOLS[:20])).decode(codes)


@pytest.mark.parametrize("known", [255, 20])
@pytest.mark.parametrize("escapes", [0.0, 0.02, 0.7])
def test_the_kernel_decodes_the_same(kernels, monkeypatch, known: int, escapes: float) -> None:
    codes, strings = _codes(np.random.default_rng(known), known, escapes)
    table = SymbolTable(_table(SYMBOLS[:known]))
    assert agreed(lambda: table.decode(codes))[1][2] == b"".join(strings)
    wide = Variable(codes.offsets.astype(np.int64), codes.data)
    agreed(lambda: table.decode(wide))
    counted = Counted(monkeypatch, fsst.decode_codes)
    table.decode(codes)
    assert (counted.calls, counted.good) == (1, 1)


def test_a_guess_that_is_too_small_is_made_good(kernels, monkeypatch) -> None:
    every = 16  # the codes that are looked at stand for 1 byte, those between them for 8
    codes = np.full(every * fsst._SAMPLE, 7, np.uint8)
    codes[::every] = 0
    table = SymbolTable(_table(SYMBOLS))
    value = Variable(np.array([0, codes.size], np.int32), codes)
    decoded = agreed(lambda: table.decode(value))
    assert len(decoded[1][2]) == fsst._SAMPLE * (1 + 8 * (every - 1))
    counted = Counted(monkeypatch, fsst.decode_codes)
    table.decode(value)
    assert (counted.calls, counted.good) == (2, 1)


@given(st.lists(st.binary(max_size=20)), st.integers(0, 255), st.booleans())
def test_the_kernel_is_as_strict(kernels, values: list[bytes], known: int, wide: bool) -> None:
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int64 if wide else np.int32)
    codes = Variable(offsets, np.frombuffer(b"".join(values), np.uint8))
    agreed(lambda: SymbolTable(_table(SYMBOLS[:known])).decode(codes))
