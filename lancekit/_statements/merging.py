"""MERGE INTO: bind its clauses, then run one merge-insert of the handle, or computed changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from sqlglot import exp

from lancekit._api.lance_dataset import LanceDataset
from lancekit._api.merge_builder import MergeInsertBuilder
from lancekit._format.paths import show_path
from lancekit._pipeline.source_keys import repeated_in_source
from lancekit._scan.expressions.predicate import Unbound
from lancekit._statements.changes import fitting, own_column, path_in, target_of, typed
from lancekit._statements.computed import (
    TRUE,
    Changes,
    Step,
    address_of,
    all_of,
    as_filter,
    expressible,
    rows_for,
    run_changes,
)
from lancekit._statements.correlated import check_no_row
from lancekit._statements.dialect import spelled_tree
from lancekit._statements.expressions import compile_expression, condition
from lancekit._statements.filter_syntax import ColumnPath, NotFilterError, push_down
from lancekit._statements.functions import BOOL
from lancekit._statements.queries import relation_of
from lancekit._statements.scope import Scope, Seen
from lancekit._statements.select import run_query
from lancekit._statements.tables import json_columns
from lancekit._statements.tree import BIGINT, Expr, Join, JoinKind, Output, Select

_NAMES: Mapping[_Side, str] = {
    "matched": "WHEN MATCHED",
    "new": "WHEN NOT MATCHED",
    "source": "WHEN NOT MATCHED BY SOURCE",
}
#: the maximal number of repeated keys in an error, and the hint
_SHOWN = 10
_ONE_ROW = "Keep one row for each key: USING (SELECT ...), with GROUP BY or row_number()."


def merge(tree: exp.Expression, scope: Scope, *, preview: bool) -> object:
    """Run a MERGE, or preview it.

    Raises PredicateError: the merge does not match rows by equal keys, changes the key of a row, or
        needs an expression on which engines do not agree.
    Raises DuplicateKeysError: a key is in the source twice.
    """
    scope.text.only(tree, "this", "using", "on", "whens")
    handle, target = target_of(tree.this, scope)
    source = relation_of(tree.args["using"], scope)
    if source.alias.lower() == target.alias.lower():
        raise scope.text.fail(tree.args["using"], "both sides have one name:", "Add AS.")
    scope.seen = [target, source]
    keys, equal, more = _matching(tree.args["on"], target, source, scope)
    read = _Clauses(scope, target, source, keys)
    found = _Merge(
        handle=handle,
        scope=scope,
        target=target,
        source=source,
        keys=keys,
        on=all_of(*equal, *more),
        more=more,
        clauses=[read.clause(when) for when in tree.args["whens"].expressions],
    )
    _check_reached(found)
    run = _as_merge_insert(found)
    if run is not None:
        return run(preview=preview)
    _check_keys(found)
    return run_changes(_changes(found), scope, preview=preview)


def _matching(
    tree: exp.Expression, target: Seen, source: Seen, scope: Scope
) -> tuple[dict[str, Expr], list[Expr], tuple[Expr, ...]]:
    """Return the keys with their source values, the equality conditions, and other conditions."""
    numbers = target.relation.number, source.relation.number
    keys, equal, more = dict[str, Expr](), list[Expr](), list[Expr]()
    for part in tree.flatten() if isinstance(tree, exp.And) else [tree]:
        found = condition(part, scope, "ON")
        sides = {tuple({p.value[0] for p in a.walk() if p.op == "column"}): a for a in found.args}
        own = sides.get((numbers[0],))
        while own is not None and own.op == "cast":
            own = own.args[0]
        if found.op != "=" or set(sides) != {(numbers[0],), (numbers[1],)} or own is None:
            more.append(found)
            continue
        if own.op != "column":
            raise scope.text.fail(part, "the key of a merge must be a column of the target:")
        names = {at: name for name, at in target.relation.used.items()}  # type: ignore[union-attr]
        theirs = sides[(numbers[1],)]
        while theirs.op == "cast" and theirs.args[0].op == "column":
            theirs = theirs.args[0]  # the merge casts it to the key's type
        keys[names[own.value[1]]] = theirs
        equal.append(found)
    if not keys:
        raise scope.text.fail(
            tree,
            "a merge needs equal keys in ON:",
            "Write ON target.key = source.key; add more conditions with AND.",
        )
    for one in more:
        check_no_row(one, scope.text)
        if any(part.is_query for part in one.walk()):
            raise scope.text.fail(one, "a subquery cannot be in ON:", "Put it into USING.")
    return keys, equal, tuple(more)


# ---- WHEN ... THEN ...


@dataclass(frozen=True, slots=True)
class _Clauses:
    """Binder of the WHEN clauses of a merge."""

    scope: Scope
    target: Seen
    source: Seen
    keys: Mapping[str, Expr]

    def clause(self, when: exp.Expression) -> _Clause:
        then, side = when.args["then"], _side(when)
        seen = {"matched": [self.target, self.source], "new": [self.source]}
        scope = Scope(self.scope.text, seen=seen.get(side, [self.target]))
        tree = when.args.get("condition")
        clause = None if tree is None else condition(tree, scope, _NAMES[side])
        values = self._values(then, side, scope)
        for one in [*([clause] if clause is not None else []), *(values or {}).values()]:
            check_no_row(one, scope.text)
        return _Clause(side=side, when=clause, values=values, tree=when)

    def _values(self, then: object, side: _Side, scope: Scope) -> dict[str, Expr] | None:
        if isinstance(then, exp.Insert) and side == "new":
            return self._inserted(then, scope)
        if isinstance(then, exp.Update) and side != "new":
            return self._updated(then, side, scope)
        if isinstance(then, exp.Var) and then.name.upper() == "DELETE" and side != "new":
            return None
        expected = "INSERT" if side == "new" else "UPDATE or DELETE"
        raise scope.text.fail(then, f"{_NAMES[side]} must have {expected}:")

    def _updated(self, then: exp.Expression, side: _Side, scope: Scope) -> dict[str, Expr]:
        found = dict[str, Expr]()
        for one in then.expressions:
            if isinstance(one, exp.Star):
                if side == "source" or len(then.expressions) > 1:
                    hint = "Name columns: SET a = ..., b = ..."
                    raise scope.text.fail(one, "* must be alone:", hint)
                found = self._starred(then)
                continue
            if not isinstance(one, exp.EQ) or not isinstance(one.this, exp.Column):
                raise scope.text.fail(one, "SET takes a column, = and its new value:")
            name, value = self._value(one.this, one.expression, scope)
            if name in found:
                raise scope.text.fail(one, f"column {name!r} is set twice:")
            found[name] = value
        for key, expr in self.keys.items():
            if key in found and found.pop(key) != expr:
                raise scope.text.fail(
                    then, f"a merge cannot change the key {key!r}:", "UPDATE changes it."
                )
        return found

    def _inserted(self, then: exp.Expression, scope: Scope) -> dict[str, Expr]:
        if isinstance(then.this, exp.Star):
            found = self._starred(then)
        else:
            columns = then.this.expressions if isinstance(then.this, exp.Tuple) else []
            values = then.expression.expressions if then.expression is not None else []
            if len(columns) != len(values) or not columns:
                many = f"{len(values)} values for {len(columns)} columns:"
                raise scope.text.fail(then, many, "Write INSERT (a, b) VALUES (x, y), or INSERT *.")
            found = {}
            for column, tree in zip(columns, values, strict=True):
                name, value = self._value(column, tree, scope)
                if name in found:
                    raise scope.text.fail(column, f"column {name!r} is named twice:")
                found[name] = value
        for key, expr in self.keys.items():
            if found.get(key) != expr:
                message = f"the key {key!r} of a new row must be its source key:"
                raise scope.text.fail(then, message)
        return found

    def _starred(self, tree: exp.Expression) -> dict[str, Expr]:
        """Return the values of ``*``: the source's columns by the target's names."""
        found = dict[str, Expr]()
        for column in self.source.columns:
            own = self.scope.one_column(self.target, column.name, tree, "the target has no column")
            found[own.name] = self.source.expr(column, 0)
        return found

    def _value(self, column_tree: object, tree: exp.Expression, scope: Scope) -> tuple[str, Expr]:
        column = own_column(column_tree, self.target, self.scope)
        value = compile_expression(tree, scope)
        fitted = fitting(value, column, tree, self.scope)
        return column.name, replace(fitted, place=value.place)


def _side(when: exp.Expression) -> _Side:
    if when.args.get("matched"):
        return "matched"
    return "source" if when.args.get("source") else "new"


def _check_reached(found: _Merge) -> None:
    """Raise if a clause can never apply, because an earlier one of its side has no condition."""
    closed = set[_Side]()
    for clause in found.clauses:
        if clause.side in closed:
            message = f"an earlier {_NAMES[clause.side]} has no condition:"
            raise found.scope.text.fail(clause.tree, message, "The first match applies.")
        if clause.when is None:
            closed.add(clause.side)


# ---- a merge as computed changes


def _changes(found: _Merge) -> Changes:
    """Return the merge as changes: a join of both sides, and a step for each clause."""
    sides = {clause.side for clause in found.clauses}
    kinds: Mapping[tuple[bool, bool], JoinKind] = {
        (False, False): "inner",
        (True, False): "right",
        (False, True): "left",
        (True, True): "full",
    }
    kind = kinds["new" in sides, "source" in sides]
    in_target = Expr("not", (Expr("is null", (address_of(found.target),), BOOL),), BOOL)
    both = Expr("is true", (found.on,), BOOL)
    which: Mapping[_Side, Expr] = {
        "matched": {"inner": TRUE, "right": in_target}.get(kind, both),
        "new": Expr("not", (in_target,), BOOL),
        "source": all_of(in_target, Expr("not", (both,), BOOL)),
    }
    return Changes(
        handle=found.handle,
        target=found.target,
        steps=[
            Step(
                all_of(which[one.side], one.when),
                typed(one.values, found.target, one.tree, found.scope),
                new=one.side == "new",
            )
            for one in found.clauses
        ],
        joins=(Join(kind, found.source.relation, found.on),),
        known_by=tuple(found.keys),
        rules=tuple(spelled_tree(clause.tree) for clause in found.clauses),
    )


def _check_keys(found: _Merge) -> None:
    """Raise ``DuplicateKeysError`` if a key without nulls occurs twice in the source.

    With further conditions in ON, keys may repeat, and the merge checks the matches instead.
    """
    if found.more:
        return
    keys = tuple(found.keys.values())
    count = Expr("aggregate", (), BIGINT, ("count", False, False))
    known = [Expr("not", (Expr("is null", (key,), BOOL),), BOOL) for key in keys]
    twice = Select(
        outputs=(*(Output(f"k{at}", key) for at, key in enumerate(keys)), Output("rows", count)),
        first=found.source.relation,
        group=keys,
        having=all_of(Expr(">", (count, Expr("literal", (), BIGINT, 1)), BOOL), *known),
    )
    rows = run_query(twice, found.scope.text.sql).to_table()
    if rows.num_rows:
        shown = [tuple(row.values())[:-1] for row in rows.slice(0, _SHOWN).to_pylist()]
        many = sum(rows["rows"].to_pylist())
        raise repeated_in_source(tuple(found.keys), shown, many, hint=_ONE_ROW)


# ---- a bound MERGE, and its translation to one merge-insert of the handle, if that is equivalent

_Side: TypeAlias = Literal["matched", "new", "source"]
Run = Callable[..., object]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clause:
    """A bound WHEN clause: the side of its rows, its condition, and its values.

    `values` are the new values by column of the target; ``None`` deletes the row.
    """

    side: _Side
    when: Expr | None
    values: Mapping[str, Expr] | None
    tree: exp.Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class _Merge:
    """A bound MERGE.

    `keys` are columns of the target with their source values.  `more` are further conditions for a
    match.
    """

    handle: LanceDataset
    scope: Scope
    target: Seen
    source: Seen
    keys: Mapping[str, Expr]
    on: Expr
    more: tuple[Expr, ...]
    clauses: Sequence[_Clause]

    def of(self, side: _Side) -> list[_Clause]:
        """Return the clauses for rows of one side."""
        return [clause for clause in self.clauses if clause.side == side]


def _as_merge_insert(found: _Merge) -> Run | None:
    """Return a function that runs the merge as one merge-insert; ``None`` if that is impossible.

    It is possible if each side has at most one clause, and matched and new rows get equal values.
    """
    matched, new, others = (found.of(side) for side in ("matched", "new", "source"))
    if found.more or max(map(len, (matched, new, others))) > 1:
        return None
    source = found.source.relation.number
    given = [value for clause in (*matched, *new) for value in (clause.values or {}).values()]
    columns = (part for value in given for part in value.walk() if part.op == "column")
    if any(part.value[0] != source for part in columns):
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

    def run(*, preview: bool) -> object:
        select = push_down(
            Select(
                outputs=tuple(Output(name, expr) for name, expr in outputs.items()),
                first=found.source.relation,
                where=rest,
            )
        )
        rows = rows_for(select, list(outputs), found.scope.text.sql, found.handle)
        return builder.preview(rows) if preview else builder.execute(rows)

    return run


def _builder(found: _Merge, outputs: Mapping[str, Expr]) -> MergeInsertBuilder | None:
    """Return the merge-insert that equals a MERGE; ``None`` if there is none."""
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


def _outputs(found: _Merge) -> dict[str, Expr] | None:
    """Return the source's values by column; ``None`` if they differ for matched and new rows."""
    updated = next((one.values for one in found.of("matched")), None)
    inserted = next((one.values for one in found.of("new")), None)
    keys = dict(found.keys)
    if updated is None or inserted is None:
        return {**keys, **(inserted or updated or {})}
    changed = {name: value for name, value in inserted.items() if name not in keys}
    return dict(inserted) if changed == dict(updated) else None


def _when(clause: _Clause, found: _Merge, column: ColumnPath) -> Unbound | None:
    if clause.when is None:
        return None
    if not expressible(clause.when):
        raise NotFilterError(clause.when)
    return as_filter(clause.when, found.scope, column)


def _both_sides(found: _Merge, outputs: Mapping[str, Expr]) -> ColumnPath:
    """Return a function that gives the path of a column in ``source`` or ``target``."""
    own, json = path_in(found.target), json_columns(found.handle)

    def path(expr: Expr) -> tuple[str, ...]:
        if expr.value[0] == found.target.relation.number:
            return ("target", *own(expr))
        for name, output in outputs.items():
            if output == expr and name not in json:
                return ("source", name)
        raise NotFilterError(expr)

    return path
