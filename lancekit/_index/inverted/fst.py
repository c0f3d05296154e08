"""Maps of tokens to numbers, in the form of the crate ``fst``; and tokens of similar spelling.

A node is read backwards from its address. The number of a token is the sum of the outputs on its
path. See docs/format/indices.md, 14.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit.errors import CorruptFileError

#: bytes that have a short code in nodes with one step, from 1 on
COMMON = b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG"
VERSION = 3
HEAD, _TAIL = 16, 20
#: nodes with more steps than this have a table of 256 bytes
MANY = 32


@dataclass(frozen=True, slots=True)
class _Node:
    """A node: the output of a token that ends here; the byte, target and output of each step."""

    final: int | None
    steps: tuple[tuple[int, int, int], ...]


class Fst:
    """A map of byte strings to numbers.

    data, root, count: its bytes, the address of the root node, and the number of keys.

    Raises CorruptFileError: the bytes are not a map, or have an unknown version.
    """

    def __init__(self, data: bytes, where: str) -> None:
        self.data, self._where = data, where
        if len(data) < HEAD + _TAIL or _number(data, 0, 8) != VERSION:
            raise CorruptFileError(f"{where} has tokens that are not a map of version {VERSION}.")
        self.count = _number(data, len(data) - _TAIL, 8)
        self.root = _number(data, len(data) - _TAIL + 8, 8)
        self._nodes: dict[int, _Node] = {}

    def get(self, key: bytes) -> int | None:
        """Return the number of a key, ``None`` if the key is not in the map."""
        at, total = self.root, 0
        for byte in key:
            step = next((step for step in self._node(at).steps if step[0] == byte), None)
            if step is None:
                return None
            at, total = step[1], total + step[2]
        final = self._node(at).final
        return None if final is None else total + final

    def items(self, start: int) -> Iterator[tuple[bytes, int]]:
        """Yield the ascending suffixes of keys from a node's address on, with their outputs."""
        key = bytearray()
        todo = [(start, 0, b"", 0)]
        while todo:
            at, depth, last, total = todo.pop()
            key[depth:] = last
            node = self._node(at)
            if node.final is not None:
                yield bytes(key), total + node.final
            todo += [
                (target, len(key), bytes([byte]), total + output)
                for byte, target, output in sorted(node.steps, reverse=True)
            ]

    def damaged(self, at: int) -> CorruptFileError:
        """Return the error for an invalid node."""
        return CorruptFileError(f"{self._where} is damaged at byte {at} of its tokens.")

    def _node(self, at: int) -> _Node:
        if at == 0:
            return _Node(0, ())
        node = self._nodes.get(at)
        if node is None:
            try:
                node = self._nodes[at] = self._read(at)
            except IndexError as error:
                raise self.damaged(at) from error
        return node

    def _read(self, at: int) -> _Node:
        """Decode the node at an address."""
        data = self.data
        if not HEAD <= at < len(data) - _TAIL:
            raise self.damaged(at)
        state = data[at]
        if state >= 0x80:
            return self._read_single(at, state)
        count, sizes_at = state & 0x3F, at - 1
        if not count:
            count = data[at - 1]
            count, sizes_at = (256 if count == 1 else count), at - 2
        wide, out = data[sizes_at] >> 4, data[sizes_at] & 15
        inputs = sizes_at - (256 if count > MANY else 0)
        deltas = inputs - count
        outputs = deltas - count * wide
        end = outputs - count * out
        final = None
        if state & 0x40:
            end -= out
            final = self._number(end, out)
        steps = tuple(
            (
                data[inputs - 1 - place],
                self._target(end, self._number(deltas - (place + 1) * wide, wide)),
                self._number(outputs - (place + 1) * out, out),
            )
            for place in range(count)
        )
        return _Node(final, steps)

    def _read_single(self, at: int, state: int) -> _Node:
        """Read a node with one step, at which no key ends."""
        common = state & 0x3F
        before = at if common else at - 1
        byte = COMMON[common - 1] if common else self.data[before]
        if state >= 0xC0:  # it leads to the previous node, without output
            return _Node(None, ((byte, self._target(before, 1), 0),))
        wide, out = self.data[before - 1] >> 4, self.data[before - 1] & 15
        deltas = before - 1 - wide
        end = deltas - out
        return _Node(
            None, ((byte, self._target(end, self._number(deltas, wide)), self._number(end, out)),)
        )

    def _target(self, end: int, delta: int) -> int:
        if not delta:
            return 0
        if not HEAD <= end - delta < end:
            raise self.damaged(end)
        return end - delta

    def _number(self, at: int, size: int) -> int:
        if at < HEAD:
            raise self.damaged(at)
        return _number(self.data, at, size)


def _number(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")


# ---- tokens of similar spelling
#
# The distance is the number of letters that are inserted, deleted or replaced. If too many tokens
# are near enough, the first in the order of code points are used.

#: code points that are compared at a time
_AT_ONCE = 1 << 22


@dataclass(frozen=True, slots=True)
class Spelling:
    """The tolerance of a search for similar tokens.

    edits: the most letters that may differ.
    prefix: the number of bytes at the start that must be equal.
    most: the most tokens that replace all requested tokens together.
    """

    edits: int
    prefix: int = 0
    most: int = 50


def alternatives(
    tokens: Sequence[str], vocabularies: Sequence[pa.Array], spelling: Spelling
) -> list[list[str]]:
    """Return the similar tokens of each token, together at most `spelling.most`.

    Examples
    --------
    >>> words = pa.array(["bellow", "hallo", "hello", "help"])
    >>> alternatives(["hello", "help"], [words], Spelling(1, most=3))
    [['hallo', 'hello'], ['help']]
    """
    found: list[list[str]] = []
    left = spelling.most
    for token in tokens:
        each = [near(words, token, spelling) for words in vocabularies] if left else []
        found.append(list(islice(dict.fromkeys(merge(*each)), left)))
        left -= len(found[-1])
    return found


def near(words: pa.Array, token: str, spelling: Spelling) -> list[str]:
    """Return the words that are similar to a token, ascending."""
    sizes = pc.utf8_length(words).to_numpy(zero_copy_only=False)
    candidates = ak.filter(words, np.abs(sizes - len(token)) <= spelling.edits)
    prefix = token.encode()[: spelling.prefix]
    if prefix:
        candidates = ak.filter(candidates, pc.starts_with(candidates.cast(pa.binary()), prefix))
    step = max(_AT_ONCE // max(len(token), 1), 1)
    parts = (candidates.slice(at, step) for at in range(0, len(candidates), step))
    kept = [ak.filter(part, _distances(part, token) <= spelling.edits) for part in parts]
    return sorted(text for part in kept for text in part.to_pylist())


def _distances(words: pa.Array, token: str) -> npt.NDArray[np.int32]:
    """Return the edit distance of each word from a token."""
    sizes = pc.utf8_length(words).to_numpy(zero_copy_only=False)
    width = int(sizes.max(initial=0))
    if not width:
        return np.full(len(words), len(token), np.int32)
    texts = np.array(words.to_pylist(), f"U{width}")
    letters = np.ascontiguousarray(texts.view(np.uint32).reshape(-1, width).T)
    # row j: the distance of each word's first j letters from the letters of the token so far
    count = np.arange(width + 1, dtype=np.int32)[:, np.newaxis]
    costs = np.broadcast_to(count, (width + 1, len(words)))
    for letter in map(ord, token):
        best = np.empty_like(costs)
        best[0] = costs[0] + 1
        np.minimum(costs[:-1] + (letters != letter), costs[1:] + 1, out=best[1:])
        costs = np.minimum.accumulate(best - count) + count
    found: npt.NDArray[np.int32] = costs[sizes, np.arange(len(words))]
    return found
