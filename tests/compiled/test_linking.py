"""Object files that are put into memory here, without llvmlite, where this knows how."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np
import pytest

from lancekit._compiled import linking, store
from lancekit._compiled.build import all_kernels, compiled
from lancekit._compiled.kernel import Kernel, kernel

quick = pytest.mark.skipif(not linking.links_quickly(), reason="llvmlite links for this system")


@kernel("i8 =i8 =f8", saves=1)
def spread(values, out, halves):
    """Needs the C library, constants of two kinds and a table of jumps, if it is optimised."""
    for at in range(out.size):
        out[np.uint64(at)] = 0
    for at in range(values.size):
        value = values[np.uint64(at)]
        out[np.uint64(at)] = value * 7 if value % 3 else -value
        halves[np.uint64(at)] = value * 0.5 + 0.125
    return values.size


def _call(declared: Kernel, code: linking.Code) -> list[list[float]]:
    (variant,) = declared.variants
    call = ctypes.CFUNCTYPE(ctypes.c_int64, *variant.types)(code.address(variant.symbol))
    values = np.arange(1000)
    out, halves = np.ones(1100, np.int64), np.zeros(1000)
    flat = [part for a in (values, out, halves) for part in (a.ctypes.data, a.size)]
    assert call(*flat) == 1000
    return [out.tolist(), halves.tolist()]


@pytest.fixture(scope="module")
def content() -> bytes:
    pytest.importorskip("numba")
    return compiled([spread])


@quick
def test_what_is_placed_here_does_what_llvmlite_links(
    content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "llvmlite", None)  # as if it were not there
        placed = linking.linked(content)
    monkeypatch.setattr(linking, "links_quickly", lambda: False)
    by_llvmlite = linking.linked(content)
    assert _call(spread, placed) == _call(spread, by_llvmlite)
    assert _call(spread, placed)[0][:4] == [0, 7, 14, -3]
    assert _call(spread, placed)[1][3] == 1.625


@quick
def test_all_kernels_are_placed_here(kernels: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    code = store.load()
    assert code is not None
    addresses = {code.address(v.symbol) for one in all_kernels() for v in one.variants}
    assert len(addresses) == sum(1 for one in all_kernels() for _ in one.variants)


@quick
def test_code_cannot_be_written_once_it_runs(content: bytes) -> None:
    (variant,) = spread.variants
    code = linking.linked(content)
    at = code.address(variant.symbol)
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, rights, *_ = line.split()
        begin, end = (int(border, 16) for border in span.split("-"))
        if begin <= at < end:
            assert rights == "r-xp"
            return
    raise AssertionError("the code is nowhere")


@quick
@pytest.mark.parametrize(
    ("at", "value"),
    [(0, b"\x7fMACH"), (18, b"\xb7\0")],
    ids=["another format", "another processor"],
)
def test_what_is_not_known_is_left_to_llvmlite(
    content: bytes, at: int, value: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    with pytest.raises(ImportError, match="llvmlite"):
        linking.linked(content[:at] + value + content[at + len(value) :])


@quick
def test_a_symbol_of_nowhere_is_left_to_llvmlite(
    content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    assert b"\0memset\0" in content
    with pytest.raises(ImportError, match="llvmlite"):
        linking.linked(content.replace(b"\0memset\0", b"\0memsat\0"))
