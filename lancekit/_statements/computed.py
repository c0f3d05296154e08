"""Changes that a query computes: the addresses of rows to update or delete, and their new values.

An UPDATE, DELETE or MERGE that no operation can express is computed by a query of the version that
it changes.  It is committed as one merge by row address, and computed again after a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from lancekit._pipeline.source_keys import repeated_for_a_row
from lancekit._scan.expressions.predicate import Unbound
from lancekit._scan.expressions.syntax_text import quoted
from lancekit._statements.filter_syntax import ColumnPath, NotFilterError, push_down, unbound
from lancekit._statements.literals import constant
from lancekit._statements.scope import Column, Scope, Seen
from lancekit._statements.select import choose, leaves_of, outer_columns, run_query
from lancekit._statements.tables import Table, wanted_rows, with_json
from lancekit._statements.tree import BIGINT, Expr, Join, Leaf, Output, Query, Select, family
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import DuplicateKeysError

TRUE = Expr("literal", (), pa.bool_(), True)


@dataclass(frozen=True, slots=True)
class Step:
    """A change of rows and its condition: each row gets the first step whose condition is true.

    values: the new values by column, in the columns' types.  ``None`` deletes the row.
    new: the rows are not in the target yet.
    """

    when: Expr
    values: Mapping[str, Expr] | None
    new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changes of a statement, which a query computes.

    handle, target: the dataset, and its relation for expressions.
    joins: the joins of the target.
    where: conditions that all changed rows meet.
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
    """Return the hidden column of row addresses."""
    return target.expr(Column(ROW_ADDRESS, BIGINT), 0)


def all_of(*conditions: Expr | None) -> Expr:
    """Return the conjunction of conditions; ``None`` counts as true."""
    found = tuple(one for one in conditions if one is not None and one != TRUE)
    return found[0] if len(found) == 1 else Expr("and", found, pa.bool_()) if found else TRUE


def run_changes(changes: Changes, scope: Scope, *, preview: bool) -> MergeResult | MergePlan:
    """Run changes and return a `MergeResult`, or preview them and return a `MergePlan`."""
    handle, deleting = changes.handle, _deleting(changes)
    query = _select(changes, deleting, scope)
    clauses, policy, begun = _clauses(changes, deleting), RetryPolicy(), handle.version
    read = [handle._snapshot]

    def rows_of(current: Snapshot) -> Source:
        read[0] = current
        for leaf in leaves_of(query):
            _move(leaf, handle, begun, current)
        names = [output.name for output in query.outputs]
        return open_source(rows_for(_resolved(query, scope), names, scope.text.sql, handle))

    def merged(snapshot: Snapshot) -> tuple[Snapshot, MergeResult]:
        with _by_key(changes.known_by, lambda: read[0]):
            return merge_computed(snapshot, rows_of, clauses, policy)

    if not preview:
        return handle._move(merged)
    here, choice = handle._snapshot, choose(query)
    with _by_key(changes.known_by, lambda: here):
        return preview_merge(here, rows_of(here), clauses, policy, handle._move, choice, merged)


@contextmanager
def _by_key(names: Sequence[str], read: Callable[[], Snapshot]) -> Iterator[None]:
    """Name the keys of target rows, not their addresses, in errors about several source rows."""
    try:
        yield
    except DuplicateKeysError as error:
        if error.context["on"] != (ROW_ADDRESS,) or not names:
            raise
        columns = {str(place): quoted(name) for place, name in enumerate(names)}
        found = ", ".join(str(address) for (address,) in error.context["keys"])
        options = ScanArguments(columns=columns, filter=f"{ROW_ADDRESS} IN ({found})")
        keys = [tuple(row.values()) for row in scan_of(read(), options).to_table().to_pylist()]
    else:
        return
    raise repeated_for_a_row(tuple(names), keys)


def _move(leaf: Leaf, handle: LanceDataset, begun: int, current: Snapshot) -> None:
    """Make a table of the changed dataset read the version that the change is based on.

    Tables at another version, and pinned handles, do not move.
    """
    own = leaf.table.handle
    if own is None or own._read_only or own._location != handle._location:
        return
    if own.version in (begun, leaf.table.moved_to):
        moved = handle._other(current)
        leaf.table = Table.of(leaf.table.name, moved, moved_to=moved.version)


def _deleting(changes: Changes) -> str | None:
    """Return the name of the column that marks rows to delete; ``None`` if all or none are."""
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
    """Return the query for the addresses, the marks of deleted rows, and the new values."""
    steps, target = changes.steps, changes.target
    outputs = [Output(ROW_ADDRESS, address_of(target))]
    if deleting is not None:
        deleted = [Expr("literal", (), pa.bool_(), step.values is None) for step in steps]
        outputs.append(Output(deleting, _first_match(steps, deleted)))
    for name in _columns(changes):
        (column,) = (one for one in target.columns if one.name == name)
        outputs.append(Output(name, _first_match(steps, _values(changes, column, scope))))
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
    """Return the value of a column in each step; a step without one keeps the old value."""
    steps, target = changes.steps, changes.target
    given = [(step.values or {}).get(column.name) for step in steps]
    known = [one for one in given if one is not None and not _is_null(one)]
    if None in given or not known:
        known.append(target.expr(column, 0))
    kinds = {one.kind for one in known}
    if len(kinds) > 1:
        shown = " and ".join(map(str, kinds))
        raise scope.text.fail(known[0], f"column {column.name!r} gets values of {shown}:")
    own = known[-1]  # if a step keeps the old value or all steps set null: the old value
    if all(one is not None and _is_null(one) for one in given) and family(own.kind) == "other":
        null = Expr("literal", (), own.kind)
        given = [Expr("case", (Expr("not", (TRUE,), TRUE.kind), own, null), own.kind)]
        given *= len(steps)
    return [own if one is None else one for one in given]


def _is_null(expr: Expr) -> bool:
    return expr.op == "literal" and expr.value is None


def _first_match(steps: Sequence[Step], values: Sequence[Expr]) -> Expr:
    """Return the expression for the value of the first step whose condition holds."""
    if all(value == values[0] for value in values):
        return values[0]
    kind = next((value.kind for value in values if value.kind != pa.null()), pa.null())
    pairs = [part for step, value in zip(steps, values, strict=True) for part in (step.when, value)]
    return Expr("case", (*pairs[:-2], pairs[-1]), kind)


# ---- the rows for a write or a merge: a table's own rows if possible, else the result of a query


def rows_for(query: Query, names: Sequence[str], sql: str, target: LanceDataset) -> Any:
    """Return the rows of a query, with the target's column names, as input of a write or a merge.

    Columns of a single table keep their own types, even types that engines lack.
    """
    leaf = _leaf(query)
    if leaf is None:
        result = run_query(query, sql)
        if result.frame is not None:
            return result.frame.toDF(*names)
        return with_json(result.to_table().rename_columns(list(names)), target)
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
        return table.frame(wanted_rows(wanted))[0].toDF(*names)
    rows: pa.Table = table.source.select(wanted).rename_columns(list(names))
    return rows.slice(0, leaf.limit)


def _leaf(query: Query) -> Leaf | None:
    """Return the table of a query that only selects its columns; ``None`` for other queries."""
    if not isinstance(query, Select) or not isinstance(query.first, Leaf):
        return None
    more = query.joins or query.where or query.group is not None or query.having is not None
    if more or query.distinct or query.order or query.offset:
        return None
    plain = all(output.expr.op == "column" for output in query.outputs)
    limited = query.limit is None or query.first.limit == query.limit
    return query.first if plain and limited else None


# ---- subqueries of changes: uncorrelated subqueries run first, once each
#
# The rest of a condition or a value becomes a filter expression, if filters can express it.


def expressible(expr: Expr) -> bool:
    """Return True if filters can express a condition or a value, given its subqueries' results."""
    try:
        unbound(_with_nulls(expr), lambda column: ("x",))  # noqa: ARG005  # any name will do
    except NotFilterError:
        return False
    return True


def _with_nulls(expr: Expr) -> Expr:
    """Return an expression with a null literal in place of each subquery."""
    args = tuple(map(_with_nulls, expr.args))
    if not expr.is_query:
        return replace(expr, args=args)
    if outer_columns(expr.value):
        raise NotFilterError(expr)
    none = Expr("literal", (), expr.kind)
    return Expr("in", (*args, none), pa.bool_()) if expr.op == "in query" else none


def as_filter(expr: Expr, scope: Scope, column: ColumnPath) -> Unbound:
    """Return an expression as a filter expression; its subqueries run first.

    Raises NotFilterError: filters cannot express it, or the value of a subquery.
    """
    return unbound(_Subqueries(scope).resolved(expr), column)


def _resolved(select: Select, scope: Scope) -> Select:
    """Return a query in which uncorrelated subqueries are replaced by their results."""
    subqueries = _Subqueries(scope)
    return replace(
        select,
        outputs=tuple(Output(one.name, subqueries.resolved(one.expr)) for one in select.outputs),
        where=tuple(map(subqueries.resolved, select.where)),
    )


@dataclass(slots=True)
class _Subqueries:
    """Cached results of uncorrelated subqueries: each subquery runs once."""

    scope: Scope
    known: dict[int, tuple[Query, pa.Table]] = field(default_factory=dict)

    def resolved(self, expr: Expr) -> Expr:
        """Replace the uncorrelated subqueries of an expression by their results."""
        args = tuple(map(self.resolved, expr.args))
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
            message = f"a scalar subquery gives {len(values)} rows instead of one:"
            raise self.scope.text.fail(expr, message)
        return values[0] if values else Expr("literal", (), expr.kind)

    def _rows(self, query: Query) -> pa.Table:
        if id(query) not in self.known:
            rows = run_query(query, self.scope.text.sql).to_table()
            self.known[id(query)] = query, rows  # the reference keeps the id valid
        return self.known[id(query)][1]

    def _constant(self, value: object, expr: Expr) -> Expr:
        kind = expr.value.outputs[0].expr.kind
        found = constant(value, expr.place)
        if found is None:
            raise self.scope.text.fail(expr, f"a subquery cannot give values of {kind}:")
        return replace(found, kind=kind)
