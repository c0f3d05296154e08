"""Bit-packing by the compiled kernel is what it is by NumPy, on damaged blocks too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancekit._file.encodings.bitpacking import (
    decode_blocks,
    decode_chunk,
    decode_out_of_line,
    encode,
    encode_out_of_line,
    out_of_line_message,
    widths_of,
)
from lancekit._file.encodings.buffers import ChunkBuffers
from lancekit._file.kernels.bitpacking import BLOCK, pack, pack_blocks, unpack, unpack_blocks
from lancekit._file.kernels.faults import Damaged
from lancekit._file.kernels.values import Fixed
from lancekit._format.pb import encodings_v21_pb2 as pb
from tests.support.twins import Counted, agreed

TYPES = ["u1", "u2", "u4", "u8"]


def _encoding(dtype: str) -> pb.CompressiveEncoding:
    inline = pb.InlineBitpacking(uncompressed_bits_per_value=8 * np.dtype(dtype).itemsize)
    return pb.CompressiveEncoding(inline_bitpacking=inline)


@pytest.mark.parametrize("dtype", TYPES)
def test_the_kernels_do_every_width(kernels, monkeypatch, dtype: str) -> None:
    rng = np.random.default_rng(5)
    bits = 8 * np.dtype(dtype).itemsize
    counted = Counted(monkeypatch, pack, unpack)
    for width in range(1, bits + 1):
        values = rng.integers(0, 1 << width, (3, BLOCK), dtype=dtype, endpoint=False)
        agreed(lambda values=values, width=width: pack_blocks(values, width))
        packed = pack_blocks(values, width)
        agreed(lambda packed=packed, width=width: unpack_blocks(packed, width))
        assert (unpack_blocks(packed, width) == values).all()
        apart = np.zeros((3, packed.shape[1] + 1), dtype)
        apart[:, 1:] = packed
        assert (unpack_blocks(apart[:, 1:], width) == values).all()
    assert counted.good == counted.calls >= 4 * bits


@pytest.mark.parametrize("dtype", TYPES)
def test_one_value_is_what_it_is_among_all(dtype: str) -> None:
    rng = np.random.default_rng(7)
    size = np.dtype(dtype).itemsize
    for width in range(8 * size + 1):
        values = rng.integers(0, (1 << width) - 1, BLOCK, dtype, endpoint=True)
        packed = pack_blocks(values[None], width).reshape(-1).view(np.uint8)
        block = np.concatenate([np.array([width], dtype).view(np.uint8), packed])
        for place in rng.integers(0, BLOCK, 12).tolist():
            found = decode_chunk(_encoding(dtype), [block], BLOCK, range(place, place + 1))
            assert isinstance(found, Fixed)
            assert found.data.view(dtype).tolist() == [values[place]]
        for damaged in (block[:-1], block[: size - 1], np.full(size, 255, np.uint8)):
            with pytest.raises(Damaged) as one:
                decode_chunk(_encoding(dtype), [damaged], BLOCK, range(1))
            with pytest.raises(Damaged) as all_of_them:
                decode_chunk(_encoding(dtype), [damaged], BLOCK, range(BLOCK))
            assert str(one.value) == str(all_of_them.value)


@pytest.mark.parametrize("dtype", TYPES)
@given(data=st.data())
def test_the_kernel_is_as_strict(kernels, dtype: str, data: Any) -> None:
    """Blocks of several widths in any pieces of the bytes, some of which are damaged."""
    size = np.dtype(dtype).itemsize
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    blocks = data.draw(st.integers(1, 5))
    widths = data.draw(st.lists(st.integers(0, 8 * size), min_size=blocks, max_size=blocks))
    values = np.concatenate(
        [rng.integers(0, (1 << width) - 1, BLOCK, dtype, endpoint=True) for width in widths]
    )
    agreed(lambda: encode(values, widths_of(values)).buffers)
    ((part,),) = encode(values, widths_of(values)).buffers
    stored = np.frombuffer(part.data, np.uint8).copy()
    if data.draw(st.booleans()):
        stored[data.draw(st.integers(0, stored.size - 1))] ^= data.draw(st.integers(1, 255))
    ends = np.cumsum(part.lengths)
    lengths = part.lengths - data.draw(st.sampled_from([0, 0, 1, size]))
    starts = ends - part.lengths + data.draw(st.sampled_from([0, 0, 1, size]))
    counts = np.array(data.draw(st.lists(st.integers(0, BLOCK), min_size=blocks, max_size=blocks)))

    def decoded() -> Any:
        return decode_blocks(_encoding(dtype), ChunkBuffers(stored, starts, lengths), counts)

    agreed(decoded)


@given(data=st.data())
def test_the_kernel_unpacks_levels(kernels, data: Any) -> None:
    """Chunks of whole blocks and a tail, packed or not, with or without damage."""
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    counts = np.array(data.draw(st.lists(st.integers(1, 3000), min_size=1, max_size=4)))
    width = data.draw(st.integers(1, 8))
    levels = rng.integers(0, 1 << width, int(counts.sum()), dtype=np.uint8, endpoint=False)
    borders = np.concatenate(([0], np.cumsum(counts)))
    agreed(lambda: encode_out_of_line(levels, borders, width))
    parts = encode_out_of_line(levels, borders, width)
    lengths = np.sum([part.lengths for part in parts], axis=0)
    pieces = []
    for chunk in range(len(counts)):
        for part in parts:
            ends = np.concatenate(([0], np.cumsum(part.lengths))).tolist()
            pieces.append(bytes(part.data[ends[chunk] : ends[chunk + 1]]))
    stored = np.frombuffer(b"".join(pieces) + bytes(4), np.uint8)
    shift = data.draw(st.sampled_from([0, 0, 1, 2]))
    starts = np.cumsum(lengths) - lengths + shift
    counts[-1] += data.draw(st.sampled_from([0, 0, 0, 1, 1024]))
    lengths[0] += data.draw(st.sampled_from([0, 0, 0, 2, -1]))

    def decoded() -> Any:
        message = out_of_line_message(16, width)
        return decode_out_of_line(message, ChunkBuffers(stored, starts, lengths), counts)

    agreed(decoded)
