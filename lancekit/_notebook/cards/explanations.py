"""Cards of plans: explained operations, merges, scans, builders, queries and planners."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import pyarrow as pa

from lancekit._api.lsm_scanner import LsmScanner
from lancekit._api.merge_builder import MergeInsertBuilder
from lancekit._api.scanner import LanceScanner
from lancekit._api.sql import SqlQuery, SqlQueryBuilder
from lancekit._legible import python_rows, shown
from lancekit._notebook.cards.common import ENGINES, facts, reason, ref
from lancekit._notebook.render.models import Card, Column, Fact, Row, Table
from lancekit._notebook.render.words import clean, count, cut, listing, plural, size
from lancekit._operations.explain.explanation import Explanation, PlanNode, Reads, Writes
from lancekit._operations.explain.merge import CellChange, MergePlan, in_words
from lancekit._pylance.lsm_planners import LsmPointLookupPlanner, LsmVectorSearchPlanner
from lancekit._pylance.scanner_builder import ScannerBuilder
from lancekit._versions.snapshot import Snapshot
from lancekit.options import options

#: prefix of an input of the node above, and of that input's own inputs; no-break spaces, since
#: browsers collapse other blanks
_NEXT, _LAST = ("├\u00a0", "│\u00a0"), ("└\u00a0", "\u00a0\u00a0")


def explanation_card(plan: Explanation, _now: datetime) -> Card:
    return Card(
        kind="Explanation",
        title=f"{clean(plan.operation)} of {ref(plan.branch, plan.version)}",
        headline=(
            f"engine: {ENGINES.get(plan.engine, plan.engine)}",
            f"reads about {size(plan.reads.bytes)}" if plan.reads else "reads no rows",
            f"commits {', '.join(plan.commits)}" if plan.commits else "commits nothing",
        ),
        facts=facts(
            ("reason", reason(plan.why)),
            *_labelled("plan", _lines(plan.plan) if plan.plan else ()),
            ("writes", written(plan.writes) or "only metadata" * bool(plan.commits)),
            *_labelled("note", map(clean, plan.notes)),
        ),
    )


def read_facts(reads: Reads | None) -> tuple[Fact, ...]:
    """Return facts with the size, the rows and the columns that will be read."""
    if reads is None:
        return ()
    return facts(
        ("reads", f"about {size(reads.bytes)}: {_rows(reads)}"),
        ("columns", _columns(reads) or "none"),
    )


def _rows(reads: Reads) -> str:
    return (
        f"{plural(reads.rows, 'row')} in {count(reads.fragments)} "
        f"of {plural(reads.all_fragments, 'fragment')}"
    )


def _columns(reads: Reads) -> str:
    return listing(reads.columns, options.display_columns)


def _lines(node: PlanNode, before: str = "", below: str = "") -> Iterator[str]:
    """Yield a line for each node of a plan, a node before its inputs."""
    text = clean(node.does)
    if (amount := node.reads) is not None:
        parts = (
            _columns(amount),
            f"{text} {_rows(amount)}".lstrip(),
            f"about {size(amount.bytes)}",
        )
        text = " · ".join(filter(None, parts))
    yield f"{before}{node.name}  {text}".rstrip()
    for at, one in enumerate(node.inputs, start=1):
        corner, bar = _LAST if at == len(node.inputs) else _NEXT
        yield from _lines(one, below + corner, below + bar)


def written(writes: Writes | None) -> str:
    """Return the rows and bytes to be written, in words."""
    if writes is None:
        return ""
    limits = []
    if writes.rows is not None:
        limits.append(plural(writes.rows, "row"))
    if writes.bytes is not None:
        limits.append(f"about {size(writes.bytes)}")
    most = "" if writes.exact else "at most "
    return clean(writes.what) + (f" ({most}{', '.join(limits)})" if limits else "")


def _labelled(label: str, lines: Iterable[str]) -> tuple[Fact, ...]:
    """Return a fact for each line; only the first has the label."""
    return tuple(Fact("" if at else label, line) for at, line in enumerate(lines))


# ---- the cards of scans, builders, queries and planners that have not run yet


def _of(snapshot: Snapshot) -> str:
    return ref(snapshot.branch, snapshot.version)


def _run(code: str) -> Fact:
    return Fact("run", code, code=True)


def scanner_card(scanner: LanceScanner, _now: datetime) -> Card:
    scan, names = scanner._scan, scanner._scan.request.schema.names
    predicate, search = scan.request.predicate, scan.search
    fragments, scanned = len(scanner._snapshot.manifest.fragments), len(scan.sources)
    order = (f"{o.column_name}{'' if o.ascending else ' descending'}" for o in scanner._order)
    return Card(
        kind="Scan",
        title=f"scan of {_of(scanner._snapshot)}",
        headline=(
            plural(len(names), "column"),
            "some rows" if predicate or search or scan.limit is not None else "all rows",
        ),
        facts=facts(
            ("columns", listing(names, options.display_columns)),
            ("where", clean(str(predicate.source)) if predicate else ""),
            ("search", clean(type(search).__name__.removesuffix("Search")) if search else ""),
            ("order", listing(order, options.display_columns)),
            ("limit", "" if scan.limit is None else count(scan.limit)),
            ("offset", count(scan.offset) if scan.offset else ""),
            ("fragments", f"{count(scanned)} of {count(fragments)}"),
            ("batch size", f"at most {plural(scan.request.batch_rows, 'row')}"),
            Fact("plan", ".explain()", code=True),
            _run(".to_table()"),
        ),
    )


def scanner_builder_card(builder: ScannerBuilder, _now: datetime) -> Card:
    settings = [(clean(name), shown(value, 200)) for name, value in builder._arguments.items()]
    return Card(
        kind="Scan builder",
        title=f"scan of {_of(builder._ds._snapshot)}",
        headline=(plural(len(settings), "setting"), "not built yet"),
        facts=facts(*settings[: options.display_columns], _run(".to_scanner().to_table()")),
    )


def lsm_scanner_card(scanner: LsmScanner, _now: datetime) -> Card:
    arguments, columns = scanner._arguments, scanner._columns
    return Card(
        kind="Scan with shards",
        title=f"scan of {_of(scanner._snapshot)} and its shards",
        headline=("the newest row of each key",),
        facts=facts(
            ("columns", listing(columns or ["all"], options.display_columns)),
            ("where", clean(str(arguments.filter)) if arguments.filter is not None else ""),
            ("limit", "" if arguments.limit is None else count(arguments.limit)),
            ("offset", count(arguments.offset) if arguments.offset else ""),
            _run(".to_table()"),
        ),
    )


_NO_RULES = "none yet: call when_matched_update_all(), when_not_matched_insert_all() or others"


def merge_builder_card(builder: MergeInsertBuilder, _now: datetime) -> Card:
    clauses, snapshot = builder._clauses, builder._handle._snapshot
    key = [field.name for field in snapshot.manifest.schema.primary_key]
    guarded = bool(key) and key == list(clauses.on)
    return Card(
        kind="Merge",
        title=f"merge into {_of(snapshot)}",
        headline=(f"on {listing(clauses.on, options.display_columns)}", "not run yet"),
        facts=facts(
            ("rules", clean("; ".join(in_words(clauses))) or _NO_RULES),
            ("key filter", "of inserted keys" if guarded and clauses.insert else ""),
            Fact("preview", ".preview(rows)", code=True),
            _run(".execute(rows)"),
        ),
    )


def query_builder_card(builder: SqlQueryBuilder, _now: datetime) -> Card:
    return _query(builder._query, "SQL builder", ".build().to_batch_records()")


def query_card(query: SqlQuery, _now: datetime) -> Card:
    return _query(query, "SQL", ".to_batch_records()")


def _query(query: SqlQuery, kind: str, run: str) -> Card:
    snapshot = query._dataset._snapshot
    return Card(
        kind=kind,
        title=f"query of {_of(snapshot)}",
        headline=(f"table name {clean(query._table)}", "not run yet"),
        facts=(Fact("statement", clean(query._sql), code=True), _run(run)),
    )


def lookup_planner_card(planner: LsmPointLookupPlanner, _now: datetime) -> Card:
    key = [field.name for field in planner._schema.primary_key]
    return Card(
        kind="Planner",
        title="point lookup in a table and its shards",
        headline=(f"by {listing(key, options.display_columns)}",),
        facts=(_run(".plan_lookup(key).to_table()"),),
    )


def vector_planner_card(planner: LsmVectorSearchPlanner, _now: datetime) -> Card:
    return Card(
        kind="Planner",
        title=f"vector search in {_of(planner._snapshot)} and its shards",
        headline=(f"column {clean(str(planner._nearest['column']))}",),
        facts=(_run(".plan_search(vector).to_table()"),),
    )


# ---- the card of a merge-insert preview

#: the largest number of characters of a value; the renderer cuts cells further
_VALUE = 120


def merge_plan_card(plan: MergePlan, _now: datetime) -> Card:
    explained = plan.explanation
    twice = plan.num_duplicate_rows
    return Card(
        kind="Merge plan",
        title=f"merge into {ref(plan.branch, plan.version)}",
        headline=(
            f"{count(plan.num_inserted_rows)} to insert",
            f"{count(plan.num_updated_rows)} to update",
            f"{count(plan.num_deleted_rows)} to delete",
            f"{count(plan.num_unchanged_rows)} unchanged",
        ),
        facts=facts(
            ("merge key", listing(plan.on, options.display_columns)),
            ("rules", clean("; ".join(plan.rules))),
            (
                "key filter",
                "concurrent merges that insert the same keys must retry"
                if plan.guarded and plan.num_inserted_rows
                else "",
            ),
            ("skipped", _plan_rows(plan.num_skipped_rows, "matched row", "by the condition")),
            ("ignored", _plan_rows(plan.num_ignored_rows, "source row", "without a match")),
            (
                "duplicates",
                "dropped (number unknown)"
                if twice is None
                else _plan_rows(twice, "source row", "left out"),
            ),
            ("engine", ENGINES.get(explained.engine, explained.engine)),
            ("reason", reason(explained.why)),
            *read_facts(explained.reads),
            ("writes", written(explained.writes)),
            Fact("apply", "plan.apply()", code=True),
        ),
        tables=(
            *_changed(plan),
            *_sample("Rows to insert", plan.inserted, plan.num_inserted_rows),
            *_sample("Rows to delete", plan.deleted, plan.num_deleted_rows),
        ),
    )


def _plan_rows(number: int, what: str, how: str) -> str:
    return f"{plural(number, what)} {how}" if number else ""


def _text(value: object) -> str:
    return clean(cut(str(value) if not isinstance(value, str) else repr(value), _VALUE))


def _changed(plan: MergePlan) -> tuple[Table, ...]:
    """Return a table of the updated rows, with every column that changes in one of these rows."""
    found: list[tuple[tuple[object, ...], dict[str, CellChange]]] = []
    for change in plan.changes:
        # changes of one row are adjacent; repr() compares keys, so that NaN equals NaN
        if not found or repr(found[-1][0]) != repr(change.key) or change.column in found[-1][1]:
            found.append((change.key, {}))
        found[-1][1][change.column] = change
    if not found:
        return ()
    shown = found[: options.display_rows]
    names = list(dict.fromkeys(name for _, cells in shown for name in cells))
    wide = names[: options.display_columns]
    hidden = f"; {plural(len(names) - len(wide), 'more column')}" if len(names) > len(wide) else ""
    return (
        Table(
            caption="Values to update, old → new",
            columns=_plan_columns([*plan.on, *wide]),
            rows=tuple(
                _changed_row(key, [cells.get(name) for name in wide]) for key, cells in shown
            ),
            note=f"{count(len(shown))} of {plural(plan.num_updated_rows, 'updated row')}{hidden}",
        ),
    )


def _changed_row(key: tuple[object, ...], cells: Sequence[CellChange | None]) -> Row:
    texts = ["" if cell is None else f"{_text(cell.old)} → {_text(cell.new)}" for cell in cells]
    marked = (len(key) + at for at, cell in enumerate(cells) if cell is not None)
    return Row((*map(_text, key), *texts), marked=frozenset(marked))


def _sample(caption: str, rows: pa.Table, number: int) -> tuple[Table, ...]:
    if not rows.num_rows:
        return ()
    names = rows.column_names[: options.display_columns]
    shown = rows.select(names).slice(0, options.display_rows)
    more = len(rows.column_names) - len(names)
    hidden = f"; {plural(more, 'more column')}" if more else ""
    return (
        Table(
            caption=caption,
            columns=_plan_columns(names),
            rows=tuple(Row(tuple(map(_text, row.values()))) for row in python_rows(shown)),
            note=f"{count(shown.num_rows)} of {plural(number, 'row')}{hidden}",
            folded=True,
        ),
    )


def _plan_columns(names: Sequence[str]) -> tuple[Column, ...]:
    return tuple(Column(clean(name)) for name in names)
