"""Columns for tests: one array for every type and shape that picks another encoding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

VERSIONS = ("2.0", "2.1", "2.2")

FIXED = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
    *(pa.date32(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp("s"), pa.timestamp("us", "Europe/Berlin"), pa.timestamp("ns", "+05:30")),
    *(pa.date64(), pa.duration("ms"), pa.decimal128(38, 4), pa.decimal256(60, 2)),
    *(pa.binary(3), pa.binary(16), pa.binary(300)),
]
STRINGS = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]

NULLS = ("none", "some", "all")


def with_nulls(array: pa.Array, nulls: str) -> pa.Array:
    """Return the array with no, some, or only nulls."""
    if nulls == "all":
        return pa.nulls(len(array), array.type)
    if nulls == "none" or len(array) == 0:
        return array
    mask = np.random.default_rng(len(array)).random(len(array)) < 0.2
    return array.take(pa.array(np.arange(len(array)), mask=mask))


def _of_bytes(kind: pa.DataType, rows: int, rng: np.random.Generator) -> pa.Array:
    """Return values of arbitrary bits, NaN payloads and negative zeros among them."""
    width = kind.byte_width if hasattr(kind, "byte_width") else kind.bit_width // 8
    data = rng.integers(0, 256, rows * width, dtype=np.uint8)
    if pa.types.is_decimal(kind):  # keep within the precision: clear the upper half
        data.reshape(rows, width)[:, width // 2 :] = 0
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(data)])


def _numbers(kind: pa.DataType, values: Any) -> pa.Array:
    data = np.asarray(values).astype(f"i{kind.bit_width // 8}")
    return pa.Array.from_buffers(kind, len(data), [None, pa.py_buffer(data)])


def _strings(lengths: Any, alphabet: bytes, rng: np.random.Generator) -> pa.Array:
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    letters = np.frombuffer(alphabet, np.uint8)
    data = letters[rng.integers(0, len(letters), int(offsets[-1]))]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def columns(rows: int) -> Iterator[tuple[str, pa.Array]]:
    """Yield named columns without nulls."""
    rng = np.random.default_rng(rows)
    for kind in FIXED:
        yield f"{kind} any bits", _of_bytes(kind, rows, rng)
        if pa.types.is_primitive(kind) and not pa.types.is_floating(kind):
            bits = kind.bit_width
            yield f"{kind} small", _numbers(kind, rng.integers(0, 7, rows))
            yield f"{kind} half", _numbers(kind, rng.integers(0, 1 << bits // 2 - 1, rows))
            yield f"{kind} runs", _numbers(kind, np.arange(rows) // 40 % 100)
            yield f"{kind} constant", _numbers(kind, np.full(rows, -3))
    yield "double few", pa.array(rng.integers(0, 9, rows) / 2)
    yield "double negative zero", pa.array(np.full(rows, -0.0))
    yield "bool", pa.array(rng.random(rows) < 0.5)
    yield "bool constant", pa.array(np.ones(rows, bool))
    yield "null", pa.nulls(rows)
    yield "binary(40) constant", pa.array([b"x" * 40] * rows, pa.binary(40))

    words = np.array(["the ", "quick ", "brown ", "fox "])
    text = ["".join(words[row]) for row in rng.integers(0, 4, (rows, 9))]
    shapes = {
        "short": _strings(rng.integers(0, 9, rows), b"abc \xc3\xa9"[:4], rng),
        "text": pa.array(text, pa.binary()),
        "empty": pa.array([b""] * rows, pa.binary()),
        "constant": pa.array([b"hello"] * rows, pa.binary()),
        "few": pa.array([b"category %d" % k for k in rng.integers(0, 20, rows)], pa.binary()),
        "long": _strings(rng.integers(0, 700, rows), b"abcdef", rng),
    }
    for kind in STRINGS:
        for name, array in shapes.items():
            yield f"{kind} {name}", array.cast(kind)
    yield "binary 0xff", _strings(rng.integers(0, 20, rows), b"\xff\xfe\x00", rng)
    lengths = rng.integers(0, 40_000, rows) * (rng.random(rows) < 0.01)
    yield "binary huge", _strings(lengths, b"ab", rng)

    for size in (1, 3, 16, 128):
        for item in (pa.float16(), pa.float32(), pa.float64(), pa.uint8(), pa.int64()):
            yield (
                f"{item}[{size}]",
                pa.FixedSizeListArray.from_arrays(_of_bytes(item, rows * size, rng), size),
            )
        flags = pa.array(rng.random(rows * size) < 0.5)
        yield f"bool[{size}]", pa.FixedSizeListArray.from_arrays(flags, size)
        items = with_nulls(pa.array(rng.random(rows * size), pa.float32()), "some")
        yield f"float[{size}] null items", pa.FixedSizeListArray.from_arrays(items, size)
        items = pa.nulls(rows * size, pa.float32())
        yield f"float[{size}] all items null", pa.FixedSizeListArray.from_arrays(items, size)


def assert_same(actual: pa.Array | pa.ChunkedArray, expected: pa.Array, note: str) -> None:
    """Compare to the last bit: type, validity and values."""
    if isinstance(actual, pa.ChunkedArray):
        actual = actual.combine_chunks()
    assert actual.type == expected.type, note
    assert len(actual) == len(expected), note
    assert _content(actual) == _content(expected), note


def _content(array: pa.Array) -> Any:
    """Return validity and what lies at valid places, so that equality is that of bytes."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    kept = array.filter(pa.array(valid))
    if pa.types.is_fixed_size_list(array.type):
        return valid.tobytes(), _content(kept.flatten())
    if pa.types.is_floating(array.type) or pa.types.is_temporal(array.type):
        width = array.type.bit_width // 8
        data = np.frombuffer(kept.buffers()[1] or b"", np.uint8)
        return valid.tobytes(), data[kept.offset * width :][: len(kept) * width].tobytes()
    if pa.types.is_nested(array.type) or pa.types.is_dictionary(array.type):
        return valid.tobytes(), kept.to_pylist()
    return valid.tobytes(), kept  # no number with several zeros: equal values are equal bytes
