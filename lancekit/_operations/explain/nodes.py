"""The nodes that a plan is shown as: each is made of what the plan runs with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lancekit._operations.explain.explanation import PlanNode, reads
from lancekit._operations.mem_wal.reader.newest import newest_in
from lancekit._scan.expressions.nodes import Apply
from lancekit._scan.expressions.predicate import Predicate
from lancekit._scan.index_lookup import IndexLookup
from lancekit._scan.read import Read
from lancekit._versions.snapshot import Snapshot

__all__ = ["fetch_node", "filter_node", "project_node", "read_node", "selected_node"]


def read_node(
    snapshot: Snapshot, columns: Iterable[str], read: Read | None = None, rows: int | None = None
) -> PlanNode:
    """Return the node of columns that are read, above the lookup that tells of which rows.

    Parameters
    ----------
    read
        The rows; by default all of the version's.
    rows
        How many of them are read, if not all.
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
    """Return the node of the rows that a filter selects, by columns that are read for it.

    Rows that indices know exactly are not filtered, and nothing is read to know them.
    """
    if predicate is None:
        return read_node(snapshot, columns, read)
    if read.lookup is not None and read.is_exact:
        return _lookup_node(snapshot, read, read.lookup)
    return filter_node(predicate, read_node(snapshot, columns, read))


def _lookup_node(snapshot: Snapshot, read: Read, lookup: IndexLookup) -> PlanNode:
    manifest = snapshot.manifest
    return PlanNode(
        "IndexLookup",
        f"{lookup.told()}; {read.num_rows:,} of {manifest.num_rows:,} rows are left, in "
        f"{len(read.fragments):,} of {len(manifest.fragments):,} fragments"
        f"{', and need no filter' if read.is_exact else ''}",
    )


def filter_node(predicate: Predicate, node: PlanNode) -> PlanNode:
    """Return the node of a filter; for rows in shards it is asked of the newest row of a key."""
    newest = newest_in(predicate)
    if newest is not None:
        node = PlanNode("NewestPerKey", newest.told, inputs=(node,))
        if isinstance(predicate.expr, Apply):  # nothing else is asked
            return node
    return PlanNode("Filter", str(predicate.source), inputs=(node,))


def fetch_node(snapshot: Snapshot, columns: Iterable[str], read: Read, node: PlanNode) -> PlanNode:
    """Return the node of columns that are read for the rows of another; that, if there are none.

    Of how many rows that is no more is known than how many are looked at.
    """
    names = tuple(columns)
    if not names:
        return node
    amount = reads(snapshot, names, read.fragments, read.num_rows)
    return PlanNode("Fetch", "" if read.is_exact else "at most", amount, (node,))


def project_node(computed: Mapping[str, str], node: PlanNode) -> PlanNode:
    """Return the node of values that are computed, by their columns; the node if there are none."""
    if not computed:
        return node
    texts = (f"{name} = {sql}" for name, sql in computed.items())
    return PlanNode("Project", ", ".join(texts), inputs=(node,))
