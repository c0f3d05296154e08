"""Every pair of types that a value can be cast between, with values at the ends of their ranges."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["NAMES", "VALUES", "comparable", "pairs"]

_INT64 = 1 << 63
#: the names that ``arrow_cast`` takes
NAMES: dict[str, pa.DataType] = {
    "Boolean": pa.bool_(),
    **{f"Int{bits}": getattr(pa, f"int{bits}")() for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": getattr(pa, f"uint{bits}")() for bits in (8, 16, 32, 64)},
    "Float16": pa.float16(),
    "Float32": pa.float32(),
    "Float64": pa.float64(),
    "Decimal128(5, 2)": pa.decimal128(5, 2),
    "Decimal128(38, 10)": pa.decimal128(38, 10),
    "Utf8": pa.string(),
    "LargeUtf8": pa.large_string(),
    "Binary": pa.binary(),
    "Date32": pa.date32(),
    "Date64": pa.date64(),
    "Timestamp(Second, None)": pa.timestamp("s"),
    "Timestamp(Millisecond, None)": pa.timestamp("ms"),
    "Timestamp(Microsecond, None)": pa.timestamp("us"),
    "Timestamp(Nanosecond, None)": pa.timestamp("ns"),
    'Timestamp(Microsecond, Some("UTC"))': pa.timestamp("us", "UTC"),
    'Timestamp(Nanosecond, Some("America/New_York"))': pa.timestamp("ns", "America/New_York"),
    "Time32(Second)": pa.time32("s"),
    "Time32(Millisecond)": pa.time32("ms"),
    "Time64(Microsecond)": pa.time64("us"),
    "Time64(Nanosecond)": pa.time64("ns"),
    "Duration(Second)": pa.duration("s"),
    "Duration(Millisecond)": pa.duration("ms"),
    "Duration(Microsecond)": pa.duration("us"),
    "Duration(Nanosecond)": pa.duration("ns"),
}
_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_TEXTS = [
    "1",
    "-1",
    "127",
    "300",
    "1.5",
    "-2.5",
    "1e3",
    "0.125",
    "",
    " 12 ",
    "x",
    "true",
    "NaN",
    "inf",
    "99999999999999999999",
    "2020-01-31",
    "9999-12-31",
    "2020-01-31T12:00:00Z",
    "2020-01-31 12:00:00.123456789",
    "2020-01-31T12:00:00+02:00",
    "12:30:15",
    "12:30:15.123456789",
    "25:00:00",
]


def _integers(bits: int, *, signed: bool) -> list[int]:
    half = 1 << (bits - 1)
    return [0, 1, 100, half - 1, *((-1, -half) if signed else (half, 2 * half - 1))]


def _values(kind: Any) -> pa.Array:
    test = pa.types
    if test.is_boolean(kind):
        return pa.array([False, True])
    if test.is_integer(kind):
        return pa.array(_integers(kind.bit_width, signed=test.is_signed_integer(kind)), kind)
    if test.is_floating(kind):
        dtype = np.dtype(kind.to_pandas_dtype())
        ends = [float(np.finfo(dtype).max), float(np.finfo(dtype).tiny)]
        plain = [0.0, -0.0, 1.5, 2.5, -2.5, 0.125, 300.0, math.nan, math.inf, -math.inf, *ends]
        if dtype != np.float16:
            plain += [2.0**31, 2.0**53, 2.0**63, -(2.0**63), 2.0**64, 1e17, 0.1]
        return pa.array(np.array(plain, dtype))
    if test.is_decimal(kind):
        nines = Decimal((0, (9,) * kind.precision, -kind.scale))
        texts = ["0", "1", "1.5", "-2.5", "0.13", "-0.01"]
        return pa.array([*map(Decimal, texts), nines, nines.copy_negate()], kind)
    if test.is_string(kind) or test.is_large_string(kind):
        return pa.array(_TEXTS, kind)
    if test.is_binary(kind):
        return pa.array([b"", b"a", b"\xff"], kind)
    if test.is_date32(kind):
        return pa.array([0, -1, 18292, 2932896, -719162, 95026601, -96465292], pa.int32()).cast(
            kind
        )
    if test.is_date64(kind):
        days = [0, -1, 18292, 2932896, -719162]
        return pa.array([day * 86_400_000 for day in days], pa.int64()).cast(kind)
    if test.is_time(kind):
        day = _DAY[kind.unit]
        return pa.array([0, 1, day // 2 + 1, day - 1], f"int{kind.bit_width}").cast(kind)
    day = _DAY[kind.unit]
    counts = [0, 1, -1, 999, day // 2 + 1, 18292 * day, 2932896 * day, _INT64 - 1, -_INT64]
    return pa.array([count for count in counts if abs(count) <= _INT64], pa.int64()).cast(kind)


#: by the name of the type
VALUES: dict[str, pa.Array] = {name: _values(kind) for name, kind in NAMES.items()}


def pairs() -> Iterator[tuple[str, str]]:
    """Yield the names of every two types."""
    for source in NAMES:
        for target in NAMES:
            if source != target:
                yield source, target


def comparable(scalar: pa.Scalar) -> Any:
    """Return what tells values apart: the count of a moment, the text of a float."""
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_floating(kind):
        return repr(float(scalar.as_py()))
    if pa.types.is_temporal(kind):
        return pa.array([scalar], kind).view(f"int{kind.bit_width}")[0].as_py()
    return scalar.as_py()
