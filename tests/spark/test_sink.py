"""Exactly once: batches of streaming queries, replayed, raced and cleaned up."""

from __future__ import annotations

import pickle
import sys
import threading

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._operations import write as write_module
from lancekit.errors import FormatError, InvalidArgumentError, InvalidTypeError, StorageError
from tests.support.patience import HANG_SECONDS, started

pytestmark = pytest.mark.spark


def ids(place):
    return sorted(lk.dataset(place).to_table(["id"])["id"].to_pylist())


def test_a_replayed_batch_is_passed_over(spark, tmp_path):
    place = tmp_path / "d"
    sink = lk.stream_sink(place, query="q", max_rows_per_file=2)
    assert sink(spark.range(3), 0) is True
    assert sink(spark.range(3), 0) is False
    assert sink(spark.range(3, 5), 1) is True
    assert sink(spark.range(3), 0) is False
    ds = lk.dataset(place)
    assert (ds.version, ids(place)) == (2, [0, 1, 2, 3, 4])
    assert ds.config()["lancekit.stream.q"] == "1"
    properties = ds.read_transaction(2).transaction_properties
    assert properties["lancekit.stream.query"] == "q"
    assert properties["lancekit.stream.batch"] == "1"


def test_two_queries_into_one_table(spark, tmp_path):
    place = tmp_path / "d"
    one, two = lk.stream_sink(place, query="one"), lk.stream_sink(place, query="two")
    for batch in range(2):
        assert one(spark.range(batch, batch + 1), batch)
        assert two(spark.range(10 + batch, 11 + batch), batch)
    assert not one(spark.range(9), 1)
    assert not two(spark.range(9), 0)
    assert ids(place) == [0, 1, 10, 11]


@pytest.mark.parametrize("cleaner", ["lancekit", "pylance"])
def test_a_replay_after_cleanup(spark, tmp_path, cleaner):
    place = tmp_path / "d"
    sinks = [lk.stream_sink(place, query=f"q{n}") for n in range(2)]
    for n, sink in enumerate(sinks):
        sink(spark.range(n, n + 1), 0)
    lk.write_dataset({"id": [7]}, place, mode="append")
    lance.write_dataset(pa.table({"id": [8]}), place, mode="append")
    if cleaner == "lancekit":
        lk.dataset(place).cleanup_old_versions(retain_versions=1)
    else:
        from datetime import timedelta

        lance.dataset(place).cleanup_old_versions(timedelta(0))
    assert len(lk.dataset(place).versions()) == 1
    for n, sink in enumerate(sinks):
        assert not sink(spark.range(n, n + 1), 0)
    assert ids(place) == [0, 1, 7, 8]


def test_a_restore_takes_rows_and_mark_back(spark, tmp_path):
    place = tmp_path / "d"
    sink = lk.stream_sink(place, query="q")
    sink(spark.range(1), 0)
    sink(spark.range(1, 2), 1)
    lk.dataset(place).checkout_version(1).restore()
    assert sink(spark.range(1, 2), 1)
    assert ids(place) == [0, 1]


def test_a_crash_at_either_side_of_the_commit(spark, tmp_path, monkeypatch):
    """There is one commit, so a batch is there with its mark, or not at all."""
    place = tmp_path / "d"
    sink = lk.stream_sink(place, query="q")
    sink(spark.range(1), 0)
    real = write_module.commit

    def before(*args, **kwargs):
        raise StorageError("lost before")

    def after(*args, **kwargs):
        real(*args, **kwargs)
        raise KeyboardInterrupt  # the process ends before Spark notes the batch

    monkeypatch.setattr(write_module, "commit", before)
    with pytest.raises(StorageError, match="lost before"):
        sink(spark.range(1, 2), 1)
    assert ids(place) == [0]
    monkeypatch.setattr(write_module, "commit", after)
    with pytest.raises(KeyboardInterrupt):
        sink(spark.range(1, 2), 1)
    monkeypatch.undo()
    assert not sink(spark.range(1, 2), 1)
    assert ids(place) == [0, 1]


def test_two_runs_of_one_query_race(spark, tmp_path, monkeypatch):
    """An old driver that was thought dead, and the new one: both wrote, one lands."""
    place = tmp_path / "d"
    sink = lk.stream_sink(place, query="q")
    sink(spark.range(1), 0)
    real, entered = write_module.commit, []

    def late(*args, **kwargs):
        if not entered:
            entered.append(True)
            assert sink(spark.range(1, 2), 1) is True
        return real(*args, **kwargs)

    monkeypatch.setattr(write_module, "commit", late)
    assert sink(spark.range(1, 2), 1) is False
    assert ids(place) == [0, 1]
    assert len(list((place / "data").iterdir())) == 2  # what the loser wrote is gone


def test_writers_race_for_versions(spark, tmp_path):
    place = tmp_path / "d"
    lk.write_dataset({"id": [-1]}, place)
    failures = []

    def run(name, first):
        try:
            sink = lk.stream_sink(place, query=name)
            for batch in range(3):
                for _ in range(2):
                    sink(spark.range(first + batch, first + batch + 1, 1, 1), batch)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(f"q{n}", 10 * n)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert ids(place) == [-1, 0, 1, 2, 10, 11, 12]


def test_a_merge(spark, tmp_path):
    place = tmp_path / "d"
    sink = lk.stream_sink(place, query="q", mode="merge", on="id")
    first = spark.sql("select * from values (1, 'a'), (2, 'b') as t(id, v)")
    second = spark.sql("select * from values (2, 'B'), (3, 'C') as t(id, v)")
    third = spark.sql("select * from values (3, 'x') as t(id, v)")
    assert [sink(frame, n) for n, frame in enumerate((first, second, third))] == [True] * 3
    assert [sink(frame, n) for n, frame in enumerate((first, second, third))] == [False] * 3
    ds = lk.dataset(place)
    rows = sorted((row["id"], row["v"]) for row in ds.to_table().to_pylist())
    assert rows == [(1, "a"), (2, "B"), (3, "x")]
    assert ds.read_transaction(3).transaction_properties["lancekit.stream.batch"] == "2"


def test_a_streaming_query_restarted_from_its_checkpoint(spark, tmp_path):
    place, incoming = tmp_path / "d", tmp_path / "in"
    incoming.mkdir()

    def run(name="files", checkpoint="c"):
        frame = spark.readStream.schema("id long").json(str(incoming))
        query = started(
            frame.writeStream.foreachBatch(lk.stream_sink(place, query=name))
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
        )
        assert query.awaitTermination(HANG_SECONDS)
        return query

    (incoming / "a.json").write_text('{"id": 1}')
    run()
    (incoming / "b.json").write_text('{"id": 2}')
    query = run()
    assert ids(place) == [1, 2]
    assert lk.dataset(place).config()["lancekit.stream.files"] == f"1 {query.id}"
    # as if the process had ended before Spark noted that batch 1 was done
    for file in (tmp_path / "c" / "commits").iterdir():
        if file.name.strip(".").startswith("1"):
            file.unlink()
    run()
    assert ids(place) == [1, 2]
    assert lk.dataset(place).latest_version == 2
    # another checkpoint counts from 0 again: under the same name its rows would be lost
    with pytest.raises(Exception, match="belongs to another streaming query"):
        run(checkpoint="other")
    run(name="again", checkpoint="another")
    assert ids(place) == [1, 1, 2, 2]


def test_two_streams_at_once(spark, tmp_path):
    """Over Connect it is not told which of them calls; nothing is refused or lost for that."""
    place = tmp_path / "d"
    lk.write_dataset({"id": pa.array([], pa.int64())}, place)
    names = ("one", "two")
    for first in (0, 10):
        for number, name in enumerate(names, first):
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / f"{number}.json").write_text(f'{{"id": {number}}}')
        queries = [
            started(
                spark.readStream.schema("id long")
                .json(str(tmp_path / name))
                .writeStream.foreachBatch(lk.stream_sink(place, query=name))
                .option("checkpointLocation", str(tmp_path / f"{name}.checkpoint"))
                .trigger(availableNow=True)
            )
            for name in names
        ]
        assert all(query.awaitTermination(HANG_SECONDS) for query in queries)
    assert ids(place) == [0, 1, 10, 11]
    config = lk.dataset(place).config()
    assert [config[f"lancekit.stream.{name}"].partition(" ")[0] for name in names] == ["1", "1"]


def test_a_sink_can_be_sent(spark, tmp_path):
    sink = pickle.loads(pickle.dumps(lk.stream_sink(tmp_path / "d", query="q")))
    assert sink(spark.range(1), 0)
    assert ids(tmp_path / "d") == [0]


def test_on_a_branch(spark, tmp_path):
    ds = lk.write_dataset({"id": [0]}, tmp_path / "d")
    ds.create_branch("side")
    sink = lk.stream_sink(tmp_path / "d", query="q", branch="side")
    assert sink(spark.range(5, 6), 0)
    assert not sink(spark.range(5, 6), 0)
    assert ids(tmp_path / "d") == [0]
    assert ds.checkout_version(("side", None)).count_rows() == 2


def test_bad_arguments(spark, tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"query must be .* got ''"):
        lk.stream_sink(tmp_path / "d", query="")
    with pytest.raises(InvalidArgumentError, match=r"mode must be .* got 'overwrite'"):
        lk.stream_sink(tmp_path / "d", query="q", mode="overwrite")
    with pytest.raises(InvalidArgumentError, match="on= is only for merges"):
        lk.stream_sink(tmp_path / "d", query="q", on="id")
    sink = lk.stream_sink(tmp_path / "d", query="q")
    with pytest.raises(InvalidTypeError, match="must be a Spark DataFrame, got a dict"):
        sink({"id": [1]}, 0)
    lk.write_dataset({"id": [1]}, tmp_path / "d").update_config({"lancekit.stream.q": "x"})
    with pytest.raises(FormatError, match=r"'lancekit\.stream\.q' .* a number, got 'x'"):
        sink(spark.range(1), 0)


def test_no_secret_is_shown():
    from lancekit._spark.datasource.options import SourceOptions
    from lancekit._versions.branch_location import open_location

    secret = {"aws_access_key_id": "me", "aws_secret_access_key": "hush", "aws_region": "x"}
    sink = lk.stream_sink("s3://bucket/d", query="q", storage_options=secret)
    options = {f"storage.{name}": value for name, value in secret.items()}
    source = SourceOptions.parse({"path": "s3://bucket/d", **options})
    line = open_location("s3://bucket/d", secret)
    assert sink.storage_options == source.storage == line.storage_options == secret
    assert "hush" not in f"{sink!r} {sink} {source!r} {line!r}"


def test_where_batches_and_merges_come_from(spark, tmp_path, monkeypatch):
    place, name = tmp_path / "d", spark.conf.get("spark.app.name")
    monkeypatch.setattr(sys, "argv", ["nightly.py"])
    with lk.options(provenance="names"):
        sink = lk.stream_sink(place, query="q")
    # over Connect a process of the server's calls it
    monkeypatch.setattr(sys, "argv", ["foreach_batch_worker.py"])
    sink = pickle.loads(pickle.dumps(sink))
    assert sink(spark.range(3), 0)
    assert sink(spark.range(3), 1)
    monkeypatch.setattr(sys, "argv", ["late.py"])
    ds = lk.dataset(place)
    with lk.options(provenance="names"):
        ds.merge_insert("id").when_not_matched_insert_all().execute(spark.range(2, 5))
    spark.range(1).write.format("lance").mode("append").save(str(place))
    found = [version.provenance for version in lk.dataset(place).versions()]
    assert [f and (f.script, f.application) for f in found] == [
        *[("nightly.py", name)] * 2,
        ("late.py", name),
        None,
    ]
