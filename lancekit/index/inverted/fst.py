"""Tokens and their numbers, in the form of the crate ``fst``: a map as a finite-state transducer.

A node is read backwards from its address; what lies on the way to a token adds up to its number.
See docs/format/indices.md, 14.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lancekit.errors import CorruptFileError

__all__ = ["Fst"]

#: inputs that have a number of their own in nodes of one transition, from 1 on
_COMMON = b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHGW"
_VERSION = 3
_HEAD, _TAIL = 16, 20
#: nodes of more transitions than this have a table of 256 bytes
_MANY = 32


@dataclass(frozen=True, slots=True)
class _Node:
    """A node: what a token that ends here adds, and for each byte where it leads and adds."""

    final: int | None
    steps: tuple[tuple[int, int, int], ...]


class Fst:
    """A map of byte strings to numbers.

    Raises
    ------
    CorruptFileError
        The bytes are no such map, or of a version that is not known.
    """

    def __init__(self, data: bytes, where: str) -> None:
        self._data, self._where = data, where
        if len(data) < _HEAD + _TAIL or _number(data, 0, 8) != _VERSION:
            raise CorruptFileError(f"{where} has tokens that are no map of version {_VERSION}.")
        self._root = _number(data, len(data) - 12, 8)
        self._nodes: dict[int, _Node] = {}

    def __len__(self) -> int:
        return _number(self._data, len(self._data) - _TAIL, 8)

    def get(self, key: bytes) -> int | None:
        """Return the number of a key, ``None`` if it has none."""
        at, total = self._root, 0
        for byte in key:
            step = next((step for step in self._node(at).steps if step[0] == byte), None)
            if step is None:
                return None
            at, total = step[1], total + step[2]
        final = self._node(at).final
        return None if final is None else total + final

    def items(self) -> Iterator[tuple[bytes, int]]:
        """Yield all keys and their numbers, the keys ascending."""
        todo = [(self._root, b"", 0)]
        while todo:
            at, key, total = todo.pop()
            node = self._node(at)
            if node.final is not None:
                yield key, total + node.final
            todo += [
                (target, key + bytes([byte]), total + output)
                for byte, target, output in sorted(node.steps, reverse=True)
            ]

    def _node(self, at: int) -> _Node:
        if at == 0:
            return _Node(0, ())
        node = self._nodes.get(at)
        if node is None:
            try:
                node = self._nodes[at] = self._read(at)
            except IndexError as error:
                raise self._damaged(at) from error
        return node

    def _read(self, at: int) -> _Node:
        data = self._data
        if not _HEAD <= at < len(data) - _TAIL:
            raise self._damaged(at)
        state = data[at]
        if state >= 0x80:
            return self._read_single(at, state)
        count, sizes_at = state & 0x3F, at - 1
        if not count:
            count = data[at - 1]
            count, sizes_at = (256 if count == 1 else count), at - 2
        wide, out = data[sizes_at] >> 4, data[sizes_at] & 15
        inputs = sizes_at - (256 if count > _MANY else 0)
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
        """Read a node of one transition, at which no key ends."""
        common = state & 0x3F
        before = at if common else at - 1
        byte = _COMMON[common - 1] if common else self._data[before]
        if state >= 0xC0:  # it leads to the node before, and adds nothing
            return _Node(None, ((byte, self._target(before, 1), 0),))
        wide, out = self._data[before - 1] >> 4, self._data[before - 1] & 15
        deltas = before - 1 - wide
        end = deltas - out
        return _Node(
            None, ((byte, self._target(end, self._number(deltas, wide)), self._number(end, out)),)
        )

    def _target(self, end: int, delta: int) -> int:
        if not delta:
            return 0
        if not _HEAD <= end - delta < end:
            raise self._damaged(end)
        return end - delta

    def _number(self, at: int, size: int) -> int:
        if at < _HEAD:
            raise self._damaged(at)
        return _number(self._data, at, size)

    def _damaged(self, at: int) -> CorruptFileError:
        return CorruptFileError(f"{self._where} has tokens that are damaged at byte {at}.")


def _number(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")
