"""Columns and rows of a merge result, with the same columns and rows on each side."""

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
    """A column of the result, with the same column in each version that has it.

    `parts` are the parts of a struct, or of the structs in a list or map, if a side changed any.
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
        """The names of the column in the result and in all versions, the result first."""
        fields = (self.field, *self.bases, self.ours, self.theirs)
        return [field.name for field in fields if field is not None]

    @property
    def is_added_by_both(self) -> bool:
        """True if both sides have the column, and no merge base has it."""
        return self.ours is not None and self.theirs is not None and not any(self.bases)

    @property
    def is_from_theirs(self) -> bool:
        """True if the target lacks the column of the result: the source added or cast it."""
        return self.ours is None or self.field.id != self.ours.id

    @property
    def carried(self) -> MergedColumn | None:
        """The column to bring from the source: a new or cast column, or the cast parts of a struct.

        A part that the source added is left out.  It reads as null in the target's files, and a row
        with a value in it counts as a changed row.
        """
        if self.is_from_theirs:
            return self
        cast = [part.carried for part in self.parts if part.ours is not None]
        parts = tuple(part for part in cast if part is not None)
        if not parts:
            return None
        bare = replace(self.field, children=tuple(part.field for part in parts))
        return replace(self, field=bare, parts=parts)

    @property
    def is_of_one_side(self) -> bool:
        """True if a side lacks the column, or one of its parts."""
        lacks = self.theirs is None or self.ours is None
        return lacks or any(part.is_of_one_side for part in self.parts)

    def walk(self) -> Iterator[MergedColumn]:
        """Yield the column and its parts, parents first."""
        yield self
        for part in self.parts:
            yield from part.walk()

    def chains(self, above: tuple[MergedColumn, ...] = ()) -> Iterator[tuple[MergedColumn, ...]]:
        """Yield for the column and each part the path of columns that leads to it."""
        chain = (*above, self)
        yield chain
        for part in self.parts:
            yield from part.chains(chain)

    def ids_of_theirs(self) -> Iterator[tuple[int, int]]:
        """Yield the id of each field in the source, with the id in the result."""
        for part in self.walk():
            if part.theirs is not None and part.parts:
                yield part.theirs.id, part.field.id
            elif part.theirs is not None:
                both = zip(part.theirs.walk(), part.field.walk(), strict=True)
                yield from ((old.id, new.id) for old, new in both)


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """Counts of the values that each side changed, by the side's name of the column.

    Parts of structs are named by their path in the merge base, with dots.

    misfits: values of a side that do not fit the type to which the other side cast the column.
    nulls: nulls of a side in a column that the other side made not nullable.
    own_rows, their_rows: the number of rows that only the target has, and that only the source has.
    any_theirs: whether the source changed rows.
    are_counted: ``False`` before rows are read.
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
    """Return the key of a column, or of the part at the end of a path, in `Values`."""
    if len(chain) > 1:
        names = (next(base.name for base in one.bases if base is not None) for one in chain)
        return ".".join(names)
    return "" if chain[0].ours is None else chain[0].ours.name


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedPart:
    """A part of a struct that one side dropped and the other side kept.

    `chain` is the path from the column to the part, as (field of the merge base, field of the
    side).  All merge bases have the same parts.
    """

    key: str
    in_theirs: bool
    chain: tuple[tuple[LanceField, LanceField], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPlan:
    """The columns of a merge result, and the conflicts, settled or not.

    The column of an unsettled conflict is the column of the target.
    """

    schema: LanceSchema
    columns: tuple[MergedColumn, ...]
    conflicts: tuple[ColumnConflict, ...]
    changes: ColumnChanges
    dropped_parts: tuple[DroppedPart, ...] = ()

    @property
    def unsettled(self) -> tuple[ColumnConflict, ...]:
        """The conflicts without a chosen side that can settle them."""
        return tuple(one for one in self.conflicts if one.side is None)


# ---- rows of a three-way merge: settled rows and conflicting rows

#: a mask with an axis of rows and an axis of columns
Cells = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clashes:
    """Rows that both sides changed differently, with their addresses on each side.

    cells: conflicting values: changed by both sides, in a row that one side deleted, or different
        in a row that both inserted.
    taken: values that only the source changed.
    """

    base: Addresses
    theirs: Addresses
    ours: Addresses
    cells: Cells
    taken: Cells

    def __len__(self) -> int:
        return len(self.base)

    def where(self, rows: npt.NDArray[np.bool_]) -> Clashes:
        """Return the conflicts of the rows that a mask selects."""
        return Clashes(**{name: getattr(self, name)[rows] for name in Clashes.__slots__})


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Target rows to overwrite: the cells in `taken`, or all columns of the source if ``None``.

    `num_cells` counts the values that change.
    """

    theirs: Addresses
    ours: Addresses
    taken: Cells | None
    num_cells: int

    @classmethod
    def of_cells(cls, theirs: Addresses, ours: Addresses, taken: Cells) -> Rewritten:
        """Return rows to overwrite in the cells of a mask; all these cells differ."""
        return cls(theirs, ours, taken, int(taken.sum()))


@dataclass(frozen=True, slots=True)
class Given:
    """Rows that a conflict function returned: replacements of target rows, then new rows.

    `places` are the addresses of the replaced rows, `widths` their numbers of changed values.
    `origins` are the addresses of the new rows on their side.
    """

    rows: pa.Table
    places: Addresses
    widths: npt.NDArray[np.int64]
    origins: Addresses


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The changes to apply to the target: rows to delete, to rewrite, and to insert.

    `given` are the rows that a conflict function returned, if any.
    """

    deleted: Addresses
    rewritten: tuple[Rewritten, ...]
    inserted: Addresses
    given: Given | None = None

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of inserted rows, changed rows, and changed values."""
        new, changed = len(self.inserted), sum(len(part.ours) for part in self.rewritten)
        cells = sum(part.num_cells for part in self.rewritten)
        if (given := self.given) is None:
            return new, changed, cells
        new += given.rows.num_rows - len(given.places)
        return new, changed + int((given.widths > 0).sum()), cells + int(given.widths.sum())

    @property
    def replaced(self) -> Addresses:
        """The rows of the target that are rewritten, in the order of the rewrite."""
        places = [] if self.given is None else [self.given.places]
        parts = [part.ours for part in self.rewritten]
        return np.concatenate([np.empty(0, np.uint64), *parts, *places])

    def __bool__(self) -> bool:
        return self.given is not None or len(self.deleted) > 0 or any(self.counts)
