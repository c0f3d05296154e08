"""Changes that a query works out: which rows, by their addresses, get which values, and which go.

What no operation can be asked for in words of its own is computed where queries are, over the very
version that changes, and lands as one merge by address: with its conflicts, and worked out again,
all of it, if others were in the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pyarrow as pa

from lancekit._api.lance_dataset import LanceDataset
from lancekit._api.scanner import scan_of
from lancekit._arguments.scan import ScanArguments
from lancekit._format.column_names import ROW_ADDRESS
from lancekit._operations.common.results import MergeResult
from lancekit._operations.common.retry import RetryPolicy
from lancekit._operations.explain.merge import MergePlan, preview_merge
from lancekit._operations.merge_insert import merge_computed
from lancekit._pipeline.merge_plan import MergeClauses
from lancekit._pipeline.source import Source, open_source
from lancekit._scan.expressions.predicate import Unbound
from lancekit._scan.expressions.syntax_text import quoted
from lancekit._statements.filter_syntax import ColumnPath, NotFilterError, push_down, unbound
from lancekit._statements.literals import constant
from lancekit._statements.scope import Column, Scope, Seen
from lancekit._statements.select import choose, leaves_of, outer_columns, run_query
from lancekit._statements.tables import Table
from lancekit._statements.tree import BIGINT, Expr, Join, Leaf, Output, Query, Select, family
from lancekit._versions.snapshot import Snapshot

TRUE = Expr("literal", (), pa.bool_(), True)


@dataclass(frozen=True, slots=True)
class Step:
    """What becomes of the rows for which its condition is the first that holds.

    `values` are those of columns, of their types; ``None`` deletes the row.  `new` rows are none of
    the target's yet.
    """

    when: Expr
    values: Mapping[str, Expr] | None
    new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes of a dataset's rows, of which those count that one of the `steps` is for.

    handle, target: the dataset, and how expressions see it.
    joins: what it is joined with.
    where: conditions that hold for all of the rows, whatever the step.
    known_by, rules: as in `MergeClauses`.
    """

    handle: LanceDataset
    target: Seen
    steps: Sequence[Step]
    joins: tuple[Join, ...] = ()
    where: tuple[Expr, ...] = ()
    known_by: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()


def address_of(target: Seen) -> Expr:
    """Return the address of a row, as a column that no user sees."""
    return target.expr(Column(ROW_ADDRESS, BIGINT), 0)


def all_of(*conditions: Expr | None) -> Expr:
    """Return the condition that all of some hold; ``None`` is none."""
    found = tuple(one for one in conditions if one is not None and one != TRUE)
    return found[0] if len(found) == 1 else Expr("and", found, pa.bool_()) if found else TRUE


def run_changes(changes: Changes, scope: Scope, *, preview: bool) -> MergeResult | MergePlan:
    """Make changes, or preview them: a `MergeResult`, or a `MergePlan`."""
    handle, deleting = changes.handle, _deleting(changes)
    query = _select(changes, deleting, scope)
    clauses, policy, begun = _clauses(changes, deleting), RetryPolicy(), handle.version

    def rows_of(current: Snapshot) -> Source:
        for leaf in leaves_of(query):
            _move(leaf, handle, begun, current)
        names = [output.name for output in query.outputs]
        return open_source(rows_for(_settled(query, scope), names, scope.text.sql))

    def merged(snapshot: Snapshot) -> tuple[Snapshot, MergeResult]:
        return merge_computed(snapshot, rows_of, clauses, policy)

    if not preview:
        return handle._move(merged)
    here, choice = handle._snapshot, choose(query)
    return preview_merge(here, rows_of(here), clauses, policy, handle._move, choice, merged)


def _move(leaf: Leaf, handle: LanceDataset, begun: int, current: Snapshot) -> None:
    """Have a table read the version that changes, if it is that of the dataset itself.

    A handle at another version, or one that is pinned, stays where it is.
    """
    own = leaf.table.handle
    if own is None or own._read_only or own._location != handle._location:
        return
    if own.version in (begun, leaf.table.moved_to):
        moved = handle._other(current)
        leaf.table = Table.of(leaf.table.name, moved, moved_to=moved.version)


def _deleting(changes: Changes) -> str | None:
    """Return the name of the column that says which rows go, where others stay."""
    if all(step.values is None for step in changes.steps):
        return None
    if all(step.values is not None or step.new for step in changes.steps):
        return None
    names = {name.lower() for name in changes.handle.schema.names}
    return next(name for at in count(1) if (name := f"deleted{at}") not in names)


def _clauses(changes: Changes, deleting: str | None) -> MergeClauses:
    steps = changes.steps
    updates = any(step.values is not None and not step.new for step in steps)
    deletes = any(step.values is None for step in steps)
    used: Mapping[str, int] = changes.target.relation.used  # type: ignore[union-attr]
    return MergeClauses(
        on=(ROW_ADDRESS,),
        matched="update" if updates or deleting else "delete" if deletes else "keep",
        insert=any(step.new for step in steps),
        deleting=deleting,
        known_by=changes.known_by,
        worked_from=tuple(name for name in used if name != ROW_ADDRESS),
        rules=changes.rules,
    )


def _columns(changes: Changes) -> list[str]:
    """Return the columns that a step sets."""
    named = {name for step in changes.steps for name in step.values or ()}
    return [column.name for column in changes.target.columns if column.name in named]


def _select(changes: Changes, deleting: str | None, scope: Scope) -> Select:
    steps, target = changes.steps, changes.target
    outputs = [Output(ROW_ADDRESS, address_of(target))]
    if deleting is not None:
        gone = [Expr("literal", (), pa.bool_(), step.values is None) for step in steps]
        outputs.append(Output(deleting, _chosen(steps, gone)))
    for name in _columns(changes):
        (column,) = (one for one in target.columns if one.name == name)
        outputs.append(Output(name, _chosen(steps, _values(changes, column, scope))))
    whens = tuple(step.when for step in steps)
    some = () if TRUE in whens else (whens if len(whens) == 1 else (Expr("or", whens, pa.bool_()),))
    return push_down(
        Select(
            outputs=tuple(outputs),
            first=target.relation,
            joins=changes.joins,
            where=(*changes.where, *some),
        )
    )


def _values(changes: Changes, column: Column, scope: Scope) -> list[Expr]:
    """Return what each step gives a column; the others leave it as it is."""
    steps, target = changes.steps, changes.target
    given = [(step.values or {}).get(column.name) for step in steps]
    known = [one for one in given if one is not None and not _is_null(one)]
    if None in given or not known:
        known.append(target.expr(column, 0))
    kinds = {one.kind for one in known}
    if len(kinds) > 1:
        shown = " and ".join(map(str, kinds))
        raise scope.text.fail(known[0], f"column {column.name!r} gets values of {shown}:")
    own = known[-1]  # if a step leaves the column as it is; and where all give it null, the type
    if all(one is not None and _is_null(one) for one in given) and family(own.kind) == "other":
        null = Expr("literal", (), own.kind)
        given = [Expr("case", (Expr("not", (TRUE,), TRUE.kind), own, null), own.kind)]
        given *= len(steps)
    return [own if one is None else one for one in given]


def _is_null(expr: Expr) -> bool:
    return expr.op == "literal" and expr.value is None


def _chosen(steps: Sequence[Step], values: Sequence[Expr]) -> Expr:
    """Return the value of the first step whose condition holds, where one does."""
    if all(value == values[0] for value in values):
        return values[0]
    kind = next((value.kind for value in values if value.kind != pa.null()), pa.null())
    pairs = [part for step, value in zip(steps, values, strict=True) for part in (step.when, value)]
    return Expr("case", (*pairs[:-2], pairs[-1]), kind)


# ---- the rows that a change is given: as they are where that is possible, else what a query
# gives


def rows_for(query: Query, names: Sequence[str], sql: str) -> Any:
    """Return the rows of a query under some names, as what a write or a merge takes.

    Columns of one table come as they are: in its own types, some of which engines do not have.
    """
    leaf = _leaf(query)
    if leaf is None:
        result = run_query(query, sql)
        if result.frame is not None:
            return result.frame.toDF(*names)
        return result.to_table().rename_columns(list(names))
    own = {at: name for name, at in leaf.used.items()}
    wanted = [own[output.expr.value[1]] for output in query.outputs]
    table = leaf.table
    if table.handle is not None:
        if len(set(names)) < len(names) or not wanted:
            return table.handle
        columns = {name: quoted(one) for name, one in zip(names, wanted, strict=True)}
        options = ScanArguments(columns=columns, filter=leaf.filter, limit=leaf.limit)
        return scan_of(table.handle._snapshot, options)
    if table.on_spark:
        return table.frame(wanted, None, None)[0].toDF(*names)
    rows: pa.Table = table.source.select(wanted).rename_columns(list(names))
    return rows.slice(0, leaf.limit)


def _leaf(query: Query) -> Leaf | None:
    """Return the one table whose columns, and nothing else, a query has."""
    if not isinstance(query, Select) or not isinstance(query.first, Leaf):
        return None
    more = query.joins or query.where or query.group is not None or query.having is not None
    if more or query.distinct or query.order or query.offset:
        return None
    plain = all(output.expr.op == "column" for output in query.outputs)
    limited = query.limit is None or query.first.limit == query.limit
    return query.first if plain and limited else None


# ---- queries inside of changes: those that look at no row around them are answered first, once
#
# What is left of a condition or a value is put into the language of filters, if that has the words.


def expressible(expr: Expr) -> bool:
    """Tell whether filters have words for a condition or a value, once its queries are answered."""
    try:
        unbound(_answered(expr), lambda column: ("x",))  # noqa: ARG005  # whatever it is called
    except NotFilterError:
        return False
    return True


def _answered(expr: Expr) -> Expr:
    """Return an expression with some value in the place of each query."""
    args = tuple(map(_answered, expr.args))
    if not expr.is_query:
        return replace(expr, args=args)
    if outer_columns(expr.value):
        raise NotFilterError(expr)
    none = Expr("literal", (), expr.kind)
    return Expr("in", (*args, none), pa.bool_()) if expr.op == "in query" else none


def as_filter(expr: Expr, scope: Scope, column: ColumnPath) -> Unbound:
    """Return what is `expressible` in the language of filters.

    Raises NotFilterError: it is not, or a query in it gives a value that filters have no words for.
    """
    return unbound(_Answers(scope).settled(expr), column)


def _settled(select: Select, scope: Scope) -> Select:
    """Return a query with what the queries in its columns and conditions give in their places."""
    answers = _Answers(scope)
    return replace(
        select,
        outputs=tuple(Output(one.name, answers.settled(one.expr)) for one in select.outputs),
        where=tuple(map(answers.settled, select.where)),
    )


@dataclass(slots=True)
class _Answers:
    """The answers of queries, each of which is asked once."""

    scope: Scope
    known: dict[int, tuple[Query, pa.Table]] = field(default_factory=dict)

    def settled(self, expr: Expr) -> Expr:
        args = tuple(map(self.settled, expr.args))
        if not expr.is_query or outer_columns(expr.value):
            return replace(expr, args=args)
        rows = self._rows(expr.value)
        if expr.op == "exists":
            return Expr("literal", (), pa.bool_(), rows.num_rows > 0, expr.place)
        values = [self._constant(value, expr) for value in rows.column(0).to_pylist()]
        if expr.op == "in query":
            if not values:
                return Expr("literal", (), pa.bool_(), False, expr.place)
            return Expr("in", (*args, *dict.fromkeys(values)), pa.bool_(), place=expr.place)
        if len(values) > 1:
            message = f"a query in the place of a value gives {len(values)} rows:"
            raise self.scope.text.fail(expr, message)
        return values[0] if values else Expr("literal", (), expr.kind)

    def _rows(self, query: Query) -> pa.Table:
        if id(query) not in self.known:
            rows = run_query(query, self.scope.text.sql).to_table()
            self.known[id(query)] = query, rows  # which lives as long as its number
        return self.known[id(query)][1]

    def _constant(self, value: object, expr: Expr) -> Expr:
        kind = expr.value.outputs[0].expr.kind
        found = constant(value, expr.place)
        if found is None:
            raise self.scope.text.fail(expr, f"a query in a change gives no values of {kind}:")
        return replace(found, kind=kind)
