"""Encoding strings with FSST: what the decoder, and the reference's, make of it again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancekit._file.kernels.fsst_decode import SymbolTable
from lancekit._file.kernels.fsst_encode import SymbolEncoder, step_through, train
from lancekit._file.kernels.memory import Bytes, Ints, starts_of
from lancekit._file.kernels.values import Variable
from tests.support.twins import Counted, agreed


def _strings(values: list[bytes]) -> tuple[Bytes, Ints]:
    return np.frombuffer(b"".join(values), np.uint8), starts_of(
        np.array([len(v) for v in values], np.int64)
    )


def _round_trip(encoder: SymbolEncoder, values: list[bytes]) -> int:
    data, offsets = _strings(values)
    codes, borders = encoder.encode(data, offsets)
    decoded = SymbolTable(encoder.table()).decode(Variable(borders, codes))
    assert decoded.offsets.tolist() == offsets.tolist()
    assert decoded.data.tobytes() == data.tobytes()
    return len(codes)


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=60))
def test_any_bytes_with_their_own_symbols(values: list[bytes]) -> None:
    _round_trip(train(*_strings(values)), values)


@given(st.lists(st.text("abcé\0", max_size=40).map(str.encode), min_size=1, max_size=60))
def test_symbols_of_other_strings(values: list[bytes]) -> None:
    _round_trip(train(*_strings([b"abcabcabc" * 9, b"cab"])), values)


def test_the_longest_symbol_wins() -> None:
    encoder = SymbolEncoder([b"a", b"ab", b"abcdefgh", b"bc"])
    data, offsets = _strings([b"abcdefgh", b"ab", b"a", b"", b"bcx"])
    codes, borders = encoder.encode(data, offsets)
    assert borders.tolist() == [0, 1, 2, 3, 3, 6]
    assert codes.tolist() == [2, 1, 0, 3, 255, ord("x")]


def test_no_symbols_at_all() -> None:
    data, offsets = _strings([b"ab", b"\xff"])
    codes, borders = SymbolEncoder([]).encode(data, offsets)
    assert codes.tobytes() == b"\xffa\xffb\xff\xff"
    assert borders.tolist() == [0, 4, 6]


@pytest.mark.parametrize("length", [511, 512, 513, 5000])
def test_long_strings_cross_lanes(length: int) -> None:
    values = [bytes(97 + k % 7 for k in range(length)), b"", b"abcdefg" * 80]
    assert _round_trip(train(*_strings(values)), values) < length


def test_text_shrinks_to_half() -> None:
    rng = np.random.default_rng(0)
    words = np.array([b"station ", b"weather ", b"of ", b"the ", b"north-east ", b"wind "], object)
    values = [b"".join(row) for row in words[rng.integers(0, 6, (20_000, 9))].tolist()]
    size = sum(map(len, values))
    assert _round_trip(train(*_strings(values)), values) < size / 3


@given(st.lists(st.text("abcé\0", max_size=40).map(str.encode), min_size=1, max_size=60))
def test_the_kernel_writes_the_same_bytes(kernels, values: list[bytes]) -> None:
    data, offsets = _strings(values)
    agreed(lambda: train(data, offsets).table())
    agreed(lambda: train(data, offsets).encode(data, offsets))
    few = SymbolEncoder([b"a", b"ab", b"bc", b"abcabc"])
    agreed(lambda: few.encode(data, offsets.astype(np.int32)))


@pytest.mark.parametrize("length", [511, 512, 513, 5000])
def test_the_kernel_keeps_to_lanes(kernels, monkeypatch, length: int) -> None:
    data, offsets = _strings([bytes(97 + k % 7 for k in range(length)), b"", b"abcdefg" * 80])
    counted = Counted(monkeypatch, step_through)
    agreed(lambda: train(data, offsets).encode(data, offsets))
    assert counted.good == counted.calls > 1
