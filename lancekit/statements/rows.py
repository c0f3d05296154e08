"""The rows that a change is given: as they are where that is possible, else what a query gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lancekit.api.scan_options import ScanOptions
from lancekit.api.scanner import scan_of
from lancekit.scan.expressions.syntax_text import quoted
from lancekit.statements.select import run_query
from lancekit.statements.tree import Leaf, Query, Select

__all__ = ["rows_for"]


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
        options = ScanOptions(columns=columns, filter=leaf.filter, limit=leaf.limit)
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
