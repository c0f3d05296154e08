"""Changes of a dataset as a stream: a restart reads the same again.

Spark takes seconds to start a streaming query.  So most tests ask the reader itself, in the order
in which Spark does, and at full length (``--whole``) Spark.
"""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from tests.support.patience import HANG_SECONDS, started

pytestmark = pytest.mark.spark


def table(*ids):
    return pa.table({"id": pa.array(ids, pa.int64()), "v": ["a"] * len(ids)})


def test_a_query_that_is_started_again(query, tmp_path):
    ds = lk.write_dataset(table(1, 2), tmp_path / "d")
    ds.insert(table(3))
    assert query(ds, maxVersionsPerBatch="1") == [(0, [1, 2]), (1, [3])]
    ds.insert(table(4))
    for file in (tmp_path / "c" / "commits").iterdir():
        if file.name.strip(".").startswith("1"):
            file.unlink()  # as if the process had ended before the batch was noted
    ds.insert(table(5))
    assert query(ds) == [(1, [3]), (2, [4, 5])]
    ds.update({"v": "'b'"}, where="id = 1")
    with pytest.raises(Exception, match=r"version 5 of .* not an append"):
        query(ds)


@pytest.mark.torture
def test_appends(follow, tmp_path):
    ds = lk.write_dataset(table(1, 2), tmp_path / "d")
    ds.insert(table(3))
    assert follow(ds) == [(0, [1, 2, 3])]
    assert follow(ds) == []
    ds.insert(table(4))
    ds.delete("id = 1")
    ds.insert(table(5, 6))
    lance.dataset(ds.uri).insert(table(7))
    assert follow(ds) == [(1, [4, 5, 6, 7])]
    ds = lk.dataset(ds.uri)
    ds.optimize.compact_files()
    ds.update_config({"x": "y"})
    ds.insert(table(8))
    assert follow(ds) == [(2, [8])]


@pytest.mark.torture
def test_where_to_start_and_how_much_at_a_time(follow, tmp_path):
    ds = lk.write_dataset(table(1), tmp_path / "d")
    for n in range(2, 6):
        ds.insert(table(n))
    assert follow(ds, "a", startingVersion="3") == [(0, [4, 5])]
    limited = follow(ds, "b", startingVersion="1", maxVersionsPerBatch="3")
    assert limited == [(0, [2, 3, 4]), (1, [5])]
    assert follow(ds, "c", maxVersionsPerBatch="2") == [(0, [1, 2]), (1, [3, 4]), (2, [5])]
    assert follow(ds, "d", startingVersion="latest") == [(0, [])]
    ds.insert(table(6))
    assert follow(ds, "d", startingVersion="latest") == [(1, [6])]
    assert follow(ds, "e", startingVersion="2", filter="id > 4") == [(0, [5, 6])]


@pytest.mark.torture
def test_updates_by_stable_row_ids(follow, tmp_path):
    ds = lk.write_dataset(table(1, 2, 3), tmp_path / "d", enable_stable_row_ids=True)
    assert follow(ds) == [(0, [1, 2, 3])]
    ds.update({"v": "'b'"}, where="id = 2")
    ds.insert(table(4))
    ds.update({"v": "'c'"}, where="id = 4")
    ds.delete("id = 3")
    merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(table(1, 9))
    assert follow(ds) == [(1, [1, 2, 4, 9])]
    some = "id > 3 -- new ones"
    assert follow(ds, "some", startingVersion="1", filter=some) == [(0, [4, 9])]
    ds.optimize.compact_files()
    assert follow(ds) == [(2, [])]
    ds.cleanup_old_versions(retain_versions=1)  # versions in between are not needed
    ds.insert(table(10))
    assert follow(ds) == [(3, [10])]


def test_rows_say_which_version_made_them(spark, tmp_path):
    ds = lk.write_dataset(table(1), tmp_path / "d", enable_stable_row_ids=True)
    ds.insert(table(2))
    stream = spark.readStream.format("lance").option("columns", "id, _row_created_at_version")
    assert stream.load(ds.uri).isStreaming
    assert stream.load(ds.uri).columns == ["id", "_row_created_at_version"]


@pytest.mark.torture
@pytest.mark.parametrize(
    "change",
    [
        lambda ds: ds.update({"v": "'b'"}, where="id = 1"),
        lambda ds: lk.write_dataset(table(9), ds.uri, mode="overwrite"),
        lambda ds: ds.add_columns({"w": "id"}),
        lambda ds: ds.checkout_version(1).restore(),
    ],
    ids=["update", "overwrite", "add_columns", "restore"],
)
def test_a_rewrite_without_stable_row_ids(follow, tmp_path, change):
    ds = lk.write_dataset(table(1), tmp_path / "d")
    follow(ds)
    change(ds)
    ds = lk.dataset(ds.uri)
    lk.write_dataset(table(5).append_column("w", [[1]]).select(ds.schema.names), ds, mode="append")
    with pytest.raises(Exception, match=r"version 2 of .* not an append"):
        follow(ds)
    assert follow(ds, skipRewrites="true")[-1][1] == [5]


@pytest.mark.torture
def test_versions_that_are_gone(follow, tmp_path):
    ds = lk.write_dataset(table(1), tmp_path / "d")
    follow(ds)
    ds.insert(table(2))
    ds.insert(table(3))
    ds.cleanup_old_versions(retain_versions=1)
    with pytest.raises(Exception, match=r"Version 2 of .* was cleaned up before the stream"):
        follow(ds)
    with pytest.raises(Exception, match="startingVersion=9 does not exist yet"):
        follow(ds, "other", startingVersion="9")
    with pytest.raises(Exception, match="'version' is not for a stream"):
        follow(ds, "third", version="3")


def test_a_table_copied_by_source_and_sink(spark, tmp_path):
    ds = lk.write_dataset(table(1, 2), tmp_path / "d", enable_stable_row_ids=True)
    copy(spark, ds, tmp_path)
    ds.update({"v": "'new'"}, where="id = 2")
    ds.insert(table(3))
    copy(spark, ds, tmp_path)


def test_a_table_copied_at_once(spark, tmp_path):
    """Over Spark Connect each query takes seconds."""
    copy(spark, lk.write_dataset(table(1, 2), tmp_path / "d"), tmp_path)


def copy(spark, ds, tmp_path):
    query = started(
        spark.readStream.format("lance")
        .load(ds.uri)
        .writeStream.foreachBatch(
            lk.stream_sink(tmp_path / "copy", query="copy", mode="merge", on="id")
        )
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
    )
    assert query.awaitTermination(HANG_SECONDS)
    rows = lk.dataset(tmp_path / "copy").to_table().sort_by("id").to_pylist()
    assert rows == ds.to_table().sort_by("id").to_pylist()
