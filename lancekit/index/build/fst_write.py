"""Maps of byte strings to numbers, in the form of the crate ``fst``.

See docs/format/indices.md, 14.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lancekit.index.build.crc32c import crc32c
from lancekit.index.build.fst_nodes import FstNodes, fst_nodes
from lancekit.index.build.word_order import Places, Words
from lancekit.index.inverted.fst import COMMON, HEAD, MANY, VERSION

__all__ = ["fst_bytes"]

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

#: forms of nodes of one step: to the node just before, which adds nothing, and others
_NEXT, _ONE, _FINAL = 0xC0, 0x80, 0x40
#: numbers of steps that a node's first byte has room for
_COUNTED = 63
_TABLE, _NO_STEP = 256, 255
#: what is added to a rotated checksum
_MASK = 0xA282EAD8

_COMMON_CODES = np.zeros(256, np.uint8)
_COMMON_CODES[np.frombuffer(COMMON, np.uint8)] = np.arange(1, len(COMMON) + 1)


def fst_bytes(data: Bytes, offsets: Places, numbers: Words) -> bytes:
    """Return a map.

    Parameters
    ----------
    data, offsets
        The keys, ascending, each once: their bytes, where each begins, and where the last ends.
    numbers
        One for each.
    """
    nodes = fst_nodes(data, offsets, numbers)
    body, root = _body(nodes) if len(nodes.is_final) else (b"", 0)
    found = struct.pack("<QQ", VERSION, 0) + body + struct.pack("<QQ", len(numbers), root)
    checksum = crc32c(found)
    masked = ((checksum >> 15 | checksum << 17) + _MASK) & 0xFFFFFFFF
    return found + struct.pack("<I", masked)


@dataclass(frozen=True, eq=False, slots=True)
class _Layout:
    """Where nodes are.

    Attributes
    ----------
    counts, owners, places
        How many steps each node has; the node of each step, and how many it has before.
    is_one, is_next
        Whether a node is of the forms of one step, and of the shorter of them.
    wide, out
        How many bytes the deltas and the outputs of a node have.
    starts, ends
        Where each begins, and where it ends.
    deltas
        How far before its node's beginning each step leads; 0 if to the empty node.
    """

    counts: Places
    owners: Places
    places: Places
    is_one: Flags
    is_next: Flags
    wide: Places
    out: Places
    starts: Places
    ends: Places
    deltas: Words


def _layout(nodes: FstNodes) -> _Layout:
    counts = np.diff(nodes.starts)
    owners = np.repeat(np.arange(len(counts)), counts)
    places = np.arange(len(owners)) - nodes.starts[owners]
    is_one = (counts == 1) & ~nodes.is_final
    steps = nodes.starts[:-1][is_one]
    is_next = np.zeros(len(counts), bool)
    is_next[is_one] = (nodes.outputs[steps] == 0) & (
        nodes.targets[steps] == np.flatnonzero(is_one) - 1
    )
    is_next &= np.arange(len(counts)) > 0
    most = nodes.finals.copy()
    np.maximum.at(most, owners, nodes.outputs)
    out = np.where(most > 0, _bytes_of(most), 0)
    named = np.zeros(len(counts), np.int64)
    named[is_one] = _COMMON_CODES[nodes.inputs[steps]] == 0
    rest = np.where(is_one, 1 + named, 2 + counts + _has_count(counts))
    rest += (counts > MANY) * _TABLE + (is_one & ~is_next)
    rest += out * (counts + nodes.is_final)
    wide = ((counts > 0) & ~is_next).astype(np.int64)
    while True:
        # an address takes more bytes the more bytes others take: these only grow
        ends = HEAD + np.cumsum(rest + wide * counts)
        starts = np.append(HEAD, ends[:-1])
        deltas = np.where(nodes.targets < 0, 0, starts[owners] - ends[nodes.targets] + 1)
        needed = wide.copy()
        np.maximum.at(needed, owners, np.where(is_next[owners], 0, _bytes_of(deltas)))
        if np.array_equal(needed, wide):
            break
        wide = needed
    return _Layout(
        counts, owners, places, is_one, is_next, wide, out, starts, ends, deltas.astype(np.uint64)
    )


def _body(nodes: FstNodes) -> tuple[bytes, int]:
    """Return the bytes of all nodes, and the address of the last."""
    found = _layout(nodes)
    data = np.zeros(int(found.ends[-1]) - HEAD, np.uint8)
    counts, owners, is_one = found.counts, found.owners, found.is_one
    starts, lasts = found.starts - HEAD, found.ends - HEAD - 1
    back = counts[owners] - 1 - found.places
    outputs = starts + np.where(nodes.is_final, found.out, 0)
    deltas = outputs + found.out * counts
    inputs = deltas + found.wide * counts
    final = np.flatnonzero(nodes.is_final)
    _put(data, starts[final], nodes.finals[final], found.out[final])
    out, wide = found.out[owners], found.wide[owners]
    _put(data, outputs[owners] + back * out, nodes.outputs, out)
    _put(data, deltas[owners] + back * wide, found.deltas, wide)
    # the forms of several steps
    several = np.flatnonzero(~is_one[owners])
    data[inputs[owners[several]] + back[several]] = nodes.inputs[several]
    tables = np.flatnonzero(counts > MANY)
    data[((inputs + counts)[tables, np.newaxis] + np.arange(_TABLE)).ravel()] = _NO_STEP
    listed = np.flatnonzero(counts[owners] > MANY)
    data[(inputs + counts)[owners[listed]] + nodes.inputs[listed]] = found.places[listed]
    many = np.flatnonzero(~is_one)
    sizes = found.wide << 4 | found.out
    data[(lasts - 1 - _has_count(counts))[many]] = sizes[many]
    counted = many[_has_count(counts[many])]
    data[lasts[counted] - 1] = np.where(counts[counted] == _TABLE, 1, counts[counted])
    data[lasts[many]] = np.where(_has_count(counts), 0, counts)[many] | (
        nodes.is_final[many] * _FINAL
    )
    # those of one
    one = np.flatnonzero(is_one)
    byte = nodes.inputs[nodes.starts[:-1][one]]
    code = _COMMON_CODES[byte]
    data[lasts[one]] = np.where(found.is_next[one], _NEXT, _ONE) | code
    named = code == 0
    data[lasts[one[named]] - 1] = byte[named]
    sized = ~found.is_next[one]
    data[(lasts[one] - 1 - named)[sized]] = sizes[one[sized]]
    return data.tobytes(), int(found.ends[-1]) - 1


def _has_count(counts: Places) -> Flags:
    """Return for which nodes of several steps their number has a byte of its own."""
    found: Flags = (counts == 0) | (counts > _COUNTED)
    return found


def _bytes_of(numbers: npt.NDArray[np.integer]) -> Places:
    """Return how many bytes numbers take: one at least."""
    words, found = numbers.astype(np.uint64), np.ones(len(numbers), np.int64)
    for size in range(1, 8):
        found += words >= np.uint64(1 << (8 * size))
    return found


def _put(data: Bytes, at: Places, numbers: Words, sizes: Places) -> None:
    """Write numbers of so many bytes, the lowest byte first."""
    for byte in range(int(sizes.max(initial=0))):
        there = np.flatnonzero(sizes > byte)
        shifted = numbers[there] >> np.uint64(8 * byte)
        data[at[there] + byte] = (shifted & np.uint64(0xFF)).astype(np.uint8)
