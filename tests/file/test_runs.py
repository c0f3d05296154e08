"""The kernel that writes runs out does as NumPy does, and refuses what NumPy refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancekit._file.encodings import rle
from lancekit._file.encodings.buffers import ChunkBuffers
from lancekit._file.encodings.rle import repeat, repeated
from lancekit._file.kernels.faults import Damaged
from lancekit._file.kernels.values import Fixed
from lancekit.options import options


def _decoded(encoding: Any, buffers: Any, counts: Any) -> bytes | str:
    try:
        found = rle.decode_chunks(encoding, buffers, counts, None)
    except Damaged as error:
        return str(error)
    assert isinstance(found, Fixed)
    return found.data.tobytes()


@given(data=st.data())
def test_the_kernel_repeats_the_same(kernels: Any, data: Any) -> None:
    """Runs of any length, some that reach beyond their chunk, with or without damage."""
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    dtype = data.draw(st.sampled_from(["u1", "u2", "u4", "u8"]))
    longest = data.draw(st.sampled_from([1, 3, 20, 300]))
    runs = data.draw(st.integers(1, 3000 // longest))
    values = np.repeat(rng.integers(0, 99, runs), rng.integers(1, longest + 1, runs)).astype(dtype)
    stored = rle.encode(values, rle.starts_of_runs(values), data.draw(st.sampled_from([64, 1024])))
    buffers, damage = [], data.draw(st.sampled_from([0, 0, 1, 2, 255]))
    for (part,) in stored.buffers:
        held = np.frombuffer(part.data, np.uint8).copy()
        ends = np.cumsum(part.lengths)
        buffers.append(ChunkBuffers(held, ends - part.lengths, part.lengths))
    at = data.draw(st.integers(0, buffers[1].data.size - 1))
    buffers[1].data[at] = (int(buffers[1].data[at]) + damage) % 256
    counts = stored.counts.copy()
    counts[data.draw(st.integers(0, len(counts) - 1))] += data.draw(st.sampled_from([0, 0, 1, -1]))
    found = _decoded(stored.encoding, buffers, counts)
    with options(kernels=False):
        assert _decoded(stored.encoding, buffers, counts) == found


def test_the_kernel_is_used_where_runs_are_short(kernels: Any) -> None:
    values, lengths = np.arange(4, dtype=np.uint32), np.array([1, 2, 0, 9], np.uint8)
    one = np.array([4])
    found = repeated(values, lengths, one, np.array([12]), clip=False)
    assert found is not None
    assert found.tolist() == [0, 1, 1, *[3] * 9]
    clipped = repeated(values, lengths, one, np.array([5]), clip=True)
    assert clipped is not None
    assert clipped.tolist() == [0, 1, 1, 3, 3]
    assert repeated(values, lengths, one, np.array([5]), clip=False) is None
    assert repeated(values, lengths, one, np.array([13]), clip=True) is None
    many = np.full(4, 255, np.uint8)
    assert repeated(values, many, one, np.array([1020]), clip=False) is None  # NumPy is as fast
    with options(kernels=False):
        assert repeated(values, lengths, one, np.array([12]), clip=False) is None


@pytest.mark.parametrize(
    ("runs", "counts", "room"),
    [([5], [12], 20), ([4, 1], [12, 0], 20), ([-1], [0], 20), ([4], [-1], 20), ([4], [12], 19)],
)
def test_the_kernel_stays_inside(
    kernels: Any, runs: list[int], counts: list[int], room: int
) -> None:
    values, lengths = np.arange(4, dtype=np.uint64), np.array([1, 2, 0, 9], np.uint8)
    call = repeat.ready(1)
    assert call is not None
    out = np.zeros(room, np.uint64)
    assert call(values, lengths, np.array(runs), np.array(counts), 0, out) == -1
