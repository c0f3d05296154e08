"""Merges on Spark as tables grow, with the memory of all processes; each size in one of its own.

``python -m benchmarks.merge_scale 1000000 10000000 100000000`` merges a tenth as many source rows
into each target, half of which are there and half of which are new, and checks every row.
``--hand`` compares with the join that one would write by hand on Parquet, ``--pylance`` with the
reference.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lancekit as lk

__all__ = ["Measured", "measure"]

#: spreads the keys over all of the table, and no two of them meet
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_EVERY = 20  # of this many rows of the target, one is in the source
_NEW = 1_000_000
_BATCH = 1 << 17


def _batch(ids: Any, added: int, kind: str) -> pa.RecordBatch:
    """Return rows: `v` tells which row it is, and of which of both tables."""
    numbers = (ids.astype(np.uint64) * _SPREAD).view(np.int64)
    keys = pa.array(numbers)
    if kind == "text":
        keys = pa.array(np.char.mod("%016x", numbers.view(np.uint64)))
    return pa.RecordBatch.from_arrays([keys, pa.array(ids % 1000 + added)], names=["key", "v"])


def _target(rows: int, kind: str) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def make(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for start in batch.column(0).to_pylist():
                stop = min(start + _BATCH, rows)
                yield _batch(np.arange(start, stop), 0, kind)

    return make


def _source(rows: int, half: int, kind: str) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Make the first half of rows that the target has, and a second one of new ones."""

    def make(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for start in batch.column(0).to_pylist():
                places = np.arange(start, min(start + _BATCH, 2 * half))
                ids = np.where(places < half, places * _EVERY, rows + places - half)
                yield _batch(ids, _NEW, kind)

    return make


def _frame(spark: Any, rows: int, make: Any, kind: str) -> Any:
    key = "long" if kind == "int64" else "string"
    return spark.range(0, rows, _BATCH, 8).mapInArrow(make, f"key {key}, v long")


# ---- memory


class Memory:
    """The most memory that this process and all below it had at a time, in bytes.

    Pages that several of them share count for each by its share.
    """

    def __init__(self) -> None:
        self.most: dict[str, int] = {"all": 0, "java": 0, "driver": 0, "workers": 0}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            now = dict.fromkeys(self.most, 0)
            for process in _tree(os.getpid()):
                size = _share(process)
                part = "driver" if process == os.getpid() else "workers"
                now["java" if _name(process) == "java" else part] += size
                now["all"] += size
            self.most = {name: max(size, now[name]) for name, size in self.most.items()}


def _tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, todo = [], [root]
    while todo:
        found.append(todo.pop())
        todo += children.get(found[-1], [])
    return found


def _share(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def _name(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


# ---- one size


@dataclass(frozen=True)
class Measured:
    """Seconds and bytes of one merge; `others` are seconds of other ways to do the same."""

    rows: int
    seconds: float
    strategy: str
    memory: dict[str, int]
    write_seconds: float
    others: dict[str, float]


def measure(
    rows: int,
    folder: Path,
    *,
    kind: str = "int64",
    heap: str = "2g",
    strategy: str = "auto",
    hand: bool = False,
    reference: bool = False,
) -> Measured:
    """Make a table of so many rows, merge a tenth as many into it, and check what comes out.

    Parameters
    ----------
    rows
        The rows of the target.
    folder
        Where tables go.
    kind
        The type of the key: ``int64``, or ``text`` of 16 characters.
    heap
        The memory of Java.
    strategy
        The option ``merge_match``.
    hand, reference
        Whether to measure a join by hand on Parquet, and pylance.
    """
    spark = lk.spark_session(memory=heap)
    half = rows // _EVERY
    target = _frame(spark, rows, _target(rows, kind), kind)
    source = _frame(spark, 2 * half, _source(rows, half, kind), kind)
    others: dict[str, float] = {}
    with Memory() as making:
        started = time.monotonic()
        ds = lk.write_dataset(target, folder / "target.lance")
        write_seconds = time.monotonic() - started
    if reference:
        others["pylance"] = _by_pylance(folder, source)
    with Memory() as memory, lk.options(merge_match=strategy):
        started = time.monotonic()
        merge = ds.merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
        result = merge.execute(source)
        seconds = time.monotonic() - started
    assert dict(result) == {
        "num_inserted_rows": half,
        "num_updated_rows": half,
        "num_deleted_rows": 0,
    }, dict(result)
    _check(ds, rows, half)
    if hand:
        others["by hand"] = _by_hand(spark, folder, target, source)
    assert making.most["all"] > 0
    match = result.match
    used = "" if match is None else match.strategy
    return Measured(rows, seconds, used, memory.most, write_seconds, others)


def _check(ds: Any, rows: int, half: int) -> None:
    """Compare sums of what each row should hold with what a scan finds, by kinds of rows."""
    count = old = new = 0
    for batch in ds.scanner(columns=["v"], batch_size=1 << 20).to_batches():
        values = batch.column("v").to_numpy()
        mine = values >= _NEW
        count += len(values)
        new += int((values[mine] - _NEW).sum())
        old += int(values[~mine].sum())
    replaced = np.arange(half) * _EVERY
    inserted = np.arange(rows, rows + half)
    everything = (rows // 1000) * 499_500 + int(np.arange(rows % 1000).sum())
    assert count == rows + half, count
    assert new == int((replaced % 1000).sum() + (inserted % 1000).sum()), new
    assert old == everything - int((replaced % 1000).sum()), old
    keys = ds.scanner(columns=["key"], batch_size=1 << 20).to_batches()
    if rows <= 20_000_000:
        assert pc.count_distinct(pa.chunked_array([b.column(0) for b in keys])).as_py() == count


def _by_pylance(folder: Path, source: Any) -> float:
    """Merge the same rows, from memory, into a copy."""
    import shutil

    import lance

    shutil.copytree(folder / "target.lance", folder / "reference.lance")
    ds = lance.dataset(str(folder / "reference.lance"))
    table = source.toArrow()
    started = time.monotonic()
    merge = ds.merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(table)
    return time.monotonic() - started


def _by_hand(spark: Any, folder: Path, target: Any, source: Any) -> float:
    """Join everything with everything, and write it anew."""
    from pyspark.sql import functions as f

    target.write.parquet(str(folder / "target.parquet"))
    started = time.monotonic()
    old = spark.read.parquet(str(folder / "target.parquet"))
    new = source.withColumnRenamed("v", "new")
    joined = old.join(new, "key", "full_outer")
    joined.select("key", f.coalesce("new", "v").alias("v")).write.parquet(
        str(folder / "merged.parquet")
    )
    return time.monotonic() - started


def _line(found: Measured) -> str:
    size = {name: f"{bytes_ / 1e9:.2f}" for name, bytes_ in found.memory.items()}
    compared = "".join(
        f"  {name} {seconds:.1f} s ({found.seconds / seconds:.2f})"
        for name, seconds in found.others.items()
    )
    return (
        f"{found.rows:>12,} rows  {found.strategy:<9} {found.seconds:7.1f} s  "
        f"{found.seconds / found.rows * 1e6:6.2f} s per million  GB: all {size['all']}, "
        f"java {size['java']}, driver {size['driver']}, workers {size['workers']}{compared}"
    )


def main() -> None:
    """Measure each size in a process of its own, and print a line for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="+")
    parser.add_argument("--key", default="int64", choices=["int64", "text"])
    parser.add_argument("--heap", default="2g")
    parser.add_argument("--strategy", default="auto")
    parser.add_argument("--hand", action="store_true")
    parser.add_argument("--pylance", action="store_true")
    parser.add_argument("--folder", default=None)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not given.here:
        for rows in given.rows:
            options = [argument for argument in sys.argv[1:] if not argument.isdigit()]
            program = [sys.executable, "-m", "benchmarks.merge_scale", str(rows), *options]
            subprocess.run([*program, "--here"], check=True)
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        found = measure(
            given.rows[0],
            Path(folder),
            kind=given.key,
            heap=given.heap,
            strategy=given.strategy,
            hand=given.hand,
            reference=given.pylance,
        )
    print(_line(found), json.dumps(asdict(found)), sep="\n", flush=True)
    lk.stop_spark()


if __name__ == "__main__":
    main()
