"""What the pages on data files say about encodings and refusals is what happens."""

import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import UnsupportedTypeError
from lancekit.file import LanceFileReader, LanceFileWriter

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("data-files.md", "reference/files-details.md")
PAGE = "".join((DOCS / page).read_text(encoding="utf-8") for page in PAGES)
ROWS = 20_000
PATH = "memory://data-files-page/one.lance"


def cells(heading):
    """Return the cells of the first table below a heading, by the text of the first one."""
    part = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("| ")]
    return {first.strip(): [cell.strip() for cell in rest] for first, *rest in lines[1:]}


def column(values, kind=None, **options):
    metadata = {f"lance-encoding:{name.replace('_', '-')}": v for name, v in options.items()}
    array = values if isinstance(values, pa.Array | pa.ExtensionArray) else pa.array(values, kind)
    field = pa.field("v", array.type, metadata=metadata or None)
    return pa.table([array], schema=pa.schema([field]))


def encoding(table, version):
    """Write a column, compare it with what is read, and return how its pages are encoded."""
    with LanceFileWriter(PATH, version=version) as writer:
        writer.write_batch(table)
    reader = LanceFileReader(PATH)
    assert reader.read_all().to_table().column("v").equals(table.column("v"))
    return {page.encoding for page in reader.metadata().columns[-1].pages}


# ---- what is chosen

RNG = np.random.default_rng(7)
WORDS = np.array(["the", "north", "wind", "and", "sun", "were", "disputing", "stronger"])


def text(words, rows=ROWS):
    return [" ".join(line) for line in RNG.choice(WORDS, (rows, words)).tolist()]


PLAIN = "mini-block of plain values"
FEW = "mini-block of bit-packed integers into a dictionary of 9"
VERSIONS = ("in_20", "in_21", "in_22")
CHOICES = [
    ("Only nulls", pa.nulls(ROWS, pa.int64()), "nulls", "nulls only", "nulls only"),
    ("One value, many times", [7] * ROWS, "plain values", "runs", "one value"),
    (
        "Integers, times, dates: small numbers",
        RNG.integers(0, 1000, ROWS).astype(np.int32),
        "plain values",
        "bit-packed integers",
        "bit-packed integers",
    ),
    ("The same, in long runs", np.arange(ROWS) // 99, "plain values", "of runs", "of runs"),
    (
        "Few distinct strings",
        [f"word {i % 9}" for i in range(ROWS)],
        "into a dictionary of 9 (strings)",
        f"{FEW} (strings)",
        f"{FEW} (strings)",
    ),
    (
        "Few distinct 16-byte values (decimals, UUIDs)",
        [Decimal(i % 9) for i in range(ROWS)],
        "plain values",
        f"{FEW} (plain values)",
        f"{FEW} (plain values)",
    ),
    (
        "Few distinct 8-byte values",
        np.arange(ROWS) % 9 / 7,
        "plain values",
        PLAIN,
        f"{FEW} (plain values)",
    ),
    ("Other numbers, booleans", RNG.random(ROWS), "plain values", PLAIN, PLAIN),
    ("Text", text(12), "strings", "mini-block of strings, lz4", "mini-block of strings, lz4"),
    (
        "Text of 256 bytes and more",
        text(100, 2000),
        "strings",
        "mini-block of strings, lz4",
        "mini-block of strings, lz4",
    ),
    (
        "Binary",
        [line.encode() for line in text(12)],
        "strings",
        "mini-block of strings",
        "mini-block of strings",
    ),
    (
        "Vectors below 256 bytes",
        pa.FixedSizeListArray.from_arrays(RNG.random(ROWS), 8),
        "lists of 8 plain values",
        "mini-block of lists of 8 plain values",
        "mini-block of lists of 8 plain values",
    ),
    (
        "Vectors of 256 bytes and more",
        pa.FixedSizeListArray.from_arrays(RNG.random(ROWS), 32),
        "lists of 32 plain values",
        "full-zip of lists of 32 plain values",
        "full-zip of lists of 32 plain values",
    ),
    ("Lists, structs, maps", [[1, 2], []], "plain values", PLAIN, PLAIN),
]


@pytest.mark.parametrize(("label", "values", *VERSIONS), CHOICES)
def test_choices(label, values, in_20, in_21, in_22):
    table = column(values)
    for version, words in (("2.0", in_20), ("2.1", in_21), ("2.2", in_22)):
        (found,) = encoding(table, version)
        assert found.endswith(words), version


def test_the_table_of_choices_is_whole():
    assert [
        re.sub(r" \(\"full-zip\"\)", "", row) for row in cells("Encodings that the writer chooses")
    ] == [label for label, *_ in CHOICES]


LONG = [line * 9 for line in text(100, 300)]


def test_very_long_text_and_binary_are_compressed_one_by_one():
    lines = [line.encode() for line in LONG]
    for version in ("2.1", "2.2"):
        assert encoding(column(lines), version) == {"full-zip of strings, zstd"}


# ---- metadata


@pytest.mark.parametrize(
    ("options", "values", "words"),
    [
        ({"compression": "lz4"}, RNG.integers(0, 9, ROWS) / 7, None),
        ({"compression": "zstd"}, text(12), "mini-block of strings, zstd"),
        ({"compression": "zstd", "compression_level": "9"}, text(12), "strings, zstd"),
        ({"compression": "fsst"}, text(12), "mini-block of strings, fsst"),
        ({"compression": "none"}, text(12), "mini-block of strings"),
        ({"compression": "none"}, np.arange(ROWS) // 99, PLAIN),
        ({"compression": "zstd", "bss": "on"}, np.arange(ROWS) / 7, "byte streams, zstd"),
        ({"structural_encoding": "fullzip"}, np.arange(ROWS), "full-zip of plain values"),
        ({"structural_encoding": "miniblock"}, LONG, "mini-block of strings, lz4"),
    ],
    ids=str,
)
def test_metadata_are_heeded(options, values, words):
    for version in ("2.1", "2.2"):
        (found,) = encoding(column(values, **options), version)
        assert words is None or found.endswith(words)


def test_every_key_is_in_the_table():
    keys = {key.strip("`") for key in cells("Metadata keys of a column")} - {""}
    assert keys == {
        f"lance-encoding:{name}"
        for name in (
            "compression",
            "compression-level",
            "bss",
            "dict-values-compression",
            "structural-encoding",
            "packed",
            "blob",
        )
    }


def test_items_of_dictionaries():
    values = [f"{i % 2000:06} of the items" for i in range(ROWS)]
    for scheme, said in (("lz4", ", lz4)"), ("zstd", ", zstd)"), ("none", "(strings)")):
        (found,) = encoding(column(values, dict_values_compression=scheme), "2.2")
        assert found.endswith(said)


# ---- refusals

PACKED = {"packed": "true"}
POINT = pa.struct([("x", pa.int32())])
NAMED = pa.struct([("x", pa.string())])
PAIR = pa.list_(pa.float32(), 2)
PAIRS = pa.struct([("p", PAIR)])
MANY = pa.struct([(f"x{i}", pa.float64()) for i in range(512)])
REFUSED = {
    "Maps, fixed-size lists of structs": [
        column([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        column([[{"x": 1}] * 2], pa.list_(POINT, 2)),
    ],
    "Fixed-size lists of structs inside of lists": [
        column([[[{"x": 1}] * 2]], pa.list_(pa.list_(POINT, 2)))
    ],
    "Lists inside of fixed-size lists of structs": [
        column([[{"l": [1]}]], pa.list_(pa.struct([("l", pa.list_(pa.int8()))]), 1))
    ],
    "Structs without fields inside of lists": [column([[{}]], pa.list_(pa.struct([])))],
    "Fixed-size lists of no items, `fixed_size_binary(0)`": [
        column([[]], pa.list_(pa.int8(), 0)),
        column([b""], pa.binary(0)),
    ],
    "Fixed-size lists of text, bytes or null": [
        column([[None]], pa.list_(kind, 1)) for kind in (pa.string(), pa.binary(), pa.null())
    ],
    "Lists of more than 8,192 booleans of fixed size": [
        column([[True] * 8193], pa.list_(pa.bool_(), 8193))
    ],
    "Blobs of version 2 (`lk.blob_field`)": [column(lk.blob_array([b"x"]))],
    "Blobs inside of lists": [
        pa.table(
            [pa.array([[b"x"]], pa.list_(pa.large_binary()))],
            schema=pa.schema(
                [
                    pa.field(
                        "v",
                        pa.list_(
                            pa.field(
                                "item", pa.large_binary(), metadata={"lance-encoding:blob": "true"}
                            )
                        ),
                    )
                ]
            ),
        )
    ],
    "Dictionaries of dates, times, decimals or `fixed_size_binary`": [
        column(pa.array([1, 2]).cast(kind).dictionary_encode())
        for kind in (pa.time64("us"), pa.timestamp("us"), pa.duration("s"), pa.decimal128(20))
    ]
    + [column(pa.array([b"ab"], pa.binary(2)).dictionary_encode())],
    "Packed structs of numbers": [column([{"x": 1}], POINT, **PACKED)],
    "Packed structs with vectors": [column([{"p": [1, 2]}], PAIRS, **PACKED)],
    "Packed structs with strings": [column([{"x": "a"}], NAMED, **PACKED)],
    "Null packed structs": [column([{"x": 1}, None], POINT, **PACKED)],
    "Nulls in the fields of packed structs": [column([{"x": None}], POINT, **PACKED)],
}


@pytest.mark.parametrize("label", REFUSED)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_refusals(label, place):
    version = ("2.0", "2.1", "2.2")[place]
    said = cells("Types that cannot be written")[label][place]
    for table in REFUSED[label]:
        try:
            ds = lk.write_dataset(
                table, "memory://refusals", mode="overwrite", data_storage_version=version
            )
        except UnsupportedTypeError:
            assert said.startswith("no"), table.schema
        else:
            assert not said.startswith("no"), table.schema
            assert ds.data_storage_version == version
            assert ds.to_table().num_rows == table.num_rows


def test_packed_structs_have_a_size():
    assert (
        cells("Types that cannot be written")["Packed structs of numbers"][1] == "up to 4,080 bytes"
    )
    row = dict.fromkeys((field.name for field in MANY), 1.0)
    encoding(column([row], MANY, **PACKED), "2.2")
    with pytest.raises(UnsupportedTypeError, match="4096 bytes"):
        encoding(column([row], MANY, **PACKED), "2.1")


def test_every_refusal_is_tried():
    assert list(cells("Types that cannot be written")) == list(REFUSED)
