"""What an index is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit.index.search.reach import Reach

__all__ = ["Question"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """A condition of one column.

    Attributes
    ----------
    column
        The column's path.
    holds
        Tells of which values it holds: the filter's own kernels, so that an index finds what a
        scan would.  A value for which the condition is null is none.
    reach
        Where the values lie of which it may hold, ``None`` if they may lie anywhere.  Nulls lie
        nowhere: `holds` is to be asked.
    """

    column: str
    holds: Callable[[pa.Array], npt.NDArray[np.bool_]]
    reach: Reach | None = None

    def of_null(self, kind: pa.DataType) -> bool:
        """Return whether it holds of a null."""
        return bool(self.holds(pa.nulls(1, kind))[0])
