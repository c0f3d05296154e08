"""Measures of drift, held against their definitions."""

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest

from lancekit._notebook.pictures.columns import compare, kolmogorov_smirnov, stability_index


def _compared(old, new, measure="psi"):
    return compare("x", pa.chunked_array([old]), pa.chunked_array([new]), measure)


@pytest.mark.parametrize("seed", range(4))
def test_kolmogorov_smirnov_is_the_largest_distance(seed):
    random = np.random.default_rng(seed)
    old, new = random.integers(0, 9, 50), random.integers(2, 12, 30)
    slow = max(abs((old <= x).mean() - (new <= x).mean()) for x in range(13))
    assert kolmogorov_smirnov(old, new) == pytest.approx(slow)


def test_the_index_of_shifts():
    assert stability_index(np.array([0.5, 0.5]), np.array([0.5, 0.5])) == 0
    random = np.random.default_rng(0)
    old = random.normal(0, 1, 20_000)
    # of two normal distributions it is about the square of the shift
    for shift in (0.0, 0.3, 0.6):
        found = _compared(pa.array(old), pa.array(random.normal(shift, 1, 20_000)))
        assert found.value == pytest.approx(shift**2, rel=0.12, abs=0.005)
        assert found.drifted is (shift == 0.6)
        assert found.old.sum() == pytest.approx(1, abs=0.02)


VALUES = {
    "int": pa.array([1, 2, None, 2**53], pa.int64()),
    "float": pa.array([1.5, float("nan"), float("inf"), -0.0, 1e300, -1e300]),
    "half": pa.array(np.array([1, 2], np.float16)),
    "same": pa.array([7, 7, 7]),
    "none": pa.array([], pa.int32()),
    "null": pa.array([None, None], pa.int32()),
    "date": pa.array([dt.date(2020, 1, 1), dt.date(2021, 1, 1)]),
    "date64": pa.array([0, 86_400_000], pa.date64()),
    "time": pa.array([1, 2], pa.time32("s")),
    "timestamp": pa.array([0, 10**18], pa.timestamp("ns", "UTC")),
    "duration": pa.array([1, 5], pa.duration("us")),
    "decimal": pa.array([decimal.Decimal("1.25"), None], pa.decimal128(9, 2)),
    "text": pa.array(["a", "b", None, "<b>"]),
    "many": pa.array([str(i) for i in range(100)]),
    "categories": pa.array(["a", "b", "a"]).dictionary_encode(),
    "flag": pa.array([True, False, None]),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("measure", ["psi", "ks"])
def test_every_kind_of_value(name, measure):
    values = VALUES[name]
    same = _compared(values, values, measure)
    assert same.value == pytest.approx(0, abs=1e-9)
    assert not same.drifted
    empty = _compared(values, values.slice(0, 0), measure)
    assert np.isfinite(empty.value)
    assert np.isfinite(empty.old).all()


def test_new_values_and_nulls_are_drift():
    old = pa.array(["a", "b"] * 50)
    assert _compared(old, pa.array(["a", "c"] * 50)).drifted
    assert "c" in _compared(old, pa.array(["a", "c"] * 50)).names
    assert _compared(old, pa.array(["a", None] * 50)).drifted
    numbers = pa.array(range(100))
    assert _compared(numbers, pa.array([*range(50), *[None] * 50])).drifted


def test_few_values_are_classes_of_their_own():
    one, months = pa.array([1] * 500), pa.array([1 + i % 7 for i in range(500)])
    assert _compared(one, months).drifted
    assert _compared(months, one).drifted
    assert _compared(pa.array([1 + i % 3 for i in range(500)]), months).drifted


@pytest.mark.parametrize("seed", range(3))
def test_samples_of_the_same_do_not_drift(seed):
    random = np.random.default_rng(seed)
    old, new = (pa.array(random.normal(size=1000)) for _ in range(2))
    assert not _compared(old, new).drifted


def test_values_without_equality_are_left_out():
    lists = pa.array([[1], [2]])
    assert _compared(lists, lists) is None
