"""Each row of the type mapping, there and back; through a real session where Spark decides."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._spark.frames.types import (
    arrow_schema,
    from_spark_batch,
    spark_schema,
    to_spark_batch,
    wire_schema,
)
from lancekit.errors import UnsupportedTypeError
from tests.conftest import ON_CLUSTER

ELEMENT = "element"
NOON = dt.datetime(2024, 5, 1, 12, 30, 15, 250_000)


#: what a dataset may hold, and the type in which Spark gets it
ROWS = {
    "bool": (pa.array([True, None]), pa.bool_()),
    "int8": (pa.array([-(2**7), None], pa.int8()), pa.int8()),
    "int16": (pa.array([-(2**15), None], pa.int16()), pa.int16()),
    "int32": (pa.array([-(2**31), None], pa.int32()), pa.int32()),
    "int64": (pa.array([-(2**63), None], pa.int64()), pa.int64()),
    "uint8": (pa.array([2**8 - 1, None], pa.uint8()), pa.int16()),
    "uint16": (pa.array([2**16 - 1, None], pa.uint16()), pa.int32()),
    "uint32": (pa.array([2**32 - 1, None], pa.uint32()), pa.int64()),
    "uint64": (pa.array([2**64 - 1, None], pa.uint64()), pa.decimal128(20, 0)),
    "float16": (pa.array(np.array([1.5, 2], np.float16)), pa.float32()),
    "float32": (pa.array([1.25, None], pa.float32()), pa.float32()),
    "float64": (pa.array([1e300, None], pa.float64()), pa.float64()),
    "string": (pa.array(["ä", None]), pa.string()),
    "large_string": (pa.array(["ä", None], pa.large_string()), pa.string()),
    "string_view": (pa.array(["ä", None], pa.string_view()), pa.string()),
    "binary": (pa.array([b"\0", None]), pa.binary()),
    "large_binary": (pa.array([b"\0", None], pa.large_binary()), pa.binary()),
    "fixed_binary": (pa.array([b"ab", None], pa.binary(2)), pa.binary()),
    "date32": (pa.array([dt.date(1969, 12, 31), None], pa.date32()), pa.date32()),
    "date64": (pa.array([dt.date(1969, 12, 31), None], pa.date64()), pa.date32()),
    "naive_s": (pa.array([0, None], pa.timestamp("s")), pa.timestamp("us")),
    "naive_ns": (pa.array([NOON, None], pa.timestamp("ns")), pa.timestamp("us")),
    "aware_us": (
        pa.array([NOON, None], pa.timestamp("us", "Asia/Tokyo")),
        pa.timestamp("us", "UTC"),
    ),
    "time32": (pa.array([dt.time(1, 2, 3), None], pa.time32("s")), pa.time64("ns")),
    "time64": (pa.array([dt.time(1, 2, 3, 4), None], pa.time64("us")), pa.time64("ns")),
    "duration": (pa.array([dt.timedelta(days=-1), None], pa.duration("s")), pa.duration("us")),
    "decimal": (pa.array([Decimal("1.20"), None], pa.decimal128(9, 2)), pa.decimal128(9, 2)),
    "decimal32": (pa.array([Decimal("1.20"), None], pa.decimal32(9, 2)), pa.decimal128(9, 2)),
    "decimal256": (
        pa.array([Decimal("1.20"), None], pa.decimal256(38, 2)),
        pa.decimal128(38, 2),
    ),
    "dictionary": (pa.array(["a", None]).dictionary_encode(), pa.string()),
    "vector": (
        pa.array([[1, 2], None], pa.list_(pa.float32(), 2)),
        pa.list_(pa.field(ELEMENT, pa.float32())),
    ),
    "half_vector": (
        pa.FixedSizeListArray.from_arrays(pa.array(np.arange(4, dtype=np.float16)), 2),
        pa.list_(pa.field(ELEMENT, pa.float32())),
    ),
    "list": (
        pa.array([[1, None], None], pa.large_list(pa.uint8())),
        pa.list_(pa.field(ELEMENT, pa.int16())),
    ),
    "struct": (
        pa.array([{"a": 1}, None], pa.struct([pa.field("a", pa.uint8(), False)])),
        pa.struct([pa.field("a", pa.int16())]),
    ),
    "map": (
        pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.uint8())),
        pa.map_(pa.string(), pa.int16()),
    ),
    "extension": (
        pa.array([b"0123456789abcdef", None], pa.uuid()),
        pa.binary(),
    ),
    "null": (pa.nulls(2), pa.null()),
}


#: further units and forms, which differ in nothing else
MORE = {
    "decimal64": pa.array([Decimal("1.20"), None], pa.decimal64(12, 2)),
    "aware_s": pa.array([0, None], pa.timestamp("s", "UTC")),
    "aware_ms": pa.array([1, None], pa.timestamp("ms", "Europe/Berlin")),
    "aware_ns": pa.array([1000, None], pa.timestamp("ns", "UTC")),
    "naive_ms": pa.array([1, None], pa.timestamp("ms")),
    "naive_us": pa.array([1, None], pa.timestamp("us")),
    "time32_ms": pa.array([1, None], pa.time32("ms")),
    "time64_ns": pa.array([1000, None], pa.time64("ns")),
    "duration_ms": pa.array([1, None], pa.duration("ms")),
    "duration_us": pa.array([1, None], pa.duration("us")),
    "duration_ns": pa.array([1000, None], pa.duration("ns")),
    "binary_view": pa.array([b"x", None], pa.binary_view()),
    "dictionary_int": pa.array([1, None]).dictionary_encode(),
}
#: what a value can lie in
INSIDE = {
    "nothing": lambda v: v,
    "list": lambda v: pa.ListArray.from_arrays([0, 2, 2], v),
    "large_list": lambda v: pa.LargeListArray.from_arrays(pa.array([0, 2, 2], pa.int64()), v),
    "vector": lambda v: pa.FixedSizeListArray.from_arrays(v, 2),
    "struct": lambda v: pa.StructArray.from_arrays([v], ["part"]),
    "map": lambda v: pa.MapArray.from_arrays([0, 2], pa.array(["x", "y"]), v),
    "lists": lambda v: pa.ListArray.from_arrays([0, 1], pa.ListArray.from_arrays([0, 2], v)),
}
# extension types come as what they are stored as, at any depth but the top
ALL = {name: values for name, (values, _) in ROWS.items() if name != "extension"} | MORE


@pytest.fixture(scope="module")
def batch():
    return pa.record_batch({name: values for name, (values, _) in ROWS.items()})


def test_every_row_of_the_mapping(batch):
    wire = wire_schema(batch.schema)
    assert {f.name: f.type for f in wire} == {name: kind for name, (_, kind) in ROWS.items()}
    sent = to_spark_batch(batch, wire)
    sent.validate(full=True)
    assert sent.schema == wire
    back = from_spark_batch(sent, batch.schema)
    back.validate(full=True)
    assert back.equals(batch)


@pytest.mark.parametrize("outer", INSIDE)
@pytest.mark.parametrize("exact", [False, True])
def test_every_type_in_every_other(outer, exact):
    for name, values in ALL.items():
        batch = pa.record_batch({"c": INSIDE[outer](values)})
        wire = wire_schema(batch.schema, exact=exact)
        sent = to_spark_batch(batch, wire)
        sent.validate(full=True)
        back = from_spark_batch(sent, batch.schema)
        back.validate(full=True)
        assert back.equals(batch), name
        assert arrow_schema(spark_schema(wire)).types == wire.types, name


@pytest.mark.parametrize("outer", INSIDE)
@pytest.mark.parametrize("exact", [False, True])
def test_parts_of_a_null_struct_that_take_no_nulls(outer, exact):
    whole = pa.array([1000, 2000], pa.timestamp("ns"))
    missing = pa.array([True, False])
    for part in (whole, whole.take(pa.array([None, 1]))):  # read, the part is null too
        fields = [pa.field("part", part.type, nullable=False)]
        values = pa.StructArray.from_arrays([part], fields=fields, mask=missing)
        batch = pa.record_batch({"c": INSIDE[outer](values)})
        wire = wire_schema(batch.schema, exact=exact)
        back = from_spark_batch(to_spark_batch(batch, wire), batch.schema)
        back.validate(full=True)
        assert back.equals(batch)


@pytest.mark.parametrize("kind", [pa.list_view, pa.large_list_view])
def test_views_of_lists_go_as_lists(kind):
    batch = pa.record_batch({"c": pa.array([[1], None], kind(pa.uint8()))})
    sent = to_spark_batch(batch, wire_schema(batch.schema))
    assert sent.schema.types == [pa.list_(pa.field(ELEMENT, pa.int16()))]
    assert sent.to_pydict() == {"c": [[1], None]}


def test_elements_are_called_as_spark_calls_them(batch):
    assert wire_schema(batch.schema).field("vector").type.value_field.name == ELEMENT


def test_exactly_between_two_steps_of_our_own():
    batch = pa.record_batch(
        {
            "t": pa.array([1, None], pa.timestamp("ns", "UTC")),
            "n": pa.array([1, None], pa.timestamp("ns")),
            "d": pa.array([1, None], pa.duration("ns")),
            "c": pa.array([1, None], pa.time64("ns")),
            "x": pa.array([1, None], pa.uint64()),
        }
    )
    wire = wire_schema(batch.schema, exact=True)
    assert wire.types == [pa.int64()] * 4 + [pa.decimal128(20, 0)]
    assert from_spark_batch(to_spark_batch(batch, wire), batch.schema).equals(batch)


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.time64("ns"), pa.duration("ns")], ids=str)
def test_a_value_is_never_cut(kind):
    batch = pa.record_batch({"when": pa.array([1000, None, 1001], kind)})
    with pytest.raises(UnsupportedTypeError, match=r"'when' of type .* between two microseconds"):
        to_spark_batch(batch, wire_schema(batch.schema))


@pytest.mark.parametrize(
    "kind",
    [
        pa.decimal256(50, 2),
        pa.decimal128(5, -2),
        pa.list_(pa.decimal256(50)),
        pa.month_day_nano_interval(),
    ],
    ids=str,
)
def test_a_type_that_spark_has_not(kind):
    with pytest.raises(UnsupportedTypeError, match="'amount'") as caught:
        wire_schema(pa.schema({"amount": kind}))
    assert caught.value.context["column"] == "amount"
    assert "Leave the column out" in caught.value.hint


@pytest.mark.spark
@pytest.mark.skipif(ON_CLUSTER, reason="the time zone is the user's there")
def test_through_spark(spark, batch):
    """Made of Arrow, handed to workers, given back by them: the wire form holds everywhere."""
    wire = wire_schema(batch.schema)
    sent = pa.Table.from_batches([to_spark_batch(batch, wire)])
    expected = repr([f"{f.name}: {f.type}" for f in wire])

    def check(batches):
        for got in batches:
            seen = repr([f"{f.name}: {f.type}" for f in got.schema])
            assert seen == expected, seen
            yield got

    frame = spark.createDataFrame(sent, spark_schema(wire))
    assert arrow_schema(frame.schema).types == wire.types
    back = frame.mapInArrow(check, spark_schema(wire)).toArrow()
    whole = back.combine_chunks().to_batches()[0]
    assert from_spark_batch(whole, batch.schema).equals(batch)


@pytest.mark.spark
@pytest.mark.parametrize("outer", ["nothing", "list", "vector", "struct"])
def test_through_a_dataset_and_spark_and_back(spark, tmp_path, outer):
    """What a dataset holds goes to Spark and comes back, appended, as the type that it was."""
    rows = {name: INSIDE[outer](values).slice(0, 1) for name, values in ALL.items()}
    del rows["null"]
    kept = {}
    for name, values in rows.items():  # what the format has no place for is another test's
        try:
            lk.write_dataset({name: values}, f"memory://types-{outer}-{name}")
        except UnsupportedTypeError:
            continue
        kept[name] = values
    ds = lk.write_dataset(pa.table(kept), tmp_path / "d")
    ds = lk.write_dataset(ds.to_spark(), ds, mode="append")
    table = ds.to_table()
    assert len(kept) > 30
    for name in kept:
        first, second = (table[name].slice(at, 1).combine_chunks() for at in (0, 1))
        assert first.equals(second), name


@pytest.mark.spark
def test_literals_take_nulls(spark):
    frame = spark.sql("select 1 as one, cast('x' as varchar(3)) as v")
    assert frame.schema["one"].nullable is False
    assert arrow_schema(frame.schema) == pa.schema({"one": pa.int32(), "v": pa.string()})


@pytest.mark.spark
@pytest.mark.parametrize("sql", ["parse_json('1')", "interval '1' month", "make_interval(1)"])
def test_a_type_of_sparks_own(spark, sql):
    with pytest.raises(UnsupportedTypeError, match="Column 'odd' has the Spark type"):
        arrow_schema(spark.sql(f"select {sql} as odd").schema)
