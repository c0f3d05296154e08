"""The card of the writer of a shard."""

from __future__ import annotations

from datetime import datetime

from lancekit.api.shard_writer import ShardWriter
from lancekit.notebook.cards.common import facts
from lancekit.notebook.render.models import Card
from lancekit.notebook.render.words import clean, count, plural, size

__all__ = ["shard_writer_card"]


def shard_writer_card(writer: ShardWriter, now: datetime) -> Card:  # noqa: ARG001  # has no times
    done, memory = writer.stats(), writer.memory()
    failed = done["memtable_flush_failures"]
    entries = plural(done["wal_flush_count"], "entry", "entries")
    return Card(
        kind="Shard writer",
        title=clean(writer.shard_id),
        headline=(clean(writer.state), f"epoch {writer.epoch}"),
        facts=facts(
            ("log", f"written, and seen, up to entry {count(writer.position)}"),
            ("not in it yet", _amount(memory.pending_rows, memory.pending_bytes)),
            ("in memory", _amount(memory.rows, memory.bytes)),
            ("generation", f"{count(memory.generation)} comes next"),
            ("not written yet", plural(memory.frozen, "generation") if memory.frozen else ""),
            ("written", plural(done["memtable_flush_count"], "generation")),
            ("failed", plural(failed, "attempt to write one", "attempts") if failed else ""),
            ("puts", f"{count(done['put_count'])}, in {entries} of the log"),
        ),
    )


def _amount(rows: int, taken: int) -> str:
    return f"{plural(rows, 'row')}, {size(taken)}" if rows else ""
