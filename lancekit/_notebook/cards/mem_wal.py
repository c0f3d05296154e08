"""Cards of MemWAL shards, of their writers and sinks, and of merges, cleanups and repairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from lancekit._api.mem_wal_rows import MemWalQuarantine, MemWalSetAside
from lancekit._api.shard_writer import ShardWriter
from lancekit._api.sinks import MemWalSink
from lancekit._format.mem_wal.details import ShardingSpec
from lancekit._legible import cut, literals
from lancekit._notebook.cards.common import (
    ENGINES,
    NAMES,
    changed_rows,
    facts,
    first_of,
    ref,
    table,
    titled,
    waiting_facts,
)
from lancekit._notebook.render.models import Card, Row
from lancekit._notebook.render.words import clean, count, listing, place, plural, size
from lancekit._operations.common.results import MemWalMergeResult, MergedShard
from lancekit._operations.mem_wal.cleanup import MemWalCleanupStats
from lancekit._operations.mem_wal.quarantine import GENERATION, REASON, SHARD, TIME, MemWalRepair
from lancekit._operations.mem_wal.shards import ShardInfo, Shards
from lancekit._operations.unmerged.waiting_rows import merge_call
from lancekit._shards.schema import TOMBSTONE
from lancekit.options import options

_OF_SHARDS = ("epoch", "to merge", "rows", "last merged", "log entries")
_SHARDS = titled("shard", *_OF_SHARDS, numeric=_OF_SHARDS)
_QUARANTINED = titled(
    "row", "key", "reason", "shard", "generation", "since", numeric=("row", "generation")
)
_SET_ASIDE = titled(
    "key", "state", "reason", "shard", "generation", "position", numeric=("generation", "position")
)
#: the largest number of characters of a row's key
_VALUES = 60
_OF_SINK = ("epoch", "rows", "log position")
_SINK_SHARDS = titled("shard", *_OF_SINK, numeric=_OF_SINK)


def shards_card(shards: Shards, _now: datetime) -> Card:
    most = options.display_rows
    waiting = sum(len(one.unmerged_generations) for one in shards)
    rows = table(
        caption="By id",
        columns=_SHARDS,
        rows=tuple(map(_shard, shards[:most])),
        note=first_of(most, len(shards), "list(ds.mem_wal_shards())"),
    )
    return Card(
        kind="Shards",
        title=plural(len(shards), "shard"),
        headline=(f"{plural(waiting, 'generation')} to merge",) if shards else (),
        facts=facts(("next", _merge_call(shards))),
        tables=(rows,) if shards else (),
    )


def _merge_call(shards: Shards) -> str:
    """Return the call that merges all waiting rows, or the advice for damaged files."""
    if shards.waiting.damaged:
        return shards.waiting.advice
    in_logs = any(one.log_entries for one in shards)
    if not in_logs and not any(one.unmerged_generations for one in shards):
        return ""
    return merge_call(flush=in_logs, refused=shards.waiting.refused)


def _shard(shard: ShardInfo) -> Row:
    waiting = shard.unmerged_generations
    rows = [one.rows for one in waiting]
    known = "" if None in rows else count(sum(number or 0 for number in rows))
    return Row(
        (
            clean(shard.shard_id) + (", sealed" if shard.sealed else ""),
            count(shard.epoch),
            count(len(waiting)),
            known,
            count(shard.merged_generation),
            count(shard.log_entries),
        ),
        quiet=not (waiting or shard.log_entries),
    )


def mem_wal_merge_card(result: MemWalMergeResult, _now: datetime) -> Card:
    merged = plural(result.num_merged_generations, "generation")
    done = f"merged {merged}" if result.commits else "nothing to merge"
    skipped, aside = result.num_skipped_generations, result.num_quarantined_rows
    return Card(
        kind="MemWAL merge",
        title=f"{done} into {ref(result.branch, result.version)}",
        headline=(*changed_rows(result), f"{result.duration:.2f} s"),
        facts=facts(
            ("shards", listing(map(_merged, result.shards), NAMES)),
            ("merged earlier", plural(skipped, "generation") if skipped else ""),
            ("quarantined", plural(aside, "row") if aside else ""),
            *(_done(result) if result.commits else ()),
        )
        + waiting_facts(result.waiting),
    )


def _done(result: MemWalMergeResult) -> tuple[tuple[str, str], ...]:
    return (
        ("commits", count(result.commits)),
        ("attempts", count(result.attempts) if result.attempts > result.commits else ""),
        ("engine", ENGINES.get(result.engine, result.engine)),
        ("cleanup", "ds.cleanup_mem_wal() removes the merged files"),
    )


def _merged(shard: MergedShard) -> str:
    numbers = [count(shard.generations[0]), count(shard.generations[-1])]
    which = " to ".join(dict.fromkeys(numbers))
    word = "generations" if len(shard.generations) > 1 else "generation"
    return f"{shard.shard} ({word} {which})"


def mem_wal_cleanup_card(result: MemWalCleanupStats, _now: datetime) -> Card:
    tables = result.quarantines_removed
    return Card(
        kind="MemWAL cleanup",
        title=f"removed {plural(result.files_removed, 'file')}",
        headline=(size(result.bytes_removed),),
        facts=facts(
            ("generations", _unless_0(result.generations_removed)),
            ("log entries", _unless_0(result.log_entries_removed)),
            ("manifests", _unless_0(result.manifests_removed)),
            ("quarantine", plural(tables, "empty table") if tables else ""),
        ),
    )


def _unless_0(number: int) -> str:
    return count(number) if number else ""


_AFTER_REPAIR = "ds.mem_wal_set_aside() shows the rows; its put_back() restores the newest ones"


def mem_wal_repair_card(result: MemWalRepair, _now: datetime) -> Card:
    most = options.display_rows
    more = plural(len(result) - most, "part") if len(result) > most else ""
    return Card(
        kind="MemWAL repair",
        headline=(),
        title=result.title,
        # facts, not table cells: cells are cut, and a user copies the path
        facts=facts(
            *((one.called, clean(one.words)) for one in result[:most]),
            ("next", _AFTER_REPAIR if any(one.file and one.rows != 0 for one in result) else ""),
            ("more", f"{more}; the result of repair_mem_wal() is a list of all" if more else ""),
        ),
    )


def mem_wal_quarantine_card(quarantine: MemWalQuarantine, _now: datetime) -> Card:
    most = options.display_rows
    rows = quarantine.to_table().slice(0, most).to_pylist()
    listed = table(
        caption="Oldest first",
        columns=_QUARANTINED,
        rows=tuple(_quarantined(n, row, quarantine.key) for n, row in enumerate(rows)),
        note=first_of(most, len(quarantine), "quarantine.to_pandas()"),
    )
    how = "quarantine.put_back(corrected) or quarantine.discard(rows)"
    return Card(
        kind="MemWAL quarantine",
        title=f"{plural(len(quarantine), 'row')} in quarantine",
        headline=(),
        facts=facts(
            ("rows", "quarantine.to_pandas(); no version and no log has these rows"), ("next", how)
        )
        if rows
        else (),
        tables=(listed,) if rows else (),
    )


def mem_wal_set_aside_card(aside: MemWalSetAside, _now: datetime) -> Card:
    most = options.display_rows
    rows = aside.to_table().slice(0, most).to_pylist()
    listed = table(
        caption="By shard, oldest first",
        columns=_SET_ASIDE,
        rows=tuple(_moved(row, aside.key) for row in rows),
        note=first_of(most, len(aside), "aside.to_pandas()"),
    )
    unread = [f"{place(uri)}: {fault}" for uri, fault in aside.unreadable.items()]
    return Card(
        kind="MemWAL set aside",
        title=f"{plural(len(aside), 'row')} moved aside by a repair",
        headline=(),
        facts=facts(
            ("unreadable", clean(listing(unread, most))),
            ("next", "aside.put_back() restores the newest rows" if rows else ""),
        ),
        tables=(listed,) if rows else (),
    )


def _moved(row: Mapping[str, Any], key: Sequence[str]) -> Row:
    values = _key_of(row, key)
    number = row["_set_aside_position"]
    return Row(
        (
            values,
            clean(row["_set_aside_state"]),
            clean(row["_set_aside_reason"]),
            clean(row["_set_aside_shard"]),
            count(row["_set_aside_generation"] or 0),
            "" if number is None else count(number),
        )
    )


def _key_of(row: Mapping[str, object], key: Sequence[str]) -> str:
    values = clean(cut(literals({name: row[name] for name in key}), _VALUES))
    return f"{values}, deleted" if row[TOMBSTONE] else values


def _quarantined(number: int, row: Mapping[str, Any], key: Sequence[str]) -> Row:
    return Row(
        (
            count(number),
            _key_of(row, key),
            clean(row[REASON]),
            clean(row[SHARD]),
            count(row[GENERATION]),
            clean(f"{row[TIME]:%Y-%m-%d %H:%M:%S} UTC"),
        )
    )


def shard_writer_card(writer: ShardWriter, _now: datetime) -> Card:
    done, memory = writer.stats(), writer.memory()
    flushed, failed = done["memtable_flush_count"], done["memtable_flush_failures"]
    puts, entries = done["put_count"], plural(done["wal_flush_count"], "entry", "entries")
    return Card(
        kind="Shard writer",
        title=clean(writer.shard_id),
        headline=(clean(writer.state), f"epoch {writer.epoch}"),
        facts=facts(
            ("log position", f"entry {count(writer.position)}"),
            ("not logged", _amount(memory.pending_rows, memory.pending_bytes)),
            ("memtable", _amount(memory.rows, memory.bytes)),
            ("next generation", count(memory.generation)),
            ("not flushed", plural(memory.frozen, "generation") if memory.frozen else ""),
            ("flushed", plural(flushed, "generation") if flushed else ""),
            ("failed", plural(failed, "flush", "flushes") if failed else ""),
            ("puts", f"{count(puts)} in {entries} of the log" if puts else ""),
        ),
    )


def _amount(rows: int, taken: int) -> str:
    return f"{plural(rows, 'row')}, {size(taken)}" if rows else ""


def mem_wal_sink_card(sink: MemWalSink, _now: datetime) -> Card:
    shards, most = sink.shards, options.display_rows
    rows = sum(one.rows for one in shards.values())
    last = "" if sink.last_batch is None else f", newest number {count(sink.last_batch)}"
    return Card(
        kind="MemWAL sink",
        title=clean(sink.query),
        headline=(sink.delivery, f"{plural(rows, 'row')} put"),
        facts=facts(
            ("table", clean(place(sink.uri))),
            ("branch", clean(sink.branch or "")),
            ("repeated batch", _repeated(sink)),
            ("sharding", _sharding(sink.sharding)),
            ("batches", f"{count(sink.batches)}{last}" if sink.batches else ""),
        ),
        tables=(
            table(
                caption="By shard",
                columns=_SINK_SHARDS,
                rows=tuple(
                    Row((shard, count(one.epoch), count(one.rows), count(one.position)))
                    for shard, one in list(shards.items())[:most]
                ),
                note=first_of(most, len(shards), "sink.shards"),
            ),
        )
        if shards
        else (),
    )


def _repeated(sink: MemWalSink) -> str:
    if sink.key:
        return f"replaces its rows by primary key ({listing(map(clean, sink.key), NAMES)})"
    return "adds its rows again, since the table has no primary key"


def _sharding(spec: ShardingSpec) -> str:
    ways = {
        "bucket": "{num_buckets} shards, by the bucket of a column",
        "identity": "one shard for each value of a column",
        "unsharded": "one shard",
    }
    known = (field for field in spec.fields if field.transform in ways)
    return listing((ways[field.transform or ""].format(**field.parameters) for field in known), 1)
