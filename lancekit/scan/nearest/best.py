"""The best rows of those that came so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lancekit.index.distances import Distances

__all__ = ["Best", "Kept", "counted"]

#: tells of rows, by their positions, which count
Kept: TypeAlias = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.bool_]]


def counted(
    distances: Distances, lower: float | None, upper: float | None
) -> npt.NDArray[np.bool_]:
    """Return which distances count: from the lower one on, below the upper one, and no NaN."""
    wanted = ~np.isnan(distances)
    if lower is not None:
        wanted &= distances >= np.float32(lower)
    if upper is not None:
        wanted &= distances < np.float32(upper)
    return wanted


class Best:
    """The rows of the least distances, nearest first, and by row ids where these are equal.

    Parameters
    ----------
    most
        How many there are to be.
    lower, upper
        The least distance that counts, and the first that does not; NaN never does.
    """

    def __init__(self, most: int, lower: float | None = None, upper: float | None = None) -> None:
        self.most, self.lower, self.upper = most, lower, upper
        self.distances: Distances = np.empty(0, np.float32)
        self.row_ids: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
        self.positions: npt.NDArray[np.int64] = np.empty(0, np.int64)

    def add(
        self,
        distances: Distances,
        row_ids: npt.NDArray[np.uint64],
        positions: npt.NDArray[np.int64],
        kept: Kept | None = None,
    ) -> None:
        """Look at more rows.

        Parameters
        ----------
        distances
            Becomes NaN where a row is found not to count.
        kept
            Is asked of those that would be among the best; ``None`` if all count.
        """
        chosen = self._chosen(distances)
        while kept is not None and len(chosen):
            gone = chosen[~kept(positions[chosen])]
            if not len(gone):
                break
            distances[gone] = np.nan  # others take their places
            chosen = self._chosen(distances)
        if not len(chosen):
            return
        found = np.concatenate([self.distances, distances[chosen]])
        ids = np.concatenate([self.row_ids, row_ids[chosen]])
        where = np.concatenate([self.positions, positions[chosen]])
        order = np.lexsort((ids, found))[: self.most]
        self.distances, self.row_ids, self.positions = found[order], ids[order], where[order]

    def _chosen(self, distances: Distances) -> npt.NDArray[np.intp]:
        """Return which rows may be among the best: not many more than there are to be."""
        wanted = counted(distances, self.lower, self.upper)
        if len(self.distances) == self.most:
            wanted &= distances <= self.distances[-1]  # at the same distance its id may be less
        chosen = np.flatnonzero(wanted)
        if len(chosen) > self.most:
            asked = distances[chosen]
            chosen = chosen[asked <= np.partition(asked, self.most - 1)[self.most - 1]]
        return chosen
