"""Tasks that fail, executors that are killed, cells that are cancelled: not in the tests' session.

Whatever happens: no version that is not whole, no row twice, and no file that cleanup cannot find.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import pytest

import lancekit as lk
from tests.spark.programs import several

pytestmark = [pytest.mark.classic, pytest.mark.spark]

CLUSTER = "local-cluster[2,1,1024]"
"""Two executors of their own."""


@pytest.fixture
def place_of_tasks(whole: bool) -> str:
    """Where Spark tries a task again, and cancels it; what is killed needs a process of its own."""
    return CLUSTER if whole else "local[2,4]"


@pytest.fixture(scope="module")
def on_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Run a program in a process that keeps its session."""
    with several(LANCEKIT_TEST_RUN=str(tmp_path_factory.getbasetemp())) as run_in_it:
        yield run_in_it


COMMON = '''
import json, os, signal, sys, threading, time
from pathlib import Path

import pyarrow as pa

import lancekit as lk
from tests.support.quick_spark import INTERPRETED

JAVA = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
place, marks = sys.argv[1], Path(sys.argv[2])
ROWS = 4000


def table(start, stop, value):
    return pa.table({"id": pa.array(range(start, stop)), "v": [value] * (stop - start)})


def session(**where):
    """Return the session that a program before this one has started, or a new one."""
    if lk.session_info().state == "active":
        return lk.spark_session()
    return lk.spark_session(**where, memory="1g", config=JAVA | INTERPRETED)


def base():
    """Four fragments of rows with the value 0."""
    return lk.write_dataset(
        table(0, ROWS, 0), place, max_rows_per_file=ROWS // 4, primary_key=["id"]
    )


def source(spark, work, start, stop, value):
    """Rows for a write or a merge, which pass through a function on the workers."""
    rows = spark.range(start, stop, 1, 4).selectExpr("id", f"{value}L as v")
    return rows.mapInArrow(work, "id long, v long")


def upsert(ds, rows):
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return merge.execute(rows)
'''

RETRY = (
    COMMON
    + '''
spark = session(master=sys.argv[3])
ds = base()


def fails_at_first(batches):
    """Fail in one partition after its rows have been handed on, twice."""
    from pyspark import TaskContext

    context = TaskContext.get()
    yield from batches
    if context.partitionId() == 1 and context.attemptNumber() < 2:
        (marks / f"{name}-{context.attemptNumber()}").touch()
        raise OSError("a disk that hiccups")


name = "write"
ds = lk.write_dataset(source(spark, fails_at_first, ROWS, 2 * ROWS, 1), ds, mode="append")
print(ds.version, ds.count_rows(), ds.count_rows("v = 1"))
name = "merge"
result = upsert(ds, source(spark, fails_at_first, ROWS, 3 * ROWS, 2))
print(ds.version, ds.count_rows(), ds.count_rows("v = 2"), dict(result))
print(sorted(path.name for path in marks.iterdir()))
'''
)


@pytest.mark.torture
def test_a_task_that_fails_is_tried_again(tmp_path, on_cluster, place_of_tasks) -> None:
    place, marks = places(tmp_path)
    written, merged, failed = on_cluster(RETRY, place, marks, place_of_tasks).splitlines()
    assert written == "2 8000 4000"
    assert merged.startswith("3 12000 8000 {'num_inserted_rows': 4000, 'num_updated_rows': 4000")
    assert failed == "['merge-0', 'merge-1', 'write-0', 'write-1']"
    ds = check_whole(place, 3)
    assert ds.count_rows() == 12_000


KILL = (
    COMMON
    + '''
spark = session(master=sys.argv[3])
ds = base()


def kills_its_executor(batches):
    """Take the executor's Java process down in mid-partition, once for each operation."""
    yield from batches
    mark = marks / name
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return
    time.sleep(0.3)
    executor = os.getppid()  # the daemon of the Python workers
    java = int(Path(f"/proc/{executor}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(java, signal.SIGKILL)
    time.sleep(60)


name = "merge"
upsert(ds, source(spark, kills_its_executor, ROWS, 3 * ROWS, 2))
print(ds.version, ds.count_rows(), ds.count_rows("v = 2"), flush=True)
name = "write"
ds = lk.write_dataset(source(spark, kills_its_executor, 3 * ROWS, 4 * ROWS, 1), ds, mode="append")
print(ds.version, ds.count_rows(), ds.count_rows("v = 1"), flush=True)


def kill_soon():
    """Kill an executor from outside as soon as the first new file is there."""
    before = set(Path(place, "data").iterdir())
    while set(Path(place, "data").iterdir()) == before:
        time.sleep(0.005)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and b"CoarseGrainedExecutorBackend" in _command(entry):
            os.kill(int(entry.name), signal.SIGKILL)
            (marks / "compact").touch()
            return


def _command(entry):
    try:
        text = (entry / "cmdline").read_bytes()
    except OSError:
        return b""
    ours = os.environ["LANCEKIT_TEST_RUN"].encode() in _environment(entry)
    # this program's own text is in its command line
    return text if ours and int(entry.name) != os.getpid() else b""


def _environment(entry):
    try:
        return (entry / "environ").read_bytes()
    except OSError:
        return b""


threading.Thread(target=kill_soon, daemon=True).start()
with lk.options(engine="spark"):
    ds.optimize.compact_files(target_rows_per_fragment=ROWS)
print(ds.version, ds.count_rows(), ds.count_rows("v = 2"), flush=True)
print(sorted(path.name for path in marks.iterdir()))
'''
)


@pytest.mark.torture
def test_an_executor_that_is_killed(tmp_path, on_cluster, whole) -> None:
    """In a merge, an append and a compaction."""
    if not whole:
        pytest.skip("only in a whole run: test_kills_on_cluster.py kills one in a merge")
    place, marks = places(tmp_path)
    merged, written, compacted, killed = on_cluster(KILL, place, marks, CLUSTER).splitlines()
    assert merged == "2 12000 8000"
    assert written == "3 16000 4000"
    version, *rows = compacted.split()
    assert rows == ["16000", "8000"]
    assert killed == "['compact', 'merge', 'write']"
    check_whole(place, int(version))


CANCEL = (
    COMMON
    + '''
over_connect = sys.argv[3].startswith("sc://")
spark = lk.spark_session(remote=sys.argv[3]) if over_connect else session(master=sys.argv[3])
signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a notebook's kernel
ROWS = 3_200_000
ds = lk.write_dataset(
    pa.table({"id": range(ROWS), "v": pa.repeat(0, ROWS)}), place, max_rows_per_file=ROWS // 16
)


def slow(batches):
    """Say that it has begun, hand the rows on, and never end."""
    yield from batches
    (marks / "begun").touch()
    time.sleep(3600)


def slow_rows():
    return source(spark, slow, ROWS - 1000, ROWS + 1000, 1)


def interrupt():
    files = Path(place, "data")
    before = len(list(files.iterdir()))
    while not (marks / "begun").exists() and len(list(files.iterdir())) == before:
        time.sleep(0.005)
    os.kill(os.getpid(), signal.SIGINT)


def cancelled(name, work):
    if name not in sys.argv[4:]:
        return
    outcome = "finished"
    for _ in range(5):
        (marks / "begun").unlink(missing_ok=True)
        threading.Thread(target=interrupt, daemon=True).start()
        try:
            work()
            break
        except KeyboardInterrupt as stop:
            said = " ".join(getattr(stop, "__notes__", ()))
        assert "nothing was committed" in said or not said, said
        if "Spark jobs were cancelled" in said:
            outcome = "cancelled"
            left = "cleanup_old_versions() removes them" in said
            assert left == (name in ("update", "compact")), said
            break
        # a task of the job before was late, and its file was taken for one of this job's
    tracker = None if over_connect else spark.sparkContext.statusTracker()
    while tracker and tracker.getActiveJobsIds():  # Spark tells what ended some time later
        time.sleep(0.01)
    print(json.dumps([name, outcome, lk.dataset(place).version]))


cancelled("write", lambda: lk.write_dataset(slow_rows(), ds, mode="append"))
cancelled("merge", lambda: upsert(ds, slow_rows()))
with lk.options(engine="spark"):
    cancelled("update", lambda: ds.update({"v": "v + 1"}))
    cancelled("compact", lambda: ds.optimize.compact_files(target_rows_per_fragment=ROWS // 8))
    print(ds.count_rows("v = 0"), lk.dataset(place).count_rows(), spark.range(3).count())
'''
)


@pytest.mark.torture
def test_a_cell_that_is_cancelled(tmp_path, on_cluster, place_of_tasks, whole) -> None:
    """Lancekit's own functions at work; at full length in every operation.

    A short run cancels a source's own function over Connect (test_connect.py).
    """
    asked = ["write", "merge", "update", "compact"] if whole else ["compact"]
    check_cancelled(on_cluster, tmp_path, place_of_tasks, asked)


def check_cancelled(
    program: Callable[..., str], tmp_path: Path, where: str, asked: list[str]
) -> None:
    """Cancel operations on a cluster, or on a server of Spark Connect."""
    place, marks = places(tmp_path)
    *outcomes, after = program(CANCEL, place, marks, where, *asked).splitlines()
    assert [json.loads(outcome)[0] for outcome in outcomes] == asked
    for outcome in outcomes:
        name, how, version = json.loads(outcome)
        assert (how, version) == ("cancelled", 1), name
    assert after == "3200000 3200000 3"
    check_whole(place, 1)


def places(tmp_path: Path) -> tuple[str, str]:
    marks = tmp_path / "marks"
    marks.mkdir()
    return str(tmp_path / "d"), str(marks)


def check_whole(place: str, version: int) -> lk.LanceDataset:
    """Check that rows and versions are whole, and that cleanup finds every other file."""
    ds = lk.dataset(place)
    assert ds.version == version
    ids = ds.to_table(columns=["id"]).column("id").to_pylist()
    assert sorted(ids) == list(range(len(ids)))
    ds.cleanup_old_versions(retain_versions=version, delete_unverified=True)
    referred = {
        file.path
        for number in range(1, version + 1)
        for fragment in lk.dataset(place, version=number).get_fragments()
        for file in fragment.data_files()
    }
    assert {path.name for path in Path(place, "data").iterdir()} == referred
    assert lance.dataset(place).to_table().num_rows == len(ids)
    return ds
