"""Merges that write columns anew and leave the rows where they are, as pylance does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import lance
import pyarrow as pa
import pytest

import lancekit as lk
import lancekit._pipeline.merge_condition as condition_module
from lancekit._format.operations import Update
from lancekit._pipeline.merge_condition import PairCondition
from lancekit.errors import (
    DuplicateKeysError,
    InvalidArgumentError,
    RetriesExhaustedError,
)
from tests.support.trees import tree_hash

MODE = "rewrite_columns"


def table(rows: int = 60) -> pa.Table:
    number = range(rows)
    return pa.table(
        {
            "id": pa.array(number, pa.int64()),
            "x": pa.array((i % 5 for i in number), pa.int32()),
            "name": [f"old {i}" for i in number],
            "part": [{"a": i, "b": f"b{i}"} for i in number],
        }
    )


def source(*ids: int) -> pa.Table:
    return pa.table(
        {
            "part": [{"a": -i, "b": f"new {i}"} for i in ids],
            "id": pa.array(ids, pa.int64()),
            "x": pa.array([i + 1000 for i in ids], pa.int32()),
        }
    )


SOURCE = source(3, 14, 15, 16, 55, 70, 7)


def make(side: Any, where: Path | str, **settings: Any) -> Any:
    ds = side.write_dataset(table(), str(where), max_rows_per_file=20, **settings)
    ds.delete("id % 10 = 5")
    return ds


def update(ds: Any, condition: str | None = None) -> Any:
    return ds.merge_insert("id").when_matched_update_all(condition).write_mode(MODE)


CONDITION = "source.x > 1010 AND target.name <> 'old 16'"
HIDDEN = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


@pytest.mark.cover
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize(
    "condition", [None, "source.x > 1010 AND target.name <> 'old 16'", "false"]
)
def test_it_is_pylances_version(
    tmp_path: Path, version: str, stable: bool, condition: str | None
) -> None:
    settings = {"data_storage_version": version, "enable_stable_row_ids": stable}
    ours, theirs = (make(side, tmp_path / side.__name__, **settings) for side in (lk, lance))
    result, expected = (update(ds, condition).execute(SOURCE) for ds in (ours, theirs))
    assert dict(result) == expected
    columns = ["_rowaddr", *ours.schema.names, *(HIDDEN if stable else [])]
    rows = ours.to_table(columns=columns)
    assert rows == theirs.to_table(columns=columns)
    assert lance.dataset(str(tmp_path / lk.__name__)).to_table(columns=columns) == rows
    cast(Any, lance.dataset(str(tmp_path / lk.__name__))).validate()
    ours.validate()
    operation, told = (ds.read_transaction(3).operation for ds in (ours, theirs))
    assert set(operation.fields_modified) == set(told.fields_modified)
    assert operation.update_mode.name.lower() == told.update_mode == MODE
    assert operation.updated_fragment_offsets == (told.updated_fragment_offsets or {})
    layouts = [
        [[list(file.fields) for file in fragment.files] for fragment in made.updated_fragments]
        for made in (operation, told)
    ]
    assert layouts[0] == layouts[1]


def test_pylance_4_reads_it(tmp_path: Path, pylance4: Callable[..., Any]) -> None:
    ds = make(lk, tmp_path / "t", data_storage_version="2.1")
    update(ds).execute(SOURCE)
    update(ds).execute(source(4, 14))
    program = """
ds = lance.dataset(arguments["uri"])
result = ds.to_table(columns=["id", "x", "name"]).to_pylist()
"""
    rows = pylance4(program, uri=str(tmp_path / "t"))
    assert rows == ds.to_table(columns=["id", "x", "name"]).to_pylist()
    assert ds.to_table(filter="id = 14")["x"].to_pylist() == [1014]


def test_the_other_columns_are_neither_read_nor_written(tmp_path: Path) -> None:
    ds = make(lk, tmp_path / "t")
    ds.add_columns({"wide": "name"})
    for fragment in ds.get_fragments():
        (tmp_path / "t/data" / fragment.data_files()[1].path).unlink()
    result = update(ds, "target.x < 100").execute(SOURCE)
    assert result["num_updated_rows"] == 4
    assert result.fragments_changed == 1
    assert result.fragments_added == 0
    with pytest.raises(lk.errors.CorruptFileError):
        ds.merge_insert("id").when_matched_update_all().execute(SOURCE)


def test_indices_on_the_columns_are_pruned(tmp_path: Path) -> None:
    theirs = make(lance, tmp_path / "t")
    for name in ("x", "id"):
        theirs.create_scalar_index(name, "BTREE")
    ds = lk.dataset(tmp_path / "t")
    update(ds).execute(SOURCE)
    again = lance.dataset(str(tmp_path / "t"))
    assert again.to_table(filter="x = 1016")["id"].to_pylist() == [16]
    assert again.to_table(filter="id = 16")["x"].to_pylist() == [1016]
    indices = {i.name: set(i.segments[0].fragment_ids) for i in again.describe_indices()}
    assert indices["x_idx"] == {1, 2}
    assert indices["id_idx"] == {0, 1, 2}


WRONG: dict[str, tuple[Any, pa.Table, str]] = {
    "insert": (lambda m: m.when_matched_update_all().when_not_matched_insert_all(), SOURCE, "new"),
    "by source": (
        lambda m: m.when_matched_update_all().when_not_matched_by_source_delete(),
        SOURCE,
        "lacks",
    ),
    "delete": (lambda m: m.when_matched_delete(), SOURCE, "would not be updated"),
    "fail": (lambda m: m.when_matched_fail(), SOURCE, "would not be updated"),
    "whole": (lambda m: m.when_matched_update_all(), table(3), "all columns"),
    "key": (lambda m: m.when_matched_update_all(), SOURCE.select(["id"]), "only the key columns"),
}


@pytest.mark.parametrize("name", WRONG)
def test_its_limits_are_pylances(tmp_path: Path, name: str) -> None:
    clauses, rows, text = WRONG[name]
    ours, theirs = (make(side, tmp_path / side.__name__) for side in (lk, lance))
    before = tree_hash(tmp_path)
    with pytest.raises(OSError, match="cannot express"):
        clauses(theirs.merge_insert("id")).write_mode(MODE).execute(rows)
    builder = clauses(ours.merge_insert("id")).write_mode(MODE)
    for call in (builder.execute, builder.preview, builder.explain, builder.execute_uncommitted):
        with pytest.raises(OSError, match=text) as caught:
            call(rows)
        assert isinstance(caught.value, InvalidArgumentError)
    assert tree_hash(tmp_path) == before


def test_blobs_and_duplicates_are_refused(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "b": pa.array([b"x"], pa.large_binary()), "n": [1]})
    rows = rows.cast(
        pa.schema(
            [
                pa.field("id", pa.int64()),
                pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
                pa.field("n", pa.int64()),
            ]
        )
    )
    blobs = lk.write_dataset(rows, tmp_path / "b", data_storage_version="2.1")
    with pytest.raises(InvalidArgumentError, match="blob column"):
        update(blobs).execute(rows.select(["id", "b"]))
    assert update(blobs).execute({"id": [1], "n": [2]})["num_updated_rows"] == 1
    assert blobs.to_table(columns=["n"])["n"].to_pylist() == [2]
    ds = make(lk, tmp_path / "t")
    with pytest.raises(DuplicateKeysError):
        update(ds).execute(source(1, 1))
    kept = update(ds).dedupe("last").execute(pa.concat_tables([source(1), source(1, 2)]))
    assert kept["num_updated_rows"] == 2


def test_any_change_of_a_fragment_is_in_the_way(tmp_path: Path) -> None:
    ds = make(lk, tmp_path / "t")
    late, later = lk.dataset(tmp_path / "t"), lk.dataset(tmp_path / "t")
    ds.update({"x": "7"}, where="id = 1")
    result = update(late).execute(SOURCE)
    assert result.attempts == 2
    assert late.to_table(filter="id = 1")["x"].to_pylist() == [7]
    with pytest.raises(RetriesExhaustedError):
        update(later).conflict_retries(0).execute(SOURCE)
    elsewhere = lk.dataset(tmp_path / "t")
    late.delete("id = 41")
    assert update(elsewhere).execute(source(3)).attempts == 1


def test_other_modes_move_rows(tmp_path: Path) -> None:
    for mode in ("auto", "rewrite_rows"):
        ds = make(lk, tmp_path / mode)
        made = ds.merge_insert("id").when_matched_update_all().write_mode(mode)
        assert made.execute(SOURCE).fragments_added == 1


def test_uncommitted_and_previewed(tmp_path: Path) -> None:
    ds = make(lk, tmp_path / "t")
    transaction, counts = update(ds).execute_uncommitted(SOURCE)
    assert counts["num_updated_rows"] == 4
    assert isinstance(transaction.operation, Update)
    plan = update(ds).preview(SOURCE)
    assert plan.num_updated_rows == 4
    assert {change.column for change in plan.changes} == {"x", "part"}
    writes = plan.explanation.writes
    assert writes is not None
    assert writes.what.startswith("files with part, x for all rows of each fragment")
    assert writes.rows == 18
    landed = lk.LanceDataset.commit(ds, transaction)
    assert plan.apply()["num_updated_rows"] == 4
    assert ds.to_table(columns=["x"]) == landed.to_table(columns=["x"])


def test_keys_that_change_are_guarded(tmp_path: Path) -> None:
    rows = pa.table({"k": [1, 2, 3], "other": ["a", "b", "c"], "v": [0, 0, 0]})
    ds = lk.write_dataset(rows, tmp_path / "t", primary_key="k")
    late = lk.dataset(tmp_path / "t")
    on_other = ds.merge_insert("other").when_matched_update_all().write_mode(MODE)
    assert on_other.execute({"other": ["a"], "k": [10]}).key_guard is not None
    insert = late.merge_insert("k").when_not_matched_insert_all()
    assert insert.execute({"k": [10], "other": ["z"], "v": [1]})["num_inserted_rows"] == 0


@pytest.mark.parametrize("mode", ["rewrite_rows", MODE])
def test_a_condition_is_asked_of_a_few_pairs_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(condition_module, "rows_at_a_time", lambda _: 3)
    asked: list[int] = []
    holds = PairCondition.holds

    def counted(self: PairCondition, source: pa.Table, target: pa.Table | None) -> Any:
        asked.append(len(source))
        return holds(self, source, target)

    monkeypatch.setattr(PairCondition, "holds", counted)
    ds = lk.write_dataset({"id": range(10), "v": [0] * 10, "w": [1] * 10}, tmp_path / "d")
    merge = ds.merge_insert("id").when_matched_update_all("source.v % 2 = target.w")
    result = merge.write_mode(mode).execute({"id": range(10), "v": range(10)})
    assert (asked, result.num_updated_rows) == ([3, 3, 3, 1], 5)
    expected = [v if v % 2 else 0 for v in range(10)]
    assert ds.to_table().sort_by("id")["v"].to_pylist() == expected


@pytest.mark.cover
@pytest.mark.spark
@pytest.mark.parametrize("condition", [CONDITION, None])
@pytest.mark.parametrize("strategy", ["auto", "closure", "shuffle", "broadcast"])
def test_on_spark_it_gives_the_same(
    spark: Any, tmp_path: Path, strategy: str, condition: str | None
) -> None:
    made = {}
    wide = source(*range(0, 60, 3))
    for engine in ("local", "spark"):
        ds = make(lk, tmp_path / engine, enable_stable_row_ids=True)
        with lk.options(engine=engine, merge_match=strategy):
            told = update(ds, condition).explain(wide)
            result = update(ds, condition).execute(wide)
            assert result.engine == told.engine == engine
        made[engine] = (dict(result), ds.to_table(columns=["_rowaddr", *ds.schema.names, *HIDDEN]))
        lance.dataset(str(tmp_path / engine)).to_table()
    assert made["local"] == made["spark"]


@pytest.mark.spark
def test_a_task_that_fails_leaves_no_file(spark: Any, tmp_path: Path) -> None:
    ds = make(lk, tmp_path / "t")
    file = ds.get_fragments()[1].data_files()[0].path
    frame = spark.createDataFrame(source(*range(60)).select(["id", "x"]).to_pandas())
    (tmp_path / "t/data" / file).rename(tmp_path / "aside")
    before = tree_hash(tmp_path)
    with lk.options(merge_match="shuffle"), pytest.raises(lk.errors.LancekitError):
        update(ds).execute(frame)
    assert tree_hash(tmp_path) == before
