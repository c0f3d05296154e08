"""Whether changes of rows of one side have a place in the columns of the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lancekit.errors import SchemaMismatchError
from lancekit.operations.lineage.diff import Changes
from lancekit.operations.lineage.diff_plan import DiffPlan
from lancekit.pipeline.diff.fragments import ColumnPair
from lancekit.versions.snapshot import Snapshot

__all__ = ["ColumnConflict", "added_columns", "check_columns", "columns_error"]


@dataclass(frozen=True, slots=True)
class ColumnConflict:
    """A column that one side dropped or cast, and of which the other changed values.

    Attributes
    ----------
    column
        Its name, in the version that both sides come from if theirs dropped it.
    ours, theirs
        What each side did to it: ``"dropped"``, ``"cast to int32"``, ``"changed 2 values"``.
    """

    column: str
    ours: str
    theirs: str
    _text: str

    def __str__(self) -> str:
        return self._text

    @property
    def is_left_by_ours(self) -> bool:
        """Whether ``conflicts="ours"`` leaves the column as it is here.

        Values of a type are no values of another, so a cast has to be done on both sides.
        """
        return "dropped" in (self.ours, self.theirs)


def added_columns(to_theirs: DiffPlan, between: DiffPlan) -> list[ColumnPair]:
    """Return the columns that theirs has, and neither the base nor ours."""
    known = {pair.old.name for pair in between.columns if pair.old is not None}
    return [p for p in to_theirs.columns if p.old is None and p.name not in known]


def check_columns(
    to_theirs: DiffPlan, to_ours: DiffPlan, between: DiffPlan, changes: Changes, mine: Changes
) -> tuple[ColumnConflict, ...]:
    """Return the columns of which one side changed values, and that the other dropped or cast.

    ``SchemaMismatchError`` if theirs changed other columns.

    Parameters
    ----------
    to_theirs, to_ours, between
        From the common version to each side, and from theirs to ours.
    changes, mine
        The rows that theirs changed, and ours.
    """
    found = [
        *_changed_by_theirs(to_theirs, to_ours, between, mine),
        *_changed_by_ours(to_theirs, between, changes),
    ]
    if any(isinstance(one, str) for one in found):
        raise columns_error(to_theirs.old, to_theirs.new, between.new, found)
    return tuple(one for one in found if isinstance(one, ColumnConflict))


def columns_error(
    base: Snapshot, theirs: Snapshot, ours: Snapshot, found: Sequence[str | ColumnConflict]
) -> SchemaMismatchError:
    """Return the error for columns that do not fit."""
    conflicts = [one for one in found if isinstance(one, ColumnConflict)]
    more = ""
    if len(conflicts) == len(found) and all(one.is_left_by_ours for one in conflicts):
        more = f'; conflicts="ours" leaves them as they are on {ours.line.name}'
    return SchemaMismatchError(
        f"The changes of rows from {base.called} to {theirs.called} do not fit the columns of "
        f"{ours.called}: {'; '.join(map(str, found))}.",
        hint=f"Change the columns of one side to those of the other first{more}.",
        problems=[*map(str, found)],
        conflicts=conflicts,
    )


def _changed_by_theirs(
    to_theirs: DiffPlan, to_ours: DiffPlan, between: DiffPlan, mine: Changes
) -> Iterator[str | ColumnConflict]:
    for pair in added_columns(to_theirs, between):
        if not pair.new.nullable:
            yield f"column {pair.name!r} was added, and cannot be null"
        elif pair.name in between.new.manifest.schema:
            yield f"column {pair.name!r} was added, and there is another one of that name"
    there = {pair.old.name: pair for pair in between.columns if pair.old is not None}
    for pair in to_theirs.columns:
        here = there.get(pair.name)
        if pair.old is None and here is not None and here.kind != pair.kind:
            yield f"column {pair.name!r} was added as {pair.kind}, and is {here.kind} here"
    ours = {pair.old.name: pair for pair in to_ours.columns if pair.old is not None}
    kept = {pair.old.name for pair in to_theirs.columns if pair.old is not None}
    for field in to_theirs.old.manifest.schema.fields:
        if field.name not in kept and field.name in ours:
            text = f"column {field.name!r} was dropped"
            yield _conflict(field.name, text, mine.cells.get(ours[field.name].name, 0), "dropped")
    for pair in to_theirs.columns:
        here = None if pair.old is None else ours.get(pair.old.name)
        if pair.old is None or here is None:
            continue
        if pair.name not in (pair.old.name, here.name):
            yield f"column {pair.old.name!r} was renamed to {pair.name!r}"
        if pair.is_cast and pair.kind != here.kind:
            text, cast = f"column {pair.name!r} was cast to {pair.kind}", f"cast to {pair.kind}"
            yield _conflict(pair.name, text, mine.cells.get(here.name, 0), cast)


def _conflict(name: str, text: str, cells: int, done: str) -> str | ColumnConflict:
    """Return what theirs did to a column; a conflict if ours changed values of it."""
    if not cells:
        return text
    text += f", of which {cells} values changed here"
    return ColumnConflict(name, _values(cells), done, text)


def _values(cells: int) -> str:
    return f"changed {cells} value{'s' if cells != 1 else ''}"


def _changed_by_ours(
    to_theirs: DiffPlan, between: DiffPlan, changes: Changes
) -> Iterator[str | ColumnConflict]:
    there = {pair.old.name: pair for pair in between.columns if pair.old is not None}
    new = len(changes.inserted)
    for pair in to_theirs.columns:
        here, cells = there.get(pair.name), changes.cells.get(pair.name, 0)
        if pair.old is None:
            continue
        if here is None and cells:
            text = f"column {pair.name!r} is gone, of which {cells} values changed"
            yield ColumnConflict(pair.name, "dropped", _values(cells), text)
        elif here is not None and here.kind != pair.kind and cells + new and not pair.is_cast:
            text = f"column {pair.name!r} is {here.kind}, and {cells + new} values changed"
            yield ColumnConflict(pair.name, f"cast to {here.kind}", _values(cells + new), text)
    for pair in between.columns:
        if pair.old is None and not pair.new.nullable and new:
            yield f"column {pair.name!r} cannot be null, and {new} new rows lack it"
