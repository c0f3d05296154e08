"""Columns that few tables have: dictionaries as keys, one field in two files, marks set later."""

from __future__ import annotations

import uuid
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._commit.protocol import commit
from lancekit._commit.rules.pending import Pending
from lancekit._format.operations import Merge
from lancekit._versions.branch_location import open_location
from lancekit._versions.listing import latest_snapshot
from lancekit.errors import SchemaMismatchError

NUMBERS = {"a": 1, "b": 2, "c": 3, "d": 4}


@pytest.mark.parametrize("key", ["text", "numbers"])
def test_dictionary_keys_are_merged_as_in_pylance(tmp_path: Path, key: str) -> None:
    def keys(*names: str | None) -> pa.DictionaryArray:
        values = names if key == "text" else [NUMBERS.get(name or "") for name in names]
        return pa.array(values).dictionary_encode()

    target = pa.table({"k": keys("a", "b", "d", None), "v": [1, 2, 4, 5]})
    source = pa.table({"k": keys("c", "b"), "v": [30, 20]})
    found = []
    for side in (lk, lance):
        ds: Any = side.write_dataset(target, str(tmp_path / side.__name__))
        merge = ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
        counts = dict(merge.execute(source))
        found.append((counts, ds.to_table().sort_by("v"), ds.schema))
    assert found[0] == found[1]
    ours = lk.dataset(str(tmp_path / "lancekit"))
    merge = ours.merge_insert("k").when_matched_update_all()
    with pytest.raises(lk.errors.DuplicateKeysError, match="k = "):
        merge.execute(pa.table({"k": keys("b", "b"), "v": [1, 2]}))


def test_a_field_in_two_files_is_read_from_the_first(tmp_path: Path) -> None:
    uri = str(tmp_path / "d")
    ds = lk.write_dataset({"a": [1, 2], "b": [10, 20]}, uri)
    ds.add_columns({"c": "a + 100"})
    read, schema = (
        latest_snapshot(open_location(uri)),
        ds.checkout_version(1)._snapshot.manifest.schema,
    )
    (fragment,) = read.manifest.fragments
    kept, added = fragment.files
    twice = replace(fragment, files=(kept, replace(added, fields=(0,))))
    # no public way leads here any more, but there are such tables
    merge = Merge(fragments=(twice,), schema=schema)
    commit(read, Pending(operation=merge, uuid=str(uuid.uuid4())))
    theirs = lance.dataset(uri).to_table()
    ours = lk.dataset(uri)
    assert ours.to_table() == theirs
    assert theirs["a"].to_pylist() == [1, 2]
    assert ours.to_table(columns=["a"], filter="a = 2")["a"].to_pylist() == [2]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_whether_a_struct_is_packed_each_file_tells(tmp_path: Path, version: Any) -> None:
    uri = str(tmp_path / "d")
    kind = pa.struct({"x": pa.int32(), "y": pa.int32()})
    rows = pa.table({"s": pa.array([{"x": 1, "y": 2}, {"x": 3, "y": 4}], kind)})
    ds = lance.write_dataset(rows, uri, data_storage_version=version)
    ds.update_field_metadata({"s": {"lance-encoding:packed": "true"}})
    lance.write_dataset(rows, uri, mode="append")
    ours = lk.dataset(uri)
    assert ours.to_table()["s"].to_pylist() == rows["s"].to_pylist() * 2
    assert ours.to_table(columns=["s.y"])["s.y"].to_pylist() == [2, 4, 2, 4]
    if version != "2.0":
        return  # the reference refuses any further change of a packed table
    lance.dataset(uri).update_field_metadata({"s": {"lance-encoding:packed": None}})
    ours.checkout_latest()
    assert ours.to_table()["s"].to_pylist() == rows["s"].to_pylist() * 2


def test_a_mark_of_json_on_numbers_leaves_them_numbers(tmp_path: Path) -> None:
    uri = str(tmp_path / "d")
    ds = lance.write_dataset({"id": [1, 2]}, uri)
    ds.update_field_metadata({"id": {"ARROW:extension:name": "lance.json"}})
    assert lk.dataset(uri).to_table() == lance.dataset(uri).to_table()


MARKS: dict[str, tuple[pa.Array, dict[str, str], str]] = {
    "uuid": (pa.array([1]), {"ARROW:extension:name": "arrow.uuid"}, "Invalid storage type"),
    "json": (pa.array([1]), {"ARROW:extension:name": "lance.json"}, "not as int64"),
    "text": (pa.array(["{}"]), {"ARROW:extension:name": "arrow.json"}, "not as string"),
    "blob": (pa.array([b"x"], pa.large_binary()), {"lance-encoding:blob": "true"}, "as blobs"),
    "blob of 2.2": (pa.array([1]), {"ARROW:extension:name": "lance.blob.v2"}, "as blobs"),
    "packed": (pa.array([{"x": 1}]), {"lance-encoding:packed": "true"}, "as packed structs"),
}


@pytest.mark.parametrize("case", MARKS)
def test_marks_that_the_stored_values_do_not_fit_are_refused(tmp_path: Path, case: str) -> None:
    values, marks, message = MARKS[case]
    ds = lk.write_dataset(pa.table({"c": values}), str(tmp_path / "d"))
    with pytest.raises(lk.errors.InvalidArgumentError, match=f"'c'.*{message}"):
        ds.update_field_metadata({"c": marks})
    assert ds.version == 1
    ds.update_field_metadata({"c": {"ARROW:extension:name": "my.own", "note": "n"}})
    assert lance.dataset(str(tmp_path / "d")).to_table()["c"].to_pylist() == values.to_pylist()


WORDS = pa.array(["a", "b", None]).dictionary_encode()
PAIRS = pa.array([[1, 2], [3, 4], None], pa.list_(pa.int32(), 2))
CASTS: dict[str, tuple[pa.Array, pa.DataType]] = {
    "to text": (WORDS, pa.string()),
    "to large text": (WORDS, pa.large_string()),
    "to smaller keys": (WORDS, pa.dictionary(pa.int8(), pa.string())),
    "to numbers": (pa.array([1, None]).dictionary_encode(), pa.int32()),
    "from text": (pa.array(["a", None]), pa.dictionary(pa.int32(), pa.string())),
    "to lists": (PAIRS, pa.list_(pa.int32())),
    "to large lists": (PAIRS, pa.large_list(pa.int64())),
    "from lists": (pa.array([[1, 2], [3, 4]]), pa.list_(pa.int64(), 2)),
}


@pytest.mark.parametrize("case", CASTS)
def test_dictionaries_and_lists_of_one_size_are_cast_as_in_pylance(
    tmp_path: Path, case: str
) -> None:
    values, kind = CASTS[case]
    found = []
    for side in (lk, lance):
        uri = str(tmp_path / side.__name__)
        ds: Any = side.write_dataset(pa.table({"c": values}), uri)
        ds.alter_columns({"path": "c", "data_type": kind})
        found.append(lance.dataset(uri).to_table())
        assert lk.dataset(uri).to_table() == found[-1]
    assert found[0] == found[1]
    assert found[0].schema.field("c").type == kind


def test_a_column_computed_as_a_dictionary_is_one(tmp_path: Path) -> None:
    found = []
    for side in (lk, lance):
        uri = str(tmp_path / side.__name__)
        ds: Any = side.write_dataset(pa.table({"d": WORDS}), uri)
        ds.add_columns({"n": "d"})
        found.append(lance.dataset(uri).to_table())
        assert lk.dataset(uri).to_table() == found[-1]
    assert found[0] == found[1]


@pytest.mark.parametrize("sql", ["i * 1.5", "1.0 * i", "i / 2.0", "i * (1.5 + 1)"])
def test_fractions_of_integers_are_not_cut_off_unasked(tmp_path: Path, sql: str) -> None:
    for side in (lk, lance):
        ds: Any = side.write_dataset(pa.table({"i": [1, 2, 3]}), str(tmp_path / side.__name__))
        with pytest.raises(ValueError, match=r"fractions|could not convert to literal"):
            ds.update({"i": sql})


FRACTIONS = ["2.7", "x", "x * 1.5", "i * 2", "i / 2", "i * x", "CAST(i AS double) * 1.5"]


@pytest.mark.parametrize("sql", [*FRACTIONS, "i * i / 2.0", "abs(i * 1.5)", "-(i * 1.5)"])
def test_other_fractions_are_cut_off_as_in_pylance_with_a_warning(tmp_path: Path, sql: str) -> None:
    found = []
    for side in (lk, lance):
        ds: Any = side.write_dataset(
            pa.table({"i": [1, 2, 3], "x": [0.5, 1.5, 2.5]}), str(tmp_path / side.__name__)
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ds.update({"i": sql})
        whole = sql in ("i * 2", "i / 2") or side is lance
        assert all("cannot hold" in str(one.message) for one in caught)
        assert bool(caught) is not whole
        found.append(ds.to_table())
    assert found[0] == found[1]


def test_rows_without_columns_hold_nothing(tmp_path):
    rows = pa.table({"a": [1, 2, 3]}).select([])
    with pytest.raises(SchemaMismatchError, match="3 rows have no columns"):
        lk.write_dataset(rows, tmp_path / "d")
    assert not list(tmp_path.rglob("*.manifest"))
    assert lk.write_dataset(pa.table({}), tmp_path / "d").count_rows() == 0
