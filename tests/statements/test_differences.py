"""The page that lists the texts with other values in `lk.sql` than in filters."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import PredicateError

_PAGE = Path(__file__).parents[2] / "docs/reference/reading.md"
_NOON = dt.datetime(1970, 1, 2, 12, tzinfo=dt.UTC)
ROW = pa.table(
    {
        "i": [7],
        "i8": pa.array([100], pa.int8()),
        "f32": pa.array([1.1], pa.float32()),
        "f": [-1.0],
        "s": pa.array([None], pa.string()),
        "dec": [Decimal("1.25")],
        "day": [dt.date(1970, 1, 2)],
        "ny": pa.array([_NOON], pa.timestamp("us", "America/New_York")),
    }
)
NAMES = {"null": None, "true": True, "false": False, "-inf": -math.inf, "1970-01-03": None}
NAMES["1970-01-03"] = dt.date(1970, 1, 3)


def _rows() -> list[tuple[str, object, object]]:
    section = _PAGE.read_text().partition("| text |")[2].partition("\n\n")[0]
    found: list[tuple[str, object, object]] = []
    for line in section.splitlines()[2:]:
        texts, *both = (cell.strip() for cell in line.replace("\\|", "\0").strip("|").split("|"))
        sides = [cell.split(", ") for cell in both]
        for at, text in enumerate(texts.replace("\0", "|").strip("`").split("`, `")):
            mine, other = (side[min(at, len(side) - 1)] for side in sides)
            found.append((text, mine, other))
    return found


def _same(cell: object, found: object) -> bool:
    if cell == "nan":
        return isinstance(found, float) and math.isnan(found)
    value = NAMES[str(cell)] if cell in NAMES else str(cell).strip("'")
    if isinstance(found, int | float | Decimal) and not isinstance(found, bool):
        return not isinstance(value, bool) and float(str(value)) == found
    return value == found


@pytest.mark.parametrize(("text", "in_filters", "in_sql"), _rows())
def test_a_row_of_the_table(text: str, in_filters: str, in_sql: str) -> None:
    ds = lk.write_dataset(ROW, "memory://text-in-filters-and-sql", mode="overwrite")
    for cell, read in (
        (in_filters, lambda: ds.to_table({"x": text})),
        (in_sql, lambda: lk.sql(f"SELECT {text} AS x FROM t", t=ds).to_table()),
    ):
        if cell == "error":
            with pytest.raises(PredicateError):
                read()
        else:
            assert _same(cell, read()["x"][0].as_py()), (text, cell, read())
    for cell, count in (
        (in_filters, lambda: ds.count_rows(f"({text}) IS NULL")),
        (in_sql, lambda: len(lk.sql(f"SELECT i FROM t WHERE ({text}) IS NULL", t=ds).fetchall())),
    ):
        if cell != "error":  # a condition that is pushed into the scan has the same value
            assert count() == (cell == "null")


@pytest.mark.parametrize(
    "condition",
    [
        lk.col("s").starts_with("a"),
        lk.col("s").ends_with("a"),
        lk.col("s").contains("a"),
        lk.col("day").year() == 1970,
        lk.col("day").month() == 2,
    ],
    ids=str,
)
def test_the_text_of_an_expression_is_a_condition_of_both(condition: lk.Expression) -> None:
    ds = lk.write_dataset(ROW, "memory://text-in-filters-and-sql", mode="overwrite")
    found = lk.sql(f"SELECT i FROM t WHERE {condition}", t=ds).fetchall()
    assert len(found) == ds.count_rows(str(condition))


def test_other_sentences_of_the_section() -> None:
    ds = lk.write_dataset(ROW, "memory://text-in-filters-and-sql", mode="overwrite")
    assert ds.to_table({"x": lk.col("i") / 2})["x"].to_pylist() == [3.5]
    assert ds.count_rows(lk.col("f32") == 1.1) == 1
    assert ds.to_table({"x": lk.lit(-7) % 3, "y": lk.lit(0.5).round()}).to_pylist() == [
        {"x": -1, "y": 1.0}
    ]
    polars = pl.select(x=pl.lit(-7) % 3, y=pl.lit(0.5).round())
    assert polars.rows() == [(2, 0.0)]
    rows = ds.sql("SELECT f32 = 1.1 AS a, i / 2 AS b FROM dataset").build().to_batch_records()
    assert pa.Table.from_batches(rows).to_pylist() == [{"a": False, "b": 3}]
