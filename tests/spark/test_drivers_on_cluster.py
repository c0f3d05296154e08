"""On a cluster of Spark's own: drivers that are killed, two drivers at once, streams killed thrice.

Whatever happens: a version is whole or not there, no row is lost, and none is there twice.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from tests.spark.cluster_programs import ALL, COMMON, KILLER, check_table
from tests.support.cluster import driver_variables
from tests.support.java import archived
from tests.support.patience import HANG_SECONDS

pytestmark = [pytest.mark.classic, pytest.mark.spark, pytest.mark.torture]

ROOT = str(Path(__file__).parents[2])


def begun(program: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a driver whose Java ends with it."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **archived(), **driver_variables(), "PYTHONPATH": ROOT},
        start_new_session=True,
    )


#: kills itself when a task is at work, or when all is done but the manifest
DRIVER = (
    COMMON
    + KILLER
    + """
spark = session()
name, moment = sys.argv[4:6]
ds = base(place)
print("began", flush=True)


def end(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


if moment == "manifest":
    from lancekit._commit import protocol

    protocol.put_version = end
else:
    ask = Pages(spark.sparkContext.uiWebUrl)

    def watch():
        while not any(e["activeTasks"] for e in ask("executors")):
            time.sleep(0.005)
        end()

    threading.Thread(target=watch, daemon=True).start()
run(name, spark, ds)
print("done", flush=True)
"""
)


@pytest.mark.parametrize("moment", ["tasks", "manifest"])
@pytest.mark.parametrize("name", ALL)
def test_a_driver_that_is_killed(cluster, tmp_path, name, moment, whole) -> None:
    if not whole:
        pytest.skip("only in a whole run: tests/system/test_crash_points.py ends at every call")
    if (name, moment) == ("format", "manifest"):
        pytest.skip("a process of Spark's own commits, not the driver")
    place = str(tmp_path / "d")
    with begun(DRIVER, cluster, place, str(tmp_path), name, moment) as process:
        said, _ = process.communicate(timeout=HANG_SECONDS)
    assert said == "began\n"
    assert process.returncode == -signal.SIGKILL
    until_gone(process.pid)
    if moment == "tasks" and lk.dataset(place).version > 1:
        check_table(place, name)  # the kill came when the version was there
    else:
        check_table(place, None)


def until_gone(group: int) -> None:
    """Kill what is left of a driver's processes: its Java may still be ending."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


MERGES = (
    COMMON
    + """
spark = session(spark_cores_max="1", spark_ui_enabled="false")
number, count = int(sys.argv[4]), int(sys.argv[5])
for turn in range(count):
    ds = lk.dataset(place)
    start = 10_000 * (number + 1) + 100 * turn
    new = spark.range(start, start + 100, 1, 2).selectExpr("id", "id AS v")
    both = new.union(spark.range(0, 10).selectExpr("id", f"{start}L AS v"))
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    with lk.options(merge_match=("closure", "shuffle")[(turn + number) % 2]):
        merge.conflict_retries(50).execute(both)
    print(ds.version, flush=True)
spark.stop()
"""
)


def test_two_drivers_merge_at_once(cluster, tmp_path, whole) -> None:
    """Each brings rows of its own, and both update ten rows: all versions are there, in turn."""
    if not whole:
        pytest.skip("only in a whole run: tests/system/test_concurrency.py has merges at once")
    place, turns = str(tmp_path / "d"), 10
    rows = pa.table({"id": pa.array(range(1000)), "v": pa.array(range(1000))})
    lk.write_dataset(rows, place, max_rows_per_file=250)
    drivers = [begun(MERGES, cluster, place, "", str(n), str(turns)) for n in range(2)]
    said = [driver.communicate(timeout=HANG_SECONDS)[0].split() for driver in drivers]
    assert [driver.returncode for driver in drivers] == [0, 0]
    versions = sorted(int(version) for each in said for version in each)
    assert versions == list(range(2, 2 + 2 * turns))
    ds = lk.dataset(place)
    found = dict(zip(*ds.to_table().to_pydict().values(), strict=True))
    new = {10_000 * (n + 1) + at for n in range(2) for at in range(100 * turns)}
    assert set(found) == {*range(1000), *new}
    assert ds.count_rows() == len(found) == lance.dataset(place).count_rows()
    assert all(found[key] == key for key in {*range(10, 1000), *new})
    assert len({found[key] for key in range(10)}) == 1  # of the last merge, whole


COPY = (
    COMMON
    + """
spark = session(spark_ui_enabled="false")
source, mode, checkpoint = sys.argv[4:7]
how = {"mode": "merge", "on": "id"} if mode == "merge" else {}
sink = lk.stream_sink(place, query="copy", **how)


def write(frame, number):
    sink(frame, number)
    print("wrote", number, flush=True)


running = (
    spark.readStream.format("lance").option("maxFilesPerTrigger", "2").load(source)
    .writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    .trigger(availableNow=True).start()
)
running.awaitTermination()
print("end", flush=True)
spark.stop()
"""
)


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_streams_that_are_killed(cluster, tmp_path, mode, whole) -> None:
    """Beside compaction of both tables; killed three times at any moment."""
    if not whole:
        pytest.skip("only in a whole run: test_bounded_batches.py has one that is killed here")
    ids, chance = 0, random.Random(mode)

    def more(count: int) -> pa.Table:
        nonlocal ids
        ids += count
        return pa.table({"id": pa.array(range(ids - count, ids)), "v": [0] * count})

    stable = mode == "merge"
    source = lk.write_dataset(
        more(60), tmp_path / "d", max_rows_per_file=10, enable_stable_row_ids=stable
    )
    copy = str(tmp_path / "copy")
    arguments = [cluster, copy, "", source.uri, mode, str(tmp_path / "checkpoint")]
    for _ in range(3):
        with begun(COPY, *arguments) as process:
            assert process.stdout.readline().startswith("wrote ")
            source.insert(more(10))
            if stable:
                source.update({"v": "v + 1"}, where="id % 7 = 0")
                source.optimize.compact_files(target_rows_per_fragment=40)
            lk.dataset(copy).optimize.compact_files()
            time.sleep(chance.uniform(0, 2))
            os.killpg(process.pid, signal.SIGKILL)
    with begun(COPY, *arguments) as process:
        assert process.communicate(timeout=HANG_SECONDS)[0].endswith("end\n")
    wanted = lk.dataset(source.uri).to_table().sort_by("id")
    assert wanted.num_rows == ids
    assert lk.dataset(copy).to_table().sort_by("id") == wanted, json.dumps([ids, mode])
