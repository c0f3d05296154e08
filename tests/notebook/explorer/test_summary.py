"""What the values of a column are like: of all of them, as NumPy and Counter say."""

import random
from collections import Counter
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._notebook.explorer import views as module
from lancekit._notebook.explorer.views import BINS, read_summary


def never():
    return False


def summary(values, **how):
    ds = lk.write_dataset(pa.table({"v": values}), "memory://explorer-summary", mode="overwrite")
    return read_summary(ds, "v", how.get("cancelled", never))


@pytest.mark.parametrize("counted", [1 << 16, 3])
@pytest.mark.parametrize("together", [1 << 16, 10])
def test_numbers(counted, together, monkeypatch):
    monkeypatch.setattr(module, "_MOST_COUNTED", counted)
    monkeypatch.setattr(module, "_TOGETHER", together)
    chance = random.Random(5)
    values = [chance.choice([None, chance.gauss(0, 5), 1.0, float("nan")]) for _ in range(500)]
    found = summary(pa.array(values, pa.float64()))
    there = np.array([v for v in values if v is not None])
    finite = there[np.isfinite(there)]
    assert found.statistics.nulls == values.count(None)
    assert found.others == len(there) - len(finite)
    assert [b.rows for b in found.bins] == np.histogram(finite, BINS)[0].tolist()
    assert (found.bins[0].low, found.bins[-1].high) == (finite.min(), finite.max())
    if counted == 3:
        assert found.top is None
    else:
        assert (1.0, int((there == 1.0).sum())) in found.top


def test_few_whole_numbers_have_a_bar_each():
    found = summary(pa.array([3, 3, 5, None, 3], pa.int8()))
    assert [(b.low, b.rows) for b in found.bins] == [(3.0, 3), (4.0, 0), (5.0, 1)]
    assert found.top == ((3, 3), (5, 1))


def test_words():
    words = random.Random(1).choices(["a", "b", "c", "d"], [5, 4, 3, 1], k=300)
    found = summary(pa.array(words).dictionary_encode())
    assert found.top == tuple(Counter(words).most_common())
    assert found.bins == ()
    assert (found.statistics.min, found.statistics.max, found.statistics.distinct) == ("a", "d", 4)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([date(2020, 1, 1), date(2020, 2, 1), None]),
        pa.array([datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC)]),
        pa.array([1, 1 << 40], pa.timestamp("us")),
        pa.array([1, 86399], pa.time32("s")),
        pa.array([1, 10**9], pa.duration("ms")),
        pa.array([1, 250], pa.decimal128(9, 2)),
        pa.array([0, 2**64 - 1], pa.uint64()),
        pa.array([2**60, 2**60]),
        pa.array([-1.7e308, 0.0, 1.7e308]),
        pa.array([0.3, 0.1 + 0.2]),
    ],
)
def test_times_and_large_numbers_have_bars(values):
    found = summary(values)
    assert sum(b.rows for b in found.bins) == len(values) - values.null_count
    assert found.bins[0].low == values[0].as_py()


@pytest.mark.parametrize(
    "values",
    [
        pa.array([[1, 2], [3]]),
        pa.array([{"a": 1}, {"a": 1}]),
        pa.array([b"\0", b"\xff"]),
        pa.array([True, False, None]),
        pa.array([], pa.int32()),
        pa.nulls(3, pa.float64()),
        pa.array([float("nan"), float("inf")]),
        pa.array([[0.5] * 16] * 2, pa.list_(pa.float32(), 16)),
    ],
)
def test_what_has_no_bars(values):
    found = summary(values)
    assert found.bins == ()
    assert (found.statistics.rows, found.statistics.nulls) == (len(values), values.null_count)


def test_what_is_overtaken_ends_and_what_is_not_there_is_an_error():
    assert summary(pa.array([1]), cancelled=lambda: True) is None
    with pytest.raises(lk.errors.ColumnNotFoundError):
        read_summary(lk.dataset("memory://explorer-summary"), "w", never)
