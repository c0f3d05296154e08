"""What both libraries answer to the same question, side by side."""

from __future__ import annotations

import gc
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import lance.file
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
import lancekit.file
import lancekit.vector
from lancekit._format.schema import LanceSchema
from lancekit._scan.fragment_rows import ScanRequest, block_rows
from lancekit._scan.outputs import plan_columns
from lancekit.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    PredicateError,
    StorageError,
    UnsupportedTypeError,
)

ROWS = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]})


def both(path: Path, ask: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return what each library answers of one dataset."""
    return ask(lk.dataset(path)), ask(lance.dataset(path))


@pytest.mark.parametrize("library", [lk, lance])
def test_max_field_id_counts_what_files_still_hold(tmp_path: Path, library: ModuleType) -> None:
    library.write_dataset(ROWS, tmp_path)
    steps: list[tuple[Callable[[Any], Any], int]] = [
        (lambda ds: ds.add_columns({"c": "a + 1", "d": "a + 2"}), 3),
        (lambda ds: ds.drop_columns(["d"]), 3),
        (lambda ds: ds.alter_columns({"path": "c", "data_type": pa.int32()}), 4),
        (lambda ds: ds.drop_columns(["b"]), 4),
        (lambda ds: ds.drop_columns(["c"]), 1),
    ]
    for step, highest in steps:
        step(library.dataset(tmp_path))
        assert both(tmp_path, lambda ds: ds.max_field_id) == (highest, highest)


@pytest.mark.parametrize(
    "columns",
    [
        ["_rowid", "_rowid"],
        ["a", "a"],
        ["_rowaddr", "a", "_rowid", "_rowaddr"],
        ["s.x", "_rowid", "s.y", "s.x", "_rowid"],
        ["b", "_rowaddr", "a"],
    ],
)
def test_columns_of_take_that_are_named_twice(tmp_path: Path, columns: list[str]) -> None:
    structs = [{"x": 1, "y": 2}, {"x": 3, "y": 4}, None]
    lance.write_dataset(ROWS.append_column("s", pa.array(structs)), tmp_path)
    mine, theirs = both(tmp_path, lambda ds: ds.take([2, 0], columns=columns))
    assert mine.equals(theirs)


# ---- batches

Sizes = list[int]


def _sizes(batches: Any) -> Sizes:
    return [batch.num_rows for batch in batches]


#: how to read batches; of filtered and limited ones, pylance cuts as its plan happens to
BATCHES: dict[str, Callable[[Any], Any]] = {
    "default": lambda ds: ds.to_batches(),
    "smaller than fragments": lambda ds: ds.to_batches(batch_size=20),
    "larger than fragments": lambda ds: ds.to_batches(batch_size=50),
    "strict": lambda ds: ds.to_batches(batch_size=50, strict_batch_size=True),
    "reader": lambda ds: ds.scanner(columns=["a"], batch_size=7).to_reader(),
    "limited": lambda ds: ds.to_batches(limit=40, offset=10),
    "no columns": lambda ds: ds.to_batches(columns=[], with_row_id=True),
    "sorted": lambda ds: ds.scanner(order_by=["a"], batch_size=20).to_batches(),
    "fragment": lambda ds: ds.get_fragments()[1].to_batches(batch_size=20),
}


@pytest.mark.parametrize("how", BATCHES)
@pytest.mark.parametrize("deleted", ["false", "a < 35", "a % 3 = 0"])
def test_batches_end_where_fragments_do(tmp_path: Path, how: str, deleted: str) -> None:
    rows = pa.table({"a": range(96), "s": ["x"] * 96})
    lance.write_dataset(rows, tmp_path, max_rows_per_file=32).delete(deleted)
    if how == "fragment" and deleted == "a < 35":
        return  # of its fragments, the second one
    mine, theirs = both(tmp_path, lambda ds: _sizes(BATCHES[how](ds)))
    assert mine == theirs
    both_rows = both(tmp_path, lambda ds: pa.Table.from_batches(BATCHES[how](ds)))
    assert both_rows[0] == both_rows[1]


def test_batches_of_large_fragments(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"a": range(30_000)}), tmp_path, max_rows_per_file=20_000)
    mine, theirs = both(tmp_path, lambda ds: _sizes(ds.to_batches()))
    assert mine == theirs == [8192, 8192, 3616, 8192, 1808]


def test_blocks_are_whole_batches() -> None:
    """A fragment of more than a block has no short batch at the end of each block."""
    schema = LanceSchema.from_arrow(ROWS.schema)
    request = ScanRequest(outputs=plan_columns(schema, None), batch_rows=1000, block_bytes=2**20)
    rows = block_rows(schema, request)
    assert rows > 1000
    assert rows % 1000 == 0


@pytest.mark.parametrize("text", ["12", "100"])
def test_the_environment_sets_the_rows_of_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    lance.write_dataset(pa.table({"a": range(96)}), tmp_path, max_rows_per_file=32)
    monkeypatch.setenv("LANCE_DEFAULT_BATCH_SIZE", text)
    asks: list[Callable[[Any], Any]] = [
        lambda ds: ds.to_batches(),
        lambda ds: ds.to_batches(batch_size=20),
        lambda ds: ds.get_fragments()[0].to_batches(),
    ]
    for ask in asks:
        mine, theirs = both(tmp_path, lambda ds, ask=ask: _sizes(ask(ds)))  # type: ignore[misc]
        assert mine == theirs


@pytest.mark.parametrize("text", ["many", "0", "-1", ""])
def test_an_environment_that_says_no_number_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    ds = lk.write_dataset(ROWS, tmp_path)
    monkeypatch.setenv("LANCE_DEFAULT_BATCH_SIZE", text)
    with pytest.warns(UserWarning, match=rf"LANCE_DEFAULT_BATCH_SIZE must be .* got {text!r}"):
        assert _sizes(ds.to_batches()) == [3]


def test_batches_of_so_many_bytes(tmp_path: Path) -> None:
    text = "x" * 10_000
    rows = pa.table({"id": range(60), "text": pa.array([text] * 60, pa.large_string())})
    lance.write_dataset(rows, tmp_path, max_rows_per_file=40)
    for library in (lk, lance):
        ds = library.dataset(tmp_path)
        for options in ({}, {"filter": "id >= 0", "late_materialization": False}):
            batches = list(ds.to_batches(batch_size_bytes=50_000, **options))
            assert pa.Table.from_batches(batches).equals(rows)
            assert max(_sizes(batches)) <= 10
    ours = lk.dataset(tmp_path)
    assert set(_sizes(ours.to_batches(batch_size_bytes=1))) == {1}
    assert _sizes(ours.to_batches(batch_size_bytes=2**40)) == [40, 20]
    with pytest.raises(InvalidArgumentError, match=r"batch_size_bytes must be .* got -1"):
        ours.to_batches(batch_size_bytes=-1)


# ---- types of lists


CASTS = ["FixedSizeList(2, Float32)", "FixedSizeList(2 x Float32)", "FixedSizeList( 2 ,Utf8)"]
CASTS += ["List(Float32)", "LargeList(Float32)", "List(Utf8)", "List(non-null Float32)"]
CASTS += ["List(nullable Int8)", "List(LargeList(Float32))"]
LISTS = {
    "l": pa.array([[1.5, 2.0], None, [3.0, -4.0]], pa.list_(pa.float64())),
    "f": pa.array([[1.5, 2.0], None, [3.0, -4.0]], pa.list_(pa.float64(), 2)),
    "n": pa.array([[[1.5]], [[], None], [[3.0, None]]], pa.list_(pa.list_(pa.float64()))),
}


@pytest.mark.parametrize("kind", CASTS)
@pytest.mark.parametrize("column", ["l", "f", "n", "nullif(l, l)"])
def test_arrow_cast_to_lists(tmp_path: Path, kind: str, column: str) -> None:
    nested = "List(Large" in kind
    if (column == "n") != nested:
        return
    lance.write_dataset(pa.table(LISTS), tmp_path)
    columns = {"x": f"arrow_cast({column}, '{kind}')"}
    mine, theirs = both(tmp_path, lambda ds: ds.to_table(columns=columns))
    assert mine["x"].type == theirs["x"].type
    assert mine["x"].to_pylist() == theirs["x"].to_pylist()


@pytest.mark.parametrize(
    "kind",
    [
        "FixedSizeList(Float32, 2)",
        "FixedSizeList(3, Float32)",
        "FixedSizeList(-2, Int8)",
        "FixedSizeList(99999999999, Int8)",
        "List(Text)",
        "List(2, Int8)",
        "List()",
    ],
)
def test_lists_that_a_value_cannot_be_cast_to(tmp_path: Path, kind: str) -> None:
    ds = lk.write_dataset(pa.table({"l": LISTS["l"]}), tmp_path)
    with pytest.raises(PredicateError):
        ds.to_table(columns={"x": f"arrow_cast(l, '{kind}')"})


def test_a_column_of_null_vectors_is_added(tmp_path: Path) -> None:
    for library in (lk, lance):
        ds = library.write_dataset(ROWS, tmp_path / library.__name__)
        ds.add_columns({"v": "arrow_cast(NULL, 'FixedSizeList(32, Float32)')"})
        assert ds.schema.field("v").type == pa.list_(pa.float32(), 32)
        assert ds.to_table()["v"].to_pylist() == [None] * 3


@pytest.mark.parametrize("digits", ["", "(0)", "(3)", "(6)", "(9)"])
@pytest.mark.parametrize("name", ["timestamp", "datetime"])
def test_casts_to_moments_of_so_many_digits(tmp_path: Path, name: str, digits: str) -> None:
    lance.write_dataset(pa.table({"t": ["2021-03-04 05:06:07", None]}), tmp_path)
    columns = {"x": f"cast(t as {name}{digits})"}
    mine, theirs = both(tmp_path, lambda ds: ds.to_table(columns=columns))
    assert mine.equals(theirs)
    for library in (lk, lance):
        with pytest.raises(ValueError, match=r"(?i)4"):
            library.dataset(tmp_path).to_table(columns={"x": f"cast(t as {name}(4))"})


# ---- lists that are tuples here


def test_what_pylance_gives_in_lists_equals_lists(tmp_path: Path) -> None:
    ds = lk.write_dataset(ROWS, tmp_path)
    (fragment,) = ds.get_fragments()
    (file,) = fragment.metadata.files
    assert file.fields == [0, 1]
    assert list(file.fields) == file.fields
    assert file.fields != [0]
    assert file.column_indices == [0, 1]
    assert fragment.metadata.files == [file]
    append: Any = lk.LanceOperation.Append([fragment.metadata])
    assert append.fragments == [fragment.metadata]
    assert len({file, file}) == 1
    again = lk.FragmentMetadata.from_json(json.dumps(fragment.metadata.to_json()))
    assert again.files[0].fields == [0, 1]


def test_an_overwrite_may_say_that_it_has_no_bases(tmp_path: Path) -> None:
    ds = lk.write_dataset(ROWS, tmp_path)
    made = [fragment.metadata for fragment in ds.get_fragments()]
    overwrite: Any = lk.LanceOperation.Overwrite
    landed = lk.LanceDataset.commit(ds, overwrite(ROWS.schema, made, initial_bases=None))
    assert landed.to_table() == ROWS


# ---- schemas as JSON


KINDS = [pa.null(), pa.bool_(), pa.int8(), pa.float16(), pa.float64(), pa.string(), pa.binary(3)]
KINDS += [pa.date32(), pa.time64("us"), pa.timestamp("us"), pa.timestamp("ns", "UTC")]
KINDS += [pa.duration("ms"), pa.decimal256(40, 3), pa.list_(pa.field("element", pa.int8(), False))]
KINDS += [pa.large_list(pa.int32()), pa.list_(pa.float32(), 4), pa.dictionary(pa.int8(), "string")]
KINDS += [pa.struct([pa.field("x", pa.int32(), False, {"a": "b"}), ("y", pa.list_(pa.string()))])]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_schemas_as_json(kind: pa.DataType) -> None:
    schema = pa.schema([pa.field("a", kind, True, {"k": "v"}), ("b", pa.int64())], {"m": "1"})
    mine, theirs = lk.schema_to_json(schema), lance.schema_to_json(schema)
    assert mine == theirs
    back = lk.json_to_schema(theirs)
    assert back.equals(schema, check_metadata=True)
    assert lance.json_to_schema(mine).equals(schema, check_metadata=True)


@pytest.mark.parametrize(
    "given",
    [
        {},
        5,
        "x",
        {"fields": [{"name": "a"}]},
        {"fields": [{"name": "a", "type": {"type": "int32"}}]},
        {"fields": [{"name": "a", "type": {"type": "nonsense"}, "nullable": True}]},
        {"fields": [{"name": "a", "type": {"type": "fixed_size_list"}, "nullable": True}]},
    ],
    ids=str,
)
def test_json_that_is_no_schema(given: Any) -> None:
    with pytest.raises(ValueError, match="schema"):
        lance.json_to_schema(given)
    with pytest.raises(InvalidArgumentError, match="is not a schema"):
        lk.json_to_schema(given)


def test_json_of_schemas_that_no_arrow_has() -> None:
    """What pylance refuses with errors of Python's own, or not at all."""
    deep: dict[str, Any] = {"type": "int32"}
    for _ in range(3000):
        deep = {"type": "list", "fields": [{"name": "i", "type": deep, "nullable": True}]}
    item = {"name": "i", "type": {"type": "int32"}, "nullable": True}
    for kind in (
        deep,
        {"type": "fixed_size_binary", "length": 10**30},
        {"type": "fixed_size_binary", "length": -1},
        {"type": "fixed_size_list", "length": -1, "fields": [item]},
    ):
        with pytest.raises(InvalidArgumentError, match="is not a schema"):
            lk.json_to_schema({"fields": [{"name": "a", "type": kind, "nullable": True}]})


def test_schemas_that_json_cannot_hold() -> None:
    with pytest.raises(UnsupportedTypeError, match="'m' of type map"):
        lk.schema_to_json(pa.schema({"m": pa.map_(pa.string(), pa.int8())}))
    with pytest.raises(InvalidTypeError, match="got str"):
        lk.schema_to_json("x")  # type: ignore[arg-type]


# ---- vectors


def test_vectors_become_a_table() -> None:
    vectors = np.arange(6, dtype=np.float64).reshape(3, 2)
    column = pa.array(vectors.tolist(), pa.list_(pa.float32(), 2))
    make = lancekit.vector.vec_to_table
    for given in (vectors, list(vectors), vectors.tolist()):
        assert make(given) == pa.table({"vector": column})
        assert make(given, "v", 2) == pa.table({"v": column})
    keyed = dict(zip("abc", vectors, strict=True))
    assert make(keyed) == pa.table({"id": list("abc"), "vector": column})
    assert make(keyed, ["k", "v"]).column_names == ["k", "v"]
    wrong: list[tuple[Any, ...]] = [([[1, 2], [3]],), ([],), (vectors, ["a", "b"]), (keyed, "v")]
    for arguments in (*wrong, (vectors, None, 3)):
        with pytest.raises(InvalidArgumentError):
            make(*arguments)
    for data in ({"a": 1}, [["x", "y"]], [[[1], [2, 3]]], {1: [1.0], "b": [2.0]}):
        with pytest.raises(InvalidArgumentError, match="cannot be converted to vectors"):
            make(data)
    with pytest.raises(InvalidArgumentError, match="vectors of -2"):
        make(vectors, ndim=-2, check_ndim=False)
    with pytest.raises(InvalidTypeError, match=r"names must be .* got 5"):
        make(vectors, 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match=r"data must be .* got int"):
        make(5)  # type: ignore[arg-type]
    assert len(make([], ndim=4)) == 0


# ---- fragments


def test_a_fragment_is_made_by_its_number(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"a": range(10)}), tmp_path, max_rows_per_file=5)
    ours: Any = lk.LanceFragment
    for library, kind in ((lk, ours), (lance, lance.LanceFragment)):
        ds = library.dataset(tmp_path)
        fragment = kind(ds, 1)
        assert fragment.fragment_id == 1
        assert fragment.to_table()["a"].to_pylist() == [5, 6, 7, 8, 9]
        assert pickle.loads(pickle.dumps(fragment)).count_rows() == 5
        with pytest.raises((ValueError, AttributeError)):
            kind(ds, 7)
    mine = lk.dataset(tmp_path)
    first = mine.get_fragments()[0]
    assert ours(mine, None, fragment=first).metadata == first.metadata
    with pytest.raises(InvalidArgumentError, match=r"no fragment 7\. .* 0, 1"):
        ours(mine, 7)
    for wrong in (None, "0", -1):
        with pytest.raises((InvalidArgumentError, InvalidTypeError), match="fragment_id"):
            ours(mine, wrong)


# ---- files, tags, blobs


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_a_file_appears_when_it_is_closed(tmp_path: Path, version: str) -> None:
    schema = pa.schema({"a": pa.int64()})
    path = tmp_path / "one.lance"

    def begun(value: int) -> Any:
        writer = lancekit.file.LanceFileWriter(path, schema, version=version)
        writer.write_batch(pa.table({"a": [value]}))
        return writer

    writer = begun(1)
    assert not path.exists()
    del writer
    gc.collect()
    assert list(tmp_path.iterdir()) == [], "nobody can close it any more"
    begun(2).close()
    with pytest.raises(ZeroDivisionError), begun(3):
        1 / 0  # noqa: B018
    (found,) = tmp_path.iterdir()
    assert lance.file.LanceFileReader(str(found)).read_all().to_table()["a"].to_pylist() == [2]
    begun(4).close()
    (found,) = tmp_path.iterdir()
    assert lancekit.file.LanceFileReader(found).read_all().to_table()["a"].to_pylist() == [4]


def test_a_place_that_no_file_can_take(tmp_path: Path) -> None:
    (tmp_path / "one.lance").mkdir()
    writer = lancekit.file.LanceFileWriter(tmp_path / "one.lance")
    writer.write_batch(pa.table({"a": [1]}))
    with pytest.raises(StorageError, match=r"one\.lance"):
        writer.close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["one.lance"], "nothing is left aside"


@pytest.mark.parametrize("library", [lk, lance])
def test_metadata_of_a_tag_do_not_move_it(tmp_path: Path, library: ModuleType) -> None:
    ds = library.write_dataset(ROWS, tmp_path)
    ds.tags.create("t", 1)
    before = ds.tags.list()["t"]
    ds.tags.replace_metadata("t", {"k": "v"})
    after = ds.tags.list()["t"]
    assert after == {**before, "metadata": {"k": "v"}, "manifest_size": after["manifest_size"]}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("inline_size_threshold", -1),
        ("inline_size_threshold", True),
        ("inline_size_threshold", 1.5),
        ("dedicated_size_threshold", 0),
        ("pack_file_size_threshold", 0),
        ("pack_file_size_threshold", "1"),
    ],
)
def test_thresholds_of_blobs_are_numbers(name: str, value: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=name):
        lance.blob_field("b", **{name: value})
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=name):
        lk.blob_field("b", **{name: value})
    fields = [library.blob_field("b", **{name: 7}) for library in (lk, lance)]
    assert fields[0].metadata == fields[1].metadata
