"""What kernels are declared as, and what they are handed."""

from __future__ import annotations

import numpy as np
import pytest

from lancekit._compiled.build import all_kernels, compiled
from lancekit._compiled.kernel import kernel
from lancekit._compiled.store import BuildError
from lancekit._file.kernels.fsst_decode import most_bytes


def test_each_is_for_types_of_its_own() -> None:
    symbols = [variant.symbol for one in all_kernels() for variant in one.variants]
    assert len(symbols) == len(set(symbols)) > 2


def test_arrays_are_what_was_declared(kernels) -> None:
    call = most_bytes.ready(0)
    assert call is not None
    lengths = np.arange(256, dtype=np.uint8)
    codes = np.array([1, 2, 3, 4], np.uint8)
    assert call(codes, lengths) == 10
    assert call(codes[::2], lengths) == 4  # copied, so that it is whole
    codes.flags.writeable = False
    assert call(codes, lengths) == 10
    with pytest.raises(TypeError, match="most_bytes takes uint8, not int64"):
        call(codes.astype(np.int64), lengths)
    with pytest.raises(ValueError, match="zip"):
        call(codes)


def test_what_is_written_is_not_copied(kernels) -> None:
    from lancekit._file.kernels.fsst_decode import decode_codes

    call = decode_codes.ready(0)
    assert call is not None
    table, out = np.zeros(2048, np.uint8), np.zeros(32, np.uint8)
    offsets = np.array([0, 0], np.int32)
    with pytest.raises(TypeError, match="writes to whole arrays"):
        call(table, offsets, table, table, offsets, out[::2], offsets)


def test_no_kernel_needs_what_is_not_there_when_it_is_loaded() -> None:
    pytest.importorskip("numba")

    @kernel("i8", saves=1)
    def grows(values):
        return len(list(values))

    with pytest.raises(BuildError, match=r"kernels need .*NRT"):
        compiled([grows])
