"""Every function and operator gives the same here, on Spark, and in filters that have it."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._statements.dialect import parse_statements
from lancekit._statements.filter_syntax import NotFilterError, unbound
from lancekit._statements.functions import AGGREGATES, FUNCTIONS, TRUNCATED, WINDOWS
from lancekit._statements.queries import compile_query
from lancekit._statements.scope import Scope, Text
from lancekit._statements.tables import Names
from lancekit._statements.tree import Leaf, Select
from lancekit.errors import LancekitError

FRACTIONS = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 2.675, 1e-7, 1e15 + 0.375, 123456789.125, 1e300]
FRACTIONS += [float("nan"), float("inf"), float("-inf"), None, 4e15 + 0.5, -1e-320]
TEXTS = ["", " ", "  a\t ", "straße", "ΑΣ", "İstanbul", "ﬁ", "é", "é", "日本", "a%b_c", "\\", "'"]
TEXTS += ['"', "\n", None, "AbC", "😀x"]
DAYS = [
    date(1, 1, 1),
    date(1582, 10, 15),
    date(1969, 12, 31),
    date(2020, 2, 29),
    date(9999, 12, 31),
]
TIMES = [
    datetime(1900, 1, 1, 0, 0, 0, 1),
    datetime(2021, 3, 28, 2, 30),
    datetime(2020, 12, 31, 23, 59, 59, 999999),
]


def _rows() -> pa.Table:
    count = len(FRACTIONS)

    def some(values: list[Any]) -> list[Any]:
        return list(itertools.islice(itertools.cycle([*values, None]), count))

    return pa.table(
        {
            "id": range(count),
            "b": pa.array(some([True, False])),
            "i": pa.array(some([0, 1, -1, 7, -7, 2**40, -(2**40)]), pa.int64()),
            "i8": pa.array(some([127, -128, 0, 5]), pa.int8()),
            "x": pa.array(FRACTIONS, pa.float64()),
            "f": pa.array(some([0.1, 1.5, -2.0, 3e38]), pa.float32()),
            "dec": pa.array(some([Decimal("1.50"), Decimal("-2.25")]), pa.decimal128(10, 2)),
            "s": pa.array(TEXTS, pa.string()),
            "y": pa.array(some(["a", "", "ß", "%"])),
            "bin": pa.array(some([b"", b"\0\xff"])),
            "d": pa.array(some(DAYS)),
            "t": pa.array(some(TIMES), pa.timestamp("us")),
            "z": pa.array(some([datetime(2020, 1, 1, tzinfo=UTC)]), pa.timestamp("us", "UTC")),
        }
    )


#: for each sort of argument, what stands for it
ARGUMENTS = {
    "": ["s"],
    "same": ["i", "i8"],
    "text": ["s", "y"],
    "number": ["x", "i"],
    "integer": ["i8"],
    "fraction": ["x"],
    "condition": ["b"],
    "date": ["d"],
    "timestamp": ["t"],
    "date|timestamp": ["t", "d"],
}

WRITTEN = """
i + i8 | i - i8 | i8 * i8 | x + f | x * 2 | x - i | -x | -i8 | x / f | i / i8 | i / 0 | x / 0
i div i8 | i % i8 | x % f | x % 0 | i % 0 | f = 0.1 | f > 0.1 | x = f | x < i | i8 = 300
dec > 1 | dec = 1.5 | dec < i8 | s = y | s < y | s || y | s LIKE '%a%' | s LIKE 'a\\%b\\_c'
s LIKE '\\\\' | s ILIKE '%A%' | b AND i > 0 | b OR i > 0 | NOT b | b IS TRUE | b IS NOT FALSE
x IS NULL | x IS NOT DISTINCT FROM f | x <=> x | i <=> NULL | x IN (0.5, 1.5, NULL)
i8 NOT IN (5, 300) | s IN ('', 'é') | x BETWEEN -1 AND 2 | d > '2000-01-01'
t >= TIMESTAMP '2020-01-01' | d < t | z = TIMESTAMP '2020-01-01T00:00:00+00:00'
CASE WHEN b THEN i8 WHEN i > 0 THEN i ELSE x END | CASE i8 WHEN 5 THEN 'five' ELSE s END
if(b, s, y) | CAST(i8 AS string) | CAST(i AS double) | CAST(i8 AS boolean) | CAST(b AS int)
CAST(b AS string) | CAST(dec AS double) | CAST(dec AS decimal(5, 1)) | CAST(d AS string)
CAST(d AS timestamp) | CAST(t AS date) | CAST(i8 AS decimal(10, 2)) | CAST(f AS double)
CAST(CASE WHEN abs(x) < 100 THEN x END AS int) | greatest(x, f) | least(x, i) | coalesce(dec, 1)
nullif(x, 0) | round(x, 2) | round(x, 0) | round(i) | round(i, -1)
round(i8, -2) | round(i, -12) | round(i, 2) | substring(s, 2) | substring(s, 2, 1)
left(s, 0) | right(s, 2) | concat(s, y, s) | concat_ws('-', s, y) | X'00ff' = bin | bin | z
DATE '0001-01-01' | TIMESTAMP '9999-12-31 23:59:59.999999' | 1e300 * 10 | 0.1 + 0.2
extract(year FROM d) | date_add(DATE '2020-01-31', i8) | datediff(d, DATE '1970-01-01')
'it''s' | $text
"""


def _expressions() -> list[str]:
    found = [one.strip() for line in WRITTEN.strip().splitlines() for one in line.split(" | ")]
    for name, function in FUNCTIONS.items():
        if function.literal:
            continue
        takes = list(function.takes)
        takes += takes[-1:] * (max(function.fewest, len(takes)) - len(takes))
        for at in range(2):
            args = [ARGUMENTS[one][min(at, len(ARGUMENTS[one]) - 1)] for one in takes]
            if name in ("date_add",):
                continue
            found.append(f"{name}({', '.join(args)})")
    found += [f"date_trunc('{unit}', {column})" for unit in TRUNCATED for column in "dt"]
    return list(dict.fromkeys(found))


def _aggregates() -> list[str]:
    found = ["count(*)", "count(DISTINCT x)", "count(DISTINCT s)", "sum(DISTINCT i8)", "sum(dec)"]
    for name, function in AGGREGATES.items():
        (wanted,) = function.takes
        columns = {"": ["x"], "number": ["i8", "f"], "condition": ["b"]}.get(
            wanted, ["x", "s", "d", "t", "i", "b", "dec", "z"]
        )
        found += [f"{name}({column})" for column in columns]
    return [*found, "max(x) FILTER (WHERE x < 10)"]


def _windows() -> list[str]:
    over = "OVER (PARTITION BY b ORDER BY id DESC)"
    found = [f"{name}({'x' if one.takes else ''}) {over}" for name, one in WINDOWS.items()]
    return [*found, f"sum(i8) {over}", f"count(*) {over}", "max(s) OVER ()"]


def _shown(value: Any) -> str:
    """Return a value to be compared: one zero, one NaN, and sums of any order."""
    return f"{value + 0.0:.12g}" if isinstance(value, float) else repr(value)


def _both(sql: str, rows: pa.Table, **more: Any) -> None:
    here = lk.sql(sql, r=rows, **more).to_table()
    with lk.options(engine="spark"):
        there = lk.sql(sql, r=rows, **more)
        assert there.engine == "spark"
        table = there.to_table()
    assert here.schema == table.schema
    for name in here.column_names:
        one, other = (list(map(_shown, t[name].to_pylist())) for t in (here, table))
        assert one == other, name


def test_filters_mean_the_same(tmp_path: Path) -> None:
    """What is pushed into scans, and what changes compute, is what the engines compute."""
    ds, texts = lk.write_dataset(_rows(), tmp_path / "r"), {}
    for expression in _expressions():
        text = None if "$" in expression else _as_filter(f"SELECT {expression} AS y FROM r", ds)
        if text is not None:
            texts[expression] = text
    assert len(texts) > 80
    columns = ", ".join(f"{expression} AS y{place}" for place, expression in enumerate(texts))
    there = lk.sql(f"SELECT {columns} FROM r", r=_rows()).to_table()
    for (expression, text), wanted in zip(texts.items(), there.columns, strict=True):
        try:
            here = ds.to_table({"y": text})["y"]
        except LancekitError as error:
            pytest.fail(f"{expression}: {text}: {error}")
        found = here.cast(wanted.type).to_pylist()
        assert list(map(_shown, found)) == list(map(_shown, wanted.to_pylist())), (expression, text)


def _as_filter(sql: str, ds: lk.LanceDataset) -> str | None:
    (tree,) = parse_statements(sql)
    query = compile_query(tree, Scope(Text(sql, Names({"r": ds}), compile_query)))
    assert isinstance(query, Select)
    assert isinstance(query.first, Leaf)
    names = {at: name for name, at in query.first.used.items()}
    try:
        return unbound(query.outputs[0].expr, lambda one: (names[one.value[1]],))
    except NotFilterError:
        return None


@pytest.mark.spark
def test_functions_of_rows(spark: object) -> None:
    found = _expressions()
    outputs = ", ".join(f"{one} AS `{at}: {one.replace('`', '')}`" for at, one in enumerate(found))
    _both(f"SELECT id, {outputs} FROM r ORDER BY id", _rows(), text='";-- \\ $$ {t0} :p0 é')


@pytest.mark.spark
def test_functions_of_many_rows(spark: object) -> None:
    outputs = ", ".join(f"{one} AS `{one}`" for one in _aggregates())
    _both(f"SELECT b, {outputs} FROM r GROUP BY b ORDER BY b", _rows())
    windows = ", ".join(f"{one} AS `{one}`" for one in _windows())
    _both(f"SELECT id, {windows} FROM r ORDER BY id", _rows())


@pytest.mark.spark
@pytest.mark.parametrize(
    "expression",
    [
        "i * 9223372036854775807",
        "CAST(i AS int)",
        "CAST(x AS bigint)",
        "sum(abs(i)) * 9000000000000",
    ],
)
def test_what_is_too_large_fails_on_both(spark: object, expression: str) -> None:
    for engine in ("local", "spark"):
        with lk.options(engine=engine), pytest.raises(LancekitError, match="cannot be computed"):
            lk.sql(f"SELECT {expression} AS y FROM r", r=_rows()).to_table()


def _blobs(place: Path, *, second: bool) -> lk.LanceDataset:
    values = [b"a" * 9, b"b" * 100_000, None]
    marked = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    field = lk.blob_field("b") if second else marked
    column = lk.blob_array(values) if second else pa.array(values, pa.large_binary())
    schema = pa.schema([("id", pa.int64()), field])
    return lk.write_dataset(
        pa.table([pa.array([1, 2, 3]), column], schema=schema),
        place,
        data_storage_version="2.2" if second else "2.1",
    )


def _blobs_are_their_bytes(place: Path, *, second: bool) -> None:
    ds = _blobs(place, second=second)
    found = lk.sql("SELECT b FROM t WHERE b IS NOT NULL ORDER BY id", t=ds).to_table()
    assert found["b"].to_pylist() == [b"a" * 9, b"b" * 100_000]
    lk.sql("INSERT INTO t SELECT id + 10 AS id, b FROM t WHERE id > 1", t=ds)
    lk.sql("MERGE INTO t USING (SELECT 1 AS id, b FROM t WHERE id = 2) s ON t.id = s.id "
           "WHEN MATCHED THEN UPDATE SET *", t=ds)  # fmt: skip
    rows = ds.to_table(blob_handling="all_binary").sort_by("id").to_pylist()
    assert [(row["id"], row["b"] and len(row["b"])) for row in rows] == [
        (1, 100_000),
        (2, 100_000),
        (3, None),
        (12, 100_000),
        (13, None),
    ]


@pytest.mark.parametrize("second", [False, True])
def test_blobs_are_their_bytes_here(tmp_path: Path, second: bool) -> None:
    _blobs_are_their_bytes(tmp_path / "t", second=second)


@pytest.mark.spark
def test_blobs_are_their_bytes_on_spark(spark: object, tmp_path: Path) -> None:
    with lk.options(engine="spark"):
        _blobs_are_their_bytes(tmp_path / "t", second=True)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_result_on_spark_has_its_names(spark: object, engine: str) -> None:
    text = "SELECT id, 1 + id AS `x y`, 'a' AS q FROM r WHERE id < 2"
    with lk.options(engine=engine):
        frame = lk.sql(text, r=pa.table({"id": [1, 2]})).to_spark()
    assert [tuple(row.asDict().items()) for row in frame.collect()] == [
        (("id", 1), ("x y", 2), ("q", "a"))
    ]
