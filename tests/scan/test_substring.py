"""Texts that hold another one are found as Arrow finds them."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancekit._scan.expressions.kernels.text import contains

SHORT = st.text("abé", max_size=6)


@given(
    texts=st.lists(st.none() | SHORT, max_size=30),
    wanted=SHORT,
    kind=st.sampled_from([pa.string(), pa.large_string()]),
    cut=st.integers(0, 5),
    rare=st.booleans(),
)
def test_as_arrow_finds_them(texts, wanted, kind, cut, rare) -> None:
    # among many others, few places are looked at one by one
    array = pa.array([*texts, *(["x" * 50] * 40 if rare else [])], kind).slice(cut)
    assert contains(array, wanted).equals(pc.match_substring(array, wanted))


@pytest.mark.parametrize("wanted", ["seven letters", "n", "letters!", "e" * 10, "ö"])
def test_long_and_short(wanted: str) -> None:
    array = pa.array(["seven letters, or more", None, "z" * 2000, "seven l", "etters", "letters!"])
    assert contains(array, wanted).equals(pc.match_substring(array, wanted))
