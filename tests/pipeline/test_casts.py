import datetime as dt
import math
import pickle
import uuid
from decimal import Decimal
from pathlib import Path

import lance
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lancekit as lk
from lancekit._pipeline.casts.plan import CastPlan, normalise_new_schema, plan_cast
from lancekit._pipeline.casts.rules import BLOB_STRUCT, RULES, find_rule
from lancekit.errors import SchemaMismatchError
from tests.support.rule_pages import RULE_PAGES

UTC = pa.timestamp("us", "UTC")
NOON = dt.datetime(2020, 1, 1, 12)
PAIRS = pa.array([[1, 2], None, [3, None], [4, 5]], pa.list_(pa.int64(), 2))
LISTS = pa.array([[1, 2], None, [3, None], [4, 5]])


def column(values, target, **options):
    """Cast one column; the result has exactly the target's type."""
    field = pa.field("x", target, **options)
    schema = pa.schema([field])
    batch = pa.record_batch([values], names=["x"])
    result = plan_cast(batch.schema, schema).apply(batch)
    result.validate(full=True)
    assert result.schema.equals(schema, check_metadata=True)
    return result.column(0)


def array(values, kind):
    return pa.array(values, kind)


LOSSLESS = [
    (array([None, None], pa.null()), pa.string()),
    (array(["a", None], pa.large_string()), pa.string()),
    (array(["a", None], pa.string_view()), pa.string()),
    (array(["a", None], pa.string()), pa.large_string()),
    (pa.array(["a", "b", "a", None]).dictionary_encode(), pa.string()),
    (pa.array(["a", None]).dictionary_encode(), pa.large_string()),
    (pa.array(["a", None, "a"], pa.large_string()), pa.dictionary(pa.int8(), pa.string())),
    (pa.array(["a", None]).dictionary_encode(), pa.dictionary(pa.uint16(), pa.large_string())),
    (array([b"a", None], pa.large_binary()), pa.binary()),
    (array([b"a", None], pa.binary_view()), pa.binary()),
    (array([b"ab", None], pa.binary(2)), pa.large_binary()),
    (array([b"ab", None], pa.binary()), pa.binary(2)),
    (array([1, -128, None], pa.int64()), pa.int8()),
    (array([1, None], pa.uint8()), pa.int64()),
    (array([1, None], pa.int64()), pa.uint64()),
    (array([1.5, None, math.inf], pa.float64()), pa.float32()),
    (array([0.1, None], pa.float32()), pa.float64()),
    (array([1.5, None], pa.float32()), pa.float16()),
    (array([2**53, None], pa.int64()), pa.float64()),
    (array([1.0, None, -3.0], pa.float64()), pa.int32()),
    (array([1, None], pa.int64()), pa.decimal128(5, 2)),
    (array([Decimal("1.20"), None], pa.decimal128(10, 2)), pa.decimal128(5, 1)),
    (array([Decimal("1.2")], pa.decimal32(5, 1)), pa.decimal256(60, 3)),
    (array([Decimal("12.00")], pa.decimal128(5, 2)), pa.int16()),
    (array([dt.date(2020, 1, 1), None], pa.date32()), pa.date64()),
    (array([dt.date(2020, 1, 1), None], pa.date64()), pa.date32()),
    (array([dt.date(2020, 1, 1)], pa.date32()), pa.timestamp("us")),
    (array([NOON, None], pa.timestamp("ns")), pa.timestamp("us")),
    (array([NOON, None], pa.timestamp("s")), pa.timestamp("ns")),
    (array([dt.time(1), None], pa.time64("ns")), pa.time32("s")),
    (array([dt.timedelta(1)], pa.duration("ns")), pa.duration("s")),
    (LISTS, pa.list_(pa.field("element", pa.int8()))),
    (LISTS, pa.large_list(pa.int64())),
    (LISTS.slice(1), pa.list_(pa.int32())),
    (LISTS, pa.list_(pa.float32(), 2)),
    (LISTS.slice(2), pa.list_(pa.float32(), 2)),
    (PAIRS, pa.list_(pa.int8())),
    (PAIRS.slice(1), pa.list_(pa.int16(), 2)),
    (pa.array(LISTS.to_pylist(), pa.list_view(pa.int64())), pa.list_(pa.int16())),
    (
        pa.array([[["a"], None], []], pa.list_(pa.list_(pa.string_view()))),
        pa.list_(pa.list_(pa.string())),
    ),
    (
        array([[("k", 1)], None, []], pa.map_(pa.large_string(), pa.int64())),
        pa.map_(pa.string(), pa.int8()),
    ),
    (
        pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
        pa.struct([pa.field("b", pa.large_string()), pa.field("a", pa.int8())]),
    ),
    (pa.array([{"a": 1}, None]).slice(1), pa.struct([pa.field("a", pa.int8(), nullable=False)])),
]


@pytest.mark.parametrize(("values", "target"), LOSSLESS, ids=lambda x: str(getattr(x, "type", x)))
def test_casts_that_lose_nothing(values, target):
    result = column(values, target)
    assert result.null_count == values.null_count
    if pa.types.is_date32(values.type) and pa.types.is_timestamp(target):
        assert result.to_pylist() == [dt.datetime(2020, 1, 1)]
    else:
        assert result.to_pylist() == values.to_pylist()


RANGED = pa.struct([*BLOB_STRUCT, ("position", pa.uint64()), ("size", pa.uint64())])


def test_blobs_come_as_bytes_or_as_places():
    whole = [{"data": b"a", "uri": None}, None, {"data": None, "uri": "x"}]
    assert column(array([b"a", None], pa.binary()), BLOB_STRUCT).to_pylist() == whole[:2]
    empty = {"position": None, "size": None}
    grown = column(array(whole, BLOB_STRUCT), RANGED)
    assert grown.to_pylist() == [v and v | empty for v in whole]
    assert column(grown, BLOB_STRUCT).to_pylist() == whole
    part = array([None, {"data": None, "uri": "x", "position": 3, "size": 4}], RANGED)
    with pytest.raises(SchemaMismatchError, match="row 1 is only a part of a file"):
        column(part, BLOB_STRUCT)


def test_every_rule_of_the_table_is_tried():
    tried = {find_rule(values.type, target).accepts for values, target in LOSSLESS}
    others = {
        find_rule(pa.binary(), BLOB_STRUCT).accepts,
        find_rule(BLOB_STRUCT, RANGED).accepts,
        find_rule(pa.int8(), pa.int8()).accepts,
        find_rule(UTC, pa.timestamp("ns", "Asia/Tokyo")).accepts,
    }
    assert {rule.accepts for rule in RULES} == tried | others


def test_instants_stay_the_same_in_another_zone():
    values = pa.array([NOON], pa.timestamp("ns", "Asia/Tokyo"))
    result = column(values, UTC)
    assert result.cast(pa.int64()).to_pylist() == [1577880000000000]


def test_midnights_become_dates():
    values = pa.array([dt.datetime(2020, 1, 1), None], pa.timestamp("us"))
    assert column(values, pa.date32()).to_pylist() == [dt.date(2020, 1, 1), None]


def test_nan_stays():
    assert math.isnan(column(pa.array([math.nan]), pa.float32())[0].as_py())


@pytest.mark.parametrize(
    ("values", "target", "row", "value"),
    [
        (array([1, None, 128], pa.int64()), pa.int8(), 2, 128),
        (array([1, -1], pa.int8()), pa.uint64(), 1, -1),
        (array([1.5, 0.1], pa.float64()), pa.float32(), 1, 0.1),
        (array([1.0, 1e300], pa.float64()), pa.float32(), 1, 1e300),
        (array([1, 2**53 + 1], pa.int64()), pa.float64(), 1, 2**53 + 1),
        (array([1.0, 2.5], pa.float64()), pa.int64(), 1, 2.5),
        (array([1.0, math.inf], pa.float64()), pa.int64(), 1, math.inf),
        (array([1, 1000], pa.int64()), pa.decimal128(5, 2), 1, 1000),
        (
            array([Decimal("1.20"), Decimal("1.25")], pa.decimal128(5, 2)),
            pa.decimal128(5, 1),
            1,
            Decimal("1.25"),
        ),
        (array([Decimal("1.5")], pa.decimal128(5, 1)), pa.int8(), 0, Decimal("1.5")),
        (array([NOON, None, NOON], pa.timestamp("us")), pa.date32(), 0, NOON),
        (array([0, 1], pa.timestamp("ns")), pa.timestamp("us"), 1, None),
        (
            array([dt.datetime(9999, 1, 1)], pa.timestamp("s")),
            pa.timestamp("ns"),
            0,
            dt.datetime(9999, 1, 1),
        ),
        (array([dt.time(0, 0, 0, 5)], pa.time64("us")), pa.time32("ms"), 0, dt.time(0, 0, 0, 5)),
        (array([b"ab", b"c"], pa.binary()), pa.binary(2), 1, b"c"),
        (pa.array([[1, 2], None, [3]]), pa.list_(pa.int64(), 2), 2, [3]),
        (pa.array([[1], [], None, [2, 300]]), pa.list_(pa.int8()), 3, 300),
        (pa.array([[1], [2, None]]), pa.list_(pa.field("item", pa.int64(), False)), 1, None),
        (pa.array([{"a": 1}, None, {"a": 300}]), pa.struct({"a": pa.int8()}), 2, 300),
        (
            pa.array([None, {"a": 1}, {"a": None}]).slice(1),
            pa.struct([pa.field("a", pa.int64(), False)]),
            1,
            None,
        ),
    ],
    ids=str,
)
def test_a_value_that_would_change_is_named(values, target, row, value):
    schema = pa.schema({"ok": pa.int64(), "x": target})
    batch = pa.record_batch({"ok": pa.array(range(len(values))), "x": values})
    plan = plan_cast(batch.schema, schema)
    with pytest.raises(SchemaMismatchError, match=f"x: the value .* in row {row + 100} ") as caught:
        plan.apply(batch, first_row=100)
    context = caught.value.context
    assert (context["column"], context["row"]) == ("x", row + 100)
    if value is not None:
        assert context["value"] == value
    assert "ok" not in str(caught.value)
    pickle.loads(pickle.dumps(caught.value))


def test_too_many_different_values_for_a_dictionary():
    values = pa.array([str(n) for n in range(200)])
    with pytest.raises(SchemaMismatchError, match="200 different values are too many for int8"):
        column(values, pa.dictionary(pa.int8(), pa.string()))
    with pytest.raises(SchemaMismatchError, match="200 different values are too many for int8"):
        column(values.dictionary_encode(), pa.dictionary(pa.int8(), pa.string()))


def test_values_of_a_dictionary_that_no_row_has():
    small = pa.dictionary(pa.int8(), pa.int8())
    codes = pa.array([200, None, 130], pa.int16())
    many = pa.DictionaryArray.from_arrays(codes, pa.array(range(-100, 200)))
    assert column(many, small).to_pylist() == [100, None, 30]
    # 300 is in the dictionary, and in no row
    values = pa.DictionaryArray.from_arrays(pa.array([2, 0], pa.int8()), pa.array([1, 300, 3]))
    assert column(values, small).to_pylist() == [3, 1]
    used = pa.DictionaryArray.from_arrays(pa.array([2, 0, 1], pa.int8()), pa.array([1, 300, 3]))
    with pytest.raises(SchemaMismatchError, match="the value 300 in row 2 "):
        column(used, small)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.string(), pa.int64()),
        (pa.int64(), pa.string()),
        (pa.bool_(), pa.int8()),
        (pa.int8(), pa.bool_()),
        (pa.string(), pa.binary()),
        (pa.timestamp("us"), UTC),
        (UTC, pa.timestamp("us")),
        (UTC, pa.date32()),
        (pa.float64(), pa.decimal128(5, 2)),
        (pa.string(), pa.timestamp("us")),
        (pa.list_(pa.string()), pa.list_(pa.int8())),
        (pa.list_(pa.string()), pa.string()),
        (pa.struct({"a": pa.int8()}), pa.struct({"b": pa.int8()})),
        (pa.struct({"a": pa.int8(), "b": pa.int8()}), pa.struct({"a": pa.int8()})),
    ],
    ids=str,
)
def test_types_that_do_not_cast(source, target):
    with pytest.raises(SchemaMismatchError) as caught:
        plan_cast(pa.schema({"x": source}), pa.schema({"x": target}))
    assert caught.value.context["types"] == {"x": (str(source), str(target))}


def test_only_the_differences_are_shown():
    source = pa.schema(
        {"same": pa.int64(), "Origin": pa.string(), "extra": pa.int8(), "t": pa.timestamp("us")}
    )
    fields = [
        pa.field("same", pa.int64()),
        pa.field("origin", pa.string()),
        pa.field("t", UTC),
        pa.field("w", pa.int8(), nullable=False),
    ]
    with pytest.raises(SchemaMismatchError) as caught:
        plan_cast(source, pa.schema(fields))
    assert str(caught.value).splitlines() == [
        "the rows do not fit the dataset's schema:",
        "  + Origin: string, not in the dataset (is it 'origin'?).",
        "  + extra: int8, not in the dataset.",
        "  - origin: string, missing in the rows.",
        "  - w: int8 not null, missing in the rows.",
        "  ~ t: timestamp[us] in the rows, timestamp[us, tz=UTC] in the dataset. "
        "Rename 'Origin' to 'origin'.",
    ]
    context = caught.value.context
    assert context["unexpected"] == ["Origin", "extra"]
    assert context["missing"] == ["origin", "w"]
    assert context["renames"] == {"Origin": "origin"}


@pytest.mark.parametrize(
    ("source", "target", "hint"),
    [
        ({"t": pa.timestamp("us")}, {"t": UTC}, "pc.assume_timezone(column, 'UTC')"),
        ({"t": UTC}, {"t": pa.timestamp("us")}, "pc.local_timestamp(column)"),
        ({"t": pa.string()}, {"t": pa.int32()}, "Cast 't' to int32 first: column.cast('int32'"),
        (
            {"s": pa.struct({"b": pa.int8(), "t": pa.struct({"x": pa.int8()})})},
            {"s": pa.struct({"a": pa.int8(), "t": pa.struct({"x": pa.int8(), "y": pa.int8()})})},
            "Add the missing fields of 's' to the rows: s.a, s.t.y.",
        ),
        (
            {"s": pa.struct({"a": pa.int8(), "b": pa.int8()})},
            {"s": pa.struct({"a": pa.int8()})},
            "Cast 's' to struct<a: int8> first",
        ),
        ({"t": pa.int8(), "z": pa.int8()}, {"t": pa.int8()}, "Drop 'z', or add them"),
        ({"t": pa.int8()}, {"t": pa.int8(), "z": pa.int8()}, "Add 'z' to the rows"),
    ],
)
def test_the_next_step(source, target, hint):
    with pytest.raises(SchemaMismatchError) as caught:
        plan_cast(pa.schema(source), pa.schema(target))
    assert hint in caught.value.hint


def test_the_code_that_makes_a_uuid_column_of_text_works():
    known = uuid.uuid4()
    ds = lk.write_dataset(pa.table({"t": pa.array([known.bytes], pa.uuid())}), "memory://uuids")
    column = pa.chunked_array([[str(known), None]])
    with pytest.raises(SchemaMismatchError) as caught:
        ds.insert(pa.table({"t": column}))
    code = caught.value.hint.partition(": ")[2].rstrip(".")
    ds.insert(pa.table({"t": eval(code, {"pa": pa, "uuid": uuid, "column": column})}))
    assert ds.to_table()["t"].to_pylist() == [known, known, None]


def test_missing_columns():
    source = pa.schema({"a": pa.int64()})
    target = pa.schema({"b": pa.string(), "a": pa.int8()})
    with pytest.raises(SchemaMismatchError, match="- b: string, missing"):
        plan_cast(source, target)
    plan = plan_cast(source, target, allow_missing=True)
    assert plan.apply(pa.record_batch({"a": [1]})).to_pydict() == {"b": [None], "a": [1]}
    needed = pa.schema([pa.field("b", pa.string(), nullable=False), pa.field("a", pa.int8())])
    with pytest.raises(SchemaMismatchError, match="- b: string not null, missing"):
        plan_cast(source, needed, allow_missing=True)


def test_nulls_in_a_column_that_takes_none():
    for values in (pa.array([1, None]), pa.nulls(2)):
        with pytest.raises(SchemaMismatchError, match=r"x: row [01] is null") as caught:
            column(values, pa.int64(), nullable=False)
        assert caught.value.context["column"] == "x"
    assert column(pa.array([1, 2]), pa.int64(), nullable=False).to_pylist() == [1, 2]


def test_columns_of_one_name():
    with pytest.raises(SchemaMismatchError, match="a: several columns have this name"):
        plan_cast(pa.schema([("a", pa.int8()), ("a", pa.int8())]), pa.schema({"a": pa.int8()}))


def test_a_plan_is_a_small_value():
    plan = plan_cast(pa.schema({"a": pa.int64()}), pa.schema({"a": pa.int8()}, metadata={"k": "v"}))
    assert pickle.loads(pickle.dumps(plan)) == plan
    result = plan.apply(pa.record_batch({"a": [1]}))
    assert result.schema.metadata == {b"k": b"v"}
    same = pa.record_batch({"a": pa.array([1], pa.int8())})
    assert CastPlan(source=plan.target, target=plan.target).apply(same).column(0).equals(same[0])


@given(st.lists(st.none() | st.floats(allow_nan=True)), st.sampled_from([pa.float32(), pa.int32()]))
def test_floats_are_cast_only_when_they_come_back(values, target):
    source = pa.array(values, pa.float64())
    try:
        result = column(source, target)
    except SchemaMismatchError as error:
        value = error.context["value"]
        single = (
            float(np.float32(value)) if math.isfinite(value) and abs(value) < 3e38 else math.inf
        )
        assert single != value or target == pa.int32()
    else:
        assert str(result.cast(pa.float64()).to_pylist()).replace("-0.0", "0.0") == str(
            source.to_pylist()
        ).replace("-0.0", "0.0")


# ---- what the libraries make of one table

STORED = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("when", pa.timestamp("us")),
        pa.field("score", pa.float32()),
        pa.field("kind", pa.string()),
        pa.field("vector", pa.list_(pa.float32(), 2)),
        pa.field("day", pa.date32()),
        pa.field("count", pa.int64()),
    ]
)
DATA = {
    "id": [1, 2],
    "name": ["a", None],
    "when": [NOON, None],
    "score": [0.5, None],
    "kind": ["u", "v"],
    "vector": [[1.0, 2.0], [3.0, 4.0]],
    "day": [dt.date(2020, 1, 1), None],
    "count": [7, None],
}


def from_pandas():
    frame = pd.DataFrame(DATA)
    assert str(frame["name"].dtype) in {"object", "str"}  # of pandas 2 and 3
    assert frame["count"].dtype == "float64"
    frame["kind"] = frame["kind"].astype("category")
    frame["day"] = pd.to_datetime(frame["day"])
    return pa.Table.from_pandas(frame, preserve_index=False)


def from_polars():
    frame = pl.DataFrame(DATA).with_columns(pl.col("kind").cast(pl.Categorical))
    return pa.table(frame)


def spark_like():
    fields = [
        f.with_type(pa.list_(pa.field("element", pa.float32()))) if f.name == "vector" else f
        for f in STORED
    ]
    return pa.table(DATA, schema=pa.schema([f.with_nullable(True) for f in fields]))


@pytest.mark.parametrize("make", [from_pandas, from_polars, spark_like])
def test_every_librarys_types_fit(make):
    table = make()
    assert table.schema != STORED
    plan = plan_cast(table.schema, STORED)
    result = pa.Table.from_batches(map(plan.apply, table.to_batches()), STORED)
    result.validate(full=True)
    assert result.to_pydict() == DATA


# ---- new datasets


@pytest.mark.parametrize(
    "kind",
    [
        pa.string_view(),
        pa.binary_view(),
        pa.large_string(),
        pa.null(),
        pa.list_(pa.field("element", pa.string_view())),
        pa.large_list(pa.int8()),
        pa.list_(pa.field("element", pa.float32()), 2),
        pa.struct({"a": pa.string_view(), "b": pa.list_(pa.binary_view())}),
        pa.dictionary(pa.int8(), pa.large_string()),
        pa.map_(pa.string(), pa.string_view()),
        pa.decimal128(5, 2),
        pa.timestamp("us", "UTC"),
    ],
    ids=str,
)
def test_new_datasets_get_the_types_that_the_reference_stores(tmp_path, kind):
    schema = pa.schema([pa.field("x", kind)], metadata={"k": "v"})
    stored = lance.write_dataset(schema.empty_table(), str(tmp_path / "x.lance")).schema
    assert normalise_new_schema(schema).equals(stored, check_metadata=True)


def test_types_beyond_the_reference():
    schema = pa.schema({"a": pa.decimal32(5, 2), "b": pa.list_view(pa.int8())})
    stored = pa.schema({"a": pa.decimal128(5, 2), "b": pa.list_(pa.int8())})
    assert normalise_new_schema(schema) == stored
    plan_cast(schema, stored)


def test_what_pandas_notes_about_one_frame_is_left_out():
    schema = pa.Table.from_pandas(pd.DataFrame({"a": [1]})).schema.with_metadata
    noted = schema({"pandas": "{}", "k": "v"})
    assert normalise_new_schema(noted).metadata == {b"k": b"v"}
    assert normalise_new_schema(schema({"pandas": "{}"})).metadata is None


def test_categories_of_a_polars_frame_do_not_outlive_it() -> None:
    pl = pytest.importorskip("polars")
    kind = pl.Enum(["a"])
    frame = pl.DataFrame(
        {
            "k": pl.Series(["a"], dtype=kind),
            "l": pl.Series([["a"]], dtype=pl.List(kind)),
            "s": pl.Series([{"x": "a"}], dtype=pl.Struct({"x": kind})),
        }
    )
    for rows in (frame, frame.to_arrow()):
        ds = lk.write_dataset(rows, "memory://enum")
        new = {"k": ["new"], "l": [["new"]], "s": [{"x": "new"}]}
        ds.insert(new)
        assert pl.from_arrow(ds.to_table()).tail(1).to_dicts() == [
            {name: values[0] for name, values in new.items()}
        ]


def test_categories_that_a_table_knows_of_a_polars_frame_are_not_handed_out(tmp_path) -> None:
    pl = pytest.importorskip("polars")
    kind = pl.Enum(["a"])
    frame = pl.DataFrame(
        {
            "k": pl.Series(["a"], dtype=kind),
            "l": pl.Series([["a"]], dtype=pl.List(kind)),
            "s": pl.Series([{"x": "a"}], dtype=pl.Struct({"x": kind})),
        }
    )
    lance.write_dataset(frame.to_arrow(), tmp_path)
    ds = lk.dataset(tmp_path)
    ds.insert({"k": ["new"], "l": [["new"]], "s": [{"x": "new"}]})
    for rows in (
        ds.to_table(),
        pa.Table.from_batches(ds.to_batches()),
        ds.scanner(limit=2).to_reader().read_all(),
        ds.take([0, 1]),
        ds.get_fragments()[1].to_table(),
        lk.sql("SELECT * FROM ds", ds=ds).to_table(),
        ds.diff(1).to_table().select(["k", "l", "s"]),
    ):
        assert pl.from_arrow(rows).tail(1).to_dicts() == [
            {"k": "new", "l": ["new"], "s": {"x": "new"}}
        ]
    assert "_PL_" not in ds.schema.to_string(show_field_metadata=True)
    assert pl.scan_pyarrow_dataset(ds).collect()["k"].to_list() == ["a", "new"]
    # what is stored stays, and pylance shows it
    assert lance.dataset(tmp_path).schema.field("k").metadata == {b"_PL_ENUM_VALUES2": b"1;a"}


def test_the_page_of_casts_is_up_to_date():
    page = Path(__file__).parents[2] / "docs/reference/casts.md"
    assert page.read_text() == RULE_PAGES[page.name]()


#: a value of each type, by the type
VALUES = {
    pa.bool_(): True,
    **dict.fromkeys([pa.int8(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()], 1),
    **dict.fromkeys([pa.float16(), pa.float32(), pa.float64()], 1.0),
    **dict.fromkeys([pa.decimal128(9, 2), pa.decimal256(40, 0)], Decimal(1)),
    **dict.fromkeys([pa.string(), pa.large_string(), pa.string_view()], "1"),
    **dict.fromkeys([pa.binary(), pa.large_binary(), pa.binary(1)], b"1"),
    **dict.fromkeys([pa.date32(), pa.date64()], dt.date(2020, 1, 1)),
    **dict.fromkeys([pa.time32("s"), pa.time64("ns")], dt.time(1)),
    **dict.fromkeys([pa.duration("s"), pa.duration("ns")], dt.timedelta(1)),
    **dict.fromkeys(
        [pa.timestamp("s"), pa.timestamp("ns"), UTC, pa.timestamp("s", "Europe/Paris")],
        dt.datetime(2020, 1, 1),
    ),
    pa.list_(pa.int8()): [1],
    pa.large_list(pa.string()): ["1"],
    pa.list_(pa.int64(), 1): [1],
    pa.list_(pa.float32(), 1): [1.0],
    pa.struct({"a": pa.int32()}): {"a": 1},
    pa.struct({"a": pa.string(), "b": pa.int8()}): {"a": "1", "b": 1},
    pa.map_(pa.string(), pa.int32()): [("k", 1)],
    pa.dictionary(pa.int8(), pa.string()): "1",
    pa.dictionary(pa.int32(), pa.int64()): 1,
    pa.null(): None,
}


#: one of them is a text of any type
TEXTS = ["1", "2020-01-01", "2020-01-01 00:00:00Z", "01:00:00"]


def _run(line, column, ds):
    """Run a line of Python that a message holds; a text may be none of the type."""
    try:
        return eval(line, {"column": column, "pc": pc, "ds": ds})
    except pa.ArrowInvalid:
        if column[0].as_py() not in TEXTS:
            raise
        return None


@pytest.mark.parametrize("target", VALUES, ids=str)
def test_what_a_hint_suggests_can_be_done(target):
    """Each cast that a message writes down is run as it is written, and then the rows fit."""
    ds = lk.write_dataset(pa.table({"x": pa.nulls(0, target)}), "memory://hint", mode="overwrite")
    for source, value in VALUES.items():
        try:
            plan_cast(pa.schema({"x": source}), pa.schema({"x": target}))
        except SchemaMismatchError as error:
            hint = error.hint
        else:
            continue
        columns = [pa.array([text], source) for text in (TEXTS if value == "1" else [value])]
        if "has only nulls so far" in hint:
            untyped = pa.table({"x": pa.nulls(1, target)})
            ds = lk.write_dataset(untyped, "memory://hint", mode="overwrite")
            rows = pa.table({"x": columns[0]})
            eval(hint.partition("rows: ")[2].rstrip("."), {"ds": ds, "pa": pa, "rows": rows})
            ds.insert(rows)
        elif hint.startswith("Convert 'x' to "):
            for column in columns:
                with pytest.raises((pa.ArrowException, TypeError, ValueError)):
                    column.cast(target)
        elif not hint.startswith("Add the missing fields"):
            line = hint.rpartition(": ")[2].partition(" in Arrow")[0].removesuffix(".")
            assert "safe" not in line
            done = [found for column in columns if (found := _run(line, column, ds)) is not None]
            assert done, hint
            ds.insert(pa.table({"x": done[0]}))


@pytest.mark.parametrize(
    ("values", "target"),
    [
        (pa.array([2**40]), pa.int8()),
        (pa.array([1.5]), pa.int32()),
        (pa.array([1, 1_000_000_001], pa.timestamp("ns")), pa.timestamp("us")),
        (pa.array([1], UTC), pa.timestamp("s", "UTC")),
        (pa.array([Decimal("1.25")]), pa.decimal128(9, 1)),
        (pa.array([[2**40]]), pa.list_(pa.int8())),
    ],
)
def test_no_cast_is_suggested_for_a_value_that_it_would_change(values, target):
    plan = plan_cast(pa.schema({"x": values.type}), pa.schema({"x": target}))
    with pytest.raises(SchemaMismatchError) as caught:
        plan.apply(pa.record_batch({"x": values}))
    assert "the value" in str(caught.value)
    assert "cast" not in caught.value.hint
    assert "zone" not in caught.value.hint
