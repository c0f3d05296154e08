"""A MERGE as it was understood; and as one merge-insert of the handle, where that says the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from lancekit.api.lance_dataset import LanceDataset
from lancekit.api.merge_builder import MergeInsertBuilder
from lancekit.format.paths import show_path
from lancekit.scan.expressions.unbound import Unbound
from lancekit.statements.changes import path_in
from lancekit.statements.filter_syntax import ColumnPath, NotFilterError
from lancekit.statements.pushdown import push_down
from lancekit.statements.rows import rows_for
from lancekit.statements.scope import Scope, Seen
from lancekit.statements.settled import as_filter, expressible
from lancekit.statements.tree import Expr, Output, Select

__all__ = ["Clause", "Merge", "Side", "as_merge_insert"]

Side: TypeAlias = Literal["matched", "new", "source"]
Run = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """A clause: for rows of which side, on which condition, with which values.

    `values` are those that columns of the target get; ``None`` deletes the row.
    """

    side: Side
    when: Expr | None
    values: Mapping[str, Expr] | None
    tree: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A merge as it was understood.

    `keys` are columns of the target, and what they are equal to; `more` what else has to hold for
    rows to match.
    """

    handle: LanceDataset
    scope: Scope
    target: Seen
    source: Seen
    keys: Mapping[str, Expr]
    on: Expr
    more: tuple[Expr, ...]
    clauses: Sequence[Clause]

    def of(self, side: Side) -> list[Clause]:
        """Return the clauses for rows of one side."""
        return [clause for clause in self.clauses if clause.side == side]


def as_merge_insert(found: Merge) -> Run | None:
    """Return what runs a merge, or ``None``: a merge-insert does not do all that it asks for.

    Matched and new rows get the same of the source, and there is one clause for each side.
    """
    matched, new, others = (found.of(side) for side in ("matched", "new", "source"))
    if found.more or max(map(len, (matched, new, others))) > 1:
        return None
    source = found.source.relation.number
    given = [value for clause in (*matched, *new) for value in (clause.values or {}).values()]
    if not all(_is_of(value, source) for value in given):
        return None
    outputs = _outputs(found)
    if outputs is None:
        return None
    try:
        builder = _builder(found, outputs)
    except NotFilterError:
        return None
    if builder is None:
        return None
    rest = tuple(clause.when for clause in new if clause.when is not None)

    def run(*, preview: bool) -> Any:
        select = push_down(
            Select(
                outputs=tuple(Output(name, expr) for name, expr in outputs.items()),
                first=found.source.relation,
                where=rest,
            )
        )
        rows = rows_for(select, list(outputs), found.scope.text.sql)
        return builder.preview(rows) if preview else builder.execute(rows)

    return run


def _builder(found: Merge, outputs: Mapping[str, Expr]) -> MergeInsertBuilder | None:
    builder = found.handle.merge_insert([show_path([n]) for n in found.keys])
    matched, new, others = (found.of(side) for side in ("matched", "new", "source"))
    for clause in matched:
        if clause.values is None and clause.when is not None:
            return None
        if clause.values is None:
            builder.when_matched_delete()
        else:
            builder.when_matched_update_all(_when(clause, found, _both_sides(found, outputs)))
    for clause in new:
        if clause.when is not None and (matched or others):
            return None
        builder.when_not_matched_insert_all()
    for clause in others:
        if clause.values is not None:
            return None
        builder.when_not_matched_by_source_delete(_when(clause, found, path_in(found.target)))
    return builder


def _is_of(expr: Expr, number: int) -> bool:
    return all(part.value[0] == number for part in expr.walk() if part.op == "column")


def _outputs(found: Merge) -> dict[str, Expr] | None:
    """Return the columns that the source has to give, the same for matched and for new rows."""
    updated = next((one.values for one in found.of("matched")), None)
    inserted = next((one.values for one in found.of("new")), None)
    keys = dict(found.keys)
    if updated is None or inserted is None:
        return {**keys, **(inserted or updated or {})}
    changed = {name: value for name, value in inserted.items() if name not in keys}
    return dict(inserted) if changed == dict(updated) else None


def _when(clause: Clause, found: Merge, column: ColumnPath) -> Unbound | None:
    if clause.when is None:
        return None
    if not expressible(clause.when):
        raise NotFilterError(clause.when)
    return as_filter(clause.when, found.scope, column)


def _both_sides(found: Merge, outputs: Mapping[str, Expr]) -> ColumnPath:
    """Return what tells the paths in a condition, which sees ``source.`` and ``target.``."""
    own = path_in(found.target)

    def path(expr: Expr) -> tuple[str, ...]:
        if expr.value[0] == found.target.relation.number:
            return ("target", *own(expr))
        for name, output in outputs.items():
            if output == expr:
                return ("source", name)
        raise NotFilterError(expr)

    return path
