"""The cards of what is set up to be run: scans, builders, queries, planners."""

from __future__ import annotations

from datetime import datetime

from lancekit._api.lsm_planners import LsmPointLookupPlanner, LsmVectorSearchPlanner
from lancekit._api.lsm_scanner import LsmScanner
from lancekit._api.merge_builder import MergeInsertBuilder
from lancekit._api.scanner import LanceScanner
from lancekit._api.scanner_builder import ScannerBuilder
from lancekit._api.sql import SqlQuery, SqlQueryBuilder
from lancekit._legible import shown
from lancekit._notebook.cards.common import facts, ref
from lancekit._notebook.render.models import Card, Fact
from lancekit._notebook.render.words import clean, count, listing, plural
from lancekit._operations.merge.explain import in_words
from lancekit._versions.snapshot import Snapshot
from lancekit.options import options

__all__ = [
    "lookup_planner_card",
    "lsm_scanner_card",
    "merge_builder_card",
    "query_builder_card",
    "query_card",
    "scanner_builder_card",
    "scanner_card",
    "vector_planner_card",
]


def _of(snapshot: Snapshot) -> str:
    return ref(snapshot.branch, snapshot.version)


def _run(code: str) -> Fact:
    return Fact("run", code, code=True)


def scanner_card(scanner: LanceScanner, _now: datetime) -> Card:
    scan, names = scanner._scan, scanner._scan.request.schema.names
    predicate, search = scan.request.predicate, scan.search
    fragments, chosen = len(scanner._snapshot.manifest.fragments), len(scan.sources)
    order = (f"{o.column_name}{'' if o.ascending else ' descending'}" for o in scanner._order)
    return Card(
        kind="Scan",
        title=f"scan of {_of(scanner._snapshot)}",
        headline=(
            plural(len(names), "column"),
            "some rows" if predicate or search or scan.limit is not None else "all rows",
        ),
        facts=(
            *facts(
                ("columns", listing(names, options.display_columns)),
                ("where", clean(str(predicate.source)) if predicate else ""),
                ("search", clean(type(search).__name__.removesuffix("Search")) if search else ""),
                ("order", listing(order, options.display_columns)),
                ("limit", "" if scan.limit is None else count(scan.limit)),
                ("offset", count(scan.offset) if scan.offset else ""),
                ("fragments", f"{count(chosen)} of {count(fragments)}"),
                ("batches", f"of {plural(scan.request.batch_rows, 'row')} at most"),
            ),
            Fact("what it costs", ".explain()", code=True),
            _run(".to_table()"),
        ),
    )


def scanner_builder_card(builder: ScannerBuilder, _now: datetime) -> Card:
    said = [(clean(name), shown(value, 200)) for name, value in builder._arguments.items()]
    return Card(
        kind="Scan builder",
        title=f"scan of {_of(builder._ds._snapshot)}, being set up",
        headline=(plural(len(said), "setting"),),
        facts=(*facts(*said[: options.display_columns]), _run(".to_scanner().to_table()")),
    )


def lsm_scanner_card(scanner: LsmScanner, _now: datetime) -> Card:
    asked, columns = scanner._arguments, scanner._columns
    return Card(
        kind="Scan with shards",
        title=f"scan of {_of(scanner._snapshot)} and its shards",
        headline=("the newest row of each key",),
        facts=(
            *facts(
                ("columns", listing(columns or ["all"], options.display_columns)),
                ("where", clean(str(asked.filter)) if asked.filter is not None else ""),
                ("limit", "" if asked.limit is None else count(asked.limit)),
                ("offset", count(asked.offset) if asked.offset else ""),
            ),
            _run(".to_table()"),
        ),
    )


def merge_builder_card(builder: MergeInsertBuilder, _now: datetime) -> Card:
    clauses, snapshot = builder._clauses, builder._handle._snapshot
    key = [field.name for field in snapshot.manifest.schema.primary_key]
    guarded = bool(key) and key == list(clauses.on)
    return Card(
        kind="Merge",
        title=f"merge into {_of(snapshot)}",
        headline=(f"on {listing(clauses.on, options.display_columns)}", "not run yet"),
        facts=(
            *facts(
                ("rules", clean("; ".join(in_words(clauses)))),
                ("guarded", "new keys, by the primary key" if guarded and clauses.insert else ""),
            ),
            Fact("what it would do", ".preview(rows)", code=True),
            _run(".execute(rows)"),
        ),
    )


def query_builder_card(builder: SqlQueryBuilder, _now: datetime) -> Card:
    return _query(builder, "SQL builder", ".build().to_batch_records()")


def query_card(query: SqlQuery, _now: datetime) -> Card:
    return _query(query, "SQL", ".to_batch_records()")


def _query(query: SqlQueryBuilder | SqlQuery, kind: str, run: str) -> Card:
    snapshot = query._dataset._snapshot
    return Card(
        kind=kind,
        title=f"query of {_of(snapshot)}",
        headline=(f"as {clean(query._table)}", "not run yet"),
        facts=(Fact("text", clean(query._sql), code=True), _run(run)),
    )


def lookup_planner_card(planner: LsmPointLookupPlanner, _now: datetime) -> Card:
    key = [field.name for field in planner._schema.primary_key]
    return Card(
        kind="Planner",
        title="look-ups in a table and its shards",
        headline=(f"by {listing(key, options.display_columns)}",),
        facts=(_run(".plan_lookup(key).to_table()"),),
    )


def vector_planner_card(planner: LsmVectorSearchPlanner, _now: datetime) -> Card:
    return Card(
        kind="Planner",
        title=f"searches in {_of(planner._snapshot)} and its shards",
        headline=(f"next to a vector of {clean(str(planner._nearest['column']))}",),
        facts=(_run(".plan_search(vector).to_table()"),),
    )
