"""The card of a sink of streams into shards."""

from __future__ import annotations

from datetime import datetime

from lancekit.api.mem_wal_sink import MemWalSink
from lancekit.format.mem_wal.details import ShardingSpec
from lancekit.notebook.cards.common import NAMES, facts, table
from lancekit.notebook.render.models import Card, Column, Row
from lancekit.notebook.render.words import clean, count, listing, place, plural
from lancekit.options import options

__all__ = ["mem_wal_sink_card"]

_SHARDS = (
    Column("shard"),
    Column("epoch", numeric=True),
    Column("rows", numeric=True),
    Column("log written up to", numeric=True),
)


def mem_wal_sink_card(sink: MemWalSink, now: datetime) -> Card:  # noqa: ARG001  # has no times
    shards, most = sink.shards, options.display_rows
    rows = sum(one.rows for one in shards.values())
    last = "" if sink.last_batch is None else f", the last one number {count(sink.last_batch)}"
    return Card(
        kind="MemWAL sink",
        title=clean(sink.query),
        headline=(sink.delivery, f"{plural(rows, 'row')} put"),
        facts=facts(
            ("table", clean(place(sink.uri))),
            ("branch", clean(sink.branch or "")),
            ("why", f"a batch that is given again {_again(sink)}"),
            ("rows go to", _given(sink.sharding)),
            ("batches", f"{count(sink.batches)}{last}" if sink.batches else ""),
        ),
        tables=(
            table(
                caption="By shard",
                columns=_SHARDS,
                rows=tuple(
                    Row((shard, count(one.epoch), count(one.rows), count(one.position)))
                    for shard, one in list(shards.items())[:most]
                ),
                note=f"{count(most)} of {count(len(shards))}; sink.shards has all"
                if len(shards) > most
                else "",
            ),
        )
        if shards
        else (),
    )


def _again(sink: MemWalSink) -> str:
    if sink.key:
        return f"takes its own place, by the primary key ({listing(map(clean, sink.key), NAMES)})"
    return "is there twice, for the table has no primary key"


def _given(spec: ShardingSpec) -> str:
    ways = {
        "bucket": "{num_buckets} shards, by the bucket of a column",
        "identity": "a shard for each value of a column",
        "unsharded": "one shard",
    }
    known = (field for field in spec.fields if field.transform in ways)
    return listing((ways[field.transform or ""].format(**field.parameters) for field in known), 1)
