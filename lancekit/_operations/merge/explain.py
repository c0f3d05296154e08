"""Explanations of merge-inserts: where keys are matched, what is read and what is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lancekit._format.paths import top_of
from lancekit._legible import plural, shown
from lancekit._operations.explain.explanation import (
    Explanation,
    PlanNode,
    Writes,
    explanation,
    reads,
    stored_bytes,
)
from lancekit._operations.explain.nodes import read_node
from lancekit._operations.merge.merge_insert import check_columns, check_source
from lancekit._pipeline.engine.engine import Choice
from lancekit._pipeline.merge.plan import Matched, MergeClauses, writes_rows
from lancekit._pipeline.merge.rewrite_columns import rewritten_columns
from lancekit._pipeline.merge.strategy import MatchPlan
from lancekit._pipeline.source import Source
from lancekit._scan.fragments.source import FragmentSource, fragment_sources
from lancekit._scan.read import Read
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["explain_merge", "explain_unknown_merge", "explained", "in_words"]


def explain_merge(
    snapshot: Snapshot, source: Source, clauses: MergeClauses, choice: Choice
) -> Explanation:
    """Explain the merge of a source, whose keys are looked at; indices are asked for them."""
    casts = check_source(snapshot, source, clauses)
    match = source.match(casts, clauses, snapshot)
    lookup = source.indices(casts, clauses, snapshot) if match.strategy == "index" else None
    read = None if lookup is None else Read(fragment_sources(snapshot), lookup=lookup)
    rows = match.source_rows if writes_rows(clauses) else 0
    return explained(snapshot, source.schema, clauses, choice, match, rows=rows, read=read)


def explain_unknown_merge(
    snapshot: Snapshot, clauses: MergeClauses, schema: pa.Schema | None, choice: Choice
) -> Explanation:
    """Explain the merge of a source of which no more than its schema is known."""
    if schema is None and clauses.rewrite_columns:
        raise InvalidArgumentError(
            "Which columns are written anew depends on those of the source.",
            hint="Pass the rows, or schema= with their columns.",
        )
    known = snapshot.manifest.schema.to_arrow() if schema is None else schema
    if not isinstance(known, pa.Schema):
        raise InvalidTypeError(f"schema is {shown(schema)}.", hint="Pass a pyarrow Schema.")
    check_columns(snapshot.manifest.schema, known, clauses)
    return explained(snapshot, known, clauses, choice)


def in_words(clauses: MergeClauses) -> tuple[str, ...]:
    """Return what a merge does with each kind of row."""
    if clauses.rules:
        return clauses.rules
    condition = f", where {clauses.condition}" if clauses.condition else ""
    selected = f", where {clauses.by_source}" if clauses.by_source else ""
    matched: Mapping[Matched, str] = {
        "keep": "",
        "update": f"matched rows are updated{condition}",
        "delete": "matched rows are deleted",
        "fail": "a matched row is an error",
    }
    told = [
        matched[clauses.matched],
        "new rows are inserted" if clauses.insert else "",
        f"rows that the source lacks are deleted{selected}" if clauses.delete_by_source else "",
        f"of several source rows of one key the {clauses.dedupe} is kept" if clauses.dedupe else "",
        f"of several source rows of one key that with the largest {clauses.dedupe_by} is kept"
        if clauses.dedupe_by
        else "",
    ]
    return tuple(filter(None, told))


def explained(
    snapshot: Snapshot,
    source: pa.Schema,
    clauses: MergeClauses,
    choice: Choice,
    match: MatchPlan | None = None,
    *,
    rows: int | None = None,
    touched: Sequence[FragmentSource] | None = None,
    read: Read | None = None,
) -> Explanation:
    """Return what is to be said of a merge.

    Parameters
    ----------
    source
        The source's columns.
    match
        How its keys are found, if that is known.
    rows
        How many new rows there are, or are at most.
    touched
        The fragments of which rows change, if the merge was worked out.
    read
        What indices leave to be looked at, if they were asked.
    """
    schema = snapshot.manifest.schema
    known = clauses.worked_from if clauses.by_address else clauses.on
    keys = [name if name in schema else top_of(name) for name in known]
    casts = check_columns(schema, source, clauses)
    asked = clauses.condition_on(casts.target, schema.to_arrow())
    lent = [] if asked is None else [*asked.target]
    if clauses.rewrite_columns:
        columns = rewritten_columns([n for n in source.names if n in schema], clauses.on)
        lent += columns
        whole = fragment_sources(snapshot) if touched is None else touched
        writes = Writes(
            what=f"files with {', '.join(columns)} for all rows of each fragment that has a match; "
            "the rows stay where they are",
            rows=sum(s.fragment.num_rows for s in whole),
            bytes=stored_bytes(whole, schema, columns),
            exact=touched is not None,
        )
    else:
        if clauses.matched == "update":
            given = set(source.names)
            lent += [name for name in schema.names if name not in given]
        writes = Writes(
            what="new rows in new files, and deletion files for those that go"
            if writes_rows(clauses)
            else "deletion files for rows that go; no data file",
            rows=rows,
            bytes=None if rows is None else _size_of(snapshot, rows),
            exact=touched is not None,
        )
    others = [name for name in dict.fromkeys(lent) if name not in keys]
    node = read_node(snapshot, keys, read)
    return explanation(
        snapshot,
        "merge_insert",
        Choice(choice.engine, f"{choice.why}; {match.why}" if match else choice.why),
        plan=_plan(snapshot, clauses, match, node, others),
        reads=node.reads,
        writes=writes,
        commits=["Update"],
        notes=[
            *in_words(clauses),
            "" if match else "how keys are matched is chosen when the number of rows is known",
        ],
    )


def _plan(
    snapshot: Snapshot,
    clauses: MergeClauses,
    match: MatchPlan | None,
    keys: PlanNode,
    others: Sequence[str],
) -> PlanNode:
    """Return the nodes of a merge: keys are matched, and pairs of rows are filtered."""
    strategy = "" if match is None else f" ({match.strategy})"
    source = PlanNode("Source", "" if match is None else plural(match.source_rows, "row"))
    node = PlanNode("MatchKeys", ", ".join(clauses.on) + strategy, inputs=(source, keys))
    if others:
        most = None if match is None else match.source_rows
        node = PlanNode("Fetch", "at most", reads(snapshot, others, None, most), (node,))
    if clauses.condition and clauses.matched == "update":
        node = PlanNode("Filter", clauses.condition, inputs=(node,))
    return node


def _size_of(snapshot: Snapshot, rows: int) -> int | None:
    """Estimate the bytes of new rows by those of the rows that are there."""
    manifest = snapshot.manifest
    if not manifest.num_rows:
        return None
    stored = sum(file.size_bytes for f in manifest.fragments for file in f.files)
    return round(stored * rows / manifest.num_rows)
