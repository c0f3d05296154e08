"""One writer among several: random operations on one table, each logged before and after.

Run by the interpreter that has the library: it imports nothing but that and Arrow.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa

KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema([pa.field("k", pa.int64(), False, KEY), pa.field("v", pa.string())])
#: keys that every worker upserts and deletes; those that it appends are its own
SHARED = range(40)
OWN = 1_000_000


def rows(keys: list[int], value: str) -> pa.Table:
    return pa.table({"k": keys, "v": [value] * len(keys)}, schema=SCHEMA)


class Worker:
    """Random operations by one library.  Each method returns the keys that it may change."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.module = importlib.import_module(job["module"])
        self.uri, self.options = job["uri"], job["options"]
        self.who, self.log = job["who"], job["log"]
        self.rng = random.Random(job["seed"])
        self.own: list[int] = []
        self.operations = [
            (getattr(self, name), weight) for name, weight in job["operations"].items()
        ]
        self.open()

    def open(self) -> None:
        self.ds = self.module.dataset(self.uri, storage_options=self.options)

    def run(self, count: int) -> None:
        """Do so many operations; a handle is kept for some, so that it lags behind."""
        chosen, weights = zip(*self.operations, strict=True)
        descriptor = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def say(**entry: Any) -> None:
            # one write to the kernel: it stays when the process is killed
            os.write(descriptor, (json.dumps(entry) + "\n").encode())

        for number in range(count):
            name = f"{self.who}-{number}"
            if self.rng.random() < 0.6:
                self.open()
            (operation,) = self.rng.choices(chosen, weights)
            keys, work = operation(name)
            say(begin=name, kind=operation.__name__, keys=keys)
            try:
                version = work()
            except Exception as error:
                say(failed=name, error=type(error).__name__, text=str(error)[:300])
                self.open()
            else:
                say(done=name, version=version)

    # ---- operations: the keys, and the work that returns the version it made

    def append(self, name: str) -> tuple[list[int], Callable[[], int]]:
        start = OWN * self.who + len(self.own)
        keys = list(range(start, start + self.rng.randint(1, 3)))
        self.own += keys

        def work() -> int:
            table = rows(keys, name)
            return self.module.write_dataset(table, self.ds, mode="append").version

        return keys, work

    def upsert(self, name: str) -> tuple[list[int], Callable[[], int]]:
        keys = sorted(self.rng.sample(SHARED, self.rng.randint(1, 3)))

        def work() -> int:
            merge = self.ds.merge_insert("k").when_matched_update_all()
            merge = merge.when_not_matched_insert_all().conflict_retries(50)
            merge.execute(rows(keys, name))
            return self.ds.version

        return keys, work

    def delete(self, name: str) -> tuple[list[int], Callable[[], int]]:
        keys = self._some()

        def work() -> int:
            self.ds.delete(f"k IN ({', '.join(map(str, keys))})")
            return self.ds.version

        return keys, work

    def update(self, name: str) -> tuple[list[int], Callable[[], int]]:
        keys = self._some()

        def work() -> int:
            self.ds.update({"v": f"'{name}'"}, where=f"k IN ({', '.join(map(str, keys))})")
            return self.ds.version

        return keys, work

    def compact(self, name: str) -> tuple[list[int], Callable[[], int]]:
        def work() -> int:
            self.ds.optimize.compact_files(target_rows_per_fragment=20)
            return self.ds.version

        return [], work

    def configure(self, name: str) -> tuple[list[int], Callable[[], int]]:
        def work() -> int:
            self.ds.update_config({f"key{self.rng.randint(0, 3)}": name})
            return self.ds.version

        return [], work

    def tag(self, name: str) -> tuple[list[int], Callable[[], int]]:
        def work() -> int:
            self.ds.tags.create(f"t{name}", self.ds.version)
            return 0

        return [], work

    def _some(self) -> list[int]:
        own = self.rng.sample(self.own, min(2, len(self.own)))
        return sorted({*own, *self.rng.sample(SHARED, 2)})


if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    Worker(job).run(job["count"])
