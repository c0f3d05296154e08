"""The cards of a history and of a version."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from datetime import datetime

from lancekit._api.history import History, Version
from lancekit._notebook.cards.common import (
    NAMES,
    TOO_MANY_TAGS,
    checkout,
    data_size,
    facts,
    fragments,
    is_quiet,
    operation,
    origin,
    ref,
    table,
    tags_by_version,
    when_and_age,
)
from lancekit._notebook.render.models import Card, Column, Fact, Row
from lancekit._notebook.render.words import age, clean, count, listing, moment, plural, signed
from lancekit.options import options

__all__ = ["history_card", "version_card"]

_COLUMNS = (
    Column("version", numeric=True),
    Column("committed"),
    Column("age"),
    Column("operation"),
    Column("rows", numeric=True),
    Column("change", numeric=True),
    Column("message"),
    Column("from"),
    Column("tags"),
)


def history_card(history: History, now: datetime) -> Card:
    """Return the card of a history, or of a slice of one."""
    # A version is one short line and one small read: a page holds twice as many as of rows.
    page = 2 * options.display_rows
    tags = tags_by_version(history.tags, history.branch)
    whole, own = history.whole.numbers, len(history)
    shown = history[-page:] if page else history[:0]
    all_of = plural(len(whole), "version")
    return Card(
        kind="History",
        title=all_of if own == len(whole) else f"{count(own)} of {all_of}",
        headline=(clean(history.branch), f"oldest still there: {count(whole[0])}"),
        facts=facts(("tags", TOO_MANY_TAGS if tags is None else "")),
        tables=(
            table(
                caption="Newest first",
                columns=_COLUMNS,
                rows=tuple(_line(history, v, tags or {}, now) for v in reversed(shown)),
                note=_next_page(whole, shown.numbers, page),
            ),
        ),
    )


def _next_page(whole: Sequence[int], shown: Sequence[int], page: int) -> str:
    """Return the call for the versions before the oldest one shown."""
    older = bisect_left(whole, shown[0]) if shown else 0
    if not older:
        return ""
    end = len(whole) - older
    start = f"-{end + page}" if older > page else ""
    return f"{count(older)} older: ds.versions()[{start}:-{end}]"


def _line(
    history: History, version: Version, tags: Mapping[int, Sequence[str]], now: datetime
) -> Row:
    change = history.row_change(version)
    return Row(
        (
            str(version.version),
            moment(version.timestamp),
            age(version.timestamp, now),
            operation(version),
            count(version.num_rows),
            "not known" if change is None else signed(change),
            clean(version.message or ""),
            str(version.provenance or ""),
            listing(sorted(tags.get(version.version, [])), NAMES),
        ),
        quiet=is_quiet(version.operation),
    )


def version_card(version: Version, now: datetime) -> Card:
    line, parent = checkout(version.branch, version.version), version.read_version
    return Card(
        kind="Version",
        title=ref(version.branch, version.version),
        headline=(
            operation(version),
            plural(version.num_rows, "row"),
            data_size(version),
            when_and_age(version.timestamp, now),
        ),
        facts=(
            *facts(
                ("message", clean(version.message or "")),
                ("writer", clean(version.writer or "")),
                ("from", origin(version)),
                ("made from", f"version {count(parent)}" if parent else ""),
                ("columns", count(version.num_columns)),
                ("fragments", fragments(version)),
            ),
            Fact("open", line, code=True),
            Fact("restore", f"{line}.restore()", code=True),
        ),
    )
