"""A store that fails on purpose: refusals, lost replies, torn writes, crashes, latency."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

import lancekit._versions.branch_location as line_module
from lancekit._storage.base import (
    METADATA_BYTES,
    Bytes,
    Listing,
    ObjectInfo,
    RandomAccess,
    Sink,
    Store,
    temporary_name,
)
from lancekit.errors import StorageError

__all__ = ["MODES", "Call", "Crash", "Faults", "FaultyStore", "Mode", "attempt_on_copy", "injected"]


class Crash(BaseException):
    """The process is dead: nothing catches it, and nothing that it still calls is carried out."""


class Mode(Enum):
    """How a call fails."""

    REFUSED = "refused"
    """Nothing happens, and an error says so."""
    LOST = "lost reply"
    """It is carried out, and an error says that it was not."""
    TORN = "torn"
    """Half of it is carried out, and the process dies."""
    CRASH = "crash"
    """It is carried out, and the process dies."""


_READ = (Mode.REFUSED, Mode.CRASH)
_CHANGE = (Mode.REFUSED, Mode.LOST, Mode.CRASH)
_WRITE = (Mode.REFUSED, Mode.LOST, Mode.TORN, Mode.CRASH)

#: what stands in for a mode where a call does not know it: threads vary the order of the reads
_INSTEAD = {Mode.LOST: Mode.REFUSED, Mode.TORN: Mode.CRASH}

#: each call that can fail, and the modes in which it can
MODES: Mapping[str, tuple[Mode, ...]] = {
    "open": _READ,
    "read": _READ,
    "tail": _READ,
    "list_names": _READ,
    "list_tree": _READ,
    "exists": _READ,
    "flush": _READ,
    "reader.read": _READ,
    "reader.read_many": _READ,
    "reader.size": _READ,
    "put": _WRITE,
    "put_if_absent": _WRITE,
    "put_hint": (Mode.TORN, Mode.CRASH),  # its failure is no error
    "create": _CHANGE,
    "adopt": _CHANGE,
    "sink.write": _WRITE,
    "sink.close": _CHANGE,
    "sink.abort": (Mode.REFUSED, Mode.CRASH),
    "delete": _CHANGE,
    "delete_tree": _WRITE,
    "prune": _CHANGE,
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call to a store: its number (the first is 1), what it is, and on which name."""

    number: int
    kind: str
    name: str


@dataclass
class Faults:
    """Which call fails, and how; counts and records all calls of the stores that share it.

    `before` runs before each call is carried out: it may sleep, or let another writer in.
    """

    fail_at: int = 0
    mode: Mode = Mode.REFUSED
    before: Callable[[Call], None] | None = None
    calls: list[Call] = field(default_factory=list)
    dead: bool = False
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Faults, (self.fail_at, self.mode))

    def run(
        self,
        kind: str,
        name: str,
        whole: Callable[[], Any],
        half: Callable[[], Any] = lambda: None,
    ) -> Any:
        """Carry out a call, or fail it."""
        with self._lock:
            if self.dead:
                raise Crash(f"{kind} {name} after the crash")
            call = Call(len(self.calls) + 1, kind, name)
            self.calls.append(call)
            failing = call.number == self.fail_at
            self.dead = failing and self.mode in {Mode.TORN, Mode.CRASH}
        if self.before is not None:
            self.before(call)
        if not failing:
            return whole()
        mode = self.mode if self.mode in MODES[kind] else _INSTEAD.get(self.mode)
        if mode not in MODES[kind]:  # a hint cannot fail in a way that anyone would notice
            return whole()
        if mode is Mode.TORN:
            half()
        elif mode is not Mode.REFUSED:
            whole()
        if self.dead:
            raise Crash(f"{self.mode.value}: call {call.number}, {kind} {name}")
        raise StorageError(f"cannot {kind} {name}: {self.mode.value}.", path=name)


@dataclass(frozen=True)
class _Reader:
    inner: RandomAccess
    faults: Faults

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def gap(self) -> int:
        return self.inner.gap

    @property
    def identity(self) -> Hashable | None:
        return self.inner.identity

    def size(self) -> int:
        return self.faults.run("reader.size", self.name, self.inner.size)

    def read(self, start: int, length: int) -> pa.Buffer:
        return self.faults.run("reader.read", self.name, lambda: self.inner.read(start, length))

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        return self.faults.run("reader.read_many", self.name, lambda: self.inner.read_many(ranges))


@dataclass(frozen=True)
class _Sink:
    """A crash leaves what was written so far under the final name, as a local disk would."""

    inner: Sink
    name: str
    faults: Faults

    def write(self, data: Bytes) -> None:
        with self._left_behind(Crash):
            self.faults.run(
                "sink.write",
                self.name,
                lambda: self.inner.write(data),
                lambda: self.inner.write(memoryview(data).cast("B")[: len(memoryview(data)) // 2]),
            )

    def tell(self) -> int:
        return self.inner.tell()

    def close(self) -> None:
        with self._left_behind(Crash):
            self.faults.run("sink.close", self.name, self.inner.close)

    def abort(self) -> None:
        with self._left_behind(Crash, StorageError):
            self.faults.run("sink.abort", self.name, self.inner.abort)

    @contextmanager
    def _left_behind(self, *kinds: type[BaseException]) -> Iterator[None]:
        try:
            yield
        except kinds:
            self.inner.close()
            raise


@dataclass(frozen=True)
class FaultyStore:
    """A store whose calls go through `Faults`."""

    inner: Store
    faults: Faults = field(compare=False, hash=False)

    @property
    def uri(self) -> str:
        return self.inner.uri

    def child(self, folder: str) -> FaultyStore:
        return FaultyStore(self.inner.child(folder), self.faults)

    def open(self, name: str, size: int | None = None) -> RandomAccess:
        found = self.faults.run("open", name, lambda: self.inner.open(name, size))
        return _Reader(found, self.faults)

    def read(self, name: str, most: int = METADATA_BYTES) -> pa.Buffer:
        return self.faults.run("read", name, lambda: self.inner.read(name, most))

    def tail(self, name: str, length: int) -> tuple[pa.Buffer, int]:
        return self.faults.run("tail", name, lambda: self.inner.tail(name, length))

    def identified_tail(self, name: str, length: int) -> tuple[pa.Buffer, int, Hashable | None]:
        return self.faults.run("tail", name, lambda: self.inner.identified_tail(name, length))

    def identity(self, name: str, mark: str | None = None) -> Hashable | None:
        return self.inner.identity(name, mark)

    def put(self, name: str, data: Bytes) -> None:
        self.faults.run(
            "put", name, lambda: self.inner.put(name, data), lambda: self._aside(name, data)
        )

    def put_if_absent(self, name: str, data: Bytes) -> bool:
        return self.faults.run(
            "put_if_absent",
            name,
            lambda: self.inner.put_if_absent(name, data),
            lambda: self._aside(name, data),
        )

    def flush(self, name: str) -> None:
        self.faults.run("flush", name, lambda: self.inner.flush(name))

    def put_hint(self, name: str, data: Bytes) -> None:
        self.faults.run(
            "put_hint",
            name,
            lambda: self.inner.put_hint(name, data),
            lambda: self._aside(name, data),
        )

    def create(self, name: str) -> Sink:
        return self._created(name, self.inner.create)

    def create_over(self, name: str) -> Sink:
        return self._created(name, self.inner.create_over)

    def _created(self, name: str, begin: Callable[[str], Sink]) -> Sink:
        made: list[Sink] = []

        def create() -> Sink:
            made.append(begin(name))
            return made[0]

        try:
            return _Sink(self.faults.run("create", name, create), name, self.faults)
        except BaseException:
            for sink in made:
                sink.close()
            raise

    def adopt(self, name: str, source: Store, source_name: str) -> bool:
        inner = source.inner if isinstance(source, FaultyStore) else source
        return self.faults.run("adopt", name, lambda: self.inner.adopt(name, inner, source_name))

    def list_names(self, folder: str) -> list[str]:
        return self.faults.run("list_names", folder, lambda: self.inner.list_names(folder))

    def list_folders(self, folder: str) -> list[str]:
        return self.faults.run("list_names", folder, lambda: self.inner.list_folders(folder))

    def first_names(self, folder: str) -> Listing:
        return self.faults.run("list_names", folder, lambda: self.inner.first_names(folder))

    def stamp(self, folder: str) -> None:
        """Return nothing, so that every listing is one."""

    def mark(self, name: str) -> str | None:
        return self.inner.mark(name)

    def look(self, name: str) -> str | None:
        return self.faults.run("exists", name, lambda: self.inner.look(name))

    def mark_of_put(self, name: str) -> str | None:
        return self.inner.mark_of_put(name)

    def list_tree(self, folder: str = "") -> list[ObjectInfo]:
        return self.faults.run("list_tree", folder, lambda: self.inner.list_tree(folder))

    def exists(self, name: str) -> bool:
        return self.faults.run("exists", name, lambda: self.inner.exists(name))

    def delete(self, name: str) -> None:
        self.faults.run("delete", name, lambda: self.inner.delete(name))

    def delete_tree(self, folder: str) -> None:
        self.faults.run(
            "delete_tree",
            folder,
            lambda: self.inner.delete_tree(folder),
            lambda: self._half_deleted(folder),
        )

    def prune(self) -> None:
        self.faults.run("prune", "", self.inner.prune)

    def _aside(self, name: str, data: Bytes) -> None:
        """Leave half of the bytes where a real store writes before it gives them their name."""
        sink = self.inner.create(temporary_name(name))
        half = memoryview(data).cast("B")
        sink.write(half[: len(half) // 2])
        sink.close()

    def _half_deleted(self, folder: str) -> None:
        files = self.inner.list_tree(folder)
        for file in files[: (len(files) + 1) // 2]:
            self.inner.delete(file.name)


@contextmanager
def injected(faults: Faults) -> Iterator[Faults]:
    """Open every dataset in the block through a `FaultyStore`."""
    real = {name: getattr(line_module, name) for name in ("open_store", "open_base")}

    def opened(name: str) -> Callable[..., FaultyStore]:
        def open_(*arguments: Any, **keywords: Any) -> FaultyStore:
            return FaultyStore(real[name](*arguments, **keywords), faults)

        return open_

    for name in real:
        setattr(line_module, name, opened(name))
    try:
        yield faults
    finally:
        for name, function in real.items():
            setattr(line_module, name, function)


def attempt_on_copy(
    work: Callable[[Path], object], saved: Path, path: Path, faults: Faults
) -> None:
    """Do work on a copy of a folder, with faults; in one thread, so that calls keep their order."""
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(saved, path)
    with injected(faults), patch("os.sched_getaffinity", return_value={0}):
        work(path)
