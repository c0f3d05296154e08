"""What programs on a cluster have in common: their session, operations, and what they must give."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import lance

import lancekit as lk
from tests.support.cluster import driver_variables
from tests.support.java import archived
from tests.support.patience import HANG_SECONDS
from tests.support.quick_spark import INTERPRETED

__all__ = ["ALL", "COMMON", "KILLER", "OPERATIONS", "check_table", "connect_server"]

#: by operation: how many rows there are then, and of how many is `v` not 0
OPERATIONS = {
    "append": (5000, 1000),
    "overwrite": (1000, 1000),
    "format": (5000, 1000),
    "merge driver": (5000, 2000),
    "merge closure": (5000, 2000),
    "merge shuffle": (5000, 2000),
    "delete": (3000, 0),
    "update": (4000, 2000),
    "compact": (4000, 0),
    "add_columns": (4000, 0),
    "index": (4000, 0),
}
ALL = list(OPERATIONS)

COMMON = '''
import itertools, json, os, signal, sys, threading, time, urllib.request, uuid, warnings
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import lancekit as lk
from tests.support.quick_spark import INTERPRETED

warnings.simplefilter("ignore")
lk.options.shared_folders = ["/"]
address, place, marks = sys.argv[1], sys.argv[2], Path(sys.argv[3])
ROWS = 4000


def session(**settings):
    """Return a session that is the user's own."""
    if address.startswith("sc://"):
        return SparkSession.builder.remote(address).getOrCreate()
    builder = SparkSession.builder.master(address).config("spark.ui.showConsoleProgress", "false")
    quick = {**INTERPRETED, "spark.sql.shuffle.partitions": "8"}  # enough for some thousand rows
    for name, value in {**quick, **settings}.items():
        builder = builder.config(name.replace("_", "."), value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def base(at):
    """Make four fragments of rows with the value 0."""
    rows = pa.table({"id": pa.array(range(ROWS)), "v": pa.array([0] * ROWS)})
    return lk.write_dataset(rows, at, max_rows_per_file=ROWS // 4)


def untouched(batches):
    return batches


def rows(spark, start, stop, work=untouched, parts=4):
    """Return rows with the value 1, which pass through a function on the workers."""
    frame = spark.range(start, stop, 1, parts).selectExpr("id", "1L as v")
    return frame.mapInArrow(work, "id long, v long")


def run(name, spark, ds, work=untouched):
    """Run an operation on the workers."""
    new = rows(spark, ROWS, ROWS + 1000, work)
    if name == "append":
        lk.write_dataset(new, ds, mode="append")
    elif name == "overwrite":
        lk.write_dataset(new, ds, mode="overwrite")
    elif name == "format":
        new.write.format("lance").mode("append").save(ds.uri)
    elif name.startswith("merge"):
        merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        with lk.options(merge_match=name.split()[1]):
            merge.execute(rows(spark, ROWS - 1000, ROWS + 1000, work))
    with lk.options(engine="spark"):
        if name == "delete":
            ds.delete("id % 4 = 1")
        elif name == "update":
            ds.update({"v": "v + 1"}, where="id % 2 = 1")
        elif name == "compact":
            ds.optimize.compact_files(target_rows_per_fragment=ROWS)
        elif name == "add_columns":
            ds.add_columns({"w": "id * 2"})
        elif name == "index":
            ds.create_scalar_index("id", "BTREE")
'''

#: kills executors from outside, wherever their tasks are
KILLER = '''
class Pages:
    """What Spark's pages say of the application of a session."""

    def __init__(self, place):
        self._place = f"{place}/api/v1/applications"
        self.application = self._read("")[0]["id"]

    def _read(self, page):
        with urllib.request.urlopen(self._place + page) as answer:
            return json.load(answer)

    def __call__(self, page):
        return self._read(f"/{self.application}/{page}")


def kill_executor(application, number):
    """Kill the Java of an executor of this test; return whether it was there."""
    wanted = {b"--app-id": application.encode(), b"--executor-id": number.encode()}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().split(b"\\0")
            ours = os.environ["LANCEKIT_TEST_RUN"].encode() in (entry / "environ").read_bytes()
        except OSError:
            continue
        if ours and wanted.items() <= dict(itertools.pairwise(command)).items():
            os.kill(int(entry.name), signal.SIGKILL)
            return True
    return False


class Killer:
    """Kills an executor that works on a task, once a number of jobs are done."""

    def __init__(self, ask, jobs=0):
        self._ask, self._jobs = ask, jobs
        self._over, self.killed = threading.Event(), False
        self._before = self._done()
        self._thread = threading.Thread(target=self._watch)

    def _done(self):
        return sum(job["status"] == "SUCCEEDED" for job in self._ask("jobs"))

    def _watch(self):
        while not self._over.wait(0.02):
            if self._jobs and self._done() - self._before < self._jobs:
                continue
            found = self._ask("executors")
            busy = [e["id"] for e in found if e["activeTasks"] and e["id"] != "driver"]
            if busy and kill_executor(self._ask.application, busy[0]):
                self.killed = not self._over.is_set()
                return

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
'''

SERVER = """
import json, sys, warnings
from pyspark.sql import SparkSession
warnings.simplefilter("ignore")
builder = SparkSession.builder.master(sys.argv[1]).config("spark.ui.showConsoleProgress", "false")
builder = builder.config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
builder = builder.config("spark.connect.grpc.binding.port", sys.argv[2])
builder = builder.config("spark.connect.grpc.binding.address", "127.0.0.1")
for name, value in json.loads(sys.argv[3]).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
print(spark.sparkContext.uiWebUrl, flush=True)
sys.stdin.read()
spark.stop()
"""


@contextmanager
def connect_server(
    master: str, settings: Mapping[str, str] = INTERPRETED, **variables: str
) -> Iterator[tuple[str, str]]:
    """Start a server of Spark Connect, as an operator would, whose tasks run on a cluster.

    Yields its address, and that of Spark's pages.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, master, port, json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **archived(), **driver_variables(), **variables},
    ) as process:
        yield f"sc://127.0.0.1:{port}", process.stdout.readline().strip()
        process.communicate("", timeout=HANG_SECONDS)


def check_table(place: str, operation: str | None) -> None:
    """Check rows by both libraries, versions, and that cleanup finds every other file.

    Parameters
    ----------
    place
        The table.
    operation
        What was done to it; ``None`` if nothing was.
    """
    count, changed = OPERATIONS[operation] if operation else (4000, 0)
    ds = lk.dataset(place)
    table = ds.to_table(columns=["id", "v"])
    ids = table["id"].to_pylist()
    assert (len(set(ids)), len(ids)) == (count, count), operation
    assert sum(value != 0 for value in table["v"].to_pylist()) == changed, operation
    assert lance.dataset(place).to_table(columns=["id", "v"]).sort_by("id") == table.sort_by("id")
    if operation == "add_columns":
        rows = ds.to_table().to_pylist()
        assert all(row["w"] == 2 * row["id"] for row in rows)
    if operation == "index":
        (index,) = ds.list_indices()
        assert index["type"] == "BTree"
        assert ds.to_table(filter="id = 1234")["v"].to_pylist() == [0]
    ds.cleanup_old_versions(retain_versions=ds.version, delete_unverified=True)
    referred = {
        file.path
        for version in range(1, ds.version + 1)
        for fragment in lk.dataset(place, version=version).get_fragments()
        for file in fragment.data_files()
    }
    assert {path.name for path in Path(place, "data").iterdir()} == referred, operation
    # one more version than the base: compaction reserves names in a version of its own
    assert ds.version <= (3 if operation == "compact" else 2), json.dumps([operation, ds.version])
