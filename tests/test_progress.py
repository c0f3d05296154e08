"""Progress: who is told what, when nothing is shown, and what a bar looks like."""

from __future__ import annotations

import importlib.util
import io
import pickle
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

import lancekit as lk
from lancekit import progress
from lancekit._notebook import progress as bars
from lancekit._notebook.progress import _text, make_bar
from lancekit._pipeline import engine as runner
from lancekit._pipeline.compact_rows import compact_rows
from lancekit._pipeline.engine import LocalRunner
from lancekit.errors import InvalidTypeError
from lancekit.progress import Progress, tracking, what_is
from tests.support.patience import HANG_SECONDS


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_function_is_told(monkeypatch) -> None:
    monkeypatch.setattr(progress, "POLL_SECONDS", 0.0)
    told: list[Progress] = []
    with lk.options(progress=told.append):
        assert LocalRunner().map(lambda task: -task, range(4)) == [0, -1, -2, -3]
    assert [(p.done, p.total, p.finished) for p in told] == [
        *((n, 4, False) for n in (1, 2, 3, 4)),
        (4, 4, True),
    ]


@pytest.mark.parametrize(
    ("rows", "patience", "here"), [(9, 3600.0, 4), (9, -1.0, 0), (10**9, 3600.0, 0)]
)
def test_quick_tasks_on_few_rows_are_not_handed_over(monkeypatch, rows, patience, here) -> None:
    monkeypatch.setattr(progress, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(runner, "_PATIENCE", patience)
    monkeypatch.setattr(runner, "_QUICK", 0.0)
    told: list[Progress] = []
    with lk.options(progress=told.append):
        done = LocalRunner(rows=rows).map(lambda task: (task, threading.get_ident()), range(4))
    assert [task for task, _ in done] == [0, 1, 2, 3]
    assert sum(thread == threading.get_ident() for _, thread in done) == here
    assert [p.done for p in told] == [1, 2, 3, 4, 4]


def test_the_rest_of_slow_tasks_is_handed_over(monkeypatch) -> None:
    """The first one ends when its time is over; it is not done again."""
    monkeypatch.setattr(runner, "_PATIENCE", 0.001)
    here = threading.get_ident()

    def work(task: int) -> tuple[int, bool]:
        until = time.perf_counter() + 0.1
        while task == 0 and time.perf_counter() < until:
            pass
        return task, threading.get_ident() == here

    done = LocalRunner(rows=9).map(work, range(4))
    assert done == [(0, True), (1, False), (2, False), (3, False)]


def test_the_inner_of_two_says_nothing() -> None:
    told: list[Progress] = []

    def outer(task: int) -> list[int]:
        return LocalRunner().map(lambda _: threading.get_ident(), range(task))

    with lk.options(progress=told.append):
        LocalRunner().map(outer, [2, 3])
    assert {p.total for p in told} == {2}


def test_the_first_failure_ends_the_rest(monkeypatch) -> None:
    told: list[Progress] = []
    ran = []
    ended = threading.Event()

    class Pool(ThreadPoolExecutor):
        def __exit__(self, *error: Any) -> None:
            ended.set()  # from here on it only waits for what has begun
            super().__exit__(*error)

    def work(task: int) -> None:
        ran.append(task)
        if task == 1:
            raise ZeroDivisionError
        if task > 1:
            assert ended.wait(HANG_SECONDS)

    monkeypatch.setattr(runner, "ThreadPoolExecutor", Pool)
    with lk.options(progress=told.append), pytest.raises(ZeroDivisionError):
        LocalRunner(threads=4).map(work, range(500))
    assert told[-1].finished
    assert len(ran) <= 2 + 4


def test_a_function_that_fails_breaks_nothing() -> None:
    def show(_: Progress) -> None:
        raise ValueError("no room")

    with (
        lk.options(progress=show),
        pytest.warns(UserWarning, match="no longer shown: ValueError: no room"),
    ):
        assert LocalRunner().map(abs, [-1, -2]) == [1, 2]


@pytest.mark.parametrize("choice", ["auto", True, False])
def test_what_is_short_shows_nothing(choice, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stderr", shown := Terminal())
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", HANG_SECONDS)
    with lk.options(progress=choice):
        LocalRunner().map(abs, range(9))
    assert shown.getvalue() == ""


def work_a_while(monkeypatch, stream: io.StringIO, choice: object) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.0)
    with lk.options(progress=choice), tracking("merging", 1200) as tracker:
        tracker.set(7, 1200)
        tracker.draw()
    return re.sub(r"\d+ s", "0 s", stream.getvalue())


def test_a_line_at_a_prompt_is_wiped(monkeypatch) -> None:
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    said = work_a_while(monkeypatch, Terminal(), "auto")
    assert said == "\rmerging: 7 of 1,200 tasks, 0 s\x1b[K\r\x1b[K"


def test_a_script_on_a_terminal_writes_a_line_every_ten_seconds(monkeypatch) -> None:
    monkeypatch.setattr(bars, "_at_prompt", lambda: False)  # a test before may have a shell
    monkeypatch.setattr(sys, "stderr", shown := Terminal())
    show = make_bar(False)
    assert show is not None
    for seconds in (1, 9, 10, 12, 19, 20, 23):
        show(Progress(what="x", done=seconds, total=None, seconds=seconds, finished=seconds == 23))
    lines = shown.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == ["10", "20", "23"]


def test_a_short_script_writes_no_line(monkeypatch) -> None:
    monkeypatch.setattr(bars, "_at_prompt", lambda: False)  # a test before may have a shell
    monkeypatch.setattr(sys, "stderr", shown := Terminal())
    show = make_bar(False)
    assert show is not None
    for seconds in (1, 3):
        show(Progress(what="x", done=1, total=None, seconds=seconds, finished=seconds == 3))
    assert shown.getvalue() == ""


def test_nested_operations_are_stages_of_one_bar(monkeypatch) -> None:
    monkeypatch.setattr(progress, "POLL_SECONDS", 0.0)
    told: list[Progress] = []
    with lk.options(progress=told.append), tracking("merging", total_rows=10):
        with tracking("matching keys"):
            progress.step(4)
        with tracking("merging"):
            progress.step(6)
    stages = list(dict.fromkeys((p.stage, p.rows, p.total_rows) for p in told))
    assert stages == [
        ("matching keys", 0, 10),
        ("matching keys", 4, 10),
        ("", 4, 10),
        ("", 10, 10),
    ]
    assert {p.what for p in told} == {"merging"}


def test_a_line_names_the_stage_the_rate_and_the_time_left() -> None:
    state = Progress(
        what="merging", stage="matching keys", done=0, total=None, seconds=10, rows=5000,
        total_rows=20_000,
    )  # fmt: skip
    text = "merging (matching keys): 5,000 of 20,000 rows, 500 rows/s, 30 s left"
    assert _text(state) == text


def test_a_merge_has_one_bar_with_the_numbers_of_its_stages(monkeypatch) -> None:
    monkeypatch.setattr(progress, "POLL_SECONDS", 0.0)
    rows = {"id": range(1000)}
    ds = lk.write_dataset(rows, "memory://stages", primary_key="id", max_rows_per_file=250)
    told: list[Progress] = []
    with lk.options(progress=told.append):
        ds.merge_insert("id").when_matched_update_all().execute({"id": range(500)})
    assert {p.what for p in told} == {"merging"}
    assert [p.finished for p in told].count(True) == 1
    matching = [p for p in told if p.stage == "matching keys"]
    assert matching
    assert {p.total_rows for p in told if p.total_rows} >= {500}
    assert all(p.counted_seconds is not None for p in matching)


@pytest.mark.parametrize(
    ("what", "run"),
    [
        ("merging", lambda ds, folder: ds.branches.merge("side")),
        ("optimizing", lambda ds, folder: lk.sql("OPTIMIZE ds")),
        ("indexing", lambda ds, folder: ds.optimize.optimize_indices()),
        ("exporting", lambda ds, folder: ds.export(folder / "rows.parquet")),
        ("packing files", lambda ds, folder: ds.pack(folder / "rows.zip")),
        ("cleaning up", lambda ds, folder: ds.cleanup_old_versions(retain_versions=1)),
    ],
)
def test_long_work_of_several_stages_has_one_bar(what, run, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(progress, "POLL_SECONDS", 0.0)
    ds = lk.write_dataset(
        {"id": range(1000)}, tmp_path / "a.lance", primary_key="id", max_rows_per_file=100
    )
    ds.create_scalar_index("id", "BTREE")
    ds.create_branch("side").update({"id": "id + 1000"}, where="id % 2 = 0")
    ds.insert({"id": [5000]})
    told: list[Progress] = []
    with lk.options(progress=told.append):
        run(ds, tmp_path)
    assert {p.what for p in told} == {what}
    assert [p.finished for p in told].count(True) == 1


def test_nothing_where_nobody_looks(monkeypatch) -> None:
    assert work_a_while(monkeypatch, io.StringIO(), "auto") == ""
    assert work_a_while(monkeypatch, Terminal(), False) == ""


def test_lines_where_they_are_wanted(monkeypatch) -> None:
    said = work_a_while(monkeypatch, io.StringIO(), True)
    assert said == "merging: 7 of 1,200 tasks, 0 s\n" * 2


def test_what_work_is_called() -> None:
    assert what_is(partial(partial(compact_rows))) == "compacting"
    assert what_is(lambda: None) == "working"
    assert what_is(Terminal()) == "working"


def test_the_option_is_checked() -> None:
    with pytest.raises(InvalidTypeError, match="progress"):
        lk.options(progress="always")


NOTEBOOK = f"""
import threading
import lancekit as lk
from lancekit import progress
from lancekit._hooks import hooks
from lancekit._pipeline.engine import LocalRunner

progress.PATIENCE_SECONDS = 0.0
drawn = threading.Event()
make = hooks.bar

def watched(wanted):
    show = make(wanted)
    def tell(state):
        show(state)
        drawn.set()
    return tell

hooks.bar = watched

def work(task):
    assert drawn.wait({HANG_SECONDS})
    return task

LocalRunner().map(work, range(4))
"""


@pytest.mark.notebook
def test_a_bar_in_a_notebook_vanishes() -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(NOTEBOOK)])
    bars: list[dict[str, str]] = []

    class Client(NotebookClient):
        def process_message(self, msg, cell, cell_index):
            if msg["msg_type"] in {"display_data", "update_display_data"}:
                bars.append(msg["content"]["data"])
            return super().process_message(msg, cell, cell_index)

    done = Client(notebook, timeout=HANG_SECONDS, kernel_name="python3").execute()
    first, last = bars[0], bars[-1]
    assert first["text/html"].startswith("<progress aria-label=")
    assert "of 4 tasks" in first["text/plain"]
    assert last == {"text/plain": "", "text/html": ""}
    bar, result = done.cells[0].outputs
    assert bar.metadata == {"lancekit": "progress"}
    assert bar.data == last
    assert result.data["text/plain"] == "[0, 1, 2, 3]"


def test_it_makes_no_bar_for_a_pipe(monkeypatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert make_bar(False) is None
    assert make_bar(True) is not None


def test_a_state_can_be_pickled() -> None:
    state = Progress(what="x", done=1, total=None, seconds=0.5)
    assert pickle.loads(pickle.dumps(state)) == state


@pytest.mark.parametrize("module", progress.WORDS)
def test_words_are_those_of_modules(module: str) -> None:
    assert importlib.util.find_spec(f"lancekit.{module}")
