"""Which encodings pages get, and that both libraries read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lancekit._file.encodings import bitpacking, byte_stream_split, general, rle
from lancekit._file.encodings.buffers import ChunkBuffers
from lancekit._file.encodings.decode import decode_chunks
from lancekit._file.encodings.request import EncodedValues
from lancekit._file.kernels.memory import starts_of
from lancekit._file.kernels.values import Fixed
from lancekit._file.reader import FileReader
from tests.file.columns import assert_same, with_nulls
from tests.file.lance_io import open_ours, read_reference, write_ours

_WORDS = st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64])


def _decode(values: EncodedValues, rows: Any = None) -> bytes:
    pieces = []
    for (part,) in values.buffers:
        data = part.data
        starts = starts_of(part.lengths)
        aligned = starts_of(-(-part.lengths // 8) * 8)
        out = np.zeros(int(aligned[-1]), np.uint8)  # every buffer of a chunk begins on 8 bytes
        for begin, end, place in zip(starts, starts[1:], aligned, strict=False):
            out[place : place + end - begin] = data[begin:end]
        pieces.append(ChunkBuffers(out, aligned[:-1], part.lengths))
    raw = decode_chunks(values.encoding, pieces, values.counts, rows)
    assert isinstance(raw, Fixed)
    return raw.data[: raw.count * raw.width].tobytes()


@given(st.data(), _WORDS, st.integers(1, 5000), st.integers(0, 2**32))
def test_packed_widths_differ_by_block(data: Any, kind: Any, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    widths = rng.integers(0, np.dtype(kind).itemsize * 8 + 1, -(-rows // 1024))
    words = rng.integers(0, 2**64, rows, np.uint64, endpoint=False)
    shift = np.repeat(64 - widths, 1024)[:rows].astype(np.uint64)
    values = np.where(shift < 64, words >> np.minimum(shift, 63), 0).astype(kind)
    assert _decode(bitpacking.encode(values, bitpacking.widths_of(values))) == values.tobytes()


def test_one_outlier_costs_its_block_only() -> None:
    values = np.full(100 * 1024, 5, np.uint64)
    values[5000] = 2**60
    assert bitpacking.encode(values, bitpacking.widths_of(values)).nbytes < values.nbytes / 4


@given(hnp.arrays(np.uint16, st.integers(1, 3000), elements=st.integers(0, 2)), _WORDS)
def test_runs(values: Any, kind: Any) -> None:
    values = np.repeat(values.astype(kind), 3)
    assert _decode(rle.encode(values, rle.starts_of_runs(values), 1024)) == values.tobytes()


@given(st.data(), st.integers(1, 3000), _WORDS, st.integers(0, 2**32))
def test_some_rows_of_runs(data: Any, rows: int, kind: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.repeat(rng.integers(0, 3, rows).astype(kind), rng.integers(1, 400, rows))[:rows]
    stored = rle.encode(values, rle.starts_of_runs(values), 1024)
    wanted = np.sort(rng.choice(rows, data.draw(st.integers(1, rows)), replace=False))
    assert _decode(stored, wanted) == values[wanted].tobytes()


def test_runs_without_values_and_beyond_their_chunk() -> None:
    lengths = np.array([3, 0, 40, 0, 21, 200], np.uint8)  # 8 more than the chunk has
    words = np.arange(6, dtype=np.uint32)
    pieces = [ChunkBuffers.of(words.view(np.uint8)), ChunkBuffers.of(lengths)]
    counts = np.array([256])
    every = decode_chunks(rle.message(32), pieces, counts)
    for row in (0, 2, 3, 42, 43, 63, 64, 255):
        some = decode_chunks(rle.message(32), pieces, counts, np.array([row]))
        assert some.data.tobytes() == every.data[4 * row : 4 * row + 4].tobytes()


def test_a_long_run_is_several() -> None:
    values = np.full(4096, 7, np.uint32)
    stored = rle.encode(values, rle.starts_of_runs(values), 4096)
    assert stored.buffers[1][0].data.tolist() == [255] * 16 + [16]


@pytest.mark.parametrize("width", [2, 4, 8])
@pytest.mark.parametrize("rows", [1, 8, 64, 100])
def test_byte_streams(width: int, rows: int) -> None:
    data = np.random.default_rng(rows).integers(0, 256, rows * width, dtype=np.uint8)
    stored = byte_stream_split.encode(data, width, 16)
    assert stored.buffers[0][0].data[: min(rows, 16)].tolist() == data[::width][:16].tolist()
    assert _decode(stored) == data.tobytes()


@pytest.mark.parametrize("scheme", ["lz4", "zstd"])
def test_compressed_chunks(scheme: str) -> None:
    data = np.arange(8192, dtype=np.uint32).view(np.uint8)
    stored = byte_stream_split.encode(data, 4, 2048)
    small = general.compressed(stored, scheme, None, large_chunks=True)
    assert small.nbytes < stored.nbytes / 2
    assert _decode(small) == data.tobytes()


def test_what_does_not_shrink_stays() -> None:
    noise = np.random.default_rng(0).integers(0, 256, 65536, dtype=np.uint8)
    stored = byte_stream_split.encode(noise, 4, 2048)
    assert general.compressed(stored, "lz4", None, large_chunks=True) is stored


# ---- what is chosen

_ROWS = 30_000
_RNG = np.random.default_rng(3)


def _text(rows: int, words: int) -> pa.Array:
    vocabulary = np.array([f"{n:x}{'aeiou'[n % 5] * (n % 7)} " for n in range(800)], object)
    return pa.array(["".join(row) for row in vocabulary[_RNG.integers(0, 800, (rows, words))]])


def _lower(rows: int) -> pa.Array:
    letters = _RNG.integers(97, 123, (rows, 9), dtype=np.uint8)
    return pa.array([row.tobytes().decode() for row in letters])


_CHOICES = {
    "sequence": (pa.array(np.arange(_ROWS)), "inline_bitpacking", None),
    "40 bits": (pa.array(_RNG.integers(0, 2**40, _ROWS)), "inline_bitpacking", None),
    "64 bits": (pa.array(_RNG.integers(-(2**63), 2**63, _ROWS)), "flat", None),
    "doubles": (pa.array(_RNG.standard_normal(_ROWS)), "flat", None),
    "runs": (pa.array(np.repeat(_RNG.standard_normal(_ROWS // 100), 100)), "rle", None),
    "few doubles": (pa.array(_RNG.integers(0, 9, _ROWS) / 7), "flat", "inline_bitpacking"),
    "few decimals": (
        pa.array(_RNG.integers(0, 9, _ROWS)).cast(pa.decimal128(30, 0)),
        "inline_bitpacking",
        "inline_bitpacking",
    ),
    "short strings": (_lower(_ROWS), "variable", None),
    "text": (_text(_ROWS // 10, 15), "general", None),
    "long text": (_text(_ROWS // 60, 400), "general", None),
    "hex": (pa.array([_RNG.bytes(16).hex() for _ in range(_ROWS // 10)]), "variable", None),
    "keys": (
        pa.array([f"key {k}" for k in _RNG.integers(0, 3000, _ROWS)]),
        "inline_bitpacking",
        "inline_bitpacking",
    ),
}


def _encoding(reader: FileReader) -> tuple[str, bool]:
    """Return the value encoding of the first page, and whether there is a dictionary."""
    encoding: Any = reader._container.pages(0)[0].encoding
    layout = getattr(encoding, encoding.WhichOneof("layout"))
    name = layout.value_compression.WhichOneof("compression")
    return name, encoding.HasField("mini_block") and layout.HasField("dictionary")


@pytest.mark.cover(2)
@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("nulls", ["none", "some"])
@pytest.mark.parametrize("name", _CHOICES)
def test_chosen_encodings(tmp_path: Path, name: str, nulls: str, version: str) -> None:
    array, in_21, dictionary = _CHOICES[name]
    table = pa.table({"c": with_nulls(array, nulls)})
    data = write_ours(table, version)
    reader = open_ours(data)
    if nulls == "none":
        coded = dictionary is not None and (version == "2.2" or "decimal" in name or "key" in name)
        wanted = dictionary if coded else in_21
        assert _encoding(reader) == (wanted, coded)
    assert_same(reader.read(reader.columns)["c"], table["c"].combine_chunks(), name)
    assert_same(read_reference(data, tmp_path / "a")["c"], table["c"].combine_chunks(), name)


_REQUESTS = [
    ({"compression": "none"}, "sequence", "flat"),
    ({"compression": "zstd", "compression-level": "5"}, "doubles", "general"),
    ({"compression": "lz4", "bss": "on"}, "few doubles", "general"),
    ({"compression": "zstd"}, "short strings", "general"),
    ({"compression": "lz4"}, "text", "general"),
    ({"compression": "none"}, "text", "variable"),
    ({"compression": "fsst"}, "text", "fsst"),
    ({"compression": "none"}, "long text", "variable"),
    ({"dict-values-compression": "zstd"}, "keys", "inline_bitpacking"),
    ({"dict-values-compression": "none"}, "keys", "inline_bitpacking"),
]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize(("options", "name", "wanted"), _REQUESTS, ids=str)
def test_encodings_asked_for(
    tmp_path: Path, options: dict[str, str], name: str, wanted: str, version: str
) -> None:
    array = _CHOICES[name][0]
    metadata = {f"lance-encoding:{key}": value for key, value in options.items()}
    schema = pa.schema([pa.field("c", array.type, metadata=metadata)])
    data = write_ours(pa.table([array], schema=schema), version)
    reader = open_ours(data)
    assert _encoding(reader)[0] == wanted
    assert_same(reader.read(reader.columns)["c"], array, name)
    assert_same(read_reference(data, tmp_path / "a")["c"], array, name)


def _blobs(kind: str, rows: int) -> pa.Array:
    """Return long values: text that shrinks, or noise that does not."""
    words = np.array([b"wind ", b"rain ", b"sunshine ", b"fog in the valley "], object)
    make = {
        "text": lambda: b"".join(words[_RNG.integers(0, 4, 8000)]),
        "noise": lambda: _RNG.bytes(40_000),
    }[kind]
    values = [make() for _ in range(rows)]
    values[1:3] = [b"", b"x"]
    return pa.array(values, pa.binary())


@pytest.mark.cover(2)
@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("nulls", ["none", "some"])
@pytest.mark.parametrize(
    ("kind", "scheme", "wanted"),
    [
        ("text", None, "general"),
        ("noise", None, "variable"),
        ("text", "fsst", "fsst"),
        ("text", "lz4", "general"),
        ("text", "none", "variable"),
    ],
)
def test_values_in_full_zip_pages(
    tmp_path: Path, kind: str, scheme: str | None, wanted: str, nulls: str, version: str
) -> None:
    array = with_nulls(_blobs(kind, 40), nulls)
    metadata = {"lance-encoding:compression": scheme} if scheme else {}
    metadata["lance-encoding:structural-encoding"] = "fullzip"
    schema = pa.schema([pa.field("c", array.type, metadata=metadata)])
    data = write_ours(pa.table([array], schema=schema), version)
    reader = open_ours(data)
    assert _encoding(reader) == (wanted, False)
    assert_same(reader.read(reader.columns)["c"], array, kind)
    assert_same(reader.read(reader.columns, np.array([1, 2, 7]))["c"], array.take([1, 2, 7]), kind)
    assert_same(read_reference(data, tmp_path / "a")["c"], array, kind)


@pytest.mark.cover(2)
@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("structure", ["miniblock", "fullzip"])
@pytest.mark.parametrize("name", _CHOICES)
def test_structure_asked_for(tmp_path: Path, name: str, structure: str, version: str) -> None:
    array = with_nulls(_CHOICES[name][0].slice(0, 3000), "some")
    metadata = {"lance-encoding:structural-encoding": structure}
    schema = pa.schema([pa.field("c", array.type, metadata=metadata)])
    data = write_ours(pa.table([array], schema=schema), version)
    reader = open_ours(data)
    assert_same(reader.read(reader.columns)["c"], array, name)
    assert_same(read_reference(data, tmp_path / "a")["c"], array, name)
    layout: Any = reader._container.pages(0)[0].encoding
    assert (
        layout.WhichOneof("layout") == {"miniblock": "mini_block", "fullzip": "full_zip"}[structure]
    )
