"""Nested columns, extension types and blobs on Spark: the same as in this process."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

import lancekit as lk

pytestmark = pytest.mark.spark

FRAME = """
select * from values
  (1, array(1, 2), named_struct('a', 1, 'b', 'x'), map('k', named_struct('p', 1)),
   array(named_struct('q', array(1.5)))),
  (2, null, null, null, null),
  (3, array(), named_struct('a', null, 'b', 'y'), map(), array())
as t(id, l, s, m, ls)
"""


def stored(ds) -> list[dict[str, object]]:
    rows = ds.to_table().sort_by("id").to_pylist()
    assert lance.dataset(ds.uri).to_table().sort_by("id").to_pylist() == rows
    return rows


def test_arrays_structs_and_maps_both_ways(spark, tmp_path):
    frame = spark.sql(FRAME)
    ds = lk.write_dataset(frame, tmp_path / "d")
    first, missing, empty = stored(ds)
    assert first["m"] == [("k", {"p": 1})]
    assert missing == {"id": 2, "l": None, "s": None, "m": None, "ls": None}
    assert (empty["l"], empty["s"], empty["m"]) == ([], {"a": None, "b": "y"}, [])
    back = ds.to_spark()
    assert back.schema.simpleString() == frame.schema.simpleString()
    assert back.orderBy("id").collect() == frame.orderBy("id").collect()
    paths = ds.to_spark(columns=["s.a", "id"], filter="s.b = 'y' OR array_has(l, 2)")
    assert sorted(paths.collect(), key=lambda row: row["id"]) == [(1, 1), (None, 3)]


def test_changes_on_spark(spark, tmp_path):
    ds = lk.write_dataset(spark.sql(FRAME), tmp_path / "d")
    with lk.options(engine="spark"):
        ds.insert({"id": [4], "l": [[9]], "s": [{"b": "w", "a": 5}]})
        merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        new = {"id": [1, 7], "l": [[100], None], "s": [{"b": "u", "a": 9}, None]}
        assert merge.execute(new).engine == "spark"
        when = ds.merge_insert("id").when_matched_update_all("source.s.a > target.s.a")
        changed = when.execute({"id": [1, 4], "s": [{"a": 10, "b": "v"}, {"a": 0, "b": "no"}]})
        assert changed.num_updated_rows == 1
        ds.delete("array_has(l, 9)")
    first, *_, last = stored(ds)
    assert (first["l"], first["s"]) == ([100], {"a": 10, "b": "v"})
    assert first["m"] == [("k", {"p": 1})]  # what the source lacked is kept
    assert last["id"] == 7
    frame = spark.sql(FRAME).where("id = 2")
    ds.merge_insert("id").when_matched_delete().execute(frame)
    assert [row["id"] for row in stored(ds)] == [1, 3, 7]


def test_extension_types_blobs_and_deep_nanoseconds(spark, tmp_path):
    table = pa.table(
        {
            "id": [1, 2],
            "u": pa.array([b"0123456789abcdef", None], pa.uuid()),
            "j": pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a":1}', None])),
            "deep": pa.array(
                [{"t": [5], "m": [("k", 7)]}, None],
                pa.struct(
                    [
                        ("t", pa.list_(pa.timestamp("ns"))),
                        ("m", pa.map_(pa.string(), pa.duration("ns"))),
                    ]
                ),
            ),
        }
    ).append_column(lk.blob_field("b"), lk.blob_array([b"blob", None]))
    local = lk.write_dataset(table, tmp_path / "local")
    with lk.options(engine="spark"):
        ds = lk.write_dataset(table, tmp_path / "spark")
        assert ds.schema == local.schema
        ds.merge_insert("id").when_matched_update_all().execute({"id": [2], "u": [b"x" * 16]})
    bytes_of = {"blob_handling": "all_binary"}
    wanted = local.to_table(**bytes_of).drop_columns("u")
    found = ds.to_table(**bytes_of).sort_by("id")
    assert found.drop_columns("u").equals(wanted)
    assert lance.dataset(ds.uri).to_table(**bytes_of).sort_by("id").equals(found)
    shown = ds.to_spark(columns=["id", "u", "j", "b.size"]).orderBy("id").collect()
    assert [tuple(row) for row in shown] == [
        (1, b"0123456789abcdef", '{"a":1}', 4),
        (2, b"x" * 16, None, None),
    ]
    loaded = spark.read.format("lance").option("columns", "j").load(ds.uri)
    assert {row["j"] for row in loaded.collect()} == {'{"a":1}', None}
