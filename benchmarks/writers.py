"""Several processes that commit to one table at the same time, against pylance.

``python -m benchmarks.writers`` prints, for each kind of commit, how many landed in a second
with lancekit and with pylance, and how often a writer gave up.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.markdown import table
from benchmarks.plan import Plan

__all__ = ["document", "measure", "race"]

_MODULES = ("lancekit", "lance")

#: by kind of commit and library: median seconds, commits in a second, how many failed
Found = dict[str, dict[str, dict[str, float]]]


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
    module = import_module(module_name)
    if module_name == "lancekit":
        module.options.fsync = fsync
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
    failed = 0
    for one in running:
        assert one.stdout is not None
        failed += int(one.stdout.readline())
    seconds = time.perf_counter() - began
    for one in running:  # what an interpreter takes to end is no part of a commit
        one.communicate()
    found = lance.dataset(path).count_rows()
    expected = 1000 + 10 * (writers * (commits + 1) - failed)
    if found != expected:
        raise AssertionError(f"{module}, {kind}: {found} rows, not {expected}")
    return seconds, failed


#: what of pylance's rate is wanted, with fsync (which pylance does not do) and without
_GOALS = {"fsync off": 1.0, "fsync on": 0.5}


def measure(plan: Plan) -> Found:
    """Let the writers race, with lancekit and pylance in turn."""
    writers, commits, rounds = (2, 2, 1) if plan.quick else (4, 25, 3)
    found: Found = {}
    for kind in _KINDS:
        for sync in _GOALS if plan.wants(kind) else ():
            taken: dict[str, list[tuple[float, int]]] = {}
            for _ in range(rounds):
                for module in _MODULES:
                    with tempfile.TemporaryDirectory() as folder:
                        done = race(
                            module,
                            kind,
                            Path(folder),
                            writers=writers,
                            commits=commits,
                            fsync=sync == "fsync on",
                        )
                    taken.setdefault(module, []).append(done)
            found[f"{kind}, {sync}"] = {
                module: {
                    "seconds": round(statistics.median(seconds for seconds, _ in runs), 3),
                    "rate": writers * commits / statistics.median(seconds for seconds, _ in runs),
                    "failed": sum(failed for _, failed in runs),
                }
                for module, runs in taken.items()
            }
    return found


def document(found: Found) -> dict[str, str]:
    """Return a table of commits in a second; what is behind its goal is bold."""
    lines = []
    for name, sides in found.items():
        goal = _GOALS[name.rpartition(", ")[2]]
        ours, theirs = (sides[module] for module in _MODULES)
        ratio = ours["rate"] / theirs["rate"]
        shown = f"**{ratio:.2f}**" if ratio < goal else f"{ratio:.2f}"
        rates = [f"{side['rate']:.0f}" for side in (ours, theirs)]
        failed = [f"{side['failed']:.0f}" for side in (ours, theirs)]
        lines.append([name, f"{goal:g}", shown, *rates, ", ".join(failed)])
    heading = ["", "goal", "ratio", "lancekit, commits/s", "pylance, commits/s", "failed"]
    return {"writers": table(heading, lines)}


def main() -> None:
    """Print the table."""
    print(document(measure(Plan()))["writers"])


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("["):
        _work(*json.loads(sys.argv[1]))
    else:
        main()
