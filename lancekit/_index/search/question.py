"""What an index is asked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._index.search.reach import Reach
from lancekit._lazy import cached_property

__all__ = ["Flags", "Holds", "Joint", "Question", "Questions"]

Flags: TypeAlias = npt.NDArray[np.bool_]
#: which of some values something is true for
Holds: TypeAlias = Callable[[pa.Array], Flags]


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """A condition of one column.

    Attributes
    ----------
    column
        The column's path.
    type
        The type of its values, as `holds` takes them.
    holds
        Tells of which values it holds: the filter's own kernels, so that an index finds what a
        scan would.  A value for which the condition is null is none.
    reach
        Where the values lie of which it may hold, ``None`` if they may lie anywhere.  Nulls lie
        nowhere: `holds` is to be asked.
    runs
        Texts that are somewhere in each value of which it holds.
    items
        Of lists: conditions of lists of one item.  It holds of a list if each of these does of one
        of its items; if there are none, it asks for something else.
    """

    column: str
    type: pa.DataType
    holds: Holds
    reach: Reach | None = None
    runs: tuple[str, ...] = ()
    items: tuple[Holds, ...] = ()

    @cached_property
    def of_null(self) -> bool:
        """Whether it holds of a null."""
        return bool(self.holds(pa.nulls(1, self.type))[0])

    def of_nan(self) -> bool:
        """Return whether it holds of a NaN."""
        if not pa.types.is_floating(self.type):
            return False
        return bool(self.holds(pa.array([math.nan], self.type))[0])


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """Parts of which all have to hold, or one; if `whole`, they say all that is asked."""

    parts: tuple[Questions, ...]
    all_of: bool
    whole: bool = True


Questions: TypeAlias = "Question | Joint"
