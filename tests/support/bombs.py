"""Data files of a few kilobytes whose pages claim to stand for gigabytes.

Run as a program it reads datasets with such files in a process whose memory is limited, and prints
what came of each read.
"""

from __future__ import annotations

import json
import resource
import struct
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from google.protobuf.any_pb2 import Any as AnyMessage

import lancekit as lk
from lancekit import errors
from lancekit._file.container.footer import (
    ARRAY_ENCODING,
    COLUMN_ENCODING,
    FOOTER,
    MAGIC,
    PAGE_LAYOUT,
)
from lancekit._format.pb import encodings_v20_pb2 as old
from lancekit._format.pb import encodings_v21_pb2 as pb
from lancekit._format.pb import file2_pb2, schema_pb2
from lancekit._format.schema import LanceSchema, schema_to_pb
from tests.support.hostile import alter
from tests.support.patience import at_most

__all__ = ["BOMBS", "READS", "Bomb", "file_of", "plant", "zstd_frame"]

#: Address space beyond what the program has when it begins: a few pages of 256 MiB.
EXTRA_BYTES = 5 << 29
SECONDS = 60
HUGE = 1 << 40
#: The most rows of a fragment.
ROWS = (1 << 32) - 1
GIGABYTES = 3 << 30


@dataclass(frozen=True)
class Bomb:
    """One page of one column, and what must become of reading it."""

    kind: pa.DataType
    rows: int
    encoding: Any
    buffers: tuple[bytes, ...]
    version: tuple[int, int] = (2, 2)
    #: what is wrong with it; nothing if its rows can be read, a few at a time
    problem: str = "would take"
    #: whether a few rows can be read nevertheless
    few: bool = False


def file_of(bomb: Bomb) -> bytes:
    """Return a data file with a bomb in its only page."""
    out = bytearray()
    page = file2_pb2.Page(length=bomb.rows)
    for data in bomb.buffers:
        out += bytes(-len(out) % 64)
        page.buffer_offsets.append(len(out))
        page.buffer_sizes.append(len(data))
        out += data
    url = ARRAY_ENCODING if bomb.version == (0, 3) else PAGE_LAYOUT
    page.encoding.CopyFrom(_direct(url, bomb.encoding))
    column = file2_pb2.ColumnMetadata(pages=[page])
    values = old.ColumnEncoding()
    values.values.SetInParent()
    column.encoding.CopyFrom(_direct(COLUMN_ENCODING, values))
    schema = LanceSchema.from_arrow(pa.schema([pa.field("c", bomb.kind)]))
    stored = schema_pb2.Schema(fields=schema_to_pb(schema))
    descriptor = schema_pb2.FileDescriptor(schema=stored, length=bomb.rows).SerializeToString()
    out += bytes(-len(out) % 64)
    schema_at = len(out)
    out += descriptor
    column_at, metadata = len(out), column.SerializeToString()
    out += metadata
    tables = len(out)
    out += struct.pack("<QQ", column_at, len(metadata))
    out += struct.pack("<QQ", schema_at, len(descriptor))
    out += FOOTER.pack(column_at, tables, tables + 16, 1, 1, *bomb.version, MAGIC)
    return bytes(out)


def _direct(url: str, message: Any) -> file2_pb2.Encoding:
    packed = AnyMessage(type_url=url, value=message.SerializeToString()).SerializeToString()
    return file2_pb2.Encoding(direct=file2_pb2.Direct(encoding=packed))


def plant(bomb: Bomb, path: Path) -> None:
    """Make a dataset whose only data file has a bomb."""
    version: Any = "2.0" if bomb.version == (0, 3) else ".".join(map(str, bomb.version))
    lk.write_dataset(
        pa.table({"c": pa.nulls(1, _small(bomb.kind))}), path, data_storage_version=version
    )
    (file,) = (path / "data").iterdir()
    data = file_of(bomb)
    file.write_bytes(data)

    def change(message: Any, fragment: Any) -> None:
        field, *_ = schema_to_pb(LanceSchema.from_arrow(pa.schema([pa.field("c", bomb.kind)])))
        message.fields[0].logical_type = field.logical_type
        fragment.physical_rows = bomb.rows
        fragment.files[0].file_size_bytes = len(data)

    alter(path, change)


def _small(kind: pa.DataType) -> pa.DataType:
    """Return a type to write in the place of one that takes gigabytes and seconds."""
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_type, 1)
    return pa.binary(1) if pa.types.is_fixed_size_binary(kind) else kind


# ---- encodings


def zstd_frame(size: int, byte: int = 97) -> bytes:
    """Return a frame of Zstd, of unknown size, that stands for ``size`` times the same byte."""
    out = bytearray(b"\x28\xb5\x2f\xfd\x00\x38")
    block = 1 << 17
    for start in range(0, size, block):
        length = min(block, size - start)
        last = start + length == size
        out += struct.pack("<I", last | 1 << 1 | length << 3)[:3] + bytes([byte])
    return bytes(out)


def _sized(frame: bytes, size: int) -> bytes:
    return struct.pack("<Q", size) + frame


def _flat(bits: int) -> pb.CompressiveEncoding:
    return pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=bits))


def _general(values: pb.CompressiveEncoding, scheme: Any = pb.ZSTD) -> pb.CompressiveEncoding:
    compression = pb.BufferCompression(scheme=scheme)
    return pb.CompressiveEncoding(general=pb.General(compression=compression, values=values))


STRINGS = pb.CompressiveEncoding(variable=pb.Variable(offsets=_flat(32)))
#: As many zeros as there should be, of no bytes at all.
ZEROS = {
    bits: pb.CompressiveEncoding(
        out_of_line_bitpacking=pb.OutOfLineBitpacking(
            uncompressed_bits_per_value=bits, values=pb.CompressiveEncoding(flat=pb.Flat())
        )
    )
    for bits in (16, 32)
}
ITEM = pb.ALL_VALID_ITEM
NULLABLE = pb.NULLABLE_ITEM


def _chunk(*buffers: bytes) -> bytes:
    """Return a chunk without levels, of version 2.2."""
    head = struct.pack(f"<H{len(buffers)}I", 0, *map(len, buffers))
    return b"".join(part + bytes(-len(part) % 8) for part in (head, *buffers))


def _mini(
    rows: int, values: pb.CompressiveEncoding, chunks: list[bytes], **more: Any
) -> tuple[pb.PageLayout, list[bytes]]:
    """Return a mini-block page whose chunks but the last have 2^15 values."""
    words = [(len(chunk) // 8 - 1) << 4 | 15 for chunk in chunks]
    words[-1] &= ~15
    layout = pb.MiniBlockLayout(
        value_compression=values,
        layers=[ITEM],
        num_buffers=1,
        num_items=rows,
        has_large_chunk=True,
        **more,
    )
    packed = struct.pack(f"<{len(words)}I", *words)
    return pb.PageLayout(mini_block=layout), [packed, b"".join(chunks)]


def _mini_bomb(
    kind: pa.DataType,
    rows: int,
    values: pb.CompressiveEncoding,
    chunks: list[bytes],
    problem: str = "would take",
) -> Bomb:
    layout, buffers = _mini(rows, values, chunks)
    return Bomb(kind, rows, layout, tuple(buffers), problem=problem)


def _dictionary(
    rows: int, items: pb.CompressiveEncoding, count: int, stored: bytes, problem: str = "would take"
) -> Bomb:
    full, rest = divmod(rows, 1 << 15)
    layout, buffers = _mini(
        rows,
        ZEROS[32],
        [_chunk(b"")] * (full + (rest > 0)),
        dictionary=items,
        num_dictionary_items=count,
    )
    return Bomb(pa.string(), rows, layout, (*buffers, stored), problem=problem)


def _text_item(size: int) -> bytes:
    """Return a dictionary of one text."""
    return struct.pack("<4I", 32, 16, 0, size) + b"a" * size


def _full_zip(unit: bytes) -> Bomb:
    layout = pb.FullZipLayout(
        bits_per_offset=32,
        num_items=1,
        num_visible_items=1,
        value_compression=_general(STRINGS),
        layers=[ITEM],
    )
    data = struct.pack("<I", len(unit)) + unit
    index = struct.pack("<2I", 0, len(data))
    return Bomb(pa.string(), 1, pb.PageLayout(full_zip=layout), (data, index))


def _constant(kind: pa.DataType, rows: int, problem: str = "", **layout: Any) -> Bomb:
    buffers = layout.pop("buffers", ())
    layers = layout.pop("layers", [NULLABLE])
    message = pb.ConstantLayout(layers=layers, **layout)
    return Bomb(kind, rows, pb.PageLayout(constant=message), buffers, problem=problem)


def _old_flat(bits: int, scheme: str = "") -> old.ArrayEncoding:
    flat = old.Flat(bits_per_value=bits, buffer=old.Buffer())
    if scheme:
        flat.compression.CopyFrom(old.Compression(scheme=scheme))
    return old.ArrayEncoding(flat=flat)


def _no_nulls(values: old.ArrayEncoding) -> old.ArrayEncoding:
    return old.ArrayEncoding(nullable=old.Nullable(no_nulls=old.Nullable.NoNulls(values=values)))


def _bombs() -> Iterator[tuple[str, Bomb]]:
    frame = zstd_frame(GIGABYTES)
    string, numbers = pa.string(), pa.int64()
    yield "a bare frame of strings", _mini_bomb(string, 5, _general(STRINGS), [_chunk(frame)])
    yield (
        "a frame of strings",
        _mini_bomb(string, 5, _general(STRINGS), [_chunk(_sized(frame, GIGABYTES))]),
    )
    yield (
        "a size that is a lie",
        _mini_bomb(string, 5, _general(STRINGS), [_chunk(_sized(bytes(1 << 16), GIGABYTES))]),
    )
    yield (
        "LZ4 whose size is a lie",
        _mini_bomb(
            string,
            5,
            _general(STRINGS, pb.LZ4),
            [_chunk(struct.pack("<I", GIGABYTES) + bytes(1 << 16))],
        ),
    )
    yield (
        "frames within frames",
        _mini_bomb(
            string,
            5,
            _general(_general(STRINGS)),
            [_chunk(_sized(pa.compress(frame * 9, "zstd", asbytes=True), len(frame) * 9))],
        ),
    )
    for name, unit in (("a bare frame", frame), ("a frame", _sized(frame, GIGABYTES))):
        yield (
            f"{name} of numbers",
            _mini_bomb(
                numbers, 5, _general(_flat(64)), [_chunk(unit)], problem="compressed buffer"
            ),
        )
        yield f"{name} of one value", _full_zip(unit)
    yield (
        "a chunk of 2^32 values",
        _mini_bomb(pa.int32(), ROWS, ZEROS[32], [_chunk(b"")], problem="impossible size"),
    )
    lists = pa.list_(pa.int32(), (1 << 31) - 1)
    of_zeros = pb.CompressiveEncoding(
        fixed_size_list=pb.FixedSizeList(items_per_value=(1 << 31) - 1, values=ZEROS[32])
    )
    yield "lists of 2^31 numbers", _mini_bomb(lists, 5, of_zeros, [_chunk(b"")])
    yield "a dictionary of frames", _dictionary(5, _general(STRINGS), 1, _sized(frame, GIGABYTES))
    yield "a dictionary of 2^40 items", _dictionary(5, ZEROS[32], HUGE, b"")
    repeated = _dictionary(1 << 24, STRINGS, 1, _text_item(60_000))
    yield "a text for 2^24 rows", replace(repeated, few=True)
    for name in ("rep", "def"):
        other = {"rep": "def", "def": "rep"}[name]
        yield (
            f"2^40 levels in {name}",
            _constant(
                pa.list_(numbers),
                5,
                "would take",
                layers=[NULLABLE, pb.NULLABLE_EMPTYABLE_LIST],
                buffers=(b"\0" * 8, b"\0" * 8),
                **{f"{name}_compression": ZEROS[16], f"num_{name}_values": HUGE},
                **{f"{other}_compression": ZEROS[16], f"num_{other}_values": HUGE},
            ),
        )
    yield "a null list of 2^31 numbers", _constant(lists, 1, "would take")
    yield "a wide null", _constant(pa.binary((1 << 31) - 1), 1, "would take")
    yield "2^32 nulls", _constant(numbers, ROWS)
    yield "2^32 times a number", _constant(numbers, ROWS, inline_value=bytes(8), layers=[ITEM])
    text = struct.pack("<3I", 2, 8, 4) + struct.pack("<2I", 0, 4) + b"text"
    yield "2^32 times a text", _constant(string, ROWS, buffers=(text,), layers=[ITEM])
    long = struct.pack("<3I", 2, 8, 60_000) + struct.pack("<2I", 0, 60_000) + b"a" * 60_000
    yield (
        "2^32 times a long text",
        replace(_constant(string, ROWS, "would take", buffers=(long,), layers=[ITEM]), few=True),
    )
    yield (
        "2.0: a frame of numbers",
        Bomb(numbers, 5, _no_nulls(_old_flat(64, "zstd")), (frame,), (0, 3), "compressed buffer"),
    )
    yield (
        "2.0: a frame of strings",
        Bomb(
            string,
            5,
            old.ArrayEncoding(
                binary=old.Binary(
                    indices=_no_nulls(
                        old.ArrayEncoding(
                            flat=old.Flat(bits_per_value=64, buffer=old.Buffer(buffer_index=1))
                        )
                    ),
                    bytes=_old_flat(8, "zstd"),
                    null_adjustment=HUGE,
                )
            ),
            (_sized(frame, GIGABYTES), struct.pack("<5Q", 1, 2, 3, 4, 5)),
            (0, 3),
        ),
    )
    all_null = old.ArrayEncoding(nullable=old.Nullable(all_nulls=old.Nullable.AllNulls()))
    codes = _no_nulls(_old_flat(8))
    yield (
        "2.0: a dictionary of 2^32 nulls",
        Bomb(
            string,
            5,
            old.ArrayEncoding(
                dictionary=old.Dictionary(
                    indices=codes, items=all_null, num_dictionary_items=(1 << 32) - 1
                )
            ),
            (bytes(5),),
            (0, 3),
        ),
    )
    yield "2.0: 2^32 nulls", Bomb(numbers, ROWS, all_null, (), (0, 3), "")


BOMBS: dict[str, Bomb] = dict(_bombs())


# ---- what is tried


def _first_batch(path: str) -> None:
    next(iter(lk.dataset(path).to_batches(batch_size=10)))


def _first_of_file(path: str) -> None:
    (file,) = (Path(path) / "data").iterdir()
    reader = lk.file.LanceFileReader(file)
    next(iter(reader.read_all(batch_size=10).to_batches()))


READS: dict[str, Callable[[str], Any]] = {
    "limit": lambda path: lk.dataset(path).to_table(limit=1),
    "take": lambda path: lk.dataset(path).take([3 % lk.dataset(path).count_rows()]),
    "batches": _first_batch,
    "file": _first_of_file,
    "count": lambda path: lk.dataset(path).count_rows(),
    "card": lambda path: repr(lk.dataset(path)),
}


def outcomes(path: str) -> dict[str, str]:
    """Return what each way of reading says: nothing if it gives rows."""
    found = {}
    for name, read in READS.items():
        try:
            read(path)
        except (errors.CorruptFileError, errors.MemoryLimitError) as error:
            found[name] = str(error)
        else:
            found[name] = ""
    return found


def main(paths: list[str]) -> None:
    """Read datasets with limited memory; print what came of it as JSON."""
    warnings.simplefilter("error")
    lk.options.cache_bytes = 64 << 20  # what is remembered is no part of what a page takes
    lk.options.page_memory_bytes = 128 << 20  # up to it a frame is unpacked: the less the sooner
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + EXTRA_BYTES, used + EXTRA_BYTES))
    found = {}
    for path in paths:
        with at_most(SECONDS):
            found[path] = outcomes(path)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
