"""What a call does to the disk: requests, files opened, files made and gone."""

from __future__ import annotations

import gc
import hashlib
import os
import re
import struct
import sys
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError
from google.protobuf.text_format import MessageToString

from lancekit._format.pb import schema_pb2, table_pb2, transaction_pb2
from tests.support.faults import Call

__all__ = ["Opened", "changed", "file_text", "kind_of", "peak_of", "requests_text", "tree"]

#: random ids, times, and sizes of what pylance wrote with its own clock
_NUMBER = re.compile(r'\b\d{13,}\b|(?<="manifestSize": )\d+')
#: how files of 0.1 end, which have no such table of buffers
_LEGACY = (b"\0\0\1\0LANC", b"\0\0\2\0LANC")
#: endings of files of a dataset; what is written aside has its own names
_STORED = re.compile(r"\.(lance|idx|arrow|bin|manifest|txn|json)$")
#: how a file's random name is left out of the name of its kind
_NAMES = (
    (re.compile(r"\.tmp[-\w.]*"), "<aside>"),
    (re.compile(r"[01]{24}[0-9a-f]{26}"), "*"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}"), "*"),
    (re.compile(r"(\d+-\d+)-\d+(?=\.(arrow|bin))"), r"\1-*"),
    (re.compile(r"\b[0-9a-f]{8}_gen_"), "*_gen_"),
    (re.compile(r"\b[0-9a-f]{8}(?=\.arrow)"), "*"),
)


def kind_of(name: str) -> str:
    for pattern, instead in _NAMES:
        name = pattern.sub(instead, name)
    return name


def _counted(names: Iterable[str]) -> str:
    counts = Counter(names)
    return "\n".join(f"{name} x{counts[name]}" for name in sorted(counts))


def requests_text(calls: Iterable[Call]) -> str:
    """Count calls of stores by kind and file; threads would vary their order."""
    return _counted(f"{call.kind} {kind_of(call.name)}" for call in calls)


class Opened:
    """Names of files that Python opens, as its audit hook tells them, whatever code does it."""

    def __init__(self) -> None:
        self._names: list[str] | None = None
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and self._names is not None and isinstance(arguments[0], str | bytes):
            self._names.append(os.fsdecode(arguments[0]))

    def start(self) -> None:
        self._names = []

    def stop(self) -> str:
        names, self._names = self._names or [], None
        return _counted(kind_of(name.rpartition("/")[2]) for name in names if _STORED.search(name))


def tree(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return the files below a folder, and what changes when one is written anew."""
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = f"{root}/{name}"
            status = os.stat(path)  # noqa: PTH116
            found[path[len(str(folder)) + 1 :]] = (
                status.st_size,
                status.st_mtime_ns,
                status.st_ino,
            )
    return found


def changed(before: dict[str, Any], after: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return names of files that are new or rewritten, and of those that are gone."""
    return [n for n in after if before.get(n) != after[n]], [n for n in before if n not in after]


def file_text(folder: Path, name: str) -> str:
    """Return a new file decoded if it holds ids or times; as a digest of its bytes otherwise."""
    data = (folder / name).read_bytes()
    if name.endswith(".manifest"):
        return f"{kind_of(name)}:\n{_manifest(data)}"
    if name.endswith(".txn"):
        text = _message(transaction_pb2.Transaction(), data)
        return f"{kind_of(name)}:\n{_without_numbers(text)}"
    if name.endswith(".binpb"):
        shard = table_pb2.ShardManifest()
        _message(shard, data)
        shard.DiscardUnknownFields()  # a random mark that tells writers apart
        for table in shard.sstables:
            table.ClearField("manifest_crc32")
        return f"{kind_of(name)}:\n{MessageToString(shard)}"
    if "/wal/" in name:
        # the metadata of its schema come in any order, as those of data files below
        rows = repr(pa.ipc.open_stream(data).read_all().to_pylist()).encode()
        return f"{kind_of(name)}: {len(data)} bytes, rows {hashlib.sha1(rows).hexdigest()[:16]}"
    if name.endswith((".json", ".manifest_hint")):
        return f"{kind_of(name)}: {_without_numbers(data.decode('utf-8', 'replace'))}"
    described = ""
    if name.endswith((".lance", ".idx")) and data[-8:] not in _LEGACY:
        described, data = _described(data)
    return (
        f"{kind_of(name)}: {len(data)} bytes, sha1 {hashlib.sha1(data).hexdigest()[:16]}{described}"
    )


def _described(data: bytes) -> tuple[str, bytes]:
    """Cut the schema out of a data file: protobuf may order its metadata by addresses."""
    table = struct.unpack("<QQQIIHH4s", data[-40:])[2]
    start, size = struct.unpack_from("<QQ", data, table)
    text = _message(schema_pb2.FileDescriptor(), data[start : start + size])
    mark = hashlib.sha1(text.encode()).hexdigest()[:16]
    return f", schema {mark}", data[:start] + bytes(size) + data[start + size :]


def _without_numbers(text: str) -> str:
    """Leave out random ids of deletion files, and times."""
    return _NUMBER.sub("<number>", text)


def _message(message: Any, data: bytes) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            message.ParseFromString(data)
        except DecodeError as error:
            return f"{error}: sha1 {hashlib.sha1(data).hexdigest()}"
        return str(MessageToString(message))


def _manifest(data: bytes) -> str:
    """Write the sections of a manifest file as text."""
    position = struct.unpack_from("<Q", data, len(data) - 16)[0]
    manifest = table_pb2.Manifest()
    parts = [_message(manifest, _section(data, position))]
    fragments = (_message(table_pb2.DataFragment(), data) for data in manifest.fragments)
    parts += [f"fragment {text}" for text in fragments]
    del manifest.fragments[:]
    parts[0] = str(MessageToString(manifest))
    if manifest.HasField("index_section"):
        parts.append(_message(table_pb2.IndexSection(), _section(data, manifest.index_section)))
    return _without_numbers("\n".join(parts))


def _section(data: bytes, offset: int) -> bytes:
    (length,) = struct.unpack_from("<I", data, offset)
    return data[offset + 4 : offset + 4 + length]


#: pools stay: buffers that a cache keeps go back to the pool that they came from
_pools: list[pa.MemoryPool] = []


def peak_of(run: Callable[[], object]) -> float:
    """Return how many KiB a call takes at its peak: Arrow's, and those of Python and NumPy."""
    pool = pa.proxy_memory_pool(pa.system_memory_pool())
    _pools.append(pool)
    pa.set_memory_pool(pool)
    gc.collect()
    tracemalloc.start()
    try:
        run()
        return (tracemalloc.get_traced_memory()[1] + (pool.max_memory() or 0)) / 1024
    finally:
        tracemalloc.stop()
