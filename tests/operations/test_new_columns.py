"""Rows with columns that the dataset lacks: an append or a merge adds these in the same commit."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lancekit as lk
from lancekit.errors import (
    ConstraintViolationError,
    InvalidArgumentError,
    SchemaMismatchError,
)
from tests.support.patience import HANG_SECONDS

Rows = list[dict[str, Any]]


def both(path: Path) -> Rows:
    """Return the rows, which are the same for the reference."""
    rows: Rows = lk.dataset(path).to_table().to_pylist()
    assert lance.dataset(str(path)).to_table().to_pylist() == rows
    return rows


def test_an_append_adds_columns_in_one_commit(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1], "s": [{"a": 1}]}, tmp_path / "d")
    more = {"id": [2], "s": [{"a": 2, "b": "x"}], "new": [1.5]}
    lk.write_dataset(more, ds, mode="append", schema_mode="merge", commit_message="wider")
    assert both(tmp_path / "d") == [
        {"id": 1, "s": {"a": 1, "b": None}, "new": None},
        {"id": 2, "s": {"a": 2, "b": "x"}, "new": 1.5},
    ]
    history = lk.dataset(tmp_path / "d").versions()
    assert [v.message for v in history] == [None, "wider"]
    ds = lk.dataset(tmp_path / "d")
    ds.validate()
    ds.undo()
    assert both(tmp_path / "d") == [{"id": 1, "s": {"a": 1}}]


def test_without_the_argument_the_error_names_it(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "d", primary_key="id")
    with pytest.raises(SchemaMismatchError, match=r"Drop 'new', or add them .*schema_mode"):
        ds.insert({"id": [2], "new": [1]})
    merge = ds.merge_insert().when_matched_update_all()
    with pytest.raises(SchemaMismatchError, match="schema_mode"):
        merge.execute({"id": [1], "new": [1]})
    for mode, says in (("overwrite", "keeps the dataset's columns"), ("none", "must be 'merge'")):
        with pytest.raises(InvalidArgumentError, match=says):
            lk.write_dataset(
                {"id": [2]},
                ds,
                mode="overwrite",
                schema_mode="merge" if mode == "overwrite" else mode,
            )
    with pytest.raises(SchemaMismatchError, match="differs from 'id' only in case"):
        ds.insert({"id": [2], "ID": [1]}, schema_mode="merge")
    assert ds.version == 1


def test_the_answer_names_rows_and_columns(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1, 2, 3]}, tmp_path / "d")
    said = ds.insert({"id": [4], "new": [1]}, schema_mode="merge")
    assert repr(said).startswith("inserted 1 row into 1 fragment · main:2; added columns new")


def test_no_new_column_is_a_usual_append(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1], "x": [1]}, tmp_path / "d")
    ds.insert({"id": [2]}, schema_mode="merge")
    assert ds.versions()[-1].operation == "Append"
    assert both(tmp_path / "d")[-1] == {"id": 2, "x": None}
    made = lk.write_dataset({"id": [1]}, tmp_path / "e", mode="append", schema_mode="merge")
    assert made.version == 1


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("mode", ["auto", "rewrite_columns"])
def test_a_merge_adds_columns(tmp_path: Path, stable: bool, mode: str) -> None:
    ds = lk.write_dataset(
        {"id": [1, 2, 3], "x": [1, 2, 3]},
        tmp_path / "d",
        primary_key="id",
        enable_stable_row_ids=stable,
        max_rows_per_file=2,
    )
    ds.create_scalar_index("x", "BTREE")
    merge = ds.merge_insert(schema_mode="merge").when_matched_update_all()
    rows = {"id": [3, 9], "late": [True, False]}
    with pytest.raises(SchemaMismatchError):
        ds.merge_insert().when_matched_update_all().execute(rows)
    if mode == "auto":
        merge = merge.when_not_matched_insert_all()
    found = merge.write_mode(mode).preview(rows)
    assert (found.num_updated_rows, found.num_inserted_rows) == (1, int(mode == "auto"))
    assert ds.columns == ["id", "x"]
    merge.execute(rows)
    late = {row["id"]: row["late"] for row in both(tmp_path / "d")}
    assert late == {1: None, 2: None, 3: True} | ({9: False} if mode == "auto" else {})
    assert ds.to_table(filter="x = 2")["id"].to_pylist() == [2]
    assert ds.versions()[-1].operation == "Merge"
    ds.validate()
    ds.optimize.compact_files()
    assert {row["id"]: row["late"] for row in both(tmp_path / "d")} == late
    with pytest.raises(InvalidArgumentError, match="which only a commit can do"):
        merge.execute_uncommitted({"id": [3], "more": [1]})
    again = ds.merge_insert().when_matched_update_all()
    again.execute({"id": [3], "later": [1]}, schema_mode="merge")
    assert ds.to_table(filter="id = 3")["later"].to_pylist() == [1]
    deletes = ds.merge_insert(schema_mode="merge").when_matched_delete()
    with pytest.raises(SchemaMismatchError):
        deletes.execute({"id": [3], "more": [1]})


@pytest.mark.parametrize("rows", [{"n": [5]}, {"n": [5], "w": [6]}])
def test_columns_rewritten_in_place_update_the_matched_rows_alone(
    tmp_path: Path, rows: dict[str, list[int]]
) -> None:
    ds = lk.write_dataset(
        {"id": range(6), "w": [0] * 6, "x": [0] * 6},
        tmp_path / "d",
        enable_stable_row_ids=True,
        max_rows_per_file=5,
    )
    merge = ds.merge_insert("id", schema_mode="merge").write_mode("rewrite_columns")
    found = merge.when_matched_update_all().execute({"id": [3], **rows})
    assert found.columns_added == ("n",)
    for module in (lance, lk):
        opened: Any = module.dataset(str(tmp_path / "d"))
        feed = opened.delta(compared_against=1).get_updated_rows().read_all()
        assert feed.select(["id", "n"]).to_pylist() == [{"id": 3, "n": 5}]
    assert lk.dataset(tmp_path / "d").diff(1).counts.updated == 1


def test_a_merge_says_which_columns_it_added(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "d", primary_key="id")
    merge = ds.merge_insert(schema_mode="merge").when_matched_update_all()
    found = merge.execute({"id": [7], "new": [1]})
    assert "; added columns new; note no row changed;" in repr(found)
    assert merge.execute({"id": [1], "new": [2]}).columns_added == ()


NAMES = ("a", "b", "c", "d")


@settings(max_examples=25, deadline=None)
@given(data=st.data(), stable=st.booleans())
def test_any_writes_are_as_in_a_model(
    data: st.DataObject, stable: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("model") / "d"
    lk.write_dataset(
        pa.table({"id": pa.array([0], pa.int64())}),
        path,
        primary_key="id",
        enable_stable_row_ids=stable,
    )
    model: dict[int, dict[str, Any]] = {0: {}}
    for _ in range(data.draw(st.integers(1, 5))):
        columns = data.draw(st.lists(st.sampled_from(NAMES), unique=True))
        what = data.draw(st.sampled_from(["append", "merge", "delete"]))
        ids = data.draw(st.lists(st.integers(0, 9), unique=True, min_size=1))
        if what == "append":
            ids = [one for one in ids if one not in model]
        rows = pa.table({"id": pa.array(ids, pa.int64())})
        values: dict[str, list[int | None]] = {}
        for name in columns:
            some = st.one_of(st.none(), st.integers(0, 99))
            values[name] = data.draw(st.lists(some, min_size=len(ids), max_size=len(ids)))
            rows = rows.append_column(name, pa.array(values[name], pa.int64()))
        if what == "delete":
            lk.dataset(path).delete(f"id IN ({', '.join(map(str, ids))})")
            model = {key: row for key, row in model.items() if key not in ids}
            continue
        if what == "append":
            lk.write_dataset(rows, path, mode="append", schema_mode="merge")
        else:
            merge = lk.dataset(path).merge_insert("id", schema_mode="merge")
            merge.when_matched_update_all().when_not_matched_insert_all().execute(rows)
        for at, key in enumerate(ids):
            model.setdefault(key, {}).update({name: values[name][at] for name in columns})
    known = [name for name in lk.dataset(path).columns if name != "id"]
    expected = {key: {n: row.get(n) for n in known} for key, row in model.items()}
    assert {row.pop("id"): row for row in both(path)} == expected
    lk.dataset(path).validate()


def test_constraints_hold(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "d", primary_key="id")
    ds.constraints.add("positive", "id > 0")
    for rows in ({"id": [-1], "new": [1]}, {"id": [-2], "other": [1]}):
        with pytest.raises(ConstraintViolationError):
            ds.insert(rows, schema_mode="merge")
        merge = ds.merge_insert(schema_mode="merge").when_not_matched_insert_all()
        with pytest.raises(ConstraintViolationError):
            merge.execute(rows)
    assert both(tmp_path / "d") == [{"id": 1}]
    files = {one.name for one in (tmp_path / "d" / "data").iterdir()}
    assert len(files) == 1  # files of refused writes are removed


def test_another_writer_lands_first(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "d", primary_key="id")
    first, second = lk.dataset(tmp_path / "d"), lk.dataset(tmp_path / "d")
    ds.insert({"id": [2]})
    first.insert({"id": [3], "new": [3]}, schema_mode="merge")  # on top of other rows
    assert [row["id"] for row in both(tmp_path / "d")] == [1, 2, 3]
    with pytest.raises(lk.errors.CommitConflictError, match="changed the columns"):
        second.insert({"id": [4], "more": [4]}, schema_mode="merge")
    merge = second.merge_insert(schema_mode="merge").when_not_matched_insert_all()
    merge.execute({"id": [4], "more": [4]})  # a merge is computed again
    assert both(tmp_path / "d")[-1] == {"id": 4, "new": None, "more": 4}


def _write(path: str, number: int) -> None:
    ds = lk.dataset(path)
    merge = ds.merge_insert("id", schema_mode="merge").when_matched_update_all()
    merge = merge.when_not_matched_insert_all().conflict_retries(30)
    for at in range(4):
        merge.execute({"id": [number, 100 + at], f"c{number}": [at, at]})


def test_writers_add_columns_at_the_same_time(tmp_path: Path) -> None:
    lk.write_dataset({"id": [0]}, tmp_path / "d", primary_key="id")
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(str(tmp_path / "d"), n)) for n in (1, 2, 3)]
    for one in writers:
        one.start()
    for one in writers:
        one.join(HANG_SECONDS)
        assert one.exitcode == 0
    rows = {row.pop("id"): row for row in both(tmp_path / "d")}
    assert rows.keys() == {0, 1, 2, 3, 100, 101, 102, 103}
    for n in (1, 2, 3):
        assert rows[n][f"c{n}"] == 3
        assert [rows[100 + at][f"c{n}"] for at in range(4)] == [0, 1, 2, 3]


def test_a_table_with_shards_keeps_its_columns(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "d", primary_key="id")
    ds.mem_wal_upsert({"id": [2]})
    with pytest.raises(InvalidArgumentError, match="A table with shards cannot"):
        ds.insert({"id": [3], "new": [3]}, schema_mode="merge")
    merge = ds.merge_insert(schema_mode="merge").when_matched_update_all()
    with pytest.raises(InvalidArgumentError, match="A table with shards cannot"):
        merge.execute({"id": [1], "new": [3]})
    ds.merge_mem_wal(flush=True)
    assert [row["id"] for row in both(tmp_path / "d")] == [1, 2]


def test_on_a_branch_with_base_paths_and_blobs(tmp_path: Path) -> None:
    rows = pa.table(
        [pa.array([1]), lk.blob_array([b"one"])],
        pa.schema([pa.field("id", pa.int64()), lk.blob_field("b")]),
    )
    ds = lk.write_dataset(rows, tmp_path / "d")
    ds.tags.create("before")
    trial = ds.create_branch("trial")
    trial.insert({"id": [2], "new": ["x"]}, schema_mode="merge")
    assert trial.to_table(columns=["id", "new"]).to_pylist() == [
        {"id": 1, "new": None},
        {"id": 2, "new": "x"},
    ]
    assert trial.read_blobs("b", indices=[0])[0][1] == b"one"
    assert ds.columns == ["id", "b"]
    ds.branches.merge("trial")
    assert ds.to_table(columns=["id", "new"])["new"].to_pylist() == [None, "x"]
    assert ds.tags["before"].columns == ["id", "b"]


def test_the_reference_goes_on(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "d", primary_key="id")
    ds.insert({"id": [2], "new": [2]}, schema_mode="merge")
    theirs = lance.dataset(str(tmp_path / "d"))
    theirs.update({"new": "7"}, where="id = 1")
    theirs.delete("id = 2")
    lance.write_dataset(pa.table({"id": [3], "new": [3]}), theirs, mode="append")
    assert both(tmp_path / "d") == [{"id": 3, "new": 3}, {"id": 1, "new": 7}] or sorted(
        row["id"] for row in both(tmp_path / "d")
    ) == [1, 3]


@pytest.mark.spark
def test_on_spark(spark: Any, tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1, 2]}, tmp_path / "d", primary_key="id")
    frame = spark.createDataFrame([(3, "x")], "id bigint, new string")
    ds.insert(frame, schema_mode="merge")
    assert both(tmp_path / "d")[-1] == {"id": 3, "new": "x"}
    frame = spark.createDataFrame([(1, 5), (4, 6)], "id bigint, more int")
    merge = ds.merge_insert(schema_mode="merge").when_matched_update_all()
    merge.when_not_matched_insert_all().execute(frame)
    rows = {row.pop("id"): row for row in both(tmp_path / "d")}
    assert rows[1] == {"new": None, "more": 5}
    assert rows[4] == {"new": None, "more": 6}
    assert rows[3] == {"new": "x", "more": None}


def test_a_function_may_not_make_numbers_infinite() -> None:
    ds = lk.write_dataset({"x": [1.0, 1e300]}, "memory://infinite-of-functions")
    narrow = lk.batch_udf(output_schema=pa.schema({"y": pa.float32()}))
    with pytest.raises(InvalidArgumentError, match="beyond the range of float would become inf"):
        ds.add_columns(narrow(lambda rows: pa.record_batch({"y": rows["x"]})))
    ds.delete("x > 1")
    ds.add_columns(narrow(lambda rows: pa.record_batch({"y": rows["x"]})))
    assert ds.to_table()["y"].to_pylist() == [1.0]
