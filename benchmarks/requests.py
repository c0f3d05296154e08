"""What the libraries ask of an object store, counted from the log of a server on this machine."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import obstore

import lancekit as lk
from benchmarks.cases import upsert
from benchmarks.markdown import table
from benchmarks.plan import Plan
from benchmarks.rows import rows
from tests.support.s3 import S3Server, s3_server

__all__ = ["document", "measure"]

#: by case and library, the requests of each kind, of one call after the other
Found = dict[str, dict[str, list[dict[str, int]]]]

KINDS = ("GET", "HEAD", "PUT", "POST", "LIST", "DELETE")

Dataset = Any


@dataclass(frozen=True)
class Case:
    """What is done with new handles on which dataset, and how often in a row."""

    name: str
    run: Callable[[Callable[..., Dataset], int], object]
    dataset: str = "large"
    turns: int = 2


def _append(ds: Dataset) -> object:
    return ds.insert(rows(range(10**9, 10**9 + 100)), mode="append")


def _cases(count: int) -> list[Case]:
    """Return the cases for a dataset of so many rows."""
    some = list(range(0, count, max(count // 100, 1)))
    middle = count // 2
    return [
        Case("open", lambda ds, _: ds()),
        Case("open, 20 versions", lambda ds, _: ds(), "small"),
        Case("open version 10 of 20", lambda ds, _: ds(version=10), "small"),
        Case("list 20 versions", lambda ds, _: list(ds().versions()), "small"),
        Case("schema and number of rows", lambda ds, _: ds().count_rows()),
        Case("scan all", lambda ds, _: ds().to_table()),
        Case("scan one column", lambda ds, _: ds().to_table(columns=["amount"])),
        Case("scan of 20 small fragments", lambda ds, _: ds().to_table(), "small"),
        Case("filter, 0.1 % of rows", lambda ds, _: ds().to_table(filter="code = 7")),
        Case(
            "filter, 1,000 neighbours",
            lambda ds, _: ds().to_table(filter=f"id >= {middle} AND id < {middle + 1000}"),
        ),
        Case("count with a filter", lambda ds, _: ds().count_rows("code = 7")),
        Case("head of 10 rows", lambda ds, _: ds().head(10)),
        Case("take 1 row", lambda ds, _: ds().take([middle])),
        Case("take 100 rows, all over", lambda ds, _: ds().take(some)),
        Case("take 100 rows, one column", lambda ds, _: ds().take(some, columns=["amount"])),
        Case("append 100 rows", lambda ds, _: _append(ds())),
        Case("append 100 rows, 20 versions", lambda ds, _: _append(ds()), "small"),
        Case(
            "merge 100 rows",
            lambda ds, turn: upsert(ds(), rows(range(count - 50, count + 50), turn)),
        ),
        Case(
            "update 1 % of rows",
            lambda ds, turn: ds().update({"amount": "amount + 1"}, where=f"code % 100 = {turn}"),
        ),
        Case(
            "delete 1 % of rows",
            lambda ds, turn: ds().delete(f"code % 100 = {turn}"),
        ),
        Case("add a column", lambda ds, turn: ds().add_columns({f"a{turn}": "amount * 2"})),
        Case("compact 20 fragments", lambda ds, _: ds().optimize.compact_files(), "small", turns=1),
    ]


class _Bucket:
    """The datasets, made once on the disk by pylance, and copies of them in the bucket."""

    def __init__(self, server: S3Server, folder: Path, count: int) -> None:
        self._server = server
        self._folder = folder
        self._numbers = itertools.count()
        for number in range(4):
            mode = "append" if number else "create"
            part = rows(range(number * count // 4, (number + 1) * count // 4))
            lance.write_dataset(part, folder / "large", mode=mode)
        for number in range(20):
            mode = "append" if number else "create"
            lance.write_dataset(
                rows(range(number * 100, number * 100 + 100)), folder / "small", mode=mode
            )

    def copy(self, name: str) -> str:
        """Return the URI of a copy of its own."""
        prefix = f"{name}-{next(self._numbers)}"
        client = self._server.client(prefix)
        for path in sorted((self._folder / name).rglob("*")):
            if path.is_file():
                at = path.relative_to(self._folder / name).as_posix()
                obstore.put(client, at, path.read_bytes())
        return f"s3://{self._server.bucket}/{prefix}"


def _kind(method: str, path: str) -> str:
    return "LIST" if method == "GET" and "list-type=" in path else method


def _counted(case: Case, module: Any, bucket: _Bucket, server: S3Server) -> list[dict[str, int]]:
    """Return the requests of a first call, and of a second one on a new handle."""
    lk.clear_cache()
    uri, options = bucket.copy(case.dataset), server.storage_options
    counts = []
    for turn in range(case.turns):
        server.log.clear()
        case.run(
            lambda **version: module.dataset(uri, storage_options=options, **version),
            turn,
        )
        counts.append(dict(Counter(_kind(*asked) for asked in server.log)))
    return counts


def measure(plan: Plan) -> Found:
    """Count the requests of lancekit and of pylance."""
    count = 4_000 if plan.quick else 200_000
    with tempfile.TemporaryDirectory() as folder, s3_server("requests") as server:
        bucket = _Bucket(server, Path(folder), count)
        return {
            case.name: {
                side: _counted(case, module, bucket, server)
                for side, module in (("lancekit", lk), ("pylance", lance))
            }
            for case in _cases(count)
            if plan.wants(case.name)
        }


def _shown(counts: dict[str, int], limit: float = math.inf) -> str:
    parts = [f"{counts[kind]} {kind}" for kind in KINDS if counts.get(kind)]
    total = sum(counts.values())
    shown = f"**{total}**" if total > limit else str(total)
    return f"{shown} ({', '.join(parts)})"


def document(found: Found) -> dict[str, str]:
    """Return a table; what takes more requests than pylance is bold."""
    lines = []
    for name, sides in found.items():
        (reference, *_), (first, *again) = sides["pylance"], sides["lancekit"]
        limit = sum(reference.values())
        seconds = _shown(again[0], limit) if again else ""
        lines.append([name, _shown(first, limit), seconds, _shown(reference)])
    return {"requests": table(["", "lancekit", "again, on a new handle", "pylance"], lines)}
