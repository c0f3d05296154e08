"""Nested columns that the reference wrote, read to the last bit: whole, in part, page by page."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import lance
import lance.file
import numpy as np
import pyarrow as pa
import pytest

from lancekit._file.columns.physical import FileColumn
from lancekit._file.container.footer import Page
from lancekit._file.layouts import field_tree
from lancekit._file.layouts.assemble import nest
from lancekit._file.layouts.blob_descriptors import DESCRIPTOR
from lancekit._file.layouts.fullzip_decode import FullZipPage
from lancekit._file.reader import FileReader
from lancekit._format.pb import encodings_v21_pb2 as pb
from lancekit.errors import CorruptFileError, FormatError, UnsupportedFeatureError
from tests.file.columns import VERSIONS
from tests.file.lance_io import open_ours, read_reference, write_ours, write_reference
from tests.file.nested import (
    SHARES,
    assert_same_nested,
    lists_of,
    nested_columns,
    nested_table,
    share_of,
    struct_of,
)
from tests.file.test_old_release import WRITE
from tests.support.memory_file import MemoryFile

ROWS = 3000


def _compare(actual: pa.Table, expected: pa.Table, note: str) -> None:
    assert actual.column_names == expected.column_names
    for name in expected.column_names:
        assert_same_nested(actual[name], expected[name].combine_chunks(), f"{name}, {note}")


def _write_pages(table: pa.Table, path: Path, version: str, step: int) -> bytes:
    """Return a file whose columns each begin a page whenever they have some bytes."""
    with lance.file.LanceFileWriter(
        str(path), table.schema, version=version, data_cache_bytes=3000, max_page_bytes=3000
    ) as writer:
        for start in range(0, table.num_rows, step):
            # a slice that begins inside of an array confuses it
            rows = np.arange(start, min(start + step, table.num_rows))
            writer.write_batch(table.take(pa.array(rows)))
    return path.read_bytes()


@pytest.mark.cover
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("rows", [0, 1, 5, 1100])
@pytest.mark.parametrize("share", SHARES)
def test_reads_what_the_reference_wrote(
    tmp_path: Path, version: str, rows: int, share: int
) -> None:
    table = share_of(nested_table(rows, version), share)
    data = write_reference(table, tmp_path / "a.lance", version)
    for name in table.column_names:  # all at once is beyond it
        theirs = lance.file.LanceFileReader(str(tmp_path / "a.lance"), columns=[name])
        _compare(theirs.read_all().to_table(), table.select([name]), f"the reference, {version}")
    reader = open_ours(data)
    assert reader.schema.equals(table.schema, check_metadata=True)
    _compare(reader.read(reader.columns), table, version)


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=SHARES)
def share(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def written(
    version: str, share: int, tmp_path_factory: pytest.TempPathFactory
) -> tuple[FileReader, pa.Table]:
    """Every column in several pages, which begin at other rows in each of a field's leaves."""
    table = share_of(nested_table(ROWS, version), share)
    path = tmp_path_factory.mktemp("nested") / "a.lance"
    return open_ours(_write_pages(table, path, version, 270)), table


@pytest.mark.cover
def test_many_pages(written: tuple[FileReader, pa.Table]) -> None:
    reader, table = written
    _compare(reader.read(reader.columns), table, "all")
    pages = [len(reader._container.pages(column)) for column in range(reader.num_columns)]
    assert max(pages) > 10


@pytest.mark.cover
@pytest.mark.parametrize(
    ("start", "stop"), [(0, 0), (0, 1), (269, 271), (700, 1900), (1499, 1502), (2999, ROWS)]
)
def test_ranges(written: tuple[FileReader, pa.Table], start: int, stop: int) -> None:
    reader, table = written
    read = reader.read(reader.columns, range(start, stop))
    _compare(read, table.slice(start, stop - start), f"[{start}:{stop}]")


@pytest.mark.cover
@pytest.mark.parametrize("count", [1, 5, 300, 2000])
def test_scattered_rows(written: tuple[FileReader, pa.Table], count: int) -> None:
    reader, table = written
    rows = np.sort(np.random.default_rng(count).choice(ROWS, count, replace=False))
    _compare(reader.read(reader.columns, rows), table.take(pa.array(rows)), f"{count} rows")


@pytest.mark.cover
@pytest.mark.parametrize("batch_size", [130, 100_000])
def test_batches(written: tuple[FileReader, pa.Table], batch_size: int) -> None:
    reader, table = written
    rows = np.arange(3, ROWS, 2)
    batches = list(reader.read_batches(reader.columns, rows, batch_size))
    assert [b.num_rows for b in batches[:-1]] == [batch_size] * (len(batches) - 1)
    _compare(pa.Table.from_batches(batches), table.take(pa.array(rows)), f"by {batch_size}")


def _random_array(rng: np.random.Generator, rows: int, depth: int, version: str) -> pa.Array:
    """Return an array of a random nested type, with nulls wherever a version can hold them."""
    kind = rng.integers(0, 6 if depth else 3)
    null = rng.random(rows) < 0.15 if rng.random() < 0.7 else np.zeros(rows, bool)
    if kind == 0:
        return pa.array(rng.integers(-5, 100, rows), mask=null)
    if kind == 1:
        words = ["", "a", "some longer text"] if rng.random() < 0.5 else ["x" * 400, "y", ""]
        return pa.array(np.array(words, object)[rng.integers(0, 3, rows)], pa.string(), mask=null)
    if kind == 2:
        items = pa.array(rng.random(rows * 2).astype(np.float32))
        return pa.FixedSizeListArray.from_arrays(items, 2, mask=pa.array(null))
    if kind == 3:
        names = [f"f{place}" for place in range(rng.integers(1, 4))]
        children = {name: _random_array(rng, rows, depth - 1, version) for name in names}
        return struct_of(children, None if version == "2.0" else null)
    sizes = rng.integers(0, rng.integers(1, 5), rows) if rng.random() < 0.8 else np.full(rows, 2)
    items = _random_array(rng, int(sizes.sum()), depth - 1, version)
    return lists_of(sizes, null, items, large=bool(rng.random() < 0.3))


@pytest.mark.cover
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", range(12))
def test_random_types(tmp_path: Path, version: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 900))
    table = pa.table({f"c{n}": _random_array(rng, rows, 4, version) for n in range(6)})
    data = _write_pages(table, tmp_path / "a.lance", version, int(rng.integers(40, 900)))
    reader = open_ours(data)
    note = f"seed {seed}, {version}, {table.schema}"
    _compare(read_reference(data, tmp_path / "b.lance"), table, f"the reference, {note}")
    _compare(reader.read(reader.columns), table, note)
    start, stop = sorted(rng.integers(0, rows + 1, 2).tolist())
    _compare(reader.read(reader.columns, range(start, stop)), table[start:stop], note)
    picked = np.flatnonzero(rng.random(rows) < rng.random())
    _compare(reader.read(reader.columns, picked), table.take(pa.array(picked)), note)


@pytest.mark.parametrize("version", VERSIONS)
def test_leaves_whose_pages_begin_at_other_rows(tmp_path: Path, version: str) -> None:
    rows = 2000
    rng = np.random.default_rng(3)
    wide = pa.array(["wide " * int(n) for n in rng.integers(0, 9, rows)])
    null = None if version == "2.0" else rng.random(rows) < 0.2
    inner = struct_of({"n": pa.array(np.arange(rows, dtype=np.int8) % 5), "t": wide}, null)
    lists = lists_of(np.full(rows // 4, 4), None, inner)
    table = pa.table({"s": struct_of({"l": lists, "k": pa.array(range(rows // 4))})})
    reader = open_ours(_write_pages(table, tmp_path / "a.lance", version, 20))
    firsts = {
        tuple(page.page.length for page in reader._container.pages(column))
        for column in range(reader.num_columns)
    }
    assert len(firsts) > 1
    for selection in (None, range(31, 407), np.arange(0, rows // 4, 7)):
        index = np.arange(rows // 4)[slice(None) if selection is None else selection]
        _compare(reader.read(reader.columns, selection), table.take(pa.array(index)), version)


# ---- parts of fields


def _part(column: FileColumn, path: str, version: str) -> FileColumn:
    """Return a column with only one child of a struct, at any depth, and its physical columns."""
    columns = list(column.columns)

    def walk(field: pa.Field, steps: list[str]) -> tuple[pa.Field | None, list[int]]:
        kind = field.type
        own = [columns.pop(0)] if version == "2.0" or not pa.types.is_nested(kind) else []
        if pa.types.is_struct(kind):
            kept = []
            for child in kind:
                wanted = bool(steps) and child.name == steps[0]
                inner, below = walk(child, steps[1:] if wanted else [])
                if (wanted or not steps) and inner is not None:
                    kept.append(inner)
                    own += below
            return field.with_type(pa.struct(kept)), own
        if pa.types.is_list(kind):
            item, below = walk(kind.value_field, steps)
            return field.with_type(pa.list_(item)), own + below
        return field, own

    field, own = walk(column.field, path.split(".")[1:])
    return FileColumn(field, tuple(own))


@pytest.mark.cover
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", ["s.a", "s.l.x", "s.l.y", "s.l"])
def test_parts_of_a_field(tmp_path: Path, version: str, path: str) -> None:
    rows = 20_000
    rng = np.random.default_rng(1)
    sizes = rng.integers(0, 4, rows)
    count = int(sizes.sum())
    inner = struct_of(
        {"x": pa.array(rng.random(count)), "y": pa.array([f"{k}" for k in range(count)])}
    )
    table = pa.table(
        {"s": struct_of({"a": pa.array(rng.random(rows)), "l": lists_of(sizes, sizes == 1, inner)})}
    )
    file = MemoryFile(write_reference(table, tmp_path / "a.lance", version))
    reader = FileReader.open(file)
    part = _part(reader.columns[0], path, version)
    file.reads.clear()
    read = reader.read([part])
    expected = table["s"].combine_chunks()
    for step in path.split(".")[1:]:
        if pa.types.is_struct(expected.type):
            expected = struct_of({step: expected.field(step)})
            break
    got = read["s"].combine_chunks()
    if path == "s.l.x":
        assert got.type.field("l").type.value_type == pa.struct([("x", pa.float64())])
        assert_same_nested(_items(got).field("x"), _items(expected).field("x"), path)
    elif path == "s.l.y":
        assert_same_nested(_items(got).field("y"), _items(expected).field("y"), path)
    else:
        assert_same_nested(got, expected, path)
    # only the pages of what was asked for were read
    wanted = {
        (position, position + size)
        for column in part.columns
        for page in reader._container.pages(column)
        for position, size in zip(page.page.positions, page.page.sizes, strict=True)
    }
    last = max(stop for _, stop in wanted)
    first = min(start for start, _ in wanted)
    assert all(first <= start and start + size <= last for start, size in file.reads)


def _items(array: pa.Array) -> pa.Array:
    """Return the items of the lists that are not null."""
    return array.field("l").flatten()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("null_share", [0, 0.2])
def test_reads_only_the_chunks_of_wanted_rows(
    tmp_path: Path, version: str, null_share: float
) -> None:
    rng = np.random.default_rng(2)
    sizes = rng.integers(0, 9, 100_000)
    items = pa.array(rng.integers(0, 1 << 31, int(sizes.sum())))
    lists = lists_of(sizes, rng.random(len(sizes)) < null_share, items)
    file = MemoryFile(write_reference(pa.table({"l": lists}), tmp_path / "a.lance", version))
    reader = FileReader.open(file)
    reader.read(reader.columns, range(0, 1))  # where the chunks lie is read once
    for rows in (np.array([17, 70_000]), np.arange(5000, 5600)):
        reader.read(reader.columns, rows)
        file.reads.clear()
        _compare(reader.read(reader.columns, rows), pa.table({"l": lists.take(rows)}), version)
        assert sum(length for _, length in file.reads) < 70_000


# ---- particular types


@pytest.mark.parametrize("version", VERSIONS)
def test_blobs_are_bytes_or_descriptors(tmp_path: Path, version: str) -> None:
    values = [b"abc", None, b"", b"x" * 1000, None, b"y"]
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table([pa.array(values, pa.large_binary())], schema=pa.schema([field]))
    file = MemoryFile(write_reference(table, tmp_path / "a.lance", version))
    reader = FileReader.open(file)
    (column,) = reader.columns
    assert reader.read([column])["b"].to_pylist() == values
    assert reader.read([column], np.array([1, 3]))["b"].to_pylist() == [None, values[3]]
    described = FileColumn(column.field.with_type(DESCRIPTOR), column.columns)
    file.reads.clear()
    read = reader.read([described])
    assert sum(length for _, length in file.reads) < 1000
    assert read.schema.field("b").metadata == field.metadata
    for value, place in zip(values, read["b"].to_pylist(), strict=True):
        if value is None:
            assert place is None
        else:
            data = file.read(place["position"], place["size"]) if value else b""
            assert bytes(data) == value


def test_blobs_of_a_dataset_are_described(tmp_path: Path) -> None:
    values = [b"abc", None, b"", b"x" * 1000]
    table = pa.table({"b": lance.blob_array(values)})
    dataset = lance.write_dataset(table, tmp_path / "a.lance", data_storage_version="2.2")
    (file,) = (tmp_path / "a.lance" / "data").glob("*.lance")
    reader = open_ours(file.read_bytes())
    read = reader.read(reader.columns)
    assert read["b"].to_pylist() == dataset.to_table()["b"].to_pylist()


@pytest.mark.parametrize("version", VERSIONS)
def test_extension_types_inside_of_nested_ones(tmp_path: Path, version: str) -> None:
    ids = pa.array([b"0123456789abcdef", None, b"fedcba9876543210"], pa.binary(16))
    stored = struct_of({"l": lists_of(np.array([2, 0, 1]), None, ids), "u": ids})
    reader = open_ours(write_reference(pa.table({"s": stored}), tmp_path / "a.lance", version))
    kind = pa.struct([("l", pa.list_(pa.uuid())), ("u", pa.uuid())])
    read = reader.read([FileColumn(pa.field("s", kind), reader.columns[0].columns)])["s"]
    assert read.type == kind
    assert_same_nested(read.cast(stored.type), stored, version)


def test_dictionaries_of_several_pages(tmp_path: Path) -> None:
    for version in VERSIONS:
        pages = [["a", None, "b"], ["c", "a", None], ["d", "e", "f"]]
        kind = pa.dictionary(pa.int8(), pa.string())
        arrays = [pa.array(page).dictionary_encode().cast(kind) for page in pages]
        schema = pa.schema([("d", kind), ("l", pa.list_(kind))])
        with lance.file.LanceFileWriter(
            str(tmp_path / "a.lance"), schema, version=version, data_cache_bytes=1
        ) as writer:
            for array in arrays:
                lists = lists_of(np.array([1, 0, 2]), None, array)
                writer.write_batch(pa.table([array, lists], schema=schema))
        reader = open_ours((tmp_path / "a.lance").read_bytes())
        expected = [value for page in pages for value in page]
        assert reader.read(reader.columns)["d"].to_pylist() == expected
        (batch,) = reader.read_batches(reader.columns)
        assert batch.column("d").to_pylist() == expected
        lists = [part for a, b, c in pages for part in ([a], [], [b, c])]
        assert batch.column("l").to_pylist() == lists


@pytest.mark.parametrize("version", VERSIONS)
def test_more_dictionaries_than_keys_can_tell_apart(tmp_path: Path, version: str) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema([("d", kind), ("l", pa.list_(kind)), ("s", pa.struct([("d", kind)]))])
    keys = pa.array(np.arange(200) % 100, pa.int8())
    tables = []
    with lance.file.LanceFileWriter(
        str(tmp_path / "a.lance"), schema, version=version, data_cache_bytes=1
    ) as writer:
        for page in range(3):
            items = pa.array([f"{page}-{item}" for item in range(100)])
            plain = pa.DictionaryArray.from_arrays(keys, items)
            arrays = [plain, lists_of(np.ones(200, int), None, plain), struct_of({"d": plain})]
            tables.append(pa.table(arrays, schema=schema))
            writer.write_batch(tables[-1])
    reader = open_ours((tmp_path / "a.lance").read_bytes())
    expected = pa.concat_tables(tables).to_pylist()
    assert reader.read(reader.columns).to_pylist() == expected
    batches = list(reader.read_batches(reader.columns, batch_size=170))
    assert pa.Table.from_batches(batches).to_pylist() == expected
    picked = np.arange(0, 600, 20)
    batches = list(reader.read_batches(reader.columns, picked))
    assert pa.Table.from_batches(batches).to_pylist() == [expected[row] for row in picked]
    (batch,) = reader.read_batches(reader.columns[:1], picked)  # the values in use are few
    assert batch.column("d").to_pylist() == [expected[row]["d"] for row in picked]


@pytest.mark.cover
@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("structure", ["fullzip", "miniblock"])
def test_the_structure_that_metadata_ask_for(tmp_path: Path, version: str, structure: str) -> None:
    metadata = {"lance-encoding:structural-encoding": structure}
    named = [
        (name, array)
        for name, array in nested_columns(700, version)
        if name.startswith("list ") and array.type.num_fields == 1
        if not pa.types.is_nested(array.type.value_type)
        if not pa.types.is_dictionary(array.type.value_type) and "huge" not in name
    ]
    for name, array in named:
        item = pa.field("item", array.type.value_type, metadata=metadata)
        schema = pa.schema([pa.field(name, pa.list_(item), metadata=metadata)])
        table = pa.table([array.cast(schema.types[0])], schema=schema)
        reader = open_ours(write_reference(table, tmp_path / "a.lance", version))
        note = f"{structure}, {version}"
        _compare(reader.read(reader.columns), table, note)
        rows = np.arange(2, 700, 17)
        _compare(reader.read(reader.columns, rows), table.take(pa.array(rows)), note)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_a_huge_row_among_many_in_full_zip(tmp_path: Path, version: str) -> None:
    metadata = {"lance-encoding:structural-encoding": "fullzip"}
    sizes = np.full(400, 2)
    sizes[200] = 30_000
    inner = lists_of(np.arange(int(sizes.sum())) % 3, None, pa.array(range(int(sizes.sum()))))
    texts = pa.array([f"{k}" for k in range(int(sizes.sum()))])
    for array in (lists_of(sizes, None, inner), lists_of(sizes, None, texts)):
        field = pa.field("l", array.type, metadata=metadata)
        table = pa.table([array], schema=pa.schema([field]))
        reader = open_ours(write_reference(table, tmp_path / "a.lance", version))
        _compare(reader.read(reader.columns), table, version)
        _compare(reader.read(reader.columns, range(199, 202)), table[199:202], version)


@pytest.mark.cover
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("share", SHARES)
def test_reads_files_of_an_older_release(
    tmp_path: Path, pylance4: Callable[..., Any], version: str, share: int
) -> None:
    table = share_of(nested_table(700, version), share)
    empty = [name for name in table.column_names if "dictionary" in name and "all null" in name]
    table = table.drop_columns(empty)  # it cannot write an empty one
    with pa.ipc.new_file(tmp_path / "table.arrow", table.schema) as writer:
        writer.write_table(table)
    out = tmp_path / "a.lance"
    pylance4(WRITE, table=str(tmp_path / "table.arrow"), out=str(out), version=version)
    reader = open_ours(out.read_bytes())
    _compare(reader.read(reader.columns), table, version)


def test_lists_inside_of_fixed_size_lists_are_not_guessed(tmp_path: Path) -> None:
    inner = struct_of({"l": lists_of(np.array([1, 0, 2, 1]), None, pa.array(range(4)))})
    table = pa.table({"v": pa.FixedSizeListArray.from_arrays(inner, 2), "n": [1, 2]})
    reader = open_ours(write_reference(table, tmp_path / "a.lance", "2.2"))
    assert reader.read(reader.columns[1:])["n"].to_pylist() == [1, 2]
    with pytest.raises(UnsupportedFeatureError, match=r"memory\.lance, column 'v': a list in"):
        reader.read(reader.columns)


READ_ALL = """
import sys
import numpy as np
from lancekit._file.reader import FileReader
from lancekit._storage.places import open_store
for name in sys.argv[2:]:
    reader = FileReader.open(open_store(sys.argv[1]).open(name))
    reader.read(reader.columns)
    reader.read(reader.columns, np.arange(0, reader.num_rows, 7))
    list(reader.read_batches(reader.columns))
sys.exit("pandas" in sys.modules)
"""


def test_reading_does_not_import_pandas(tmp_path: Path) -> None:
    for version in VERSIONS:
        write_reference(nested_table(1100, version), tmp_path / f"{version}.lance", version)
    names = [f"{version}.lance" for version in VERSIONS]
    subprocess.run([sys.executable, "-c", READ_ALL, str(tmp_path), *names], check=True)


# ---- damage


@pytest.mark.torture
@pytest.mark.parametrize("version", VERSIONS)
def test_damage_is_an_error_or_a_value_but_no_crash(
    tmp_path: Path, version: str, whole: bool
) -> None:
    table = nested_table(30, version).select(
        [
            *("list int64, nulls and empties, some null items", "list list list"),
            *("list string, nulls and empties, some null items", "list long strings, null items"),
            *("list struct list", "dictionary null items, null keys", "packed numbers", "blob"),
            *("list vectors with null items, some null", "list bool, all null items"),
            *(["struct nullable of list"] if version != "2.0" else []),
            *(["packed strings", "map of lists"] if version == "2.2" else []),
        ]
    )
    data = write_reference(table, tmp_path / "a.lance", version)
    rng = np.random.default_rng(7)
    for _ in range(120 if whole else 12):
        damaged = bytearray(data)
        place = int(rng.integers(0, len(data)))
        damaged[place] = int(rng.integers(0, 256))
        try:
            reader = open_ours(bytes(damaged))
            columns = reader.columns
        except FormatError:
            continue
        scattered = np.array([3, 17]) if reader.num_rows > 17 else None
        for column in columns:
            for rows in (None, scattered):
                with suppress(CorruptFileError, UnsupportedFeatureError):
                    reader.read([column], rows)[0].validate()


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("page_bytes", [10, 20, 40])
def test_leaves_may_differ_below_null_structs(version: str, page_bytes: int) -> None:
    """A page without a null of the inner struct does not say where it is null with the outer."""
    inner = pa.struct([("a", pa.int32()), ("b", pa.float64())])
    kind = pa.list_(pa.struct([("f0", pa.int32()), ("f2", inner)]))
    rows = [None] * 5 + [[None, None], [None, {"f0": None, "f2": None}], None, None, None]
    table = pa.table({"c": pa.array(rows, kind)})
    reader = open_ours(write_ours(table, version, max_page_bytes=page_bytes))
    assert reader.read(reader.columns)["c"].to_pylist() == rows


def test_a_constant_without_a_value_is_for_the_items_of_vectors() -> None:
    """Releases such as 0.38.1 write vectors of nulls so; the levels say which vectors are null."""
    nothing = pb.CompressiveEncoding(constant=pb.Constant())
    layout = pb.FullZipLayout(
        bits_def=1,
        bits_per_value=0,
        num_items=4,
        num_visible_items=4,
        value_compression=nothing,
        layers=[pb.NULLABLE_ITEM],
    )
    levels = MemoryFile(bytes([0, 1, 0, 1]))
    vectors = pa.list_(pa.int64(), 2)
    kinds = {vectors: [None, None], pa.list_(vectors, 3): [None] * 3, pa.int64(): None}
    for kind, there in kinds.items():
        page = FullZipPage(Page(levels, 0, 4, (0,), (4,)), layout, kind)
        for rows in (range(4), range(2, 4), np.array([0, 3])):
            found = nest(page.leaf(rows), field_tree.Path((kind,), (1,)), len(rows))
            found.validate(full=True)
            assert found.to_pylist() == [[there, None, there, None][row] for row in rows]
