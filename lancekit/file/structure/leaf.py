"""What a page is decoded to, before its levels become validity and lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from lancekit.file.kernels.row_selection import Rows
from lancekit.file.structure.repdef import Layers, Levels

__all__ = ["Leaf", "PageDecoder"]


@dataclass(frozen=True, slots=True)
class Leaf:
    """Decoded rows of a 2.1+ page before their levels become validity and lists.

    `values` are those of the visible entries and have no nulls of their own, unless all are null.
    """

    values: pa.Array
    layers: Layers
    levels: Levels


class PageDecoder(Protocol):
    """Reads rows of one 2.1+ page; keeps what is needed again, such as the chunks' positions.

    Where there are lists, rows are those of the outermost; else entries.
    """

    def leaf(self, rows: Rows) -> Leaf:
        """Return the rows."""
