"""One page of one column: where its buffers lie, and what a page decoder offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit.file import bits
from lancekit.file.faults import Unsupported, require
from lancekit.file.memory import Bytes, Ints, as_bytes, fetch
from lancekit.file.raw import with_validity
from lancekit.file.selection import Selection
from lancekit.format.pb import encodings_v21_pb2 as pb
from lancekit.storage.base import RandomAccess

__all__ = ["Leaf", "Page", "PageDecoder", "item_layer"]


@dataclass(frozen=True, slots=True)
class Page:
    """The place of a page's buffers, checked against the file's size."""

    source: RandomAccess
    index: int
    length: int
    positions: tuple[int, ...]
    sizes: tuple[int, ...]

    def size(self, buffer: int) -> int:
        """Return the size of one buffer in bytes."""
        require(buffer < len(self.sizes), f"buffer {buffer} is missing")
        return self.sizes[buffer]

    def read(self, buffer: int) -> Bytes:
        """Return one whole buffer."""
        size = self.size(buffer)
        if size == 0:
            return np.empty(0, np.uint8)
        return as_bytes(self.source.read(self.positions[buffer], size))

    def fetch(self, buffer: int, starts: Ints, stops: Ints) -> tuple[Bytes, Ints]:
        """Return ascending byte ranges of one buffer, and where each starts in the result."""
        require(len(stops) == 0 or stops.max() <= self.size(buffer), "a buffer is too short")
        return fetch(self.source, self.positions[buffer], starts, stops)


class PageDecoder(Protocol):
    """Reads rows of one page; keeps what is needed again, such as the chunks' positions."""

    def read(self, rows: Selection) -> pa.Array:
        """Return the rows as an array of the column's type."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """Decoded rows of a 2.1+ page before their levels become validity and lists.

    `values` has no nulls of its own; `definition` is absent where every row is valid.
    """

    values: pa.Array
    layers: tuple[int, ...]
    definition: NDArray[np.uint16] | None = None

    def to_array(self) -> pa.Array:
        """Return the array of a column that is not nested."""
        if self.definition is None:
            return self.values
        valid = self.definition == 0
        if valid.all():
            return self.values
        return with_validity(self.values, bits.pack(valid))


def item_layer(layers: tuple[int, ...]) -> bool:
    """Return whether the only layer is nullable; `Unsupported` for nested columns."""
    if len(layers) != 1 or layers[0] not in {pb.ALL_VALID_ITEM, pb.NULLABLE_ITEM}:
        raise Unsupported("a nested column")
    return layers[0] == pb.NULLABLE_ITEM
