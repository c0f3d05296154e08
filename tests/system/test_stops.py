"""Between two batches a long operation can be stopped, and says how far it is."""

from __future__ import annotations

import _thread
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit import progress
from lancekit._pipeline import engine
from lancekit._scan import fragment_rows
from lancekit._scan.fragment_rows import Workers
from lancekit.progress import Progress, Stopped, step, tracking
from tests.support.patience import until

ROWS = 6_000
IDS = pa.table({"id": range(ROWS)})
MATCHED = pa.table(
    {
        "id": range(4_000),
        "text": ["new"] * 4_000,
        "vec": pa.array([[0.0] * 8] * 4_000, pa.list_(pa.float32(), 8)),
    }
)


@pytest.fixture
def ds(tmp_path: Path) -> lk.LanceDataset:
    rng = np.random.default_rng(0)
    vectors = pa.FixedSizeListArray.from_arrays(rng.random(ROWS * 8, np.float32), 8)
    rows = {
        "id": range(ROWS),
        "text": [f"word{i % 97} other" for i in range(ROWS)],
        "vec": vectors,
    }
    return lk.write_dataset(pa.table(rows), tmp_path / "t", max_rows_per_file=1_000)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read a block of a few rows at a time, and draw after each."""
    monkeypatch.setattr(progress, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(fragment_rows, "block_rows", lambda *_: 100)


def numbered(batch: pa.RecordBatch) -> Any:
    return {"n": batch["id"]}


OPERATIONS: dict[str, Callable[[lk.LanceDataset], object]] = {
    "add_columns(function)": lambda ds: ds.add_columns(numbered, batch_size=100),
    "add_columns(function) in threads": lambda ds: ds.add_columns(
        numbered, batch_size=100, num_threads=3
    ),
    "add_columns(SQL)": lambda ds: ds.add_columns({"m": "id + 1"}),
    "replace_columns": lambda ds: ds.replace_columns({"id": "id + 0"}),
    "alter_columns": lambda ds: ds.alter_columns({"path": "id", "data_type": pa.int32()}),
    "update": lambda ds: ds.update({"id": "id + 1"}),
    "update where": lambda ds: ds.update({"id": "id + 1"}, where="id % 2 = 0"),
    "delete": lambda ds: ds.delete("id % 2 = 0"),
    "merge": lambda ds: ds.merge_insert("id").when_matched_update_all().execute(MATCHED),
    "compact": lambda ds: ds.optimize.compact_files(),
    "scan": lambda ds: ds.to_table(),
    "filter": lambda ds: ds.to_table(filter="id % 2 = 0"),
    "count": lambda ds: ds.count_rows("id % 2 = 0"),
    "validate": lambda ds: ds.validate(deep=True),
    "scalar index": lambda ds: ds.create_scalar_index("id", "BTREE"),
    "text index": lambda ds: ds.create_scalar_index("text", "INVERTED"),
    "vector index": lambda ds: ds.create_index(
        "vec", "IVF_PQ", num_partitions=2, num_sub_vectors=2
    ),
    "deep clone": lambda ds: ds.deep_clone(f"{ds.uri}-clone", 1),
    "write": lambda ds: lk.write_dataset(
        iter(IDS.to_batches(max_chunksize=100)), f"{ds.uri}-new", schema=IDS.schema
    ),
    "optimize_indices": lambda ds: ds.optimize.optimize_indices(),
}

#: nothing of these is counted in rows
BY_FILES = {"deep clone", "optimize_indices"}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", OPERATIONS)
def test_rows_are_told_between_batches(
    ds: lk.LanceDataset, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Progress] = []
    steps = steps_made(monkeypatch)
    if name == "optimize_indices":
        ds.create_scalar_index("id", "BTREE")
        ds.insert(ds.to_table(limit=100))
    with lk.options(progress=told.append):
        OPERATIONS[name](ds)
    assert told[-1].finished
    if name in BY_FILES:
        return
    most = max(told, key=lambda p: p.rows)
    assert most.rows >= (4_000 if name == "merge" else ROWS)
    assert most.total_rows in {None, most.rows}
    # keys of small fragments are looked up together
    assert max(steps) <= (ROWS if name == "merge" else 1_000)


def steps_made(monkeypatch: pytest.MonkeyPatch, stop: int | None = None) -> list[int]:
    """Return the rows of each step that will be made; at one of them, interrupt this process."""
    made: list[int] = []
    real, counting, left = progress.Tracker.step, threading.Lock(), [stop] if stop else []

    def counted(self: progress.Tracker, rows: int, kept: int) -> None:
        with counting:
            if not self.stopped:  # else it ends here
                made.append(rows)
            interrupts = bool(left) and len(made) >= left[0]
            if interrupts:
                left.clear()
        if interrupts:  # once, and the thread that waits for the others
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        if stop and len(made) >= stop and threading.current_thread() is not threading.main_thread():
            for _ in range(5_000):  # until the main thread comes to its next line
                if not self.stopped:
                    time.sleep(0.001)
        real(self, rows, kept)

    monkeypatch.setattr(progress.Tracker, "step", counted)
    return made


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", sorted(OPERATIONS.keys() - {"optimize_indices"}))
def test_an_interrupt_ends_it_at_the_next_step(
    ds: lk.LanceDataset, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = sorted(path.name for path in (tmp_path / "t" / "data").iterdir())
    made = steps_made(monkeypatch, 4)
    with pytest.raises(KeyboardInterrupt):
        OPERATIONS[name](ds)
    # each of a few threads comes to one more
    assert len(made) < 4 + 4 * engine.processors()
    assert lk.dataset(ds.uri).version == 1
    # a thread that was being started is waited for by nobody
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith("lancekit_")])
    assert sorted(path.name for path in (tmp_path / "t" / "data").iterdir()) == before


def test_an_interrupt_that_wakes_nobody_counts_soon() -> None:
    """A signal that comes just before the main thread waits for a lock does not wake it."""
    stopped = threading.Event()
    in_time: list[bool] = []

    def interrupts() -> None:
        time.sleep(0.05)  # until the main thread waits
        _thread.interrupt_main()  # as a signal, but it wakes nobody
        in_time.append(stopped.wait(20))

    def read() -> None:
        with Workers(2) as workers:
            try:
                list(workers.results([interrupts, stopped.wait]))
            finally:
                stopped.set()

    with pytest.raises(KeyboardInterrupt):
        read()
    assert in_time == [True]


def test_a_task_of_a_thread_that_was_being_started_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The interrupt comes before the pool knows the thread, which writes its file meanwhile."""
    real, begun, ended = threading.Thread.start, threading.Event(), threading.Event()

    def interrupted(thread: threading.Thread) -> None:
        real(thread)
        begun.wait(20)
        raise KeyboardInterrupt

    def write(_: int) -> None:
        begun.set()
        time.sleep(0.2)
        ended.set()

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.LocalRunner(2).map(write, [1, 2])
    assert ended.is_set()


@pytest.mark.usefixtures("small")
def test_a_function_is_called_by_the_thread_of_the_cell(ds: lk.LanceDataset) -> None:
    seen: list[int] = []
    running: list[int] = []
    together: list[int] = []  # each fragment has threads of its own, one fragment after the other

    def numbered(batch: pa.RecordBatch) -> Any:
        seen.append(threading.get_ident())
        running.append(1)
        together.append(len(running))
        time.sleep(0.001)
        running.pop()
        return {"n": batch["id"]}

    ds.add_columns(numbered, batch_size=100)
    assert set(seen) == {threading.get_ident()}
    assert set(together) == {1}
    del seen[:]
    ds.replace_columns(numbered, ["id"], pa.schema({"n": pa.int64()}), 100, num_threads=3)
    assert threading.get_ident() not in seen
    assert len(set(seen)) > 1
    assert max(together) <= 3
    assert ds.count_rows("n = id") == ROWS


def test_num_threads_is_checked(ds: lk.LanceDataset) -> None:
    with pytest.raises(lk.errors.InvalidArgumentError, match=r"num_threads must be .* got 0"):
        ds.add_columns(numbered, num_threads=0)


def test_an_error_of_lancekits_ends_the_other_fragments(ds: lk.LanceDataset) -> None:
    calls = []

    def short(batch: pa.RecordBatch) -> Any:
        calls.append(1)
        return {"n": batch["id"][1:]}

    with pytest.raises(lk.errors.InvalidArgumentError, match="The function returned"):
        ds.add_columns(short, reader_schema=pa.schema({"n": pa.int64()}))
    assert len(calls) == 1


def test_rows_that_a_users_function_reads_do_not_count(ds: lk.LanceDataset) -> None:
    told: list[Progress] = []

    def looked_up(batch: pa.RecordBatch) -> Any:
        assert ds.count_rows("id >= 0") == ROWS
        return {"n": batch["id"]}

    with lk.options(progress=told.append):
        lk.dataset(ds.uri).add_columns(looked_up)
    assert max(p.rows for p in told) == ROWS


def test_a_failure_ends_work_in_other_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "processors", lambda: 4)
    begun = threading.Barrier(3)

    def work(task: int) -> None:
        begun.wait(60)
        if task == 2:
            raise ZeroDivisionError
        while True:
            step()
            time.sleep(0.001)

    with pytest.raises(ZeroDivisionError):
        engine.LocalRunner().map(work, range(3))


def test_work_inside_of_stopped_work_stops() -> None:
    with tracking("outer") as outer, tracking("inner"):
        step(1)
        outer.stop()
        with pytest.raises(Stopped):
            step(1)


def test_time_left_is_of_rows_that_were_made() -> None:
    state = Progress(what="x", done=0, total=2, seconds=10.0, rows=60, total_rows=100, kept_rows=40)
    assert (state.rows_per_second, state.seconds_left) == (2.0, 20.0)
    assert Progress(what="x", done=0, total=2, seconds=10.0).seconds_left is None
