"""``python -m benchmarks [word ...]``: run all measurements, or those whose names hold a word."""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import lancekit as lk
from benchmarks.commits import commit_measurements
from benchmarks.operations import customers
from benchmarks.timing import Comparison, compare

ROWS = 1_000_000


def keyed(table: pa.Table) -> pa.Table:
    """Mark the id as primary key, as the reference wants it."""
    key = table.schema.field("id").with_nullable(False)
    key = key.with_metadata({"lance-schema:unenforced-primary-key": "true"})
    return table.cast(table.schema.set(0, key))


class Bench:
    """The datasets that measurements share, below one temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = itertools.count()
        self.million = customers(range(ROWS))
        self.template = folder / "template"
        lance.write_dataset(keyed(self.million), self.template)
        self.versions = folder / "versions"
        lance.write_dataset(customers(range(100)), self.versions)
        for number in range(200):
            more = customers(range(number, number + 10))
            lance.write_dataset(more, self.versions, mode="append")

    def fresh(self, _side: str) -> Path:
        """Return a path at which nothing is."""
        return self.folder / f"new-{next(self.count)}"

    def copy(self, _side: str) -> Path:
        """Return a copy of the dataset of a million rows."""
        target = self.folder / f"copy-{next(self.count)}"
        shutil.copytree(self.template, target)
        return target

    def measurements(self) -> Iterator[tuple[str, Callable[[], Comparison]]]:
        """Yield each measurement's name and how to run it."""
        million, small = self.million, customers(range(ROWS, ROWS + 10_000))
        merge = keyed(customers(range(ROWS - 500, ROWS + 500)))
        frame = merge.to_pandas()
        template, versions = str(self.template), str(self.versions)

        def pair(name: str, run: Callable[[Any, Any], Any], **kwargs: Any) -> Any:
            return name, lambda: compare(
                name, lambda at: run(lk, at), lambda at: run(lance, at), **kwargs
            )

        def merged(module: Any, at: Path) -> Any:
            builder = module.dataset(at).merge_insert("id")
            builder.when_matched_update_all().when_not_matched_insert_all().execute(
                pa.Table.from_pandas(frame, schema=merge.schema) if module is lance else frame
            )

        fresh, copy = {"setup": self.fresh, "runs": 5}, {"setup": self.copy, "runs": 5}
        yield pair("create, 1M rows", lambda m, at: m.write_dataset(million, at), **fresh)
        yield pair("create, 10k rows", lambda m, at: m.write_dataset(small, at), **fresh)
        yield pair(
            "append 10k rows to 1M",
            lambda m, at: m.write_dataset(keyed(small), at, mode="append"),
            **copy,
        )
        yield pair("open latest", lambda m, _: m.dataset(template))
        yield pair("open latest of 201 versions", lambda m, _: m.dataset(versions))
        yield pair("open version 100 of 201", lambda m, _: m.dataset(versions, version=100))
        yield pair("list 201 versions, read", lambda m, _: list(m.dataset(versions).versions()))
        yield pair("merge 1,000 pandas rows into 1M", merged, **copy)
        yield pair("delete 1 % of 1M", lambda m, at: m.dataset(at).delete("code < 5"), **copy)
        ours, theirs = lk.dataset(template), lance.dataset(template)
        handles = {"ours": ours, "theirs": theirs}
        read = {"setup": handles.__getitem__}
        yield pair("scan all of 1M", lambda _, ds: ds.to_table(), **read)
        yield pair("scan one column", lambda _, ds: ds.to_table(columns=["amount"]), **read)
        yield pair(
            "filter, 0.2 % of 1M",
            lambda _, ds: ds.to_table(filter="code = 7 AND amount > 0.1"),
            **read,
        )
        positions = np.random.default_rng(5).integers(0, ROWS, 1000)
        yield pair("take 1,000 of 1M", lambda _, ds: ds.take(positions), **read)
        yield pair("head 10", lambda _, ds: ds.head(10), **read)
        yield pair("count with filter", lambda _, ds: ds.count_rows("code = 7"), **read)
        yield "card of 1,000 columns", self._wide_card
        yield (
            "history card of 201 versions",
            lambda: compare(
                "history card of 201 versions (vs. listing)",
                lambda _: lk.dataset(versions).versions()._repr_html_(),
                lambda _: lance.dataset(versions).versions(),
            ),
        )

        yield from commit_measurements(self.folder / "commits")

    def _wide_card(self) -> Comparison:
        wide = pa.table({f"column_{i}": pa.array([i]) for i in range(1000)})
        at = self.fresh("ours")
        ds = lk.write_dataset(wide, at)
        theirs = lance.dataset(at)
        return compare(
            "card of 1,000 columns (vs. schema text)",
            lambda _: ds._repr_html_(),
            lambda _: str(theirs.schema),
        )


def main(words: list[str]) -> None:
    """Print one line per measurement: ours, the reference's, the ratio."""
    print(f"{'':<44} {'lancekit':>12} {'pylance':>12} {'ratio':>9} {'cpu':>9}")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        for name, run in bench.measurements():
            if not words or any(word in name for word in words):
                print(run(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
