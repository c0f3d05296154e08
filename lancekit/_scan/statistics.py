"""Statistics of a scan: counted where files are opened, and reported when the scan ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from time import perf_counter_ns
from typing import Any, cast

import pyarrow as pa

from lancekit._display import Displayed
from lancekit._legible import warn
from lancekit._scan.fragments.source import FragmentSource
from lancekit._scan.scan import Scan
from lancekit._storage.base import RandomAccess, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanStatistics(Displayed):
    """Counts of the bytes and rows that one run of a scan read.

    `iops` counts the byte ranges that were read, `requests` the calls that read them: nearby ranges
    share a call. Reads of indices are not counted, so their counts are 0. `all_times` is in
    nanoseconds.
    """

    iops: int = 0
    requests: int = 0
    bytes_read: int = 0
    indices_loaded: int = 0
    parts_loaded: int = 0
    index_comparisons: int = 0
    index_cache_hits: int = 0
    index_cache_misses: int = 0
    all_counts: Mapping[str, int] = field(default_factory=dict)
    all_times: Mapping[str, int] = field(default_factory=dict)


class _Tally:
    """Sums over the threads of a scan."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.iops = self.requests = self.bytes_read = 0

    def add(self, lengths: Sequence[int]) -> None:
        with self._lock:
            self.requests += 1
            self.iops += len(lengths)
            self.bytes_read += sum(lengths)


class _Counted:
    """A proxy of a store or file that counts reads."""

    def __init__(self, inner: Any, tally: _Tally) -> None:
        self._inner = inner
        self._tally = tally

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


class _CountedFile(_Counted):
    def read(self, start: int, length: int) -> pa.Buffer:
        self._tally.add([length])
        buffer: pa.Buffer = self._inner.read(start, length)
        return buffer

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        self._tally.add([length for _, length in ranges])
        buffers: list[pa.Buffer] = self._inner.read_many(ranges)
        return buffers


class _CountedStore(_Counted):
    def open(self, name: str, size: int | None = None) -> RandomAccess:
        return cast("RandomAccess", _CountedFile(self._inner.open(name, size), self._tally))


@dataclass(frozen=True, kw_only=True)
class WatchedScan(Scan):
    """A scan that passes its statistics to a function after its last row was read."""

    report: Callable[[ScanStatistics], object]

    def tables(self) -> Iterator[pa.Table]:
        """Yield the result in blocks, as any scan."""
        started, tally, rows = perf_counter_ns(), _Tally(), 0
        given = {field.name: getattr(self, field.name) for field in fields(Scan)}
        given["read"] = replace(self.read, sources=[_counted(s, tally) for s in self.sources])
        plain = Scan(**given)
        for table in plain.tables():
            rows += table.num_rows
            yield table
        found = ScanStatistics(
            iops=tally.iops,
            requests=tally.requests,
            bytes_read=tally.bytes_read,
            all_counts={"rows_returned": rows, "fragments_scanned": len(self.sources)},
            all_times={"elapsed": perf_counter_ns() - started},
        )
        try:
            self.report(found)
        except Exception as error:
            warn(f"scan_stats_callback failed: {error!r}")


def _counted(source: FragmentSource, tally: _Tally) -> FragmentSource:
    files = tuple(
        replace(file, store=cast("Store", _CountedStore(file.store, tally)))
        for file in source.files
    )
    return replace(source, files=files)
