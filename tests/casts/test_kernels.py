"""Values that a cast would wrap around are errors, or null from TRY_CAST, in every call."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lancekit as lk
from lancekit._casts import cut, nearest
from lancekit._scan.expressions.predicate import compile_expression
from lancekit.errors import (
    InvalidArgumentError,
    LancekitError,
    PredicateError,
    SchemaMismatchError,
)

FAR = dt.datetime(9999, 12, 31)
D = Decimal


def far_rows() -> pa.Table:
    return pa.table(
        {
            "id": pa.array([0, 1], pa.int64()),
            "us": pa.array([FAR, dt.datetime(2020, 1, 1)], pa.timestamp("us")),
            "zoned": pa.array([FAR, dt.datetime(2020, 1, 1)], pa.timestamp("us", "UTC")),
            "day": pa.array([FAR.date(), dt.date(2020, 1, 1)]),
            "day64": pa.array([FAR.date(), dt.date(2020, 1, 1)], pa.date64()),
            "s": pa.array([1 << 60, 1], pa.timestamp("s")),
            "span": pa.array([1 << 62, 1], pa.duration("s")),
            "ns": pa.array([0, 0], pa.timestamp("ns")),
            "ns_zoned": pa.array([0, 0], pa.timestamp("ns", "UTC")),
            "span_ns": pa.array([0, 0], pa.duration("ns")),
            "micro": pa.array([0, 0], pa.timestamp("us")),
            "date": pa.array([0, 0], pa.date32()),
            "f": [1e300, 1.0],
            "f32": pa.array([0.0, 0.0], pa.float32()),
            "times": pa.array([[FAR], [dt.datetime(2020, 1, 1)]], pa.list_(pa.timestamp("us"))),
        }
    )


@pytest.fixture
def ds(tmp_path: Path) -> lk.LanceDataset:
    return lk.write_dataset(far_rows(), str(tmp_path / "far"))


WRAPPED = [
    "CAST({} AS timestamp(9))",
    "arrow_cast({}, 'Timestamp(Nanosecond, None)')",
    "to_timestamp({})",
    "to_timestamp_nanos({})",
]
BEYOND = [
    *(form.format(column) for form in WRAPPED for column in ("us", "zoned", "day", "day64", "s")),
    "arrow_cast(span, 'Duration(Nanosecond)')",
    "arrow_cast(us, 'Timestamp(Nanosecond, Some(\"UTC\"))')",
    "arrow_cast(times, 'List(Timestamp(Nanosecond, None))')",
    "CAST(s AS timestamp)",
    "CAST(s AS date)",
    "CAST(s AS string)",
    "to_date(s)",
    "to_timestamp(f)",
    "to_timestamp_seconds(f)",
    "us + span",
    "ns - span",
    "CAST(span AS int)",
    "arrow_cast(id - 1, 'Time64(Microsecond)')",
]


@pytest.mark.parametrize("expression", BEYOND)
def test_a_value_beyond_the_range_is_an_error(ds: lk.LanceDataset, expression: str) -> None:
    with pytest.raises(PredicateError):
        ds.to_table(columns={"x": expression})
    # the other row is well
    assert ds.to_table(columns={"x": expression}, filter="id = 1").num_rows == 1


@pytest.mark.parametrize("column", ["us", "zoned", "day", "day64", "s"])
def test_try_cast_gives_null(ds: lk.LanceDataset, column: str) -> None:
    for expression in (
        f"TRY_CAST({column} AS timestamp(9))",
        f"arrow_try_cast({column}, 'Timestamp(Nanosecond, None)')",
    ):
        found = ds.to_table(columns={"x": expression})["x"]
        assert [one.is_valid for one in found.combine_chunks()] == [False, True]


ASSIGNED = [
    ("ns", "us"),
    ("ns", "day"),
    ("ns", "s"),
    ("ns_zoned", "zoned"),
    ("ns_zoned", "us"),
    ("span_ns", "span"),
    ("micro", "s"),
    ("date", "s"),
]


@pytest.mark.parametrize(("column", "value"), ASSIGNED)
def test_an_update_refuses_it(ds: lk.LanceDataset, column: str, value: str) -> None:
    with pytest.raises(LancekitError, match=column):
        ds.update({column: value})
    with pytest.raises(LancekitError):
        lk.sql(f"UPDATE t SET {column} = {value}", t=ds)
    assert ds.version == 1
    ds.update({column: value}, where="id = 1")


@pytest.mark.spark
def test_an_update_on_spark_refuses_it(ds: lk.LanceDataset, spark: SparkSession) -> None:
    with lk.options(engine="spark"):
        for column, value in (("ns", "us"), ("span_ns", "span")):
            with pytest.raises(LancekitError):
                lk.sql(f"UPDATE t SET {column} = {value}", t=ds)
    assert ds.version == 1


def test_add_columns_refuses_it(ds: lk.LanceDataset) -> None:
    with pytest.raises(PredicateError):
        ds.add_columns({"x": "CAST(us AS timestamp(9))"})
    assert ds.version == 1


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("us", pa.timestamp("ns")),
        ("zoned", pa.timestamp("ns", "UTC")),
        ("day", pa.timestamp("ns")),
        ("day64", pa.timestamp("ns")),
        ("s", pa.timestamp("us")),
        ("s", pa.date32()),
        ("span", pa.duration("ns")),
        ("times", pa.list_(pa.timestamp("ns"))),
    ],
)
def test_alter_columns_refuses_it(ds: lk.LanceDataset, column: str, kind: pa.DataType) -> None:
    with pytest.raises(InvalidArgumentError, match=f"Column '{column}' cannot be cast"):
        ds.alter_columns({"path": column, "data_type": kind})
    assert ds.version == 1
    ds.delete("id = 0")
    ds.alter_columns({"path": column, "data_type": kind})
    assert ds.schema.field(column).type == kind


def test_what_is_finer_is_cut_off(ds: lk.LanceDataset) -> None:
    lk.write_dataset(
        pa.table(
            {
                "t": pa.array([1999, -1], pa.timestamp("ms")),
                "d": pa.array([1999, -1], "duration[ms]"),
            }
        ),
        ds.uri,
        mode="overwrite",
    )
    ds = lk.dataset(ds.uri)
    ds.alter_columns(
        {"path": "t", "data_type": pa.timestamp("s")}, {"path": "d", "data_type": pa.duration("s")}
    )
    assert ds.to_table()["t"].cast(pa.int64()).to_pylist() == [1, 0]
    assert ds.to_table()["d"].cast(pa.int64()).to_pylist() == [1, 0]


def test_a_cast_makes_infinite_floats_and_a_column_refuses_them(ds: lk.LanceDataset) -> None:
    found = ds.to_table(columns={"x": "CAST(f AS float)"})["x"]
    assert found.to_pylist() == [float("inf"), 1.0]
    with pytest.raises(PredicateError, match="beyond the range of float would become infinite"):
        ds.update({"f32": "f"})
    with pytest.raises(InvalidArgumentError, match=r"'f'.*beyond the range of halffloat"):
        ds.alter_columns({"path": "f", "data_type": pa.float16()})
    ds.update({"f32": "CAST(f AS float)", "f": "CAST(CAST(f AS float) AS double)"})
    ds.alter_columns({"path": "f", "data_type": pa.float16()})
    assert ds.to_table()["f"].to_pylist() == ds.to_table()["f32"].to_pylist() == [math.inf, 1.0]
    with pytest.raises(TypeError, match="not a float type"):
        nearest(pa.array([300]), pa.int8())


def test_days_that_do_not_fit_are_refused_as_scalars_too() -> None:
    for value in (pa.scalar(1 << 60, pa.timestamp("s")), pa.array([0, 1 << 60], pa.timestamp("s"))):
        with pytest.raises(pa.ArrowInvalid, match="is out of range"):
            cut(value, pa.date32())
    edge = pa.array([(1 << 63) - 1], pa.timestamp("ns", "Asia/Tokyo"))
    with pytest.raises(pa.ArrowInvalid, match="is out of range"):
        cut(edge, pa.date32())


# ---- prices, and moments as JSON has them


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (0.125, pa.float64(), D("0.13")),
        (-0.125, pa.float64(), D("-0.13")),
        (2.5, pa.float32(), D("2.50")),
        ("0.125", pa.string(), D("0.13")),
        (" -0.125 ", pa.string(), D("-0.13")),
        ("0." + "1" * 60, pa.large_string(), D("0.11")),
        (D("0.125"), pa.decimal128(10, 3), D("0.13")),
        (D("-0.125"), pa.decimal128(10, 3), D("-0.13")),
    ],
)
def test_each_way_to_a_decimal_rounds_halves_away_from_zero(
    tmp_path: Path, value: Any, kind: pa.DataType, expected: Decimal
) -> None:
    rows = pa.table({"x": pa.array([value], kind), "cents": pa.nulls(1, pa.decimal128(10, 2))})
    ds = lk.write_dataset(rows, str(tmp_path / "d"))
    for form in ("CAST({} AS decimal(10, 2))", "TRY_CAST({} AS decimal(10, 2))"):
        assert ds.to_table(columns={"x": form.format("x")})["x"].to_pylist() == [expected]
    ds.update({"cents": "x"})
    assert ds.to_table()["cents"].to_pylist() == [expected]


def test_text_that_is_no_decimal() -> None:
    rows = pa.table({"x": ["1.005", "", "x", "1e400", None, "12345678901"]})
    ds = lk.write_dataset(rows, "memory://no-decimal")
    found = ds.to_table(columns={"x": "TRY_CAST(x AS decimal(10, 2))"})["x"]
    assert found.to_pylist() == [D("1.01"), None, None, None, None, None]
    with pytest.raises(PredicateError, match="decimal"):
        ds.to_table(columns={"x": "CAST(x AS decimal(10, 2))"})


TEXTS = [
    "2024-01-01T00:00:00Z",
    "2024-01-01 02:00:00+02:00",
    "2024-01-01T00:00:00.123456789",
    " 2024-01-01 00:00:00 ",
    "2024-01-01",
    None,
]


def moments(expression: str) -> list[Any]:
    ds = lk.write_dataset(pa.table({"s": TEXTS}), "memory://texts-of-moments")
    return list(ds.to_table(columns={"x": expression})["x"].to_pylist())


@pytest.mark.parametrize(
    "expression",
    [
        "CAST(s AS timestamp)",
        "TRY_CAST(s AS timestamp)",
        "to_timestamp_micros(s)",
        "arrow_cast(s, 'Timestamp(Microsecond, None)')",
    ],
)
def test_texts_of_columns_are_read_as_literals_are(expression: str) -> None:
    day = dt.datetime(2024, 1, 1)
    assert moments(expression) == [day, day, day.replace(microsecond=123456), day, day, None]


def test_texts_for_a_type_with_a_zone() -> None:
    day = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    found = moments("arrow_cast(s, 'Timestamp(Microsecond, Some(\"UTC\"))')")
    assert found == [day, day, day.replace(microsecond=123456), day, day, None]
    local = moments("arrow_cast(s, 'Timestamp(Second, Some(\"Europe/Berlin\"))')")
    hour = dt.timedelta(hours=1)
    assert [None if one is None else one.astimezone(dt.UTC) for one in local] == [
        *(day, day, day - hour, day - hour, day - hour, None)
    ]


def test_dates_and_parts_of_texts() -> None:
    assert moments("CAST(s AS date)") == [dt.date(2024, 1, 1)] * 5 + [None]
    assert moments("date_part('year', s)") == [2024] * 5 + [None]
    ds = lk.write_dataset({"s": ["2024-01-01 25:00:00", "12", "9999-12-31"]}, "memory://no-moments")
    for kind, expected in (
        ("date", [None, None, dt.date(9999, 12, 31)]),
        ("timestamp", [None, None, FAR]),
        ("timestamp(9)", [None, None, None]),
    ):
        found = ds.to_table(columns={"x": f"TRY_CAST(s AS {kind})"})["x"]
        assert found.to_pylist() == expected


@pytest.mark.parametrize(
    "make", [pa.array, lambda values, kind: pa.array([None, *values], kind)[1:]]
)
def test_slices(make: Callable[..., pa.Array]) -> None:
    values = make([1999, None, -1], pa.timestamp("ms"))
    assert cut(values, pa.timestamp("s")).cast(pa.int64()).to_pylist() == [1, None, 0]


# ---- types without a family


def test_values_go_into_dictionaries_and_structs() -> None:
    code, kind = pa.dictionary(pa.int8(), pa.string()), pa.struct([("a", pa.int64())])
    rows = pa.table(
        {
            "id": [0, 1],
            "text": ["x", None],
            "code": pa.array(["a", "b"]).cast(code),
            "new": pa.nulls(2, code),
            "s": pa.array([{"a": 1}, None], kind),
            "wide": pa.nulls(2, kind),
        }
    )
    ds = lk.write_dataset(rows, "memory://dictionaries-and-structs")
    ds.update({"new": "text", "wide": "s"})
    assert ds.to_table()["new"].to_pylist() == ["x", None]
    assert ds.to_table()["wide"].to_pylist() == [{"a": 1}, None]
    ds.update({"new": "code"}, where="id = 1")
    ds.update({"code": "'z'"})
    assert ds.to_table()["code"].to_pylist() == ["z", "z"]
    assert ds.schema.field("new").type == code


# ---- decimals

#: 38 digits: no room for ten more behind the point
LONG = D("72393192114532369465848750527781651675")


@pytest.fixture
def long(tmp_path: Path) -> lk.LanceDataset:
    rows = {
        "id": pa.array([0], pa.int64()),
        "whole": pa.array([LONG], pa.decimal128(38)),
        "d": pa.array([D(1)], pa.decimal128(38, 10)),
        "lists": pa.array([[LONG]], pa.list_(pa.decimal128(38))),
    }
    return lk.write_dataset(rows, str(tmp_path / "long"))


def given(kind: pa.DataType) -> pa.Table:
    return pa.table({"id": pa.array([0], pa.int64()), "d": pa.array([LONG], kind)})


INTO_FEWER_DIGITS: dict[str, Callable[[lk.LanceDataset], object]] = {
    "insert": lambda ds: ds.insert(
        given(pa.decimal128(38))
        .append_column("whole", pa.array([LONG]))
        .append_column("lists", pa.array([[LONG]]))
    ),
    "merge_insert": lambda ds: (
        ds.merge_insert("id").when_matched_update_all().execute(given(pa.decimal128(38)))
    ),
    "update": lambda ds: ds.update({"d": "whole"}),
    "sql": lambda ds: lk.sql("UPDATE t SET d = whole", t=ds),
    "add_columns": lambda ds: ds.add_columns({"y": "CAST(whole AS decimal(38, 10))"}),
    "alter_columns": lambda ds: ds.alter_columns(
        {"path": "whole", "data_type": pa.decimal128(38, 10)}
    ),
    "alter_columns of lists": lambda ds: ds.alter_columns(
        {"path": "lists", "data_type": pa.list_(pa.decimal128(38, 10))}
    ),
    "coalesce": lambda ds: ds.to_table(columns={"y": "greatest(whole, d)"}),
}


@pytest.mark.parametrize("call", INTO_FEWER_DIGITS.values(), ids=INTO_FEWER_DIGITS)
def test_decimals_with_too_many_digits_are_refused(
    long: lk.LanceDataset, call: Callable[[lk.LanceDataset], object]
) -> None:
    before = long.to_table()
    with pytest.raises(LancekitError):
        call(long)
    assert lk.dataset(long.uri).to_table() == before


def test_a_filter_compares_a_decimal_with_more_digits_than_the_column_has(
    tmp_path: Path,
) -> None:
    wrapped = D("7337653924874138141214915677.3539613696")  # what Arrow makes of LONG
    rows = {"d": pa.array([wrapped], pa.decimal128(38, 10))}
    ds = lk.write_dataset(rows, str(tmp_path / "t"))
    assert ds.count_rows(f"d = {LONG}") == 0
    assert ds.count_rows(f"d < {LONG}") == 1


@pytest.mark.parametrize(
    ("value", "kind", "target", "expected"),
    [
        (126, pa.int64(), "Decimal128(38, 38)", None),
        (D("999.99"), pa.decimal128(5, 2), "Decimal128(38, 38)", None),
        (D(1).scaleb(75), pa.decimal256(76), "Decimal256(76, 38)", None),
        (D("9223372036854775807.5"), pa.decimal256(76, 38), "Int64", 2**63 - 1),
        (D("9223372036854775807.5"), pa.decimal256(76, 38), "Decimal128(38, 0)", D(2**63)),
        (D("0." + "9" * 38), pa.decimal128(38, 38), "Decimal128(5, 2)", D("1.00")),
        (D("0." + "9" * 38), pa.decimal128(38, 38), "Int8", 0),
        ("9223372036854775807.5", pa.string(), "Decimal128(38, 0)", D(2**63)),
        (str(LONG), pa.string(), "Decimal128(38, 10)", None),
        ("9" * 50, pa.string(), "Decimal128(38, 0)", None),
        ("1e50", pa.string(), "Decimal128(38, 0)", None),
        ("1.5e2", pa.string(), "Decimal128(38, 0)", D(150)),
        ("1_000", pa.string(), "Decimal128(38, 0)", None),
        ("nan", pa.string(), "Decimal128(38, 0)", None),
        (0.005, pa.float32(), "Decimal128(5, 2)", D("0.00")),
        (D("127.99"), pa.decimal128(5, 2), "Float64", 127.99),
        (D("127.5"), pa.decimal256(76, 38), "Float64", 127.5),
        (D("127.5"), pa.decimal128(5, 2), "Float16", 127.5),
        (D(2**64), pa.decimal256(76, 38), "Float32", 2.0**64),
    ],
)
def test_decimals_become_the_nearest_value_or_none(
    value: Any, kind: pa.DataType, target: str, expected: Any
) -> None:
    rows = pa.table({"x": pa.array([value, None], kind)})
    cast_to = compile_expression(f"arrow_cast(x, '{target}')", rows.schema)
    if expected is None:
        with pytest.raises(PredicateError):
            cast_to.evaluate(rows)
    else:
        assert cast_to.evaluate(rows).to_pylist() == [expected, None]


def test_decimals_beside_doubles(tmp_path: Path) -> None:
    prices = {"d": pa.array([D("127.99"), D("126.99")], pa.decimal128(5, 2)), "f": [127.99, 126.99]}
    ds = lk.write_dataset(prices, str(tmp_path / "t"))
    assert ds.count_rows("d = f") == lance.dataset(ds.uri).count_rows("d = f") == 2


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_the_time_of_day_of_the_first_day_is_refused(unit: str) -> None:
    first = pa.array([1 - 2**63, None, 0], pa.timestamp(unit))
    with pytest.raises(pa.ArrowInvalid, match="out of range"):
        cut(first, pa.time64("us"))
    assert cut(first.slice(1), pa.time64("us")).to_pylist() == [None, dt.time(0)]


def test_a_moment_beyond_python_is_named_by_its_count(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": pa.nulls(0, pa.timestamp("ns"))}, str(tmp_path / "t"))
    far = pa.array([2**63 - 1], pa.timestamp("us"))
    with pytest.raises(SchemaMismatchError, match="9223372036854775807 in row 0"):
        ds.insert(pa.table({"x": far}))


@pytest.mark.parametrize("kind", [pa.decimal128(9, 2), pa.decimal128(9, 0), pa.decimal256(40, 2)])
def test_chunks_of_decimals_become_chunks_of_floats(kind: pa.DataType) -> None:
    chunks = pa.chunked_array([["1.00", None], [], ["-2.00"]], pa.string()).cast(kind)
    found = nearest(chunks, pa.float32())
    assert found.type == pa.float32()
    assert found.to_pylist() == [1.0, None, -2.0]
