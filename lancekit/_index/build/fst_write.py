"""Writer of maps from byte strings to numbers, in the form of the crate ``fst``.

See docs/format/indices.md, 14.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lancekit._file.kernels.memory import ranges
from lancekit._index.build.sorting import Places, Words, stable_order
from lancekit._index.inverted.fst import COMMON, HEAD, MANY, VERSION

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

#: forms of nodes with one step: to the previous node without output, and others
_NEXT, _ONE, _FINAL = 0xC0, 0x80, 0x40
#: the most steps that a node's first byte can count
_COUNTED = 63
_TABLE, _NO_STEP = 256, 255
#: added to a rotated checksum
_MASK = 0xA282EAD8

_COMMON_CODES = np.zeros(256, np.uint8)
_COMMON_CODES[np.frombuffer(COMMON, np.uint8)] = np.arange(1, len(COMMON) + 1)


def fst_bytes(data: Bytes, offsets: Places, numbers: Words) -> bytes:
    """Return an encoded map.

    data, offsets: the distinct keys, ascending: their bytes, the start of each, and the end of the
        last.
    numbers: one for each.
    """
    nodes = _fst_nodes(data, offsets, numbers)
    body, root = _body(nodes) if len(nodes.is_final) else (b"", 0)
    found = struct.pack("<QQ", VERSION, 0) + body + struct.pack("<QQ", len(numbers), root)
    checksum = crc32c(found)
    masked = ((checksum >> 15 | checksum << 17) + _MASK) & 0xFFFFFFFF
    return found + struct.pack("<I", masked)


@dataclass(frozen=True, eq=False, slots=True)
class _Layout:
    """The layout of nodes in the file.

    counts: the number of steps of each node.
    owners, places: the node of each step, and the step's index in the node.
    is_one, is_next: flags of nodes with a form of one step, and with the shorter of these forms.
    wide, out: the bytes of each delta and of each output of a node.
    starts, ends: the start and the end of each node.
    deltas: the distance of each step's target before the start of its node, 0 for the empty node.
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


def _layout(nodes: _FstNodes) -> _Layout:
    """Return the layout of nodes, with as few bytes for addresses as possible."""
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
        # addresses take more bytes if other nodes do: widths only grow, until none changes
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


def _body(nodes: _FstNodes) -> tuple[bytes, int]:
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
    # nodes with several steps
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
    # nodes with one step
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
    """Return a mask of the nodes with several steps whose count has a separate byte."""
    found: Flags = (counts == 0) | (counts > _COUNTED)
    return found


def _bytes_of(numbers: npt.NDArray[np.integer]) -> Places:
    """Return the number of bytes of numbers, at least 1."""
    words, found = numbers.astype(np.uint64), np.ones(len(numbers), np.int64)
    for size in range(1, 8):
        found += words >= np.uint64(1 << (8 * size))
    return found


def _put(data: Bytes, at: Places, numbers: Words, sizes: Places) -> None:
    """Write numbers of the given sizes in bytes, the lowest byte first."""
    for byte in range(int(sizes.max(initial=0))):
        there = np.flatnonzero(sizes > byte)
        shifted = numbers[there] >> np.uint64(8 * byte)
        data[at[there] + byte] = (shifted & np.uint64(0xFF)).astype(np.uint8)


# ---- nodes of a map of byte strings to numbers: a trie whose equal parts are shared
#
# See docs/format/indices.md, 14.

#: parts with more steps to their ends are not shared
_LONGEST_SHARED = 64
#: two odd numbers that mix bits
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93))


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class _FstNodes:
    """Nodes, each after all nodes that it leads to; the root is the last.

    is_final, finals: whether a key ends at a node, and the output that is added then.
    starts: the start of each node's steps, and the end of the last.  Steps ascend by their inputs.
    inputs, targets, outputs: the byte, the target node and the output of each step.  Target -1 is
        the final node without steps.
    """

    is_final: Flags
    finals: Words
    starts: Places
    inputs: Bytes
    targets: Places
    outputs: Words


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class _Trie:
    """A trie of keys: a node for each distinct prefix, in the order of the keys.

    depths, parents, inputs: the length of the prefix, the node without its last byte, and that
        byte.  All are 0 for the root, which is the first node.
    heights, sizes: the bytes to the end of the longest key below, and the number of nodes below.
        The node itself counts.
    least: the least number of the keys with the prefix, or 0 for the root.
    ends: the node of each key.
    """

    depths: Places
    parents: Places
    inputs: Bytes
    heights: Places
    sizes: Places
    least: Words
    ends: Places


def _fst_nodes(data: Bytes, offsets: Places, numbers: Words) -> _FstNodes:
    """Return the nodes of a map; takes the parameters of `fst_bytes`."""
    trie = _trie(data, offsets, numbers)
    count = len(trie.depths)
    is_final, finals = np.zeros(count, bool), np.zeros(count, np.uint64)
    is_final[trie.ends] = True
    finals[trie.ends] = numbers - trie.least[trie.ends]
    # the children of each node, one after the other
    children = stable_order(trie.parents[1:].astype(np.uint64)) + 1
    sizes = np.bincount(trie.parents[1:], minlength=count)
    starts = np.append(0, np.cumsum(sizes))
    every = _FstNodes(
        is_final=is_final,
        finals=finals,
        starts=starts,
        inputs=trie.inputs[children],
        targets=children,
        outputs=(trie.least - trie.least[trie.parents])[children],
    )
    first = _first_equal(every, trie.heights)
    return _kept(every, first, np.arange(count) + trie.sizes - 1 - trie.depths)


def _trie(data: Bytes, offsets: Places, numbers: Words) -> _Trie:
    """Return the trie of some keys; takes the parameters of `fst_bytes`."""
    count, lengths = len(numbers), np.diff(offsets)
    shared = _shared(data, offsets)
    fresh = lengths - shared
    firsts = np.append(1, 1 + np.cumsum(fresh))
    makers = np.append(0, np.repeat(np.arange(count), fresh))
    depths = np.arange(len(makers)) - (firsts[:-1] - shared - 1)[makers] if count else makers
    depths[0] = 0
    inputs = np.append(np.uint8(0), data[(offsets[makers] + depths - 1)[1:]])
    parents = np.arange(-1, len(makers) - 1)
    parents[0] = 0
    stops = makers + 1
    stops[0] = count
    # nodes that the next key shares
    common = np.flatnonzero(depths <= np.append(shared, 0)[1:][makers])[1:] if count else makers[:0]
    by_depth = common[stable_order(depths[common].astype(np.uint64))]
    branching = np.flatnonzero(fresh > 0)
    by_shared = branching[stable_order(shared[branching].astype(np.uint64))]
    values = np.unique(shared[by_shared])
    node_ends = np.searchsorted(depths[by_depth], values, "right")
    key_ends = np.searchsorted(shared[by_shared], values, "right")
    parents[firsts[by_shared[: key_ends[0] if len(values) else 0]]] = 0
    for place in range(1, len(values)):
        # keys that share a shorter prefix with the previous key
        other = np.append(np.flatnonzero(shared < values[place]), count)
        nodes = by_depth[node_ends[place - 1] : node_ends[place]]
        stops[nodes] = other[np.searchsorted(other, makers[nodes], "right")]
        keys = by_shared[key_ends[place - 1] : key_ends[place]]
        maker = other[np.searchsorted(other, keys) - 1]
        parents[firsts[keys]] = firsts[maker] + values[place] - shared[maker] - 1
    least = np.append(numbers, np.uint64(0))[makers]
    longest = np.append(lengths, 0)[makers]
    several = np.append(0, common)
    if count:
        least[several] = _over(np.minimum, numbers, makers[several], stops[several])
        longest[several] = _over(np.maximum, lengths, makers[several], stops[several])
    least[0] = 0
    sizes = firsts[stops] - np.arange(len(makers))
    return _Trie(
        depths=depths,
        parents=parents,
        inputs=inputs,
        heights=longest - depths,
        sizes=sizes,
        least=least,
        ends=(firsts[1:] - 1)[:count],
    )


def _shared(data: Bytes, offsets: Places) -> Places:
    """Return the length of each key's common prefix with the previous key."""
    lengths = np.diff(offsets)
    shorter = np.minimum(lengths[1:], lengths[:-1])
    places = np.arange(shorter.sum()) - np.repeat(np.cumsum(shorter) - shorter, shorter)
    pairs = np.repeat(np.arange(len(shorter)), shorter)
    other = np.flatnonzero(
        data[offsets[:-2][pairs] + places] != data[offsets[1:-1][pairs] + places]
    )
    owners = pairs[other]
    is_first = np.append(True, owners[1:] != owners[:-1])[: len(owners)]
    found = np.append(0, shorter)[: len(lengths)].astype(np.int64)
    found[owners[is_first] + 1] = places[other[is_first]]
    return found


def _over(
    reduce: np.ufunc, values: npt.NDArray[np.number], starts: Places, stops: Places
) -> npt.NDArray[np.number]:
    """Return the least or the greatest of each non-empty range of values."""
    found = values[starts]
    steps = np.frexp((stops - starts).astype(np.float64))[1] - 1
    for step in range(int(steps.max(initial=0)) + 1):
        same_step = np.flatnonzero(steps == step)
        found[same_step] = reduce(values[starts[same_step]], values[stops[same_step] - (1 << step)])
        values = reduce(values[: -(1 << step) or None], values[1 << step :])
    return found


def _first_equal(nodes: _FstNodes, heights: Places) -> Places:
    """Return for each node the first node with the same suffixes and numbers."""
    marks = _marks(nodes, heights)
    order = stable_order(marks)
    ordered = marks[order]
    is_new = np.append(True, ordered[1:] != ordered[:-1])
    first = np.empty(len(order), np.int64)
    first[order] = order[is_new][np.cumsum(is_new) - 1]
    # marks are hashes: equal ones may belong to different nodes
    return first if _are_equal(nodes, first) else np.arange(len(order))


def _marks(nodes: _FstNodes, heights: Places) -> Words:
    """Return a hash of each node's suffixes and their numbers."""
    order = stable_order(heights.astype(np.uint64))
    sizes = np.diff(nodes.starts)
    steps = ranges(nodes.starts[:-1][order], sizes[order])
    step_starts = np.append(0, np.cumsum(sizes[order]))
    hashes = _mixed(nodes.outputs[steps] << np.uint64(8) ^ nodes.inputs[steps])
    targets = nodes.targets[steps]
    marks = _mixed(nodes.finals << np.uint64(1) | nodes.is_final)
    ends = np.searchsorted(heights[order], np.arange(_LONGEST_SHARED + 1), "right")
    for start, end in pairwise(ends):
        if start < end:
            part = slice(step_starts[start], step_starts[end])
            each = _mixed(hashes[part] + marks[targets[part]] * _MIX[1])
            level = order[start:end]
            marks[level] = _mixed(
                marks[level] + np.add.reduceat(each, step_starts[start:end] - part.start)
            )
    high = order[ends[-1] :]
    marks[high] = _mixed(~high.astype(np.uint64))
    return marks


def _mixed(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(32))) * _MIX[0]
    words = (words ^ (words >> np.uint64(29))) * _MIX[1]
    found: Words = words ^ (words >> np.uint64(32))
    return found


def _are_equal(nodes: _FstNodes, first: Places) -> bool:
    """Return True if each node equals its replacement."""
    ours = np.flatnonzero(first != np.arange(len(first)))
    theirs = first[ours]
    sizes = np.diff(nodes.starts)
    if not (
        np.array_equal(nodes.is_final[ours], nodes.is_final[theirs])
        and np.array_equal(nodes.finals[ours], nodes.finals[theirs])
        and np.array_equal(sizes[ours], sizes[theirs])
    ):
        return False
    mine = ranges(nodes.starts[:-1][ours], sizes[ours])
    other = ranges(nodes.starts[:-1][theirs], sizes[ours])
    targets = first[nodes.targets]
    return all(
        np.array_equal(column[mine], column[other])
        for column in (nodes.inputs, nodes.outputs, targets)
    )


def _kept(nodes: _FstNodes, first: Places, ranks: Places) -> _FstNodes:
    """Return the nodes that are not replaced, in the order of their ranks."""
    count, sizes = len(first), np.diff(nodes.starts)
    kept = (first == np.arange(count)) & ~(nodes.is_final & (nodes.finals == 0) & (sizes == 0))
    by_rank = np.empty(count, np.int64)
    by_rank[ranks] = np.arange(count)
    order = by_rank[kept[by_rank]]
    places = np.full(count, -1)
    places[order] = np.arange(len(order))
    steps = ranges(nodes.starts[:-1][order], sizes[order])
    return _FstNodes(
        is_final=nodes.is_final[order],
        finals=nodes.finals[order],
        starts=np.append(0, np.cumsum(sizes[order])),
        inputs=nodes.inputs[steps],
        targets=places[first[nodes.targets[steps]]],
        outputs=nodes.outputs[steps],
    )


# ---- checksums of Castagnoli's polynomial, computed over many parts of the bytes at a time

Sums = npt.NDArray[np.uint32]

_POLYNOMIAL = np.uint32(0x82F63B78)
#: the number of parts, as a power of two
_HALVINGS = 11


def _table() -> Sums:
    found = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        found = found >> np.uint32(1) ^ (found & np.uint32(1)) * _POLYNOMIAL
    return found


_CRC_TABLE = _table()


def crc32c(data: bytes) -> int:
    """Return the CRC-32C checksum of bytes.

    Examples
    --------
    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    count = max(4, len(data))
    length = -(-count // (1 << _HALVINGS))
    padded = np.zeros(length << _HALVINGS, np.uint8)
    tail = padded[len(padded) - len(data) :]
    tail[:] = np.frombuffer(data, np.uint8)
    tail[:4] ^= 0xFF  # leading zeros change nothing, because the sums begin with zero
    sums = np.zeros(1 << _HALVINGS, np.uint32)
    for column in np.ascontiguousarray(padded.reshape(1 << _HALVINGS, length).T):
        sums = _with_byte(sums, column)
    # each bit of a sum after as many zeros as a part has bytes
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    for _ in range(length):
        bits = _with_byte(bits, np.zeros(32, np.uint8))
    while len(sums) > 1:
        sums = _followed(sums[::2], bits) ^ sums[1::2]
        bits = _followed(bits, bits)
    return int(sums[0]) ^ 0xFFFFFFFF


def _with_byte(sums: Sums, column: npt.NDArray[np.uint8]) -> Sums:
    found: Sums = _CRC_TABLE[(sums ^ column) & np.uint32(0xFF)] ^ (sums >> np.uint32(8))
    return found


def _followed(sums: Sums, bits: Sums) -> Sums:
    found = np.zeros(len(sums), np.uint32)
    for bit, becomes in enumerate(bits):
        found ^= (sums >> np.uint32(bit) & np.uint32(1)) * becomes
    return found
