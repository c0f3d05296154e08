"""What is remembered of the values of blocks leaves rows out unread, and changes no result."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancekit as lk
from lancekit import _cache as cache
from lancekit._scan.expressions.bounds import may_hold
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragment_rows import pruned
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import fragment_sources
from lancekit._storage import base
from lancekit._storage.mapped import MappedFile
from lancekit.errors import PredicateError
from tests.support.remembering import small_blocks

ROWS = 4000


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(base, "SETTLED_SECONDS", 0.02)
    with small_blocks(128):
        yield


def _table() -> pa.Table:
    rng = np.random.default_rng(5)
    order = np.arange(ROWS)
    odd = rng.choice([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan], ROWS)
    few = np.where(order < 2000, order % 2 * -0.0, odd)
    missing = rng.random(ROWS) < 0.3
    missing[1000:1300] = True
    return pa.table(
        {
            "up": order - 1000,
            "down": pa.array((ROWS - order).astype(np.int16)),
            "large": pa.array(order.astype(np.uint64) + (1 << 63)),
            "close": pa.array((1 << 53) + order),
            "x": odd,
            "zeros": few,
            "holes": pa.array(order, mask=missing),
            "nulls": pa.nulls(ROWS, pa.int32()),
            "text": [f"{i // 10:05} 'quoted' ä" if i % 7 else None for i in range(ROWS)],
            "one": pa.array(np.full(ROWS, 7)),
        }
    )


FILTERS: list[Any] = [
    "up < 0",
    "up <= -1000",
    "up >= 2999",
    "up = 17",
    "17 = up",
    "0 > up",
    "2990 <= up AND up < 2995",
    "up > 100 AND down > 3000",
    "(up > 2000) AND (text > '003' AND down < 1000)",
    "large > 9223372036854775807",
    "large <= 9223372036854775810",
    "close = 9007199254740993",
    "close > 9007199254740995",
    "x > 1.5",
    "x = 0",
    "x < -1.5",
    "x >= 0.0",
    "zeros = 0.0",
    "zeros = -0.0",
    "zeros < 0",
    "zeros > -0.0",
    "zeros >= 0",
    "holes < 50",
    "holes = 1200",
    "holes > 3990",
    "nulls > 0",
    "text = '00017 ''quoted'' ä'",
    "text >= '00390'",
    "text < ''",
    "one = 8",
    "one <> 7",
    "up < 0 OR up > 2990",
    "NOT up < 2990",
    "up IS NULL",
    "holes IS NULL AND up > 2900",
    "up BETWEEN 5 AND 9",
    "up IN (1, 2, 3)",
    "up + 1 > 2999",
    "up > down",
    pc.field("up") > 2900,
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trimmed") / "t"
    ds = lk.write_dataset(_table(), path)
    ds.delete("up % 11 = 3")
    return path


def warm(place: Path) -> None:
    """Read all often enough that what is read is remembered."""
    (path,) = (place / "data").iterdir()
    while MappedFile(str(path)).identity is None:
        time.sleep(0.005)
    for _ in range(2):
        lk.dataset(place).to_table()


@pytest.mark.parametrize("values", [True, False], ids=["values", "bounds alone"])
def test_filters_find_what_they_find_without(
    place: Path, values: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lk.options(cache_bytes=0):
        expected = [lk.dataset(place).to_table(filter=text) for text in FILTERS]
    warm(place)
    if not values:
        for text in FILTERS:
            lk.dataset(place).to_table(filter=text)
        assert lk.cache_info().kinds["bounds"].entries > 100
        monkeypatch.setattr(cache, "_SMALL_SHARE", 1)
        info = lk.cache_info()
        lk.options.cache_bytes = info.bytes - info.kinds["values"].bytes
        assert lk.cache_info().kinds["bounds"].entries == info.kinds["bounds"].entries
        assert lk.cache_info().kinds["values"].entries == 0
    for text, whole in zip(FILTERS, expected, strict=True):
        for _ in range(2):
            ds = lk.dataset(place)
            assert _same(ds.to_table(filter=text), whole), text
            assert ds.count_rows(text) == whole.num_rows, text


def _same(one: pa.Table, other: pa.Table) -> bool:
    """Compare tables, not a number being equal to itself."""
    return one.schema == other.schema and all(
        mine.equals(theirs) or repr(mine.to_pylist()) == repr(theirs.to_pylist())
        for mine, theirs in zip(one.columns, other.columns, strict=True)
    )


def _rows(place: Path, text: str) -> int:
    """Return how many rows of the only fragment are looked at."""
    ds = lk.dataset(place)
    (source,) = fragment_sources(ds._snapshot)
    reader = FragmentReader(source)
    rows = reader.live_between(0, reader.physical_rows)
    return len(pruned(reader, Predicate.parse(text, ds.schema), rows))


def test_rows_are_left_out_at_both_ends(tmp_path: Path) -> None:
    lk.write_dataset(_table(), tmp_path / "t")
    warm(tmp_path / "t")
    assert _rows(tmp_path / "t", "up = 17") == 128
    assert _rows(tmp_path / "t", "up < 0") == 1024
    assert _rows(tmp_path / "t", "holes = 1200") == 0
    assert _rows(tmp_path / "t", "up < 0 OR up > 2990") == ROWS
    assert _rows(tmp_path / "t", "up < 0 AND up + 1 > 0") == ROWS
    lk.clear_cache()
    assert _rows(tmp_path / "t", "up = 17") == ROWS


def test_a_filter_that_fails_for_a_row_fails_for_it_still(tmp_path: Path) -> None:
    lk.write_dataset(_table(), tmp_path / "t")
    warm(tmp_path / "t")
    with pytest.raises(PredicateError):
        lk.dataset(tmp_path / "t").to_table(filter="up > 2900 AND 1 / (up + 1000) >= 0")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("up BETWEEN 3 AND 5", [False, True, False]),
        ("2 < up AND up <= 9", [False, True, True]),
        ("up = NULL", [False, False, False]),
    ],
)
def test_what_is_looked_at(text: str, wanted: list[bool]) -> None:
    least, greatest = pa.array([0, 3, 6]), pa.array([2, 5, 9])
    expr = Predicate.parse(text, pa.schema({"up": pa.int64()})).expr
    assert may_hold(expr, "up", least, greatest).tolist() == wanted


@pytest.mark.parametrize(
    "text", ["up > 1 OR up < 0", "up + 1 > 2", "_rowid = 5", "x IS NULL", "s.a > 1"]
)
def test_what_is_not_looked_at(text: str) -> None:
    schema = pa.schema({"up": pa.int64(), "x": pa.float64(), "s": pa.struct({"a": pa.int64()})})
    zero = pa.array([0])
    assert may_hold(Predicate.parse(text, schema).expr, "up", zero, zero).tolist() == [True]
