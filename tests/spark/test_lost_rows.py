"""Rows that Spark held for a merge, and that are lost: they may come back different."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._spark.merge import merge
from lancekit.errors import DuplicateKeysError, SourceChangedError

pytestmark = [pytest.mark.classic, pytest.mark.spark]

#: by the strategy, what is called between the first look at the rows and the last
BETWEEN = {"closure": "route_rows", "broadcast": "join_frame", "shuffle": "join_frame"}
JOINED = ["broadcast", "shuffle"]


@pytest.fixture
def dataset(tmp_path):
    return lk.write_dataset(pa.table({"id": [1, 2], "v": [0, 0]}), tmp_path / "d")


@pytest.fixture
def merged(spark, dataset, tmp_path, monkeypatch):
    """Merge rows of one partition that differ each time they are worked out."""
    turns = tmp_path / "turns"
    turns.mkdir()

    def merge_them(keys, strategy, losses=1):
        """Return in how many jobs rows were worked out; they had ``keys[0]``, ``keys[1]``, ..."""
        lost = []
        work = getattr(merge, BETWEEN[strategy])

        def moody(batches):
            from pyspark import TaskContext

            for _ in batches:
                if not TaskContext.get().attemptNumber():
                    (turns / str(uuid.uuid4())).touch()
                found = keys[len(list(turns.iterdir())) - 1]
                yield pa.record_batch({"id": pa.array(found, pa.int64()), "v": found})

        def losing(*arguments, **options):
            if len(lost) < losses:
                for held in spark.sparkContext._jsc.getPersistentRDDs().values():
                    held.unpersist(True)
                lost.append(held)
            return work(*arguments, **options)

        monkeypatch.setattr(merge, BETWEEN[strategy], losing)
        frame = spark.range(0, 1, 1, 1).mapInArrow(moody, "id long, v long")
        upsert = dataset.merge_insert("id").when_matched_update_all()
        with lk.options(merge_match=strategy):
            upsert.when_not_matched_insert_all().execute(frame)
        return len(list(turns.iterdir()))

    return merge_them


def test_in_another_order(merged, dataset) -> None:
    """Rows are known by their numbers: the merge begins again."""
    assert merged([[2, 3], [3, 2], [2, 3]], "closure") == 3
    assert dataset.to_table().sort_by("id").to_pydict() == {"id": [1, 2, 3], "v": [0, 2, 3]}


@pytest.mark.parametrize("strategy", JOINED)
def test_a_join_does_not_mind_the_order(merged, dataset, strategy) -> None:
    assert merged([[2, 3, None], [None, 3, 2]], strategy) == 2
    assert dataset.to_table().sort_by("id")["id"].to_pylist() == [1, 2, 3, None]


@pytest.mark.parametrize("strategy", list(BETWEEN))
def test_other_keys(merged, dataset, strategy) -> None:
    assert merged([[2, 3], [2, 4], [2, 5]], strategy) == 3
    assert dataset.to_table().sort_by("id").to_pydict() == {"id": [1, 2, 5], "v": [0, 2, 5]}


@pytest.mark.parametrize("strategy", list(BETWEEN))
def test_other_keys_each_time(merged, dataset, strategy) -> None:
    with pytest.raises(SourceChangedError, match="cached part of the source twice"):
        merged([[2, 3], [2, 4], [2, 5], [2, 6]], strategy, losses=2)
    assert dataset.version == lk.dataset(dataset.uri).version == 1
    assert len(list(Path(dataset.uri, "data").iterdir())) == 1


@pytest.mark.parametrize("strategy", JOINED)
def test_keys_that_repeat_when_they_come_again(merged, dataset, strategy) -> None:
    """What was checked of lost rows is checked of those in their place, too."""
    with pytest.raises(DuplicateKeysError, match="id = 6"):
        merged([[2, 3], [2, 4], [6, 6]], strategy)
    assert dataset.version == lk.dataset(dataset.uri).version == 1
