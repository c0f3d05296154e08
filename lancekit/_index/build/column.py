"""What an index is made of, and what all kinds do alike with what they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._index.build.files import SegmentFile
from lancekit._index.build.sorting import Words

Mask = npt.NDArray[np.bool_]
Parameters = Mapping[str, object]
#: gives rows their new addresses, and says which of them are still there
RowMap = Callable[[Words], tuple[Words, Mask]]


@dataclass(frozen=True, slots=True)
class IndexedColumn:
    """The values of a column, and the rows that hold them: ids or addresses, as the kind has it.

    `kind` is the type of the column; `values` may be of its large form.
    """

    kind: pa.DataType
    values: pa.Array
    rows: Words


class Content(Protocol):
    """What a segment holds, in memory."""

    @property
    def parameters(self) -> dict[str, object]:
        """What users may ask of such an index."""

    def moved(self, row_map: RowMap) -> Content:
        """Return the same for rows that are elsewhere now, or gone."""

    def files(self) -> Iterator[SegmentFile]:
        """Yield the files to write."""
