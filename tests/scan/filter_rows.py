"""The rows that the filter corpus is asked of: every type, its edges, and nulls."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa

__all__ = ["ROWS"]

NAN, INF = float("nan"), float("inf")


def _moments(kind: pa.DataType) -> pa.Array:
    instants = [
        dt.datetime(2020, 1, 1, 12),
        dt.datetime(1999, 12, 31, 23, 59, 59),
        None,
        dt.datetime(2020, 2, 29),
        dt.datetime(1970, 1, 1),
        dt.datetime(1965, 7, 4, 6, 30, 15),
        dt.datetime(2024, 11, 3, 1, 30),
        dt.datetime(2020, 1, 1, 12),
    ]
    return pa.array(instants, pa.timestamp("us")).cast(kind, safe=False)


def _fine(kind: pa.DataType, scale: int) -> pa.Array:
    """Moments with fractions of the second, in a unit of ``scale`` to the second."""
    seconds = [1_577_880_000.125, -0.5, None, 0.0, 1.999, 951_782_400.5, 1_577_880_000.0, -1.25]
    return pa.array([None if s is None else round(s * scale) for s in seconds], pa.int64()).cast(
        kind
    )


def _times(kind: pa.DataType, scale: int) -> pa.Array:
    seconds = [0, 43_200, None, 86_399, 1, 3_600, 43_201, 60]
    counts = [None if s is None else s * scale for s in seconds]
    return pa.array(counts, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)


_INTEGERS = [1, 2, None, -7, 5, 0, 100, 2]
_NATURALS = [1, 2, None, 7, 5, 0, 100, 2]

ROWS = pa.table(
    {
        "n": pa.array(range(8)),
        "i": pa.array([1, 2, None, -7, 5, 0, (1 << 63) - 1, -(1 << 63)]),
        "i8": pa.array([1, 2, None, -7, 5, 0, 127, -128], pa.int8()),
        "i16": pa.array(_INTEGERS, pa.int16()),
        "i32": pa.array(_INTEGERS, pa.int32()),
        "k": pa.array(_INTEGERS, pa.int64()),
        "u8": pa.array([1, 2, None, 7, 5, 0, 255, 2], pa.uint8()),
        "u16": pa.array(_NATURALS, pa.uint16()),
        "u32": pa.array(_NATURALS, pa.uint32()),
        "u64": pa.array([1, 2, None, 7, 5, 0, (1 << 64) - 1, 1 << 63], pa.uint64()),
        "f": pa.array([1.0, NAN, None, -0.0, INF, -INF, 0.0, 2.5]),
        "g": pa.array([1.0, 2.0, None, -7.5, 0.1, 0.0, 1e300, -2.5]),
        "f32": pa.array([0.1, NAN, None, -0.0, 5, -INF, 0.0, 2.5], pa.float32()),
        "f16": pa.array(
            [None if x is None else np.float16(x) for x in (0.5, NAN, None, -0.0, 5, -INF, 0, 2.5)],
            pa.float16(),
        ),
        "s": pa.array(["a", "B%", None, "a_b", "", "Äpfel", "a\\b", "  x 12 "]),
        "w": pa.array(["12", "-3", None, "1.5", "x", "", "2020-01-01", "true"]),
        "ls": pa.array(["a", "B", None, "ab", "", "日本", "a", "z"], pa.large_string()),
        "b": pa.array([True, False, None, True, False, None, True, False]),
        "c": pa.array([True, True, True, False, False, False, None, None]),
        "bin": pa.array([b"\xab", b"", None, b"a", b"b", b"ab", b"\x00", b"\xff\xff"]),
        "lbin": pa.array([b"\xab", b"", None, b"a", b"b", b"ab", b"", b"z"], pa.large_binary()),
        "fsb": pa.array(
            [b"ab", b"\x00\x00", None, b"zz", b"ab", b"cd", b"ef", b"gh"], pa.binary(2)
        ),
        "d": _moments(pa.date32()),
        "d64": _moments(pa.date64()),
        "ts": _moments(pa.timestamp("us")),
        "ts_s": _fine(pa.timestamp("s"), 1),
        "ts_ms": _fine(pa.timestamp("ms"), 1000),
        "ts_ns": _fine(pa.timestamp("ns"), 10**9),
        "tz": _moments(pa.timestamp("us", "UTC")),
        "ny": _moments(pa.timestamp("us", "America/New_York")),
        "tm_s": _times(pa.time32("s"), 1),
        "tm_ms": _times(pa.time32("ms"), 1000),
        "tm": _times(pa.time64("us"), 10**6),
        "tm_ns": _times(pa.time64("ns"), 10**9),
        "dur": pa.array([0, 1, None, -60, 3600, 86_400, 5, 1], pa.int64()).cast(pa.duration("s")),
        "dur_us": pa.array([0, 10**6, None, -1, 1, 2, 3, 4], pa.int64()).cast(pa.duration("us")),
        "dec": pa.array(
            [
                None if x is None else Decimal(x)
                for x in ("1.10", "2.50", None, "-3", "0", "0.01", "99999999.99", "-0.5")
            ],
            pa.decimal128(10, 2),
        ),
        "big": pa.array(
            [
                None if x is None else Decimal(x)
                for x in ("1", "2", None, "-3", "0", "9" * 38, "-" + "9" * 38, "5")
            ],
            pa.decimal128(38, 0),
        ),
        "dec256": pa.array(
            [None if x is None else Decimal(x) for x in ("1", "2", None, "-3", "0", "7", "8", "5")],
            pa.decimal256(50, 3),
        ),
        "l": pa.array([[1, 2], [], None, [3, None], [1], [2, 2, 2], [0], [-1, 5]]),
        "lt": pa.array([["a", "b"], [], None, ["c", None], ["a"], [""], ["B"], ["a_b", "b"]]),
        "fsl": pa.array(
            [[1, 2], [0, 0], None, [3, 4], [1, 1], [2, 2], [0.5, 1], [-1, 5]],
            pa.list_(pa.float32(), 2),
        ),
        "st": pa.array(
            [
                {"x": 1, "Y": "a", "in": {"deep": "x", "v": 1.5}},
                {"x": 2, "Y": "b", "in": None},
                None,
                {"x": None, "Y": None, "in": {"deep": None, "v": NAN}},
                {"x": 3, "Y": "", "in": {"deep": "y", "v": 0.0}},
                {"x": 4, "Y": "B", "in": {"deep": "x", "v": -1.0}},
                {"x": 1, "Y": "a", "in": {"deep": "z", "v": 2.0}},
                {"x": -1, "Y": "Z", "in": {"deep": "x", "v": 1.5}},
            ]
        ),
        "dict": pa.array(["a", "b", None, "a", "c", "B", "", "a"]).dictionary_encode(),
        "Mixed Case": pa.array([1, 2, 3, None, 5, 6, 7, 8]),
        "Upper": pa.array([1, 2, 3, None, 5, 6, 7, 8]),
        "größe": pa.array([1, 2, 3, None, 5, 6, 7, 8]),
        "日本": pa.array(["a", "b", None, "c", "d", "e", "f", "g"]),
        "select": pa.array([1, 2, 3, None, 5, 6, 7, 8]),
        "order by": pa.array([1, 2, 3, None, 5, 6, 7, 8]),
        "a-b": pa.array([1, 2, 3, None, 5, 6, 7, 8]),
        "1st": pa.array([1, 2, 3, None, 5, 6, 7, 8]),
        "date": pa.array([1, 2, 3, None, 5, 6, 7, 8]),
        "none": pa.nulls(8, pa.int64()),
    }
)
