"""Rows with scores, and how those of several queries are put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lancekit.index.ascending import among

__all__ = ["Scored", "added", "best_of", "best_places", "lessened", "nothing", "required"]

Positions = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]

#: of how many scores one is looked at first
_PART = 16


@dataclass(frozen=True, eq=False, slots=True)
class Scored:
    """Positions of rows in the dataset, ascending, and their scores."""

    positions: Positions
    scores: Scores

    @classmethod
    def of(cls, positions: Positions, scores: Scores) -> Scored:
        """Put rows in order."""
        if (positions[1:] > positions[:-1]).all():
            return cls(positions, scores)
        order = np.argsort(positions)
        return cls(positions[order], scores[order])

    def among(self, others: Scored) -> npt.NDArray[np.bool_]:
        """Return which rows others have, too."""
        return among(self.positions, others.positions)

    def where(self, wanted: npt.NDArray[np.bool_]) -> Scored:
        """Return some of the rows."""
        return Scored(self.positions[wanted], self.scores[wanted])

    def first(self, most: int) -> Scored:
        """Return the first rows."""
        return Scored(self.positions[:most], self.scores[:most])

    def best(self, most: int | None) -> Scored:
        """Return the rows of the highest scores, the best first, equal ones as they come."""
        positions, scores = self.positions, self.scores
        if most is not None and most < len(scores):
            if not most:
                return Scored(positions[:0], scores[:0])
            likely = best_places(scores, most)
            positions, scores = positions[likely], scores[likely]
        order = np.argsort(-scores, kind="stable")[:most]
        return Scored(positions[order], scores[order])


def best_places(scores: Scores, most: int) -> npt.NDArray[np.intp]:
    """Return where the highest of many scores are, and those equal to the least of them.

    Examples
    --------
    >>> best_places(np.array([1, 3, 2, 3, 2], np.float32), 3).tolist()
    [1, 2, 3, 4]
    """
    part = scores[: len(scores) // _PART]
    enough = len(part) > most  # then it tells of most that they are not among them
    likely = np.flatnonzero(scores >= _least(part, most)) if enough else np.arange(len(scores))
    if len(likely) > most:
        asked = scores[likely]
        likely = likely[asked >= _least(asked, most)]
    return likely


def _least(scores: Scores, most: int) -> np.float32:
    least: np.float32 = np.partition(scores, len(scores) - most)[len(scores) - most]
    return least


def nothing() -> Scored:
    """Return no rows."""
    return Scored(np.empty(0, np.int64), np.empty(0, np.float32))


def added(parts: Sequence[Scored]) -> Scored:
    """Return the rows of one of some queries, their scores added."""
    return _joined(parts, np.add)


def best_of(parts: Sequence[Scored]) -> Scored:
    """Return the rows of one of some queries, with the best of their scores."""
    return _joined(parts, np.maximum)


def required(parts: Sequence[Scored]) -> Scored:
    """Return the rows of all of some queries, their scores added."""
    kept = parts[0]
    for part in parts[1:]:
        kept = kept.where(kept.among(part))
    total = np.zeros(len(kept.positions), np.float32)
    for part in parts:
        total += part.scores[np.searchsorted(part.positions, kept.positions)]
    return Scored(kept.positions, total)


def lessened(rows: Scored, by: Scored, factor: float) -> Scored:
    """Take from the scores of rows a part of those that they have in another query."""
    scores = rows.scores.copy()
    mine = np.flatnonzero(rows.among(by))
    theirs = by.scores[np.searchsorted(by.positions, rows.positions[mine])]
    scores[mine] -= np.float32(factor) * theirs
    return Scored(rows.positions, scores)


def _joined(parts: Sequence[Scored], put_together: np.ufunc) -> Scored:
    filled = [part for part in parts if len(part.positions)]
    if len(filled) < 2:
        return filled[0] if filled else nothing()
    positions = np.sort(np.concatenate([part.positions for part in filled]))
    positions = positions[np.append(True, positions[1:] != positions[:-1])]
    total = np.zeros(len(positions), np.float32)  # no score of a row is below 0, but in `lessened`
    known = np.zeros(len(positions), bool)
    for part in filled:
        at = np.searchsorted(positions, part.positions)
        total[at] = np.where(known[at], put_together(total[at], part.scores), part.scores)
        known[at] = True
    return Scored(positions, total)
