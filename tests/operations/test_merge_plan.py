"""Previews of merges: the counts of what applying does, samples, and not a byte changed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import (
    ColumnNotFoundError,
    DuplicateKeysError,
    InvalidArgumentError,
    InvalidTypeError,
    MatchedRowsError,
    PredicateError,
    ReadOnlyError,
    SchemaMismatchError,
)
from tests.support.cards import show_html, show_text
from tests.support.merge_page import PAGE, page
from tests.support.trees import tree_hash


def target(where: Path | str, **settings: Any) -> lk.LanceDataset:
    table = pa.table(
        {
            "id": pa.array(range(60), pa.int64()),
            "v": [f"old {i}" for i in range(60)],
            "n": pa.array([i % 5 for i in range(60)], pa.int32()),
        }
    )
    ds = lk.write_dataset(table, str(where), max_rows_per_file=25, **settings)
    ds.delete("id = 7")
    return ds


SOURCE = pa.table(
    {
        "id": pa.array([*range(5, 15), *range(58, 64)], pa.int64()),
        "v": [f"new {i}" for i in [*range(5, 15), *range(58, 64)]],
        "n": pa.array([0] * 16, pa.int32()),
    }
)

MATCHED: dict[str, Any] = {
    "keep": lambda m: m,
    "update": lambda m: m.when_matched_update_all(),
    "conditional": lambda m: m.when_matched_update_all("target.n < 3 AND source.id > 8"),
    "delete": lambda m: m.when_matched_delete(),
}
INSERT: dict[str, Any] = {
    "no insert": lambda m: m,
    "insert": lambda m: m.when_not_matched_insert_all(),
}
BY_SOURCE: dict[str, Any] = {
    "stay": lambda m: m,
    "delete rest": lambda m: m.when_not_matched_by_source_delete(),
    "delete some": lambda m: m.when_not_matched_by_source_delete("n = 1"),
}
COMBINATIONS = list(itertools.product(MATCHED, INSERT, BY_SOURCE))[1:]  # the first does nothing


def builder(ds: lk.LanceDataset, combination: tuple[str, str, str]) -> lk.MergeInsertBuilder:
    made = ds.merge_insert("id")
    for table, name in zip((MATCHED, INSERT, BY_SOURCE), combination, strict=True):
        made = table[name](made)
    return made


def check(ds: lk.LanceDataset, where: Path, made: lk.MergeInsertBuilder, source: Any) -> None:
    before, rows, version = tree_hash(where), ds.to_table(), ds.version
    plan = made.preview(source)
    assert tree_hash(where) == before
    assert ds.version == plan.version == version
    result = plan.apply()
    assert dict(plan) == dict(result)
    assert result.engine == plan.explanation.engine == plan.match.engine
    after = {row["id"]: row for row in ds.to_table().to_pylist()}
    old = {row["id"]: row for row in rows.to_pylist()}
    assert len(after) == len(old) + plan.num_inserted_rows - plan.num_deleted_rows
    assert sum(old[i] == after.get(i) for i in old) >= plan.num_unchanged_rows
    assert plan.num_unchanged_rows == len(old) - plan.num_updated_rows - plan.num_deleted_rows
    for change in plan.changes:
        (key,) = change.key
        assert old[key][change.column] == change.old
        assert after[key][change.column] == change.new
        assert change.old != change.new
    shown = {change.key for change in plan.changes}
    assert (len(shown) > 0) == any(i in after and after[i] != old[i] for i in old)
    for row in plan.inserted.to_pylist():
        assert after[row["id"]] == row
        assert row["id"] not in old
    for row in plan.deleted.to_pylist():
        assert old[row["id"]] == row
        assert row["id"] not in after
    assert plan.inserted.num_rows == min(plan.num_inserted_rows, 20)
    assert plan.deleted.num_rows == min(plan.num_deleted_rows, 20)


@pytest.mark.parametrize("combination", COMBINATIONS, ids=" ".join)
def test_every_combination_of_clauses(tmp_path: Path, combination: tuple[str, str, str]) -> None:
    ds = target(tmp_path / "t")
    check(ds, tmp_path, builder(ds, combination), SOURCE)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("combination", "strategy"),
    [
        (("conditional", "insert", "delete some"), "auto"),
        (("update", "insert", "stay"), "closure"),
        (("delete", "insert", "delete rest"), "shuffle"),
        (("conditional", "no insert", "stay"), "shuffle"),
    ],
)
def test_on_spark(spark: Any, tmp_path: Path, combination: Any, strategy: str) -> None:
    ds = target(tmp_path / "t")
    with lk.options(merge_match=strategy):
        check(ds, tmp_path, builder(ds, combination), spark.createDataFrame(SOURCE.to_pandas()))


def test_numbers_of_rows_that_stay(tmp_path: Path) -> None:
    ds = target(tmp_path / "t")
    plan = ds.merge_insert("id").when_matched_update_all("source.id > 8").preview(SOURCE)
    assert (plan.num_updated_rows, plan.num_skipped_rows) == (8, 3)
    assert plan.num_ignored_rows == 5
    assert plan.num_duplicate_rows == 0
    writes = plan.explanation.writes
    assert writes is not None
    assert (writes.rows, writes.exact) == (8, True)
    assert not plan.guarded
    assert plan.rules == ("matched rows are updated, where source.id > 8",)
    plan.close()


def test_some_columns_only(tmp_path: Path) -> None:
    ds = target(tmp_path / "t")
    made = ds.merge_insert("id").when_matched_update_all()
    check(ds, tmp_path, made, SOURCE.select(["id", "v"]))


def test_not_a_number_is_not_changed_by_itself() -> None:
    def rows(x: float, z: str) -> pa.Table:
        values = {"f": x, "s": {"x": x}, "l": [x, 1.0], "d": {"v": [{"x": x}]}, "m": [("a", x)]}
        kinds = {"m": pa.map_(pa.string(), pa.float64())}
        columns = {name: pa.array([value], kinds.get(name)) for name, value in values.items()}
        return pa.table({"k": [1], **columns, "z": [z]})

    ds = lk.write_dataset(rows(float("nan"), "a"), "memory://unchanged-nan")
    made = ds.merge_insert("k").when_matched_update_all()
    with made.preview(rows(float("nan"), "b")) as plan:
        assert [change.column for change in plan.changes] == ["z"]
    with made.preview(rows(1.0, "a")) as plan:
        assert [change.column for change in plan.changes] == ["f", "s", "l", "d", "m"]


@pytest.mark.parametrize("keep", ["first", "last", None])
def test_duplicates(tmp_path: Path, keep: str | None) -> None:
    ds = target(tmp_path / "t")
    twice = pa.concat_tables([SOURCE, SOURCE.slice(0, 4).set_column(1, "v", pa.array(["z"] * 4))])
    made = ds.merge_insert("id").when_matched_update_all()
    with pytest.raises(DuplicateKeysError):
        made.preview(twice)
    made = ds.merge_insert("id", dedupe=keep, dedupe_by=None if keep else "v")
    made = made.when_matched_update_all()
    plan = made.preview(twice)
    assert plan.num_duplicate_rows == 4
    check(ds, tmp_path, made, twice)
    values = ds.to_table(filter="id = 6")["v"].to_pylist()
    assert values == (["new 6"] if keep == "first" else ["z"])


def test_a_reader_is_read_once(tmp_path: Path) -> None:
    ds = target(tmp_path / "t")
    plan = ds.merge_insert("id").when_matched_update_all().preview(iter(SOURCE.to_batches()))
    assert dict(plan.apply()) == dict(plan)


def test_over_a_table_that_moved_it_is_worked_out_anew(tmp_path: Path) -> None:
    ds = target(tmp_path / "t")
    made = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    plan = made.preview(SOURCE)
    other = lk.dataset(tmp_path / "t")
    other.insert(pa.table({"id": [62], "v": ["theirs"], "n": pa.array([9], pa.int32())}))
    result = plan.apply()
    assert (plan.num_inserted_rows, result.num_inserted_rows) == (5, 4)
    assert ds.to_table(filter="id = 62")["v"].to_pylist() == ["new 62"]
    assert ds.count_rows("id = 62") == 1


def test_a_plan_is_applied_once(tmp_path: Path) -> None:
    ds = target(tmp_path / "t")
    made = ds.merge_insert("id").when_matched_update_all()
    plan = made.preview(SOURCE)
    plan.apply()
    with pytest.raises(InvalidArgumentError, match="already applied, as version 3"):
        plan.apply()
    with made.preview(SOURCE) as closed:
        pass
    with pytest.raises(InvalidArgumentError, match="was closed"):
        closed.apply()
    with pytest.raises(AttributeError):
        plan.num_updated_rows = 5  # type: ignore[misc]


def test_faults_are_those_of_the_merge(tmp_path: Path) -> None:
    ds = target(tmp_path / "t")
    with pytest.raises(MatchedRowsError):
        ds.merge_insert("id").when_matched_fail().preview(SOURCE)
    with pytest.raises(SchemaMismatchError):
        ds.merge_insert("id").when_matched_update_all().preview({"id": ["a"]})
    pinned = ds.at(1)
    plan = pinned.merge_insert("id").when_matched_update_all().preview(SOURCE)
    assert plan.version == 1
    with pytest.raises(ReadOnlyError):
        plan.apply()


def test_arguments_of_the_builder(tmp_path: Path) -> None:
    ds = target(tmp_path / "t")
    wrong: list[tuple[Any, type[Exception], str]] = [
        (lambda m: m.when_matched_update_all(5), InvalidTypeError, "condition"),
        (lambda m: m.when_not_matched_by_source_delete(True), InvalidTypeError, "expr"),
        (lambda m: m.dedupe(), InvalidArgumentError, "dedupe"),
        (lambda m: m.dedupe("middle"), InvalidArgumentError, "middle"),
        (lambda m: m.dedupe("first", by="v"), InvalidArgumentError, "'v'"),
        (lambda m: m.write_mode("fast"), InvalidArgumentError, "fast"),
        (lambda m: m.conflict_retries(-1), InvalidArgumentError, "-1"),
        (lambda m: m.retry_timeout(30), InvalidArgumentError, "30"),
        (lambda m: m.execute(SOURCE), InvalidArgumentError, "not configured"),
        (lambda m: m.preview(SOURCE), InvalidArgumentError, "not configured"),
        (lambda m: m.explain(SOURCE), InvalidArgumentError, "not configured"),
    ]
    for call, kind, text in wrong:
        with pytest.raises(kind, match=text):
            call(ds.merge_insert("id"))


@pytest.mark.parametrize(
    ("clause", "text"),
    [
        (lambda m: m.when_matched_update_all("target.vv = 'a'"), "'vv'"),
        (lambda m: m.when_matched_update_all("source.n"), "not true or false"),
        (lambda m: m.when_matched_update_all(" "), "condition of a merge-insert is empty"),
        (lambda m: m.when_not_matched_by_source_delete("nope = 1"), "'nope'"),
        # not all rows: the condition was forgotten
        (lambda m: m.when_not_matched_by_source_delete(""), "expr of a merge-insert is empty"),
    ],
)
def test_conditions_are_checked_where_no_row_asks_for_them(
    tmp_path: Path, clause: Any, text: str
) -> None:
    ds = target(tmp_path / "t")
    before = tree_hash(tmp_path)
    new = pa.table({"id": [1000], "v": ["x"], "n": pa.array([0], pa.int32())})
    works: tuple[Callable[[Any], Any], ...] = (
        lambda m: m.execute(new),
        lambda m: m.execute(ds.to_table()),
        lambda m: m.preview(new),
        lambda m: m.explain(new),
        lambda m: m.explain(schema=new.schema),
    )
    for work in works:
        with pytest.raises(PredicateError, match=text):
            work(clause(ds.merge_insert("id").when_not_matched_insert_all()))
    assert tree_hash(tmp_path) == before


@pytest.mark.parametrize("make", [pd.DataFrame, dict])
def test_a_plan_keeps_rows_that_the_caller_changes_afterwards(tmp_path: Path, make: Any) -> None:
    ds = target(tmp_path / "t")
    ids, n = np.array([2, 99]), np.array([7, 8], np.int32)
    rows = make({"id": ids, "n": n})
    plan = ds.merge_insert("id").when_matched_update_all().preview(rows)
    for values in (ids, rows["id"]):
        values[0] = 3
    plan.apply()
    found = ds.to_table(columns=["id", "n"], filter="id IN (2, 3)").to_pylist()
    assert found == [{"id": 3, "n": 3}, {"id": 2, "n": 7}]


def test_an_explanation_checks_the_schema_that_it_is_given(tmp_path: Path) -> None:
    made = target(tmp_path / "t").merge_insert("id").when_matched_update_all()
    with pytest.raises(ColumnNotFoundError, match="'id'"):
        made.explain(schema=pa.schema({"v": pa.string()}))
    with pytest.raises(InvalidTypeError, match=r"schema must be .* got 5"):
        made.explain(schema=5)
    made.write_mode("rewrite_columns")
    with pytest.raises(InvalidArgumentError, match="schema="):
        made.explain()
    told = made.explain(schema=pa.schema({"id": pa.int64(), "v": pa.string()}))
    assert told.writes is not None
    assert "files with v" in told.writes.what


@pytest.mark.parametrize("condition", ["true", "source.n > 3", "target.n > 3"])
def test_a_condition_reads_no_more_than_it_names(tmp_path: Path, condition: str) -> None:
    ds = target(tmp_path / "t")
    made = ds.merge_insert("id").when_matched_update_all(condition)
    expected = {"true": 11, "source.n > 3": 0, "target.n > 3": 3}
    assert made.execute(SOURCE)["num_updated_rows"] == expected[condition]


def test_explanations_and_plans_as_text(tmp_path: Path) -> None:
    ds = target(tmp_path / "t")
    before = tree_hash(tmp_path)
    made = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    told = made.explain(SOURCE)
    assert told.engine == "local"
    assert "16 keys are looked up among 59 rows" in told.why
    assert told.reads is not None
    assert told.reads.columns == ("id",)
    assert "merge_insert of main:2" in made.explain_plan()
    assert "merge_insert" in lance.dataset(str(tmp_path / "t")).merge_insert(
        "id"
    ).when_matched_update_all().explain_plan().lower().replace("mergeinsert", "merge_insert")
    assert "nothing was written" in made.analyze_plan(SOURCE)
    assert "nothing was written" in made.analyze_plan_batches(iter(SOURCE.to_batches()))
    assert tree_hash(tmp_path) == before


def test_datasets_are_sources(tmp_path: Path) -> None:
    ds = target(tmp_path / "t")
    other = lk.write_dataset(SOURCE, tmp_path / "s")
    made = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    assert made.preview(other).num_updated_rows == 11
    assert made.execute(lance.dataset(str(tmp_path / "s"))).num_inserted_rows == 5


def test_the_card(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1, 2, 3], "<b>": ["a", "b", "c"]}, tmp_path / "t")
    made = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    plan = made.when_not_matched_by_source_delete().preview({"id": [2, 9], "<b>": ["<i>", "z"]})
    text = show_text(plan)
    assert "1 to insert · 1 to update · 2 to delete · 0 unchanged" in text
    assert "→ '<i>'" in text
    assert "plan.apply()" in text
    html = show_html(plan)
    assert "<i>" not in html.replace("&lt;i&gt;", "")
    assert '<th scope="col">&lt;b&gt;</th>' in html


def test_the_page_is_up_to_date() -> None:
    text = PAGE.read_text()
    assert text == page(text)
