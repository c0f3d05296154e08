"""Spark reading, merging and summing up a dataset, against the same with Parquet files, by hand."""

from __future__ import annotations

import math
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow.parquet as pq

import lancekit as lk
from benchmarks.markdown import ms, ratios, table
from benchmarks.plan import Plan
from benchmarks.rows import rows
from benchmarks.timing import Comparison, compare

if TYPE_CHECKING:
    from benchmarks.operations import Tables

__all__ = ["document", "measure", "spark_measurements"]

ROWS = 10_000_000
MERGED = 100_000


@cache
def _session() -> Any:
    warnings.simplefilter("ignore")
    return lk.spark_session(memory="4g")


class _Jobs:
    """The same rows as a Lance dataset and as Parquet files, a file for each fragment."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._parquet = cache(self._make_parquet)
        self._merged = cache(self._make_merged)

    def _make_parquet(self) -> str:
        at = self._tables.copy("plain", ROWS, "parquet").with_suffix(".parquet")
        at.mkdir()
        for fragment in lance.dataset(self._tables.template("plain", ROWS)).get_fragments():
            pq.write_table(fragment.to_table(), at / f"{fragment.fragment_id}.parquet")
        return str(at)

    def _make_merged(self) -> str:
        from benchmarks.operations import customers

        total, count = self._tables.rows(ROWS), self._tables.rows(MERGED)
        old = np.linspace(0, total - 1, count // 2, dtype=np.int64)
        ids = np.concatenate([old, np.arange(total, total + count - len(old))])
        at = self._tables.copy("plain", ROWS, "merged").with_suffix(".parquet")
        pq.write_table(customers(np.random.default_rng(1).permutation(ids)), at)
        return str(at)

    def frame(self, side: str) -> Any:
        """Return all rows, from either format."""
        if side == "ours":
            return lk.dataset(self._tables.template("plain", ROWS)).to_spark
        return partial(_parquet_frame, self._parquet())

    def prepare_merge(self, side: str) -> tuple[Any, Any]:
        """Return where the old rows are, and the frame of the new."""
        source = _session().read.parquet(self._merged())
        if side == "ours":
            return self._tables.copy("plain", ROWS, side), source
        return self._parquet(), source

    def rewrite(self, prepared: tuple[Any, Any]) -> None:
        """Do by hand what a merge does: all that stays and all that is new, written again."""
        at, source = prepared
        kept = _session().read.parquet(at).join(source, "id", "left_anti")
        out = self._tables.copy("plain", ROWS, "rewritten").with_suffix(".parquet")
        kept.unionByName(source).write.parquet(str(out))


def _parquet_frame(at: str, columns: list[str] | None = None, where: str | None = None) -> Any:
    frame = _session().read.parquet(at)
    frame = frame if where is None else frame.where(where)
    return frame if columns is None else frame.select(columns)


def _consume(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _merge(prepared: tuple[Any, Any]) -> None:
    at, source = prepared
    builder = lk.dataset(at).merge_insert("id")
    builder.when_matched_update_all().when_not_matched_insert_all().execute(source)


def spark_measurements(tables: Tables) -> Iterator[tuple[str, Callable[[], Comparison]]]:
    """Yield each measurement's name and how to run it; the reference is Spark with Parquet."""
    jobs = _Jobs(tables)

    def pair(
        name: str,
        ours: Callable[[Any], Any],
        theirs: Callable[[Any], Any],
        setup: Callable[[str], Any],
    ) -> tuple[str, Callable[[], Comparison]]:
        def measure() -> Comparison:
            _session()
            with lk.options(fsync=False):
                found = compare(name, ours, theirs, setup=setup, runs=3, warmup=1)
            return replace(found, cpu=math.nan)  # the work is not in this process

        return name, measure

    for what, columns, where in (
        ("all of 10M", None, None),
        ("one column of 10M", ["amount"], None),
        ("1 % of 10M", None, "code < 5"),
    ):
        yield pair(
            f"spark: scan {what}, vs. Parquet",
            lambda read, c=columns, w=where: _consume(read(columns=c, filter=w)),
            lambda read, c=columns, w=where: _consume(read(c, w)),
            jobs.frame,
        )
    yield pair(
        "spark: merge 100,000 into 10M, vs. rewrite", _merge, jobs.rewrite, jobs.prepare_merge
    )


# ---- the page


_MEAN = "avg(amount) AS mean"
#: how an aggregate is asked for, and what it may take of the time with Parquet
_WAYS: dict[str, tuple[Callable[[Path], Any], float]] = {
    "Parquet": (lambda at: _means(_session().read.parquet(str(at / "parquet"))), 1.0),
    "to_spark(columns=)": (
        lambda at: _means(lk.dataset(at / "lance").to_spark(columns=["code", "amount"])),
        1.5,
    ),
    "ds.sql(...).build().to_spark()": (
        lambda at: (
            lk.dataset(at / "lance")
            .sql(f"SELECT code, {_MEAN} FROM dataset GROUP BY code")
            .build()
            .to_spark()
        ),
        2.0,
    ),
    'format("lance")': (
        lambda at: _means(_session().read.format("lance").load(str(at / "lance"))),
        math.inf,
    ),
}


def _means(frame: Any) -> Any:
    return frame.groupBy("code").agg({"amount": "avg"})


def measure(plan: Plan) -> dict[str, list[float]]:
    """Return the milliseconds of each round, by how the aggregate is asked for."""
    warmup, rounds, step = (0, 1, 2_000) if plan.quick else (1, 5, 500_000)
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        (at / "parquet").mkdir()
        for number in range(4):
            part = rows(range(number * step, (number + 1) * step))
            lk.write_dataset(part, at / "lance", mode="append" if number else "create")
            pq.write_table(part, at / f"parquet/{number}.parquet")
        for number in range(warmup + rounds):
            for way, (ask, _) in _WAYS.items():
                started = time.perf_counter()
                _consume(ask(at))
                if number >= warmup:
                    found.setdefault(way, []).append((time.perf_counter() - started) * 1e3)
    lk.stop_spark()
    return found


def document(found: dict[str, list[float]]) -> dict[str, str]:
    """Return a table of what each way takes of the time with Parquet."""
    medians = {way: statistics.median(taken) for way, taken in found.items()}
    lines = []
    for way, median in medians.items():
        goal = _WAYS[way][1]
        shown = "" if math.isinf(goal) else f"{goal:g}"
        lines.append(
            [f"`{way}`", shown, *ratios([median], [medians["Parquet"]], [goal]), ms([median])]
        )
    return {"spark": table(["", "goal", "ratio", "ms"], lines)}
