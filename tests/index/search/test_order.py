"""Ranks are ordered as values are in an index."""

import math
from decimal import Decimal

import pyarrow as pa
import pytest

from lancekit._index.search.index_query import INFINITIES, float_ranks, ranks_of

ASCENDING = {
    "bool": pa.array([False, True]),
    "int8": pa.array([-128, 0, 127], pa.int8()),
    "int64": pa.array([-(1 << 63), -1, 0, (1 << 63) - 1], pa.int64()),
    "uint64": pa.array([0, 1 << 63, (1 << 64) - 1], pa.uint64()),
    "float": pa.array([-math.nan, -math.inf, -1.5, -0.0, 0.0, 1e-40, math.inf, math.nan]),
    "float32": pa.array([-math.nan, -math.inf, -0.0, 0.0, 1.5, math.nan], pa.float32()),
    "float16": pa.array([-math.inf, -0.0, 0.0, 1.5, math.nan], pa.float16()),
    "date32": pa.array([-1, 0, 5], pa.int32()).view(pa.date32()),
    "timestamp": pa.array([-1, 0, 1 << 60], pa.timestamp("ns", "UTC")),
    "time32": pa.array([0, 5], pa.time32("s")),
    "duration": pa.array([-5, 5], pa.duration("us")),
    "string": pa.array(["", "Z", "a", "ab", "é", "日"]),
    "large_string": pa.array(["", "a"], pa.large_string()),
    "binary": pa.array([b"", b"\x00", b"\x7f", b"\xff"]),
    "fixed": pa.array([b"aa", b"ab"], pa.binary(2)),
    "decimal": pa.array([Decimal("-1.50"), Decimal("0.00"), Decimal("0.01"), Decimal("2.00")]),
    "decimal256": pa.array([Decimal("-" + "9" * 70), Decimal("1" + "0" * 69)], pa.decimal256(76)),
}


@pytest.mark.parametrize("name", ASCENDING)
def test_ranks_ascend_as_values_do(name: str) -> None:
    values = ASCENDING[name]
    ranks = ranks_of(values)
    assert ranks is not None
    assert len(set(ranks.tolist())) == len(values)
    assert sorted(ranks.tolist()) == ranks.tolist()
    with_null = ranks_of(pa.concat_arrays([pa.nulls(1, values.type), values]))
    assert with_null is not None
    assert with_null[1:].tolist() == ranks.tolist()


def test_nans_lie_outside_of_the_infinities() -> None:
    below, above = float_ranks([-math.nan, math.nan]).tolist()
    assert below < INFINITIES[0] < INFINITIES[1] < above
    assert ranks_of(pa.array([0.1], pa.float32())) == float_ranks([0.10000000149011612])


def test_lists_have_no_order() -> None:
    assert ranks_of(pa.array([[1]])) is None
