"""Reads through the handle, against the reference on the same dataset."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import NotOfferedError

nan = float("nan")
ROWS = pa.table(
    {
        "i": pa.array([3, 1, 2, None, 5, 1], pa.int64()),
        "f": pa.array([1.0, None, nan, -0.0, 0.0, 2.0]),
        "s": ["b", None, "a", "\\", "", "a\\"],
        "tz": pa.array([0, 1, 2, 3, None, 5 * 10**14], pa.timestamp("us", "America/New_York")),
    }
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[Any, Any]:
    path = str(tmp_path_factory.mktemp("reading") / "d")
    lk.write_dataset(ROWS, path, max_rows_per_file=4)
    return lk.dataset(path), lance.dataset(path)


Order = sys.modules["lance.dataset"].ColumnOrdering


@pytest.mark.parametrize("nulls_first", [True, False])
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("column", ["i", "f", "s", "tz"])
def test_order(pair, column: str, ascending: bool, nulls_first: bool) -> None:
    ours, theirs = pair
    orderings = [Order(column, ascending, nulls_first), Order("i", True, False)]
    for arguments in ({}, {"limit": 2, "offset": 1}):
        found, expected = (
            ds.scanner(columns=["i", column] if column != "i" else ["i"], order_by=orderings,
                       **arguments).to_table().column(column).to_pylist()
            for ds in (ours, theirs)
        )  # fmt: skip
        if column == "f":  # the reference tells -0.0 from 0.0
            found, expected = ([0.0 if v == 0 else v for v in side] for side in (found, expected))
        np.testing.assert_equal(found, expected)


def test_order_of_a_dictionary() -> None:
    texts = pa.array(["b", None, "a", "b"])
    ds = lk.write_dataset(pa.table({"d": texts.dictionary_encode()}), "memory://order-dictionary")
    found = ds.scanner(order_by=["d"]).to_table()["d"]
    assert found.type == ds.schema.field("d").type
    assert found.to_pylist() == ["a", "b", "b", None]


def test_order_by_a_column_that_is_not_asked_for(pair) -> None:
    ours, _ = pair
    ordering = lk.ColumnOrdering("i", ascending=False)
    assert ours.to_table(columns=["s"], order_by=[ordering]).column_names == ["s"]
    assert ours.to_table(columns=["s"], order_by=["i"])["s"].to_pylist()[-1] == "\\"
    with pytest.raises(lk.errors.ColumnNotFoundError, match="'zz'"):
        ours.to_table(order_by=["zz"])
    assert ours.to_table(columns=["s"], order_by="i")["s"].to_pylist()[-1] == "\\"
    for bad in (5, [5], [("i", "desc")]):
        with pytest.raises(lk.errors.InvalidTypeError, match="order_by"):
            ours.scanner(order_by=bad)


def test_rows_without_columns_are_counted(pair) -> None:
    ours, theirs = pair
    for arguments in ({"columns": []}, {"columns": {}}, {"columns": [], "filter": "i > 1"}):
        assert ours.to_table(**arguments).num_rows == theirs.to_table(**arguments).num_rows
    assert ours.to_table(columns={"x": "1"})["x"].to_pylist() == [1] * 6
    assert ours.head(3, columns={"x": "1"}).num_rows == 3
    assert ours.take([1, 5], columns=[]).num_rows == 2
    assert sum(b.num_rows for b in ours.to_batches(columns=[])) == 6
    assert ours.to_table(filter="true", columns={"x": "1"}).num_rows == 6


@pytest.mark.parametrize(
    "sql",
    ["tz > date '1970-01-01'", "tz in (date '1970-01-01')", "s like '\\'", "s like 'a\\'",
     "s like '%'",

     "f > 0.5", "NOT (f > 0.5)", "i < 3 OR s IS NULL"],
)  # fmt: skip
def test_filters_select_the_same_rows(pair, sql: str) -> None:
    ours, theirs = pair
    found, expected = (ds.to_table(columns=["_rowaddr"], filter=sql) for ds in pair)
    assert found.equals(expected), (ours.count_rows(sql), theirs.count_rows(sql))


def test_arguments_of_a_wrong_type_are_named(pair) -> None:
    ours, _ = pair
    wrong = [
        lambda: ours.to_table(columns=5),
        lambda: ours.to_table(columns=[5]),
        lambda: ours.to_table(columns="i"),
        lambda: ours.merge_insert(5),
        lambda: ours.create_branch(5),
        lambda: ours.tags.create(5, 1),
        lambda: lk.write_dataset(ROWS, "memory://wrong", primary_key=5),
        lambda: lk.write_dataset(ROWS, "memory://wrong", data_storage_version=[]),
        lambda: lk.write_dataset(ROWS, "memory://wrong", max_rows_per_file="many"),
        lambda: lk.dataset("memory://wrong", storage_options=5),
        lambda: ours.to_table(filter=5),
        lambda: ours.take("abc"),
        lambda: ours.to_table(filter="(" * 3000 + "i = 3" + ")" * 3000),
        lambda: ours.to_table(columns=["i", "i"]),
    ]
    for call in wrong:
        with pytest.raises(lk.errors.InvalidArgumentError):
            call()


def test_keys_of_types_that_cannot_be_compared(tmp_path) -> None:
    vectors = pa.table({"v": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)), "i": [1]})
    with pytest.raises(lk.errors.InvalidArgumentError, match="cannot be a key"):
        lk.write_dataset(vectors, tmp_path / "d", primary_key="v")
    ds = lk.write_dataset(vectors, tmp_path / "d")
    with pytest.raises(lk.errors.InvalidArgumentError, match="cannot be a key"):
        ds.merge_insert("v").when_matched_update_all().execute(vectors)


def test_handles_travel(tmp_path) -> None:
    ds = lk.write_dataset(ROWS, tmp_path / "d")
    ds.tags.create("t", 1)
    for value in (ds, ds.tags, ds.branches, ds.versions(), ds.scanner(filter="i > 1")):
        again = pickle.loads(pickle.dumps(value))
        assert type(again) is type(value)
    assert pickle.loads(pickle.dumps(ds.tags)).get_version("t") == 1
    pinned = pickle.loads(pickle.dumps(ds.at("t")))
    with pytest.raises(lk.errors.ReadOnlyError):
        pinned.delete("i = 1")


MOVES: dict[str, Any] = {
    "insert": lambda m, ds: ds.insert(ds.to_table()),
    "write_dataset": lambda m, ds: m.write_dataset(ds.to_table(), ds, mode="append"),
    "overwrite": lambda m, ds: m.write_dataset(ds.to_table(), ds, mode="overwrite"),
    "delete": lambda m, ds: ds.delete("i = 1"),
    "delete nothing": lambda m, ds: ds.delete("i = 99"),
    "merge": lambda m, ds: ds.merge_insert("i").when_matched_update_all().execute(ds.head(1)),
    "restore": lambda m, ds: ds.restore(),
    "checkout_version": lambda m, ds: ds.checkout_version(1),
    "checkout_latest": lambda m, ds: (m.write_dataset(ds.head(1), ds, mode="append"),
                                      ds.checkout_latest()),
    "create_branch": lambda m, ds: ds.create_branch("b"),
    "shallow_clone": lambda m, ds: ds.shallow_clone(ds.uri + "-clone", 1),
    "tag": lambda m, ds: ds.tags.create("t"),
    "write elsewhere": lambda m, ds: m.write_dataset(ds.head(1), ds.uri, mode="append"),
}  # fmt: skip


@pytest.mark.parametrize("move", MOVES)
def test_handles_move_as_the_references_do(tmp_path, move: str) -> None:
    seen = []
    for module in (lk, lance):
        path = str(tmp_path / module.__name__)
        ds = module.write_dataset(pa.table({"i": [1, 2]}), path)
        result = MOVES[move](module, ds)
        returned = getattr(result, "version", None) if "Dataset" in type(result).__name__ else None
        seen.append((ds.version, ds.latest_version, ds.count_rows(), returned))
    assert seen[0] == seen[1]


def test_deltas_are_the_references(tmp_path) -> None:
    path = str(tmp_path / "d")
    theirs = lance.write_dataset(
        pa.table({"i": range(20), "s": ["x"] * 20}), path, enable_stable_row_ids=True
    )
    lance.write_dataset(pa.table({"i": [50, 51], "s": ["n", "n"]}), theirs, mode="append")
    theirs.checkout_latest()
    theirs.update({"s": "'u'"}, where="i < 3")
    theirs.delete("i = 10 OR i = 50")
    ours = lk.dataset(path)
    for begin, end in ((1, 4), (1, 2), (2, 3), (3, 4)):
        mine, other = (ds.delta(begin_version=begin, end_version=end) for ds in (ours, theirs))
        for method in ("get_inserted_rows", "get_updated_rows", "get_deleted_row_ids"):
            found, expected = (getattr(d, method)().read_all() for d in (mine, other))
            if end == 4:  # the reference reads rows at its handle's version, not at the end
                ids = (t["_rowid"].to_pylist() for t in (found, expected))
                assert sorted(next(ids)) == sorted(next(ids)), (begin, end, method)
            if method == "get_inserted_rows" and end == 2:
                assert found["i"].to_pylist() == [50, 51]
        assert len(mine.list_transactions()) == len(other.list_transactions()) == end - begin
    assert ours.delta(compared_against=1).end_version == 4
    with pytest.raises(lk.errors.InvalidArgumentError, match="compared_against"):
        ours.delta(begin_version=1)
    plain = lk.write_dataset(ROWS, tmp_path / "plain")
    with pytest.raises(lk.errors.InvalidArgumentError, match="no stable row ids"):
        plain.delta(begin_version=0, end_version=1).get_inserted_rows()


def test_sql(pair) -> None:
    ours, theirs = pair
    for query in (
        "SELECT count(*) AS n, sum(i) AS total FROM dataset",
        "SELECT s, i FROM dataset WHERE i > 1 ORDER BY i",
        "SELECT * FROM dataset WHERE s = 'a'",
    ):
        found, expected = (
            pa.Table.from_batches(ds.sql(query).build().to_batch_records()).to_pydict()
            for ds in (ours, theirs)
        )
        np.testing.assert_equal(found, expected)
    reader = ours.sql("SELECT i, _rowid FROM t").table_name("t").with_row_id().build()
    assert reader.to_stream_reader().read_all().num_rows == 6
    empty = "SELECT i AS x FROM dataset WHERE i > 100"
    found, expected = (ds.sql(empty).build().to_stream_reader() for ds in (ours, theirs))
    assert (found.schema.names, found.schema.types) == (["x"], expected.schema.types)
    with pytest.raises(lk.errors.PredicateError, match="zz"):
        ours.sql("SELECT zz FROM dataset").build().to_batch_records()


def test_scans_of_fragments(pair) -> None:
    ours, _ = pair
    second, reference = (ds.get_fragment(1) for ds in pair)
    assert second.to_table().equals(reference.to_table())
    assert second.take([1]).equals(reference.take([1]))
    assert (second.count_rows(), second.count_rows("i = 1")) == (2, 1)
    assert second.physical_schema == ours.schema
    builder = lk.ScannerBuilder(ours).with_fragments([second]).apply_defaults({"limit": 1})
    assert builder.to_scanner().to_table().num_rows == 1
    for limit, offset in ((1, 0), (1, 1), (5, 1), (1, 2)):
        found, expected = (f.to_table(limit=limit, offset=offset) for f in (second, reference))
        assert found.equals(expected), (limit, offset)


def test_the_way_out_of_the_oldest_format_works(tmp_path):
    old, rows = str(tmp_path / "old"), pa.table({"x": [1, 2]})
    lance.write_dataset(rows, old, data_storage_version="0.1")
    with pytest.raises(NotOfferedError, match=r"format 0\.1") as raised:
        lk.write_dataset(rows, old, mode="append")
    hint = 'write_dataset(rows, uri, mode="overwrite", data_storage_version="2.2")'
    assert hint in raised.value.hint
    eval(f"lk.{hint}", {"lk": lk, "rows": lk.dataset(old).to_table(), "uri": old})  # our own words
    lk.write_dataset(rows, old, mode="append")
    assert lk.dataset(old).to_table().to_pydict() == {"x": [1, 2, 1, 2]}


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_data_files_describe_themselves_as_the_reference_s_do(tmp_path: Path, version: str) -> None:
    table = pa.table({"a": [1, 2], "s": [{"x": 1, "y": "b"}] * 2})
    lk.write_dataset(table, tmp_path / "d", data_storage_version=version)
    names = ("path", "file_major_version", "file_minor_version", "file_size_bytes", "base_id")
    ours, theirs = (
        library.dataset(str(tmp_path / "d")).get_fragments()[0].data_files()[0]
        for library in (lk, lance)
    )
    assert [getattr(ours, name) for name in names] == [getattr(theirs, name) for name in names]
    for name in ("fields", "column_indices"):
        assert list(getattr(ours, name)) == list(getattr(theirs, name))
