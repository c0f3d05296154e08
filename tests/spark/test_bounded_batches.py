"""Batches of a stream that fragments and bytes bound, where they end, and what is left after them.

Most tests ask the reader itself, in the order in which Spark does (`follow` of the conftest).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._spark.datasource.datasource import LanceDataSource
from lancekit.errors import InvalidArgumentError
from tests.spark.programs import QUICK
from tests.support.java import archived
from tests.support.patience import HANG_SECONDS, run_to_its_end, started
from tests.support.worker_options import options_stay

pytestmark = pytest.mark.spark


def table(*ids):
    return pa.table({"id": pa.array(ids, pa.int64()), "v": ["a"] * len(ids)})


def reader_of(ds, **options):
    source = LanceDataSource({"path": ds.uri, "columns": "id", **options})
    return source.streamReader(source.schema())


def rows_of(reader, start, end):
    batches = (rows for piece in reader.partitions(start, end) for rows in reader.read(piece))
    return sorted(key for rows in batches for key in rows["id"].to_pylist())


@pytest.fixture(autouse=True)
def tasks_here():
    with options_stay():
        yield


@pytest.mark.torture
@pytest.mark.parametrize("stable", [False, True])
def test_an_old_table_and_what_comes_later(follow, tmp_path, stable):
    ds = lk.write_dataset(
        table(*range(5)), tmp_path / "d", max_rows_per_file=1, enable_stable_row_ids=stable
    )
    two = {"maxFilesPerTrigger": "2"}
    assert follow(ds, **two) == [(0, [0, 1]), (1, [2, 3]), (2, [4])]
    assert follow(ds, **two) == []
    lk.write_dataset(table(5, 6, 7), ds, mode="append", max_rows_per_file=1)
    lk.write_dataset(table(8), ds, mode="append")
    lk.write_dataset(table(9, 10), ds, mode="append", max_rows_per_file=1)
    assert follow(ds, **two) == [(3, [5, 6]), (4, [7, 8]), (5, [9, 10])]


@pytest.mark.torture
def test_bytes(follow, tmp_path):
    ds = lk.write_dataset(table(*range(5)), tmp_path / "d", max_rows_per_file=1)
    size = ds.get_fragments()[0].metadata.files[0].file_size_bytes
    two = follow(ds, "a", maxBytesPerTrigger=str(2 * size))
    assert two == [(0, [0, 1]), (1, [2, 3]), (2, [4])]
    # one fragment at least
    assert follow(ds, "b", maxBytesPerTrigger="1b") == [(n, [n]) for n in range(5)]
    assert follow(ds, "c", maxBytesPerTrigger="1g") == [(0, [0, 1, 2, 3, 4])]
    both = follow(ds, "d", maxBytesPerTrigger=str(3 * size), maxFilesPerTrigger="2")
    assert both == two
    with pytest.raises(InvalidArgumentError, match="must be a number of bytes"):
        reader_of(ds, maxBytesPerTrigger="much")


@pytest.mark.torture
def test_versions_and_fragments(follow, tmp_path):
    ds = lk.write_dataset(table(0), tmp_path / "d")
    for number in range(1, 6):
        ds.insert(table(number))
    both = {"startingVersion": "1", "maxVersionsPerBatch": "3", "maxFilesPerTrigger": "2"}
    assert follow(ds, **both) == [(0, [1, 2]), (1, [3, 4]), (2, [5])]
    lk.write_dataset(table(6, 7), ds, mode="append", max_rows_per_file=1)
    both["startingVersion"] = "5"
    assert follow(ds, "part", **both) == [(0, [5, 6]), (1, [7])]
    both = {**both, "startingVersion": "1", "maxFilesPerTrigger": "9"}
    assert follow(ds, "other", **both) == [(0, [1, 2, 3]), (1, [4, 5, 6, 7])]


def test_a_file_whose_size_the_manifest_does_not_tell(tmp_path):
    lance.write_dataset(table(0), tmp_path / "d", data_storage_version="legacy")
    lance.write_dataset(table(1), tmp_path / "d", mode="append")
    ds = lk.dataset(tmp_path / "d")
    reader = reader_of(ds, maxBytesPerTrigger="1")
    first = reader.latestOffset({"version": 0}, reader.getDefaultReadLimit())
    assert first == {"since": 0, "until": 2, "fragments": 1}
    newest = ds.get_fragments()[1].metadata.files[0].path
    assert (
        reader.reportLatestOffset()["bytesBehind"] == (tmp_path / "d/data" / newest).stat().st_size
    )


def test_offsets_of_before(tmp_path):
    """An offset of versions alone goes on, and a batch between two of them is as it was."""
    ds = lk.write_dataset(table(0, 1), tmp_path / "d", max_rows_per_file=1)
    lk.write_dataset(table(2, 3, 4), ds, mode="append", max_rows_per_file=1)
    reader = reader_of(ds, maxFilesPerTrigger="2")
    assert rows_of(reader, {"version": 0}, {"version": 2}) == [0, 1, 2, 3, 4]
    assert rows_of(reader, {"version": 1}, {"version": 2}) == [2, 3, 4]
    assert reader.latestOffset({"version": 1}, reader.getDefaultReadLimit()) == {
        "since": 1,
        "until": 2,
        "fragments": 2,
    }
    with pytest.raises(InvalidArgumentError, match=r"offset .* of the checkpoint is unknown"):
        reader.partitions({"version": 1}, {"version": 2, "page": 3})


def test_everything_is_asked_for(tmp_path):
    """A trigger for everything ignores the options, within a change, too."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    ds = lk.write_dataset(
        table(0, 1, 2), tmp_path / "d", max_rows_per_file=1, enable_stable_row_ids=True
    )
    reader = reader_of(ds, maxFilesPerTrigger="1", maxBytesPerTrigger="1")
    assert reader.latestOffset({"version": 0}, ReadAllAvailable()) == {"version": 1}
    one = reader.latestOffset({"version": 0}, reader.getDefaultReadLimit())
    ds.update({"v": "'b'"}, where="id IN (0, 2)")
    ds.insert(table(3))
    rest = reader.latestOffset(one, ReadAllAvailable())
    assert rest == {"version": 3}
    assert rows_of(reader, {"version": 0}, one) == [0]
    # 0 was read and has changed; 2 has changed before it was read, and is there once
    assert rows_of(reader, one, rest) == [0, 1, 2, 3]


def test_a_row_that_changes_while_its_version_is_read(tmp_path):
    """With stable row ids no batch has a row twice, so that a merge can take each batch."""
    ds = lk.write_dataset(
        table(*range(4)), tmp_path / "d", max_rows_per_file=1, enable_stable_row_ids=True
    )
    reader = reader_of(ds, maxFilesPerTrigger="3")
    at, seen = {"version": 0}, []
    for change in ("id IN (1, 3)", "id = 3", None, None):
        end = reader.latestOffset(at, reader.getDefaultReadLimit())
        seen.append(rows_of(reader, at, end))
        at = end
        if change:
            ds.update({"v": "'b'"}, where=change)
    assert seen == [[0, 1, 2], [3], [1, 3], []]


def test_from_now_on_and_a_crash_in_the_first_batch(tmp_path):
    ds = lk.write_dataset(table(0), tmp_path / "d")
    reader = reader_of(ds, startingVersion="latest")
    start = reader.initialOffset()
    ds.insert(table(1))  # before Spark asks how far the first batch goes
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    first = rows_of(reader, start, end)
    again = reader_of(ds, startingVersion="latest")
    assert rows_of(again, again.initialOffset(), end) == first == []
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == {"version": 2}


def test_how_far_behind(tmp_path):
    ds = lk.write_dataset(table(*range(3)), tmp_path / "d", max_rows_per_file=1)
    size = ds.get_fragments()[0].metadata.files[0].file_size_bytes
    reader = reader_of(ds, maxFilesPerTrigger="2")
    limit = reader.getDefaultReadLimit()
    assert reader.reportLatestOffset() == {"version": 1}
    at = reader.latestOffset({"version": 0}, limit)
    ds.insert(table(3))
    ds.delete("id = 0")
    assert reader.reportLatestOffset() == {
        "version": 3,
        "versionsBehind": 3,
        "fragmentsBehind": 2,
        "bytesBehind": 2 * size,
    }
    at = reader.latestOffset(at, limit)
    assert at == {"version": 3}
    report = reader.reportLatestOffset()
    assert report == {"version": 3, "versionsBehind": 0, "fragmentsBehind": 0, "bytesBehind": 0}
    ds.update({"v": "'b'"}, where="id = 1")  # nothing tells its rows: the next batch says so
    assert reader.reportLatestOffset() == {"version": 4, "versionsBehind": 1}


def test_on_spark(spark, query, tmp_path):
    """Bounded batches of what is available, what the progress says, and no batch without rows."""
    ds = lk.write_dataset(table(*range(5)), tmp_path / "d", max_rows_per_file=1)
    assert query(ds, maxFilesPerTrigger="2") == [(0, [0, 1]), (1, [2, 3]), (2, [4])]
    offsets = [
        json.loads((tmp_path / "c/offsets" / str(number)).read_text().splitlines()[-1])
        for number in range(3)
    ]
    assert offsets == [
        {"since": 0, "until": 1, "fragments": 2},
        {"since": 0, "until": 1, "fragments": 4},
        {"version": 1},
    ]
    for file in (tmp_path / "c" / "commits").iterdir():
        if file.name.strip(".").startswith("2"):
            file.unlink()  # as if the process had ended before the batch was noted
    ds.insert(table(5))
    assert query(ds, maxFilesPerTrigger="2") == [(2, [4]), (3, [5])]
    assert query(ds, maxFilesPerTrigger="2") == []


def test_progress_on_spark(spark, tmp_path):
    ds = lk.write_dataset(table(*range(5)), tmp_path / "d", max_rows_per_file=1)
    running = started(
        spark.readStream.format("lance")
        .option("maxFilesPerTrigger", "2")
        .load(ds.uri)
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
    )
    assert running.awaitTermination(HANG_SECONDS)
    seen = [progress.sources[0] for progress in running.recentProgress]
    read = [source for source in seen if source.numInputRows]
    assert [source.numInputRows for source in read] == [2, 2, 1]
    newest = [json.loads(source.latestOffset) for source in read]
    assert [offset["fragmentsBehind"] for offset in newest] == [3, 1, 0]
    assert set(newest[0]) == {"version", "versionsBehind", "fragmentsBehind", "bytesBehind"}
    assert json.loads(read[-1].endOffset) == {"version": 1}


COPY = f"""
import sys
import lancekit as lk
spark = lk.spark_session({QUICK}, master="local[2]")
sink = lk.stream_sink(sys.argv[2], query="copy")
def write(frame, number):
    sink(frame, number)
    print("wrote", number, flush=True)
    if str(number) == sys.argv[4]:
        sys.stdin.read()   # killed here: written, and not noted by Spark
running = (
    spark.readStream.format("lance").option("maxFilesPerTrigger", "2").load(sys.argv[1])
    .writeStream.foreachBatch(write).option("checkpointLocation", sys.argv[3])
    .trigger(availableNow=True).start()
)
running.awaitTermination()
"""


def _lines_of_a_killed_query(arguments, count):
    """Return the first lines of a query, which is killed then; none if no worker connected."""
    with subprocess.Popen(
        [sys.executable, "-c", COPY, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **archived()},
        start_new_session=True,
    ) as process:
        lines = [process.stdout.readline() for _ in range(count)]
        os.killpg(process.pid, signal.SIGKILL)
        if lines == [""] * count:
            assert "Python worker failed to connect back" in process.stderr.read()
            return []
    return lines


@pytest.mark.torture
def test_a_query_that_is_killed_within_a_version(spark, tmp_path, whole):
    """Each row is there once, wherever between two batches the process ended."""
    ds = lk.write_dataset(table(*range(7)), tmp_path / "d", max_rows_per_file=1)
    arguments = [ds.uri, str(tmp_path / "copy"), str(tmp_path / "c")]
    kills = 3 if whole else 1
    for last in range(kills):
        # the batch of the run before is given once more, because Spark has not noted it
        wanted = [f"wrote {number}\n" for number in range(max(last - 1, 0), last + 1)]
        # Spark gives a Python worker 10 s to start, which may be too few on a busy machine
        tries = (_lines_of_a_killed_query([*arguments, str(last)], len(wanted)) for _ in range(5))
        assert next(filter(None, tries)) == wanted
    ds.insert(table(7))
    sink, written = lk.stream_sink(str(tmp_path / "copy"), query="copy"), tmp_path / "written"

    def write(frame, number):  # over Connect another process calls this
        sink(frame, number)
        with written.open("a") as file:
            print(number, file=file)

    run_to_its_end(
        spark.readStream.format("lance")
        .option("maxFilesPerTrigger", "2")
        .load(ds.uri)
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
    )
    # the last batch has the last fragment of one version and the first of the next
    assert written.read_text().split() == [str(number) for number in range(kills - 1, 4)]
    assert sorted(lk.dataset(tmp_path / "copy").to_table()["id"].to_pylist()) == list(range(8))
