"""Rows of a three-way merge: those on which both sides agree, and those that clash."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lancekit.pipeline.diff.side import Addresses

__all__ = ["Cells", "Clashes", "Rewritten", "Settled"]

#: of rows and columns
Cells = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clashes:
    """The rows of which both sides made something else, by where they are on each side.

    `cells` are the values that both changed, all of a row that only one side has, and those in
    which a row differs that both inserted; `taken` those that theirs alone changed.
    """

    base: Addresses
    theirs: Addresses
    ours: Addresses
    cells: Cells
    taken: Cells

    def __len__(self) -> int:
        return len(self.base)

    def where(self, rows: npt.NDArray[np.bool_]) -> Clashes:
        """Return those of some rows."""
        return Clashes(**{name: getattr(self, name)[rows] for name in Clashes.__slots__})


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Rows of ours that get values of theirs: those `taken`, or of all columns that theirs has.

    `num_cells` counts the values that change.
    """

    theirs: Addresses
    ours: Addresses
    taken: Cells | None
    num_cells: int

    @classmethod
    def of_cells(cls, theirs: Addresses, ours: Addresses, taken: Cells) -> Rewritten:
        """Return rows that get the cells that are set, each of which differs."""
        return cls(theirs, ours, taken, int(taken.sum()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What is left to do to ours: rows that go, rows that change, rows of theirs that come."""

    deleted: Addresses
    rewritten: tuple[Rewritten, ...]
    inserted: Addresses

    @property
    def num_rewritten(self) -> int:
        """How many rows change."""
        return sum(len(part.ours) for part in self.rewritten)

    @property
    def num_cells(self) -> int:
        """How many values of these rows change."""
        return sum(part.num_cells for part in self.rewritten)

    def __bool__(self) -> bool:
        return bool(len(self.deleted) or self.num_rewritten or len(self.inserted))
