"""A cluster whose workers have another lancekit or pyarrow than the driver, or none of it.

lancekit's own calls say what is where before a task of theirs starts; nothing is written.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

import lancekit as lk
from tests.spark.cluster_programs import connect_server
from tests.spark.programs import run, several
from tests.support.cluster import (
    driver_variables,
    other_lancekit,
    other_pyarrow,
    python_without,
    standalone,
)
from tests.support.quick_spark import INTERPRETED

pytestmark = [pytest.mark.classic, pytest.mark.spark, pytest.mark.torture]

ROOT = Path(__file__).parents[2]

#: the Python that the driver names, and that is another one on the workers; Spark sends the path of
#: the driver's modules along with a source in Python
PYTHON = f"""#!/bin/sh
if [ -n "$WORKERS_PATH" ]; then
    PYTHONPATH="$WORKERS_PATH:$(echo "$PYTHONPATH" | sed 's#{ROOT}##g')"
    export PYTHONPATH
fi
exec "${{WORKERS_PYTHON:-{sys.executable}}}" "$@"
"""

COMMON = """
import json, sys, warnings
from pathlib import Path
from pyspark.sql import SparkSession
import lancekit as lk
from lancekit.errors import SessionError

warnings.simplefilter("ignore")
lk.options.shared_folders = ["/"]
place, address, environment = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
if address.startswith("sc://"):
    spark = SparkSession.builder.remote(address).getOrCreate()
    jobs = lambda: 0
else:
    builder = SparkSession.builder.master(address)
    for name, value in environment.items():
        builder = builder.config(f"spark.executorEnv.{name}", value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    jobs = spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs

def files():
    return sorted(str(path) for path in Path(place).parent.rglob("*") if path.is_file())
"""

#: every call of which tasks are a part
CALLS = (
    COMMON
    + """
rows, ds = spark.range(5), lk.write_dataset({"id": [1, 2], "v": [1, 2]}, place)
new = place + "-new"
upsert = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
calls = {
    "write": lambda: lk.write_dataset(rows, new),
    "append": lambda: lk.write_dataset(rows.selectExpr("id", "id AS v"), ds, mode="append"),
    "merge": lambda: upsert.execute(rows),
    "preview": lambda: upsert.preview(rows),
    "columns": lambda: ds.merge(rows.selectExpr("id", "id AS w"), "id"),
    "to_spark": lambda: ds.to_spark().count(),
    "view": lambda: ds.create_temp_view("v"),
    "sink": lambda: lk.stream_sink(new, query="q")(rows, 0),
    "arrow": lambda: lk.write_dataset({"id": [3], "v": [3]}, ds, mode="append"),
    "delete": lambda: ds.delete("id = 1"),
    "update": lambda: ds.update({"v": "v + 1"}),
    "add_columns": lambda: ds.add_columns({"w": "v"}),
    "index": lambda: ds.create_scalar_index("id", "BTREE"),
}
before, said = files(), {}
for name, call in calls.items():
    ran = jobs()
    try:
        with lk.options(engine="spark"):
            call()
    except SessionError as error:
        said[name] = [str(error), jobs() - ran]
    except Exception as error:
        said[name] = [repr(error), jobs() - ran]
    assert files() == before, (name, files())
print(json.dumps(said))
spark.stop()
"""
)

FORMAT = (
    COMMON
    + """
lk.write_dataset({"id": [1, 2]}, place)
before, said = files(), {}
for name, call in {
    "read": lambda: spark.read.format("lance").load(place).collect(),
    "append": lambda: spark.range(3).write.format("lance").mode("append").save(place),
    "create": lambda: spark.range(3).write.format("lance").mode("append").save(place + "-new"),
    "stream": lambda: spark.readStream.format("lance").load(place).writeStream.format("noop")
        .option("checkpointLocation", sys.argv[4]).trigger(availableNow=True).start()
        .awaitTermination(),
}.items():
    try:
        call()
        said[name] = "done"
    except Exception as error:
        said[name] = str(error)
    assert files() == before, (name, files())
print(json.dumps(said))
spark.stop()
"""
)


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, str]]:
    """Return variables of executors, by what their Python has."""

    @cache
    def variables(case: str) -> dict[str, str]:
        folder = tmp_path_factory.mktemp(case.replace(" ", "-"))
        nothing = {"WORKERS_PATH": str(folder / "nothing")}
        match case:
            case "another lancekit":
                return {"WORKERS_PATH": str(other_lancekit(folder, "0.0.9"))}
            case "another pyarrow":
                return {"WORKERS_PATH": f"{other_pyarrow(folder, '19.0.1')}:{ROOT}"}
            case "a newer pyarrow":
                return {"WORKERS_PATH": f"{other_pyarrow(folder, '99.0.0')}:{ROOT}"}
        missing = case.removeprefix("no ")
        names = [missing] if missing != "lancekit" else ["lancekit", "pyspark_lancekit"]
        path = nothing if missing == "lancekit" else {"WORKERS_PATH": str(ROOT)}
        return {**path, "WORKERS_PYTHON": str(python_without(folder / "venv", *names))}

    return variables


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("python") / "python"
    path.write_text(PYTHON)
    path.chmod(0o755)
    return str(path)


@pytest.fixture(scope="module")
def cluster_of(
    workers: Callable[[str], dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], str]]:
    """Return the address of a cluster whose workers start with the variables of a case."""
    with ExitStack() as clusters:

        @cache
        def address(case: str) -> str:
            folder = tmp_path_factory.mktemp("cluster")
            return clusters.enter_context(standalone(folder, **workers(case)))

        yield address


@pytest.fixture(scope="module")
def on_cluster(python: str) -> Iterator[Callable[..., str]]:
    """Run a program in a process that keeps its Java."""
    variables = {**driver_variables(), "PYSPARK_PYTHON": python, "PYTHONPATH": str(ROOT)}
    with several(**variables) as run_in_it:
        yield run_in_it


SAID = {
    "another lancekit": "Spark's workers have lancekit 0.0.9, but this Python has "
    f"{lk.__version__}.\n  the worker's Python is ",
    "no lancekit": f"Spark's workers have no lancekit, but this Python has {lk.__version__}.\n",
    "no obstore": "Spark's workers have no lancekit (No module named 'obstore'), but this ",
    "another pyarrow": f"Spark's workers have pyarrow 19.0.1, but this Python has {pa.__version__}",
    "no pyarrow": f"Spark's workers have no pyarrow, but this Python has {pa.__version__}.",
}
#: the cases of a whole run that start a cluster of their own
SOME = ["another lancekit", "no lancekit"]


@pytest.mark.parametrize("case", SAID)
def test_lancekits_own_calls(case, workers, cluster, on_cluster, tmp_path, whole) -> None:
    if not whole:
        pytest.skip("only in a whole run: test_preflight.py has such workers in a local session")
    given = json.dumps(workers(case))
    said = json.loads(on_cluster(CALLS, str(tmp_path / "table"), cluster, given))
    assert len(said) == 13
    for name, (text, jobs) in said.items():
        assert text.startswith(SAID[case]), (name, text)
        assert "set PYSPARK_PYTHON to a Python with it" in text
        assert jobs == 1, name  # the one task that looks


def test_a_newer_pyarrow_is_no_matter(workers, cluster, on_cluster, tmp_path, whole) -> None:
    if not whole:
        pytest.skip("only in a whole run")
    program = COMMON + "print(lk.write_dataset(spark.range(5), place).to_spark().count())\n"
    given = json.dumps(workers("a newer pyarrow"))
    said = on_cluster(program + "spark.stop()\n", str(tmp_path / "table"), cluster, given)
    assert said == "5\n"


@pytest.mark.parametrize("case", SOME)
def test_the_format(case, cluster_of, python, tmp_path, whole) -> None:
    """By the environment of the workers: that of executors counts for the plan, too."""
    if not whole:
        pytest.skip("only in a whole run: the first test asks the same of lancekit's own calls")
    folder = tmp_path / "data"
    folder.mkdir()
    check_format(case, python, folder, cluster_of(case))


def in_a_process(python: str, program: str, *arguments: str) -> str:
    variables = {**driver_variables(), "PYSPARK_PYTHON": python, "PYTHONPATH": str(ROOT)}
    return run(program, *arguments, **variables).stdout


def check_format(case: str, python: str, folder: Path, place: str) -> None:
    table, checkpoint = str(folder / "table"), str(folder.parent / f"{folder.name}-query")
    # the module that Spark finds the format by, or ours: whichever a task needs first
    missing = r"No module named '(pyspark_)?lancekit'"
    first = SAID[case].partition("\n")[0]
    wanted = re.escape(first) if case == "another lancekit" else missing
    said = in_a_process(python, FORMAT, table, place, "{}", checkpoint)
    for name, text in json.loads(said).items():
        assert re.search(wanted, text), (name, text)


@pytest.mark.parametrize("case", SOME)
def test_over_connect(case, cluster_of, python, tmp_path, whole) -> None:
    """The server's machine has what the driver has, and its workers have not."""
    if not whole:
        pytest.skip("only in a whole run: the first test asks the same of a classic session")
    folder = tmp_path / "data"
    folder.mkdir()
    once = {**INTERPRETED, "spark.task.maxFailures": "1"}  # what fails here fails each time
    variables = {"PYSPARK_PYTHON": python, "PYTHONPATH": str(ROOT)}
    with connect_server(cluster_of(case), once, **variables) as (server, _):
        said = json.loads(in_a_process(python, CALLS, str(folder / "table"), server, "{}"))
        for name, (text, _) in said.items():
            assert text.startswith(SAID[case]), (name, text)
        (folder / "of-format").mkdir()
        check_format(case, python, folder / "of-format", server)
