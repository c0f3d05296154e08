"""Progress of Spark jobs, on either kind of session."""

from __future__ import annotations

import time

import pytest

import lancekit as lk
from lancekit._pipeline.engine import LocalRunner
from lancekit._spark.frames.runner import SparkRunner
from lancekit.progress import Progress
from tests.support.patience import HANG_SECONDS

pytestmark = pytest.mark.spark


def test_tasks_are_counted(spark, tmp_path) -> None:
    told: list[Progress] = []
    seen, patience = tmp_path / "seen", HANG_SECONDS

    def show(progress: Progress) -> None:
        told.append(progress)
        if 0 < progress.done < 6:
            seen.touch()

    def work(task: int) -> int:
        end = time.monotonic() + patience
        while task == 5 and not seen.exists() and time.monotonic() < end:
            time.sleep(0.01)  # the last one waits until the others were counted
        return task

    with lk.options(progress=show):
        assert SparkRunner().map(work, list(range(6))) == list(range(6))
    totals = [p.total for p in told if p.total is not None]
    assert set(totals) == {6}
    assert any(0 < p.done < 6 for p in told)
    assert [p.finished for p in told].count(True) == 1
    assert told[-1].finished


def test_of_what_else_runs_nothing_is_told(spark) -> None:
    told: list[Progress] = []

    def work(task: int) -> int:
        return int(spark.range(0, 40, 1, 40 if task else 1).count())

    with lk.options(progress=told.append):
        assert LocalRunner().map(work, [0, 1]) == [40, 40]
    assert {p.total for p in told} == {2}


def test_a_worker_tells_nobody(spark) -> None:
    def work(task: int) -> object:
        return lk.options.progress

    with lk.options(progress=print):
        assert SparkRunner().map(work, [0]) == [False]
