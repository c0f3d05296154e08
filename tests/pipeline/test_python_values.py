"""Python objects become the columns that hold them, or are refused: nothing is cut."""

import datetime as dt
import enum
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import lancekit as lk
from lancekit._format.extensions import stored_schema
from lancekit._pipeline.casts.plan import plan_cast
from lancekit._pipeline.casts.python_values import Guide, python_array
from lancekit._pipeline.casts.values import LossError
from lancekit._pipeline.inputs import as_reader
from lancekit.errors import SchemaMismatchError
from tests.support.arrow_columns import columns

NANO = pd.Timestamp("2020-01-01 00:00:00.123456789")
UTC = dt.UTC
DAY, FIVE = dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 5)


def in_stored_form(table):
    return as_reader(table).read_all()


def cast(reader, schema):
    plan = plan_cast(reader.schema, schema)
    return pa.Table.from_batches(map(plan.apply, reader), schema)


def same(table, other):
    assert table.schema.equals(other.schema, check_metadata=True)
    assert table.to_pylist() == other.to_pylist()


def as_frame(table):
    objects = {n: pd.Series(table[n].to_pylist(), dtype=object) for n in table.column_names}
    return pd.DataFrame(objects)


def as_columns(table):
    return table.to_pydict()


def as_rows(table):
    return table.to_pylist()


NANOS = pa.array([1577836800123456789, None], pa.timestamp("ns"))


@given(columns())
@example(pa.array([[NANO]], pa.list_(pa.timestamp("ns"))))
@example(pa.array([[("k", NANO)]], pa.map_(pa.string(), pa.timestamp("ns", "UTC"))))
def test_what_arrow_hands_out_comes_back(column):
    table = pa.table({"number": range(len(column)), "x": column})
    stored = in_stored_form(table)
    wanted = stored_schema(table.schema)
    for make in (as_rows, as_columns, as_frame):
        if len(column) or make is not as_rows:
            same(as_reader(make(table), table.schema).read_all(), stored)
            same(cast(as_reader(make(table), like=table.schema), wanted), stored)


NO_ITEMS = pa.StructArray.from_arrays(
    [pa.array([[], [None] * 3], pa.list_(pa.bool_())), pa.array([None, b"\0" * 16], pa.uuid())],
    ["a", "u"],
)


@given(columns())
@example(NO_ITEMS)
def test_without_a_schema_values_stay_or_are_refused(column):
    table = pa.table({"x": column})
    stored = in_stored_form(table)
    try:
        read = cast(as_reader({"x": column.to_pylist()}), stored.schema)
    except SchemaMismatchError:
        return
    same(read, stored)


@given(
    st.lists(
        st.none()
        | st.datetimes()
        | st.dates()
        | st.datetimes(timezones=st.just(UTC))
        | st.integers(-(2**63), 2**63 - 1).map(lambda n: np.datetime64(n, "ns"))
        | st.integers(-(10**12), 10**12).map(lambda n: np.datetime64(n, "ms")),
        max_size=5,
    )
)
def test_moments_of_all_kinds_together(values):
    try:
        made = python_array(values)
    except LossError:
        return
    for given_, read in zip(values, made.to_pylist(), strict=True):
        if given_ is None or (isinstance(given_, np.datetime64) and np.isnat(given_)):
            assert read is None
        elif isinstance(given_, dt.date) and not isinstance(given_, dt.datetime):
            midnight = dt.datetime.combine(given_, dt.time())
            assert read in (given_, midnight)
        else:
            assert pd.Timestamp(read) == pd.Timestamp(given_)


class Colour(enum.IntEnum):
    RED = 1


HELD = {
    "nanoseconds": ([NANO, None], pa.timestamp("ns")),
    "nanoseconds among others": ([NANO, FIVE, DAY, np.datetime64(1, "s")], pa.timestamp("ns")),
    "before 1970": ([pd.Timestamp("1960-01-01 00:00:00.000000001")], pa.timestamp("ns")),
    "dates and times": ([DAY, FIVE], pa.timestamp("us")),
    "far away": (
        [dt.datetime.min, dt.datetime.max, pd.Timestamp("3000-01-01")],
        pa.timestamp("us"),
    ),
    "in zones": (
        [FIVE.replace(tzinfo=UTC), FIVE.replace(tzinfo=dt.timezone(dt.timedelta(hours=2)))],
        pa.timestamp("us", "UTC"),
    ),
    "days": ([np.datetime64("2020-01-01"), np.datetime64("NaT", "D")], pa.date32()),
    "months": ([np.datetime64("2020-02"), FIVE], pa.timestamp("us")),
    "spans": ([pd.Timedelta(-1), dt.timedelta(1), np.timedelta64(-1, "ns")], pa.duration("ns")),
    "nothing": ([None, pd.NaT, pd.NA], pa.null()),
    "large": ([2**63, 1], pa.uint64()),
    "of one width": ([np.int8(1), None], pa.int8()),
    "of many widths": ([np.int8(1), 300, Colour.RED], pa.int64()),
    "halves": ([np.float16(0.5)], pa.float16()),
    "whole and not": ([1, 2.5], pa.float64()),
    "money": ([Decimal("1.5"), 100], pa.decimal128(4, 1)),
    "truths": ([True, np.bool_(False)], pa.bool_()),
    "bytes": ([b"a", bytearray(b"b"), memoryview(b"c")], pa.binary()),
    "arrays": ([np.array([1, 2], "int16"), None], pa.list_(pa.int16())),
    "arrays of many widths": ([np.array([1], "int16"), np.array([1.5])], pa.list_(pa.float64())),
    "lists of all sorts": ([[1], (2,), {3}, range(4, 5), pd.Series([5])], pa.list_(pa.int64())),
    "dicts": ([{"a": 1}, {"b": NANO}], pa.struct({"a": pa.int64(), "b": pa.timestamp("ns")})),
    "empty dicts": ([{}, None], pa.struct([])),
    "scalars": ([pa.scalar(1, pa.timestamp("ns")), None], pa.timestamp("ns")),
}


def plain(value):
    """Return a value as Arrow hands it out."""
    if isinstance(value, np.ndarray | tuple | set | range | pd.Series):
        return list(value)
    return value


@pytest.mark.parametrize("case", HELD)
def test_the_type_that_holds_all(case):
    values, kind = HELD[case]
    made = python_array(values)
    assert made.type == kind
    if pa.types.is_temporal(kind):
        missing = [
            pd.isna(value.as_py() if isinstance(value, pa.Scalar) else value) for value in values
        ]
        assert [value is None for value in made.to_pylist()] == missing
    elif case not in {"nothing", "scalars", "dicts"}:
        assert made.to_pylist() == list(map(plain, values))


MIXED = "is of class"
LOST = {
    "text among numbers": ([1, "a"], 1, MIXED),
    "a truth among numbers": ([1, None, True], 2, MIXED),
    "text and bytes": (["a", b"b"], 1, MIXED),
    "three kinds": ([1, 2.5, Decimal(1)], 2, MIXED),
    "money and floats": ([Decimal(1), 1.5], 1, MIXED),
    "deep": ([[1], None, [2, "a"]], 2, MIXED),
    "in a field": ([{"a": 1}, {"a": "x"}], 1, MIXED),
    "too large to be a float": ([0.5, 2**53 + 1], 1, "outside of the range"),
    "too large": ([1, 2**70], 1, "cannot be stored"),
    "large and negative": ([2**63, -1], 1, "cannot be stored"),
    "only some have a zone": ([FIVE.replace(tzinfo=UTC), FIVE], 1, "has no time zone"),
    "only one has a zone": ([FIVE, FIVE.replace(tzinfo=UTC)], 1, "has a time zone"),
    "a time in a zone": ([None, dt.time(5, tzinfo=UTC)], 1, "has a time zone"),
    "nanoseconds, and far away": ([NANO, dt.datetime.max], 1, "out of bounds"),
    "a long span": ([dt.timedelta.max], 0, "too large"),
    "spans of months": ([np.timedelta64(1, "M")], 0, "its unit is M"),
    "complex": ([1j], 0, "class complex, which no column can store"),
    "an object": ([object()], 0, "class object, which no column can store"),
    "unpaired surrogate": (["a", "\ud800"], 1, "surrogates not allowed"),
    "fields without a name": ([{1: 2}], 0, "1 is not a field name"),
    "not a number": ([Decimal(1), Decimal("NaN")], 1, "cannot be stored"),
    "scalars of many types": ([pa.scalar(1), pa.scalar("a")], 1, "int64 and string"),
}


@pytest.mark.parametrize("case", LOST)
def test_what_no_type_holds_is_named(case):
    values, row, reason = LOST[case]
    with pytest.raises(SchemaMismatchError, match=f"in row {row} .*{reason}") as caught:
        as_reader({"x": values})
    assert (caught.value.context["column"], caught.value.context["row"]) == ("x", row)
    if case != "not a number":  # to pandas it is a missing one
        with pytest.raises(SchemaMismatchError, match=reason):
            as_reader(pd.DataFrame({"x": pd.Series([*values, None], dtype=object)[:-1]}))


WANTED = {
    "nanoseconds": ([NANO], pa.timestamp("us")),
    "microseconds": ([dt.datetime(2020, 1, 1, 0, 0, 0, 5)], pa.timestamp("ms")),
    "a time of day": ([FIVE], pa.date32()),
    "no zone": ([FIVE], pa.timestamp("us", "UTC")),
    "a zone": ([FIVE.replace(tzinfo=UTC)], pa.timestamp("us")),
    "a time": ([dt.time(1, 2, 3, 4)], pa.time32("s")),
    "a span": ([pd.Timedelta(1)], pa.duration("us")),
    "a fraction": ([1.5], pa.int64()),
    "a fraction of money": ([Decimal("1.5")], pa.int64()),
    "money": ([Decimal("1.55")], pa.decimal128(5, 1)),
    "a number of seconds": ([1], pa.timestamp("s")),
    "a number of days": ([1], pa.date32()),
    "bytes": ([b"a"], pa.string()),
    "text": (["a"], pa.binary()),
    "a field more": ([{"a": 1, "b": 2}], pa.struct({"a": pa.int64()})),
    "an element": ([[NANO]], pa.list_(pa.timestamp("us"))),
    "an item of a map": ([{"a": 1.5}], pa.map_(pa.string(), pa.int8())),
    "a long list": ([[1, 2, 3]], pa.list_(pa.int64(), 2)),
    "a null": ([[None]], pa.list_(pa.field("item", pa.int64(), nullable=False))),
    "beyond floats": ([1e300], pa.float32()),
    "an id": ([uuid.UUID(int=1)], pa.string()),
}


@pytest.mark.parametrize("case", WANTED)
def test_what_a_type_would_change_is_refused(case):
    values, kind = WANTED[case]
    schema = pa.schema({"x": kind})
    with pytest.raises(SchemaMismatchError):
        as_reader({"x": values}, schema).read_all()
    with pytest.raises(SchemaMismatchError):
        cast(as_reader([{"x": value} for value in values], like=schema), schema)


def test_floats_of_rows_are_rounded_whoever_says_what_the_columns_are():
    schema = pa.schema({"x": pa.float32(), "v": pa.list_(pa.float16(), 1)})
    row = {"x": 0.1, "v": [0.1]}
    want = [{"x": float(np.float32(0.1)), "v": [float(np.float16(0.1))]}]
    for rows in ([row], [{"x": np.float64(0.1), "v": np.array([0.1])}]):
        assert as_reader(rows, schema).read_all().to_pylist() == want
        assert cast(as_reader(rows, like=schema), schema).to_pylist() == want
    for known in ({"schema": schema}, {"like": schema}):
        with pytest.raises(SchemaMismatchError, match=r"0.1 in row 0 does not fit float exactly"):
            cast(as_reader({"x": np.array([0.1]), "v": [[0.5]]}, **known), schema)
        with pytest.raises(SchemaMismatchError, match=r"16777217 in row 1 does not fit float"):
            as_reader([row, {"x": 2**24 + 1, "v": None}], **known).read_all()
        with pytest.raises(SchemaMismatchError, match=r"1e\+300 in row 0 is beyond the range"):
            as_reader([{"x": None, "v": np.array([1e300])}], **known).read_all()


def test_every_call_that_takes_rows_rounds_floats_alike():
    schema = pa.schema({"k": pa.int64(), "x": pa.float32()})
    near = float(np.float32(0.1))
    ds = lk.write_dataset([{"k": 0, "x": 0.1}], "memory://rounded", schema=schema)
    ds.insert([{"k": 1, "x": 0.1}])
    ds = lk.write_dataset([{"k": 2, "x": 0.1}], ds, mode="append")
    merge = ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    merge.execute([{"k": 2, "x": 0.1}, {"k": 3, "x": 0.1}])
    ds.insert([{"k": 4, "x": 0.5}])
    ds.update({"x": "0.1"}, where="k = 4")
    assert ds.to_table()["x"].to_pylist() == [near] * 5
    done = ds.merge_insert("x").when_matched_update_all().execute([{"k": 9, "x": 0.25}])
    assert done["num_updated_rows"] == 0


@pytest.mark.parametrize("word", ["NaN", "sNaN", "Infinity", "-Infinity"])
def test_a_decimal_that_is_no_number(word):
    values = [Decimal(1), Decimal(word)]
    with pytest.raises(
        SchemaMismatchError, match=r"in a decimal column: it is (not a number|infinite)"
    ):
        as_reader({"x": values})


def test_more_values_than_a_category_has_numbers_come_in_several_batches():
    words = [f"w{number}" for number in range(400)]
    schema = pa.schema({"x": pa.dictionary(pa.int8(), pa.string())})
    rows = as_reader({"x": words}, schema).read_all()
    assert rows.schema == schema
    assert rows["x"].to_pylist() == words


def test_fields_that_no_dict_has():
    kind = pa.struct({"a": pa.int64(), "b": pa.int64()})
    schema = pa.schema({"x": kind})
    rows = [{"x": {"a": 1}}]
    assert as_reader(rows, schema).read_all().to_pylist() == [{"x": {"a": 1, "b": None}}]
    with pytest.raises(SchemaMismatchError, match="to the rows: x\\.b"):
        cast(as_reader(rows, like=schema), schema)
    some = [{"x": {"a": 1}}, {"x": {"b": 2}}]
    assert cast(as_reader(some, like=schema), schema)["x"].to_pylist()[1] == {"a": None, "b": 2}


def test_nan_is_missing_in_frames_alone():
    nan = float("nan")
    frame = pd.DataFrame({"x": pd.Series([nan, "a"], dtype=object)})
    assert as_reader(frame).read_all()["x"].to_pylist() == [None, "a"]
    read = as_reader({"x": [nan, 1]}).read_all()["x"]
    assert (read.null_count, read.type) == (0, pa.float64())


def test_categories_are_values_like_others():
    frame = pd.DataFrame({"x": pd.Categorical([NANO, None, NANO], pd.Index([NANO], dtype=object))})
    assert as_reader(frame).read_all()["x"].to_pylist() == [NANO, None, NANO]


def test_a_guide_decides_where_python_leaves_a_choice():
    assert python_array([{"a": 1}], Guide(pa.map_(pa.string(), pa.int64()))).to_pylist() == [
        [("a", 1)]
    ]
    assert python_array(
        [(1, "a")], Guide(pa.struct({"x": pa.int8(), "y": pa.string()}))
    ).to_pylist() == [{"x": 1, "y": "a"}]
    assert python_array([2**63, -1], Guide(pa.decimal256(30, 0))).to_pylist() == [2**63, -1]
    one = uuid.UUID(int=1)
    assert python_array([one], Guide(pa.binary(16))).to_pylist() == [one.bytes]
    assert python_array([one]).to_pylist() == [one]
