"""The bit order of packed blocks, value by value, and all ways to read them back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lancekit._file.encodings.bitpacking import encode_out_of_line
from lancekit._file.encodings.buffers import ChunkBuffers
from lancekit._file.encodings.decode import decode_chunks
from lancekit._file.kernels.bitpacking import BLOCK, pack_blocks, unpack_blocks
from lancekit._file.kernels.bits import gather_bits, pack, slice_bits
from lancekit._file.kernels.compression import compressor, decompress_all
from lancekit._file.kernels.faults import Damaged
from lancekit._file.kernels.memory import fetch, gather
from lancekit._file.kernels.values import is_text
from lancekit._format.pb import encodings_v21_pb2 as pb
from tests.support.memory_file import MemoryFile

ORDER = (0, 4, 2, 6, 1, 5, 3, 7)


def _pack_slowly(values: np.ndarray, width: int) -> list[int]:
    """Pack one block as the format describes it, one value at a time."""
    bits = values.dtype.itemsize * 8
    lanes = BLOCK // bits
    columns = [0] * lanes
    for row in range(bits):
        for lane in range(lanes):
            index = 16 * ORDER[row // 8] + 128 * (row % 8) + lane
            columns[lane] |= int(values[index]) << (row * width)
    mask = (1 << bits) - 1
    return [
        (columns[lane] >> (bits * word)) & mask for word in range(width) for lane in range(lanes)
    ]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_every_width(bits: int) -> None:
    rng = np.random.default_rng(bits)
    dtype = np.dtype(f"u{bits // 8}")
    for width in range(1, bits + 1):
        wide = rng.integers(0, 1 << 64, (3, BLOCK), dtype=np.uint64)
        values = (wide >> np.uint64(64 - width)).astype(dtype)
        packed = pack_blocks(values, width)
        if width % 5 == 1 or width == bits:
            assert packed[0].tolist() == _pack_slowly(values[0], width)
        assert (unpack_blocks(packed, width) == values).all()

        chunks = np.concatenate((np.full((3, 1), width, dtype), packed), axis=1).view(np.uint8)
        size = chunks.shape[1]
        pieces = ChunkBuffers(chunks.reshape(-1), np.arange(3) * size, np.full(3, size))
        message = pb.InlineBitpacking(uncompressed_bits_per_value=bits)
        encoding = pb.CompressiveEncoding(inline_bitpacking=message)
        rows = np.sort(rng.choice(3 * BLOCK, 60, replace=False))
        few = decode_chunks(encoding, [pieces], np.full(3, BLOCK), rows)
        assert (few.data.view(dtype) == values.reshape(-1)[rows]).all()


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("gaps", [0, 8, 5, None])
def test_chunks_of_any_widths_and_places(bits: int, gaps: int | None) -> None:
    rng = np.random.default_rng(bits)
    dtype = np.dtype(f"u{bits // 8}")
    widths = [0, bits, 3, 3, 1, 5, 3]
    if gaps is None:  # places that no stride reaches
        apart = rng.integers(0, 9, len(widths)).tolist()
    else:
        apart, widths = [gaps] * len(widths), [3] * len(widths)
    values = [rng.integers(0, 1 << w, BLOCK, np.uint64).astype(dtype) for w in widths]
    data, starts, lengths = b"", [], []
    for width, block, gap in zip(widths, values, apart, strict=True):
        packed = pack_blocks(block.reshape(1, BLOCK), width).tobytes()
        data += bytes(gap)
        starts.append(len(data))
        data += dtype.type(width).tobytes() + packed
        lengths.append(len(data) - starts[-1])
    counts = np.full(len(widths), BLOCK)
    counts[-1] = 77
    pieces = ChunkBuffers(np.frombuffer(data, np.uint8), np.array(starts), np.array(lengths))
    message = pb.InlineBitpacking(uncompressed_bits_per_value=bits)
    encoding = pb.CompressiveEncoding(inline_bitpacking=message)
    decoded = decode_chunks(encoding, [pieces], counts)
    expected = np.concatenate(values)[: int(counts.sum())]
    assert (decoded.data.view(dtype) == expected).all()


def test_flags_are_packed_like_integers_of_one_bit() -> None:
    flags = np.random.default_rng(1).integers(0, 2, 3 * BLOCK).astype(np.uint8)
    words = pack_blocks(flags.astype(np.uint16).reshape(3, BLOCK), 1)
    (whole,) = encode_out_of_line(flags, np.array([0, len(flags)]), 1)
    assert whole.data.tobytes() == words.tobytes()


@pytest.mark.parametrize("start", range(17))
def test_slices_of_bits(start: int) -> None:
    flags = np.random.default_rng(2).integers(0, 2, 64).astype(np.uint8)
    for count in (0, 1, 7, 8, 9, 40):
        part = slice_bits(pack(flags), start, count)
        assert (np.unpackbits(part, count=count, bitorder="little") == flags[start:][:count]).all()
    with pytest.raises(Damaged):
        slice_bits(pack(flags), 60, 5)


def test_bitmaps_that_end_inside_of_a_byte_are_joined() -> None:
    counts = np.array([3, 8, 5, 1])
    parts = [np.random.default_rng(n).integers(0, 2, n) for n in counts]
    data = np.concatenate([pack(part) for part in parts])
    joined = gather_bits(data, np.arange(4), counts)
    assert joined.tobytes() == pack(np.concatenate(parts)).tobytes()


@pytest.mark.parametrize(
    ("starts", "lengths"),
    [([3], [5]), ([0, 10, 20], [4, 4, 2]), ([1, 8, 30], [3, 0, 9]), ([0, 4], [4, 6]), ([], [])],
)
def test_gather(starts: list[int], lengths: list[int]) -> None:
    data = np.arange(40, dtype=np.uint8)
    expected = [b for s, n in zip(starts, lengths, strict=True) for b in range(s, s + n)]
    out = gather(data, np.array(starts, np.int64), np.array(lengths, np.int64))
    assert out.tolist() == expected


@pytest.mark.parametrize("room", [0, 24])
@pytest.mark.parametrize("pages", [1, 2, 5])
def test_gather_of_chunks_that_lie_evenly_in_pages(pages: int, room: int) -> None:
    size, header, gap = 4096, 16, 1000
    starts, lengths, place = [], [], 0
    for page in range(pages):
        for chunk in range(20):
            starts.append(place + header)
            lengths.append(size if chunk < 19 else 100 + page)
            place += header + lengths[-1]
        place += gap * page
    data = np.random.default_rng(1).integers(0, 256, place, np.uint8)
    out = gather(data, np.array(starts), np.array(lengths), room)
    expected = [data[s : s + n] for s, n in zip(starts, lengths, strict=True)]
    assert out.size == sum(lengths) + 2 * room
    assert (out[room : out.size - room] == np.concatenate(expected)).all()


@pytest.mark.parametrize("short", [1, 7, 18])
def test_gather_of_a_short_chunk_that_others_follow_as_evenly(short: int) -> None:
    data = np.random.default_rng(2).integers(1, 256, 20 * 5000, np.uint8)
    starts, lengths = np.arange(20) * 5000, np.full(20, 4096)
    lengths[short] = 100
    expected = [data[s : s + n] for s, n in zip(starts, lengths, strict=True)]
    assert (gather(data, starts, lengths) == np.concatenate(expected)).all()


@pytest.mark.parametrize(("gap", "reads"), [(0, 4), (4, 3), (9, 2), (1 << 40, 1)])
@pytest.mark.parametrize("base", [0, 3])
def test_ranges_near_each_other_are_read_as_one(base: int, gap: int, reads: int) -> None:
    data = np.arange(200, dtype=np.uint8)
    file = MemoryFile(data.tobytes())
    file.gap = gap
    starts, stops = np.array([9, 20, 32, 104]), np.array([15, 23, 33, 120])
    found, places = fetch(file, base, starts, stops)
    for start, stop, place in zip(starts, stops, places, strict=True):
        assert (found[place : place + stop - start] == data[base + start : base + stop]).all()
        assert start % 8 or place % 8 == 0
    assert len(file.reads) == (4 if base else reads)  # no more is copied than must be


@pytest.mark.parametrize(("starts", "lengths"), [([38], [5]), ([-1], [2]), ([8, 4], [2, 2])])
def test_gather_outside_is_damage(starts: list[int], lengths: list[int]) -> None:
    with pytest.raises(Damaged):
        gather(np.arange(40, dtype=np.uint8), np.array(starts), np.array(lengths))


@pytest.mark.parametrize("scheme", ["lz4", "zstd"])
@pytest.mark.parametrize("size", [1, 40, 1000, 70_000, 300_000, 1_100_000, 4_200_000])
def test_units_are_decompressed_together(scheme: str, size: int) -> None:
    rng = np.random.default_rng(size)
    contents = [rng.integers(0, 9, n, np.uint8).tobytes() for n in (size, 1, 5000)]
    compress = compressor(scheme, None if scheme == "lz4" else 1)
    units = [compress(pa.py_buffer(content)) for content in contents]
    data = np.frombuffer(b"".join(b"gap" + unit for unit in units), np.uint8)
    lengths = np.array([len(unit) for unit in units])
    starts = np.cumsum(lengths + 3) - lengths
    for count in (1, 2, 3):
        joined, sizes = decompress_all(scheme, data, starts[:count], lengths[:count])
        assert joined.tobytes() == b"".join(contents[:count])
        assert sizes.tolist() == [len(content) for content in contents[:count]]


@pytest.mark.parametrize("change", [-1, 1, 1 << 20])
def test_units_of_other_sizes_than_they_say_are_damage(change: int) -> None:
    compress = compressor("lz4", None)
    unit = compress(pa.py_buffer(b"some words and some other words " * 40))
    other = (int.from_bytes(unit[:4], "little") + change).to_bytes(4, "little") + unit[4:]
    data = np.frombuffer(unit + other, np.uint8)
    with pytest.raises(Damaged):
        decompress_all("lz4", data, np.array([0, len(unit)]), np.array([len(unit)] * 2))


@pytest.mark.parametrize(
    ("strings", "text"),
    [
        ([b"abc", b""], True),
        ([b"", "ä".encode(), b"", "€".encode(), b""], True),
        (["ä".encode(), None], True),
        ([b"\xc3", b"\xa4"], False),  # one character over two strings
        (["ä".encode(), b"", b"\xc3", b"\xa4"], False),
        ([b"\xff", b"a"], False),
        ([b"a", b"\xc3"], False),
    ],
)
def test_text_is_told_from_other_bytes(strings: list[bytes | None], text: bool) -> None:
    stored = pa.array(strings, pa.binary())
    array = pa.Array.from_buffers(pa.string(), len(stored), stored.buffers())
    _, borders, content = stored.buffers()
    offsets = np.frombuffer(borders, np.int32)[: len(stored) + 1]
    assert is_text(array, offsets, np.frombuffer(content, np.uint8)) is text
    assert is_text(stored, offsets, np.frombuffer(content, np.uint8))
