"""The feed of changes: commit by commit, and over the gaps that a cleanup leaves."""

from __future__ import annotations

import pickle
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import InvalidArgumentError, UnsupportedFeatureError
from tests.support.counted_steps import counted_steps
from tests.support.faults import Faults, injected


@pytest.fixture
def table(tmp_path: Path) -> lk.LanceDataset:
    """Version 2 deletes, 3 only compacts, 4 updates, 5 adds a column, 6 appends."""
    rows = {"id": list(range(10)), "v": ["a"] * 10}
    ds = lk.write_dataset(rows, tmp_path / "t", primary_key="id", max_rows_per_file=5)
    ds.delete("id = 3")
    ds.optimize.compact_files()
    compacted = ds.version
    ds.update({"v": "'b'"}, where="id < 2")
    ds.add_columns({"w": "id * 2"})
    ds.insert({"id": [20], "v": ["c"], "w": [1]}, mode="append")
    assert ds.version == compacted + 3
    return ds


def kinds(feed: pa.Table) -> Counter[tuple[int, str]]:
    found = zip(feed["_commit_version"].to_pylist(), feed["_change"].to_pylist(), strict=True)
    return Counter(found)


def test_each_commit_by_itself(table: lk.LanceDataset) -> None:
    feed = table.changes(1)
    newest = table.version
    assert [step.new for step in feed.steps] == list(range(2, newest + 1))
    assert not feed.gaps
    assert kinds(feed.to_table()) == {
        (2, "delete"): 1,
        (newest - 2, "update_before"): 2,
        (newest - 2, "update_after"): 2,
        (newest - 1, "update_before"): 9,
        (newest - 1, "update_after"): 9,
        (newest, "insert"): 1,
    }
    rows = feed.to_table()
    assert rows.column_names == ["_change", "id", "v", "_commit_version", "_commit_timestamp", "w"]
    times = {v["version"]: v["timestamp"].astimezone() for v in table.versions()}
    assert rows["_commit_timestamp"][0].as_py() == times[2]
    assert sum(batch.num_rows for batch in feed.to_batches(2)) == rows.num_rows
    for wrong in ({"batch_size": 0}, {"names": "spark"}):
        with pytest.raises(InvalidArgumentError):
            feed.to_batches(**wrong)  # before the first batch is taken
    assert "_change_type" in feed.to_pandas(names="delta").columns


def test_some_of_it(table: lk.LanceDataset) -> None:
    newest = table.version
    assert kinds(table.changes(newest - 1).to_table()) == {(newest, "insert"): 1}
    assert kinds(table.changes(1, 2).to_table()) == {(2, "delete"): 1}
    assert kinds(table.changes(1, columns=["v"]).to_table())[newest - 1, "update_after"] == 0
    assert table.changes(1, filter="id = 20").to_table()["id"].to_pylist() == [20]
    nothing = table.changes(newest)
    assert nothing.steps == []
    assert nothing.to_table().column_names[-2:] == ["_commit_version", "_commit_timestamp"]
    with pytest.raises(InvalidArgumentError, match="does not come after"):
        table.changes(3, 2)
    branch = table.create_branch("b", 2)
    with pytest.raises(InvalidArgumentError, match="does not come after"):
        table.changes(("b", branch.version))


def test_each_commit_costs_the_same(tmp_path: Path) -> None:
    def cost_of(commits: int) -> tuple[int, int]:
        ds = lk.write_dataset({"id": [0], "v": [0]}, tmp_path / str(commits), primary_key="id")
        for at in range(commits):
            ds.insert({"id": [at + 1], "v": [0]})
        with injected(Faults()) as faults, counted_steps() as steps:
            assert lk.dataset(ds.uri).changes(1).to_table().num_rows == commits
        return len(faults.calls), steps[0]

    cost_of(5)  # loads modules
    (some, steps), (twice, twice_the_steps), (thrice, _) = map(cost_of, (10, 20, 30))
    assert 0 < thrice - twice == twice - some
    assert twice_the_steps < 2.2 * steps


def test_versions_that_are_gone(table: lk.LanceDataset) -> None:
    table.tags.create("first", 1)
    table.cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=False)
    feed = table.changes("first")
    assert feed.gaps == [(1, table.version)]
    (step,) = feed.steps
    assert step.commits == table.version - 1
    found = kinds(feed.to_table())
    assert found[table.version, "delete"] == 1
    assert found[table.version, "insert"] == 1
    assert found[table.version, "update_after"] == 9


def test_a_column_whose_types_have_nothing_in_common(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1], "v": ["a"]}, tmp_path / "t", primary_key="id")
    ds.update({"v": "'b'"})
    ds.drop_columns(["v"])
    ds.add_columns({"v": "id + 5"})
    feed = ds.changes(1)
    with pytest.raises(UnsupportedFeatureError, match="v has incompatible types"):
        feed.to_table()
    kinds_of_v = [b.schema.field("v").type for b in feed.to_batches() if "v" in b.schema.names]
    assert set(kinds_of_v) == {pa.string(), pa.int64()}
    assert ds.changes(1, 2).to_table().num_rows == 2


def test_feeds_and_diffs_are_pickled_after_they_were_read(table: lk.LanceDataset) -> None:
    feed, diff = table.changes(1), table.diff(1)
    rows, changed = feed.to_table(), diff.to_table()
    again, diff_again = pickle.loads(pickle.dumps((feed, diff)))
    assert again.to_table() == rows
    assert diff_again.to_table() == changed
