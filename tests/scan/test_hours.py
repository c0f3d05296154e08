"""Hours that come twice, and days without a midnight: an instant is never ambiguous."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk


def at(*when: int) -> dt.datetime:
    return dt.datetime(*when, tzinfo=dt.UTC)


NEW_YORK = [at(2024, 11, 3, 5, 30), at(2024, 11, 3, 6, 30, 15), at(2024, 3, 10, 7, 30), None]
SAO_PAULO = [at(2018, 11, 4, 3, 30), at(2018, 2, 18, 1, 30), at(2018, 2, 18, 2, 30), None]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    rows = pa.table(
        {
            "ny": pa.array(NEW_YORK, pa.timestamp("us", "America/New_York")),
            "sp": pa.array(SAO_PAULO, pa.timestamp("ns", "America/Sao_Paulo")),
        }
    )
    lk.write_dataset(rows, str(tmp_path / "d"))
    return str(tmp_path / "d")


def instants(dataset: Any, expression: str) -> Sequence[Any]:
    found = dataset.to_table(columns={"x": expression})["x"]
    return list(found.cast(pa.timestamp("us", "UTC")).to_pylist())


def test_the_hour_and_the_day_of_an_instant(uri: str) -> None:
    ds = lk.dataset(uri)
    hours = [at(2024, 11, 3, 5), at(2024, 11, 3, 6), at(2024, 3, 10, 7), None]
    assert instants(ds, "date_trunc('hour', ny)") == hours
    days = [at(2018, 11, 4, 3), at(2018, 2, 17, 2), at(2018, 2, 17, 2), None]
    assert instants(ds, "date_trunc('day', sp)") == days


UNITS = ["millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"]


@pytest.mark.parametrize("column", ["ny", "sp"])
def test_as_pylance(uri: str, column: str) -> None:
    ours, theirs = lk.dataset(uri), lance.dataset(uri)
    for unit in UNITS:
        text = f"date_trunc('{unit}', {column})"
        assert instants(ours, text) == instants(theirs, text), unit
    for text in (
        f"to_char({column}, '%Y-%m-%d %H:%M:%S')",
        f"date_format({column}, '%H:%M')",
        f"date_part('minute', {column})",
        f"to_unixtime({column})",
    ):
        wanted = {"x": text}
        assert ours.to_table(columns=wanted) == theirs.to_table(columns=wanted), text


def test_rows_of_such_an_hour_can_be_updated(uri: str) -> None:
    ds = lk.dataset(uri)
    ds.update({"ny": "date_trunc('hour', ny)"}, where="to_char(ny, '%H') = '01'")
    found = [one for one in ds.to_table()["ny"].to_pylist() if one is not None]
    assert [(one.minute, one.second) for one in found if one.month == 11] == [(0, 0), (0, 0)]
    assert ds.count_rows("date_trunc('hour', ny) = TIMESTAMP '2024-11-03 06:00:00Z'") == 1
