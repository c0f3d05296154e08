"""On a cluster of Spark's own: executors killed at work, tasks that fail, and tasks twice at once.

Whatever happens: no row lost, none twice, and no file that cleanup cannot find.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lancekit as lk
from tests.spark.cluster_programs import ALL, COMMON, KILLER, check_table, connect_server
from tests.spark.programs import several
from tests.support.cluster import driver_variables

pytestmark = [pytest.mark.classic, pytest.mark.spark, pytest.mark.torture]


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Tell the executors of this run from others: the cluster's have the same name of it."""
    root = str(Path(__file__).parents[2])
    run = str(tmp_path_factory.getbasetemp())
    return {**driver_variables(), "PYTHONPATH": root, "LANCEKIT_TEST_RUN": run}


@pytest.fixture(scope="module")
def on_cluster(variables: dict[str, str]) -> Iterator[Callable[..., str]]:
    """Run a program in a process that keeps its Java."""
    with several(**variables) as run_in_it:
        yield run_in_it


KILLED = (
    COMMON
    + KILLER
    + """
spark = session()
ask = Pages(sys.argv[4] or spark.sparkContext.uiWebUrl)
for name in json.loads(sys.argv[5]):
    for turn in range(20):  # until the executor was at work
        at = f"{place}-{name}-{turn}".replace(" ", "-")
        ds = base(at)
        with Killer(ask) as killer:
            run(name, spark, ds)
        print(json.dumps([name, at, killer.killed]), flush=True)
        if killer.killed:
            break
spark.stop()
"""
)


def check_killed(said: str, asked: list[str]) -> None:
    turns = [json.loads(line) for line in said.splitlines()]
    assert [name for name, _, killed in turns if killed] == asked
    for name, at, _ in turns:
        check_table(at, name)


def test_executors_that_are_killed_at_work(cluster, on_cluster, tmp_path, whole) -> None:
    if not whole:
        pytest.skip("only in a whole run: one is killed in a merge below, too")
    place = str(tmp_path / "d")
    check_killed(on_cluster(KILLED, cluster, place, place, "", json.dumps(ALL)), ALL)


def test_executors_that_are_killed_over_connect(cluster, variables, tmp_path, whole) -> None:
    if not whole:
        pytest.skip("only in a whole run")
    place = str(tmp_path / "d")
    with connect_server(cluster, **variables) as (server, page), several(**variables) as program:
        check_killed(program(KILLED, server, place, place, page, json.dumps(ALL)), ALL)


#: runs operations whose tasks pass through a function `trouble`
TROUBLED = """
from pyspark.sql.classic.dataframe import DataFrame

maps = DataFrame.mapInArrow
OWN_ROWS = {"append", "overwrite", "format", "merge"}


def map_with_trouble(frame, work, *arguments, **options):
    return maps(frame, lambda batches: trouble(work(batches)), *arguments, **options)


for operation in json.loads(sys.argv[4]):
    ds = base(f"{place}-{operation}".replace(" ", "-"))
    if operation.split()[0] in OWN_ROWS:  # the trouble is the user's own function's
        run(operation, spark, ds, trouble)
        continue
    DataFrame.mapInArrow = map_with_trouble
    try:
        run(operation, spark, ds)
    finally:
        DataFrame.mapInArrow = maps
spark.stop()
"""

RAISED = (
    COMMON
    + '''
spark = session()


def trouble(batches):
    """Fail in one partition after its rows, or lancekit's answer, have been handed on, twice."""
    from pyspark import TaskContext

    context = TaskContext.get()
    yield from batches
    if context.partitionId() == 0 and context.attemptNumber() < 2:
        (marks / f"{operation}-{context.attemptNumber()}").touch()
        raise OSError("a disk that hiccups")
'''
    + TROUBLED
)


def test_tasks_that_raise(cluster, on_cluster, tmp_path, whole) -> None:
    if not whole:
        pytest.skip("only in a whole run: test_failing_tasks.py has an append and a merge")
    marks = tmp_path / "marks"
    marks.mkdir()
    on_cluster(RAISED, cluster, str(tmp_path / "d"), str(marks), json.dumps(ALL))
    for name in ALL:
        assert {f"{name}-0", f"{name}-1"} <= {path.name for path in marks.iterdir()}
        check_table(f"{tmp_path / 'd'}-{name}".replace(" ", "-"), name)


TWICE = (
    COMMON
    + '''
spark = session(
    spark_speculation="true", spark_speculation_interval="100ms",
    spark_speculation_quantile="0.5", spark_speculation_minTaskRuntime="100ms",
    spark_speculation_task_duration_threshold="500ms",  # for jobs of one task
)


def trouble(batches):
    """Wait in one partition, in the first process that has it, until the copy of it is done."""
    from pyspark import TaskContext

    partition = TaskContext.get().partitionId()
    yield from batches
    if partition == 0:
        try:
            (marks / operation).touch(exist_ok=False)
        except FileExistsError:
            (marks / f"{operation}-again").touch()
            return
        for _ in range(1000):
            if (marks / f"{operation}-again").exists():
                time.sleep(0.5)  # both end at about the same time
                return
            time.sleep(0.05)
'''
    + TROUBLED
)


def test_tasks_that_run_twice_at_once(cluster, on_cluster, tmp_path, whole) -> None:
    """Spark starts slow tasks once more elsewhere, and takes what is done first."""
    if not whole:
        pytest.skip("only in a whole run: a task that is tried again leaves what a copy leaves")
    marks = tmp_path / "marks"
    marks.mkdir()
    on_cluster(TWICE, cluster, str(tmp_path / "d"), str(marks), json.dumps(ALL))
    for name in ALL:
        assert (marks / f"{name}-again").exists(), name
        check_table(f"{tmp_path / 'd'}-{name}".replace(" ", "-"), name)


SHUFFLED = (
    COMMON
    + KILLER
    + '''
spark = session()
ask = Pages(spark.sparkContext.uiWebUrl)


def shuffled(batches):
    """Return rows in another order each time."""
    import numpy as np
    import pyarrow as pa
    from pyspark import TaskContext

    (marks / f"{TaskContext.get().partitionId()}-{uuid.uuid4()}").touch()
    table = pa.Table.from_batches(batches)
    yield from table.take(np.random.permutation(table.num_rows)).to_batches()


for turn in range(20):
    for mark in marks.iterdir():
        mark.unlink()
    at = f"{place}-{turn}"
    # the jobs before: reading the source; the next reads what is held
    with Killer(ask, jobs=1) as killer:
        run("merge closure", spark, base(at), shuffled)
    print(json.dumps([at, killer.killed, len(list(marks.iterdir()))]), flush=True)
    if killer.killed and len(list(marks.iterdir())) >= 8:
        break
spark.stop()
'''
)


def test_a_source_in_another_order_is_merged_anew(cluster, on_cluster, tmp_path) -> None:
    """An executor is killed that holds a part of it: the merge begins again, with all four."""
    marks = tmp_path / "marks"
    marks.mkdir()
    said = on_cluster(SHUFFLED, cluster, str(tmp_path / "d"), str(marks))
    turns = [json.loads(line) for line in said.splitlines()]
    for at, _, _ in turns:
        check_table(at, "merge closure")
    at, killed, computed = turns[-1]
    assert killed
    assert computed >= 8  # four, and four again
    assert lk.dataset(at).version == 2
