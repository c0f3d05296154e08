"""Numbers that ascend, and what is among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["among"]


def among(some: npt.NDArray[Any], ascending: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which of some numbers are among others, which ascend and may be many.

    Examples
    --------
    >>> among(np.array([4, 1, 9]), np.array([1, 2, 4])).tolist()
    [True, True, False]
    """
    if not len(ascending):
        return np.zeros(len(some), bool)
    places = np.minimum(np.searchsorted(ascending, some), len(ascending) - 1)
    found: npt.NDArray[np.bool_] = ascending[places] == some
    return found
