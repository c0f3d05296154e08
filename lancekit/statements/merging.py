"""MERGE INTO: a merge-insert of the handle, whose source a query makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from lancekit.api.merge_builder import MergeInsertBuilder
from lancekit.format.paths import show_path
from lancekit.statements.changes import fitting, own_column, target_of
from lancekit.statements.expressions import compile_expression, condition
from lancekit.statements.filters import quoted
from lancekit.statements.joins import relation_of
from lancekit.statements.pushdown import push_down
from lancekit.statements.rows import rows_for
from lancekit.statements.scope import Scope, Seen, matching
from lancekit.statements.settled import change_text
from lancekit.statements.tree import Expr, Output, Select

__all__ = ["merge"]


@dataclass(slots=True)
class _Merge:
    """A merge as it is put together: what each side is called, and what the source has to give."""

    scope: Scope
    target: Seen
    source: Seen
    keys: Mapping[str, Expr]
    builder: MergeInsertBuilder
    #: the columns that matched and new rows get, by the target's names
    updated: dict[str, Expr] | None = None
    inserted: dict[str, Expr] | None = None
    rest: list[Expr] = field(default_factory=list)
    condition: Any = None

    def starred(self, tree: Any) -> dict[str, Expr]:
        """Return what ``*`` stands for: the source's columns, which are the target's."""
        names = [column.name for column in self.target.columns]
        found = dict[str, Expr]()
        for column in self.source.columns:
            own = matching(column.name, names)
            if len(own) != 1:
                raise self.scope._missing(tree, column.name, names, "the target has no column")
            found[own[0]] = self.source.expr(column, 0)
        return found

    def value(self, column_tree: Any, tree: Any) -> tuple[str, Expr]:
        """Return a column of the target, and what the source gives it."""
        column = own_column(column_tree, self.target, self.scope)
        for part in tree.find_all(exp.Column):
            if part.table.lower() == self.target.alias.lower():
                raise self.scope.text.fail(
                    part,
                    "a merge gives rows what the source has, and this is the target's:",
                    "Compute it in the source: USING (SELECT ... FROM source JOIN target ...).",
                )
        value = compile_expression(tree, Scope(self.scope.text, seen=[self.source]))
        return column.name, fitting(value, column, tree, self.scope)


def merge(tree: Any, scope: Scope, *, preview: bool) -> Any:
    """Run a MERGE, or preview it.

    Raises
    ------
    PredicateError
        It asks for more than a merge-insert does: other matches than by equal keys, values made of
        both sides, or other values for matched rows than for new ones.
    """
    scope.text.only(tree, "this", "using", "on", "whens")
    handle, target = target_of(tree.this, scope)
    source = relation_of(tree.args["using"], scope)
    if source.alias.lower() == target.alias.lower():
        raise scope.text.fail(tree.args["using"], "both sides have one name:", "Name one: AS.")
    scope.seen = [target, source]
    keys = _keys(tree.args["on"], target, source, scope)
    builder = handle.merge_insert([show_path([name]) for name in keys])
    found = _Merge(scope, target, source, keys, builder)
    for when in tree.args["whens"].expressions:
        _WHENS[_kind(when)](found, when)
    outputs = _outputs(found, tree)
    if found.condition is not None:
        text = change_text(found.condition, scope, _both_sides(found, outputs))
        found.builder.when_matched_update_all(text)
    select = push_down(
        Select(
            outputs=tuple(Output(name, expr) for name, expr in outputs.items()),
            first=source.relation,
            where=tuple(found.rest),
        )
    )
    rows = rows_for(select, list(outputs), scope.text.sql)
    return found.builder.preview(rows) if preview else found.builder.execute(rows)


def _keys(tree: Any, target: Seen, source: Seen, scope: Scope) -> dict[str, Expr]:
    numbers = target.relation.number, source.relation.number
    keys = dict[str, Expr]()
    for part in tree.flatten() if isinstance(tree, exp.And) else [tree]:
        found = condition(part, scope, "ON")
        sides = {tuple({p.value[0] for p in a.walk() if p.op == "column"}): a for a in found.args}
        if found.op != "=" or set(sides) != {(numbers[0],), (numbers[1],)}:
            raise scope.text.fail(
                part,
                "a merge matches rows by equal keys, joined by AND:",
                "Other conditions go behind WHEN MATCHED AND.",
            )
        own = sides[(numbers[0],)]
        while own.op == "cast":
            own = own.args[0]
        if own.op != "column":
            raise scope.text.fail(part, "a key of a merge is a column of the target:")
        names = {at: name for name, at in target.relation.used.items()}  # type: ignore[union-attr]
        theirs = sides[(numbers[1],)]
        while theirs.op == "cast" and theirs.args[0].op == "column":
            theirs = theirs.args[0]  # the merge brings it to the key's type
        keys[names[own.value[1]]] = theirs
    return keys


# ---- WHEN ... THEN ...


def _kind(when: Any) -> tuple[str, str]:
    then = when.args["then"]
    doing = "update" if isinstance(then, exp.Update) else "insert"
    if isinstance(then, exp.Var):
        doing = then.name.lower()
    if when.args.get("matched"):
        return "matched", doing
    return ("source" if when.args.get("source") else "new"), doing


def _update(found: _Merge, when: Any) -> None:
    then, text = when.args["then"], found.scope.text
    if found.updated is not None:
        raise text.fail(when, "there is more than one WHEN MATCHED:")
    if len(then.expressions) == 1 and isinstance(then.expressions[0], exp.Star):
        found.updated = found.starred(then)
    else:
        found.updated = dict(found.value(one.this, one.expression) for one in then.expressions)
    for key, expr in found.keys.items():
        if found.updated.setdefault(key, expr) != expr:
            raise text.fail(then, f"the key {key!r} of a row that matches stays what it is:")
    clause = when.args.get("condition")
    if clause is None:
        found.builder.when_matched_update_all()
    else:
        found.condition = condition(clause, found.scope, "WHEN MATCHED")


def _delete(found: _Merge, when: Any) -> None:
    if found.updated is not None:
        raise found.scope.text.fail(when, "there is more than one WHEN MATCHED:")
    if when.args.get("condition") is not None:
        raise found.scope.text.fail(
            when.args["condition"],
            "WHEN MATCHED THEN DELETE takes no condition:",
            "Leave such rows out of the source: USING (SELECT ... WHERE ...).",
        )
    found.updated = dict(found.keys)
    found.builder.when_matched_delete()


def _insert(found: _Merge, when: Any) -> None:
    then, text = when.args["then"], found.scope.text
    if found.inserted is not None:
        raise text.fail(when, "there is more than one WHEN NOT MATCHED:")
    if isinstance(then.this, exp.Star):
        found.inserted = found.starred(then)
    else:
        names, values = then.this.expressions, then.expression.expressions
        if len(names) != len(values):
            raise text.fail(then, f"{len(values)} values for {len(names)} columns:")
        found.inserted = dict(map(found.value, names, values))
    for key, expr in found.keys.items():
        if found.inserted.get(key) != expr:
            raise text.fail(then, f"a new row has the key {key!r} that it was looked for by:")
    clause = when.args.get("condition")
    if clause is not None:
        own = Scope(text, seen=[found.source])
        found.rest.append(condition(clause, own, "WHEN NOT MATCHED"))
    found.builder.when_not_matched_insert_all()


def _delete_others(found: _Merge, when: Any) -> None:
    clause = when.args.get("condition")
    if clause is None:
        found.builder.when_not_matched_by_source_delete()
        return
    own = Scope(found.scope.text, seen=[found.target])
    where = condition(clause, own, "WHEN NOT MATCHED BY SOURCE")
    names = {at: name for name, at in found.target.relation.used.items()}  # type: ignore[union-attr]
    text = change_text(where, own, lambda expr: quoted(names[expr.value[1]]))
    found.builder.when_not_matched_by_source_delete(text)


def _refused(found: _Merge, when: Any) -> None:
    raise found.scope.text.fail(when.args["then"], "a merge-insert does not do this:")


_WHENS: Mapping[tuple[str, str], Any] = {
    ("matched", "update"): _update,
    ("matched", "delete"): _delete,
    ("new", "insert"): _insert,
    ("source", "delete"): _delete_others,
    ("source", "update"): _refused,
}


def _outputs(found: _Merge, tree: Any) -> dict[str, Expr]:
    """Return the columns that the source has to give, the same for matched and for new rows."""
    updated, inserted = found.updated, found.inserted
    text = found.scope.text
    if found.rest and updated is not None:
        raise text.fail(
            found.rest[0],
            "a condition of new rows beside WHEN MATCHED needs a merge of its own:",
        )
    if updated is None or inserted is None:
        return dict(inserted or updated or found.keys)
    if updated == dict(found.keys):  # matched rows are deleted
        return inserted
    if updated != inserted:
        raise text.fail(
            tree.args["whens"],
            "matched rows and new ones get different values or columns:",
            "A merge-insert gives both the source's: write two statements, or USING (SELECT ...).",
        )
    return inserted


def _both_sides(found: _Merge, outputs: Mapping[str, Expr]) -> Any:
    """Return what writes the columns of a condition, which sees ``source.`` and ``target.``."""
    names = {at: n for n, at in found.target.relation.used.items()}  # type: ignore[union-attr]

    def write(expr: Expr) -> str:
        if expr.value[0] == found.target.relation.number:
            return f"target.{quoted(names[expr.value[1]])}"
        for name, output in outputs.items():
            if output == expr:
                return f"source.{quoted(name)}"
        raise found.scope.text.fail(
            expr,
            "this column of the source goes into no column of the target:",
            "A condition sees what the merge writes; leave rows out by USING (SELECT ... WHERE).",
        )

    return write
