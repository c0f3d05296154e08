"""Several processes that commit to one table at the same time, against pylance.

``python -m benchmarks.writers`` prints, for each kind of commit, how long all of them took with
lancekit and with pylance, and how often a writer gave up.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

__all__ = ["main", "race"]

_MODULES = ("lancekit", "lance")


def _rows(first: int, count: int) -> pa.Table:
    ids = pa.array(range(first, first + count))
    return pa.table({"id": ids, "name": [f"customer-{i}" for i in range(first, first + count)]})


def _append(module: Any, path: str, writer: int, number: int) -> None:
    module.write_dataset(_rows(10_000 * (writer + 1) + 10 * number, 10), path, mode="append")


def _merge(module: Any, path: str, writer: int, number: int) -> None:
    """Change ten rows of the writer's own: the last of its changes is to be seen at the end."""
    merge = module.dataset(path).merge_insert("id").when_matched_update_all()
    merge.when_not_matched_insert_all().conflict_retries(100).execute(
        _rows(10_000 * (writer + 1) + 10 * number, 10)
    )


_KINDS = {"append 10 rows": _append, "merge 10 rows": _merge}


def _work(module_name: str, kind: str, path: str, writer: int, commits: int, fsync: bool) -> None:
    """Do one writer's part; a line on standard input is the signal to begin."""
    import lance

    import lancekit

    lancekit.options.fsync = fsync
    module = {"lancekit": lancekit, "lance": lance}[module_name]
    module.dataset(path).count_rows()
    _KINDS[kind](module, path, writer, 0)
    print("ready", flush=True)
    sys.stdin.readline()
    failed = 0
    for number in range(1, commits + 1):
        try:
            _KINDS[kind](module, path, writer, number)
        except Exception:
            failed += 1
    print(failed, flush=True)


def race(
    module: str, kind: str, folder: Path, *, writers: int = 4, commits: int = 25, fsync: bool = True
) -> tuple[float, int]:
    """Return how many seconds all commits took, and how many of them failed."""
    import lance

    path = str(folder / f"{module}-{kind}-{fsync}".replace(" ", "-"))
    lance.write_dataset(_rows(0, 1000), path, data_storage_version="2.1")
    running = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "benchmarks.writers"),
                json.dumps([module, kind, path, writer, commits, fsync]),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for writer in range(writers)
    ]
    for one in running:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    began = time.perf_counter()
    for one in running:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    failed = sum(int(one.communicate()[0]) for one in running)
    seconds = time.perf_counter() - began
    found = lance.dataset(path).count_rows()
    expected = 1000 + 10 * (writers * (commits + 1) - failed)
    if found != expected:
        raise AssertionError(f"{module}, {kind}: {found} rows, not {expected}")
    return seconds, failed


def main(words: list[str]) -> None:
    """Print one line per kind: seconds of lancekit and of pylance, the ratio, who gave up."""
    print(f"{'4 writers, 25 commits each':<32} {'lancekit':>10} {'pylance':>10} {'ratio':>8}")
    for kind in _KINDS:
        if words and not any(word in kind for word in words):
            continue
        for fsync in (True, False):
            with tempfile.TemporaryDirectory() as folder:
                (ours, lost), (theirs, theirs_lost) = (
                    race(module, kind, Path(folder), fsync=fsync) for module in _MODULES
                )
            name = kind + ("" if fsync else ", fsync off")
            failed = f"  failed: {lost}, {theirs_lost}" if lost or theirs_lost else ""
            print(
                f"{name:<32} {ours:>8.2f} s {theirs:>8.2f} s {ours / theirs:>6.2f} x{failed}",
                flush=True,
            )


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("["):
        _work(*json.loads(sys.argv[1]))
    else:
        main(sys.argv[1:])
