"""Marks in the metadata of fields: what counts as set, here and in the reference."""

from __future__ import annotations

import re
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


UNKNOWN = {
    "w": {
        "lance-encoding:compression": "ZSTD",
        "lance-encoding:compression-level": "x",
        "lance-encoding:dict-values-compression": "bogus",
    },
    "n": {"lance-encoding:structural-encoding": "bogus", "lance-encoding:bss": "bogus"},
    "z": {"lance-encoding:compression": "zstd", "lance-encoding:compression-level": "high"},
}


def texts_of(rows: int, metadata: dict[str, dict[str, str]]) -> pa.Table:
    words = pa.array([f"{n % 7} {'word' * 50}" for n in range(rows)])
    columns = {"w": words, "n": pa.array(range(rows)), "z": words, "k": pa.array(range(rows))}
    fields = [pa.field(n, c.type, metadata=metadata.get(n)) for n, c in columns.items()]
    return pa.table([*columns.values()], schema=pa.schema(fields))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_table_with_marks_that_nobody_knows_is_written_on(tmp_path: Path, version: Any) -> None:
    rows, uri = texts_of(3000, {}), str(tmp_path / "d")
    lance.write_dataset(rows, uri, data_storage_version=version).update_field_metadata(UNKNOWN)
    ds = lk.write_dataset(rows, uri, mode="append")
    ds.update({"n": "n + 1"}, where="k < 10")
    ds.merge_insert("k").when_matched_update_all().execute(rows.slice(20, 1))
    ds.delete("k = 5")
    ds.optimize.compact_files()
    assert ds.schema.field("w").metadata[b"lance-encoding:compression"] == b"ZSTD"
    theirs = lance.dataset(uri).to_table()
    assert theirs.equals(ds.to_table())
    want = sorted((n + (n < 10), n) for n in [*range(3000)] * 2 if n != 5)
    assert sorted(zip(*theirs.select(["n", "k"]).to_pydict().values(), strict=True)) == want


@pytest.mark.parametrize("word", UNCLEAR)
def test_structs_of_20_that_may_be_packed_are(
    tmp_path: Path, pylance4: Callable[..., Any], word: str
) -> None:
    uris, values = [], POINTS.to_pylist()
    for number, marks in enumerate(packed((word,))):
        uris.append(str(tmp_path / f"new{number}"))
        lance.write_dataset(points(marks), uris[-1], data_storage_version="2.0")
    for uri in uris:
        ds = lk.write_dataset(points({}), uri, mode="append")
        ds.update({"k": "k + 1"}, where="k = 7")
        ds.optimize.compact_files()
        assert ds.to_table(columns=["s.b"]).num_rows == 4
        for read in (lk.dataset(uri).to_table(), lance.dataset(uri).to_table()):
            assert sorted(read["s"].to_pylist(), key=str) == sorted(values * 2, key=str)
            assert sorted(read["k"].to_pylist()) == [8, 8, 8, 8]
    assert [len(found) for found in pylance4(READ, uris=uris)] == [4] * len(uris)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("writer", ["14.0.2", "4.0.0"])
def test_the_way_out_of_a_mark_of_which_releases_do_not_agree(
    tmp_path: Path, pylance4: Callable[..., Any], version: Any, writer: str
) -> None:
    """No release reads both forms by it: the columns that the files have say which mark is right.

    The older releases write such structs plain, the newer ones as one column.
    """
    uri = str(tmp_path / "0")
    if writer == "14.0.2":
        lance.write_dataset(points({"packed": "1"}), uri, data_storage_version=version)
    else:
        pylance4(
            WRITE,
            values=POINTS.to_pylist(),
            metadata=[{"packed": "1"}],
            version=version,
            folder=str(tmp_path),
        )
    ds = lk.dataset(uri)
    with pytest.raises(lk.errors.InvalidArgumentError, match="packed='1'") as refused:
        lk.write_dataset(points({}), uri, mode="append")
    lines = re.findall(r"ds\.update_field_metadata\(\{.*?\}\}\)", str(refused.value.hint))
    one_column, plain = lines
    right, wrong = (one_column, plain) if writer == "14.0.2" else (plain, one_column)
    with pytest.raises(lk.errors.InvalidArgumentError, match=r"stored as packed structs; they"):
        eval(wrong, {"ds": ds})
    eval(right, {"ds": ds})
    lk.write_dataset(points({}), uri, mode="append")
    ds.checkout_latest()
    ds.optimize.compact_files()
    want = POINTS.to_pylist() * 2
    assert ds.to_table()["s"].to_pylist() == want
    assert lance.dataset(uri).to_table()["s"].to_pylist() == want
    assert pylance4(READ, uris=[uri]) == [want]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_a_packed_mark_that_no_file_follows_can_be_taken_off(tmp_path: Path, version: Any) -> None:
    uri = str(tmp_path / "d")
    theirs = lance.write_dataset(points({}), uri, data_storage_version=version)
    theirs.update_field_metadata({"s": {"packed": "true"}})
    ds = lk.dataset(uri)
    ds.update_field_metadata({"s": {"packed": None}})
    assert lance.dataset(uri).to_table()["s"].to_pylist() == POINTS.to_pylist()
    with pytest.raises(lk.errors.InvalidArgumentError, match="not stored as packed structs; they"):
        ds.update_field_metadata({"s": {"packed": "true"}})
    with pytest.raises(
        lk.errors.InvalidArgumentError,
        match=r"releases of the reference read .*packed='yes' as 'packed'",
    ):
        ds.update_field_metadata({"s": {"packed": "yes"}})


def test_a_mark_within_lists_is_found_by_its_id(tmp_path: Path) -> None:
    item = points({"packed": "1"}).schema.field("s")
    values = pa.array([[POINTS[0].as_py()]], pa.list_(item))
    lance.write_dataset(pa.table({"l": values}), tmp_path / "d", data_storage_version="2.2")
    ds = lk.dataset(tmp_path / "d")
    with pytest.raises(lk.errors.InvalidArgumentError, match="packed='1'") as refused:
        ds.insert(pa.table({"l": values}))
    line, *_ = re.findall(r"ds\.update_field_metadata\(\{.*?\}\}\)", str(refused.value.hint))
    eval(line, {"ds": ds})
    ds.insert(pa.table({"l": values}))
    assert ds.to_table()["l"].to_pylist() == values.to_pylist() * 2


@pytest.mark.cover
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
