"""Changes that come by SQL or by clicks, and versions that say which cell made them, beside what a
table has: the last section of docs/interplay.md."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._hooks import hooks
from lancekit._notebook.explorer.changes import Change, apply_plan, plan_change
from lancekit._notebook.explorer.pages import Reader
from lancekit._provenance import Provenance
from lancekit.errors import (
    ConstraintViolationError,
    InvalidArgumentError,
    PredicateError,
    VersionNotFoundError,
)
from tests.support.interplay import with_bases
from tests.support.remembering import all_remembered

ROWS = {"id": [1, 2, 3, 4], "x": [0, 0, 0, 0]}
NOW = {"older_than": timedelta(0), "error_if_tagged_old_versions": False}


class Cell:
    """A cell that runs: `number` is its own."""

    number = 1

    def run(self, sql: str, **tables: Any) -> Any:
        """Run a statement in the next cell."""
        self.number += 1
        return lk.sql(sql, **tables)

    def click(self, ds: lk.LanceDataset, rows: dict[str, Any]) -> Any:
        """Merge rows by a workbench of the next cell; return the workbench."""
        self.number += 1
        bench = ds.merge_insert("id").interactive(rows)
        assert bench.wait(60)
        bench.apply()
        assert bench.wait(60)
        return bench


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Any:
    one = Cell()
    found = lambda: Provenance(notebook="a.ipynb", cell=str(one.number))  # noqa: E731
    monkeypatch.setattr(hooks, "finders", [found])
    with lk.options(provenance="names"):
        yield one


def made(place: Path, **settings: Any) -> lk.LanceDataset:
    return lk.write_dataset(ROWS, place / "t", primary_key="id", max_rows_per_file=2, **settings)


def values(ds: lk.LanceDataset) -> list[tuple[int, int]]:
    """Return the rows that both libraries read at the newest version of a branch."""
    ds.checkout_latest()
    rows = ds.to_table(["id", "x"]).sort_by("id")
    if ds.branch == "main":
        assert lance.dataset(ds.uri).to_table(["id", "x"]).sort_by("id") == rows
    return list(zip(*rows.to_pydict().values(), strict=True))


def cells(ds: lk.LanceDataset) -> list[str]:
    """Return which cell made each version, the oldest first."""
    return [version.provenance.cell for version in ds.versions()]


def test_branches_and_tags(tmp_path: Path, cell: Cell) -> None:
    ds = made(tmp_path)
    ds.tags.create("one", 1)
    trial = ds.create_branch("trial")
    cell.run("UPDATE t@trial SET x = 1 WHERE id = 1", t=ds)
    found = cell.run("SELECT sum(x) AS s FROM t@trial UNION ALL SELECT sum(x) FROM t", t=ds)
    assert found.to_table()["s"].to_pylist() == [1, 0]
    with pytest.raises(PredicateError):
        cell.run("DELETE FROM t VERSION AS OF 'one'", t=ds)
    cell.number = 9
    apply_plan(Reader(ds), plan_change(Reader(ds), Change("tag", ("trial", trial.version), "two")))
    trial.checkout_latest()
    cell.click(trial, {"id": [2], "x": [2]})
    assert cells(trial)[-2:] == ["2", "10"]
    assert cells(ds) == ["1"]
    assert values(trial)[:2] == [(1, 1), (2, 2)]


def test_clones_and_base_paths(tmp_path: Path, cell: Cell) -> None:
    ds = made(tmp_path)
    clones = [ds.shallow_clone(tmp_path / "s", 1), ds.deep_clone(tmp_path / "d", 1)]
    for clone in clones:
        cell.run("DELETE FROM c WHERE id = 1", c=clone)
        cell.click(clone, {"id": [2, 9], "x": [5, 5]})
        assert values(clone) == [(2, 5), (3, 0), (4, 0), (9, 5)]
        assert cells(clone)[-1] == str(cell.number)
    assert values(ds) == [(i, 0) for i in ROWS["id"]]
    (tmp_path / "bases").mkdir()
    wide = with_bases(lk, tmp_path / "bases")
    cell.run("UPDATE t SET v = 'new' WHERE k = 7", t=wide)
    bench = wide.merge_insert("k").interactive({"k": [1], "v": ["clicked"]})
    assert bench.wait(60)
    bench.apply()
    assert bench.wait(60)
    found = cell.run("SELECT count(*) AS n, max(v) AS v FROM t WHERE k IN (1, 7)", t=wide)
    assert found.to_table().to_pylist() == [{"n": 2, "v": "new"}]


def test_restore_cleanup_and_compaction(tmp_path: Path, cell: Cell) -> None:
    ds = made(tmp_path, enable_stable_row_ids=True)
    ds.tags.create("one", 1)
    cell.run("UPDATE t SET x = 2 WHERE id = 2", t=ds)
    cell.run("OPTIMIZE t", t=ds)
    blamed = ds.blame().sort_by("id")["_changed_from"].to_pylist()
    assert [said.split(" of ")[0] for said in blamed[:2]] == ["cell 1", "cell 2"]
    cell.run("RESTORE t TO VERSION AS OF 'one'", t=ds)
    assert (values(ds)[1], cells(ds)[-1]) == ((2, 0), "4")
    bench = cell.click(ds, {"id": [2], "x": [3]})
    bench.undo()
    assert bench.wait(60)
    assert (values(ds)[1], ds.versions()[-1].operation) == ((2, 0), "Restore")
    ds.cleanup_old_versions(**NOW)
    assert cells(ds) == ["1", "5"]
    with pytest.raises(VersionNotFoundError):
        cell.run("SELECT * FROM t VERSION AS OF 2", t=ds)
    reader = Reader(ds)
    assert reader.selection_event("main")(reader.start(5)).versions == (1, ds.version)


@pytest.mark.parametrize("stable", [False, True])
def test_columns_row_ids_keys_and_deletions(tmp_path: Path, cell: Cell, stable: bool) -> None:
    ds = made(tmp_path, enable_stable_row_ids=stable)
    cell.run("ALTER TABLE t ADD COLUMN y bigint", t=ds)
    cell.run("ALTER TABLE t RENAME COLUMN y TO z", t=ds)
    ids = ds.to_table(["id"], with_row_id=True, filter="id = 2")["_rowid"]
    merge = (
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    cell.run(merge, t=ds, s={"id": [2, 7], "x": [1, 1], "z": [3, 3]})
    cell.run("DELETE FROM t WHERE id = 3", t=ds)
    cell.click(ds, {"id": [1], "x": [8], "z": [None]})
    assert values(ds) == [(1, 8), (2, 1), (4, 0), (7, 1)]
    assert cells(ds) == [str(number) for number in range(1, 7)]
    again = ds.to_table(["id"], with_row_id=True, filter="id = 2")["_rowid"]
    assert (again == ids) == stable
    cell.run("ALTER TABLE t DROP COLUMN z", t=ds)
    assert ds.schema.names == ["id", "x"]


def test_blobs_stay(tmp_path: Path, cell: Cell) -> None:
    schema = pa.schema([("id", pa.int64()), ("x", pa.int64()), lk.blob_field("b")])
    rows = pa.table([[1, 2], [0, 0], lk.blob_array([b"one", b"t" * 100_000])], schema=schema)
    ds = lk.write_dataset(rows, tmp_path / "t", primary_key="id", data_storage_version="2.2")
    cell.click(ds, {"id": [2], "x": [5]})
    cell.run("UPDATE t SET x = 6 WHERE id = 1", t=ds)
    found = ds.to_table(blob_handling="all_binary").sort_by("id").to_pydict()
    assert found == {"id": [1, 2], "x": [6, 5], "b": [b"one", b"t" * 100_000]}
    assert cells(ds) == ["1", "2", "3"]


def test_indices(tmp_path: Path, cell: Cell) -> None:
    ds = made(tmp_path)
    ds.create_scalar_index("id", "BTREE")
    assert cells(ds) == ["1", "1"]
    cell.click(ds, {"id": [5], "x": [5]})
    for wanted in (2, 5):
        found = cell.run("SELECT id FROM t WHERE id = $wanted", t=ds, wanted=wanted)
        assert found.to_table()["id"].to_pylist() == [wanted]
    cell.run("OPTIMIZE t", t=ds)
    (index,) = ds.describe_indices()
    assert index.num_rows_indexed == 5
    cell.run("DELETE FROM t WHERE id = 5", t=ds)
    assert values(ds) == [(i, 0) for i in ROWS["id"]]


def test_write_ahead_logs(tmp_path: Path, cell: Cell) -> None:
    ds = made(tmp_path)
    ds.initialize_mem_wal(unsharded=True)
    ds.mem_wal_upsert({"id": [9], "x": [9]}, flush=True)
    found = cell.run("SELECT count(*) AS n FROM t", t=ds)
    assert found.to_table()["n"].to_pylist() == [4]  # versions alone
    with pytest.raises(InvalidArgumentError, match="unmerged"):
        cell.run("RESTORE t TO VERSION AS OF 1", t=ds)
    assert cell.click(ds, {"id": [1], "x": [1]}).state.phase == "done"
    cell.number = 20
    ds.merge_mem_wal()
    assert cells(ds)[-1] == "20"
    assert values(ds) == [(1, 1), (2, 0), (3, 0), (4, 0), (9, 9)]


def test_diffs_and_histories(tmp_path: Path, cell: Cell) -> None:
    ds = made(tmp_path)
    cell.run("UPDATE t SET x = x + 1 WHERE id < 3", t=ds)
    cell.click(ds, {"id": [2], "x": [7]})
    assert ds.diff(1).counts.updated == 2
    story = [(one.version, one.cells) for one in ds.row_history({"id": 2})[1:]]
    assert story == [(2, {"x": (0, 1)}), (3, {"x": (1, 7)})]
    blamed = ds.blame("id = 2")["_changed_from"].to_pylist()
    assert blamed[0].startswith("cell 3 of a.ipynb")
    assert "cell 3 of a.ipynb" in repr(cell.run("DESCRIBE HISTORY t", t=ds))
    cell.number = 8
    ds.revert(3)
    assert cells(ds) == ["1", "2", "3", "8"]


def test_merges_of_branches(tmp_path: Path, cell: Cell) -> None:
    ds = made(tmp_path)
    trial = ds.create_branch("trial")
    cell.run("UPDATE t@trial SET x = 5 WHERE id = 4", t=ds)
    cell.run("UPDATE t SET x = 1 WHERE id = 1", t=ds)
    trial.checkout_latest()
    cell.number = 8
    reader = Reader(ds)
    apply_plan(reader, plan_change(reader, Change("promote", ("trial", trial.version), "main")))
    assert values(ds) == [(1, 1), (2, 0), (3, 0), (4, 5)]
    assert cells(ds) == ["1", "3", "8"]  # who merged; who wrote is told by the branch
    assert cells(trial)[-1] == "2"


def test_constraints(tmp_path: Path, cell: Cell) -> None:
    ds = made(tmp_path)
    ds.constraints.add("small", "x < 9")
    with pytest.raises(ConstraintViolationError):
        cell.run("UPDATE t SET x = 10", t=ds)
    bench = cell.click(ds, {"id": [1], "x": [10]})
    assert isinstance(bench.state.error, ConstraintViolationError)
    assert values(ds) == [(i, 0) for i in ROWS["id"]]
    assert cells(ds) == ["1", "1"]


def test_others_write_at_once(tmp_path: Path, cell: Cell) -> None:
    ds = made(tmp_path)
    bench = ds.merge_insert("id").interactive({"id": [1], "x": [4]})
    assert bench.wait(60)
    other = lk.dataset(ds.uri)
    cell.run("UPDATE t SET x = 3 WHERE id = 2", t=other)
    cell.run("UPDATE t SET x = x + 1 WHERE id = 2", t=ds)
    assert values(ds)[1] == (2, 4)
    bench.apply()  # it shows what would happen now, and wants to be asked again
    assert bench.wait(60)
    assert (bench.state.phase, ds.latest_version) == ("ready", 3)
    bench.apply()
    assert bench.wait(60)
    assert values(ds)[:2] == [(1, 4), (2, 4)]
    assert cells(ds) == ["1", "2", "3", "3"]


def test_histories_and_diffs_of_what_is_remembered(tmp_path: Path) -> None:
    """What is read once more, from memory, is what is on the disk."""
    with all_remembered():
        kept = _looked_at(tmp_path / "kept")
    with lk.options(cache_bytes=0):
        assert _looked_at(tmp_path / "plain") == kept


@pytest.mark.spark
def test_histories_and_merges_of_branches_beside_spark(spark: object, tmp_path: Path) -> None:
    """They go the same way in this process where all else would run on Spark."""
    here = _looked_at(tmp_path / "here")
    with lk.options(engine="spark"):
        assert _looked_at(tmp_path / "spark") == here


def _looked_at(place: Path) -> list[Any]:
    """Tell a story; return what compares its versions says, more than once."""
    ds = lk.write_dataset(ROWS, place, primary_key="id", max_rows_per_file=2)
    trial = ds.create_branch("trial")
    trial.update({"x": "1"}, where="id = 1")
    ds.update({"x": "2"}, where="id = 2")
    ds.constraints.add("small", "x < 9")
    seen = list[Any]()
    for _ in range(3):
        seen.append(ds.diff(1).to_table().sort_by("id").to_pylist())
        seen.append([(one.version, one.cells) for one in ds.row_history({"id": 2})])
        seen.append(ds.branches.compare("trial").theirs_diff.counts)
        seen.append([(one.name, one.holds) for one in ds.constraints.run()])
    ds.branches.merge("trial")
    seen.append(values(ds))
    return seen
