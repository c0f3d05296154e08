"""Checks of arguments cost nothing that grows with what is passed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._checked import checked
from lancekit.errors import InvalidTypeError


class Large(bytes):
    """Bytes whose text is never asked for."""

    def __repr__(self) -> str:
        raise AssertionError("the text of a value that is right was made")


def test_what_is_right_is_not_written_out() -> None:
    assert lk.Blob.from_bytes(Large(b"ab")).data == b"ab"

    @checked
    def take(rows: list[int], text: str = "") -> int:
        return len(rows) + len(text)

    class Rows(list[int]):
        __repr__ = Large.__repr__  # type: ignore[assignment]

    assert take(Rows([1, 2]), "a") == 3
    with pytest.raises(InvalidTypeError, match=r"rows must be .* got 'x'"):
        take("x")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [2, 1.5, "yes", np.array([1, 0]), pa.array([True])])
@pytest.mark.parametrize("name", ["strict_batch_size", "use_scalar_index"])
def test_a_flag_is_a_truth_value(name: str, value: Any) -> None:
    ds = lk.write_dataset({"x": [1]}, "memory://flags", mode="overwrite")
    with pytest.raises(InvalidTypeError, match=f"{name} must be"):
        ds.scanner(**{name: value})
