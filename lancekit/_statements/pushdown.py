"""What a scan is told: conditions that it can look at, and how many rows are of use."""

from __future__ import annotations

from collections.abc import Sequence

from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.expressions.unbound import Unbound
from lancekit._statements.correlated import is_grouped
from lancekit._statements.filter_syntax import NotFilterError, all_true, unbound
from lancekit._statements.tree import Expr, Leaf, Query, Select
from lancekit.errors import LancekitError

__all__ = ["limited", "push_down"]


def push_down(select: Select) -> Select:
    """Move the conditions of a query into the scans of its tables, where that says the same."""
    leaves = {leaf.number: leaf for leaf in _leaves(select)}
    pushed: dict[int, list[Unbound]] = {}
    rest = list[Expr]()
    for condition in select.where:
        numbers = {part.value[0] for part in condition.walk() if part.op == "column"}
        leaf = leaves.get(next(iter(numbers))) if len(numbers) == 1 else None
        found = _filter(condition, leaf) if leaf is not None else None
        if leaf is None or found is None:
            rest.append(condition)
        else:
            pushed.setdefault(leaf.number, []).append(found)
    for number, conditions in pushed.items():
        leaves[number].filter = all_true(conditions)
    select.where = tuple(rest)
    _tell_limit(select)
    return select


def limited(query: Query, limit: int | None) -> Query:
    """Return a query that gives no more than so many rows."""
    if limit is None:
        return query
    query.limit = limit if query.limit is None else min(query.limit, limit)
    if isinstance(query, Select):
        _tell_limit(query)
    return query


def _tell_limit(select: Select) -> None:
    first = select.first
    if isinstance(first, Leaf) and select.limit is not None and _is_plain(select):
        first.limit = select.limit + (select.offset or 0)


def _leaves(select: Select) -> Sequence[Leaf]:
    """Return the datasets of which a condition behind the joins may look at the rows before."""
    kinds = ["inner", *(join.kind for join in select.joins)]
    return [
        relation
        for at, relation in enumerate(select.relations)
        if isinstance(relation, Leaf) and relation.table.handle is not None
        if kinds[at] in ("inner", "cross") and not {"right", "full"} & set(kinds[at + 1 :])
    ]


def _filter(condition: Expr, leaf: Leaf) -> Unbound | None:
    names = {at: name for name, at in leaf.used.items()}
    handle = leaf.table.handle
    try:
        found = unbound(condition, lambda expr: (names[expr.value[1]],))
        if handle is not None:
            Predicate.parse(found, handle._snapshot.manifest.schema.to_arrow())
    except (NotFilterError, LancekitError):
        return None
    return found


def _is_plain(select: Select) -> bool:
    """Tell whether each row of the one table is a row of the result."""
    windows = any(part.op == "window" for one in select.outputs for part in one.expr.walk())
    more = select.joins or select.where or select.group is not None or select.having is not None
    grouped = is_grouped(one.expr for one in select.outputs)
    return not (more or select.distinct or select.order or windows or grouped)
