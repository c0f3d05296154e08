"""One page of one column: where its buffers lie."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from lancekit.file.kernels.faults import require
from lancekit.file.kernels.memory import Bytes, Ints, as_bytes, fetch
from lancekit.storage.base import RandomAccess

__all__ = ["Page"]


@dataclass(frozen=True, slots=True)
class Page:
    """The place of a page's buffers, checked against the file's size.

    `key` is what the page is remembered by, ``None`` if it is not.
    """

    source: RandomAccess
    index: int
    length: int
    positions: tuple[int, ...]
    sizes: tuple[int, ...]
    key: Hashable | None = None

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
