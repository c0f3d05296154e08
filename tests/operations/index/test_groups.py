"""Indices made by groups of fragments: on Spark, beside other writers, and broken off."""

from __future__ import annotations

import datetime as dt
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._file.writer import FileWriter
from lancekit._index.kinds import BTREE
from lancekit._operations.common.retry import RetryPolicy
from lancekit._operations.index import create
from lancekit._operations.index.create import IndexRequest, create_index
from lancekit._pipeline.engine import Choice, LocalRunner

KINDS = {"x": ["BTREE", "BITMAP", "ZONEMAP"], "t": ["INVERTED"]}
KILLED = """
import os, sys
import lancekit as lk
from lancekit._operations.index import create
create.put_segments = lambda *_: os._exit(9)
lk.dataset(sys.argv[1]).create_scalar_index("x", "BTREE")
"""


def written(path: Path, fragments: int = 5) -> lk.LanceDataset:
    vectors = np.random.default_rng(0).standard_normal((fragments * 40, 4)).astype("f4")
    rows = {
        "x": range(fragments * 40),
        "t": [f"word{number % 7}" for number in range(fragments * 40)],
        "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 4),
    }
    return lk.write_dataset(rows, str(path), max_rows_per_file=40)


def folders(ds: lk.LanceDataset) -> set[str]:
    place = Path(ds.uri) / "_indices"
    return {one.name for one in place.iterdir()} if place.exists() else set()


def check(ds: lk.LanceDataset) -> None:
    theirs = lance.dataset(ds.uri)
    live = set(ds.fragment_ids())
    for index in ds.describe_indices():
        parts = [set(segment.fragment_ids) & live for segment in index.segments]
        assert set().union(*parts) == live
        assert sum(map(len, parts)) == len(live)
    for one in (lk.dataset(ds.uri), theirs):
        assert one.to_table(columns=["x"], filter="x in (3, 77)", fast_search=True)[
            "x"
        ].to_pylist() == [3, 77]


@pytest.fixture
def in_groups(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Make indices by groups of one fragment, in this process, by a runner that is given."""

    def use(runner: Any) -> None:
        monkeypatch.setattr(create, "_LEAST_BYTES", 1)
        monkeypatch.setattr(create, "choose_engine", lambda _rows: Choice("spark", "a test"))
        monkeypatch.setattr(create, "runner_of", lambda *_: runner)

    return use


class Between(LocalRunner):
    """Does something after the first time that tasks were done."""

    def __init__(self, then: Callable[[], Any]) -> None:
        super().__init__()
        self.then: Callable[[], Any] | None = then
        self.done: list[int] = []

    def map(self, work: Any, tasks: Sequence[Any]) -> list[Any]:
        found = super().map(work, tasks)
        self.done.append(len(tasks))
        if self.then is not None:
            self.then, then = None, self.then
            then()
        return found


class Weighing(LocalRunner):
    """Weighs what a worker would be sent with each task."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[list[int]] = []

    def map(self, work: Any, tasks: Sequence[Any]) -> list[Any]:
        self.sizes.append([len(pickle.dumps(task)) for task in tasks])
        return super().map(work, tasks)


def test_a_task_has_its_own_fragments_alone(
    tmp_path: Path, in_groups: Callable[[Any], None]
) -> None:
    """The manifest is sent once: with each of many tasks it would be gigabytes."""
    runner = Weighing()
    in_groups(runner)
    ds = written(tmp_path / "d", fragments=60)
    ds.create_scalar_index("x", "BTREE")
    of_fragments, _ = runner.sizes
    assert len(of_fragments) > 10
    assert max(of_fragments) < 100
    check(ds)


@pytest.mark.spark
def test_on_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(create, "_LEAST_BYTES", 1)  # of the driver, which cuts the groups
    ds = written(tmp_path / "d")
    told = list[str]()
    with lk.options(engine="spark", progress=lambda progress: told.append(progress.what)):
        for column, kinds in KINDS.items():
            for kind in kinds:
                ds.create_scalar_index(column, kind, name=f"{column}_{kind}")
        ds.create_index("v", "IVF_FLAT", num_partitions=2)
        ds.create_index("v", "IVF_PQ", name="codes", num_partitions=2, num_sub_vectors=2)
    assert set(told) == {"indexing"}
    assert [len(index.segments) for index in ds.describe_indices()] == [1] * 6
    assert len(folders(ds)) == 6  # the parts are gone
    check(ds)
    q = {"column": "v", "q": [0.1, 0.2, 0.3, 0.4], "k": 200, "nprobes": 9}
    for one in (lk.dataset(ds.uri), lance.dataset(ds.uri)):
        words = one.to_table(columns=["x"], full_text_query="word3", fast_search=True)
        assert sorted(words["x"].to_pylist()) == list(range(3, 200, 7))
        assert len(one.to_table(columns=["x"], nearest=q, fast_search=True)) == 200


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_SQ"])
def test_segments_share_their_partitions(
    tmp_path: Path, kind: str, in_groups: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = written(tmp_path / "d", fragments=8)
    in_groups(LocalRunner())
    monkeypatch.setattr(create, "_TASK_BYTES", 1)  # no part is joined with another
    given: dict[str, Any] = {"num_sub_vectors": 2} if kind == "IVF_PQ" else {}
    ds.create_index("v", kind, num_partitions=3, **given)
    (index,) = ds.describe_indices()
    assert len(index.segments) == 8
    parts = ds.stats.index_stats(index.name)["indices"]
    assert all(part["centroids"] == parts[0]["centroids"] for part in parts)
    # which the reference asks for where it joins segments
    lance.dataset(ds.uri).optimize.optimize_indices(num_indices_to_merge=8)
    assert [len(one.segments) for one in lk.dataset(ds.uri).describe_indices()] == [1]
    query = {"column": "v", "q": [0.1, 0.2, 0.3, 0.4], "k": 400, "nprobes": 3}
    for one in (ds, lk.dataset(ds.uri), lance.dataset(ds.uri)):
        found = one.to_table(columns=["x"], nearest=query, fast_search=True)
        assert sorted(found["x"].to_pylist()) == list(range(320))


def test_vectors_that_a_sample_misses(
    tmp_path: Path, in_groups: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = pa.array([None] * 199 + [[1.0, 2.0]], pa.list_(pa.float32(), 2))
    ds = lk.write_dataset({"x": range(200), "v": vectors}, str(tmp_path / "d"), max_rows_per_file=9)
    in_groups(LocalRunner())
    monkeypatch.setattr(create, "_SAMPLE_BYTES", 80)
    ds.create_index("v", "IVF_FLAT")
    (index,) = ds.describe_indices()
    assert len(index.segments) == 1
    query = {"column": "v", "q": [1.0, 1.0], "k": 3}
    for one in (lk.dataset(ds.uri), lance.dataset(ds.uri)):
        found = one.to_table(columns=["x"], nearest=query, fast_search=True)
        assert found["x"].to_pylist() == [199]


def test_a_segment_is_no_larger_than_a_worker_holds(
    tmp_path: Path, in_groups: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = written(tmp_path / "d", fragments=8)
    in_groups(runner := Between(lambda: None))
    ds.create_scalar_index("x", "BTREE", name="one")
    assert runner.done == [8, 1]
    size = sum(file.size_bytes for file in lk.dataset(ds.uri)._snapshot.indices[0].files)
    monkeypatch.setattr(create, "_TASK_BYTES", size)
    ds.create_scalar_index("x", "BTREE", name="two")
    segments = {index.name: len(index.segments) for index in ds.describe_indices()}
    assert segments["one"] == 1
    assert 1 < segments["two"] < 8
    check(ds)


def test_only_groups_that_were_rewritten_are_made_again(
    tmp_path: Path, in_groups: Callable[[Any], None]
) -> None:
    ds = written(tmp_path / "d")
    other = lk.dataset(ds.uri)
    other.delete("x in (1, 50)")

    def compact() -> None:
        options = {"excluded_fragment_ids": [0, 1, 2], "target_rows_per_fragment": 80}
        other.optimize.compact_files(**options)

    runner = Between(compact)
    in_groups(runner)
    landed = create_index(ds._snapshot, IndexRequest(column="x", kind=BTREE), RetryPolicy())
    assert runner.done == [5, 1, 1, 1]  # parts, and the segment of them, twice
    ds = lk.dataset(ds.uri)
    assert ds.version == landed.version
    assert len(folders(ds)) == 1  # what was made in vain is gone
    check(ds)


@pytest.mark.parametrize("kind", ["BTREE", "INVERTED"])
def test_what_is_interrupted_leaves_nothing(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = written(tmp_path / "d")

    def interrupted(self: FileWriter, *_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(FileWriter, "finish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ds.create_scalar_index("x" if kind == "BTREE" else "t", kind)
    assert folders(ds) == set()
    assert lk.dataset(ds.uri).version == 1


def test_what_cannot_land_leaves_nothing(tmp_path: Path, in_groups: Callable[[Any], None]) -> None:
    ds = written(tmp_path / "d")
    in_groups(Between(lambda: lk.write_dataset({"y": [1]}, ds.uri, mode="overwrite")))
    with pytest.raises(lk.errors.LancekitError):
        ds.create_scalar_index("x", "BTREE")
    assert folders(ds) == set()


def test_what_was_killed_is_removed_by_a_cleanup(tmp_path: Path) -> None:
    ds = written(tmp_path / "d")
    program = KILLED.replace("put_segments", "commit_segments")
    done = subprocess.run([sys.executable, "-c", program, ds.uri], check=False)
    assert done.returncode == 9
    assert len(folders(ds)) == 1
    ds = lk.dataset(ds.uri)
    assert (ds.version, ds.has_index, ds.count_rows("x < 10")) == (1, False, 10)
    ds.create_scalar_index("x", "BTREE")
    ds.cleanup_old_versions(dt.timedelta(0), delete_unverified=True)
    assert folders(ds) == {ds.list_indices()[0]["uuid"]}
    check(ds)
