"""Tokens and their numbers, in the form of the crate ``fst``: a map as a finite-state transducer.

A node is read backwards from its address; what lies on the way to a token adds up to its number.
See docs/format/indices.md, 14.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lancekit.errors import CorruptFileError

__all__ = ["COMMON", "HEAD", "MANY", "VERSION", "Fst"]

#: inputs that have a number of their own in nodes of one transition, from 1 on
COMMON = b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG"
VERSION = 3
HEAD, _TAIL = 16, 20
#: nodes of more transitions than this have a table of 256 bytes
MANY = 32


@dataclass(frozen=True, slots=True)
class _Node:
    """A node: what a token that ends here adds, and for each byte where it leads and adds."""

    final: int | None
    steps: tuple[tuple[int, int, int], ...]


class Fst:
    """A map of byte strings to numbers.

    Attributes
    ----------
    data, root, count
        Its bytes, the address of the node where keys begin, and how many there are.

    Raises
    ------
    CorruptFileError
        The bytes are no such map, or of a version that is not known.
    """

    def __init__(self, data: bytes, where: str) -> None:
        self.data, self._where = data, where
        if len(data) < HEAD + _TAIL or _number(data, 0, 8) != VERSION:
            raise CorruptFileError(f"{where} has tokens that are no map of version {VERSION}.")
        self.count = _number(data, len(data) - _TAIL, 8)
        self.root = _number(data, len(data) - _TAIL + 8, 8)
        self._nodes: dict[int, _Node] = {}

    def get(self, key: bytes) -> int | None:
        """Return the number of a key, ``None`` if it has none."""
        at, total = self.root, 0
        for byte in key:
            step = next((step for step in self._node(at).steps if step[0] == byte), None)
            if step is None:
                return None
            at, total = step[1], total + step[2]
        final = self._node(at).final
        return None if final is None else total + final

    def items(self, start: int) -> Iterator[tuple[bytes, int]]:
        """Yield what leads on from the node at an address to keys, ascending, and its numbers."""
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
        """Return the error of a node that cannot be."""
        return CorruptFileError(f"{self._where} has tokens that are damaged at byte {at}.")

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
        """Read a node of one transition, at which no key ends."""
        common = state & 0x3F
        before = at if common else at - 1
        byte = COMMON[common - 1] if common else self.data[before]
        if state >= 0xC0:  # it leads to the node before, and adds nothing
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
