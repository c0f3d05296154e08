"""The part of the page about shards: small durable writes, reads with generations, and their merge.

``python -m benchmarks.shards`` prints the tables.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import lancekit as lk
from benchmarks import durable_puts, mem_wal, mem_wal_reads
from benchmarks.markdown import ms, ratios, table
from benchmarks.mem_wal_merges import compare_merges
from benchmarks.plan import Plan

__all__ = ["document", "measure"]

Found = dict[str, dict[str, Any]]

_READS = ("all", "a filter", "one key, by a filter", "count")
#: how often each is done, the first times not counted; one that takes long, until so many seconds
_RUNS, _WARM, _MOST_SECONDS = 5, 3, 4.0
_LOOK_UPS = 300
#: rows of a table, and of its generations
_MERGED = (5_000_000, 1_000_000)
_DURABLE, _LOOSE = "lancekit, fsync on", "lancekit, fsync off"


def measure(plan: Plan) -> Found:
    """Return what each case takes."""
    seconds, rows, merged = (0.05, 4_000, (100, 50)) if plan.quick else (1.5, 200_000, _MERGED)
    turns = (1, 3) if plan.quick else (25, 100)
    generations = mem_wal_reads.GENERATIONS[: 2 if plan.quick else None]
    found: Found = {}
    with tempfile.TemporaryDirectory() as place:
        if plan.wants("lone puts"):
            found["lone puts"] = dict(durable_puts.measure(Path(place), *turns))
        if plan.wants("puts"):
            found |= _puts(Path(place), seconds)
        if plan.wants("reads"):
            for number in generations:
                found |= dict(_reads(Path(place) / f"reads {number}", rows, number))
        if plan.wants("merge"):
            found["merge"] = dict(compare_merges(Path(place), *merged))
    return found


def _puts(place: Path, seconds: float) -> Found:
    found: Found = {"disk": {"ms": round(_flush_ms(place), 3)}}
    for rate in mem_wal.measure(place, seconds):
        side, _, what = rate.name.partition(": ")
        ways = [round(rate.rows, 1), round(rate.median_ms, 3), round(rate.last_ms, 3)]
        found.setdefault(f"puts: {what}", {})[side] = ways
    return found


def _flush_ms(place: Path, files: int = 100) -> float:
    """Return what the disk takes for a durable file: it, then its name, is flushed."""
    taken, folder = [], os.open(place, os.O_RDONLY)
    for number in range(files):
        began = time.perf_counter()
        file = os.open(place / f"{number}.tmp", os.O_CREAT | os.O_WRONLY)
        os.write(file, bytes(2500))
        os.fsync(file)
        os.close(file)
        (place / f"{number}.tmp").rename(place / f"{number}")
        os.fsync(folder)
        taken.append(time.perf_counter() - began)
    os.close(folder)
    return statistics.median(taken) * 1e3


def _reads(at: Path, rows: int, generations: int) -> Iterator[tuple[str, dict[str, Any]]]:
    found = mem_wal_reads.made(at, rows, generations)
    sides = {"lancekit": lk, "pylance": lance}
    opened = {name: mem_wal_reads.opened(module, at, found) for name, module in sides.items()}
    time.sleep(mem_wal_reads.REST_SECONDS)
    for case in _READS:
        scan = mem_wal_reads.CASES[case]
        taken = {
            name: _taken(partial(scan, partial(sides[name].mem_wal.LsmScanner.from_snapshots, *of)))
            for name, of in opened.items()
        }
        yield f"reads: {generations} generations, {case}", taken
    if generations:
        of_keys = {name: _look_ups(sides[name], of, 2 * rows) for name, of in opened.items()}
        yield f"reads: {generations} generations, a look-up", of_keys


def _taken(work: Callable[[], Any]) -> list[float]:
    """Return the median milliseconds."""
    taken: list[float] = []
    while len(taken) < _RUNS + _WARM and sum(taken) < _MOST_SECONDS:
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return [round(statistics.median(taken[_WARM:] or taken) * 1e3, 3)]


def _look_ups(module: Any, of: tuple[Any, list[Any]], keys: int) -> list[float]:
    """Return the milliseconds of a look-up at the median, and of the slowest of a hundred."""
    planner = module.mem_wal.LsmPointLookupPlanner(*of)
    taken = []
    for key in np.random.default_rng(1).permutation(keys)[:_LOOK_UPS].tolist():
        began = time.perf_counter()
        planner.plan_lookup(pa.array([key])).to_table()
        taken.append((time.perf_counter() - began) * 1e3)
    return [round(float(one), 3) for one in np.percentile(taken[_LOOK_UPS // 10 :], [50, 99])]


def document(found: Found) -> dict[str, str]:
    """Return the tables; of rates more is better, of times less."""
    tables: dict[str, str] = {}
    puts = {n.partition(": ")[2]: of for n, of in found.items() if n.startswith("puts: ")}
    merges = {name: puts.pop(name) for name in list(puts) if name.startswith("a merge-insert")}
    if puts and merges:
        tables["shard_puts"] = _of_puts(puts)
        ((of_rows, sides),) = merges.items()
        rates = {name: f"{rate:,.0f}" for name, (rate, _, _) in sides.items()}
        alone = puts[f"{mem_wal.MICRO_BATCH} rows a put"][_DURABLE][0] / sides["lancekit"][0]
        eight = puts[f"8 threads, {mem_wal.MICRO_BATCH} rows a put"][_DURABLE][0]
        tables["shard_puts_more"] = (
            f"{of_rows.capitalize()} instead of a put writes {rates['lancekit']} rows/s, with "
            f"pylance {rates['pylance']} rows/s. Durable puts are {alone:.0f} times as fast with "
            f"one thread, and {eight / sides['lancekit'][0]:.0f} times with eight threads. This "
            f"disk takes {found['disk']['ms']:.2g} ms for a file and its name, the minimum for a "
            "single put.\n"
        )
    if "lone puts" in found:
        lines = [
            [name, f"{1 / seconds:,.0f}", f"{ratio:.2f}"]
            for name, (seconds, ratio) in found["lone puts"].items()
        ]
        tables["shard_lone_puts"] = table(["", "puts/s", "ratio"], lines)
    reads = {n.partition(": ")[2]: of for n, of in found.items() if n.startswith("reads: ")}
    if reads:
        lines = [
            [
                name,
                *ratios(of["lancekit"][:1], of["pylance"][:1]),
                ms(of["lancekit"]),
                ms(of["pylance"]),
            ]
            for name, of in reads.items()
        ]
        tables["shard_reads"] = table(["", "ratio", "lancekit, ms", "pylance, ms"], lines)
    if "merge" in found:
        ours, theirs = found["merge"]["lancekit"], found["merge"]["pylance"]
        tables["shard_merge"] = f"{ours:.2g} s, in hand-written code with pylance {theirs:.2g} s"
    return tables


def _of_puts(puts: Found) -> str:
    heading = [
        "",
        "ratio",
        "durable, rows/s",
        "ms",
        "fsync off, rows/s",
        "ms",
        "pylance, rows/s",
        "ms",
    ]
    lines = []
    for name, sides in puts.items():
        line = [name, f"{sides[_DURABLE][0] / sides['pylance'][0]:.2f}"]
        for side in (_DURABLE, _LOOSE, "pylance"):
            rate, *times = sides[side]
            line += [f"{rate:,.0f}", ms(times)]
        lines.append(line)
    return table(heading, lines)


def main() -> None:
    """Print the tables."""
    for one in document(measure(Plan())).values():
        print(one)


if __name__ == "__main__":
    main()
