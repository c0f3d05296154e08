"""The cards of statistics, of an index, and of a fragment."""

from __future__ import annotations

from datetime import datetime

from lancekit.api.fragment import LanceFragment
from lancekit.api.pylance.session import Session
from lancekit.api.stats import LanceStats
from lancekit.cache import cache_info
from lancekit.notebook.cards.cache import cache_card
from lancekit.notebook.cards.common import NAMES, facts, ref, table
from lancekit.notebook.render.models import Card, Column, Fact, Row
from lancekit.notebook.render.words import cell, clean, count, listing, plural, size
from lancekit.operations.index.coverage import IndexCoverage
from lancekit.operations.index.describe import IndexDescription
from lancekit.operations.maintenance.inventory import DataStatistics
from lancekit.options import options
from lancekit.pipeline.diff.statistics import ColumnStatistics
from lancekit.scan.statistics import ScanStatistics

__all__ = [
    "column_statistics_card",
    "coverage_card",
    "data_statistics_card",
    "fragment_card",
    "index_card",
    "scan_statistics_card",
    "session_of_pylance_card",
    "stats_card",
]

_FIELDS = (Column("field", numeric=True), Column("bytes", numeric=True))
_FILES = (Column("file"), Column("fields", numeric=True), Column("size", numeric=True))


def stats_card(stats: LanceStats, _now: datetime) -> Card:
    found, snapshot = stats.dataset_stats(), stats._snapshot
    return Card(
        kind="Statistics",
        title=f"statistics of {ref(snapshot.branch, snapshot.version)}",
        headline=(
            plural(found["num_fragments"], "fragment"),
            f"{count(found['num_small_files'])} small",
            plural(found["num_deleted_rows"], "deleted row"),
        ),
        facts=(
            Fact("bytes of fields", ".data_stats()", code=True),
            *(
                Fact("of an index", f".index_stats({name!r})", code=True)
                for name in sorted({clean(index.name) for index in snapshot.indices})[:NAMES]
            ),
        ),
    )


def data_statistics_card(found: DataStatistics, _now: datetime) -> Card:
    largest = sorted(found.fields, key=lambda one: -one.bytes_on_disk)
    most = options.display_rows
    return Card(
        kind="Data statistics",
        title=size(sum(one.bytes_on_disk for one in found.fields)),
        headline=(plural(len(found.fields), "field"),),
        tables=(
            table(
                caption="Largest first",
                columns=_FIELDS,
                rows=tuple(Row((count(f.id), size(f.bytes_on_disk))) for f in largest[:most]),
                note=f"the first {count(most)} of {count(len(largest))}; fields has all"
                if len(largest) > most
                else "",
            ),
        ),
    )


def column_statistics_card(found: ColumnStatistics, _now: datetime) -> Card:
    return Card(
        kind="Column values",
        title=plural(found.rows, "row"),
        headline=(plural(found.nulls, "null"), f"{count(found.distinct)} distinct"),
        facts=facts(
            ("min", "" if found.min is None else cell(found.min)),
            ("max", "" if found.max is None else cell(found.max)),
        ),
    )


def scan_statistics_card(found: ScanStatistics, _now: datetime) -> Card:
    return Card(
        kind="Scan statistics",
        title=f"{size(found.bytes_read)} read",
        headline=(plural(found.requests, "request"), f"{plural(found.iops, 'range')} of bytes"),
    )


def index_card(index: IndexDescription, _now: datetime) -> Card:
    known = index.total_size_bytes
    return Card(
        kind="Index",
        title=clean(index.name),
        headline=(
            clean(index.index_type),
            f"on {listing(index.field_names, NAMES)}",
            f"{plural(index.num_rows_indexed, 'row')} covered",
            "size not recorded" if known is None else size(known),
        ),
        facts=facts(("made of", plural(len(index.segments), "segment"))),
    )


def coverage_card(index: IndexCoverage, _now: datetime) -> Card:
    made = index.description
    missing = (
        f"{plural(part.num_rows, 'row')} in {plural(len(part.fragments), 'fragment')}"
        + (f" since version {count(part.version)}" if part.version else "")
        for part in index.uncovered
    )
    return Card(
        kind="Index",
        title=clean(index.name),
        headline=(
            clean(made.index_type),
            f"on {listing(made.field_names, NAMES)}",
            f"{count(made.num_rows_indexed)} of {plural(index.num_rows, 'row')} covered",
        ),
        facts=(
            *facts(("not covered", listing(missing, NAMES))),
            *((Fact("bring up to date", index.mended_by, code=True),) if index.mended_by else ()),
        ),
    )


def fragment_card(fragment: LanceFragment, _now: datetime) -> Card:
    found, most = fragment.metadata, options.display_rows
    deleted = (found.physical_rows or 0) - found.num_rows
    return Card(
        kind="Fragment",
        title=f"fragment {count(found.id)}",
        headline=(plural(found.num_rows, "row"), plural(len(found.files), "data file")),
        facts=facts(("deleted", plural(deleted, "row") if deleted > 0 else "")),
        tables=(
            table(
                caption="Data files",
                columns=_FILES,
                rows=tuple(
                    Row(
                        (
                            clean(file.path),
                            count(len(file.fields)),
                            size(file.file_size_bytes) if file.file_size_bytes else "",
                        )
                    )
                    for file in found.files[:most]
                ),
                note=f"the first {count(most)} of {count(len(found.files))}"
                if len(found.files) > most
                else "",
            ),
        ),
    )


def session_of_pylance_card(_session: Session, now: datetime) -> Card:
    return cache_card(cache_info(), now)
