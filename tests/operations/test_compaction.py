"""Compaction: the same plans and rows as pylance, indices and concurrent writers respected."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, cast

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import optimize as _optimize
from lance.optimize import Compaction as TheirCompaction

import lancekit as lk
from lancekit._api.optimizer import Compaction
from lancekit.errors import InvalidArgumentError, NotOfferedError, RetryableConflictError

#: pylance's stubs miss a part of it
theirs_of: Any = _optimize


def fragments(path: Path, sizes: list[int], deleted: dict[int, list[int]] | None = None) -> str:
    """Write a dataset whose fragments have the given sizes, by pylance."""
    uri, start = str(path), 0
    for size in sizes:
        rows = pa.table({"x": pa.array(range(start, start + size), pa.int64())})
        lance.write_dataset(rows, uri, mode="append" if start else "create")
        start += size
    for fragment, offsets in (deleted or {}).items():
        first = sum(sizes[:fragment])
        listed = ", ".join(str(first + offset) for offset in offsets)
        lance.dataset(uri).delete(f"x IN ({listed})")
    return uri


def ids(plan: Any) -> list[list[int]]:
    return [[fragment.id for fragment in task.fragments] for task in plan.tasks]


def plans(uri: str, options: dict[str, Any]) -> tuple[list[list[int]], list[list[int]]]:
    ours = Compaction.plan(lk.dataset(uri), options)
    theirs = TheirCompaction.plan(lance.dataset(uri), cast(Any, options))
    assert ours.num_tasks() == theirs.num_tasks()
    return ids(ours), ids(theirs)


@pytest.mark.parametrize("seed", range(6))
def test_plans_are_those_of_pylance(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 12, 14).tolist()
    deleted = {
        place: sorted(rng.choice(size, rng.integers(1, size), replace=False).tolist())
        for place, size in enumerate(sizes)
        if size > 1 and rng.random() < 0.3
    }
    uri = fragments(tmp_path / "d", sizes, deleted)
    for target in (1, 3, 5, 8, 11, 20, 100):
        for more in (
            {},
            {"materialize_deletions": False},
            {"materialize_deletions_threshold": 0.5},
            {"materialize_deletions_threshold": 0.0},
            {"max_source_fragments": 5},
            {"max_source_rows": 17},
            {"max_source_bytes": 3000},
            {"excluded_fragment_ids": [2, 3, 9, 77]},
        ):
            options = {"target_rows_per_fragment": target, **more}
            ours, theirs = plans(uri, options)
            assert ours == theirs, options


def rows(ds: Any) -> list[Any]:
    found: list[Any] = ds.to_table().to_pylist()
    return found


@pytest.mark.parametrize("target", [4, 7, 1000])
def test_rows_and_fragments_are_those_of_pylance(tmp_path: Path, target: int) -> None:
    sizes, deleted = [3, 3, 9, 2, 2, 2, 8], {1: [0, 2], 2: [1], 4: [0, 1]}
    uris = [fragments(tmp_path / name, sizes, deleted) for name in ("ours", "theirs")]
    ours, theirs = lk.dataset(uris[0]), lance.dataset(uris[1])
    before = rows(ours)
    mine = ours.optimize.compact_files(target_rows_per_fragment=target)
    other = theirs.optimize.compact_files(target_rows_per_fragment=target)
    for name in ("fragments_removed", "fragments_added", "files_removed", "files_added"):
        assert getattr(mine, name) == getattr(other, name), name
    assert mine.version == ours.version == theirs.version
    expected = rows(theirs)  # new fragments come last
    assert sorted(row["x"] for row in expected) == [row["x"] for row in before]
    for ds in (ours, lk.dataset(uris[0]), lance.dataset(uris[0]), lk.dataset(uris[1])):
        assert rows(ds) == expected
    layouts = [
        [(f.fragment_id, f.physical_rows, f.num_deletions) for f in ds.get_fragments()]
        for ds in (ours, theirs, lance.dataset(uris[0]))
    ]
    assert layouts[0] == layouts[1] == layouts[2]
    assert not any(f.num_deletions for f in ours.get_fragments() if f.fragment_id > 6)
    cast(Any, lance.dataset(uris[0])).validate()
    ours.validate(deep=True)


def test_nothing_to_do_makes_no_version(tmp_path: Path) -> None:
    uri = fragments(tmp_path / "d", [4])
    ds = lk.dataset(uri)
    done = ds.optimize.compact_files()
    assert (done.fragments_removed, done.version, ds.version) == (0, 1, 1)


def test_deletions_are_materialised(tmp_path: Path) -> None:
    uri = fragments(tmp_path / "d", [2, 2], {0: [0], 1: [0]})
    ds = lk.dataset(uri)
    ds.optimize.compact_files()
    assert [row["x"] for row in rows(lance.dataset(uri))] == [1, 3]


def test_steps_on_another_machine(tmp_path: Path) -> None:
    uri = fragments(tmp_path / "d", [2, 2, 2, 2])
    ds = lk.dataset(uri)
    plan = Compaction.plan(ds, {"target_rows_per_fragment": 4})
    first, second = pickle.loads(pickle.dumps(plan)).tasks
    assert repr(first) == "CompactionTask(read_version=4, fragments=[0, 1])"
    lk.write_dataset(pa.table({"x": [99]}), ds, mode="append")
    results = [task.execute(lk.dataset(uri)) for task in (first, second)]
    assert results[0].metrics.fragments_removed == 2
    assert lk.dataset(uri).version == 5  # nothing is committed yet
    Compaction.commit(ds, results[:1])
    with pytest.raises(RetryableConflictError):
        Compaction.commit(ds, [first.execute(ds)])
    Compaction.commit(ds, results[1:])
    assert [row["x"] for row in rows(lance.dataset(uri))] == [99, 0, 1, 2, 3, 4, 5, 6, 7]
    assert Compaction.commit(ds, []).fragments_added == 0
    stale = Compaction.plan(ds, {"target_rows_per_fragment": 50}).tasks[0].execute(ds)
    with pytest.raises(InvalidArgumentError, match="version"):
        Compaction.commit(ds, [stale, results[0]])


def test_concurrent_writers(tmp_path: Path) -> None:
    uri = fragments(tmp_path / "d", [2, 2, 2])
    ds, stale = lk.dataset(uri), lk.dataset(uri)
    # an append does not disturb it; a delete in the same fragments makes it start over
    lance.write_dataset(pa.table({"x": [50]}), uri, mode="append")
    assert ds.optimize.compact_files().attempts == 1
    assert [row["x"] for row in rows(ds)] == [50, 0, 1, 2, 3, 4, 5]
    results = [t.execute(stale) for t in Compaction.plan(stale).tasks]
    before = {path.name for path in (tmp_path / "d" / "data").iterdir()}
    with pytest.raises(RetryableConflictError, match="Rewrite"):
        Compaction.commit(stale, results)
    after = {path.name for path in (tmp_path / "d" / "data").iterdir()}
    new = {file.path for r in results for f in r.new_fragments for file in f.files}
    assert before - after == new  # what did not land is gone
    other = lk.dataset(uri)
    lance.dataset(uri).delete("x = 3")
    done = other.optimize.compact_files(materialize_deletions_threshold=0.0)
    assert [row["x"] for row in rows(other)] == [50, 0, 1, 2, 4, 5]
    assert done.read_version < done.version


def test_options_are_checked(tmp_path: Path) -> None:
    ds = lk.dataset(fragments(tmp_path / "d", [2, 2]))
    compact = ds.optimize.compact_files
    with pytest.raises(InvalidArgumentError, match="bogus"):
        Compaction.execute(ds, {"bogus": 1})
    for name, value in {
        "target_rows_per_fragment": -1,
        "max_source_fragments": 0,
        "materialize_deletions": "perhaps",
        "materialize_deletions_threshold": -0.5,
        "compaction_mode": "copy",
        "data_storage_version": "0.1",
        "excluded_fragment_ids": "3",
    }.items():
        with pytest.raises(InvalidArgumentError, match=name):
            Compaction.execute(ds, {name: value})
    with pytest.raises(NotOfferedError, match="re-encoded"):
        compact(compaction_mode="force_binary_copy")
    with pytest.raises(InvalidArgumentError, match="must be a dict"):
        Compaction.plan(ds, [1])  # type: ignore[arg-type]
    assert ds.version == 2
    hints = {"num_threads": 1, "batch_size": 10, "max_rows_per_group": 5, "io_buffer_size": 1000}
    assert Compaction.plan(ds, hints).num_tasks() == 1
    assert compact(num_threads=1, compaction_mode="try_binary_copy").fragments_added == 1


def test_defaults_come_from_the_config(tmp_path: Path) -> None:
    uri = fragments(tmp_path / "d", [2, 2, 2, 2])
    lance.dataset(uri).update_config({"lance.compaction.target_rows_per_fragment": "4"})
    ours, theirs = plans(uri, {})
    assert ours == theirs == [[0, 1], [2, 3]]
    ours, theirs = plans(uri, {"target_rows_per_fragment": 100})
    assert ours == theirs == [[0, 1, 2, 3]]


def indexed(uri: str, kind: str = "BTREE", stable: bool = False) -> Any:
    """Write six small fragments, the first four of them in an index."""
    for place in range(6):
        rows = pa.table({"x": pa.array([3 * place, 3 * place + 1, 3 * place + 2], pa.int64())})
        mode = "append" if place else "create"
        lance.write_dataset(rows, uri, mode=mode, enable_stable_row_ids=stable)
        if place == 3:
            cast(Any, lance.dataset(uri)).create_scalar_index("x", kind)
    return lk.dataset(uri)


def answers(uri: str) -> None:
    """Ask pylance by the index for every value."""
    ds = lance.dataset(uri)
    for value in range(18):
        assert ds.to_table(filter=f"x = {value}")["x"].to_pylist() == [value]
    assert ds.count_rows("x >= 0") == 18


@pytest.mark.cover
@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP"])
@pytest.mark.parametrize("stable", [False, True])
def test_indices(tmp_path: Path, kind: str, stable: bool) -> None:
    uri = str(tmp_path / "d")
    ds = indexed(uri, kind, stable)
    done = ds.optimize.compact_files()
    # what an index covers and what it does not cover are not put together, as in pylance
    assert (done.left_to_indices, done.fragments_removed) == ({}, 6)
    assert [f.fragment_id for f in ds.get_fragments()] == [6, 7]
    assert 6 in ds.list_indices()[0]["fragment_ids"]
    answers(uri)
    lance.write_dataset(pa.table({"x": [99]}), uri, mode="append")
    theirs = cast(Any, lance.dataset(uri))
    theirs.optimize.optimize_indices()
    theirs.delete("x = 99")
    answers(uri)
    lance.dataset(uri).optimize.compact_files()
    answers(uri)


def test_indices_that_are_in_the_way(tmp_path: Path) -> None:
    uri = str(tmp_path / "d")
    indexed(uri)
    theirs = cast(Any, lance.dataset(uri))
    theirs.optimize.compact_files(defer_index_remap=True, target_rows_per_fragment=6)
    ds = lk.dataset(uri)
    left = tuple(ds.fragment_ids())[:-1]
    done = ds.optimize.compact_files()
    assert done.left_to_indices == {"x_idx": left}
    assert f"{len(left)} fragments covered by index x_idx" in repr(done)
    assert done.fragments_added == 0
    answers(uri)
    done = ds.optimize.compact_files(drop_index_coverage=True)
    assert (done.left_to_indices, done.fragments_removed) == ({}, len(left))
    answers(uri)


@pytest.mark.parametrize("stable", [False, True])
def test_updates_and_indices(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path / "d")
    ds = indexed(uri, stable=stable)
    ds.update({"x": "x + 100"}, where="x % 5 = 1")
    ds.update({"x": "x - 100"}, where="x > 100")
    answers(uri)


@pytest.mark.parametrize("stable", [False, True])
def test_texts_and_pickles_go_to_other_processes_and_libraries(
    tmp_path: Path, stable: bool
) -> None:
    uri = str(tmp_path / "t")
    ds = lk.write_dataset({"x": range(40)}, uri, max_rows_per_file=5, enable_stable_row_ids=stable)
    ds.delete("x in (3, 17)")
    plan = Compaction.plan(ds, {"target_rows_per_fragment": 10, "max_bytes_per_file": 1 << 30})
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert lk.optimize.CompactionPlan.from_json(plan.json()) == plan
    theirs = theirs_of.CompactionPlan.from_json(plan.json())
    assert theirs.num_tasks() == plan.num_tasks() == 3
    assert lk.optimize.CompactionPlan.from_json(theirs.json()) == plan
    results = []
    for number, task in enumerate(plan.tasks):
        other = theirs_of.CompactionTask.from_json(task.json())
        assert lk.optimize.CompactionTask.from_json(other.json()) == task
        made: Any = other.execute(cast(Any, lance).dataset(uri)) if number % 2 else task.execute(ds)
        results.append(lk.optimize.RewriteResult.from_json(made.json()))
        assert pickle.loads(pickle.dumps(results[-1])) == results[-1]
        again = theirs_of.RewriteResult.from_json(results[-1].json())
        assert lk.optimize.RewriteResult.from_json(again.json()) == results[-1]
    metrics = Compaction.commit(ds, results)
    assert (metrics.fragments_removed, metrics.fragments_added) == (8, 3)
    assert ds.to_table() == cast(Any, lance).dataset(uri).to_table()
    assert ds.count_rows() == 38


def test_pylance_commits_what_was_written_here(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    ds = lk.write_dataset({"x": range(40)}, uri, max_rows_per_file=5)
    results = [task.execute(ds).json() for task in Compaction.plan(ds).tasks]
    other = cast(Any, lance).dataset(uri)
    TheirCompaction.commit(other, [*map(theirs_of.RewriteResult.from_json, results)])
    assert lk.dataset(uri).to_table()["x"].to_pylist() == list(range(40))
    assert len(lk.dataset(uri).get_fragments()) == 1


def test_other_texts_and_tasks_are_refused(tmp_path: Path) -> None:
    for kind in ("CompactionPlan", "CompactionTask", "RewriteResult"):
        for text in ("", "{}", "[]", "3", '{"read_version": "x"}'):
            with pytest.raises(InvalidArgumentError, match=f"not a {kind} as JSON"):
                getattr(lk.optimize, kind).from_json(text)
    made = [
        lk.write_dataset({"x": range(4)}, str(tmp_path / name), max_rows_per_file=2)
        for name in "ab"
    ]
    (task,) = Compaction.plan(made[0]).tasks
    with pytest.raises(InvalidArgumentError, match="Fragment 0 of a compaction task is not in"):
        task.execute(made[1])
