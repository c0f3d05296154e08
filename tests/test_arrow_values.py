"""Scalars and arrays that are made without Arrow's own way are what that makes."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lancekit import _arrow_values as arrow_values
from lancekit._arrow_values import array_of, scalar_of

VALUES = (0, -1, 255, 1 << 62, 1.5, -0.0, float("inf"), True, False, "", "aé", None, b"x")
OTHERS = (Decimal("1.50"), date(2020, 1, 2))
KINDS = (pa.int8(), pa.uint8(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_(), pa.string())
MORE = (pa.large_string(), pa.binary(), pa.decimal128(20, 2), pa.list_(pa.int8()), pa.null())


def _made(make: Any, *given: Any) -> tuple[Any, ...]:
    try:
        made = make(*given)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        return type(error), str(error)
    if isinstance(made, pa.Array):
        made.validate(full=True)
    return made.type, str(made)


@pytest.mark.parametrize("value", [*VALUES, *OTHERS], ids=repr)
def test_scalars_are_those_of_arrow(value: object) -> None:
    assert _made(scalar_of, value) == _made(pa.scalar, value)
    for kind in (*KINDS, *MORE):
        assert _made(scalar_of, value, kind) == _made(pa.scalar, value, kind)


@pytest.mark.parametrize("kind", [*KINDS, *MORE], ids=str)
def test_arrays_are_those_of_arrow(kind: pa.DataType) -> None:
    lists = ([], [1, 2], [1, 300], [-1], [1, None], [1.5], [True, False, True], ["a", "", "bé"])
    for values in (*lists, [1, True], ["a", 1], [b"a"], [1] * (arrow_values._FEW + 1)):
        assert _made(array_of, values, kind) == _made(pa.array, values, kind)


def test_half_a_character_is_no_text() -> None:
    assert _made(scalar_of, "\ud800")[0] is _made(pa.scalar, "\ud800")[0] is UnicodeEncodeError
