"""The cards of what is remembered of files, and of the session that pylance has for it."""

from __future__ import annotations

from datetime import datetime

from lancekit.api.pylance.session import Session
from lancekit.cache import CacheInfo, cache_info
from lancekit.notebook.render.models import Card, Column, Fact, Row, Table
from lancekit.notebook.render.words import count, plural, size

__all__ = ["cache_card", "session_of_pylance_card"]


def cache_card(info: CacheInfo, _now: datetime) -> Card:
    if not info.limit:
        return Card(kind="Cache", title="turned off", headline=())
    rows = tuple(
        Row((kind, size(use.bytes), count(use.entries), count(use.hits), count(use.misses)))
        for kind, use in info.kinds.items()
    )
    titles = ("bytes", "entries", "hits", "misses")
    columns = (Column("of"), *(Column(title, numeric=True) for title in titles))
    return Card(
        kind="Cache",
        title=f"{size(info.bytes)} of {size(info.limit)}",
        headline=(plural(info.entries, "entry", "entries"), plural(info.hits, "hit")),
        facts=(Fact("empty it", "lk.clear_cache()", code=True),),
        tables=(Table(caption="What is remembered", columns=columns, rows=rows),) if rows else (),
    )


def session_of_pylance_card(_session: Session, now: datetime) -> Card:
    return cache_card(cache_info(), now)
