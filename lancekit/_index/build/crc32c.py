"""Checksums of Castagnoli's polynomial, of many parts of the bytes at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["crc32c"]

Sums = npt.NDArray[np.uint32]

_POLYNOMIAL = np.uint32(0x82F63B78)
#: into how many parts bytes are divided, as a power of two
_HALVINGS = 11


def _table() -> Sums:
    found = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        found = found >> np.uint32(1) ^ (found & np.uint32(1)) * _POLYNOMIAL
    return found


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """Return the checksum of bytes.

    Examples
    --------
    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    count = max(4, len(data))
    length = -(-count // (1 << _HALVINGS))
    padded = np.zeros(length << _HALVINGS, np.uint8)
    held = padded[len(padded) - len(data) :]
    held[:] = np.frombuffer(data, np.uint8)
    held[:4] ^= 0xFF  # zeros before the bytes change nothing, as the sums begin with zero
    sums = np.zeros(1 << _HALVINGS, np.uint32)
    for column in np.ascontiguousarray(padded.reshape(1 << _HALVINGS, length).T):
        sums = _with_byte(sums, column)
    # what becomes of each bit of a sum when so many zeros follow
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    for _ in range(length):
        bits = _with_byte(bits, np.zeros(32, np.uint8))
    while len(sums) > 1:
        sums = _followed(sums[::2], bits) ^ sums[1::2]
        bits = _followed(bits, bits)
    return int(sums[0]) ^ 0xFFFFFFFF


def _with_byte(sums: Sums, column: npt.NDArray[np.uint8]) -> Sums:
    found: Sums = _TABLE[(sums ^ column) & np.uint32(0xFF)] ^ (sums >> np.uint32(8))
    return found


def _followed(sums: Sums, bits: Sums) -> Sums:
    found = np.zeros(len(sums), np.uint32)
    for bit, becomes in enumerate(bits):
        found ^= (sums >> np.uint32(bit) & np.uint32(1)) * becomes
    return found
