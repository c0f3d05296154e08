"""`bfloat16`: rounded as the reference rounds, cast, in pandas, and in files."""

from __future__ import annotations

import pickle
import subprocess
import sys

import lance.arrow
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lancekit._pylance import bfloat16
from lancekit._pylance.bfloat16 import (
    BFloat16,
    BFloat16Array,
    BFloat16Type,
    PandasBFloat16Array,
    bfloat16_array,
    cast,
)
from lancekit.errors import InvalidArgumentError, InvalidTypeError, NotOfferedError


def _numbers() -> list[float | None]:
    rng = np.random.default_rng(3)
    with np.errstate(invalid="ignore"):  # among them are NaNs that signal
        bits = rng.integers(0, 1 << 32, 2000, np.uint32).view("<f4").astype("f8")
    ties = (np.arange(500, dtype="<u4") * 0x8000 + 0x3F80_0000).view("<f4").astype("f8")
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, -1e300, 1e-45, 3.4e38, 3.39e38, None, 7]
    return [*bits, *ties, *special]


def test_numbers_are_rounded_as_the_reference_does() -> None:
    ours, theirs = bfloat16_array(_numbers()), lance.arrow.bfloat16_array(_numbers())
    assert ours.is_null().equals(theirs.is_null())
    for mine, other in zip(ours.to_pylist(), theirs.to_pylist(), strict=True):
        same = mine is other or mine.as_float() == other.as_float()
        assert same or str(mine) == str(other) == "NaN"
    kept = ours.storage.drop_null()
    numbers = [number == number for number in _numbers() if number is not None]
    assert kept.filter(pa.array(numbers)) == theirs.storage.drop_null().filter(pa.array(numbers))


def test_a_value_compares_with_its_like_alone() -> None:
    one, more = BFloat16(1), BFloat16(1.01)
    assert one < more
    assert one <= BFloat16(1.001) <= one
    assert max(more, one) is more
    assert one != 1.0
    assert hash(one) == hash(BFloat16(1.001))
    assert BFloat16(float("nan")) != BFloat16(float("nan"))
    assert float(pickle.loads(pickle.dumps(more))) == more.as_float() == 1.0078125
    assert BFloat16.from_bytes(b"\x80\x3f") == one
    with pytest.raises(TypeError):
        _ = one < 2.0
    with pytest.raises(InvalidTypeError, match="value must be a number, got 'x'"):
        BFloat16("x")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="2 bytes, got 1"):
        BFloat16.from_bytes(b"1")
    with pytest.raises(InvalidTypeError, match="must be numbers"):
        bfloat16_array(["x"])


def test_an_array_is_shown_by_its_ends() -> None:
    assert str(bfloat16_array([1.1, None])) == "[\n  1.1015625,\n  None\n]"
    lines = str(bfloat16_array(range(30))).splitlines()
    assert len(lines) == 23
    assert lines[10:13] == ["  9,", "...,", "  20,"]
    assert repr(bfloat16_array([1])).startswith("<lancekit.arrow.BFloat16Array object at 0x")
    assert bfloat16_array([1.5, None])[0] == bfloat16_array([1.5])[0]
    assert bfloat16_array([1.5, None])[0] != 1.5


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_casts(kind: pa.DataType) -> None:
    floats = pa.array([1.0, None, -2.5, 3.0], pa.float64()).cast(kind)
    halves = cast(floats, "bfloat16")
    assert halves.type == BFloat16Type()
    assert cast(halves, kind).equals(floats)
    assert cast(halves[1:], kind).equals(floats[1:])
    lists = pa.FixedSizeListArray.from_arrays(floats, 2)
    packed = cast(lists, pa.list_(BFloat16Type(), 2))
    assert cast(packed, lists.type).equals(lists)
    assert cast(packed[1:], lists.type).equals(lists[1:])
    assert cast(halves, "bf16") is halves
    assert cast(pa.array([1]), "string").equals(pa.array(["1"]))


def test_casts_that_are_none() -> None:
    with pytest.raises(InvalidArgumentError, match="Cast to a float first"):
        cast(pa.array(["x"]), "bf16")
    one = pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0]), 1)
    with pytest.raises(InvalidArgumentError, match="sizes differ"):
        cast(one, pa.list_(BFloat16Type(), 2))


def test_a_column_of_pandas() -> None:
    values = bfloat16_array([1.1, None, 3.4])
    series = pd.Series(PandasBFloat16Array(values))
    assert series.isna().tolist() == [False, True, False]
    assert series[0] == BFloat16(1.1)
    assert series[1] is None
    assert series[series.notna()].tolist() == [BFloat16(1.1), BFloat16(3.4)]
    assert pa.array(series).equals(values)
    assert pd.concat([series, series])[2].tolist() == [BFloat16(3.4)] * 2
    assert series.reindex([2, 9]).isna().tolist() == [False, True]
    assert series.array.take([-1, 0])[0] == BFloat16(3.4)
    assert series.copy().nbytes == values.nbytes
    assert PandasBFloat16Array._from_sequence([1.5, BFloat16(2), None]).isna().sum() == 1


def test_numpy_needs_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(NotOfferedError, match="pip install ml_dtypes"):
        bfloat16_array([1.0]).to_numpy()
    with pytest.raises(InvalidArgumentError, match="nulls, which NumPy cannot store"):
        bfloat16_array([None]).to_numpy()


def test_numpy_has_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bfloat16, "_ml_dtype", lambda: np.dtype("<u2"))  # as wide as the package's
    values = bfloat16_array([1.0, 2.0, -3.0])
    assert values[1:].to_numpy().tolist() == [0x4000, 0xC040]
    assert BFloat16Array.from_numpy(values.to_numpy()).equals(values)
    assert len(PandasBFloat16Array.from_numpy(values.to_numpy())) == 3
    with pytest.raises(InvalidArgumentError, match="in 2 dimensions"):
        BFloat16Array.from_numpy(np.zeros((1, 1), "<u2"))
    with pytest.raises(InvalidArgumentError, match="float64 in 1 dimensions"):
        BFloat16Array.from_numpy([1.0])  # type: ignore[arg-type]


ALONE = """
import sys
import pyarrow as pa, lancekit as lk
from lancekit.arrow import BFloat16, ImageURIArray, bfloat16_array, FixedShapeImageTensorType
values = bfloat16_array([1.5, None])
vectors = pa.FixedSizeListArray.from_arrays(bfloat16_array([1, 2, 3, 4]), 2)
tensor = FixedShapeImageTensorType(pa.uint8(), [1, 1, 2])
pixels = pa.FixedSizeListArray.from_arrays(pa.array([1, 2, 3, 4], pa.uint8()), 2)
rows = pa.table({
    "value": values, "vector": vectors, "uri": ImageURIArray.from_uris(["a", "b"]),
    "image": pa.ExtensionArray.from_storage(tensor, pixels),
})
ds = lk.write_dataset(rows, sys.argv[1])
assert ds.schema == rows.schema, ds.schema
assert ds.to_table() == rows and ds.take([1]) == rows[1:]
assert ds.to_table()["value"].to_pylist() == [BFloat16(1.5), None]
assert ds.to_table()["image"].type.shape == (1, 1, 2)
assert ds.to_table(["value"]).to_pandas()["value"][0] == BFloat16(1.5)
"""


def test_files_hold_them_where_the_types_are_known(tmp_path) -> None:
    place = str(tmp_path / "d")
    done = subprocess.run(
        [sys.executable, "-c", ALONE, place], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    theirs = lance.dataset(place).to_table()
    assert theirs["value"].type == lance.arrow.BFloat16Type()
    assert theirs["uri"].to_pylist() == ["a", "b"]
    assert theirs["image"].type.shape == [1, 1, 2]
    assert str(theirs["vector"].to_pylist()) == "[[1, 2], [3, 4]]"
