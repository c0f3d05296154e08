"""``python -m benchmarks.diffs [rows]``: what changed, beside a FULL JOIN of both versions.

The join is DuckDB's over the reference's streams of both versions, of all columns, which is what
one would write by hand.  Bytes are the ranges asked of the files, in the case of lancekit as it
asks an object store for them.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import lancekit as lk
from lancekit._storage.mapped import MappedFile
from lancekit._storage.objects import MERGED_GAP_BYTES, merged

__all__ = ["CASES", "Measured", "main", "measure", "rows_of"]

_FRAGMENTS = 10


@dataclass(frozen=True)
class Measured:
    """What a comparison took, ours and the join's; `counts` are inserted, deleted and updated."""

    case: str
    counts: tuple[int, int, int]
    seconds: tuple[float, float]
    bytes: tuple[int, int]


def rows_of(ids: Any, seed: int = 0) -> pa.Table:
    """Return the rows of some ids; another seed gives the same ids other values."""
    rng = np.random.default_rng([seed, len(ids)])
    names = pa.array([f"station-{number}" for number in range(5000)])
    return pa.table(
        {
            "id": ids,
            "amount": rng.random(len(ids)),
            "weight": rng.standard_normal(len(ids)),
            "code": rng.integers(0, 1000, len(ids), np.int32),
            "name": names.take(pa.array(rng.integers(0, len(names), len(ids)))),
            "at": pa.array(1_700_000_000_000_000 + ids * 1_000_000, pa.timestamp("us")),
        }
    )


def _rewritten(ds: Any, rows: int) -> None:
    """Write the same rows anew, with 1 % of them changed: no file is shared, and no row id."""
    table = ds.to_table()
    weight = table["weight"].to_numpy().copy()
    weight[::100] += 1
    changed = table.set_column(2, "weight", pa.array(weight))
    lk.write_dataset(changed, ds.uri, mode="overwrite", max_rows_per_file=rows // _FRAGMENTS)


#: what is done to the rows, of which there are so many
CASES: dict[str, Callable[[Any, int], object]] = {
    "1 % changed in one fragment": lambda ds, rows: ds.update(
        {"weight": "weight + 1"}, where=f"id < {rows // 100}"
    ),
    "1 % appended": lambda ds, rows: ds.insert(
        rows_of(np.arange(rows, rows + rows // 100), 1), mode="append"
    ),
    "a fragment deleted": lambda ds, rows: ds.delete(f"id < {rows // _FRAGMENTS}"),
    "1 % changed all over": lambda ds, _: ds.update({"weight": "weight + 1"}, where="id % 100 = 7"),
    "nothing shared": _rewritten,
}


@contextmanager
def _counted() -> Iterator[list[int]]:
    """Count the bytes that are asked of files, as if these lay in an object store."""
    asked = list[int]()
    read = MappedFile.read

    def counted_many(self: MappedFile, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        asked.extend(stop - start for start, stop in merged(ranges))
        return [read(self, *each) for each in ranges]

    def counted(self: MappedFile, start: int, length: int) -> pa.Buffer:
        return counted_many(self, [(start, length)])[0]

    with (
        patch.object(MappedFile, "read_many", counted_many),
        patch.object(MappedFile, "read", counted),
        patch.object(MappedFile, "gap", MERGED_GAP_BYTES),
    ):
        yield asked


def _ours(at: str) -> tuple[int, int, int]:
    lk.clear_cache()
    counts = lk.dataset(at).diff(1).counts
    return counts.inserted, counts.deleted, counts.updated


def _joined(at: str) -> tuple[tuple[int, int, int], int]:
    """Return the counts by a join, and how many bytes it read."""
    import duckdb
    import lance

    sides = [lance.dataset(at, version=1), lance.dataset(at)]
    with duckdb.connect() as db:
        for name, side in zip(("old", "new"), sides, strict=True):
            db.register(name, side.scanner().to_reader())
        unlike = " OR ".join(
            f"old.{name} IS DISTINCT FROM new.{name}" for name in sides[0].schema.names[1:]
        )
        inserted, deleted, updated = db.execute(
            "SELECT count(*) FILTER (old.id IS NULL), count(*) FILTER (new.id IS NULL),"
            f" count(*) FILTER (old.id = new.id AND ({unlike}))"
            " FROM old FULL JOIN new ON old.id = new.id"
        ).fetchone()
    read = sum(side.io_stats_incremental().read_bytes for side in sides)
    return (inserted, deleted, updated), read


def _timed(run: Callable[[str], Any], at: str) -> tuple[float, Any]:
    started = time.perf_counter()
    found = run(at)
    return time.perf_counter() - started, found


def measure(rows: int, folder: Path, runs: int = 3) -> Iterator[Measured]:
    """Change a table of so many rows in each way, and compare both versions in turn.

    Raises
    ------
    AssertionError
        The two do not agree.
    """
    made = folder / "made"
    size = rows // _FRAGMENTS
    parts = (rows_of(np.arange(start, start + size)) for start in range(0, rows, size))
    first = next(parts)
    lk.write_dataset(
        pa.RecordBatchReader.from_batches(
            first.schema, (b for part in (first, *parts) for b in part.to_batches())
        ),
        made,
        max_rows_per_file=size,
        primary_key="id",
        enable_stable_row_ids=True,
    )
    for case, change in CASES.items():
        at = str(folder / "changed")
        shutil.copytree(made, at)
        change(lk.dataset(at), rows)
        taken = [(_timed(_ours, at), _timed(_joined, at)) for _ in range(runs)]
        (_, counts), (_, (expected, read)) = taken[-1]
        assert counts == expected, (case, counts, expected)
        with _counted() as asked:
            _ours(at)
        seconds = [min(run[side][0] for run in taken) for side in (0, 1)]
        yield Measured(case, counts, (seconds[0], seconds[1]), (sum(asked), read))
        shutil.rmtree(at)


def main(rows: int = 10_000_000) -> None:
    """Print a line for each way in which a table changed."""
    print(f"{rows:,} rows, {_FRAGMENTS} fragments: lancekit, join, times as fast, times less read")
    with tempfile.TemporaryDirectory(prefix="lancekit-diffs-") as folder:
        for found in measure(rows, Path(folder)):
            (ours, theirs), (less, more) = found.seconds, found.bytes
            print(
                f"{found.case:30} {ours * 1e3:8.0f} ms {theirs * 1e3:8.0f} ms {theirs / ours:6.1f}"
                f"   {less / 1e6:8.1f} MB {more / 1e6:8.1f} MB {more / max(less, 1):6.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
