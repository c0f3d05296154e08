"""MERGE INTO: what its clauses mean; then one merge-insert of the handle, or what a query makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from lancekit.pipeline.keys.repeated import repeated_in_source
from lancekit.statements.changes import fitting, own_column, target_of, typed
from lancekit.statements.computed import TRUE, Changes, Step, address_of, all_of, run_changes
from lancekit.statements.correlated import check_no_row
from lancekit.statements.dialect import spelled_tree
from lancekit.statements.expressions import compile_expression, condition
from lancekit.statements.functions import BOOL
from lancekit.statements.joins import relation_of
from lancekit.statements.kinds import BIGINT
from lancekit.statements.merge_insert import Clause, Merge, Side, as_merge_insert
from lancekit.statements.scope import Scope, Seen, matching
from lancekit.statements.select import run_query
from lancekit.statements.tree import Expr, Join, JoinKind, Output, Select

__all__ = ["merge"]

_NAMES: Mapping[Side, str] = {
    "matched": "WHEN MATCHED",
    "new": "WHEN NOT MATCHED",
    "source": "WHEN NOT MATCHED BY SOURCE",
}
#: keys that are named as being there twice, and what to do about them
_SHOWN = 10
_ONE_ROW = "Leave one row for each key: USING (SELECT ...), with GROUP BY or row_number()."


def merge(tree: Any, scope: Scope, *, preview: bool) -> Any:
    """Run a MERGE, or preview it.

    Raises
    ------
    PredicateError
        It matches rows by other things than equal keys, gives a row another key, or asks for what
        engines do not agree on.
    DuplicateKeysError
        A key is in the source twice.
    """
    scope.text.only(tree, "this", "using", "on", "whens")
    handle, target = target_of(tree.this, scope)
    source = relation_of(tree.args["using"], scope)
    if source.alias.lower() == target.alias.lower():
        raise scope.text.fail(tree.args["using"], "both sides have one name:", "Name one: AS.")
    scope.seen = [target, source]
    keys, equal, more = _matching(tree.args["on"], target, source, scope)
    read = _Clauses(scope, target, source, keys)
    found = Merge(
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
    run = as_merge_insert(found)
    if run is not None:
        return run(preview=preview)
    _check_keys(found)
    return run_changes(_changes(found), scope, preview=preview)


def _matching(
    tree: Any, target: Seen, source: Seen, scope: Scope
) -> tuple[dict[str, Expr], list[Expr], tuple[Expr, ...]]:
    """Return the keys and what they are equal to, these conditions, and what else has to hold."""
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
            raise scope.text.fail(part, "a key of a merge is a column of the target:")
        names = {at: name for name, at in target.relation.used.items()}  # type: ignore[union-attr]
        theirs = sides[(numbers[1],)]
        while theirs.op == "cast" and theirs.args[0].op == "column":
            theirs = theirs.args[0]  # the merge brings it to the key's type
        keys[names[own.value[1]]] = theirs
        equal.append(found)
    if not keys:
        raise scope.text.fail(
            tree,
            "a merge matches rows by equal keys, and here are none:",
            "Write ON target.key = source.key; more conditions go behind AND.",
        )
    for one in more:
        check_no_row(one, scope.text)
        if any(part.op in ("query", "exists", "in query") for part in one.walk()):
            raise scope.text.fail(one, "a query cannot stand in ON:", "Put it into USING.")
    return keys, equal, tuple(more)


# ---- WHEN ... THEN ...


@dataclass(frozen=True, slots=True)
class _Clauses:
    """Reads the clauses of a merge."""

    scope: Scope
    target: Seen
    source: Seen
    keys: Mapping[str, Expr]

    def clause(self, when: Any) -> Clause:
        then, side = when.args["then"], _side(when)
        seen = {"matched": [self.target, self.source], "new": [self.source]}
        scope = Scope(self.scope.text, seen=seen.get(side, [self.target]))
        tree = when.args.get("condition")
        clause = None if tree is None else condition(tree, scope, _NAMES[side])
        values = self._values(then, side, scope)
        for one in [*([clause] if clause is not None else []), *(values or {}).values()]:
            check_no_row(one, scope.text)
        return Clause(side=side, when=clause, values=values, tree=when)

    def _values(self, then: Any, side: Side, scope: Scope) -> dict[str, Expr] | None:
        if isinstance(then, exp.Insert) and side == "new":
            return self._inserted(then, scope)
        if isinstance(then, exp.Update) and side != "new":
            return self._updated(then, side, scope)
        if isinstance(then, exp.Var) and then.name.upper() == "DELETE" and side != "new":
            return None
        there_is = "INSERT" if side == "new" else "UPDATE or DELETE"
        raise scope.text.fail(then, f"{_NAMES[side]} goes with {there_is}:")

    def _updated(self, then: Any, side: Side, scope: Scope) -> dict[str, Expr]:
        found = dict[str, Expr]()
        for one in then.expressions:
            if isinstance(one, exp.Star):
                if side == "source" or len(then.expressions) > 1:
                    hint = "Name columns: SET a = ..., b = ..."
                    raise scope.text.fail(one, "* is for all that the source gives, alone:", hint)
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
                    then, f"a row keeps its key {key!r} in a merge:", "UPDATE changes it."
                )
        return found

    def _inserted(self, then: Any, scope: Scope) -> dict[str, Expr]:
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
                message = f"a new row has the key {key!r} that it was looked for by:"
                raise scope.text.fail(then, message)
        return found

    def _starred(self, tree: Any) -> dict[str, Expr]:
        """Return what ``*`` stands for: the source's columns, which are the target's."""
        names = [column.name for column in self.target.columns]
        found = dict[str, Expr]()
        for column in self.source.columns:
            own = matching(column.name, names)
            if len(own) != 1:
                raise self.scope._missing(tree, column.name, names, "the target has no column")
            found[own[0]] = self.source.expr(column, 0)
        return found

    def _value(self, column_tree: Any, tree: Any, scope: Scope) -> tuple[str, Expr]:
        column = own_column(column_tree, self.target, self.scope)
        value = compile_expression(tree, scope)
        fitted = fitting(value, column, tree, self.scope)
        return column.name, replace(fitted, place=value.place)


def _side(when: Any) -> Side:
    if when.args.get("matched"):
        return "matched"
    return "source" if when.args.get("source") else "new"


def _check_reached(found: Merge) -> None:
    """Refuse a clause behind one of its side that takes all rows."""
    closed = set[Side]()
    for clause in found.clauses:
        if clause.side in closed:
            message = f"a {_NAMES[clause.side]} without a condition stands before this one:"
            raise found.scope.text.fail(clause.tree, message, "The first that holds counts.")
        if clause.when is None:
            closed.add(clause.side)


# ---- as what a query makes


def _changes(found: Merge) -> Changes:
    """Return the merge as steps over both sides, joined."""
    sides = {clause.side for clause in found.clauses}
    kinds: Mapping[tuple[bool, bool], JoinKind] = {
        (False, False): "inner",
        (True, False): "right",
        (False, True): "left",
        (True, True): "full",
    }
    kind = kinds["new" in sides, "source" in sides]
    there = Expr("not", (Expr("is null", (address_of(found.target),), BOOL),), BOOL)
    both = Expr("is true", (found.on,), BOOL)
    which: Mapping[Side, Expr] = {
        "matched": {"inner": TRUE, "right": there}.get(kind, both),
        "new": Expr("not", (there,), BOOL),
        "source": all_of(there, Expr("not", (both,), BOOL)),
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


def _check_keys(found: Merge) -> None:
    """Refuse a source that has a key, without a null, twice.

    With more conditions in ON that tells nothing: then it is found by the rows that match.
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
