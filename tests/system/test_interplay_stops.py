"""Stops between batches, checkpoints of functions and duplicates of keys, beside what else a table
has: the last table of docs/interplay.md."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancekit as lk
from lancekit import progress
from lancekit._scan import fragment_rows
from lancekit.errors import ConstraintViolationError, InvalidArgumentError
from tests.support.interplay import NOW, contents, with_bases
from tests.support.patience import until
from tests.system.test_stops import steps_made

COUNT = 600
OUTPUT = pa.schema({"y": pa.int64()})


@pytest.fixture
def ds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> lk.LanceDataset:
    """Make a table of three fragments, which is read by few rows at a time."""
    monkeypatch.setattr(progress, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(fragment_rows, "block_rows", lambda *_: 50)
    rows = {
        "id": range(COUNT),
        "x": [0] * COUNT,
        "b": lk.blob_array([b"%d" % i for i in range(COUNT)]),
    }
    return lk.write_dataset(
        rows, tmp_path / "t", primary_key="id", max_rows_per_file=200, enable_stable_row_ids=True
    )


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    def call(work: Callable[[], object]) -> None:
        with monkeypatch.context() as within:
            steps_made(within, 2)
            with pytest.raises(KeyboardInterrupt):
                work()
        # a thread that was being started is waited for by nobody
        until(lambda: not [t for t in threading.enumerate() if t.name.startswith("lancekit_")])

    return call


def values(uri: str, at: Any = None, column: str = "x") -> dict[int, int]:
    """Read a column by both libraries, by its key."""
    found = []
    for module in (lance, lk):
        dataset: Any = module.dataset(uri)
        table = (dataset if at is None else dataset.checkout_version(at)).to_table(["id", column])
        found.append(dict(zip(*table.to_pydict().values(), strict=True)))
    assert found[1] == found[0]
    return found[1]


# ---- stops


def test_a_stop_changes_no_line_and_leaves_no_file(ds: lk.LanceDataset, stopped: Any) -> None:
    branch = ds.create_branch("b")
    ds.tags.create("t", 1)
    ds.shallow_clone(f"{ds.uri}-clone", "t")
    clone = lk.dataset(f"{ds.uri}-clone")
    ds.constraints.add("small", "x < 9")
    version, folder = ds.version, Path(ds.uri).parent
    before = contents(folder).keys()
    merged = pa.table({"id": range(COUNT + 9), "x": [1] * (COUNT + 9)})
    for one in (ds, branch, clone):
        upsert = one.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        for work in (
            lambda one=one: one.update({"x": "x + 1"}),
            lambda one=one: one.delete("id % 2 = 0"),
            lambda one=one: one.replace_columns({"x": "x + 1"}),
            lambda one=one: one.optimize.compact_files(),
            lambda one=one: one.create_scalar_index("id", "BTREE"),
            lambda one=one, upsert=upsert: upsert.execute(merged),
        ):
            stopped(work)
            assert contents(folder).keys() == before
    stopped(lambda: ds.constraints.add("positive", "x >= 0"))
    stopped(lambda: ds.validate(deep=True))
    assert ds.version == version
    assert set(values(ds.uri).values()) == set(values(ds.uri, ("b", None)).values()) == {0}
    ds.update({"x": "x + 1"}, where="id < 2")
    branch.delete("id = 5")
    assert [one.name for one in ds.constraints.list()] == ["small"]
    assert sum(values(ds.uri).values()) == 2
    assert len(values(clone.uri)) == COUNT
    assert 5 not in values(ds.uri, ("b", None))
    ids = ds.to_table(["_rowid"])["_rowid"].to_pylist()
    assert sorted(ids) == list(range(COUNT))
    assert ds.diff(version).counts.updated == 2


def test_a_stopped_merge_of_branches_lands_nothing(ds: lk.LanceDataset) -> None:
    branch = ds.create_branch("b")
    branch.update({"x": "7"}, where="id % 3 = 0")
    ds.update({"x": "1"}, where="id % 3 < 2")
    version = ds.version
    before = contents(Path(ds.uri)).keys()

    def stops(_: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ds.branches.merge("b", conflicts=stops)
    assert (lk.dataset(ds.uri).version, contents(Path(ds.uri)).keys()) == (version, before)
    ds.branches.merge("b", conflicts="theirs")
    assert values(ds.uri) == {i: (7, 1, 0)[i % 3] for i in range(COUNT)}


def test_a_stopped_write_leaves_nothing_in_base_paths(tmp_path: Path) -> None:
    ds = with_bases(lk, tmp_path)
    before = contents(tmp_path).keys()

    def batches() -> Any:
        for number in range(3):
            if number == 2:
                raise KeyboardInterrupt
            yield pa.record_batch({"k": [100 + number], "v": ["x"]}, ds.schema)

    reader = pa.RecordBatchReader.from_batches(ds.schema, batches())
    with pytest.raises(KeyboardInterrupt):
        lk.write_dataset(reader, ds, mode="append", target_bases=["p"], max_rows_per_file=1)
    assert contents(tmp_path).keys() == before


def test_others_write_while_one_is_stopped(ds: lk.LanceDataset, stopped: Any) -> None:
    other = lk.dataset(ds.uri)
    stopped(lambda: ds.update({"x": "x + 1"}))
    other.update({"x": "x + 5"}, where="id = 3")
    ds.update({"x": "x + 1"})
    assert values(ds.uri)[3] == 6
    ds.checkout_version(1).restore()
    assert set(values(ds.uri).values()) == {0}


# ---- checkpoints of functions


class Doubles:
    """Doubles `id`; stops after some rows, and counts those that it got."""

    def __init__(self, most: int = COUNT) -> None:
        self.most, self.rows = most, 0

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __call__(self, batch: pa.RecordBatch) -> Any:
        if self.rows + batch.num_rows > self.most:
            raise KeyboardInterrupt
        self.rows += batch.num_rows
        return {"y": pc.multiply(batch["id"], 2)}


def double(ds: lk.LanceDataset, function: Any, file: Path) -> None:
    ds.add_columns(lk.batch_udf(OUTPUT, file)(function), batch_size=100)


def stop_double(ds: lk.LanceDataset, file: Path) -> None:
    with pytest.raises(KeyboardInterrupt) as caught:
        double(ds, Doubles(300), file)
    assert "results for 300 rows are kept" in "".join(caught.value.__notes__)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kept"


def doubled(uri: str, at: Any = None) -> bool:
    found = values(uri, at, "y")
    return found == {i: 2 * i for i in found}


def test_results_belong_to_one_line(ds: lk.LanceDataset, tmp_path: Path, file: Path) -> None:
    branch = ds.create_branch("b")
    ds.shallow_clone(str(tmp_path / "c"), 1)
    stop_double(ds, file)
    with pytest.warns(UserWarning, match=r"differs in the dataset, the version of the d"):
        double(branch, on_branch := Doubles(), file)
    assert on_branch.rows == COUNT
    stop_double(ds, file)
    with pytest.warns(UserWarning, match=r"differs in the dataset\."):
        double(lk.dataset(tmp_path / "c"), Doubles(), file)
    assert doubled(ds.uri, ("b", None))
    assert doubled(str(tmp_path / "c"))
    assert "y" not in lk.dataset(ds.uri).schema.names


@pytest.mark.parametrize("change", ["restore", "compact", "drop", "delete"])
def test_results_belong_to_one_version(ds: lk.LanceDataset, file: Path, change: str) -> None:
    stop_double(ds, file)
    match change:
        case "restore":
            ds.checkout_version(1).restore()
        case "compact":
            ds.optimize.compact_files()
        case "drop":
            ds.drop_columns(["x"])
        case _:
            ds.delete("id < 50")
    ds = lk.dataset(ds.uri)
    with pytest.warns(UserWarning, match="starts again\\. It differs in the version of the data"):
        double(ds, again := Doubles(), file)
    assert again.rows == ds.count_rows()
    assert doubled(ds.uri)


def test_a_checkpoint_outlives_what_is_beside_it(ds: lk.LanceDataset, file: Path) -> None:
    """Tags, cleanups, indices and constraints of the same version change nothing."""
    ds.constraints.add("small", "x < 9")
    ds.create_scalar_index("id", "BTREE")
    stop_double(ds, file)
    ds.tags.create("t", ds.version)
    ds.cleanup_old_versions(older_than=NOW, delete_unverified=True)
    assert file.exists()
    with lk.options(cache_bytes=0):
        double(ds, rest := Doubles(), file)
    assert rest.rows == COUNT - 300
    assert doubled(ds.uri)
    assert ds.to_table(["y"], filter="id = 7")["y"].to_pylist() == [14]
    assert ds.diff("t").counts.updated == COUNT
    assert [change.version for change in ds.row_history({"id": 7})][-1] == ds.version
    with pytest.raises(ConstraintViolationError):
        ds.update({"x": "9"})
    assert not file.exists()


def test_functions_with_a_checkpoint_run_here_on_any_engine(
    ds: lk.LanceDataset, file: Path
) -> None:
    seen = []

    def of_blobs(batch: pa.RecordBatch) -> Any:
        seen.append(os.getpid())
        return {"y": pc.struct_field(batch["b"], "size").cast(pa.int64())}

    with lk.options(engine="spark"):
        udf = lk.batch_udf(OUTPUT, file, version="1")(of_blobs)
        ds.add_columns(udf, read_columns=["b"], batch_size=100)
    assert set(seen) == {os.getpid()}
    assert values(ds.uri, None, "y") == {i: len(str(i)) for i in range(COUNT)}


def test_a_column_of_a_function_comes_with_a_merge_of_branches(
    ds: lk.LanceDataset, file: Path
) -> None:
    branch = ds.create_branch("b")
    stop_double(branch, file)
    double(branch, Doubles(), file)
    ds.branches.merge("b")
    assert doubled(ds.uri)


def test_rows_in_shards_are_left_out(tmp_path: Path, file: Path) -> None:
    ds = lk.write_dataset({"id": range(3)}, tmp_path / "t", primary_key="id")
    ds.initialize_mem_wal(unsharded=True)
    ds.mem_wal_upsert({"id": [1, 9]}, flush=True)
    with pytest.raises(InvalidArgumentError, match="A table with shards cannot be given column"):
        double(lk.dataset(ds.uri), function := Doubles(), file)
    assert function.rows == 0
    found = lk.dataset(ds.uri).duplicates()
    assert (found.rows, found.total) == (0, 3)


# ---- duplicates of a key


def test_duplicates_are_those_of_the_version(ds: lk.LanceDataset, tmp_path: Path) -> None:
    ds.tags.create("before", 1)
    ds.create_scalar_index("id", "BTREE")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the rows of one write have keys of their own
        ds.insert(ds.to_table(["id", "x"], filter="id < 3"))
    branch = ds.create_branch("b")
    ds.shallow_clone(str(tmp_path / "c"), ds.version)
    shown = ds.duplicates()
    assert (shown.rows, shown.keys, shown.total) == (6, 3, COUNT + 3)
    assert ds.checkout_version("before").duplicates().rows == 0
    extra = shown.to_table()["_rowid"].to_pylist()[1::2]
    branch.delete(f"_rowid IN ({', '.join(map(str, extra))})")
    assert [one.duplicates().rows for one in (branch, ds)] == [0, 6]
    ds.optimize.compact_files()
    ds.cleanup_old_versions(older_than=NOW, error_if_tagged_old_versions=False)
    ds.alter_columns({"path": "id", "name": "key"})
    with lk.options(cache_bytes=0):
        again = ds.duplicates()
    assert (again.on, again.rows) == (("key",), 6)
    assert set(extra) <= set(again.to_table()["_rowid"].to_pylist())  # ids are stable
    assert lk.dataset(tmp_path / "c").duplicates().rows == 6
    ds.checkout_version("before").restore()
    assert lk.dataset(ds.uri).duplicates().rows == 0


def test_duplicates_in_base_paths_are_seen(tmp_path: Path) -> None:
    ds = with_bases(lk, tmp_path, primary_key="k")
    rows = pa.table({"k": [3, 50, 50], "v": ["x"] * 3}, schema=ds.schema)
    with pytest.warns(UserWarning, match="2 of 3 rows share their primary key .* k = 50"):
        ds = lk.write_dataset(rows, ds, mode="append", target_bases=["q"], max_rows_per_file=1)
    assert ds.duplicates().to_table()["k"].to_pylist() == [3, 3, 50, 50]


def test_rows_of_other_writers_are_not_looked_at(ds: lk.LanceDataset) -> None:
    other = lk.dataset(ds.uri)
    rows = ds.to_table(["id", "x"], filter="id = 1")
    rows = rows.set_column(0, rows.schema.field("id"), pa.array([5000]))
    for one in (ds, other):
        lk.write_dataset(rows, one, mode="append", primary_key_check="error")
    found = lk.dataset(ds.uri).duplicates()
    assert (found.rows, found.keys) == (2, 1)
    assert found.to_table()["b"].to_pylist() == [None, None]
