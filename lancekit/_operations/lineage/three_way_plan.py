"""A three-way merge, planned: what is to be done to ours, and the rows that clash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lancekit._format.column_names import column_not_found
from lancekit._format.paths import top_of
from lancekit._format.schema import LanceSchema
from lancekit._legible import clean
from lancekit._operations.lineage.column_conflicts import KEY, SCHEMA
from lancekit._operations.lineage.column_tracks import Track, Versions
from lancekit._operations.lineage.diff import Changes
from lancekit._operations.lineage.diff_plan import DiffPlan
from lancekit._operations.lineage.merged_columns import Clashes, ColumnPlan, Settled
from lancekit._pipeline.diff.fragments import ColumnPair
from lancekit._pipeline.diff.side import Addresses
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import ColumnNotFoundError, InvalidArgumentError

__all__ = ["By", "ColumnSides", "ThreeWay", "check_names"]

#: whether changes of different columns of a row exclude each other
By = Literal["cell", "row"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreeWay:
    """What theirs changed since `base`, as it meets what ours changed.

    `columns` are those that come of it, each with that of theirs, `before` with that of the base;
    `merged` is the plan of these, and `sides` has the sides that were chosen for columns.
    `changes` are all rows that theirs changed, `mine` those that ours changed, `met` those that
    both inserted, on theirs and on ours.  `by_ids` tells whether rows are told by their ids, so
    that keys may change.
    """

    base: Snapshot
    theirs: Snapshot
    ours: Snapshot
    key: tuple[str, ...]
    by_ids: bool
    columns: tuple[ColumnPair, ...]
    before: tuple[ColumnPair, ...]
    merged: ColumnPlan
    sides: ColumnSides
    to_theirs: DiffPlan
    to_ours: DiffPlan
    changes: Changes
    mine: Changes
    met: tuple[Addresses, Addresses]
    agreed: Settled
    clashes: Clashes

    @property
    def schema(self) -> LanceSchema:
        """The columns of the result, with their ids."""
        return self.merged.schema

    @property
    def changes_columns(self) -> bool:
        """Whether ours gets other columns than it has."""
        return self.schema != self.ours.manifest.schema

    @property
    def is_empty(self) -> bool:
        """Whether theirs changed no row and no column at all."""
        left = bool(self.agreed) or bool(len(self.clashes))
        return not left and self.changes.is_empty and not self.changes_columns


# ---- the side that was chosen for a column, by any name that the column has in a merge


def check_names(names: Iterable[str], versions: Sequence[Snapshot]) -> None:
    """Raise ``ColumnNotFoundError`` for a name that no version of a merge has for a column.

    A name of a column without a conflict is no error.
    """
    known = dict.fromkeys(name for one in versions for name in one.manifest.schema.names)
    for name in names:
        if name in known or name in (SCHEMA, KEY):
            continue
        top = top_of(name) if "." in name else name
        if top in known:
            raise ColumnNotFoundError(
                f"Column {name!r} in Sides is a part of column {top!r}.",
                hint=f"Name {top!r}: its side settles the conflicts of all parts.",
                column=name,
            )
        raise column_not_found(name, known)


@dataclass(frozen=True, slots=True)
class ColumnSides:
    """The sides that a user chose by names of columns, and the columns of the merge.

    A name fits each column that a merge base or a side calls so.  A name that fits one column alone
    counts first, then the name that the conflict has.
    """

    named: Mapping[str, str]
    default: str
    versions: Versions
    columns: Sequence[Track]

    def of(self, name: str, names: Iterable[str] = ()) -> str:
        """Return the side that was chosen for a conflict, or else the default.

        Parameters
        ----------
        name
            The name of the conflict.
        names
            The names of its column; those of the columns with the conflict's name if there are
            none.

        Raises
        ------
        InvalidArgumentError
            A name fits two columns, or two names of the column have different sides.
        """
        own = list(names) or [n for one in self.columns if one.name == name for n in _names(one)]
        given = [one for one in dict.fromkeys((name, *own)) if one in self.named]
        sole = [one for one in given if len(self._fitting(one)) < 2]
        for other in sole[1:]:
            if self.named[other] != self.named[sole[0]]:
                raise _contradicted(sole[0], other, self.named)
        if sole or name in given:
            return self.named[sole[0] if sole else name]
        if given:
            raise self._ambiguous(given[0], name)
        return self.default

    def _fitting(self, name: str) -> list[Track]:
        return [one for one in self.columns if name in _names(one)]

    def _ambiguous(self, name: str, conflict: str) -> InvalidArgumentError:
        called = " and ".join(self._called(one, name) for one in self._fitting(name))
        return InvalidArgumentError(
            f"Column {name!r} in Sides can be two columns: {called}.",
            hint=f"Name the column as its conflict is named: {conflict!r}.",
            column=name,
        )

    def _called(self, column: Track, name: str) -> str:
        """Return a column by the name of its conflicts, and who calls it by another name."""
        fields = (*column.bases, column.theirs, column.ours)
        both = [
            (field.name, version.called)
            for field, version in zip(fields, self.versions.all, strict=True)
            if field is not None
        ]
        own = next(where for known, where in both if known == column.name)
        found = f"column {clean(column.name)!r} of {own}"
        if column.name != name:
            found += f", which {next(w for n, w in both if n == name)} calls {clean(name)!r}"
        return found


def _names(column: Track) -> list[str]:
    fields = (*column.known, column.ours, column.theirs)
    return [field.name for field in fields if field is not None]


def _contradicted(one: str, other: str, named: Mapping[str, str]) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Sides choose two sides for one column: {named[one]!r} by its name {one!r}, and "
        f"{named[other]!r} by its name {other!r}.",
        hint=f"Name the column once: {one!r} or {other!r}.",
        column=one,
    )
