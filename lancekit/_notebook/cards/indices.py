"""Cards of a table's indices, of a single index, and of lists of indices or fragments."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from itertools import islice

from lancekit._api.listed import Listed, value_of
from lancekit._api.table_indices import TableIndices
from lancekit._notebook.cards.common import (
    NAMES,
    facts,
    first_of,
    operation_word,
    table,
    titled,
    when_and_age,
)
from lancekit._notebook.render.models import Card, Fact, Row, Table
from lancekit._notebook.render.words import cell, clean, count, listing, plural, size
from lancekit._operations.index.describe import IndexCoverage, IndexDescription, Uncovered
from lancekit.options import options

_COLUMNS = titled(
    *("index", "type", "column", "rows", "covered", "size", "segments", "updated"),
    numeric=("rows", "covered", "size", "segments"),
)
_MISSING = titled(
    *("index", "rows", "fragments", "since version", "operation", "committed"),
    numeric=("rows", "fragments", "since version"),
)

#: the largest number of names in a cell
_NAMED = 3


def indices_card(indices: TableIndices, now: datetime) -> Card:
    found, most = list(indices.values()), options.display_rows
    behind = [index for index in found if index.uncovered]
    missing: dict[Uncovered, list[str]] = {}
    for index in behind:
        for part in index.uncovered:
            missing.setdefault(part, []).append(index.name)
    calls = dict.fromkeys(index.mended_by for index in behind if index.mended_by)
    tables = (
        table(
            caption="By name",
            columns=_COLUMNS,
            rows=tuple(_row(index, now) for index in found[:most]),
            note=first_of(most, len(found), "dict(ds.indices)"),
        ),
        table(
            caption="Rows without an index entry",
            columns=_MISSING,
            rows=tuple(_missing(part, names, now) for part, names in islice(missing.items(), most)),
            note=first_of(most, len(missing), "dict(ds.indices)"),
        ),
    )
    return Card(
        kind="Indices",
        title=plural(len(found), "index", "indices"),
        headline=(f"{count(len(behind))} out of date",)
        if behind
        else ("all rows covered",)
        if found
        else ('ds.create_scalar_index(column, "BTREE")',),
        facts=tuple(
            Fact("update", call, code=True)
            for call in (("ds.optimize.optimize_indices()",) if len(calls) > 1 else calls)
        ),
        tables=tuple(each for each in tables if each.rows),
    )


def _row(index: IndexCoverage, now: datetime) -> Row:
    of = index.description
    times = [segment.created_at for segment in of.segments if segment.created_at]
    return Row(
        (
            clean(index.name),
            clean(of.index_type),
            listing(of.field_names, _NAMED),
            f"{count(of.num_rows_indexed)} of {count(index.num_rows)}",
            _percent(index.share),
            "" if of.total_size_bytes is None else size(of.total_size_bytes),
            count(len(of.segments)) if len(of.segments) > 1 else "",
            when_and_age(max(times, default=None), now),
        )
    )


def _percent(share: float) -> str:
    """Return a share in percent; 0% and 100% stand for exactly nothing and exactly all."""
    whole = round(100 * share)
    if whole == 100 and share < 1:
        return "> 99%"
    return "< 1%" if whole == 0 and share > 0 else f"{whole}%"


def _missing(part: Uncovered, names: list[str], now: datetime) -> Row:
    known = part.version is not None
    return Row(
        (
            listing(names, _NAMED),
            count(part.num_rows),
            count(len(part.fragments)),
            str(part.version) if part.version is not None else "",
            operation_word(part.operation, first=False) if known else "older",
            when_and_age(part.timestamp, now),
        )
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
        facts=facts(("segments", count(len(index.segments)))),
    )


def coverage_card(index: IndexCoverage, _now: datetime) -> Card:
    made = index.description
    missing = (
        f"{plural(part.num_rows, 'row')} in {plural(len(part.fragments), 'fragment')}"
        + (f" since version {part.version}" if part.version else "")
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
        facts=facts(
            ("not covered", listing(missing, NAMES)),
            *((Fact("update", index.mended_by, code=True),) if index.mended_by else ()),
        ),
    )


# ---- lists


def listed_card(listed: Listed[object], _now: datetime) -> Card:
    most, names = options.display_rows, listed._columns
    values = [[value_of(one, name) for name in names] for one in listed[:most]]
    numeric = [
        name
        for name, column in zip(names, zip(*values, strict=True), strict=False)
        if any(isinstance(value, int) for value in column)
    ]
    shown = Table(
        caption="In order",
        columns=titled(*names, numeric=numeric),
        rows=tuple(Row(tuple(map(_listed_value, row))) for row in values),
        note=first_of(most, len(listed), ".to_pandas()"),
    )
    return Card(kind="List", title=plural(len(listed), "item"), headline=(), tables=(shown,))


def _listed_value(value: object) -> str:
    if isinstance(value, Collection) and not isinstance(value, str | bytes):
        shown, more = listing(map(str, islice(value, NAMES)), NAMES), len(value) - NAMES
        return f"{shown}, and {count(more)} more" if more > 0 else shown
    if value is None:
        return ""
    return count(value) if isinstance(value, int) else cell(value)
