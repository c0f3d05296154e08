"""A file in memory behind the store's protocols, for tests of the bytes themselves."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lancekit._storage.objects import merged
from lancekit.errors import CorruptFileError


class MemoryFile:
    """A `RandomAccess` over bytes that counts what is read."""

    gap = 1 << 16
    identity = None

    def __init__(self, data: bytes, name: str = "memory.lance") -> None:
        self._data = pa.py_buffer(data)
        self.name = name
        self.reads: list[tuple[int, int]] = []

    def size(self) -> int:
        return self._data.size

    def read(self, start: int, length: int) -> pa.Buffer:
        if start < 0 or length < 0 or start + length > self._data.size:
            raise CorruptFileError(f"{self.name} ends before byte {start + length}.")
        self.reads.append((start, length))
        return self._data.slice(start, length)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        return [self.read(start, length) for start, length in ranges]


class CountedFile(MemoryFile):
    """Counts requests, which ranges share as they do in an object store."""

    requests = 0

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        self.requests += len(merged(ranges))
        return [MemoryFile.read(self, start, length) for start, length in ranges]

    def read(self, start: int, length: int) -> pa.Buffer:
        return self.read_many([(start, length)])[0]


class MemorySink:
    """A `Sink` that keeps what is written; `data` is there only after ``close``."""

    def __init__(self) -> None:
        self._parts = bytearray()
        self.data: bytes | None = None
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview | pa.Buffer) -> None:
        self._parts += memoryview(data)

    def tell(self) -> int:
        return len(self._parts)

    def close(self) -> None:
        self.data = bytes(self._parts)

    def abort(self) -> None:
        self.aborted = True
