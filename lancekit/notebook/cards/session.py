"""The card of the Spark session."""

from __future__ import annotations

from datetime import datetime

from lancekit.notebook.cards.common import facts
from lancekit.notebook.render.models import Card, Column, Fact, Row, Table
from lancekit.notebook.render.words import clean, count
from lancekit.spark.session.info import SessionInfo

__all__ = ["session_card"]


def session_card(info: SessionInfo, _now: datetime) -> Card:
    if info.state == "none":
        start = Fact("start", "lk.spark_session()", code=True)
        return Card(kind="Spark", title="no session", headline=(), facts=(start,))
    owner = "started by lancekit" if info.owned else "started elsewhere: lancekit never stops it"
    stop = [Fact("stop", "lk.stop_spark()", code=True)] if info.owned else []
    differences = tuple(
        Row((clean(d.name), clean("not set" if d.actual is None else d.actual), d.advised, d.why))
        for d in info.differences
    )
    columns = (Column("setting"), Column("is"), Column("better"), Column("why"))
    table = Table(caption="Settings that differ", columns=columns, rows=differences, folded=True)
    return Card(
        kind="Spark",
        title=f"Spark {clean(info.spark_version or '')}".rstrip(),
        headline=(info.state, clean(info.master or ""), owner)
        if info.master
        else (info.state, _connection(info), owner),
        facts=(
            *facts(
                ("tasks at once", count(info.cores) if info.cores else ""),
                ("memory", clean(info.driver_memory or "")),
                ("Java", clean(" at ".join(filter(None, (info.java_version, info.java_home))))),
                ("Python", clean(info.python or "")),
                ("log", clean(info.log_file or "")),
            ),
            *stop,
        ),
        tables=(table,) if differences else (),
    )


def _connection(info: SessionInfo) -> str:
    if not info.connect:
        return ""
    here = info.remote in {None, "local"}
    return "Spark Connect" if here else f"Spark Connect at {clean(info.remote or '')}"
