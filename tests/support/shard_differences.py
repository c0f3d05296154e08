"""Where shards of tables are not what they are in pylance, on purpose."""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa

import lancekit as lk
from lancekit._format.mem_wal.names import entry_name
from tests.support.difference import REFUSED, Difference, tried
from tests.support.shards import LEFT_OPEN_MS, SHARD, keyed

__all__ = ["OF_SHARDS"]

_SCHEMA = keyed(pa.schema({"id": pa.int64(), "v": pa.string()}), "id")


def _rows(given: dict[int, str]) -> pa.Table:
    return pa.table({"id": list(given), "v": list(given.values())}, schema=_SCHEMA)


def _made(uri: str, **how: Any) -> None:
    lance.write_dataset(_rows({1: "a"}), uri).initialize_mem_wal(**how)


def _writer(library: ModuleType, uri: str, **settings: Any) -> Any:
    settings = {"max_wal_flush_interval_ms": LEFT_OPEN_MS, **settings}
    return library.dataset(uri).mem_wal_writer(SHARD, **settings)


def _generations(uri: str, *rows: dict[int, str]) -> None:
    """Make a table, and a generation for each of some rows."""
    _made(uri)
    for one in rows:
        with _writer(lance, uri) as writer:
            writer.put(_rows(one))


def _marked(library: ModuleType, uri: str, rows: dict[int, str], *generations: int) -> Any:
    marks = import_module(f"{library.__name__}.mem_wal")
    merge = library.dataset(uri).merge_insert("id")
    merge = merge.when_matched_update_all().when_not_matched_insert_all()
    marked = [marks.CompactedSsTable(SHARD, number) for number in generations]
    return merge.mark_sstables_as_compacted(marked).execute(_rows(rows))["num_inserted_rows"]


def _seen(writer: Any) -> list[tuple[int, str]]:
    found = writer.lsm_scanner().to_table().to_pylist()
    return sorted((row["id"], row["v"]) for row in found)


def _entry(uri: str, position: int) -> Path:
    return Path(uri) / "_mem_wal" / SHARD / entry_name(position)


def _skipped_generation(library: ModuleType, uri: str) -> Any:
    _generations(uri, {2: "b"}, {3: "c"})
    return tried(lambda: _marked(library, uri, {3: "c"}, 2))


def _type_of_ids(library: ModuleType, _uri: str) -> Any:
    marks = import_module(f"{library.__name__}.mem_wal")
    return type(marks.CompactedSsTable(SHARD, 1).shard_id).__name__


def _merged_generation(library: ModuleType, uri: str) -> Any:
    _generations(uri, {1: "b"})
    _marked(lance, uri, {1: "b"}, 1)
    lance.dataset(uri).update({"v": "'newer'"})
    with _writer(library, uri) as writer:
        return _seen(writer)


def _frozen_memtables(library: ModuleType, uri: str) -> Any:
    _made(uri)
    # the reference misses them as long as its flush takes: it gets more chances
    keys = range(10, 18 if library is lk else 200)
    with _writer(library, uri, max_memtable_rows=2) as writer:
        for key in keys:
            writer.put(_rows({key: "x"}))
            if (key, "x") not in _seen(writer):
                return True
    return False


def _row_of_another_shard(library: ModuleType, uri: str) -> Any:
    _made(uri, bucket_column="id", num_buckets=8)
    lk.dataset(uri).mem_wal_upsert(_rows({1: "b"}))
    (shard,) = lk.dataset(uri).mem_wal_shards()
    with library.dataset(uri).mem_wal_writer(str(shard.shard_id)) as writer:
        return tried(lambda: writer.put(_rows(dict.fromkeys(range(2, 20), "b"))))


def _other_type(library: ModuleType, uri: str) -> Any:
    _made(uri)
    with _writer(library, uri) as writer:
        return tried(
            lambda: (
                writer.put(pa.table({"id": [2], "v": pa.array(["b"], pa.large_string())})) and None
            )
        )


def _settings_of_the_table(library: ModuleType, uri: str) -> Any:
    _made(uri, max_memtable_rows=2)
    with _writer(library, uri) as writer:
        return tried(lambda: writer.put(_rows(dict.fromkeys(range(5), "x"))))


def _overwrite(library: ModuleType, uri: str) -> Any:
    _generations(uri, {2: "b"})
    return tried(lambda: library.write_dataset(_rows({5: "z"}), uri, mode="overwrite").version)


def _torn_entry(library: ModuleType, uri: str) -> Any:
    _made(uri)
    writer = _writer(lk, uri)
    for key in (2, 3):
        writer.put(_rows({key: "b"}))
    torn = _entry(uri, 2)
    torn.write_bytes(torn.read_bytes()[:100])
    with warnings.catch_warnings(category=UserWarning, action="ignore"):
        return tried(lambda: _seen(_writer(library, uri)))


def _missing_entry(library: ModuleType, uri: str) -> Any:
    _made(uri)
    writer = _writer(lk, uri)
    for key in (2, 3, 4):
        writer.put(_rows({key: "b"}))
    _entry(uri, 2).unlink()
    return tried(lambda: _seen(_writer(library, uri)))


def _checksum(library: ModuleType, uri: str) -> Any:
    _made(uri)
    _writer(library, uri).put(_rows({2: "b"}))
    entry = pa.BufferReader(_entry(uri, 1).read_bytes())
    pa.ipc.open_stream(entry).read_all()
    return entry.size() - entry.tell()


OF_SHARDS = (
    Difference(
        "`mark_sstables_as_compacted`: a generation after an unmarked one of its shard",
        "raises an error that names the earlier one",
        "marks it, and the earlier one can never be merged",
        "No acknowledged row is lost. `merge_mem_wal` takes generations in order.",
        _skipped_generation,
        REFUSED,
        1,
    ),
    Difference(
        "`mem_wal.CompactedSsTable.shard_id`",
        "is a `uuid.UUID`, for an id in any form",
        "has the form that was passed, and is checked only by the commit",
        "Two forms of an id are one shard.",
        _type_of_ids,
        "UUID",
        "str",
    ),
    Difference(
        "a scan of shards: a generation that was merged, but is still listed",
        "leaves it out",
        "lets it hide later changes of the table",
        "A row has the value that was written last.",
        _merged_generation,
        [(1, "newer")],
        [(1, "b")],
    ),
    Difference(
        "a scan of a writer's shard while a full memtable is being flushed",
        "returns its rows",
        "leaves them out until they are flushed",
        "Acknowledged rows can be read.",
        _frozen_memtables,
        False,
        True,
    ),
    Difference(
        "`ShardWriter.put`: a row whose bucket or value belongs to another shard",
        "raises an error that names it; `mem_wal_upsert` finds the shard of each row",
        "writes it",
        "If a key is in two shards, the newer row is unknown.",
        _row_of_another_shard,
        REFUSED,
        None,
    ),
    Difference(
        "`ShardWriter.put`: rows with other types, such as `large_string` for `string`",
        "casts, if no value changes ([casts](casts.md))",
        "raises an error",
        "Every write of rows has this rule.",
        _other_type,
        None,
        REFUSED,
    ),
    Difference(
        "settings of writers passed to `initialize_mem_wal`, such as `max_memtable_rows`",
        "apply to every writer without its own settings",
        "are stored, and apply to no writer",
        "No argument is ignored.",
        _settings_of_the_table,
        REFUSED,
        None,
    ),
    Difference(
        "an overwrite (or `restore`, or dropping the primary key) while rows are only in shards",
        "raises an error with the call that merges them",
        "works; the rows are lost, or return in the new table",
        "No acknowledged row is lost silently.",
        _overwrite,
        REFUSED,
        3,
    ),
    Difference(
        "a log with a truncated last entry, as after a power failure",
        "is opened with a warning, and the file is moved aside: no writer acknowledged its rows",
        "raises an error each time that a writer opens the shard",
        "Earlier rows can be read, and more can be written.",
        _torn_entry,
        [(1, "a"), (2, "b")],
        REFUSED,
    ),
    Difference(
        "a log that lacks an entry in the middle",
        "raises an error that names the entry",
        "puts a sentinel in its place, and no trace of its rows is left",
        "Acknowledged rows are not given up silently.",
        _missing_entry,
        REFUSED,
        [(1, "a"), (2, "b"), (4, "b")],
    ),
    Difference(
        "bytes after the end of a log entry",
        "12, with a checksum that readers verify; pylance ignores them",
        "0",
        "A damaged entry is found.",
        _checksum,
        12,
        0,
    ),
)
