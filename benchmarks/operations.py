"""``python -m benchmarks.operations [word ...]``: what changes rows, columns and files.

Words choose the measurements whose names hold one; a word that begins with ``-`` leaves some out,
such as ``-spark``.  Both sides get the same data and start from the same dataset, which pylance
wrote; nothing is synced to the disk, because pylance does not.  Below 1 lancekit is faster.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pandas as pd
import pyarrow as pa

import lancekit as lk
from benchmarks.cases import upsert
from benchmarks.markdown import ms, ratios, table
from benchmarks.plan import Plan
from benchmarks.timing import Comparison, compare

__all__ = ["Tables", "chosen", "customers", "document", "filters", "measure", "measurements"]

MILLION = 1_000_000
SMALL_FRAGMENT = 10_000

#: source rows of a merge
MERGES = (10, 1_000, 100_000)

Measurement = tuple[str, Callable[[], Comparison]]


def customers(ids: Any, *, text_key: bool = False) -> pa.Table:
    """Return the rows of some ids."""
    ids = np.asarray(ids, np.int64)
    rng = np.random.default_rng(len(ids))
    keys: Any = np.char.add("customer-", ids.astype("U")) if text_key else ids
    return pa.table(
        {
            "id": pa.array(keys),
            "number": ids,
            "amount": rng.random(len(ids)),
            "code": pa.array(rng.integers(0, 500, len(ids)), pa.int32()),
            "name": pa.array(np.char.add("name-", (ids % 5000).astype("U"))),
            "at": pa.array(ids * 1_000_000, pa.timestamp("us")),
        }
    )


def filters(rows: int) -> dict[str, str]:
    """Return filters over so many rows, by what they are."""
    names = ", ".join(f"'name-{number}'" for number in range(1000))
    return {
        "id <": f"id < {rows // 100}",
        "two compared": "amount > 0.5 AND code < 50",
        "remainder": "number % 100 = 0",
        "IN 3 numbers": "code IN (1, 7, 13)",
        "text =": "name = 'name-77'",
        "IN 1,000 texts": f"name IN ({names})",
        "LIKE 'x%'": "name LIKE 'name-1%'",
        "LIKE '%x%'": "name LIKE '%99%'",
        "date_part": "date_part('minute', at) = 30",
        "cast to text": "CAST(code AS string) = '77'",
        "IS NULL": "code IS NULL",
    }


class Tables:
    """The datasets, each made once; every run that changes one gets a copy of it."""

    def __init__(self, folder: Path, scale: float = 1.0) -> None:
        self._folder = folder
        self._scale = scale
        self._copies = itertools.count()
        self.template = cache(self._template)

    def rows(self, rows: int) -> int:
        """Return how many rows there are in place of so many."""
        return max(int(rows * self._scale), 100)

    def _template(self, kind: str, rows: int) -> Path:
        path = self._folder / f"{kind}-{rows}"
        step = self.rows(SMALL_FRAGMENT if kind in {"small", "deleted"} else MILLION)
        total = self.rows(rows)
        for first in range(0, total, step):
            ids = np.arange(first, min(first + step, total))
            data = customers(ids, text_key=kind == "text")
            lance.write_dataset(data, path, mode="append" if first else "create")
        if kind == "deleted":
            lance.dataset(path).delete("number % 5 = 0")
        return path

    def copy(self, kind: str, rows: int, _side: str) -> Path:
        """Return a dataset to change: the files are shared, because none is written twice."""
        target = self._folder / f"copy-{next(self._copies)}"
        shutil.copytree(self.template(kind, rows), target, copy_function=os.link)
        return target


def _merge(frames: dict[Any, Any], module: Any, at: Path) -> None:
    upsert(module.dataset(at), frames[module])


def _merge_column(frames: dict[Any, Any], module: Any, at: Path) -> None:
    """Update one column of the rows that match; pylance finds by itself how to write that."""
    builder = module.dataset(at).merge_insert("id").when_matched_update_all()
    if module is lk:
        builder = builder.write_mode("rewrite_columns")
    builder.execute(frames[module])


def _replace(module: Any, at: Path) -> None:
    """Compute a column anew in all rows; pylance has nothing but an update of them."""
    ds, values = module.dataset(at), {"amount": "amount + 1"}
    if module is lk:
        ds.replace_columns(values)
    else:
        ds.update(values)


def _count(filter_: str, module: Any, at: Path) -> int:
    counted: int = module.dataset(at).count_rows(filter_)
    return counted


def _ids(filter_: str, module: Any, at: Path) -> pa.Table:
    return module.dataset(at).to_table(columns=["id"], filter=filter_)


def _update(where: str, module: Any, at: Path) -> None:
    module.dataset(at).update({"amount": "amount + 1"}, where=where)


def _delete(where: str, module: Any, at: Path) -> None:
    module.dataset(at).delete(where)


def _compact(module: Any, at: Path) -> None:
    module.dataset(at).optimize.compact_files()


def _add(what: Callable[[Any], Any], module: Any, at: Path) -> None:
    module.dataset(at).add_columns(what(module))


def _cast(column: str, kind: pa.DataType, module: Any, at: Path) -> None:
    module.dataset(at).alter_columns({"path": column, "data_type": kind})


def _twice(module: Any) -> Any:
    @module.batch_udf(output_schema=pa.schema({"twice": pa.float64()}))
    def twice(batch: pa.RecordBatch) -> pd.DataFrame:
        return pd.DataFrame({"twice": batch.column("amount").to_numpy() * 2})

    return twice


def _source(tables: Tables, rows: int, count: int, matched: float, text_key: bool) -> pd.DataFrame:
    """Return a frame of so many rows, in no order; a share of them is in the table."""
    total = tables.rows(rows)
    old = np.linspace(0, total - 1, round(count * matched), dtype=np.int64)
    new = np.arange(total, total + count - len(old))
    ids = np.random.default_rng(1).permutation(np.concatenate([old, new]))
    return customers(ids, text_key=text_key).to_pandas()


def measurements(tables: Tables) -> Iterator[Measurement]:
    """Yield each measurement's name and how to run it."""

    def pair(
        name: str, run: Callable[[Any, Any], Any], kind: str, rows: int, *, reads: bool = False
    ) -> Measurement:
        def measure() -> Comparison:
            if reads:
                path = tables.template(kind, rows)
                setup: Callable[[str], Any] = dict.fromkeys(("ours", "theirs"), path).__getitem__
            else:
                setup = partial(tables.copy, kind, rows)
            with lk.options(fsync=False):
                return compare(
                    name, partial(run, lk), partial(run, lance), setup=setup, runs=5, warmup=1
                )

        return name, measure

    def merged(kind: str, rows: int, count: int, matched: float, name: str) -> Measurement:
        def run(module: Any, at: Path) -> None:
            _merge({lk: frame(), lance: table()}, module, at)

        text_key = kind == "text"
        frame = cache(lambda: _source(tables, rows, tables.rows(count), matched, text_key))
        schema = customers([], text_key=text_key).schema
        # pylance takes a frame's texts for large ones
        table = cache(lambda: pa.Table.from_pandas(frame(), schema=schema, preserve_index=False))
        return pair(name, run, kind, rows)

    for rows, shown in ((MILLION, "1M"), (10 * MILLION, "10M")):
        for count in MERGES:
            yield merged("plain", rows, count, 0.5, f"merge {count:,} rows into {shown}")
        yield merged("plain", rows, 1000, 1.0, f"merge 1,000 rows into {shown}, all matched")
    for count in MERGES:
        yield merged("text", MILLION, count, 0.5, f"merge {count:,} rows into 1M, text key")
    for rows, shown in ((MILLION, "1M"), (10 * MILLION, "10M")):
        first = tables.rows(rows) // 2
        range_ = f"number >= {first} AND number < {first + tables.rows(rows) // 100}"
        scattered = "number % 100 = 0"
        for verb, work in (("update", _update), ("delete", _delete)):
            yield pair(f"{verb} 1 % of {shown}, a range", partial(work, range_), "plain", rows)
            yield pair(f"{verb} 1 % of {shown}, all over", partial(work, scattered), "plain", rows)
    yield from _of_filters(pair, tables)
    some_columns = cache(lambda: _source(tables, MILLION, tables.rows(100_000), 1.0, False))
    two = cache(
        lambda: pa.table(
            {name: pa.array(some_columns()[name].to_numpy()) for name in ("id", "amount")}
        )
    )
    yield pair(
        "merge one column of 100,000 rows into 1M",
        lambda m, at: _merge_column({lk: two(), lance: two()}, m, at),
        "plain",
        MILLION,
    )
    yield pair("replace a column of 1M", _replace, "plain", MILLION)
    yield pair("compact 100 fragments", _compact, "small", MILLION)
    yield pair("compact 100 fragments, a fifth deleted", _compact, "deleted", MILLION)
    for name, what in (
        ("SQL", lambda _: {"twice": "amount * 2"}),
        ("all null", lambda _: pa.field("none", pa.float64())),
        ("batch function", _twice),
    ):
        yield pair(f"add a column to 1M, {name}", partial(_add, what), "plain", MILLION)
    yield pair("cast int32 to int64, 1M", partial(_cast, "code", pa.int64()), "plain", MILLION)
    wide = pa.large_string()
    yield pair("cast string to large, 1M", partial(_cast, "name", wide), "plain", MILLION)
    total = tables.rows(MILLION)
    some = np.random.default_rng(5).permutation(total)[:100]
    many = np.random.default_rng(6).integers(0, total, 10_000)
    for kind, where in (("plain", "1M"), ("small", "1M in 100 fragments")):
        for name, read in (
            ("take 100 of", lambda m, at: m.dataset(at).take(some)),
            ("take 10,000 of", lambda m, at: m.dataset(at).take(many)),
            ("filter, 1 %, of", lambda m, at: m.dataset(at).to_table(filter="code < 5")),
            ("scan", lambda m, at: m.dataset(at).to_table()),
        ):
            yield pair(f"{name} {where}", read, kind, MILLION, reads=True)


def _of_filters(pair: Callable[..., Measurement], tables: Tables) -> Iterator[Measurement]:
    rows = 3 * MILLION
    for name, filter_ in filters(tables.rows(rows)).items():
        for verb, work in (("count", _count), ("filter", _ids)):
            yield pair(f"{verb} 3M, {name}", partial(work, filter_), "plain", rows, reads=True)


def chosen(words: list[str], found: Iterator[Measurement]) -> Iterator[Measurement]:
    """Yield the measurements that some words choose."""
    unwanted = [word[1:] for word in words if word.startswith("-")]
    wanted = [word for word in words if not word.startswith("-")]
    for name, run in found:
        if any(word in name for word in unwanted):
            continue
        if not wanted or any(word in name for word in wanted):
            yield name, run


def measure(plan: Plan) -> dict[str, Any]:
    """Return what each measurement on the page of performance took, by its name."""
    lk.warm_up(spark=False)
    with tempfile.TemporaryDirectory() as folder:
        tables = Tables(Path(folder), 0.0001 if plan.quick else 1.0)
        return {name: asdict(run()) for name, run in measurements(tables) if plan.wants(name)}


def document(found: dict[str, Any]) -> dict[str, str]:
    """Return a table of ratios to pylance's time."""
    rows = [
        [
            name,
            *ratios([taken["ratio"]], [1.0], [1.0]),
            f"{taken['cpu']:.2f}",
            ms([taken["ours"] * 1e3]),
            ms([taken["theirs"] * 1e3]),
        ]
        for name, taken in found.items()
    ]
    return {"operations": table(["", "ratio", "CPU", "lancekit, ms", "pylance, ms"], rows)}


def main(words: list[str]) -> None:
    """Print one line per measurement: ours, the reference's, the ratios."""
    from benchmarks.spark_jobs import spark_measurements

    print(f"{'':<44} {'lancekit':>12} {'pylance':>12} {'ratio':>9} {'cpu':>9}")
    with tempfile.TemporaryDirectory() as folder:
        tables = Tables(Path(folder))
        found = itertools.chain(measurements(tables), spark_measurements(tables))
        for _, run in chosen(words, found):
            print(run(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
