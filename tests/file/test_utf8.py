"""The kernel that looks at text finds what Python finds, and Arrow without it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lancekit._file.kernels.values import are_characters, is_text
from lancekit.options import options

#: bytes of which many follow each other rightly, or nearly
ODD = [0x41, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED]
ODD += [0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF]
TEXT = st.text(st.sampled_from("aß€\U0001f600\ud7ff\ue000\U00010000\U0010ffff\u0800\x7f\x80"))


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _found(values: list[bytes], kind: pa.DataType, shift: int) -> tuple[bool, Any, Any]:
    """Return whether values are text, as a slice of more, and what the kernel is given."""
    dtype = np.int64 if pa.types.is_large_string(kind) else np.int32
    offsets = np.cumsum([shift, *map(len, values)]).astype(dtype)
    data = np.frombuffer(b"\xff" * shift + b"".join(values) + b"\x80", np.uint8)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    array = pa.Array.from_buffers(kind, len(values), buffers)
    return is_text(array, offsets, data), offsets, data


@given(
    values=st.lists(
        st.one_of(
            TEXT.map(str.encode),
            st.lists(st.sampled_from(ODD), max_size=6).map(bytes),
        ),
        min_size=1,
        max_size=12,
    ),
    large=st.booleans(),
    shift=st.integers(0, 5),
)
@example([b"\xf0\x9f\x98", b"\x80"], False, 0)
@example([b"", b"\xc3"], True, 3)
def test_text_is_what_python_decodes(
    kernels: Any, values: list[bytes], large: bool, shift: int
) -> None:
    kind = pa.large_string() if large else pa.string()
    found, offsets, data = _found(values, kind, shift)
    assert found == all(map(_is_utf8, values))
    with options(kernels=False):
        assert _found(values, kind, shift)[0] == found
    call = are_characters.ready(1)
    assert call is not None
    assert (call(data, offsets) == 0) == found


@pytest.mark.parametrize("offsets", [[0, 9], [-1, 3], [3, 1], [0, 7, 3], [2, 0, 3]])
def test_the_kernel_stays_inside(kernels: Any, offsets: list[int]) -> None:
    call = are_characters.ready(1)
    assert call is not None
    assert call(np.frombuffer(b"abcde", np.uint8), np.array(offsets, np.int64)) == -1


def test_every_two_and_three_bytes(kernels: Any) -> None:
    call = are_characters.ready(1)
    assert call is not None
    for first in ODD:
        for second in ODD:
            for rest in (b"", *(bytes([third]) for third in ODD), b"\x80\x80", b"\xbfa"):
                value = b"a" + bytes([first, second]) + rest
                data = np.frombuffer(value, np.uint8)
                for start in (0, 1):
                    borders = np.array([start, len(value)], np.int32)
                    assert (call(data, borders) == 0) == _is_utf8(value[start:]), value
