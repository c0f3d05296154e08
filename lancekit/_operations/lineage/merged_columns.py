"""Columns of a merge's result, beside those of each side, and counts of changed values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._format.schema import LanceField, LanceSchema
from lancekit._operations.lineage.column_conflicts import ColumnChanges, ColumnConflict
from lancekit._pipeline.diff.row_values import Addresses


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedColumn:
    """A column of the result, and the one that it is in each version, if it is there.

    `parts` are those of structs, and the items of lists and maps of structs, where a side changed
    them.
    """

    bases: tuple[LanceField | None, ...]
    theirs: LanceField | None = None
    ours: LanceField | None = None
    field: LanceField
    parts: tuple[MergedColumn, ...] = ()

    def on(self, side: str) -> LanceField | None:
        """Return the column on a side: "ours" or "theirs"."""
        return self.theirs if side == "theirs" else self.ours

    @property
    def names(self) -> list[str]:
        """The names of the column, that in the result first."""
        fields = (self.field, *self.bases, self.ours, self.theirs)
        return [field.name for field in fields if field is not None]

    @property
    def is_added_by_both(self) -> bool:
        """Whether both sides have the column, and no merge base."""
        return self.ours is not None and self.theirs is not None and not any(self.bases)

    @property
    def is_from_theirs(self) -> bool:
        """Whether ours lacks the column in the form that it gets: it is new, or was cast there."""
        return self.ours is None or self.field.id != self.ours.id

    @property
    def carried(self) -> MergedColumn | None:
        """What the target has in no file: a column of theirs, or parts of a struct cast there.

        A part that theirs added is not among these.  No file of ours has it, so it is null there,
        and rows with a value of it are changed rows.
        """
        if self.is_from_theirs:
            return self
        cast = [part.carried for part in self.parts if part.ours is not None]
        parts = tuple(part for part in cast if part is not None)
        if not parts:
            return None
        held = replace(self.field, children=tuple(part.field for part in parts))
        return replace(self, field=held, parts=parts)

    @property
    def is_of_one_side(self) -> bool:
        """Whether a side lacks the column, or a part of it."""
        lacks = self.theirs is None or self.ours is None
        return lacks or any(part.is_of_one_side for part in self.parts)

    def walk(self) -> Iterator[MergedColumn]:
        """Yield the column and its parts, parents first."""
        yield self
        for part in self.parts:
            yield from part.walk()

    def chains(self, above: tuple[MergedColumn, ...] = ()) -> Iterator[tuple[MergedColumn, ...]]:
        """Yield the column and all its parts, each behind those that it is in."""
        chain = (*above, self)
        yield chain
        for part in self.parts:
            yield from part.chains(chain)

    def ids_of_theirs(self) -> Iterator[tuple[int, int]]:
        """Yield the id of each field in the version of theirs, with that of the result."""
        for part in self.walk():
            if part.theirs is not None and part.parts:
                yield part.theirs.id, part.field.id
            elif part.theirs is not None:
                both = zip(part.theirs.walk(), part.field.walk(), strict=True)
                yield from ((old.id, new.id) for old, new in both)


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """How many values of columns each side changed, by the side's own name of the column.

    Parts of structs have their path in the merge base, with dots.

    `misfits` counts those of ours that are none of the type to which theirs cast the column, or the
    other way round, `nulls` those that a column must not have that the other side made not
    nullable; `own_rows` are rows of ours that theirs lacks, `their_rows` those of theirs that ours
    lacks, `any_theirs` tells whether theirs changed rows.  `are_counted` is ``False`` before a row
    is read.
    """

    ours: Mapping[str, int] = field(default_factory=dict)
    theirs: Mapping[str, int] = field(default_factory=dict)
    misfits: Mapping[str, int] = field(default_factory=dict)
    nulls: Mapping[str, int] = field(default_factory=dict)
    own_rows: int = 0
    their_rows: int = 0
    any_theirs: bool = False
    are_counted: bool = False


def counted_as(chain: Sequence[MergedColumn]) -> str:
    """Return the name by which `Values` counts a column, or a part behind those that it is in."""
    if len(chain) > 1:
        names = (next(base.name for base in one.bases if base is not None) for one in chain)
        return ".".join(names)
    return "" if chain[0].ours is None else chain[0].ours.name


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedPart:
    """A part of a struct that one side dropped, and that the other side still has.

    `chain` leads to the part from its column, as the fields of the merge base and of the side.  All
    merge bases have the same parts.
    """

    key: str
    in_theirs: bool
    chain: tuple[tuple[LanceField, LanceField], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPlan:
    """The columns that come of a merge, and the conflicts, settled or not.

    Where a conflict is not settled, the column is as ours has it.
    """

    schema: LanceSchema
    columns: tuple[MergedColumn, ...]
    conflicts: tuple[ColumnConflict, ...]
    changes: ColumnChanges
    dropped_parts: tuple[DroppedPart, ...] = ()

    @property
    def unsettled(self) -> tuple[ColumnConflict, ...]:
        """The conflicts for which no side was chosen that can settle them."""
        return tuple(one for one in self.conflicts if one.side is None)


# ---- rows of a three-way merge: those on which both sides agree, and those that clash

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


@dataclass(frozen=True, slots=True)
class Given:
    """Rows that somebody made: those that take the place of rows of ours, then new ones.

    `widths` counts the values in which each of the first differs from the row of ours; `origins`
    are the addresses of the new ones on the other side.
    """

    rows: pa.Table
    places: Addresses
    widths: npt.NDArray[np.int64]
    origins: Addresses


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What is left to do to ours: rows that go, rows that change, rows of theirs that come.

    `given` are rows that somebody made for conflicts.
    """

    deleted: Addresses
    rewritten: tuple[Rewritten, ...]
    inserted: Addresses
    given: Given | None = None

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many rows come, how many change, and in how many values."""
        new, changed = len(self.inserted), sum(len(part.ours) for part in self.rewritten)
        cells = sum(part.num_cells for part in self.rewritten)
        if (given := self.given) is None:
            return new, changed, cells
        new += given.rows.num_rows - len(given.places)
        return new, changed + int((given.widths > 0).sum()), cells + int(given.widths.sum())

    @property
    def replaced(self) -> Addresses:
        """The rows of ours that are written anew, in the order in which they are."""
        places = [] if self.given is None else [self.given.places]
        parts = [part.ours for part in self.rewritten]
        return np.concatenate([np.empty(0, np.uint64), *parts, *places])

    def __bool__(self) -> bool:
        return self.given is not None or len(self.deleted) > 0 or any(self.counts)
