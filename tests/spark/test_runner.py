"""Work on Spark's tasks: results in order, errors as they were raised."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._pipeline.engine import LocalRunner, choose_runner
from lancekit._spark.frames.runner import SparkRunner
from lancekit._spark.jobs.failures import job_failure
from lancekit.errors import EngineError, NullKeyError
from lancekit.options import options

pytestmark = pytest.mark.spark


def double(number):
    return 2 * number


def test_results_come_in_the_order_of_the_tasks(spark):
    tasks = list(range(37))
    assert SparkRunner().map(double, tasks) == LocalRunner().map(double, tasks)
    assert SparkRunner().map(double, []) == []
    assert SparkRunner().map(lambda task: task["x"], [{"x": "y"}]) == ["y"]


def test_spark_is_chosen_when_it_is_asked_for(spark):
    with lk.options(engine="spark"):
        assert choose_runner(1).name == "spark"
    assert choose_runner(1).name == "local"
    with lk.options(spark_threshold_rows=10):
        assert [choose_runner(rows).name for rows in (9, 10)] == ["local", "spark"]


def test_the_options_in_force_reach_the_workers(spark):
    def seen(_):
        return options.fsync, options.trusted_bases, options.engine

    with lk.options(fsync=False, trusted_bases=["s3://b"], engine="spark"):
        assert SparkRunner().map(seen, [0]) == [(False, ("s3://b",), "local")]
    assert SparkRunner().map(seen, [0]) == [(True, (), "local")]


def test_an_error_of_our_own_keeps_its_facts(spark):
    def fail(task):
        if task:
            raise NullKeyError("column 'k' is null.", hint="Fill it.", column="k", row=task)

    with pytest.raises(NullKeyError, match="column 'k' is null") as caught:
        SparkRunner().map(fail, [0, 7, 8])
    assert caught.value.context == {"column": "k", "row": 7}


def test_any_other_error_says_its_last_line(spark):
    with pytest.raises(
        EngineError, match=r"A Spark job failed: ZeroDivisionError: division by zero\."
    ) as caught:
        SparkRunner().map(lambda task: 1 / task, [0])
    assert type(caught.value.__cause__).__name__ == "PythonException"


def test_an_action_of_a_frame_ends_with_our_error_and_shows_nothing_of_our_inside(spark, tmp_path):
    ds = lk.write_dataset(pa.table({"s": ["text"] * 5}), tmp_path / "d")
    frame = ds.to_spark()
    (data,) = (tmp_path / "d" / "data").iterdir()
    data.write_bytes(data.read_bytes()[:-20])
    with pytest.raises(Exception, match="exception was thrown from the Python worker") as caught:
        frame.collect()
    text = str(caught.value).split("JVM stacktrace")[0]
    assert f"lancekit.errors.CorruptFileError: {data} is not a Lance data file" in text
    assert "lancekit/_file" not in text


def test_a_worker_that_dies(spark):
    with pytest.raises(EngineError, match="exited unexpectedly") as caught:
        SparkRunner().map(lambda _: os._exit(3), [0])
    assert "memory" in caught.value.hint
    assert "\n" not in str(caught.value)


FRAMES = """An exception was thrown
Traceback (most recent call last):
  File "a.py", line 1
    f()
    ~^^
"""


TOO_MUCH = """An error occurred while calling o153.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.ThreadUtils$.awaitResult(ThreadUtils.scala:359)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Total size of \
serialized results of 1 tasks (3.0 MiB) is bigger than spark.driver.maxResultSize (2.0 MiB)
\tat org.apache.spark.scheduler.DAGScheduler.$anonfun$abortStage$3(DAGScheduler.scala:4568)
"""
USERS = f"""Traceback (most recent call last):
  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1, in main
  File "/home/me/mine.py", line 7, in rows
    raise ValueError("no")
  File "{Path(lk.__file__).parent}/spark/x.py", line 3, in run
ValueError: no
"""


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (FRAMES + "KeyError: 'x'\n\nJVM stacktrace:\norg.apache", EngineError, "KeyError: 'x'"),
        (FRAMES + "lancekit.errors.NullKeyError: a\n  - b", NullKeyError, "a\n  - b"),
        (FRAMES + "lancekit.errors.NoSuch: a", EngineError, "lancekit.errors.NoSuch: a"),
        ("[TABLE_NOT_FOUND] no t. SQLSTATE: 42P01;\n'Plan", EngineError, "no t;."),
        (FRAMES + "KeyError: 'x'\n SQLSTATE: 38000", EngineError, "failed: KeyError: 'x'."),
        ("", EngineError, "A Spark job failed"),
        (TOO_MUCH, EngineError, "failed: Total size of serialized results of 1 tasks (3.0 MiB)"),
        (USERS, EngineError, "ValueError: no.\n  in rows, line 7 of /home/me/mine.py"),
    ],
)
def test_what_is_made_of_a_failure(text, kind, said):
    error = job_failure(RuntimeError(text))
    assert type(error) is kind
    assert said in str(error)
    assert "JVM" not in str(error)
    pickle.loads(pickle.dumps(error))


def test_work_in_another_thread(spark):
    found = []
    thread = threading.Thread(target=lambda: found.append(SparkRunner().map(double, [1])))
    thread.start()
    thread.join()
    assert found == [[2]]
