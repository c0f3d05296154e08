"""The input and the content of an index that is built, common to all kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._index.build.files import SegmentFile
from lancekit._index.build.sorting import Words

Mask = npt.NDArray[np.bool_]
#: returns new row addresses, and a mask of the rows that still exist
RowMap = Callable[[Words], tuple[Words, Mask]]


@dataclass(frozen=True, slots=True)
class IndexedColumn:
    """The values of a column, and their rows: ids or addresses, depending on the index kind.

    `kind` is the type of the column; `values` may have its large variant.
    """

    kind: pa.DataType
    values: pa.Array
    rows: Words


class Content(Protocol):
    """The content of an index segment, in memory."""

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters that it was built with, by their public names."""

    def moved(self, row_map: RowMap) -> Content:
        """Return the content with new row addresses, without rows that no longer exist."""

    def files(self) -> Iterator[SegmentFile]:
        """Yield the files to write."""
