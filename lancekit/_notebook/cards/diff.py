"""The cards of a diff, with some of the rows, and of a feed of changes, with its commits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from lancekit._api.changes import ChangeFeed, ChangeStep
from lancekit._api.diff import ChangedRow, DatasetDiff
from lancekit._notebook.cards.common import NAMES, facts, ref, table
from lancekit._notebook.render.models import Card, Column, Fact, Row
from lancekit._notebook.render.words import cell, clean, count, listing, moment, plural, told
from lancekit.options import options

__all__ = ["diff_card", "feed_card"]

_CELLS = (Column("change"), Column("row"), Column("column"), Column("before"), Column("after"))
_STEPS = tuple(
    Column(name)
    for name in ("version", "committed", "inserted", "deleted", "updated", "to look at")
)


def diff_card(diff: DatasetDiff, _now: datetime) -> Card:
    if not diff.is_compared:  # which reads rows: nothing that is shown for itself does
        explained = diff.explain()
        rows = explained.reads.rows if explained.reads else 0
        return Card(
            kind="Diff",
            title=_title(diff),
            headline=(f"not compared yet: {plural(rows, 'row')} to look at",),
            facts=(
                *facts(*_how(diff), *(("", note) for note in explained.notes)),
                Fact("next", "d.counts, d.sample(), d.to_table()", code=True),
            ),
        )
    counts = diff.counts
    changed = {name: cells for name, cells in diff.columns.items() if cells}
    shown = [row for one in diff.sample(options.display_rows) for row in _cells(one)]
    total = counts.inserted + counts.deleted + counts.updated
    return Card(
        kind="Diff",
        title=_title(diff),
        headline=tuple(
            f"{count(number)} {word}"
            for word, number in (
                ("inserted", counts.inserted),
                ("deleted", counts.deleted),
                ("updated", counts.updated),
                ("unchanged", counts.unchanged),
            )
        ),
        facts=facts(
            *_how(diff),
            ("cells", listing((f"{clean(n)} {count(c)}" for n, c in changed.items()), NAMES)),
            ("ambiguous", count(counts.ambiguous) if counts.ambiguous else ""),
        ),
        tables=(
            table(
                caption="Changed rows",
                columns=_CELLS,
                rows=tuple(shown[: options.display_rows]),
                note=f"of {plural(total, 'row')}: to_table()" if total else "",
            ),
        ),
    )


def feed_card(feed: ChangeFeed, _now: datetime) -> Card:
    """Return the card of a feed; its steps are listed if that loads no more than a page."""
    versions = feed.versions
    page, number = options.display_rows, len(versions) - 1
    shown = feed.steps[-page:] if 0 < number <= page or feed.is_listed else []
    gaps = (f"{count(old)} to {count(new)}" for old, new in feed.gaps)
    older = number - len(shown)
    return Card(
        kind="Changes",
        title=f"version {count(versions[0])} to version {count(versions[-1])}",
        headline=(plural(number, "step"),),
        facts=(
            *facts(("gaps", listing(gaps, NAMES))),
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
    return f"{ref(*diff.old)} to {ref(*diff.new)}"


def _how(diff: DatasetDiff) -> Iterator[tuple[str, str]]:
    key = f" ({listing(map(clean, diff.key), NAMES)})" if diff.key else ""
    yield "rows told by", diff.matched_by + key
    schema = diff.schema
    yield "columns added", listing(map(clean, schema.added), NAMES)
    yield "dropped", listing(map(clean, schema.dropped), NAMES)
    yield "renamed", listing((f"{clean(a)} to {clean(b)}" for a, b in schema.renamed), NAMES)
    yield "cast", listing((f"{clean(n)} to {clean(str(k))}" for n, _, k in schema.cast), NAMES)


def _cells(row: ChangedRow) -> Iterator[Row]:
    for name, (before, after) in row.cells.items() or [("", (None, None))]:
        ends = ("", cell(after)) if row.change == "insert" else (cell(before), cell(after))
        if row.change == "delete":
            ends = (ends[0], "")
        yield Row((row.change, told(row.key), clean(name), *ends))
