"""The hash of buckets, beside one that goes through its words one by one."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from lancekit._compiled.linking import Code
from lancekit._format.mem_wal.sharding import hash_long, hash_short, hash_texts, murmur
from tests.support.twins import Counted, agreed

LOW = 0xFFFFFFFF


def hashed(words: list[int], length: int) -> int:
    """Return the hash of words."""
    state = 0
    for word in words:
        mixed = (word & LOW) * 0xCC9E2D51 & LOW
        mixed = (mixed << 15 | mixed >> 17) & LOW
        state ^= mixed * 0x1B873593 & LOW
        state = ((state << 13 | state >> 19) * 5 + 0xE6546B64) & LOW
    state ^= length
    state = (state ^ state >> 16) * 0x85EBCA6B & LOW
    state = (state ^ state >> 13) * 0xC2B2AE35 & LOW
    return state ^ state >> 16


def words_of(text: bytes) -> list[int]:
    """Return the words of a text: whole ones, then each byte behind them with its sign."""
    whole = len(text) & ~3
    words = [int.from_bytes(text[at : at + 4], "little") for at in range(0, whole, 4)]
    return words + [octet - 256 if octet > 127 else octet for octet in text[whole:]]


def texts(seed: int) -> list[bytes]:
    rng = random.Random(seed)
    lengths = [*range(12), 200, *(rng.choice([0, 3, 9, 36]) for _ in range(60))]
    return [rng.randbytes(length) for length in lengths]


@pytest.mark.parametrize("seed", range(3))
def test_texts(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancekit._format.mem_wal.sharding._BLOCK", 16)
    found = texts(seed)
    expected = [hashed(words_of(text), len(text)) for text in found]
    array = pa.array(found, pa.large_binary())
    assert hash_texts(array).tolist() == expected
    assert hash_texts(array[5:40]).tolist() == expected[5:40]
    assert hash_texts(array[:1]).tolist() == [*hash_texts(array[:0]).tolist(), 0]


def test_the_kernel_is_its_twin(kernels: Code, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch, murmur)
    array = pa.array(texts(4), pa.large_binary())
    for part in (array, array[7:50], array[:0]):
        agreed(partial(hash_texts, part))
    assert counted.good == counted.calls == 3
    out = np.zeros(1, np.uint32)
    call = murmur.ready(1)
    assert call is not None
    for wrong in ([0, 9], [-1, 2], [3, 2]):
        assert call(np.zeros(8, np.uint8), np.array(wrong), out) == -1


def test_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancekit._format.mem_wal.sharding._BLOCK", 3)
    numbers = [0, 1, -1, 2**31 - 1, -(2**31), 77, 2**62, -(2**63)]
    short = [number for number in numbers if abs(number) <= 2**31]
    assert hash_short(np.array(short, np.int32)).tolist() == [hashed([n], 4) for n in short]
    expected = [hashed([number, number >> 32], 8) for number in numbers]
    assert hash_long(np.array(numbers)).tolist() == expected
