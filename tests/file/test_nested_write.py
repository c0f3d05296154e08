"""Nested columns that lancekit writes: read back equal by the reference, and by lancekit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lancekit as lk
from lancekit._file.writer import FileWriter
from lancekit._format.schema import LanceSchema
from lancekit.errors import UnsupportedTypeError
from tests.file.columns import VERSIONS
from tests.file.lance_io import open_ours, read_reference, write_ours
from tests.file.nested import SHARES, assert_same_nested, nested_table, share_of
from tests.file.test_old_release import READ
from tests.support.memory_file import MemorySink

#: What 4.0.0 cannot read back of its own files either.
BEYOND_IT = ("all null items", "blob")


#: What the reference reads from files of its own only if there is no column beside it.
def _alone(name: str) -> bool:
    return name == "struct empty" or ("vector" in name and "struct" in name)


def _tables(rows: int, version: str, share: int, offset: int = 0) -> Iterator[pa.Table]:
    """Yield a share of the nested columns, in as few tables as the reference can read."""
    table = share_of(nested_table(rows + offset, version).slice(offset), share)
    yield table.select([name for name in table.column_names if not _alone(name)])
    for name in filter(_alone, table.column_names):
        yield table.select([name])


def _compare(actual: pa.Table, expected: pa.Table, note: str) -> None:
    assert actual.column_names == expected.column_names
    for name in expected.column_names:
        assert_same_nested(actual[name], expected[name].combine_chunks(), f"{name}, {note}")


def _check(table: pa.Table, version: str, path: Path, **options: Any) -> None:
    """Write a table, and read it with both libraries."""
    data = write_ours(table, version, **options)
    _compare(read_reference(data, path / "a.lance"), table, version)
    ours = open_ours(data)
    _compare(ours.read(ours.columns), table, f"own {version}")


@pytest.mark.cover
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("rows", "offset"), [(0, 0), (1, 0), (5, 0), (5, 7), (1100, 13)])
@pytest.mark.parametrize("share", SHARES)
def test_both_read_what_we_wrote(
    tmp_path: Path, version: str, rows: int, offset: int, share: int
) -> None:
    for table in _tables(rows, version, share, offset):
        _check(table, version, tmp_path)


@pytest.mark.cover
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("share", SHARES)
def test_many_pages(tmp_path: Path, version: str, share: int) -> None:
    for table in _tables(700, version, share):
        _check(table, version, tmp_path, max_page_bytes=2000)


@pytest.mark.cover
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("share", SHARES)
def test_rows_come_in_batches(tmp_path: Path, version: str, share: int) -> None:
    for parts in zip(*(_tables(rows, version, share) for rows in (40, 1, 300)), strict=True):
        _check(pa.concat_tables(parts), version, tmp_path)


@pytest.mark.cover
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("share", SHARES)
def test_the_old_release_reads_what_we_wrote(
    tmp_path: Path, pylance4: Callable[..., Any], version: str, share: int
) -> None:
    table = next(_tables(1500, version, share))
    kept = [n for n in table.column_names if not any(part in n for part in BEYOND_IT)]
    file = tmp_path / "a.lance"
    file.write_bytes(write_ours(table.select(kept), version))
    pylance4(READ, file=str(file), out=str(tmp_path / "out.arrow"))
    _compare(pa.ipc.open_file(tmp_path / "out.arrow").read_all(), table.select(kept), version)


# ---- datasets

#: Datasets show descriptors of blobs, and the reference cannot scan its own with these.
NOT_IN_DATASETS = ("blob", "packed vectors", "packed strings")


def _commit(path: Path, table: pa.Table, version: str) -> lance.LanceDataset:
    """Commit files that we wrote, one for each of the table's batches, as fragments."""
    (path / "data").mkdir(parents=True)
    schema = LanceSchema.from_arrow(table.schema)
    fragments = []
    for number, batch in enumerate(table.to_batches()):
        sink = MemorySink()
        writer = FileWriter(sink, schema, version=version)
        writer.write(batch)
        summary = writer.finish()
        (path / "data" / f"{number}.lance").write_bytes(sink.data or b"")
        file = lance.fragment.DataFile(
            f"{number}.lance",
            list(summary.field_ids),
            list(summary.column_indices),
            *summary.version,
            summary.size_bytes,
        )
        fragments.append(lance.FragmentMetadata(number, [file], summary.num_rows))
    operation = lance.LanceOperation.Overwrite(table.schema, fragments)
    return lance.LanceDataset.commit(path, operation)


@pytest.mark.cover
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("share", SHARES)
def test_datasets_of_our_files(tmp_path: Path, version: str, share: int) -> None:
    """Scanned, filtered and taken from by the reference."""
    table = next(_tables(2000, version, share))
    kept = [name for name in table.column_names if not name.startswith(NOT_IN_DATASETS)]
    table = table.select(kept).rename_columns([f"c{place}" for place in range(len(kept))])
    table = table.append_column("id", pa.array(np.arange(2000)))
    table = pa.Table.from_batches(table.to_batches(max_chunksize=1200))
    dataset = _commit(tmp_path / "a", table, version)
    assert dataset.data_storage_version == version
    _compare(dataset.to_table(), table, f"scan {version}")
    picked = [0, 3, 1199, 1200, 1999]
    _compare(dataset.take(picked), table.take(picked), f"take {version}")
    some = dataset.to_table(filter="id >= 700 AND id < 1300")
    _compare(some, table.slice(700, 600), f"filter {version}")


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_blobs_of_datasets(tmp_path: Path, version: str) -> None:
    values = [b"first", None, b"", b"x" * 5000, b"last"]
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table([pa.array(values, pa.large_binary())], schema=pa.schema([field]))
    dataset = _commit(tmp_path / "a", table, version)
    files = dataset.take_blobs("b", indices=[0, 2, 3, 4])
    assert [file.read() for file in files] == [b"first", b"", b"x" * 5000, b"last"]
    sizes = [row["size"] for row in dataset.to_table()["b"].to_pylist() if row]
    assert sizes[-3:] == [0, 5000, 4]


def test_blobs_with_descriptors(tmp_path: Path) -> None:
    """Blobs of 2.2, as the reference's own arrays have them and as plain values."""
    (tmp_path / "outside").write_bytes(b"0123456789")
    uri = f"file://{tmp_path}/outside"
    given = lance.blob_array([b"first", None, b"", lance.Blob(uri=uri, position=2, size=5)])
    schema = pa.schema([lance.blob_field("b")])
    storage = given.type.storage_type
    marked = pa.field("b", storage, metadata={"ARROW:extension:name": "lance.blob.v2"})
    plain = pa.array([b"first", None, b"", b"x" * 300], pa.large_binary())
    for name, array, contents in (
        ("structs", given.storage, [b"first", b"", b"23456"]),
        (
            "values",
            plain,
            [b"first", b"", b"x" * 300],
        ),
    ):
        path = tmp_path / name
        (path / "data").mkdir(parents=True)
        sink = MemorySink()
        writer = FileWriter(sink, pa.schema([marked]), version="2.2")
        writer.write(pa.record_batch([array], names=["b"]))
        summary = writer.finish()
        assert (summary.field_ids, summary.column_indices) == ((0,), (0,))
        (path / "data" / "0.lance").write_bytes(sink.data or b"")
        file = lance.fragment.DataFile("0.lance", [0], [0], 2, 2, summary.size_bytes)
        fragment = lance.FragmentMetadata(0, [file], 4)
        dataset = lance.LanceDataset.commit(
            path, lance.LanceOperation.Overwrite(schema, [fragment])
        )
        null = [row is None for row in dataset.to_table()["b"].to_pylist()]
        assert null == [False, True, False, False]
        files = dataset.take_blobs("b", indices=[0, 2, 3])
        assert [file.read() for file in files] == contents, name


# ---- what hides


def _hidden(version: str) -> Iterator[tuple[str, pa.Array]]:
    """Yield arrays with a secret under nulls, between lists or outside of a slice."""
    words = pa.array(["secret-a", "kept", "secret-b", "secret-c"])
    around = pa.ListArray.from_arrays(pa.array([1, 2, 2], pa.int32()), words)
    yield "between", around
    under = pa.ListArray.from_arrays(
        pa.array([0, 1, 2, 4], pa.int32()), words, mask=pa.array([True, False, True])
    )
    yield "under null lists", under
    yield "around a slice", pa.ListArray.from_arrays(pa.array([0, 1, 2, 4], pa.int32()), words)[1:2]
    if version == "2.0":
        return
    mask = pa.array([True, False, True, True])
    yield "under null structs", pa.StructArray.from_arrays([words], ["w"], mask=mask)
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), words)
    yield "lists under null structs", pa.StructArray.from_arrays([lists], ["l"], mask=mask)


@pytest.mark.parametrize("version", VERSIONS)
def test_bytes_of_other_rows_stay_out(tmp_path: Path, version: str) -> None:
    for name, array in _hidden(version):
        data = write_ours(pa.table({"c": array}), version)
        assert b"secret" not in data, name
        read = read_reference(data, tmp_path / "a.lance")["c"]
        assert_same_nested(read, array, f"{name} {version}")


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_rows_that_chunks_cannot_hold(tmp_path: Path, version: str) -> None:
    """Long runs of empty lists: pages are cut by rows, and a single row goes to full-zip."""
    empties = pa.array(np.concatenate(([0, 2], np.full(150_000, 2), [3])), pa.int32())
    inner = pa.ListArray.from_arrays(empties, pa.array([1, 2, 3], pa.int32()))
    one_row = pa.ListArray.from_arrays(pa.array([0, len(inner)], pa.int32()), inner)
    texts = pa.ListArray.from_arrays(empties, pa.array(["a", None, "ccc"]))
    text_row = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    flags = pa.ListArray.from_arrays(empties, pa.array([True, False, None]))
    flag_row = pa.ListArray.from_arrays(pa.array([0, len(flags)], pa.int32()), flags)
    for array in (inner, one_row, text_row, flag_row):
        _check(pa.table({"c": array}), version, tmp_path)


def test_dictionaries_have_no_form_for_such_rows() -> None:
    empties = pa.array(np.concatenate(([0, 1], np.full(150_000, 1), [2])), pa.int32())
    inner = pa.ListArray.from_arrays(empties, pa.array(["a", "b"]).dictionary_encode())
    row = pa.ListArray.from_arrays(pa.array([0, len(inner)], pa.int32()), inner)
    with pytest.raises(UnsupportedTypeError, match="null or empty lists"):
        write_ours(pa.table({"c": row}))


@pytest.mark.parametrize("version", VERSIONS)
def test_wide_and_marked_columns(tmp_path: Path, version: str) -> None:
    """Values of which few fit into a chunk, and a mark that does not belong to lists."""
    rows = 40
    rng = np.random.default_rng(3)
    packed = {"lance-encoding:packed": "true"}
    structs = pa.StructArray.from_arrays(
        [pa.array([b"%04000d" % k for k in range(rows)], pa.binary(4000)), pa.array(range(rows))],
        ["a", "b"],
    )
    flags = pa.FixedSizeListArray.from_arrays(pa.array(rng.random(rows * 8000) < 0.5), 8000)
    uuids = pa.array([b"%016d" % k for k in range(rows)], pa.binary(16))
    lists = pa.array(
        [[{"x": k}] * (k % 3) for k in range(rows)], pa.list_(pa.struct([("x", pa.int8())]))
    )
    schema = pa.schema(
        [
            pa.field("packed", structs.type, metadata=packed),
            pa.field("flags", flags.type),
            pa.field("lists", lists.type, metadata=packed),
            pa.field("uuids", uuids.type),
        ]
    )
    _check(pa.table([structs, flags, lists, uuids], schema=schema), version, tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
def test_extension_types_are_stored_as_their_storage(tmp_path: Path, version: str) -> None:
    stored = pa.array([bytes(16), b"x" * 16, None], pa.binary(16))
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), stored)
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 2, 3], pa.int32()), uuids)
    structs = pa.StructArray.from_arrays([uuids, lists], ["u", "l"])
    table = pa.table({"u": uuids, "l": lists, "s": structs})
    read = read_reference(write_ours(table, version), tmp_path / "a.lance")
    assert read.schema.types == table.schema.types
    assert read.to_pylist() == table.to_pylist()


def test_one_batch_is_not_encoded_at_once() -> None:
    """Pages of a batch reach the file one after the other, in the order of their rows."""
    rows = 200_000
    lists = pa.ListArray.from_arrays(
        pa.array(np.arange(rows + 1) * 4, pa.int32()), pa.array(np.arange(rows * 4))
    )
    table = pa.table({"c": lists})
    data = write_ours(table, "2.2", max_page_bytes=200_000)
    reader = open_ours(data)
    part = reader.read(reader.columns, range(150_000, 150_010))
    _compare(part, table.slice(150_000, 10), "rows")


# ---- anything

_LEAVES = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.uint8(): st.integers(0, 255),
    pa.bool_(): st.booleans(),
    pa.float64(): st.floats(),
    pa.string(): st.text(max_size=20),
    pa.large_binary(): st.binary(max_size=300),
    pa.list_(pa.int16(), 2): st.lists(st.none() | st.integers(0, 9), min_size=2, max_size=2),
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from(["a", "bb", ""]),
    pa.null(): st.none(),
}


def _nested(kinds: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    structs = st.lists(kinds, min_size=1, max_size=3).map(
        lambda kinds: pa.struct([(f"f{place}", kind) for place, kind in enumerate(kinds)])
    )
    return st.one_of(kinds.map(pa.list_), kinds.map(pa.large_list), structs)


_KINDS = st.recursive(st.sampled_from(list(_LEAVES)), _nested, max_leaves=5)


def _values(kind: pa.DataType, *, null_structs: bool) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(kind):
        parts = {field.name: _values(field.type, null_structs=null_structs) for field in kind}
        structs = st.fixed_dictionaries(parts)
        return st.none() | structs if null_structs else structs
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        items = _values(kind.value_type, null_structs=null_structs)
        return st.none() | st.lists(items, max_size=5)
    return st.none() | _LEAVES[kind]


@st.composite
def _arrays(draw: st.DrawFn, version: str) -> pa.Array:
    kind = draw(_KINDS)
    rows = draw(st.lists(_values(kind, null_structs=version != "2.0"), min_size=1, max_size=8))
    # pa.array cannot make dictionaries inside of others
    plain = pa.array(rows, _without_dictionaries(kind))
    repeated = pa.concat_arrays([plain] * draw(st.sampled_from([1, 1, 40])))
    return _with_dictionaries(repeated.slice(draw(st.integers(0, 3))), kind)


def _without_dictionaries(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _without_dictionaries(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_without_dictionaries(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_without_dictionaries(kind.value_type))
    return kind


def _with_dictionaries(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return array.dictionary_encode().cast(kind)
    if pa.types.is_struct(kind):
        parts = [
            _with_dictionaries(array.field(place), field.type) for place, field in enumerate(kind)
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        items = _with_dictionaries(array.values, kind.value_type)
        buffers = array.buffers()[:2]
        return pa.Array.from_buffers(
            kind, len(array), buffers, offset=array.offset, children=[items]
        )
    return array


@settings(derandomize=True)
@given(data=st.data(), version=st.sampled_from(VERSIONS), page=st.sampled_from([1, 60, 1 << 20]))
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, version: str, page: int
) -> None:
    array = data.draw(_arrays(version))
    path = tmp_path_factory.mktemp("round_trip")
    _check(pa.table({"c": array}), version, path, max_page_bytes=page)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("kind", [pa.int64(), pa.bool_(), pa.string(), pa.list_(pa.float32(), 2)])
@pytest.mark.parametrize("deep", [False, True])
def test_children_of_null_structs_are_null_by_themselves(
    tmp_path: Path, version: str, kind: pa.DataType, deep: bool
) -> None:
    """Readers that project or filter a child never look at the struct's own nulls."""
    values = {
        pa.int64(): [1, 2, 3, 4],
        pa.bool_(): [True, True, False, True],
        pa.string(): ["a", "bc", "d", "ef"],
        pa.list_(pa.float32(), 2): [[1, 2], [3, 4], [5, 6], [7, 8]],
    }[kind]
    mask = pa.array([False, True, False, True])
    child = pa.array(values, kind)
    if deep:
        child = pa.StructArray.from_arrays([child], names=["y"])
    hidden = pa.StructArray.from_arrays([child], names=["x"], mask=mask)
    path = "s.x.y" if deep else "s.x"
    wanted = [values[0], None, values[2], None]
    lk.write_dataset(pa.table({"s": hidden}), tmp_path / "a", data_storage_version=version)
    for library in (lance, lk):
        ds = library.dataset(str(tmp_path / "a"))
        assert ds.to_table(columns=[path])[path].to_pylist() == wanted
        assert ds.count_rows(f"{path} IS NULL") == 2


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_values_that_must_not_be_null_below_null_structs(tmp_path: Path, version: str) -> None:
    inner = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    rows = [None, {"s": {"x": 1}}, None]
    table = pa.table({"c": pa.array(rows, pa.struct([("s", inner)]))})
    lk.write_dataset(table, tmp_path / "a", data_storage_version=version)
    for library in (lance, lk):
        assert library.dataset(str(tmp_path / "a")).to_table()["c"].to_pylist() == rows
