"""Cards of row and column histories, of a bisection, of a diff and of a change feed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from lancekit._api.bisect import Bisection, Flip
from lancekit._api.changes import ChangeFeed, ChangeStep
from lancekit._api.diff import DatasetDiff, DiffCounts
from lancekit._api.diff_rows import ChangedRow
from lancekit._api.glance import Glance, glance_at
from lancekit._api.histories import ColumnChange, ColumnHistory, RowChange, RowHistory
from lancekit._api.some_rows import BlobSize
from lancekit._notebook.cards.common import (
    COMMIT_COLUMNS,
    NAMES,
    commit_cells,
    facts,
    operation_word,
    ref,
    table,
    titled,
    when_and_age,
)
from lancekit._notebook.render.models import Card, Fact, Row, Table
from lancekit._notebook.render.words import (
    cell,
    clean,
    count,
    key_text,
    listing,
    moment,
    plural,
    size,
)
from lancekit.options import options

_COLUMNS = (*COMMIT_COLUMNS, *titled("row", "change", "column", "before", "after"))
#: by kind of change: its word; the oldest readable version shows a row without its first commit
_KINDS = {"born": "inserted", "died": "deleted", "found": "first seen"}


def row_history_card(history: RowHistory, _now: datetime) -> Card:
    keys = history.keys
    shown = list(history)[-options.display_rows :]
    most = max(options.display_rows // max(len(shown), 1), 1)
    named = len(keys) > 1
    rows = [row for change in reversed(shown) for row in _rows(change, most, named=named)]
    older = len(history) - len(shown)
    unsure = [change for change in history if change.before not in {change.version - 1, None}]
    return Card(
        kind="Row history",
        title=key_text(keys[0]) if len(keys) == 1 else plural(len(keys), "row"),
        headline=(plural(len(history), "change"), clean(history.branch)),
        facts=facts(("also possible", listing(map(_gap, unsure), options.display_columns))),
        tables=(
            table(
                caption="Newest first",
                columns=_COLUMNS,
                rows=tuple(rows),
                note=f"{count(older)} older" if older else "",
            ),
        ),
    )


def _gap(change: RowChange) -> str:
    ends = count((change.before or 0) + 1), count(change.version - 1)
    return f"{' to '.join(dict.fromkeys(ends))} (cleaned up) instead of {change.version}"


def _rows(change: RowChange, most: int, *, named: bool) -> Iterator[Row]:
    """Yield a table row for each of the first ``most`` changed values, and one for all others."""
    facts_: tuple[str, ...] = (
        *commit_cells(change),
        key_text(change.key) if named else "",
        _KINDS.get(change.kind, change.kind),
    )
    cells = list(change.cells.items()) or [("", (None, None))]
    for name, (before, after) in cells[:most]:
        gone, come = change.kind == "died", change.kind in {"born", "found"}
        ends = ("" if come else cell(before), "" if gone else cell(after))
        yield Row((*facts_, clean(name), *(ends if name else ("", ""))))
        facts_ = ("",) * len(facts_)  # only the first row of a change has the commit's cells
    if more := len(cells) - most if len(cells) > most else 0:
        yield Row((*facts_, f"{plural(more, 'more column')}; all: .cells", "", ""))


# ---- the card of a bisection: the commit at which the condition changed, and how to undo it

_FLIPS = (*COMMIT_COLUMNS, *titled("result"))


def bisection_card(found: Bisection, now: datetime) -> Card:
    flip = found.first_bad
    raised = [e for e in found.evaluations if e.good is None]
    return Card(
        kind="Bisection",
        title="no bad version" if flip is None else f"bad since {ref(found.branch, flip.version)}",
        headline=(
            plural(len(found.evaluations), "version") + " tested",
            *(("uncertain",) if flip is not None and not flip.is_certain else ()),
        ),
        facts=facts(
            *(() if flip is None else _facts(found, flip, now)),
            ("errors", listing((f"{e.version}: {e.error}" for e in raised), NAMES)),
            *(() if flip is None else (Fact("next", "bisection.diff", code=True),)),
            *(() if flip is None else (Fact("undo", flip.undo, code=True),)),
        ),
        tables=() if len(found.flips) < 2 else (_table(found),),
    )


def _facts(found: Bisection, flip: Flip, now: datetime) -> tuple[Fact, ...]:
    others = [f"{ref(found.branch, number)} (cleaned up)" for number in flip.gone]
    others += [f"{ref(found.branch, number)} (untested)" for number in flip.untested]
    return facts(
        ("last good", ref(found.branch, flip.before)),
        ("committed", when_and_age(flip.timestamp, now)),
        ("operation", operation_word(flip.operation, first=flip.version == 1)),
        ("message", clean(flip.message or "")),
        ("also possible", listing(others, NAMES)),
    )


def _table(found: Bisection) -> Table:
    shown = found.flips[: options.display_rows]
    return table(
        caption="Changes of the result",
        columns=_FLIPS,
        rows=tuple(Row((*commit_cells(flip), "good" if flip.good else "bad")) for flip in shown),
        note=f"{count(len(found.flips) - len(shown))} more: bisection.flips"
        if len(found.flips) > len(shown)
        else "",
    )


# ---- the card of a column's history, version by version

_OF_CHANGES = (
    *COMMIT_COLUMNS,
    *titled("change", "before", "after", "rows", "nulls", "lowest", "highest", "distinct"),
)


def column_history_card(history: ColumnHistory, _now: datetime) -> Card:
    """Return the card of a column's history, with statistics that have been computed already."""
    shown = list(history)[-options.display_rows :]
    older = len(history) - len(shown)
    return Card(
        kind="Column history",
        title=clean(history.column),
        headline=(plural(len(history), "change"), clean(history.branch)),
        facts=(Fact("next", "history[-1].statistics", code=True),),
        tables=(
            table(
                caption="Newest first",
                columns=_OF_CHANGES,
                rows=tuple(map(_row, reversed(shown))),
                note=f"{count(older)} older" if older else "",
            ),
        ),
    )


def _row(change: ColumnChange) -> Row:
    return Row(
        (
            *commit_cells(change),
            _KINDS.get(change.kind, change.kind),
            _column_text(change.old_name, change.old_type),
            _column_text(change.name, change.type),
            *_statistics(change),
        )
    )


def _column_text(name: str | None, kind: object) -> str:
    return "" if name is None else f"{clean(name)} {clean(str(kind))}"


def _statistics(change: ColumnChange) -> tuple[str, ...]:
    found = change.__dict__.get("statistics")  # a card reads no rows
    if found is None:
        return ("",) * 5
    ends = ("" if end is None else cell(end) for end in (found.min, found.max))
    return (count(found.rows), count(found.nulls), *ends, count(found.distinct))


# ---- the cards of a diff, with some of the rows, and of a feed of changes, with its commits

_STEPS = titled("version", "committed", "inserted", "deleted", "updated", "to compare")


def diff_card(diff: DatasetDiff, _now: datetime) -> Card:
    """Return the card of a diff; it compares the rows, unless that reads too much."""
    seen = glance_at(diff)
    counts = seen.counts
    rows = plural(diff._plan.rows_apart, "row")
    read = f"about {size(seen.bytes)}" if seen.bytes else ""
    if counts is None:
        return Card(
            kind="Diff",
            title=_title(diff),
            headline=(f"{rows} to compare", *filter(None, [read]), "not compared yet"),
            facts=facts(
                *_how(diff),
                *(("note", note) for note in diff.explain().notes),
                ("reason", seen.why),
                Fact("next", "d.compute(), d.to_table()", code=True),
            ),
        )
    added, cells = diff.schema.added, seen.diff.columns
    changed = [f"{clean(n)} {count(cells[n])}" for n in cells if cells[n] and n not in added]
    values = (f"{clean(n)} {count(cells[n])}" for n in added if cells.get(n))
    only_added = seen.diff._rows.only_added
    beyond = f" ({count(only_added)} only in added columns)" if only_added else ""
    return Card(
        kind="Diff",
        title=_title(diff),
        headline=(
            f"{count(counts.inserted)} inserted",
            f"{count(counts.deleted)} deleted",
            f"{count(counts.updated)} updated{beyond}",
            f"{count(counts.unchanged)} unchanged",
        ),
        facts=facts(
            *_how(diff),
            ("changed cells", listing(changed, NAMES)),
            ("ambiguous rows", count(counts.ambiguous) if counts.ambiguous else ""),
            ("added cells", listing(values, NAMES)),
            ("read", read),
            ("not compared", listing(seen.heavy, NAMES)),
            *([] if diff.is_compared else [Fact("next", "d.compute()", code=True)]),
        ),
        tables=tuple(_changed(diff, seen, counts)),
    )


def _changed(diff: DatasetDiff, seen: Glance, counts: DiffCounts) -> Iterator[Table]:
    """Yield tables of changed rows with their keys: of older columns, and of added ones."""
    total = counts.inserted + counts.deleted + counts.updated
    names = [pair.name for pair in diff._plan.columns]
    rows = seen.some.rows
    more = len({*names}.difference(diff.schema.added, *((*row.cells, *row.key) for row in rows)))
    hidden = f"; {plural(more, 'other column')}" if more > 0 else ""
    some = f"{count(len(rows))} of {plural(total, 'row')}{hidden}; all: d.to_table()"
    note = f"not read: {seen.why}" if seen.why else some
    if rows or seen.why:
        yield rows_table("Changed rows, old → new", rows, names, note)
    if seen.some.added:
        yield rows_table("Added columns of updated rows", seen.some.added, names)


def rows_table(
    caption: str, rows: Sequence[ChangedRow], order: Sequence[str], note: str = ""
) -> Table:
    """Return a table of changed rows: their keys, and their cells in the order of the columns."""
    key = list(dict.fromkeys(name for row in rows for name in row.key))
    used = {name for row in rows for name in row.cells}
    names = [name for name in order if name in used]
    made = []
    for row in rows:
        cells = (*(cell(row.key[name]) for name in key), row.change)
        at = [len(cells) + at for at, name in enumerate(names) if name in row.cells]
        marked = frozenset(at if row.change == "update" else ())
        made.append(Row((*cells, *(_ends(row, name) for name in names)), marked=marked))
    columns = titled(*map(clean, key), "change", *map(clean, names))
    return Table(caption=caption, columns=columns, rows=tuple(made), note=note)


def _ends(row: ChangedRow, name: str) -> str:
    """Return a changed value: of an updated row, the old and the new one, if they differ."""
    if name not in row.cells:
        return "" if row.change == "update" else "null"
    before, after = (size(v.bytes) if isinstance(v, BlobSize) else v for v in row.cells[name])
    if row.change == "update":
        return f"{cell(before)} → {cell(after)}"
    return cell(after if row.change == "insert" else before)


def feed_card(feed: ChangeFeed, _now: datetime) -> Card:
    """Return the card of a feed; it lists the steps only if they fit on one page."""
    versions, branch = feed.versions, feed._since.location.name
    page, number = options.display_rows, len(versions) - 1
    shown = feed.steps[-page:] if 0 < number <= page or feed.is_listed else []
    gaps = (f"versions {count(old + 1)} to {count(new - 1)}" for old, new in feed.gaps)
    older = number - len(shown)
    return Card(
        kind="Changes",
        title=f"changes {ref(branch, versions[0])} → {ref(branch, versions[-1])}",
        headline=(plural(number, "step"),),
        facts=facts(
            ("cleaned up", listing(gaps, NAMES)),
            Fact("next", "feed.to_table(), feed.steps", code=True),
        ),
        tables=(
            table(
                caption="Newest first",
                columns=_STEPS,
                rows=tuple(_step(step) for step in reversed(shown)),
                note=f"{count(older)} more: feed.steps" if older else "",
            ),
        ),
    )


def _step(step: ChangeStep) -> Row:
    diff, cells = step.diff, (count(step.new), moment(step.timestamp))
    if diff.is_compared:
        counts = diff.counts
        return Row((*cells, *map(count, (counts.inserted, counts.deleted, counts.updated)), ""))
    reads = diff.explain().reads
    return Row((*cells, "", "", "", plural(reads.rows if reads else 0, "row")))


def _title(diff: DatasetDiff) -> str:
    return f"diff {ref(*diff.old)} → {ref(*diff.new)}"


def _how(diff: DatasetDiff) -> Iterator[tuple[str, str]]:
    key = f" ({listing(map(clean, diff.key), NAMES)})" if diff.key else ""
    yield "matched by", diff.matched_by.replace("whole rows", "all columns") + key
    schema = diff.schema
    yield "added columns", listing(map(clean, schema.added), NAMES)
    yield "dropped columns", listing(map(clean, schema.dropped), NAMES)
    renamed = (f"{clean(old)} → {clean(new)}" for old, new in schema.renamed)
    yield "renamed columns", listing(renamed, NAMES)
    cast = (f"{clean(name)} to {clean(str(kind))}" for name, _, kind in schema.cast)
    yield "cast columns", listing(cast, NAMES)
