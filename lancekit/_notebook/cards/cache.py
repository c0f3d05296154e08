"""Cards of the cache, of its pylance session, and of a Spark session."""

from __future__ import annotations

from datetime import datetime

from lancekit._api.pylance_session import Session
from lancekit._cache import CacheInfo, cache_info
from lancekit._notebook.cards.common import facts
from lancekit._notebook.render.models import Card, Column, Fact, Row, Table
from lancekit._notebook.render.words import clean, count, plural, size
from lancekit._spark.session.info import SessionInfo


def cache_card(info: CacheInfo, _now: datetime) -> Card:
    if not info.limit:
        return Card(kind="Cache", title="off", headline=())
    rows = tuple(
        Row((kind, size(use.bytes), count(use.entries), count(use.hits), count(use.misses)))
        for kind, use in info.kinds.items()
    )
    titles = ("bytes", "entries", "hits", "misses")
    columns = (Column("kind"), *(Column(title, numeric=True) for title in titles))
    return Card(
        kind="Cache",
        title=f"{size(info.bytes)} of {size(info.limit)}",
        headline=(plural(info.entries, "entry", "entries"), plural(info.hits, "hit")),
        facts=(Fact("clear", "lk.clear_cache()", code=True),),
        tables=(Table(caption="Contents", columns=columns, rows=rows),) if rows else (),
    )


def session_of_pylance_card(_session: Session, now: datetime) -> Card:
    return cache_card(cache_info(), now)


# ---- the card of the Spark session


def session_card(info: SessionInfo, _now: datetime) -> Card:
    if info.state == "none":
        start = Fact("start", "lk.spark_session()", code=True)
        return Card(kind="Spark", title="no session", headline=(), facts=(start,))
    owner = "started by lancekit" if info.owned else "started outside of lancekit"
    stop = [Fact("stop", "lk.stop_spark()", code=True)] if info.owned else []
    differences = tuple(
        Row((clean(d.name), clean("not set" if d.actual is None else d.actual), d.advised, d.why))
        for d in info.differences
    )
    columns = tuple(map(Column, ("setting", "current", "recommended", "reason")))
    table = Table(caption="Settings that differ", columns=columns, rows=differences, folded=True)
    return Card(
        kind="Spark",
        title=f"Spark {clean(info.spark_version or '')}".rstrip(),
        headline=(info.state, clean(info.master or ""), owner)
        if info.master
        else (info.state, _connection(info), owner),
        facts=facts(
            ("parallel tasks", count(info.cores) if info.cores else ""),
            ("memory", clean(info.driver_memory or "")),
            ("Java", clean(" at ".join(filter(None, (info.java_version, info.java_home))))),
            ("Python", clean(info.python or "")),
            ("log", clean(info.log_file or "")),
            *stop,
        ),
        tables=(table,) if differences else (),
    )


def _connection(info: SessionInfo) -> str:
    if not info.connect:
        return ""
    here = info.remote in {None, "local"}
    return "Spark Connect" if here else f"Spark Connect at {clean(info.remote or '')}"
