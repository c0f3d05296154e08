"""Random histories of a table with shards, whose participants are stopped or killed anywhere.

Before each call to the store of who is at work, another one may be let in, who does something as a
whole, or is interrupted in turn; and each call may be the last one of whom it belongs to: nothing
that he does afterwards is carried out.  Beside it goes a plain model of what was acknowledged.

As a program: ``python -m tests.support.shard_histories FIRST_SEED COUNT``.
"""

from __future__ import annotations

import gc
import random
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch
from uuid import UUID

import lance
import pyarrow as pa
from lance.mem_wal import CompactedSsTable

import lancekit as lk
import lancekit._versions.branch_location as line_module
from lancekit._format.mem_wal.details import details_of
from lancekit._format.mem_wal.sharding import bucket_numbers, shard_id
from lancekit._operations.mem_wal import router as router_module
from lancekit._operations.mem_wal.settings import WriterSettings
from lancekit._shards.log import positions
from lancekit._shards.manifests import latest
from lancekit._shards.schema import Shard, shard_of
from lancekit._storage.local import LocalStore
from lancekit.errors import (
    CommitUnknownError,
    CorruptFileError,
    FencedError,
    LancekitError,
    RetriesExhaustedError,
    ShardError,
    StorageError,
)
from lancekit.progress import _current
from tests.support.faults import Call, Crash, Faults, FaultyStore, Mode
from tests.support.shard_state import newest_rows
from tests.support.shards import LEFT_OPEN_MS, keyed

__all__ = ["History", "run"]

PLAIN = pa.schema([pa.field("id", pa.int64(), False), pa.field("v", pa.string())])
KEYED = keyed(PLAIN, "id")
BUCKETS = 2
#: keys that are put, and from where on there are those that only the table knows
KEYS, BASE_KEYS = 20, 1 << 40
_MODES = [Mode.CRASH] * 12 + [Mode.TORN] * 5 + [Mode.LOST, Mode.REFUSED]
#: how deep those that are let in are interrupted
_DEPTH = 2

Value: TypeAlias = str | None

#: whose stores are opened now
_faults: ContextVar[Faults | None] = ContextVar("faults", default=None)


@dataclass(eq=False)
class Attempt:
    """Values that are being put, from behind a position of a log on."""

    values: dict[int, Value]
    after: int
    running: bool = True


@dataclass
class Model:
    """What was acknowledged, by key, with its position in the log, and what may have come after."""

    keys: set[int] = field(default_factory=set)
    rows: dict[int, tuple[int, Value]] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    readers: list[dict[int, set[Value]]] = field(default_factory=list)
    lock: Any = field(default_factory=threading.RLock)

    def begin(self, values: dict[int, Value], after: int) -> Attempt:
        with self.lock:
            self.keys.update(values)
            attempt = Attempt(values, after)
            self.attempts.append(attempt)
            for seen in self.readers:
                for key, value in values.items():
                    seen.setdefault(key, {None}).add(value)
            return attempt

    def acknowledge(self, attempt: Attempt, position: int) -> None:
        with self.lock:
            self.attempts.remove(attempt)
            for key, value in attempt.values.items():
                if position >= self.rows.get(key, (0, None))[0]:
                    self.rows[key] = position, value
                for other in self.attempts:
                    if not other.running and other.after < position:
                        other.values.pop(key, None)

    def refuse(self, attempt: Attempt) -> None:
        """Nothing of it may be there."""
        with self.lock:
            self.attempts.remove(attempt)

    def allowed(self) -> dict[int, set[Value]]:
        with self.lock:
            found = {key: {self.rows.get(key, (0, None))[1]} for key in self.keys}
            for attempt in self.attempts:
                for key, value in attempt.values.items():
                    found[key].add(value)
            return found

    @contextmanager
    def reading(self) -> Iterator[dict[int, set[Value]]]:
        with self.lock:
            seen = self.allowed()
            self.readers.append(seen)
        try:
            yield seen
        finally:
            with self.lock:
                self.readers = [other for other in self.readers if other is not seen]

    def settle(self, seen: dict[int, Value]) -> None:
        """Go on from what is there, while nobody is at work."""
        with self.lock:
            assert not any(attempt.running for attempt in self.attempts)
            self.attempts.clear()
            self.rows = {key: (0, seen.get(key)) for key in self.keys}


def compare(allowed: dict[int, set[Value]], seen: list[tuple[int, Value]], what: str) -> None:
    """Each key is there at most once, as it may be, and none is missing."""
    found = dict(seen)
    assert len(found) == len(seen), f"{what}: doubled {[k for k, n in _counted(seen) if n > 1]}"
    for key, values in allowed.items():
        value = found.pop(key, None)
        assert value in values, f"{what}: key {key} is {value}, not one of {values}"
    assert not found, f"{what}: {found} were never put"


def _counted(seen: list[tuple[int, Value]]) -> list[tuple[int, int]]:
    return Counter(key for key, _ in seen).most_common()


@dataclass(eq=False)
class Actor:
    """Someone with a store of his own, which dies with him."""

    faults: Faults
    shard: str = ""
    writer: Any = None
    table: Any = None
    busy: bool = False


def pairs(table: pa.Table) -> list[tuple[int, Value]]:
    return list(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


class History:
    """A table in a folder, and who works on it."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.random = path, random.Random(seed)
        self.keyed = self.random.random() < 0.7
        self.schema = KEYED if self.keyed else PLAIN
        self.model = Model()
        self.kills = self.done = self.numbers = self.cleanups = 0
        self.errors: Counter[str] = Counter()
        self.ours: list[Actor] = []
        self.theirs: list[Actor] = []
        self.base: dict[int, Value] = {}
        self.versions: dict[int, list[tuple[int, Value]]] = {}
        self.depth = 0
        self.baton = threading.RLock()
        self.trace: list[str] = []
        first = {key: f"first {key}" for key in range(0, KEYS, 2)} if self.keyed else {}
        ds = lance.write_dataset(
            self.table(first),
            str(path),
            max_rows_per_file=4,
            enable_stable_row_ids=self.random.random() < 0.3,
        )
        ds.initialize_mem_wal(bucket_column="id", num_buckets=BUCKETS)
        self.model.keys.update(first)
        self.model.rows.update({key: (0, value) for key, value in first.items()})
        numbers = bucket_numbers(pa.array(range(KEYS), pa.int64()), BUCKETS).tolist()
        self.share = {b: [key for key in range(KEYS) if numbers[key] == b] for b in range(BUCKETS)}
        details = details_of(lk.dataset(path)._snapshot.indices)
        assert details is not None
        self.shards = [str(shard_id(details.specs[0], {"bucket": b})) for b in range(BUCKETS)]

    # ---- the parts

    def table(self, rows: dict[int, Any]) -> pa.Table:
        return pa.table({"id": list(rows), "v": list(rows.values())}, schema=self.schema)

    def shard(self, name: str) -> Shard:
        return shard_of(LocalStore(self.path), UUID(name))

    def tip(self, shard: str) -> int:
        return max(positions(self.shard(shard)), default=0)

    def actor(self, calls: int, shard: str = "") -> Actor:
        """Return someone who may die within some calls."""
        made = Actor(Faults(), shard)
        made.faults.before = lambda call: self.before(made, call)
        self.arm(made, calls)
        return made

    def arm(self, actor: Actor, calls: int) -> None:
        if self.random.random() < 0.35:
            actor.faults.fail_at = len(actor.faults.calls) + self.random.randint(1, calls)
            actor.faults.mode = self.random.choice(_MODES)

    def before(self, actor: Actor, call: Call) -> None:
        """Perhaps let someone else in before a call."""
        name = threading.current_thread().name
        ours = threading.current_thread() is threading.main_thread() or "mem-wal" in name
        if not ours or self.depth >= _DEPTH or self.random.random() > 0.03:
            return
        if not self.baton.acquire(blocking=False):
            return
        was, actor.busy = actor.busy, True
        token, working = _faults.set(None), _current.set(None)  # who comes in is another process
        self.depth += 1
        try:
            self.trace.append(f"{'  ' * self.depth}before {call.kind} {call.name}:")
            self.step()
        finally:
            self.depth -= 1
            _current.reset(working)
            _faults.reset(token)
            actor.busy = was
            self.baton.release()

    @contextmanager
    def acting(self, actor: Actor, what: str) -> Iterator[None]:
        """Do something as somebody; who dies is gone, and what may fail may."""
        self.trace.append(f"{'  ' * self.depth}{what} {actor.shard[:4]}")
        alive, cleanups = not actor.faults.dead, self.cleanups
        actor.busy = True
        token = _faults.set(actor.faults)
        try:
            yield
        except Crash:
            pass
        except LancekitError as error:
            self.errors[f"{what.split(maxsplit=1)[0]}: {type(error).__name__}"] += 1
            self.trace.append(f"{'  ' * self.depth}  {what} {type(error).__name__}: {error}")
            if not self.may_fail(error, actor, cleanups):
                raise
        finally:
            _faults.reset(token)
            actor.busy = False
            if actor.faults.dead and alive:
                self.kills += 1
                lk.clear_cache()  # what a process remembers dies with it, its files among that
                self.trace.append(f"{'  ' * self.depth}  {what}: killed")
            if actor.faults.dead:
                self.ours = [other for other in self.ours if other is not actor]

    def may_fail(self, error: LancekitError, actor: Actor, cleanups: int) -> bool:
        if isinstance(error, FencedError):
            return True
        faults = actor.faults
        failed = 0 < faults.fail_at <= len(faults.calls)
        if isinstance(error, CorruptFileError):  # what was planned is gone
            return self.cleanups > cleanups
        if isinstance(error, StorageError | CommitUnknownError):
            return failed
        if isinstance(error, RetriesExhaustedError):
            return True
        parts = error.context.get("failed")
        if parts:
            return all(self.may_fail(part, actor, cleanups) for part in parts.values())
        return isinstance(error, ShardError) and (failed or "closed" in str(error))

    # ---- what may happen

    def step(self) -> None:
        names, weights = zip(*STEPS, strict=True)
        (name,) = self.random.choices(names, weights)
        call: Callable[[], None] = getattr(self, name)
        call()
        self.done += 1

    def free(self, actors: list[Actor]) -> Actor | None:
        found = [actor for actor in actors if not actor.busy]
        return self.random.choice(found) if found else None

    def open(self) -> None:
        actor = self.actor(25, self.random.choice(self.shards))
        rows = self.random.randint(2, 7)
        with self.acting(actor, "open"):
            actor.table = lk.dataset(self.path)
            actor.writer = actor.table.mem_wal_writer(actor.shard, max_memtable_rows=rows)
            if not actor.faults.dead:
                self.ours = [*self.ours[-5:], actor]

    def values(self, shard: str, most: int = 2) -> dict[int, Value]:
        bucket = self.shards.index(shard)
        count = self.random.randint(1, most)
        if self.keyed:
            keys = self.random.sample(self.share[bucket], count)
            gone = self.random.random() < 0.3
        else:
            self.numbers += 1
            keys = list(range(1000 * self.numbers, 1000 * self.numbers + 50))
            buckets = bucket_numbers(pa.array(keys, pa.int64()), BUCKETS).tolist()
            keys = [key for key, own in zip(keys, buckets, strict=True) if own == bucket][:count]
            gone = False
        self.numbers += 1
        return {key: None if gone else f"{key} {self.numbers}" for key in keys}

    def give(self, writer: Any, values: dict[int, Value]) -> None:
        if None in values.values():
            writer.delete(
                pa.table(
                    {"id": list(values)}, schema=self.schema.empty_table().select(["id"]).schema
                )
            )
        else:
            writer.put(self.table(values))

    def put(self) -> None:
        actor = self.free(self.ours)
        if actor is None:
            return self.open()
        self.arm(actor, 8)
        writer, values = actor.writer, self.values(actor.shard)
        attempt = self.model.begin(values, writer.position)
        with self.acting(actor, f"put {values}"):
            try:
                self.give(writer, values)
                if actor.faults.dead:  # killed meanwhile, as its generation was written
                    attempt.running = False
                else:
                    self.model.acknowledge(attempt, writer.position)
            except FencedError:
                self.model.refuse(attempt)
                raise
            except BaseException:
                attempt.running = False
                raise
            finally:
                if writer.state != "open":
                    self.ours = [other for other in self.ours if other is not actor]
            self.flushed(actor)
        return None

    def flushed(self, actor: Actor) -> None:
        """Wait for the thread that writes generations, so that what comes next is certain."""
        until = time.monotonic() + 60
        while actor.writer._writer._waiting.running:
            assert time.monotonic() < until, "a flush does not end"
            time.sleep(0.0005)

    def upsert(self) -> None:
        actor = self.actor(40)
        parts = [self.values(shard, 3) for shard in self.shards]
        values = {k: v or f"{k} again {self.numbers}" for part in parts for k, v in part.items()}
        after = {shard: self.tip(shard) for shard in self.shards}
        attempts = {
            shard: self.model.begin({k: values[k] for k in part}, after[shard])
            for shard, part in zip(self.shards, parts, strict=True)
        }
        with self.acting(actor, f"upsert {values}"):
            try:
                ds = lk.dataset(self.path)
                done = ds.mem_wal_upsert(self.table(values), flush=self.random.random() < 0.5)
                for shard, told in done.items():
                    self.model.acknowledge(attempts.pop(shard), told.position)
            finally:
                for attempt in attempts.values():
                    attempt.running = False

    def close(self) -> None:
        actor = self.free(self.ours)
        if actor is None:
            return
        self.ours = [other for other in self.ours if other is not actor]
        self.arm(actor, 40)
        with self.acting(actor, "close"):
            actor.writer.close()

    def abandon(self) -> None:
        """A writer is gone, without a word."""
        actor = self.free(self.ours)
        if actor is not None:
            actor.faults.dead = True
            self.ours = [other for other in self.ours if other is not actor]
            self.kills += 1
            self.trace.append(f"{'  ' * self.depth}abandon {actor.shard[:4]}")

    def merge(self) -> None:
        actor = self.actor(120)
        with self.acting(actor, "merge"):
            lk.dataset(self.path).merge_mem_wal(rows_per_commit=self.random.choice([1, 5, 100]))

    def cleanup(self) -> None:
        actor = self.actor(40)
        self.cleanups += 1
        with self.acting(actor, "cleanup"):
            lk.dataset(self.path).cleanup_mem_wal(grace=timedelta(0))
        self.cleanups += 1

    def turn_over(self) -> None:
        """Whoever was stopped finds the log in generations, or in the table, and collected."""
        self.close()
        if self.random.random() < 0.5:
            self.merge()
        self.cleanup()

    def read(self) -> None:
        actor = self.actor(60)
        kind = self.random.choice(["table", "scanner", "filter"])
        with self.acting(actor, f"read {kind}"):
            with self.model.reading() as allowed:
                ds = lk.dataset(self.path)
                if kind == "table":
                    found = ds.to_table(include_mem_wal=True)
                elif kind == "scanner":
                    found = ds.lsm_scanner().to_table()
                else:
                    found = ds.to_table(include_mem_wal=True, filter="id < 10")
            wanted = {k: v for k, v in allowed.items() if kind != "filter" or k < 10}
            compare(wanted, pairs(found), f"read {kind}")

    def read_own(self) -> None:
        """Read what a writer sees, its memory included."""
        actor = self.free(self.ours)
        if actor is None:
            return
        with self.acting(actor, "read own"):
            with self.model.reading() as allowed:
                found = actor.writer.lsm_scanner().to_table()
            newest = latest(self.shard(actor.shard))
            # one that was fenced sees its past
            if newest is not None and actor.writer.epoch == newest.writer_epoch:
                own = {key: values for key, values in allowed.items() if self.is_of(actor, key)}
                compare(own, [pair for pair in pairs(found) if pair[0] in own], "read own")

    def is_of(self, actor: Actor, key: int) -> bool:
        bucket = int(bucket_numbers(pa.array([key], pa.int64()), BUCKETS)[0])
        return key < BASE_KEYS and self.shards[bucket] == actor.shard

    # ---- those who know nothing of shards

    def change_base(self) -> None:
        actor = self.actor(40)
        what = self.random.choice(["append", "delete", "compact", "compact"])
        with self.acting(actor, what):
            if what == "compact":
                lk.dataset(self.path).optimize.compact_files()
            else:
                self.change_row(what)

    def change_row(self, what: str) -> None:
        own = sorted(key for key in self.base if self.base[key] is not None)
        if what == "delete" and own:
            key = self.random.choice(own)
            self.base.pop(key)  # nobody else deletes it
            attempt = self.model.begin({key: None}, 0)
        else:
            self.numbers += 1
            key = BASE_KEYS + self.numbers
            attempt = self.model.begin({key: f"base {key}"}, 0)
        try:
            ds = lk.dataset(self.path)  # which has the row that is deleted
            if attempt.values[key] is None:
                ds.delete(f"id = {key}")
            else:
                lk.write_dataset(self.table(dict(attempt.values)), ds, mode="append")
                self.base[key] = attempt.values[key]
            self.model.acknowledge(attempt, 1 << 60)
        finally:
            attempt.running = False

    # ---- pylance

    def their_open(self) -> None:
        shard = self.random.choice(self.shards)
        actor = Actor(Faults(), shard)
        with self.theirs_alone(f"pylance opens {shard[:4]}"):
            actor.writer = lance.dataset(str(self.path)).mem_wal_writer(
                shard, max_wal_flush_interval_ms=LEFT_OPEN_MS
            )
            self.theirs = [*self.theirs[-3:], actor]

    @contextmanager
    def theirs_alone(self, what: str) -> Iterator[None]:
        self.trace.append(f"{'  ' * self.depth}{what}")
        with self.baton:
            try:
                yield
            except OSError as error:
                self.errors[f"{what.split()[1]}: {str(error)[:50]}"] += 1
                self.trace.append(f"{'  ' * self.depth}  {error}")
                fenced = "fence" in str(error).lower() or "poison" in str(error).lower()
                if not fenced and "closed" not in str(error).lower():
                    raise

    def their_put(self) -> None:
        actor = self.free(self.theirs)
        if actor is None:
            return self.their_open()
        values = self.values(actor.shard)
        with self.theirs_alone(f"pylance puts {values} into {actor.shard[:4]}"):
            attempt = self.model.begin(values, self.tip(actor.shard))
            try:
                self.give(actor.writer, values)
            except OSError:
                self.model.refuse(attempt)
                self.theirs = [other for other in self.theirs if other is not actor]
                raise
            self.model.acknowledge(attempt, self.tip(actor.shard))
        return None

    def their_close(self) -> None:
        actor = self.free(self.theirs)
        if actor is None:
            return
        self.theirs = [other for other in self.theirs if other is not actor]
        if self.random.random() < 0.3:
            self.trace.append(f"{'  ' * self.depth}pylance abandons {actor.shard[:4]}")
            return
        with self.theirs_alone(f"pylance closes {actor.shard[:4]}"):
            actor.writer.close()

    def their_merge(self) -> None:
        """Merge the oldest generation of a shard as pylance's users have to, in two commits."""
        name = self.random.choice(self.shards)
        if not self.keyed or not (self.path / "_mem_wal" / name).exists():
            return
        with self.theirs_alone(f"pylance merges {name[:4]}"):
            manifest = latest(self.shard(name))
            infos = {one.shard_id: one for one in lk.dataset(self.path).mem_wal_shards()}
            if manifest is None or not infos[name].unmerged_generations:
                return
            table = infos[name].unmerged_generations[0]
            folder = self.path / "_mem_wal" / name / table.path
            if not folder.exists():
                return
            rows = lance.dataset(str(folder)).to_table()
            gone = rows.filter(rows["_tombstone"])["id"].to_pylist()
            live = rows.filter(pa.compute.invert(rows["_tombstone"])).select(["id", "v"])
            ds = lance.dataset(str(self.path))
            if gone:
                ds.delete(f"id IN ({', '.join(map(str, gone))})")
            merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            merge = merge.mark_sstables_as_compacted([CompactedSsTable(name, table.number)])
            merge.execute(live.cast(self.schema))

    def their_read(self) -> None:
        with self.theirs_alone("pylance reads"):
            seen = pairs(lance.dataset(str(self.path)).to_table())
            assert len(dict(seen)) == len(seen), "doubled in the table"

    # ---- what has to hold

    def check(self) -> None:
        """Compare all with the model, while nobody is at work, and go on from there."""
        while at_work := [one for one in threading.enumerate() if "mem-wal" in one.name]:
            for thread in at_work:
                thread.join()
        self.trace.append("check")
        allowed = self.model.allowed()
        ds = lk.dataset(self.path)
        seen = pairs(ds.to_table(include_mem_wal=True))
        compare(allowed, seen, "check")
        if self.keyed:
            plain = {key: row["v"] for key, row in newest_rows(self.path).items()}
            assert plain == dict(seen), "another reader"
        self.model.settle(dict(seen))
        base = sorted(pairs(ds.to_table()))
        assert self.versions.setdefault(ds.version, base) == base, "a version changed"

    def run(self, steps: int) -> None:
        for number in range(steps):
            self.step()
            if number % 8 == 7:
                self.check()
        self.check()
        self.succeeded()

    def succeeded(self) -> None:
        """Have pylance go on, then merge all: the table is what the model is."""
        expected = {key: value for key, (_, value) in self.model.rows.items()}
        lk.dataset(self.path).merge_mem_wal()
        for name in self.shards:
            writer = lance.dataset(str(self.path)).mem_wal_writer(name, max_wal_flush_interval_ms=1)
            seen = pairs(self.scanned(writer))
            own = {k: v for k, v in expected.items() if self.is_of(Actor(Faults(), name), k)}
            compare({k: {v} for k, v in own.items()}, [p for p in seen if p[0] in own], "pylance")
            writer.close()
        lk.dataset(self.path).merge_mem_wal()
        lk.dataset(self.path).cleanup_mem_wal(grace=timedelta(0))
        for reader in (lance, lk):
            seen = pairs(reader.dataset(str(self.path)).to_table())
            compare({k: {v} for k, v in expected.items()}, seen, f"{reader.__name__} at the end")
        for version in self.random.sample(sorted(self.versions), min(3, len(self.versions))):
            for reader in (lance, lk):
                seen = pairs(reader.dataset(str(self.path), version=version).to_table())
                assert sorted(seen) == self.versions[version], "time travel reads the shards"

    def scanned(self, writer: Any) -> pa.Table:
        if self.keyed:
            return writer.lsm_scanner().to_table()
        return lk.dataset(self.path).to_table(include_mem_wal=True)


STEPS = [
    ("open", 4),
    ("put", 30),
    ("upsert", 4),
    ("close", 4),
    ("abandon", 2),
    ("merge", 8),
    ("cleanup", 4),
    ("turn_over", 6),
    ("read", 8),
    ("read_own", 3),
    ("change_base", 4),
    ("their_open", 2),
    ("their_put", 6),
    ("their_close", 2),
    ("their_merge", 2),
    ("their_read", 1),
]


@contextmanager
def _stores() -> Iterator[None]:
    """Open datasets through the store of who is at work."""
    real = line_module.open_store

    def opened(*arguments: Any, **keywords: Any) -> Any:
        faults, store = _faults.get(), real(*arguments, **keywords)
        return store if faults is None else FaultyStore(store, faults)

    with patch.object(line_module, "open_store", opened):
        yield


def run(path: Path, seed: int, steps: int = 60) -> History:
    """Let a history happen; return it."""
    history = History(path, seed)
    # who comes in between two calls is another process, with a router of its own
    cached, cache = router_module.cached_router, router_module.cache_router
    with (
        _stores(),
        patch.object(
            router_module, "cached_router", lambda *of: None if history.depth else cached(*of)
        ),
        patch.object(
            router_module, "cache_router", lambda *of: None if history.depth else cache(*of)
        ),
        lk.options(fsync=False),
        patch.object(threading, "excepthook", lambda _: None),
        patch("os.sched_getaffinity", return_value={0}),
        # each participant stands for a process of its own: a merge does not flush their writers
        patch("lancekit._operations.mem_wal.flush_logs.writers_of", return_value=[]),
        patch.dict(WriterSettings.__init__.__kwdefaults__, wal_persist_retry_base_delay_ms=1),
    ):
        try:
            history.run(steps)
        except BaseException as error:
            error.add_note(
                f"seed {seed}, the last of what happened:\n" + "\n".join(history.trace[-60:])
            )
            raise
    return history


def main(first: int, count: int) -> None:
    kills, errors, started = 0, Counter[str](), time.monotonic()
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            try:
                done = run(Path(folder) / "t", seed)
            except Exception:
                print(f"==== seed {seed}", flush=True)
                traceback.print_exc(file=sys.stdout)
                continue
        kills += done.kills
        errors += done.errors
    with suppress(BrokenPipeError):
        print(first, count, "kills", kills, f"{time.monotonic() - started:.0f} s", dict(errors))
    gc.collect()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
