"""The cards of statistics, and of a fragment."""

from __future__ import annotations

from datetime import datetime

from lancekit._api.fragment import LanceFragment
from lancekit._api.stats import LanceStats
from lancekit._notebook.cards.common import NAMES, facts, first_of, ref, table
from lancekit._notebook.render.models import Card, Column, Fact, Row
from lancekit._notebook.render.words import cell, clean, count, plural, size
from lancekit._operations.maintenance.inventory import DataStatistics
from lancekit._scan.statistics import ScanStatistics
from lancekit.dataset import ColumnStatistics
from lancekit.options import options

__all__ = [
    "column_statistics_card",
    "data_statistics_card",
    "fragment_card",
    "scan_statistics_card",
    "stats_card",
]

_FIELDS = (Column("field"), Column("bytes", numeric=True))


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
                rows=tuple(Row((clean(f.name), size(f.bytes_on_disk))) for f in largest[:most]),
                note=first_of(most, len(largest), "fields"),
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


# ---- the card of a fragment

_FILES = (Column("file"), Column("fields", numeric=True), Column("size", numeric=True))


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
                note=first_of(most, len(found.files)),
            ),
        ),
    )
