"""Conditions of merges: which columns of both sides they read, and of which pairs they hold."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from lancekit._pipeline.merge_condition import PairCondition
from lancekit.errors import PredicateError

TARGET = pa.schema(
    {"id": pa.int64(), "v": pa.int64(), "arg": pa.int64(), "s": pa.struct({"v": pa.int64()})}
)
SOURCE = pa.schema({"id": pa.int64(), "v": pa.int64(), "r": pa.string()})


@pytest.mark.parametrize(
    ("text", "source", "target"),
    [
        ("source.v > target.v", ["v"], ["v"]),
        ("target.s.v = 1", [], ["s"]),  # and not v
        ("`target`.`ARG` IS NULL OR 'source.r' = 'v'", [], ["arg"]),
        ("source.r LIKE 'target.v%'", ["r"], []),
        ("source IS NULL", ["id", "v", "r"], []),
        ("1 < 2", [], []),
    ],
)
def test_only_the_columns_that_are_read(text: str, source: list[str], target: list[str]) -> None:
    found = pickle.loads(pickle.dumps(PairCondition.of(text, SOURCE, TARGET)))
    assert ([*found.source], [*found.target]) == (source, target)


def test_the_pairs_for_which_it_holds() -> None:
    source = pa.table({"id": [1, 2, 3], "v": [5, None, 9], "r": ["a", "b", "c"]}, SOURCE)
    target = pa.table({"v": pa.array([4, 4, 10])})
    newer = PairCondition.of("source.v > target.v", SOURCE, TARGET)
    assert newer.holds(source, target).tolist() == [0]
    assert PairCondition.of("source.r <> 'b'", SOURCE, TARGET).holds(source, None).tolist() == [
        0,
        2,
    ]
    assert PairCondition.of("1 < 2", SOURCE, TARGET).holds(source, None).tolist() == [0, 1, 2]


@pytest.mark.parametrize("text", ["v > 1", "source.arg > 1", "target.v", "target.nope = 1"])
def test_what_is_no_condition_of_the_two_sides(text: str) -> None:
    with pytest.raises(PredicateError):
        PairCondition.of(text, SOURCE, TARGET)
