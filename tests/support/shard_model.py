"""A table with shards, written at random by both libraries, and what it is by a plain model."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import lance
import pyarrow as pa
from lance.mem_wal import CompactedSsTable

import lancekit as lk
from lancekit._shards.manifests import change
from tests.support.shards import LEFT_OPEN_MS, keyed, newest, opened

SCHEMA = keyed(
    pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("name", pa.string()),
            pa.field("v", pa.float64()),
            pa.field("vec", pa.list_(pa.float32(), 2)),
            pa.field("text", pa.string()),
        ]
    ),
    "id",
)
PAIRS = keyed(SCHEMA.set(1, pa.field("name", pa.string(), False)), "name", "id")

#: of which texts are made, some of them rare
WORDS = ["snow", "snow", "snow", "rain", "rain", "storm", "frost"]

Row = dict[str, Any]
Key = tuple[Any, ...]


class ShardedTable:
    """Changes are made to files, and by the model alike; keys go to shards by their number.

    The writers of shards are pylance 14's and lancekit's, by chance, one after the other.
    """

    def __init__(
        self,
        path: Path,
        random: Random,
        *,
        pairs: bool = False,
        shards: int = 2,
        stable_row_ids: bool = False,
        indexed: bool = False,
    ) -> None:
        self.path, self.random = path, random
        self.schema = PAIRS if pairs else SCHEMA
        self.keys = ("name", "id") if pairs else ("id",)
        self.shards = [str(uuid.UUID(int=number + 1)) for number in range(shards)]
        self.base: dict[Key, Row] = {}
        #: what each generation does, by shard and number; the highest one is in memory
        self.generations: dict[str, dict[int, dict[Key, Row | None]]] = {}
        self.generations = {shard: {} for shard in self.shards}
        self.merged = dict.fromkeys(self.shards, 0)
        self.writers: dict[str, Any] = {}
        first = [self.row(number) for number in range(30)]
        self.base.update((self.key(row), row) for row in first)
        rows = pa.Table.from_pylist(first, self.schema)
        self.ds = lance.write_dataset(rows, str(path), enable_stable_row_ids=stable_row_ids)
        if indexed:
            for column, kind in (("v", "BTREE"), ("id", "BTREE"), ("text", "INVERTED")):
                self.ds.create_scalar_index(column, kind)
            self.ds.create_index("vec", "IVF_FLAT", num_partitions=2)
        self.ds.initialize_mem_wal(unsharded=True)

    def row(self, number: int) -> Row:
        value = None if self.random.random() < 0.2 else self.random.randrange(100) / 4
        vector = [float(number), float(self.random.randrange(50))]
        words = self.random.choices(WORDS, k=self.random.randrange(6))
        text = " ".join(words) if words else None
        return {"id": number, "name": f"n{number % 3}", "v": value, "vec": vector, "text": text}

    def key(self, row: Row) -> Key:
        return tuple(row[name] for name in self.keys)

    def rows(self) -> dict[Key, Row]:
        """Return what the table is, its shards included."""
        found = dict(self.base)
        for shard, generations in self.generations.items():
            for number in sorted(generations):
                if number > self.merged[shard]:
                    for key, row in generations[number].items():
                        if row is None:
                            found.pop(key, None)
                        else:
                            found[key] = row
        return found

    def writer(self, shard: str) -> Any:
        if shard not in self.writers:
            module: Any = self.random.choice([lance, lk])
            self.ds = lance.dataset(str(self.path))
            ds = module.dataset(str(self.path))
            self.writers[shard] = ds.mem_wal_writer(shard, max_wal_flush_interval_ms=LEFT_OPEN_MS)
        return self.writers[shard]

    def _numbers(self, shard: str) -> list[int]:
        place, count = self.shards.index(shard), len(self.shards)
        return [n * count + place for n in self.random.sample(range(25), self.random.randint(1, 4))]

    def put(self) -> None:
        shard = self.random.choice(self.shards)
        rows = [self.row(number) for number in self._numbers(shard)]
        writer = self.writer(shard)
        writer.put(pa.Table.from_pylist(rows, self.schema))
        self._note(shard, writer, {self.key(row): row for row in rows})

    def delete(self) -> None:
        shard = self.random.choice(self.shards)
        rows = [self.row(number) for number in self._numbers(shard)]
        fields = pa.schema([self.schema.field(name) for name in self.keys])
        writer = self.writer(shard)
        writer.delete(pa.Table.from_pylist(rows, fields))
        self._note(shard, writer, {self.key(row): None for row in rows})

    def _note(self, shard: str, writer: Any, done: dict[Key, Row | None]) -> None:
        number = writer.memtable_stats()["generation"]
        self.generations[shard].setdefault(number, {}).update(done)

    def flush(self) -> None:
        shard = self.random.choice(self.shards)
        self.writer(shard).close()
        del self.writers[shard]

    def lose_writer(self) -> None:
        """The writer is gone: what it held in memory is in the log."""
        self.writers.pop(self.random.choice(self.shards), None)

    def update_base(self) -> None:
        rows = [self.row(number) for number in self.random.sample(range(60), 4)]
        self._upsert(rows, [])
        self.base.update((self.key(row), row) for row in rows)

    def delete_base(self) -> None:
        number = self.random.randrange(60)
        self.ds = lance.dataset(str(self.path))
        self.ds.delete(f"id = {number}")
        self.base = {key: row for key, row in self.base.items() if row["id"] != number}

    def compact_base(self) -> None:
        self.ds = lance.dataset(str(self.path))
        self.ds.optimize.compact_files()

    def merge(self) -> None:
        """Merge the oldest generations of a shard that are written."""
        shard = self.random.choice(self.shards)
        written = [t for t in self._sstables(shard) if t.generation > self.merged[shard]]
        if not written:
            return
        for table in sorted(written, key=lambda t: t.generation)[: self.random.randint(1, 2)]:
            done = self.generations[shard].get(table.generation, {})
            live = [row for row in done.values() if row is not None]
            gone = [key for key, row in done.items() if row is None]
            for key in gone:
                self.base.pop(key, None)
            self.base.update((self.key(row), row) for row in live)
            self._upsert(live, [CompactedSsTable(shard, table.generation)], gone)
            self.merged[shard] = table.generation

    def merge_by_lancekit(self) -> None:
        """Merge what is written, or in a writer of this process, and remove what nobody needs."""
        ds = lk.dataset(self.path)
        for merged in ds.merge_mem_wal().shards:
            shard = str(merged.shard)
            for number in merged.generations:
                for key, row in self.generations[shard].get(number, {}).items():
                    self.base.pop(key, None)
                    self.base.update({} if row is None else {key: row})
                self.merged[shard] = number
        ds.cleanup_mem_wal(grace=timedelta(0))

    def _upsert(self, rows: list[Row], marks: list[Any], gone: list[Key] = []) -> None:  # noqa: B006
        self.ds = lance.dataset(str(self.path))
        for key in gone:
            parts = (f"{n} = {v!r}" for n, v in zip(self.keys, key, strict=True))
            self.ds.delete(" AND ".join(parts))
        merge = self.ds.merge_insert(list(self.keys))
        merge = merge.when_matched_update_all().when_not_matched_insert_all()
        if marks:
            merge = merge.mark_sstables_as_compacted(marks)
        merge.execute(pa.Table.from_pylist(rows, self.schema))

    def drain(self) -> None:
        """Take merged generations off the manifest, and away."""
        shard = self.random.choice(self.shards)
        merged = [t for t in self._sstables(shard) if t.generation <= self.merged[shard]]
        if not merged:
            return
        change(
            opened(self.path, shard),
            None,
            lambda found: replace(
                found, sstables=tuple(t for t in found.sstables if t not in merged)
            ),
        )
        for table in merged:
            shutil.rmtree(self.path / "_mem_wal" / shard / table.path)

    def _sstables(self, shard: str) -> tuple[Any, ...]:
        folder = self.path / "_mem_wal" / shard
        return newest(self.path, shard).sstables if folder.exists() else ()

    def snapshots(self, kind: Any) -> list[Any]:
        """Return what is to be read: pylance leaves out what is merged only if it is told."""
        found = []
        for shard in self.shards:
            found.append(kind(shard))
            for table in self._sstables(shard):
                if table.generation > self.merged[shard]:
                    found[-1].with_sstable(table.generation, table.path)
        return found

    def step(self) -> str:
        """Do something at random; return what."""
        names, weights = zip(*CHANGES, strict=True)
        (change_,) = self.random.choices(names, weights)
        call: Callable[[], None] = getattr(self, change_)
        call()
        return str(change_)


CHANGES = [
    ("put", 9),
    ("delete", 4),
    ("flush", 4),
    ("lose_writer", 1),
    ("update_base", 2),
    ("delete_base", 1),
    ("compact_base", 1),
    ("merge", 3),
    ("drain", 2),
    ("merge_by_lancekit", 1),
]
