"""Explanations of scans, the nodes that plans share, and advice on missing indices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from lancekit._format.paths import find_field
from lancekit._index.kinds import BTREE, LABEL_LIST, NGRAM, IndexKind
from lancekit._index.search.index_query import ColumnCondition, IndexQuery
from lancekit._index.trigrams import trigrams
from lancekit._legible import count, shown
from lancekit._operations.explain.explanation import (
    METADATA_ONLY,
    Explanation,
    PlanNode,
    explanation,
    reads,
    stored_bytes,
)
from lancekit._operations.mem_wal.reader.newest import newest_in
from lancekit._pipeline.engine import Choice
from lancekit._scan.expressions.nodes import Apply
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.fragments.source import fragment_sources
from lancekit._scan.index_lookup import IndexLookup
from lancekit._scan.read import Read
from lancekit._scan.scan import Scan
from lancekit._versions.snapshot import Snapshot

_HERE = Choice("local", "the rows are read in this process; to_spark() uses the executors")


def explain_scan(
    snapshot: Snapshot,
    scan: Scan,
    *,
    order_by: Sequence[str] = (),
    operation: str = "scan",
) -> Explanation:
    """Explain a scan."""
    request, read = scan.request, scan.read
    selecting, rest = _columns(scan, order_by)
    sources = read.fragments if scan.search is None else scan.sources
    rows = read.num_rows if scan.search is None else None
    stops = scan.limit is not None and scan.in_order and not order_by
    wanted = scan.limit if stops else rows
    return explanation(
        snapshot,
        operation,
        _HERE,
        plan=_plan(snapshot, scan, order_by),
        reads=reads(snapshot, [*selecting, *rest], sources, wanted),
        notes=[
            *([] if scan.search is not None else advice(snapshot, request.predicate, read.lookup)),
            "the whole result is sorted in memory" if order_by else "",
        ],
    )


def _columns(scan: Scan, order_by: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the columns read to select rows, and the columns read for the selected rows."""
    request, search = scan.request, scan.search
    made = set() if search is None else {field.name for field in search.made}
    shown = {column for output in request.outputs for column in output.inputs} - made
    selecting = [] if search is None else [*search.reads]
    # an exact index lookup needs no filter
    is_exact = search is None and scan.read.is_exact
    if request.predicate is not None and not is_exact:
        selecting += sorted(request.predicate.columns - made)
    sorts = [name for name in order_by if name not in made and name not in selecting]
    return selecting, [*sorted(shown.difference(selecting, order_by)), *sorts]


def _plan(snapshot: Snapshot, scan: Scan, order_by: Sequence[str]) -> PlanNode:
    """Return the plan nodes of a scan: read, filter, search, sort, limit."""
    request, search, read = scan.request, scan.search, scan.read
    predicate, (selecting, rest) = request.predicate, _columns(scan, order_by)
    if scan.in_order:
        stops = scan.limit is not None and not order_by
        rows = min(read.num_rows, scan.limit or 0) if stops else None
        node = read_node(snapshot, rest, read, rows)
    elif search is None:
        node = fetch_node(snapshot, rest, read, selected_node(snapshot, selecting, read, predicate))
    else:
        node = read_node(snapshot, selecting, read)
        if predicate is not None and search.prefilter:
            node = _filter_node(predicate, node)
        node = PlanNode("Search", search.describe(scan), inputs=(node,))
        if predicate is not None and not search.prefilter:
            node = _filter_node(predicate, node)
        node = fetch_node(snapshot, rest, read, node)
    computed = {one.field.name: one.expression.sql for one in request.outputs if one.expression}
    node = project_node(computed, node)
    if order_by:
        node = PlanNode("Sort", f"by {', '.join(order_by)}", inputs=(node,))
    limit = "" if scan.limit is None else f"{scan.limit:,} rows"
    offset = f"after the first {scan.offset:,}" if scan.offset else ""
    cut = " ".join(filter(None, [limit, offset]))
    return PlanNode("Limit", cut, inputs=(node,)) if cut else node


def explain_count(snapshot: Snapshot, scan: Scan | None) -> Explanation:
    """Explain a count of rows; without a filter, the manifest has the number."""
    if scan is None:
        return explanation(
            snapshot, "count_rows", METADATA_ONLY, notes=["the row count is read from the manifest"]
        )
    describe = explain_scan(snapshot, scan, operation="count_rows")
    return replace(describe, plan=PlanNode("Count", inputs=tuple(filter(None, [describe.plan]))))


# ---- plan nodes, each made from the object that runs the step


def read_node(
    snapshot: Snapshot, columns: Iterable[str], read: Read | None = None, rows: int | None = None
) -> PlanNode:
    """Return the node of a read of columns, above the index lookup that finds the rows, if any.

    read: the rows, by default all rows of the version.
    rows: the number of rows that are read, if not all.
    """
    if read is None:
        return PlanNode("Read", reads=reads(snapshot, columns, None, rows))
    amount = reads(snapshot, columns, read.fragments, read.num_rows if rows is None else rows)
    if read.lookup is None:
        return PlanNode("Read", reads=amount)
    return PlanNode("Read", reads=amount, inputs=(_lookup_node(snapshot, read, read.lookup),))


def selected_node(
    snapshot: Snapshot, columns: Iterable[str], read: Read, predicate: Predicate | None
) -> PlanNode:
    """Return the node of the rows that a filter selects, above the read of ``columns``.

    After an exact index lookup, nothing is read or filtered to select rows.
    """
    if predicate is None:
        return read_node(snapshot, columns, read)
    if read.lookup is not None and read.is_exact:
        return _lookup_node(snapshot, read, read.lookup)
    return _filter_node(predicate, read_node(snapshot, columns, read))


def _lookup_node(snapshot: Snapshot, read: Read, lookup: IndexLookup) -> PlanNode:
    manifest = snapshot.manifest
    return PlanNode(
        "IndexLookup",
        f"{lookup.describe()}; {read.num_rows:,} of {manifest.num_rows:,} rows remain, in "
        f"{len(read.fragments):,} of {len(manifest.fragments):,} "
        f"fragments{', and need no filter' if read.is_exact else ''}",
    )


def _filter_node(predicate: Predicate, node: PlanNode) -> PlanNode:
    """Return the node of a filter; with rows in shards, only the newest row per key is filtered."""
    newest = newest_in(predicate)
    if newest is not None:
        node = PlanNode("NewestPerKey", newest.describe, inputs=(node,))
        if isinstance(predicate.expr, Apply):  # there is no other condition
            return node
    return PlanNode("Filter", str(predicate.source), inputs=(node,))


def fetch_node(snapshot: Snapshot, columns: Iterable[str], read: Read, node: PlanNode) -> PlanNode:
    """Return a node that fetches columns for the rows of ``node``; ``node`` without columns.

    The number of rows is an upper bound: the number of rows that ``node`` reads.
    """
    names = tuple(columns)
    if not names:
        return node
    amount = reads(snapshot, names, read.fragments, read.num_rows)
    return PlanNode("Fetch", "" if read.is_exact else "at most", amount, (node,))


def project_node(computed: Mapping[str, str], node: PlanNode) -> PlanNode:
    """Return ``node``, below a node for the computed columns unless ``computed`` is empty."""
    if not computed:
        return node
    texts = (f"{name} = {sql}" for name, sql in computed.items())
    return PlanNode("Project", ", ".join(texts), inputs=(node,))


# ---- advice: which index would help a filter, and its estimated cost

#: A scan of fewer rows takes no longer than an index query.
LEAST_ROWS = 100_000

#: An index stores the address of each row beside its value.
_ADDRESS_BYTES = 8

#: At most this many indices are proposed for an AND, where one of them is enough.
_MOST = 2


def advice(
    snapshot: Snapshot, predicate: Predicate | None, lookup: IndexLookup | None
) -> list[str]:
    """Return the calls that would let indices find the rows of a filter; no rows are read.

    lookup: the index lookup of the filter, if it has one.
    """
    rows = snapshot.manifest.num_rows
    if predicate is None or rows < LEAST_ROWS:
        return []
    if lookup is not None:
        return _freshened(lookup, rows)
    from lancekit._scan.index_queries import index_query_of  # loads the kernels

    conditions = index_query_of(predicate)
    found = None if conditions is None else _helpful(conditions)
    return [] if not found else list(_proposed(snapshot, found))


def _freshened(lookup: IndexLookup, rows: int) -> list[str]:
    """Return the call that adds rows to the queried indices, if these lack many."""
    if (left := rows - lookup.covered_rows) * 8 <= rows:
        return []
    names = ", ".join(map(repr, lookup.names))
    return [
        f"the queried indices lack {count(left)} of {count(rows)} rows; "
        f"ds.optimize.optimize_indices(index_names=[{names}]) adds them"
    ]


def _helpful(query: IndexQuery) -> list[tuple[ColumnCondition, IndexKind]]:
    """Return conditions that an index would help, with its kind; empty if the query stays slow."""
    if isinstance(query, ColumnCondition):
        kind = _kind_for(query)
        return [] if kind is None else [(query, kind)]
    parts = [_helpful(part) for part in query.parts]
    if not query.all_of:  # one part without an index means that all rows are read
        return [each for part in parts for each in part] if all(parts) else []
    return [each for part in parts for each in part][:_MOST]


def _kind_for(condition: ColumnCondition) -> IndexKind | None:
    """Return the kind of index that would select few rows; an open range may select many."""
    if condition.items:
        return LABEL_LIST
    if condition.interval_set is not None:
        closed = all(None not in interval for interval in condition.interval_set.intervals)
        return BTREE if closed and BTREE.fits(condition.type) else None
    if condition.runs and NGRAM.fits(condition.type):
        _, ends = trigrams(pa.array(condition.runs, pa.string()))
        return NGRAM if len(ends) else None
    return None


def _proposed(snapshot: Snapshot, found: list[tuple[ColumnCondition, IndexKind]]) -> Iterator[str]:
    sources, schema = fragment_sources(snapshot), snapshot.manifest.schema
    rows = snapshot.manifest.num_rows
    for column, kind in dict.fromkeys((condition.column, kind.name) for condition, kind in found):
        field = find_field(schema, column)
        read = stored_bytes(sources, schema, [field[0].name])
        size = _values(field[-1].to_arrow().type, rows, read) + _ADDRESS_BYTES * rows
        call = f"ds.create_scalar_index({shown(column)}, {kind!r})"
        yield (
            f"an index would find these rows: {call} reads {_size(read)} once and writes about "
            f"{_size(size)}"
        )


def _values(kind: pa.DataType, rows: int, stored: int) -> int:
    """Return the bytes of uncompressed values; the stored bytes for types without a fixed width."""
    return rows * kind.bit_width // 8 if pa.types.is_primitive(kind) else stored


def _size(size: int) -> str:
    return f"{count(-(-size >> 20) if size >= 1 << 20 else 1)} MiB"
