"""Marks in the metadata of fields: what counts as set, here and in the reference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lance.file
import pyarrow as pa
import pytest

import lancekit as lk
from tests.file.columns import VERSIONS
from tests.file.lance_io import open_ours, write_reference

POINTS = pa.array(
    [{"a": 1, "b": 2}, {"a": 3, "b": 4}], pa.struct([("a", pa.int64()), ("b", pa.int32())])
)
BLOBS = pa.array([b"abc", b"d" * 20], pa.large_binary())

PACKED_KEYS = ("packed", "lance-encoding:packed")
CLEAR = ("true", "True", "TRUE", "false", "0", "")
UNCLEAR = ("1", "yes", "YES", "on", "y")

MIXED = [
    {"packed": "false", "lance-encoding:packed": "true"},
    {"packed": "TRUE", "lance-encoding:packed": "1"},
]

WRITE = """
import os
values = pa.array(arguments["values"], pa.struct([("a", pa.int64()), ("b", pa.int32())]))
for number, metadata in enumerate(arguments["metadata"]):
    schema = pa.schema([pa.field("k", pa.int8()), pa.field("s", values.type, metadata=metadata)])
    table = pa.table([[7, 8], values], schema=schema)
    uri = os.path.join(arguments["folder"], str(number))
    lance.write_dataset(table, uri, data_storage_version=arguments["version"])
result = None
"""

READ = """
result = [lance.dataset(uri).to_table()["s"].to_pylist() for uri in arguments["uris"]]
"""


def points(metadata: dict[str, str]) -> pa.Table:
    field = pa.field("s", POINTS.type, metadata=metadata)
    schema = pa.schema([pa.field("k", pa.int8()), field])
    return pa.table([pa.array([7, 8], pa.int8()), POINTS], schema=schema)


def packed(words: tuple[str, ...]) -> list[dict[str, str]]:
    return [{key: word} for key in PACKED_KEYS for word in words]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_release_reads_structs_whatever_the_mark_says(
    tmp_path: Path, pylance4: Callable[..., Any], version: str
) -> None:
    uris = [str(tmp_path / str(number)) for number in range(len(packed(CLEAR)) + len(MIXED))]
    for uri, metadata in zip(uris, [*packed(CLEAR), *MIXED], strict=True):
        ds = lk.write_dataset(points(metadata), uri, data_storage_version=version)
        lk.write_dataset(points(metadata), uri, mode="append")
        ds.checkout_latest()
        ds.optimize.compact_files()
    want = POINTS.to_pylist() * 2
    for uri in uris:
        assert lance.dataset(uri).to_table()["s"].to_pylist() == want, uri
        assert lk.dataset(uri).to_table()["s"].to_pylist() == want, uri
    assert pylance4(READ, uris=uris) == [want] * len(uris)


@pytest.mark.parametrize("version", VERSIONS)
def test_structs_of_every_release_are_read_whatever_the_mark_says(
    tmp_path: Path, pylance4: Callable[..., Any], version: Any
) -> None:
    """Also those that the release itself cannot read back."""
    metadata = [*packed(CLEAR), *packed(UNCLEAR), *MIXED]
    pylance4(
        WRITE, values=POINTS.to_pylist(), metadata=metadata, version=version, folder=str(tmp_path)
    )
    for number, marks in enumerate(metadata):
        newest = str(tmp_path / f"new{number}")
        lance.write_dataset(points(marks), newest, data_storage_version=version)
        for uri in (str(tmp_path / str(number)), newest):
            ds = lk.dataset(uri)
            assert ds.to_table()["s"].to_pylist() == POINTS.to_pylist(), (marks, uri)
            assert ds.to_table(columns=["s.b"])["s.b"].to_pylist() == [2, 4], (marks, uri)
            assert ds.take([1], columns=["s.b"])["s"].to_pylist()[0]["b"] == 4, (marks, uri)
            (data,) = (tmp_path / uri / "data").glob("*.lance")
            reader = open_ours(data.read_bytes())
            assert reader.read(reader.columns)["s"].to_pylist() == POINTS.to_pylist(), marks
            part = lk.file.LanceFileReader(data, columns=["s"]).read_all().to_table()
            assert part["s"].to_pylist() == POINTS.to_pylist(), marks
            assert reader.schema.field("s").metadata == points(marks).schema.field("s").metadata


@pytest.mark.parametrize("version", VERSIONS)
def test_a_mark_of_which_releases_do_not_agree_is_refused(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "d")
    for (key, word), *_ in (list(marks.items()) for marks in packed(UNCLEAR)):
        table = points({key: word})
        with pytest.raises(lk.errors.InvalidArgumentError, match=f"{key}='{word}'.*'true'"):
            lk.write_dataset(table, uri, data_storage_version=version)
        nested = pa.table({"l": pa.array([[POINTS[0].as_py()]], pa.list_(table.field("s")))})
        with pytest.raises(lk.errors.InvalidArgumentError, match=f"{key}='{word}'.*'true'"):
            lk.write_dataset(nested, uri, data_storage_version=version)
    ds = lk.write_dataset(points({"packed": "True"}), uri, data_storage_version=version)
    with pytest.raises(lk.errors.InvalidArgumentError, match="as packed structs"):
        ds.update_field_metadata({"s": {"packed": "1"}})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("word", ["true", "TRUE", "1", "false", ""])
def test_the_mark_of_blobs_counts_whatever_it_says(tmp_path: Path, version: Any, word: str) -> None:
    field = pa.field("b", BLOBS.type, metadata={"lance-encoding:blob": word})
    table = pa.table([BLOBS], schema=pa.schema([field]))
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    lk.write_dataset(table, ours, data_storage_version=version)
    lance.write_dataset(table, theirs, data_storage_version=version)
    assert lk.dataset(ours).schema.types == lk.dataset(theirs).schema.types
    for uri in (ours, theirs):
        for library in (lk, lance):
            ds: Any = library.dataset(uri)
            files = ds.take_blobs("b", indices=[0, 1])
            assert [file.read() for file in files] == BLOBS.to_pylist()
        assert lk.dataset(uri).to_table().schema.types == lance.dataset(uri).to_table().schema.types
    data = write_reference(table, tmp_path / "f.lance", version)
    reader = open_ours(data)
    assert reader.read(reader.columns)["b"].to_pylist() == BLOBS.to_pylist()


@pytest.mark.parametrize(
    ("mark", "value", "choices", "distinct"),
    [
        ("compression", "LZ4", "lz4", 9),
        ("compression", "", "zstd", 9),
        ("dict-values-compression", "ZSTD", "zstd", 9),
        ("structural-encoding", "x", "miniblock, fullzip", 2000),
    ],
)
def test_values_that_the_reference_refuses_are_refused(
    tmp_path: Path, mark: str, value: str, choices: str, distinct: int
) -> None:
    words = pa.array([f"{n % distinct} {'word' * 50}" for n in range(2000)])
    field = pa.field("w", words.type, metadata={f"lance-encoding:{mark}": value})
    table = pa.table([words], schema=pa.schema([field]))
    with pytest.raises(OSError, match=r"nknown compression|structural encoding"):
        lance.write_dataset(table, str(tmp_path / "theirs"), data_storage_version="2.2")
    with pytest.raises(lk.errors.InvalidArgumentError, match=f"{mark}='{value}'.*{choices}"):
        lk.write_dataset(table, str(tmp_path / "ours"), data_storage_version="2.2")


@pytest.mark.parametrize("word", ["ON", "On"])
def test_capitals_count_where_they_do_in_the_reference(tmp_path: Path, word: str) -> None:
    values = pa.array([n * 0.1 for n in range(4000)])
    split = {"lance-encoding:compression": "zstd", "lance-encoding:bss": word}
    whole = {"lance-encoding:structural-encoding": "FullZip"}
    schema = pa.schema(
        [pa.field(n, values.type, metadata=m) for n, m in {"a": split, "b": whole}.items()]
    )
    path = tmp_path / "a.lance"
    with lk.file.LanceFileWriter(path, schema) as writer:
        writer.write_batch(pa.table([values, values], schema=schema))
    a, b = (str(column) for column in lk.file.LanceFileReader(path).metadata().columns)
    assert "byte streams" in a
    assert "full-zip" in b


@pytest.mark.parametrize("word", ["true", "YES", "1", "on", "y", "false", "t", ""])
def test_the_mark_of_a_primary_key(tmp_path: Path, word: str) -> None:
    mark = {"lance-schema:unenforced-primary-key": word}
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False, metadata=mark)])
    uri = str(tmp_path / "d")
    ours = lk.write_dataset(pa.table([[1, 2]], schema=schema), uri)
    keys = [
        field.name()
        for field in lance.dataset(uri).lance_schema.fields()
        if field.is_unenforced_primary_key()
    ]
    assert keys == [field.name() for field in ours.lance_schema.unenforced_primary_key()]
    assert bool(keys) == (word.lower() in {"true", "yes", "1", "on", "y"})
