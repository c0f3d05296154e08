"""Cards of statistics, of a fragment, and of a column."""

from __future__ import annotations

from datetime import datetime

from lancekit._api.column import ColumnSummary, DatasetColumn
from lancekit._api.fragment import LanceFragment
from lancekit._api.lance_stats import LanceStats
from lancekit._notebook.cards.common import NAMES, facts, first_of, folded, ref, table
from lancekit._notebook.render.models import Card, Column, Fact, Row, Table
from lancekit._notebook.render.words import cell, clean, count, listing, plural, share, size
from lancekit._operations.index.describe import IndexDescription
from lancekit._operations.maintenance.inventory import ColumnStorage, DataStatistics
from lancekit._scan.statistics import ScanStatistics
from lancekit.dataset import ColumnStatistics
from lancekit.options import options

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
            Fact("field sizes", ".data_stats()", code=True),
            *(
                Fact("index", f".index_stats({name!r})", code=True)
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
        headline=(plural(found.requests, "request"), plural(found.iops, "byte range")),
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


# ---- the cards of a column, and of statistics of its values

#: width of a histogram's longest bar in characters
_BAR = 24


def column_card(column: DatasetColumn, _now: datetime) -> Card:
    rows = column._snapshot.manifest.num_rows
    key = column.key_position
    return Card(
        kind="Column",
        title=clean(column.path),
        headline=(
            clean(str(column.type)),
            "nullable" if column.nullable else "not nullable",
            *([f"key {key}"] if key else []),
            _size(column.storage),
        ),
        facts=facts(
            ("indices", listing((_index(one, rows) for one in column.indices), NAMES)),
            (
                "constraints",
                listing((f"{c.name}: {c.condition}" for c in column.constraints), NAMES),
            ),
            ("metadata", listing(_metadata(column), NAMES)),
            Fact("values", ".statistics()", code=True),
        ),
        tables=folded(
            ("encoding", listing(column.storage.encodings, NAMES)),
            ("files read", _files_read(column.storage)),
            ("field", f"id {count(column.field_id)}"),
        ),
    )


def _metadata(column: DatasetColumn) -> list[str]:
    # the headline has the position in the key
    pairs = column.metadata.items()
    return [f"{name} = {value}" for name, value in pairs if not name.startswith("lance-schema:")]


def _size(storage: ColumnStorage) -> str:
    if storage.files_read == storage.files:
        return size(storage.bytes)
    return f"{size(storage.bytes)} in {storage.files_read} of {plural(storage.files, 'file')}"


def _files_read(storage: ColumnStorage) -> str:
    if storage.problem:
        return storage.problem
    files = plural(storage.files, "file")
    if not storage.files:
        return "none: all values are null"
    return "" if storage.files_read == storage.files else f"{storage.files_read} of {files}"


def _index(index: IndexDescription, rows: int) -> str:
    cover = f"{count(index.num_rows_indexed)} of {plural(rows, 'row')}"
    return f"{index.name} ({index.index_type}, {cover})"


def summary_card(found: ColumnSummary, _now: datetime) -> Card:
    whole, rows = found.exact, plural(found.rows, "row")
    about, least, most = ("", "", "") if whole else ("≈ ", "≤ ", "≥ ")
    return Card(
        kind="Column values",
        title=clean(found.column),
        headline=(
            f"all {rows}" if whole else f"estimated from {count(found.rows_read)} of {rows}",
            f"{about}{_share(found.nulls, found.rows_read)} null",
            f"{most}{count(found.distinct)} distinct",
        ),
        facts=facts(
            ("min", "" if found.min is None else f"{least}{cell(found.min)}"),
            ("max", "" if found.max is None else f"{most}{cell(found.max)}"),
            ("nulls", about + count(round(found.null_share * found.rows)) if found.nulls else ""),
            (
                "sample",
                "" if whole else "evenly spread blocks of rows; .statistics(rows=...) reads more",
            ),
        ),
        tables=tuple(one for one in (_most_frequent(found), _histogram(found)) if one.rows),
    )


def _most_frequent(found: ColumnSummary) -> Table:
    most = options.display_rows
    return table(
        caption="Most frequent",
        columns=(Column("value"), _rows(found), Column("share", numeric=True)),
        rows=tuple(
            Row((_value(value), count(n), _share(n, found.rows_read)))
            for value, n in found.top[:most]
        ),
        note=first_of(most, len(found.top)),
    )


def _histogram(found: ColumnSummary) -> Table:
    most = 2 * options.display_rows
    tallest = max((one.rows for one in found.histogram), default=0)
    return table(
        caption="Histogram",
        columns=(
            *(Column(end, numeric=True) for end in ("from", "to")),
            _rows(found),
            Column("bar"),
        ),
        rows=tuple(
            Row((_value(b.low), _value(b.high), count(b.rows), _bar(b.rows, tallest)))
            for b in found.histogram[:most]
        ),
        note=first_of(most, len(found.histogram)),
    )


def _rows(found: ColumnSummary) -> Column:
    return Column("rows" if found.exact else "rows read", numeric=True)


def _value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else cell(value)


def _share(rows: int, total: int) -> str:
    return share(rows / total if total else 0.0)


def _bar(rows: int, tallest: int) -> str:
    return "█" * max(round(_BAR * rows / tallest), 1 if rows else 0)
