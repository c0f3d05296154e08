"""Whether changes of rows of one side have a place in the columns of the other."""

from __future__ import annotations

from collections.abc import Iterator

from lancekit.errors import SchemaMismatchError
from lancekit.operations.lineage.diff import Changes
from lancekit.operations.lineage.diff_plan import DiffPlan
from lancekit.pipeline.diff.fragments import ColumnPair

__all__ = ["added_columns", "check_columns"]


def added_columns(to_theirs: DiffPlan, between: DiffPlan) -> list[ColumnPair]:
    """Return the columns that theirs has, and neither the base nor ours."""
    known = {pair.old.name for pair in between.columns if pair.old is not None}
    return [p for p in to_theirs.columns if p.old is None and p.name not in known]


def check_columns(
    to_theirs: DiffPlan, to_ours: DiffPlan, between: DiffPlan, changes: Changes
) -> None:
    """Raise ``SchemaMismatchError`` if theirs changed columns, or values of those that ours did.

    Parameters
    ----------
    to_theirs, to_ours, between
        From the common version to each side, and from theirs to ours.
    changes
        The rows that theirs changed.
    """
    problems = [
        *_changed_by_theirs(to_theirs, to_ours, between),
        *_changed_by_ours(to_theirs, between, changes),
    ]
    if problems:
        raise SchemaMismatchError(
            f"The changes of rows from {to_theirs.old.called} to {to_theirs.new.called} do not fit "
            f"the columns of {between.new.called}: {'; '.join(problems)}.",
            hint="Change the columns of one side to those of the other first.",
            problems=problems,
        )


def _changed_by_theirs(to_theirs: DiffPlan, to_ours: DiffPlan, between: DiffPlan) -> Iterator[str]:
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
            yield f"column {field.name!r} was dropped"
    for pair in to_theirs.columns:
        here = None if pair.old is None else ours.get(pair.old.name)
        if pair.old is None or here is None:
            continue
        if pair.name not in (pair.old.name, here.name):
            yield f"column {pair.old.name!r} was renamed to {pair.name!r}"
        if pair.old.to_arrow().type != pair.kind != here.kind:
            yield f"column {pair.name!r} was cast to {pair.kind}"


def _changed_by_ours(to_theirs: DiffPlan, between: DiffPlan, changes: Changes) -> Iterator[str]:
    there = {pair.old.name: pair for pair in between.columns if pair.old is not None}
    new = len(changes.inserted)
    for pair in to_theirs.columns:
        here, cells = there.get(pair.name), changes.cells.get(pair.name, 0)
        if pair.old is None:
            continue
        if here is None and cells:
            yield f"column {pair.name!r} is gone, of which {cells} values changed"
        elif here is not None and here.kind != pair.kind and cells + new:
            yield f"column {pair.name!r} is {here.kind}, and {cells + new} values changed"
    for pair in between.columns:
        if pair.old is None and not pair.new.nullable and new:
            yield f"column {pair.name!r} cannot be null, and {new} new rows lack it"
