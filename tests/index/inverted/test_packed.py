"""Packed numbers, against what packs them one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from lancekit._index.inverted.postings import PACKED, packed_bytes, streams, unpacked, varints


def packed(numbers: list[int], width: int) -> bytes:
    """Number ``j`` goes to lane ``j % 4``, its lowest bits first; the lanes' words alternate."""
    lanes = [0] * 4
    for place, number in enumerate(numbers):
        lanes[place % 4] |= number << (place // 4 * width)
    words = [(lane >> (32 * word)) & 0xFFFFFFFF for word in range(width) for lane in lanes]
    return np.array(words, "<u4").tobytes()


def test_blocks_of_every_width() -> None:
    source = random.Random(1)
    blocks = [
        [source.getrandbits(width) if width else 0 for _ in range(PACKED)] for width in range(33)
    ]
    coded = [packed(block, width) for width, block in enumerate(blocks)]
    widths = np.arange(33, dtype=np.uint8)
    assert packed_bytes(widths).tolist() == list(map(len, coded))
    starts = np.cumsum([3, *map(len, coded)])[:-1]
    data = np.frombuffer(b"xxx" + b"".join(coded), np.uint8)
    assert unpacked(data, starts, widths).tolist() == blocks
    with pytest.raises(ValueError, match="33 bits"):
        unpacked(data, starts[:1], np.array([33], np.uint8))


def test_numbers_of_seven_bits_a_byte() -> None:
    numbers = [0, 1, 127, 128, 300, 2**21, 2**32 - 1]
    coded = bytearray()
    for number in numbers:
        left = number
        while left >= 0x80:
            coded.append(left & 0x7F | 0x80)
            left >>= 7
        coded.append(left)
    assert varints(np.frombuffer(bytes(coded), np.uint8)).tolist() == numbers
    with pytest.raises(ValueError, match="does not end"):
        varints(np.array([0x81], np.uint8))
    with pytest.raises(ValueError, match="more than 32 bits"):
        varints(np.array([0x81] * 5 + [1], np.uint8))


def test_streams_that_are_said_to_hold_too_much() -> None:
    data, begin = np.ones(8, np.uint8), np.array([0])
    assert streams(np.zeros(1, np.uint8), begin, np.array([1]), np.array([PACKED])).sum() == 0
    for much in (9, 9 * PACKED, 1 << 40):  # of which no array could be made
        with pytest.raises((ValueError, IndexError)):
            streams(data, begin, np.array([8]), np.array([much]))
