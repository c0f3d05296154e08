"""The sink that puts batches into shards: given again, sent away, met by others."""

from __future__ import annotations

import os
import pickle
import signal
from pathlib import Path
from shutil import rmtree
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._operations.mem_wal.log_writer import LogWriter
from lancekit._operations.mem_wal.writer import Writer
from lancekit.errors import (
    BranchNotFoundError,
    ConstraintViolationError,
    DatasetNotFoundError,
    InvalidArgumentError,
    SchemaMismatchError,
    ShardError,
    StorageError,
)
from tests.support.number_texts import ungrouped


def made(place: Path, *, key: str | None = "id", **initial: object) -> lk.LanceDataset:
    ds = lk.write_dataset({"id": [-1], "v": ["a"]}, place, primary_key=key)
    ds.initialize_mem_wal(**{"bucket_column": "id", "num_buckets": 3, **initial})  # type: ignore[arg-type]
    return ds


def rows(*ids: int, v: str = "x") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": [v] * len(ids)})


def ids(ds: lk.LanceDataset) -> list[int]:
    return sorted(ds.to_table(["id"], include_mem_wal=True)["id"].to_pylist())


def test_a_batch_that_is_given_again(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    sink = lk.mem_wal_sink(tmp_path / "t", query="orders")
    for _ in range(2):
        done = sink(rows(*range(9)), 0)
        assert sum(shard.rows for shard in done.values()) == 9
    assert ids(ds) == [-1, *range(9)]
    assert sink.delivery == "exactly once"
    assert (sink.batches, sink.last_batch) == (2, 0)
    assert {shard.rows for shard in sink.shards.values()} == {2 * s.rows for s in done.values()}
    sink.close()
    ds.merge_mem_wal()
    assert ds.version == lk.dataset(ds.uri).version == 3
    assert sorted(lance.dataset(ds.uri).to_table()["id"].to_pylist()) == [-1, *range(9)]


def test_without_a_key_it_is_there_twice(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", key=None)
    with lk.mem_wal_sink(tmp_path / "t", query="orders") as sink:
        for _ in range(2):
            sink(rows(1), 0)
        assert ids(ds) == [-1, 1, 1]
        assert sink.delivery == "at least once"
        assert "adds its rows again" in repr(sink)
    ds.merge_mem_wal()
    assert ds.count_rows() == 3


def test_a_batch_is_as_large_as_it_likes(tmp_path: Path) -> None:
    """A shard takes `max_memtable_rows` rows at once; of rows of a key the last one counts."""
    ds = made(tmp_path / "t", max_memtable_rows=10)
    sink = lk.mem_wal_sink(tmp_path / "t", query="orders")
    batch = pa.concat_tables([rows(*range(50), v="old"), rows(*range(50), v="new"), rows(3, v="!")])
    assert sum(shard.rows for shard in sink(batch).values()) == 101
    found = ds.to_table(filter="id >= 0", include_mem_wal=True).sort_by("id")
    assert found["v"].to_pylist() == ["new"] * 3 + ["!"] + ["new"] * 46
    assert sink(rows()) == {}
    sink.close()


def test_another_one_takes_the_shards_and_gives_them_back(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    sink = lk.mem_wal_sink(tmp_path / "t", query="orders")
    first = sink(rows(*range(9)))
    sent = pickle.loads(pickle.dumps(sink))
    second = sent(rows(*range(9, 18)))
    third = sink(rows(*range(18, 27)))
    assert (sent.batches, sink.batches) == (1, 2)
    assert ids(ds) == [-1, *range(27)]
    epochs = [[shard.epoch for shard in done.values()] for done in (first, second, third)]
    assert epochs == [[number] * 3 for number in (1, 2, 3)]


def test_closing_leaves_rows_to_the_sink_that_took_the_shard(tmp_path: Path) -> None:
    ds = made(tmp_path)
    with lk.mem_wal_sink(tmp_path, query="a") as first:
        first(rows(*range(9)), batch=0)
        with lk.mem_wal_sink(tmp_path, query="b") as other:
            other(rows(*range(9, 18)), batch=0)
            first.close()
    ds.merge_mem_wal()
    assert set(range(18)) <= set(lance.dataset(tmp_path).to_table()["id"].to_pylist())


def test_shards_that_do_not_acknowledge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of the batch is there; it is given again, and each row is there once."""
    ds = made(tmp_path / "t")
    sink = lk.mem_wal_sink(tmp_path / "t", query="orders")
    real, failing = Writer.put, [True]

    def put(self: Writer, *args: object) -> None:
        if failing:
            failing.pop()
            raise StorageError("the disk is full")
        real(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Writer, "put", put)
    with pytest.raises(ShardError, match="1 of 3 shards did not acknowledge"):
        sink(rows(*range(9)), 0)
    assert (sink.batches, len(sink.shards)) == (0, 2)
    assert sum(shard.rows for shard in sink.shards.values()) == len(ids(ds)) - 1 < 9
    sink(rows(*range(9)), 0)
    assert ids(ds) == [-1, *range(9)]


def test_columns_that_come_meanwhile(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    sink = lk.mem_wal_sink(tmp_path / "t", query="orders")
    sink(rows(1))
    ds.add_columns(pa.field("w", pa.int32()))
    with pytest.raises(SchemaMismatchError, match="w"):
        sink(rows(2))
    sink(rows(2).append_column("w", pa.array([5], pa.int32())))
    found = ds.to_table(["w"], include_mem_wal=True, filter="id > 0").sort_by("w")
    assert found["w"].to_pylist() == [5, None]


def test_constraints_that_come_meanwhile(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    sink = lk.mem_wal_sink(tmp_path / "t", query="orders")
    sink(rows(1, 2, 3))
    ds.constraints.add("low", "id < 100")
    with pytest.raises(ConstraintViolationError, match="low"):
        sink(rows(4, 5, 100))  # which no merge could take
    sink(rows(4, 5))
    sink.close()
    ds.merge_mem_wal()
    assert ids(ds) == [-1, 1, 2, 3, 4, 5]


def test_a_table_that_took_the_place_of_another(tmp_path: Path) -> None:
    first = made(tmp_path / "t")
    first.insert(rows(5))
    sink = lk.mem_wal_sink(tmp_path / "t", query="orders")
    sink(rows(*range(9)))
    rmtree(tmp_path / "t")
    again = made(tmp_path / "t")
    sink(rows(*range(9, 18)))
    assert ids(again) == [-1, *range(9, 18)]


def test_writers_have_the_options_of_the_sink(tmp_path: Path) -> None:
    made(tmp_path / "t")
    with lk.options(fsync=False):
        sink = lk.mem_wal_sink(tmp_path / "t", query="orders")
    sink(rows(*range(9)))
    opened = [own.opened for own in sink._opened()._writers.values()]
    writers = [one[0] for one in opened if one is not None]
    assert [writer._context.run(lambda: lk.options.fsync) for writer in writers] == [False] * 3


def test_after_an_interrupt_the_batch_can_be_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = made(tmp_path / "t", bucket_column=None, num_buckets=None, unsharded=True)
    sink = lk.mem_wal_sink(tmp_path / "t", query="orders")
    sink(rows(1))

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LogWriter, "put", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sink(rows(2), 1)
    sink(rows(2), 1)
    assert ids(ds) == [-1, 1, 2]


def test_what_was_acknowledged_of_a_batch_that_failed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path / "t", bucket_column=None, num_buckets=None, unsharded=True, max_memtable_rows=2)
    sink = lk.mem_wal_sink(tmp_path / "t", query="orders")
    put, left = Writer.put, [1]

    def fails(self: Writer, *given: Any) -> None:
        if not left:
            raise StorageError("no answer")
        left.pop()
        put(self, *given)

    monkeypatch.setattr(Writer, "put", fails)
    with pytest.raises(ShardError):
        sink(rows(*range(4)), 1)
    assert [shard.rows for shard in sink.shards.values()] == [2]
    assert (sink.batches, sink.last_batch) == (0, None)


def test_a_lock_that_was_held_at_a_fork_is_not_waited_for(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    sink = lk.mem_wal_sink(tmp_path / "t", query="orders")
    with sink._own_lock():
        pid = os.fork()
        if not pid:
            signal.alarm(60)
            try:
                sink(rows(1, 2, 3))
                os._exit(0)
            finally:
                os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    assert ids(ds) == [-1, 1, 2, 3]


def test_on_a_branch(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    side = ds.create_branch("side")
    sink = lk.mem_wal_sink(tmp_path / "t", query="orders", branch="side")
    sink([{"id": 5, "v": None}])
    assert (ids(ds), ids(side)) == ([-1], [-1, 5])
    assert "branch" in repr(sink)


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError):
        lk.mem_wal_sink(tmp_path / "t", query="orders")
    ds = lk.write_dataset({"id": [1]}, tmp_path / "t", primary_key="id")
    with pytest.raises(InvalidArgumentError, match="accepts no rows into shards"):
        lk.mem_wal_sink(tmp_path / "t", query="orders")
    ds.initialize_mem_wal()
    with pytest.raises(InvalidArgumentError, match="query must be the name of the stream"):
        lk.mem_wal_sink(tmp_path / "t", query="")
    with pytest.raises(BranchNotFoundError):
        lk.mem_wal_sink(tmp_path / "t", query="orders", branch="none")


def test_the_card(tmp_path: Path) -> None:
    made(tmp_path / "t", bucket_column=None, num_buckets=None, identity_column="id")
    sink = lk.mem_wal_sink(tmp_path / "t", query="orders")
    assert "one shard for each value of a column" in repr(sink)
    sink(rows(1, 1), 7)
    (shard,) = sink.shards
    card = ungrouped(repr(sink))
    assert card.startswith("orders · exactly once · 2 rows put")
    for said in ("by primary key (id)", "1, newest number 7", shard):
        assert said in card
    assert shard in (sink._repr_html_() or "")


def test_the_number_of_a_batch_is_not_negative(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    sink = lk.mem_wal_sink(tmp_path / "t", query="orders")
    with pytest.raises(InvalidArgumentError, match=r"batch must be .* got -1"):
        sink(rows(1), -1)
    assert ids(ds) == [-1]
