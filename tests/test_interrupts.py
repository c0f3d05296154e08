"""An interrupt says whether the versions that a call puts are there, wherever it strikes."""

from __future__ import annotations

import gc
import itertools
import pickle
import re
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._checked import checked
from lancekit._interrupts import PREFIX, beginning, explain, mark
from tests.support.faults import Call, Faults, injected

NOTHING = "nothing was committed"


class Stop:
    """Interrupts the call of some number, before it is carried out."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, call: Call) -> None:
        if call.number == self.at:
            raise KeyboardInterrupt


def interrupted(place: Any, at: int, repeat: int = 1) -> tuple[KeyboardInterrupt | None, int]:
    """Append to a dataset, interrupted at a call to its store; return that, and the calls."""
    with injected(Faults(before=Stop(at))) as faults:
        try:
            ds = lk.dataset(place)
            for _ in range(repeat):
                ds.insert({"id": [9]})
        except KeyboardInterrupt as stop:
            return stop, len(faults.calls)
        return None, len(faults.calls)


def note(stop: KeyboardInterrupt) -> str:
    (said,) = (n for n in stop.__notes__ if n.startswith(PREFIX))
    return said


def test_what_it_says_is_true_wherever_it_strikes(tmp_path: Any) -> None:
    place = tmp_path / "d.lance"
    lk.write_dataset({"id": [1]}, place)
    _, calls = interrupted(place, 0)
    seen = set()
    for at in range(1, calls + 1):
        before = lk.dataset(place).version
        stop, _ = interrupted(place, at)
        assert stop is not None
        landed = lk.dataset(place).version > before
        assert (f"version {before + 1} of " in note(stop)) == landed, at
        assert (NOTHING in note(stop)) != landed
        seen.add(landed)
        assert note(stop) in "".join(traceback.format_exception(stop))
        assert type(stop) is KeyboardInterrupt
    assert seen == {True, False}


def test_only_what_the_interrupted_call_did_counts(tmp_path: Any) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "d.lance")
    ds.insert({"id": [2]})

    def nosuch(batch: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        ds.add_columns(nosuch, read_columns=["id"])
    assert NOTHING in note(caught.value)


def test_an_outer_call_knows_more(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "d.lance")

    @checked
    def both() -> None:
        ds.insert({"id": [2]})
        with injected(Faults(before=Stop(2))):
            lk.dataset(ds.uri).to_table()

    with pytest.raises(KeyboardInterrupt) as caught:
        both()
    assert "version 2 of " in note(caught.value)
    assert NOTHING not in note(caught.value)


def test_what_cannot_be_told_is_said(tmp_path: Any) -> None:
    place = tmp_path / "d.lance"
    lk.write_dataset({"id": [1]}, place)
    put = []

    def stop(call: Call) -> None:
        if call.kind == "put_if_absent" or put:
            put.append(call)
            raise KeyboardInterrupt  # and again, while it looks what became of it

    with injected(Faults(before=stop)), pytest.raises(KeyboardInterrupt) as caught:
        lk.dataset(place).insert({"id": [2]})
    assert "it is unknown whether it was committed (look for transaction " in note(caught.value)


def test_attempts_of_other_threads_may_be_noted_meanwhile() -> None:
    """Of what may run while the note is made, a collection of garbage runs at a known place."""

    def meanwhile(*_: object) -> None:
        beginning("another thread's", "")

    for _ in range(100):  # some of which are remembered
        meanwhile()
    kept = gc.get_threshold()
    gc.callbacks.append(meanwhile)
    try:
        gc.set_threshold(1)
        explain(stop := KeyboardInterrupt(), mark())
    finally:
        gc.set_threshold(*kept)
        gc.callbacks.remove(meanwhile)
    assert note(stop)


def test_it_can_be_sent_and_shown(tmp_path: Any) -> None:
    place = tmp_path / "d.lance"
    lk.write_dataset({"id": [1]}, place)
    stop, _ = interrupted(place, 2)
    assert stop is not None
    (first, *_) = stop._render_traceback_()  # type: ignore[attr-defined]
    assert first.startswith("KeyboardInterrupt: before the interrupt nothing was committed")
    assert note(pickle.loads(pickle.dumps(stop))) == note(stop)


class StopAfter(Faults):
    """Interrupts the call of some number when it was carried out."""

    at = 0
    done = 0

    def run(self, kind: str, name: str, *how: Any) -> Any:
        result = super().run(kind, name, *how)
        with self._lock:  # calls of several threads end in any order
            self.done += 1
            reached = self.done == self.at
        if reached:
            raise KeyboardInterrupt
        return result


def stops(work: Any) -> Iterator[str]:
    """Interrupt something at each of its calls, before and after it; give what is said each time.

    It ends when the work is done, be it said or not.
    """
    for at in range(1, 99):
        after = StopAfter()
        after.at = at
        for faults in (Faults(before=Stop(at)), after):
            try:
                with injected(faults):
                    work()
            except KeyboardInterrupt as stop:
                yield note(stop)
            else:
                return


def _tag(ds: Any) -> Any:
    return ds.tags.list().get("new", {}).get("version")


def _branch(ds: Any) -> Any:
    return ds.branches.list().get("new") and 1


@pytest.mark.parametrize(
    ("kind", "state", "steps"),
    [
        (
            "tag",
            _tag,
            {
                "created": (lambda ds: ds.tags.create("new", 1), 1),
                "moved": (lambda ds: ds.tags.update("new", 2), 2),
                "deleted": (lambda ds: ds.tags.delete("new"), None),
            },
        ),
        (
            "branch",
            _branch,
            {
                "created": (lambda ds: ds.create_branch("new", 1), 1),
                "deleted": (lambda ds: ds.branches.delete("new"), None),
            },
        ),
    ],
)
def test_tags_and_branches(tmp_path: Any, kind: str, state: Any, steps: Any) -> None:
    place = tmp_path / "d.lance"
    lk.write_dataset({"id": [1]}, place).insert({"id": [2]})
    for done, (work, then) in steps.items():
        for said in stops(lambda work=work: work(lk.dataset(place))):
            landed = state(lk.dataset(place)) == then
            assert (f"{kind} 'new' was {done}" in said) == landed, said
            assert landed or f"{kind} 'new' was not {done}" in said or NOTHING in said
            if landed:
                break
        # by the last stop, or undisturbed: what is remembered saves calls
        assert state(lk.dataset(place)) == then
    assert lk.dataset(place).version == 2


def test_a_cleanup_says_how_far_it_came(tmp_path: Any) -> None:
    place = tmp_path / "d.lance"
    ds = lk.write_dataset({"id": [1]}, place)
    for _ in range(3):
        ds.insert({"id": [2]}, mode="overwrite")

    def files() -> int:
        return sum(path.is_file() for path in place.rglob("*"))

    def work() -> None:
        lk.dataset(place).cleanup_old_versions(timedelta(0), delete_concurrency=1)

    seen, before = set(), files()
    for said in stops(work):
        gone, before = before - files(), files()
        told = re.search(
            r"removed at least (\d+) of \d+ files, including the manifests of \d+ versions",
            said,
        )
        assert told or NOTHING in said
        assert gone - int(told[1] if told else 0) in {0, 1}  # what was under way is not known
        seen.add(gone)
    assert {0, 1} <= seen
    assert len(ds.versions()) == 1


def test_a_shard_says_where_its_log_ends(tmp_path: Any) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "d.lance", primary_key="id")
    ds.initialize_mem_wal()
    shard = "00000000-0000-0000-0000-000000000001"
    armed: list[int] = []

    def stop(call: Call) -> None:
        if armed:
            raise KeyboardInterrupt

    @checked
    def puts(writer: Any) -> None:
        for key in (2, 3):
            writer.put({"id": [key]})
        raise KeyboardInterrupt

    with injected(Faults(before=stop)):
        writer = lk.dataset(ds.uri).mem_wal_writer(shard)
        with pytest.raises(KeyboardInterrupt) as caught:
            puts(writer)
        whole = f"the log of shard {shard} is written up to position {writer.position}"
        assert f"{whole}, and the last put was acknowledged. Nothing" in note(caught.value)
        assert "the writer accepts the next put" in note(caught.value)
        assert "checkout_latest" not in note(caught.value)
        armed.append(1)
        with pytest.raises(KeyboardInterrupt) as caught:
            writer.put({"id": [4]})
        assert f"{whole}, and the last put was not acknowledged" in note(caught.value)
    assert lk.dataset(ds.uri).lsm_scanner().count_rows() == 3


def test_shards_that_other_threads_write_to_are_told(tmp_path: Any) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "d.lance", primary_key="id")
    ds.initialize_mem_wal(bucket_column="id", num_buckets=2)

    @checked
    def puts() -> None:
        ds.mem_wal_upsert({"id": range(2, 30)})
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        puts()
    shards = re.findall(r"the log of shard (\S+) is written up to position \d", note(caught.value))
    assert len(set(shards)) == len(shards) == 2
    assert NOTHING not in note(caught.value)


def test_a_put_that_waits_is_not_written(tmp_path: Any) -> None:
    """It waits for memory, for another thread, or for its turn to take the shard."""
    ds = lk.write_dataset({"id": [1]}, tmp_path / "d.lance", primary_key="id")
    ds.initialize_mem_wal(unsharded=True)
    full: list[int] = []

    def stop(call: Call) -> None:
        if full and threading.current_thread() is not threading.main_thread():
            time.sleep(0.3)  # the thread that writes the generation

    with injected(Faults(before=stop)):
        shard = "00000000-0000-0000-0000-000000000001"
        writer = lk.dataset(ds.uri).mem_wal_writer(shard, max_unflushed_memtable_bytes=1)
        full.append(1)
        writer.put({"id": [2]})
        threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt) as caught:
            writer.put({"id": [3]})
        assert "the last put was not written" in note(caught.value)
        full.clear()
        writer.put({"id": [4]})
        writer.close()
    ids = lk.dataset(ds.uri).to_table(include_mem_wal=True)["id"].to_pylist()
    assert sorted(ids) == [1, 2, 4]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a finalizer
def test_an_upsert_that_waits_for_its_turn_is_not_written(tmp_path: Any) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "d.lance", primary_key="id")
    ds.initialize_mem_wal(unsharded=True)
    ds.mem_wal_upsert({"id": [2]})
    other, done = lk.dataset(ds.uri), threading.Event()

    def puts() -> None:
        with lk.options(fsync=False):  # other options, other writers
            while not done.is_set():
                other.mem_wal_upsert({"id": [2]})

    thread = threading.Thread(target=puts)
    thread.start()
    said = ""
    for after in itertools.cycle(range(1, 40)):  # milliseconds: some are in the wait
        if not thread.is_alive() or "was still waiting and was not written" in said:
            break
        try:
            timer = threading.Timer(after / 1000, signal.raise_signal, [signal.SIGINT])
            timer.start()
            ds.mem_wal_upsert({"id": [3]})
            timer.join()
            time.sleep(0.01)
        except KeyboardInterrupt as stop:
            said = note(stop) if hasattr(stop, "__notes__") else ""
    done.set()
    thread.join()
    assert "the writer accepts the next put" in said


@pytest.mark.parametrize("way", ["put", "delete", "upsert", "first upsert", "sink"])
def test_a_put_that_did_not_begin_speaks_of_rows(tmp_path: Any, way: str) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "d.lance", primary_key="id")
    if way != "first upsert":
        ds.initialize_mem_wal(unsharded=True)
    writer = None if "upsert" in way else ds.mem_wal_writer("00000000-0000-0000-0000-000000000001")
    sink = None if way == "first upsert" else lk.mem_wal_sink(ds.uri, query="q")

    def rows() -> Any:
        raise KeyboardInterrupt
        yield

    data = pa.RecordBatchReader.from_batches(pa.schema({"id": pa.int64()}), rows())
    put: Any = sink if way == "sink" else getattr(writer, way, ds.mem_wal_upsert)
    with pytest.raises(KeyboardInterrupt) as caught:
        put(data)
    said = note(caught.value)
    assert "no row of this call was written. Nothing is half-written" in said
    assert "the writer accepts the next put" in said
    assert NOTHING not in said
    assert ("version 2 of" in said) == (way == "first upsert")
