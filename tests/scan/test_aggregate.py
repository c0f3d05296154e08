import datetime as dt
import math
import random
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lancekit._scan.expressions.condition import Tally, parse_condition
from lancekit.errors import PredicateError

NAN = float("nan")


def value(expression: str, column: pa.Array, parts: int = 3):
    """Compute an aggregate of a column called x, which comes in parts."""
    table = pa.table({"x": column})
    (aggregate,) = parse_condition(f"{expression} IS NOT NULL", table.schema).aggregates
    tally = Tally(aggregate)
    step = max(-(-len(column) // parts), 1)
    for start in range(0, len(column), step):
        tally.add(table.slice(start, step))
    found = tally.value()
    assert found.type == aggregate.type
    return found.as_py()


INTEGERS = [3, None, -7, 3, 12, None]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("count(*)", 6),
        ("count(x)", 4),
        ("count(1)", 6),
        ("count(DISTINCT x)", 3),
        ("count(DISTINCT x, x % 2)", 3),
        ("count(DISTINCT x / 100)", 1),
        ("sum(x)", 11),
        ("min(x)", -7),
        ("max(x)", 12),
        ("avg(x)", 2.75),
        ("sum(x) FILTER (WHERE x > 5)", 12),
        ("count(*) FILTER (WHERE x > 3)", 1),
        ("max(x) FILTER (WHERE x > 100)", None),
        ("sum(x) FILTER (WHERE x > 100)", None),
        ("avg(x) FILTER (WHERE x > 100)", None),
        ("count(DISTINCT x) FILTER (WHERE x > 100)", 0),
    ],
)
@pytest.mark.parametrize("parts", [1, 2, 6])
def test_of_integers(expression: str, expected: object, parts: int) -> None:
    for kind in (pa.int8(), pa.int64()):
        assert value(expression, pa.array(INTEGERS, kind), parts) == expected


def test_of_nothing() -> None:
    empty = pa.array([], pa.int64())
    assert value("count(*)", empty) == value("count(DISTINCT x)", empty) == 0
    for name in ("sum", "min", "max", "avg"):
        assert value(f"{name}(x)", empty) is None
        assert value(f"{name}(x)", pa.nulls(4, pa.int64())) is None


def test_sums_are_exact_or_refused() -> None:
    most = 2**63 - 1
    assert value("sum(x)", pa.array([most, -most, most])) == most
    assert value("sum(x)", pa.array([-most, 5, most, -6])) == -1
    with pytest.raises(PredicateError, match=r"sum\(x\) is 18446744073709551614, which does not"):
        value("sum(x)", pa.array([most, most]))
    assert value("sum(x)", pa.array([2**64 - 2, 1], pa.uint64())) == 2**64 - 1
    nines = Decimal("9" * 37 + ".9")
    money = pa.array([nines, Decimal("-0.1"), None, Decimal("0.1")], pa.decimal128(38, 1))
    assert value("sum(x)", money) == nines
    with pytest.raises(PredicateError, match="does not fit decimal128"):
        value("sum(x)", pa.array([nines, nines], pa.decimal128(38, 1)))


def test_of_floats() -> None:
    floats = pa.array([1.5, NAN, None, -0.0, 0.0, NAN])
    assert value("count(DISTINCT x)", floats) == 3
    assert value("min(x)", floats) == 0.0
    assert math.isnan(value("max(x)", floats))
    assert math.isnan(value("min(x)", pa.array([NAN, None, NAN])))
    assert math.isnan(value("sum(x)", floats))
    assert value("max(x)", pa.array([0.5, -1], pa.float16())) == 0.5


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["b", "a", None, "c"]),
        pa.array([b"b", b"a", None, b"c"]),
        pa.array([True, False, None]),
        pa.array([dt.date(2020, 1, 1), None, dt.date(1999, 1, 1)]),
        pa.array([10**18 + 1, 5, None], pa.timestamp("ns", "UTC")),
        pa.array([Decimal("1.5"), Decimal("-2.5"), None]),
        pa.array([b"ab", b"aa", None], pa.binary(2)),
        pa.array([5, 3, None], pa.duration("ns")),
        pa.array(["b", "a", None, "b"]).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_ends_and_numbers_of_other_types(column: pa.Array) -> None:
    table = pa.table({"x": column})
    condition = parse_condition("min(x) = max(x) OR count(DISTINCT x) > 1", table.schema)
    tallies = [Tally(aggregate) for aggregate in condition.aggregates]
    for tally in tallies:
        for start in range(len(column)):
            tally.add(table.slice(start, 1))
    least, most, number = (tally.value() for tally in tallies)
    plain = pc.drop_null(column.cast(least.type))
    order = pc.sort_indices(plain)
    assert least.equals(plain[order[0].as_py()])
    assert most.equals(plain[order[-1].as_py()])
    assert number.as_py() == len(pc.unique(plain))
    assert condition.met_by([least, most, number])


def test_random_numbers_in_any_parts() -> None:
    chance = random.Random(5)
    for _ in range(50):
        numbers = [
            chance.choice([None, chance.randrange(-9, 9)]) for _ in range(chance.randrange(1, 60))
        ]
        column, parts = pa.array(numbers, pa.int64()), chance.randrange(1, 9)
        known = [number for number in numbers if number is not None]
        assert value("count(DISTINCT x)", column, parts) == len(set(known))
        assert value("sum(x)", column, parts) == (sum(known) if known else None)
        assert value("max(x)", column, parts) == max(known, default=None)
        assert value("min(x)", column, parts) == min(known, default=None)
