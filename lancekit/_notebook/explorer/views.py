"""Cards of an explorer, built from its state and the data read, and the code of each view."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._api.diff import SchemaChanges
from lancekit._api.lance_dataset import LanceDataset
from lancekit._format.paths import show_path
from lancekit._legible import code
from lancekit._notebook.cards.common import (
    NAMES,
    TOO_MANY_TAGS,
    data_size,
    facts,
    fragments,
    operation,
    ref,
    titled,
    when_and_age,
)
from lancekit._notebook.cards.dataset import type_of
from lancekit._notebook.cards.explanations import read_facts
from lancekit._notebook.explorer.pages import ManifestDiff, Page, Stop
from lancekit._notebook.explorer.state import MOST_SORTED, ExplorerState, Place
from lancekit._notebook.render.controls import page_table
from lancekit._notebook.render.models import Card, Column, Row, Table
from lancekit._notebook.render.words import cell, clean, count, listing, plural, share, signed, size
from lancekit._operations.explain.explanation import Reads
from lancekit._pipeline.diff.statistics import (
    Bin,
    ColumnStatistics,
    Counts,
    column_statistics,
    histogram,
    plain,
)

#: versions of a strip on each side of the selected one, and columns of a schema card
_BESIDE, _COLUMNS = 3, 50
#: characters of a full bar
_BAR = 10
_TIMES, _MINUS = "\u00d7", "\u2212"


# ---- the selected version


def stop_card(
    name: str, state: ExplorerState, stop: Stop, diff: ManifestDiff | None, now: datetime
) -> Card:
    """Return the card of the selected version and of its differences, from manifests alone."""
    version = stop.version
    rows = f" ({signed(diff.rows)})" if diff else ""
    columns = f" ({signed(diff.columns)})" if diff and diff.columns else ""
    return Card(
        kind="Explorer",
        title=f"{name} {ref(*stop.place)}",
        headline=(
            operation(version),
            f"{plural(version.num_rows, 'row')}{rows} {_TIMES} "
            f"{plural(version.num_columns, 'column')}{columns}",
            data_size(version) + (f" ({_bytes(diff.bytes)})" if diff else ""),
        ),
        facts=facts(
            ("versions", strip(state)),
            ("tags", TOO_MANY_TAGS if stop.tags is None else listing(stop.tags, NAMES)),
            ("committed", when_and_age(version.timestamp, now)),
            ("message", clean(version.message or "")),
            ("fragments", fragments(version)),
            *_against(state, diff),
        ),
    )


def strip(state: ExplorerState) -> str:
    """Return the version numbers around the selected one in a line.

    Examples
    --------
    >>> strip(ExplorerState(branch="main", versions=tuple(range(1, 101)), version=50))
    '1 … 47 48 49 [50] 51 52 53 … 100'
    """
    versions = state.versions
    at = bisect_left(versions, state.version)
    first, last = max(at - _BESIDE, 0), min(at + _BESIDE + 1, len(versions))
    # an ellipsis would take more room than the single number that it replaces
    first, last = 0 if first == 2 else first, last + (len(versions) - last == 2) * 2
    shown = [f"[{v}]" if v == state.version else str(v) for v in versions[first:last]]
    before = [str(versions[0]), "…"][: min(first, 2)]
    after = ["…", str(versions[-1])][max(2 - len(versions) + last, 0) :]
    return " ".join([*before, *shown, *after])


def _against(state: ExplorerState, diff: ManifestDiff | None) -> Iterator[tuple[str, str]]:
    if diff is None:
        missing = f"{ref(*state.pinned)} (not found)" if state.pinned else "no previous version"
        yield "compared with", missing
        return
    how = "pinned" if state.pinned else "previous version"
    parts = [
        f"{count(number)} {word}"
        for number, word in (
            (diff.fragments_added, "added"),
            (diff.fragments_removed, "removed"),
            (diff.fragments_changed, "changed"),
        )
        if number
    ]
    files = f"fragments: {', '.join(parts)}" if parts else "same fragments"
    yield "compared with", f"{ref(*diff.old.place)} ({how}); {files}"
    yield from _schema_facts(diff.schema)


def _schema_facts(schema: SchemaChanges) -> Iterator[tuple[str, str]]:
    yield "added columns", listing(schema.added, NAMES)
    yield "dropped columns", listing(schema.dropped, NAMES)
    yield "renamed columns", listing((f"{old} → {new}" for old, new in schema.renamed), NAMES)
    yield "cast columns", listing((f"{name} to {kind}" for name, _, kind in schema.cast), NAMES)


def _bytes(number: int) -> str:
    return "±0" if not number else ("+" if number > 0 else _MINUS) + size(abs(number))


# ---- rows


def page_card(state: ExplorerState, page: Page) -> Card:
    """Return the card of a page of rows."""
    way = [f"where {clean(state.filter)}"] if state.filter else []
    if state.order:
        column, ascending = state.order
        way.append(f"sorted by {clean(column)}, {'lowest' if ascending else 'highest'} first")
    if state.is_plain:
        way.append("in storage order")
    else:
        way.append(f"all {plural(page.rows_read, 'row')} read in {page.seconds:.2f} s")
    line = ", ".join(way)
    table = page_table(page.rows, line[:1].upper() + line[1:], page.start, page.total)
    notes = []
    if page.columns > len(table.columns):
        notes.append(f"{count(len(table.columns))} of {plural(page.columns, 'column')}")
    if state.order and state.start + state.page_rows >= MOST_SORTED < page.total:
        notes.append(f"sorted rows end at {count(MOST_SORTED)}: add a filter to see others")
    return Card(
        kind="Rows", title=table.note, headline=(), tables=(replace(table, note="; ".join(notes)),)
    )


def view_of_page(state: ExplorerState, found: Page | Reads | None) -> Card | None:
    """Return the card of a page, or of its expected cost if it was not read; ``None`` for none."""
    if not isinstance(found, Reads):
        return None if found is None else page_card(state, found)
    return Card(
        kind="Rows",
        title="not read yet",
        headline=("all rows must be read",),
        facts=facts(*read_facts(found), ("next", "press read")),
    )


def unread_card(kind: str, what: str) -> Card:
    """Return the card of a view that waits for the user's input."""
    return Card(kind=kind, title=what, headline=())


# ---- columns


def schema_card(stop: Stop, diff: ManifestDiff | None) -> Card:
    """Return the card of the schema; dropped and changed columns come first."""
    fields = stop.handle._snapshot.manifest.schema.fields
    marks = dict(_marks(diff.schema)) if diff else {}
    ordered = sorted(fields, key=lambda field: field.name not in marks)
    dropped = diff.schema.dropped[: NAMES * 2] if diff else ()
    rows = [
        Row((clean(f.name), type_of(f), "yes" if f.nullable else "no", marks.get(f.name, "")))
        for f in ordered[: _COLUMNS - len(dropped)]
    ]
    gone = [Row((clean(name), "", "", f"{_MINUS} dropped"), quiet=True) for name in dropped]
    return Card(
        kind="Schema",
        title=plural(len(fields), "column"),
        headline=(plural(len(marks), "change") if diff and diff.schema else "no changes",)
        if diff
        else (),
        tables=(
            Table(
                caption="Columns",
                columns=tuple(map(Column, ("column", "type", "nullable", "change"))),
                rows=(*gone, *rows),
                note=f"{count(len(rows))} of {plural(len(fields), 'column')}",
            ),
        ),
    )


def _marks(schema: SchemaChanges) -> Iterator[tuple[str, str]]:
    yield from ((name, "+ added") for name in schema.added)
    yield from ((new, f"~ was {clean(old)}") for old, new in schema.renamed)
    yield from ((name, f"~ was {clean(str(kind))}") for name, kind, _ in schema.cast)


def summary_card(summary: _Summary) -> Card:
    """Return the card of a column's value statistics."""
    found = summary.statistics
    nulls = plural(found.nulls, "row") + (
        f", {share(found.nulls / found.rows)}" if found.rows else ""
    )
    about = "" if found.distinct < 1 << 14 else "about "
    top = summary.top
    return Card(
        kind="Column",
        title=clean(summary.column),
        headline=(clean(str(summary.kind)), f"all {plural(found.rows, 'row')} read"),
        facts=facts(
            ("nulls", nulls),
            ("distinct", f"{about}{plural(found.distinct, 'value')}"),
            ("min", "" if found.min is None else cell(found.min)),
            ("max", "" if found.max is None else cell(found.max)),
            ("frequent values", _NOT_COUNTED if top is None else ""),
            ("not finite", plural(summary.others, "value") if summary.others else ""),
        ),
        tables=tuple(_tables(summary)),
    )


def _tables(summary: _Summary) -> Iterator[Table]:
    if summary.top:
        rows = [((cell(value),), number) for value, number in summary.top]
        yield _bars("Most frequent values", ("value",), rows, numeric=bool(summary.bins))
    if summary.bins:
        ranges = [((_edge(b.low), _edge(b.high)), b.rows) for b in summary.bins]
        yield _bars("Histogram", ("from", "to"), ranges, numeric=True)


_NOT_COUNTED = "not counted: too many distinct values, or a type that cannot be counted"


def _edge(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else cell(value)


def _bars(
    caption: str,
    names: Sequence[str],
    rows: Sequence[tuple[tuple[str, ...], int]],
    *,
    numeric: bool,
) -> Table:
    most = max(number for _, number in rows) or 1
    return Table(
        caption=caption,
        columns=(*(Column(n, numeric) for n in names), Column("rows", numeric=True), Column("bar")),
        rows=tuple(
            Row((*cells, count(number), "█" * round(_BAR * number / most)))
            for cells, number in rows
        ),
    )


# ---- comparison of two versions


def compare_card(new: Stop, diff: ManifestDiff) -> Card:
    """Return the card of two versions side by side, from their manifests."""
    old = diff.old
    a, b = old.version, new.version
    sides: tuple[tuple[str, str, str, str], ...] = (
        ("rows", count(a.num_rows), count(b.num_rows), signed(diff.rows)),
        ("columns", count(a.num_columns), count(b.num_columns), signed(diff.columns)),
        ("bytes", data_size(a), data_size(b), _bytes(diff.bytes)),
        *(
            (name, count(one), count(other), signed(other - one))
            for name, one, other in (
                ("fragments", a.num_fragments, b.num_fragments),
                ("data files", a.num_data_files, b.num_data_files),
                ("deleted rows", a.num_deleted_rows, b.num_deleted_rows),
            )
        ),
        ("operation", operation(a), operation(b), ""),
        ("message", clean(a.message or ""), clean(b.message or ""), ""),
        ("tags", listing(old.tags or (), NAMES), listing(new.tags or (), NAMES), ""),
    )
    return Card(
        kind="Compare",
        title=f"{ref(*old.place)} → {ref(*new.place)}",
        headline=(f"{signed(diff.rows)} rows", _bytes(diff.bytes)),
        facts=facts(*_schema_facts(diff.schema)),
        tables=(
            Table(
                caption="Both versions",
                columns=titled("property", ref(*old.place), ref(*new.place), "change"),
                rows=tuple(map(Row, sides)),
                note="rows not compared yet; press find changed rows",
            ),
        ),
    )


# ---- code


def code_of(state: ExplorerState) -> str:
    """Return the code that returns the object shown in a state.

    Examples
    --------
    >>> code_of(ExplorerState(branch="main", versions=(1, 2), version=2, filter="x > 3"))
    "ds.checkout_version(2).to_table(filter='x > 3', limit=10)"
    """
    at = checkout_code(state.home, state.place)
    match state.view:
        case "rows":
            given = [f"filter={code(state.filter)}"] if state.filter else []
            if state.order:
                given.append(f"order_by=[{_ordering(*state.order)}]")
            given += [f"offset={state.start}"] if state.start else []
            return f"{at}.to_table({', '.join([*given, f'limit={state.page_rows}'])})"
        case "schema":
            return f"{at}.schema"
        case "column" if state.column:
            return f"{at}.to_table([{code(show_path([state.column]))}])"
        case "compare" if state.against:
            return f"ds.diff({_literal(state.against)}, {_literal(state.place)})"
    return at


def checkout_code(home: str, place: Place) -> str:
    """Return the code that opens a version from a handle on branch ``home``."""
    reference = str(place[1]) if place[0] == home else _literal(place)
    return f"ds.checkout_version({reference})"


def _literal(place: Place) -> str:
    return f"({code(place[0])}, {place[1]})"


def _ordering(name: str, ascending: bool) -> str:
    path = code(show_path([name]))
    return path if ascending else f"lk.ColumnOrdering({path}, ascending=False)"


# ---- statistics of a column's values, from all rows and never from a sample

#: bars of a histogram, frequent values shown, and the most distinct values that are counted
BINS, TOP, _MOST_COUNTED = 16, 8, 1 << 16
#: small batches are combined to this number of rows
_TOGETHER = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Summary:
    """Statistics of a column's values.

    `top` has the most frequent values and their counts, the most frequent first.  It is ``None`` if
    there are too many distinct values to count.  `others` counts NaN and infinite values, which are
    in no bar.
    """

    column: str
    kind: pa.DataType
    statistics: ColumnStatistics
    top: tuple[tuple[object, int], ...] | None
    bins: tuple[Bin, ...] = ()
    others: int = 0


class _CancelledError(Exception):
    """A newer request waits, so the current read ends."""


def read_summary(
    handle: LanceDataset, column: str, cancelled: Callable[[], bool]
) -> _Summary | None:
    """Return the statistics of a column; ``None`` if ``cancelled`` returns True during the read.

    The column is read once, and again for the histogram of numbers with too many distinct values.

    Raises ColumnNotFoundError: unknown column.
    """
    path = show_path([column])

    def values() -> Iterator[pa.Array]:
        waiting: list[pa.Array] = []
        for batch in handle.to_batches(columns=[path], blob_handling="all_binary"):
            if cancelled():
                raise _CancelledError
            waiting.append(plain(batch.column(0)))
            if sum(map(len, waiting)) >= _TOGETHER:
                yield ak.concat_arrays(waiting)
                waiting = []
        if waiting:
            yield ak.concat_arrays(waiting)

    counts = Counts(_MOST_COUNTED)
    try:
        statistics = column_statistics(map(counts.seen, values()))
        kind = handle._snapshot.manifest.schema.field(column).to_arrow().type
        bins, others = histogram(kind, statistics, counts, values, BINS)
    except _CancelledError:
        return None
    return _Summary(
        column=column,
        kind=kind,
        statistics=statistics,
        top=counts.top(TOP),
        bins=bins,
        others=others,
    )
