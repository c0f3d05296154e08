"""Reading in threads gives the same rows, order and errors as reading without."""

from __future__ import annotations

import multiprocessing
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lancekit._file.columns import threads as parallel
from lancekit._file.columns.threads import ahead
from lancekit.errors import CorruptFileError
from lancekit.options import options
from tests.file.lance_io import open_ours, write_reference
from tests.support.patience import HANG_SECONDS

ROWS = 9000


@pytest.fixture(params=["2.0", "2.1", "2.2"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_PIECE_BYTES", 1 << 14)
    monkeypatch.setattr(parallel, "_THREADED_BYTES", 1)
    monkeypatch.setattr(parallel, "_PIECE_ROWS", 1000)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(4))


def _table() -> pa.Table:
    rng = np.random.default_rng(4)
    return pa.table(
        {
            "text": [f"a row of some text, {k}" for k in rng.integers(0, 10**6, ROWS)],
            "number": rng.integers(0, 99, ROWS),
            "few": [f"category {k}" for k in rng.integers(0, 30, ROWS)],
            "lists": [list(range(k)) if k % 5 else None for k in rng.integers(0, 16, ROWS)],
            "long": [f"{k} " * 80 if k % 7 else None for k in rng.integers(0, 10**6, ROWS)],
        }
    )


@pytest.fixture
def data(tmp_path: Path, version: str) -> bytes:
    return write_reference(_table(), tmp_path / "a.lance", version)


@pytest.mark.cover
@pytest.mark.parametrize(("start", "stop"), [(0, ROWS), (777, 8123), (5, 15)])
def test_same_rows(data: bytes, start: int, stop: int) -> None:
    reader = open_ours(data)
    for _ in range(3):  # again, with what the pages have kept
        read = reader.read(reader.columns, range(start, stop))
        assert read.equals(_table().slice(start, stop - start))


@pytest.mark.parametrize(("costs", "threads"), [((1, 1), 2), ((0, 1), 0), ((1, 0, 1), 2)])
def test_costly_work_runs_in_threads(costs: tuple[int, ...], threads: int) -> None:
    def where() -> pa.Array:
        return pa.array([threading.current_thread().name.startswith("lancekit-file")])

    answers = parallel.run([(cost, where) for cost in costs])
    assert sum(answer[0].as_py() for answer in answers) == threads


def test_the_first_error_is_raised() -> None:
    def fail(message: str) -> pa.Array:
        raise CorruptFileError(message)

    work = [
        (1, lambda: pa.nulls(1)),
        (1, lambda: fail("second")),
        (0, lambda: fail("third")),
        (1, lambda: fail("fourth")),
    ]
    for _ in range(20):
        with pytest.raises(CorruptFileError, match="second"):
            parallel.run(work)


def _read_in_child(data: bytes, answer: object) -> None:
    reader = open_ours(data)
    answer.put(reader.read(reader.columns).num_rows)  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_after_a_fork(data: bytes) -> None:
    reader = open_ours(data)
    reader.read(reader.columns)
    context = multiprocessing.get_context("fork")
    answer = context.Queue()
    child = context.Process(target=_read_in_child, args=(data, answer))
    child.start()
    assert answer.get(timeout=HANG_SECONDS) == ROWS
    child.join(HANG_SECONDS)


def test_results_come_in_order_and_few_are_ahead() -> None:
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        return number

    jobs = ((number % 5 != 0, partial(work, number)) for number in range(40))
    for position, result in enumerate(ahead(jobs)):
        assert result == position
        assert len(begun) <= position + 1 + 8
    assert sorted(begun) == list(range(40))


def test_an_error_comes_in_its_turn() -> None:
    def fail() -> int:
        raise ValueError("third")

    results = ahead([(True, lambda: 1), (False, lambda: 2), (True, fail), (True, lambda: 4)])
    assert [next(results), next(results)] == [1, 2]
    with pytest.raises(ValueError, match="third"):
        next(results)


def test_options_of_a_block_hold_in_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(2))
    seen = []

    def look() -> pa.Array:
        seen.append((options.display_rows, threading.current_thread() is threading.main_thread()))
        return pa.nulls(0)

    with options(display_rows=77):
        parallel.run([(parallel._THREADED_BYTES, look)] * 2)
        list(ahead([(True, look)] * 2))
    assert seen == [(77, False)] * 4
