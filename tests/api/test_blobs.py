"""Blob columns of both kinds, written and read by lancekit and by the reference."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import (
    CorruptFileError,
    InvalidArgumentError,
    InvalidTypeError,
    RowNotFoundError,
    RowOutOfRangeError,
    UnsupportedTypeError,
    UntrustedBaseError,
)

#: inline, null, empty, in a packed and in a dedicated file beside the data file
VALUES = [b"a" * 10, None, b"", b"x" * 100_000, b"y" * (5 << 20)]
LEGACY = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true", "k": "v"})
WRITERS = {"lancekit": lk, "reference": lance}


def rows(field: pa.Field, values: list[Any] = VALUES) -> pa.Table:
    ids = pa.field("id", pa.int64())
    column = pa.array(values, field.type) if field is LEGACY else lk.blob_array(values)
    return pa.table([pa.array(range(len(values))), column], schema=pa.schema([ids, field]))


def both(path: Path) -> tuple[Any, Any]:
    return lance.dataset(path), lk.dataset(path)


@pytest.fixture(params=["2.0", "2.1", "2.2", "2.2 new"])
def kind(request) -> tuple[str, pa.Field]:
    version, *new = request.param.split()
    return version, lk.blob_field("b") if new else LEGACY


def test_blobs_of_an_old_release(tmp_path: Path, pylance4: Callable[..., Any]) -> None:
    """Up to 8, releases write a layer for the values of packed structs, and one for the structs."""
    table = rows(lk.blob_field("b"))
    with pa.ipc.new_file(tmp_path / "rows.arrow", table.schema) as writer:
        writer.write_table(table)
    pylance4(
        """
rows = pa.ipc.open_file(arguments["rows"]).read_all()
result = lance.write_dataset(rows, arguments["uri"], data_storage_version="2.2").version
""",
        rows=str(tmp_path / "rows.arrow"), uri=str(tmp_path / "d"),
    )  # fmt: skip
    ds = lk.dataset(tmp_path / "d")
    ds.delete("id = 2")
    lk.write_dataset(table.slice(0, 2), ds, mode="append")
    ds = lk.dataset(tmp_path / "d")
    expected = [*VALUES[:2], *VALUES[3:], *VALUES[:2]]
    assert ds.to_table(blob_handling="all_binary")["b"].to_pylist() == expected
    found = ds.take_blobs("b", indices=list(range(6)))
    assert [None if file is None else file.readall() for file in found] == expected
    ds.validate(deep=True)


@pytest.mark.parametrize("writer", WRITERS)
def test_reads_as_the_reference_does(tmp_path: Path, writer: str, kind) -> None:
    version, field = kind
    WRITERS[writer].write_dataset(rows(field), tmp_path / "d", data_storage_version=version)
    theirs, ours = both(tmp_path / "d")
    assert ours.schema.equals(theirs.schema, check_metadata=True)

    def same(read) -> None:
        wanted = read(theirs)
        found = read(ours)
        if isinstance(wanted, pa.Table):
            assert found.schema.equals(wanted.schema, check_metadata=True)
            assert found.equals(wanted)
        assert found == wanted

    def parts(ds) -> list[list[int | None]]:
        """Return the parts of descriptors, those of null blobs, too."""
        column = ds.to_table(columns=["b"])["b"].combine_chunks()
        return [column.field(name).to_pylist() for name in ("position", "size")]

    same(parts)
    same(lambda ds: ds.to_table(blob_handling="all_binary"))
    same(lambda ds: ds.to_table(blob_handling="all_binary", filter="id > 1", columns=["b"]))
    same(lambda ds: ds.read_blobs("b", indices=[3, 1, 2, 3]))
    same(lambda ds: ds.read_blobs("b", ids=[4]) + ds.read_blobs("b", addresses=pa.array([0])))
    requests = [(3, 1, 5), (1, 0, 0), (0, 2, 3), (2, 0, 0)]
    same(lambda ds: ds.read_blob_ranges("b", requests, selector="indices"))
    same(lambda ds: [f and f.readall() for f in ds.to_pandas()["b"]])
    same(lambda ds: ds.to_pandas(blob_mode="bytes", filter="id > 0", limit=2)["b"].tolist())
    assert ours.count_rows("b IS NULL") == 1
    assert ours.to_table(columns=["b.size"]).column(0).to_pylist() == [
        value if value is None else len(value) for value in VALUES
    ]
    if version != "2.0":  # where the reference shows a null as a place that no blob has
        same(lambda ds: ds.to_table())
        same(lambda ds: ds.take([4, 0, 1]))
        same(lambda ds: ds.to_table(filter="b IS NOT NULL", columns=["id"]))
    ours.validate(deep=True)


def test_rows_come_and_go(tmp_path: Path, kind) -> None:
    version, field = kind
    lance.write_dataset(rows(field), tmp_path / "d", data_storage_version=version)
    ds = lk.dataset(tmp_path / "d")
    ds.insert(rows(field))
    ds.delete("id = 0 OR b IS NULL")
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute({"id": [7], "b": [b"seven"]})
    theirs = lance.dataset(tmp_path / "d")
    wanted = [*(VALUES[2:] * 2), b"seven"]
    assert [data for _, data in ds.read_blobs("b", indices=range(7))] == wanted
    assert [data for _, data in theirs.read_blobs("b", indices=list(range(7)))] == wanted
    for kind_of_row, gone in (("id", 0), ("address", 0), ("address", 5 << 32)):
        argument = {"id": "ids", "address": "addresses"}[kind_of_row]
        with pytest.raises((ValueError, NotImplementedError)) as refused:
            theirs.take_blobs("b", **{argument: [gone]})
        with pytest.raises(RowNotFoundError, match=f"no row with {kind_of_row} {gone}\\.") as error:
            ds.take_blobs("b", **{argument: [gone]})
        assert isinstance(error.value, refused.type)
    with pytest.raises(RowOutOfRangeError, match="Row 7 does not exist"):
        ds.take_blobs("b", indices=[7])
    clone = ds.shallow_clone(tmp_path / "clone", ds.version)
    assert clone.read_blobs("b", indices=[1]) == ds.read_blobs("b", indices=[1])


def test_blobs_survive_the_rewriting_of_their_rows(tmp_path: Path, kind) -> None:
    version, field = kind
    table = rows(field).append_column("n", pa.array(range(5)))
    lance.write_dataset(table, tmp_path / "d", data_storage_version=version)
    ds = lk.dataset(tmp_path / "d")
    ds.merge_insert("id").when_matched_update_all().execute({"id": [0, 1, 3], "n": [8, 8, 8]})
    for source in both(tmp_path / "d"):
        found = source.to_table(blob_handling="all_binary").sort_by("id")
        assert found.column("b").to_pylist() == VALUES
        assert found.column("n").to_pylist() == [8, 8, 2, 8, 4]


def test_a_blob_is_a_file(tmp_path: Path) -> None:
    ds = lk.write_dataset(rows(lk.blob_field("b"), [bytes(range(100)), b"", None]), tmp_path / "d")
    whole, empty, missing = ds.take_blobs("b", indices=[0, 1, 2], buffer_size=16)
    assert missing is None
    assert (empty.size(), empty.read(), empty.read_range(0, 0)) == (0, b"", b"")
    assert repr(whole) == "<BlobFile size=100>"
    assert isinstance(whole, io.IOBase)
    assert whole.readable()
    assert whole.seekable()
    with whole:
        assert whole.read(3) == b"\0\1\2"
        assert whole.tell() == 3
        assert whole.read1(2) == b"\3\4"
        assert whole.seek(-2, io.SEEK_END) == 98
        assert whole.readall() == b"bc"
        assert whole.read(5) == b""
        assert whole.seek(10) == 10
        assert whole.seek(5, io.SEEK_CUR) == 15
        buffer = bytearray(40)
        assert whole.readinto(buffer) == 40
        assert bytes(buffer) == bytes(range(15, 55))
        assert whole.read_ranges([(90, 10), (0, 1)]) == [bytes(range(90, 100)), b"\0"]
        buffered = io.BufferedReader(whole)
        assert buffered.read(1) == bytes([55])
        assert buffered.detach() is whole
        for wrong in (lambda: whole.seek(-1), lambda: whole.seek(0, 7)):
            with pytest.raises(InvalidArgumentError):
                wrong()
        with pytest.raises(InvalidArgumentError, match="outside of the blob's 100 bytes"):
            whole.read_range(99, 2)
    assert whole.closed
    with pytest.raises(InvalidArgumentError, match="closed"):
        whole.read()


def test_files_outside_of_the_dataset(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a file.bin").write_bytes(b"0123456789")
    uri = (tmp_path / "out" / "a file.bin").as_uri()
    values = [lk.Blob.from_uri(uri, 3, 5), uri, lk.Blob.from_bytes(b"in"), lk.Blob.empty(), None]
    wanted = [b"34567", b"0123456789", b"in", b"", None]
    table = rows(lk.blob_field("b"), values)
    with pytest.raises(InvalidArgumentError, match="outside of the dataset"):
        lk.write_dataset(table, tmp_path / "no")
    lk.write_dataset(table, tmp_path / "ours", allow_external_blob_outside_bases=True)
    lance.write_dataset(
        table,
        tmp_path / "theirs",
        data_storage_version="2.2",
        allow_external_blob_outside_bases=True,
    )
    for name in ("ours", "theirs"):
        theirs, ours = both(tmp_path / name)
        assert ours.to_table() == theirs.to_table()
        with lk.options(trusted_bases=[str(tmp_path / "out")]):
            for source in (theirs, ours):
                found = source.read_blobs("b", indices=list(range(5)))
                assert [data for _, data in found] == wanted
            sizes = [f and f.size() for f in ours.take_blobs("b", indices=range(5))]
            assert sizes == [5, 10, 2, 0, None]
    ours = lk.dataset(tmp_path / "ours")
    merge = ours.merge_insert("id").when_matched_update_all()
    merge.execute(table.append_column("x", [[0] * 5]).select(["id", "b"]))
    with lk.options(trusted_bases=[(tmp_path / "out").as_uri()]):
        assert [data for _, data in ours.read_blobs("b", indices=range(5))] == wanted
        (tmp_path / "out" / "a file.bin").unlink()
        with pytest.raises(CorruptFileError, match="does not exist"):
            ours.read_blobs("b", indices=[1])


#: URIs that a received dataset at `{0}/d` may hold, and what is told of where they lead
LEADING_OUT = {
    "elsewhere": "file://{0}/secret.txt",
    "dots": "file://{0}/d/data/../../secret.txt",
    "dots in percent": "file://{0}/d/%2e%2e/secret.txt",
    "a path": "{0}/secret.txt",
    "dots in a path": "{0}/d/../secret.txt",
    "a relative path": "secret.txt",
    "a link": "file://{0}/d/link.txt",
    "a folder that is a link": "file://{0}/d/links/secret.txt",
    "a link in a base": "file://{0}/d/inner/link.txt",
}


@pytest.mark.parametrize("uri", LEADING_OUT)
def test_a_received_dataset_shows_no_files_beside_it(
    tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.txt").write_bytes(b"secret")
    place = LEADING_OUT[uri].format(tmp_path)
    table = rows(lk.blob_field("b"), [b"in", place])
    ds = lk.write_dataset(table, tmp_path / "d", allow_external_blob_outside_bases=True)
    (tmp_path / "d/inner").mkdir()
    for link in ("d/link.txt", "d/inner/link.txt"):
        (tmp_path / link).symlink_to(tmp_path / "secret.txt")
    (tmp_path / "d/links").symlink_to(tmp_path)
    for read in (
        lambda: ds.take_blobs("b", indices=[1]),
        lambda: ds.read_blobs("b", indices=[0, 1]),
        lambda: ds.to_table(blob_handling="all_binary"),
        lambda: ds.to_pandas(blob_mode="bytes"),
    ):
        with pytest.raises(UntrustedBaseError, match="outside of the dataset") as caught:
            read()
        assert f"refers to {place}, which" in caught.value.message
        assert f"trusted_bases = [{str(tmp_path)!r}]" in caught.value.hint
    assert ds.to_table()["b"].combine_chunks().field("blob_uri").to_pylist() == ["", place]
    # what is only handed on is not read
    ds = lk.write_dataset(table, ds, mode="append", allow_external_blob_outside_bases=True)
    ds.optimize.compact_files()
    with lk.options(trusted_bases=[str(tmp_path)]):
        assert [data for _, data in ds.read_blobs("b", indices=[1, 3])] == [b"secret"] * 2


def test_own_files_need_no_trust(tmp_path: Path) -> None:
    (tmp_path / "d/blobs").mkdir(parents=True)
    (tmp_path / "d/blobs/a.bin").write_bytes(b"own")
    (tmp_path / "link").symlink_to("d")
    uris = [f"{(tmp_path / place).as_uri()}/blobs/a.bin" for place in ("d", "link")]
    table = rows(lk.blob_field("b"), uris)
    lk.write_dataset(table, tmp_path / "d", allow_external_blob_outside_bases=True)
    for place in ("d", "link"):
        ds = lk.dataset(tmp_path / place)
        assert [data for _, data in ds.read_blobs("b", indices=[0, 1])] == [b"own"] * 2


def test_files_beside_a_data_file_are_no_links(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_bytes(b"s" * (5 << 20))
    table = rows(lk.blob_field("b"), VALUES)
    lance.write_dataset(table, tmp_path / "d", data_storage_version="2.2")
    beside = list((tmp_path / "d/data").rglob("*.blob"))
    assert len(beside) == 2
    for file in beside:
        file.unlink()
        file.symlink_to(tmp_path / "secret.txt")
    ds = lk.dataset(tmp_path / "d")
    for at in (3, 4):
        with pytest.raises(UntrustedBaseError, match=r"it points to .*secret\.txt"):
            ds.read_blobs("b", indices=[at])
        (file,) = ds.take_blobs("b", indices=[at])
        with pytest.raises(UntrustedBaseError):
            file.read()
    with pytest.raises(CorruptFileError, match="is a link or a special file and cannot be copied"):
        ds.deep_clone(tmp_path / "clone", 1)


@pytest.mark.parametrize("uri", ["file://host/x.bin", "http://x/y", "a\0b", "", "/", "~/x"])
def test_a_uri_that_is_no_place(tmp_path: Path, uri: str) -> None:
    table = rows(lk.blob_field("b"), [lk.Blob.from_uri(uri or "x")])
    ds = lk.write_dataset(table, tmp_path / "d", allow_external_blob_outside_bases=True)
    with pytest.raises((CorruptFileError, UntrustedBaseError)):
        ds.take_blobs("b", indices=[0])


def test_a_uri_in_another_store_is_not_trusted(tmp_path: Path) -> None:
    table = rows(lk.blob_field("b"), ["s3://somebody/else.bin"])
    ds = lk.write_dataset(table, tmp_path / "d", allow_external_blob_outside_bases=True)
    with pytest.raises(UntrustedBaseError):
        ds.take_blobs("b", indices=[0])


def test_base_paths(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "f.bin").write_bytes(b"below a base")
    base = lance.DatasetBasePath(str(tmp_path / "base"), is_dataset_root=False, id=1)
    table = rows(lk.blob_field("b"), [(tmp_path / "base" / "f.bin").as_uri()])
    lance.write_dataset(table, tmp_path / "d", data_storage_version="2.2", initial_bases=[base])
    theirs, ours = both(tmp_path / "d")
    with pytest.raises(UntrustedBaseError, match="outside of the dataset"):  # by a base of its own
        ours.read_blobs("b", indices=[0])
    with lk.options(trusted_bases=[str(tmp_path / "base")]):
        assert ours.read_blobs("b", indices=[0]) == theirs.read_blobs("b", indices=[0])


@pytest.mark.parametrize("writer", WRITERS)
def test_in_structs(tmp_path: Path, writer: str) -> None:
    fields = [lk.blob_field("b"), pa.field("q", pa.int64())]
    parts = [lk.blob_array([b"abc", None]), pa.array([1, 2])]
    table = pa.table({"s": pa.StructArray.from_arrays(parts, fields=fields)})
    WRITERS[writer].write_dataset(table, tmp_path / "d", data_storage_version="2.2")
    theirs, ours = both(tmp_path / "d")
    assert ours.to_table() == theirs.to_table()
    assert ours.read_blobs("s.b", indices=[1, 0]) == [(1, None), (0, b"abc")]
    assert ours.to_table(blob_handling="all_binary").to_pylist() == [
        {"s": {"b": b"abc", "q": 1}},
        {"s": {"b": None, "q": 2}},
    ]
    assert ours.to_table(columns=["s.q", "s.b.size"]).to_pydict() == {
        "s.q": [1, 2],
        "s.b.size": [3, None],
    }


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    ds = lk.write_dataset(rows(lk.blob_field("b"), [b"x"]), tmp_path / "d")
    with pytest.raises(InvalidArgumentError, match="'id' of type int64 is not a blob column"):
        ds.take_blobs("id", indices=[0])
    with pytest.raises(
        InvalidArgumentError, match="one of ids, addresses and indices must be passed, got 2"
    ):
        ds.take_blobs("b", indices=[0], ids=[0])
    with pytest.raises(InvalidArgumentError, match=r"blob_handling must be .* got 'all'"):
        ds.to_table(blob_handling="all")
    with pytest.raises(InvalidArgumentError, match=r"blob_mode must be .* got 'all'"):
        ds.to_pandas(blob_mode="all")
    with pytest.raises(InvalidArgumentError, match="selector"):
        ds.read_blob_ranges("b", [], selector="rows")
    with pytest.raises(InvalidTypeError, match=r"A blob must be .* got 5"):
        lk.blob_array([5])
    for wrong in ({}, {"data": b"", "uri": "x"}, {"uri": "x", "position": 1}, {"uri": ""}):
        with pytest.raises(InvalidArgumentError):
            lk.Blob(**wrong)


def test_the_older_release_reads_legacy_blobs(tmp_path: Path, pylance4) -> None:
    lk.write_dataset(rows(LEGACY), tmp_path / "d", data_storage_version="2.1")
    program = """
found = lance.dataset(arguments["uri"]).take_blobs("b", indices=[0, 3])
result = [len(blob.readall()) for blob in found]
"""
    assert pylance4(program, uri=str(tmp_path / "d")) == [10, 100_000]


def _nested(version: str, field: pa.Field) -> pa.Table:
    inner = pa.struct([pa.field("n", pa.string()), field.with_name("a.b")])
    outer = pa.struct([pa.field("i", inner), pa.field("m", pa.int64())])
    blobs = pa.array([b"foo", None, b"", b"gone"], pa.large_binary())
    if field is not LEGACY:
        blobs = lk.blob_array(blobs.to_pylist())
    null = pa.array([False, False, False, version != "2.0"])  # which knows no null structs
    names = pa.array(["x", "y", "z", "w"])
    struct = pa.StructArray.from_arrays([names, blobs], fields=list(inner), mask=null)
    rows = pa.StructArray.from_arrays([struct, pa.array([1, 2, 3, 4])], fields=list(outer))
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("o", outer), pa.field("e", pa.int8())])
    return pa.table([pa.array([1, 2, 3, 4]), rows, pa.array([None] * 4, pa.int8())], schema=schema)


def _bytes_of(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _bytes_of(part) for name, part in value.items()}
    return value.readall() if hasattr(value, "readall") else value


@pytest.mark.parametrize(
    "columns",
    [None, ["o", "id"], {"x": "o.i.`a.b`", "y": "o", "z": "id + 1"}, {"x": "o.i", "o": "id"}],
    ids=str,
)
def test_blobs_in_structs_and_under_other_names_in_pandas(tmp_path: Path, kind, columns) -> None:
    version, field = kind
    lk.write_dataset(_nested(version, field), tmp_path, data_storage_version=version)
    theirs, ours = both(tmp_path)
    for settings in ({}, {"filter": "id > 1"}, {"blob_mode": "bytes"}):
        wanted, found = (ds.to_pandas(columns=columns, **settings) for ds in (theirs, ours))
        assert list(found.columns) == list(wanted.columns)
        for name in found.columns:
            read = [_bytes_of(value) for value in found[name].tolist()]
            assert repr(read) == repr([_bytes_of(value) for value in wanted[name].tolist()])
    whole = ours.to_pandas(columns=columns, blob_mode="descriptions")
    assert whole.equals(ours.to_table(columns=columns).to_pandas())


@pytest.mark.parametrize("bare", [True, False], ids=["list", "list of structs"])
@pytest.mark.parametrize("large", [True, False], ids=["large", "small"])
def test_blobs_in_lists_of_the_reference_are_read(tmp_path: Path, bare: bool, large: bool) -> None:
    values = [b"a", b"x" * 70_000, None, b"q", b""]
    blob = lance.blob_field("b")
    items = lance.blob_array(values)
    if not bare:
        fields = [blob, pa.field("n", pa.int64())]
        items = pa.StructArray.from_arrays([items, pa.array(range(5))], fields=fields)
    make = pa.LargeListArray if large else pa.ListArray
    lists = make.from_arrays([0, 2, 3, None, 5], items)
    table = pa.table({"id": range(4), "m": lists})
    lance.write_dataset(table, tmp_path, data_storage_version="2.2", max_rows_per_file=3)
    theirs, ours = both(tmp_path)
    for settings in ({}, {"blob_handling": "all_binary"}, {"blob_handling": "all_descriptions"}):
        for rows in ({}, {"filter": "id <> 1"}, {"offset": 1, "limit": 2}, {"columns": ["m"]}):
            found = ours.to_table(**settings, **rows)
            wanted = theirs.to_table(**settings, **rows)
            assert found.schema.types == wanted.schema.types
            assert found.to_pylist() == wanted.to_pylist()
    assert ours.take([3, 0]).to_pylist() == theirs.take([3, 0]).to_pylist()
    ours.validate(deep=True)
    with pytest.raises(UnsupportedTypeError, match="blobs inside of lists cannot be written"):
        ours.update({"id": "id + 1"})
    assert lk.dataset(tmp_path).version == 1


@pytest.mark.parametrize("which", ["inline", "dedicated", "pack_file"])
def test_thresholds_have_64_bits(which: str) -> None:
    name = f"{which}_size_threshold"
    most = {name: 2**64 - 1}
    assert lk.blob_field("b", **most).metadata == lance.blob_field("b", **most).metadata
    with pytest.raises(OverflowError):
        lance.blob_field("b", **{name: 2**64})
    with pytest.raises(InvalidArgumentError, match=f"{name} must fit into 64 bits, got {2**64}"):
        lk.blob_field("b", **{name: 2**64})


@pytest.mark.parametrize("size", [0, -1])
def test_a_buffer_of_nothing_is_refused(tmp_path: Path, size: int) -> None:
    """As in the reference."""
    lk.write_dataset(pa.table({"b": lk.blob_array([b"abc"])}), tmp_path / "d")
    theirs, ours = lance.dataset(str(tmp_path / "d")), lk.dataset(tmp_path / "d")
    with pytest.raises((ValueError, OverflowError)):
        theirs.read_blobs("b", indices=[0], io_buffer_size=size)
    for read in (
        lambda: ours.read_blobs("b", indices=[0], io_buffer_size=size),
        lambda: ours.read_blob_ranges("b", [(0, 0, 1)], selector="indices", io_buffer_size=size),
    ):
        with pytest.raises(InvalidArgumentError, match=rf"io_buffer_size must be .* got {size}"):
            read()
