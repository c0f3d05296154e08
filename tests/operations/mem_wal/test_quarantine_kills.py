"""Merges with a quarantine that fail, or are killed: a row is in one place, and there once."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit import errors
from tests.support.faults import MODES, Call, Crash, Faults, injected

ONE, TWO = (str(uuid.UUID(int=number)) for number in (1, 2))
#: what the shards hold: rows of -1.0 break the constraint, and are corrected to 5.0
GENERATIONS = ((ONE, [10, 11, 12], [1.0, -1.0, 2.0]), (ONE, [11, 13], [3.0, -1.0]))
GENERATIONS += ((TWO, [20, 21], [4.0, -1.0]),)


def prepare(path: Path, key: str | None) -> None:
    ds = lk.write_dataset({"id": [0], "v": [0.0]}, str(path), primary_key=[key] if key else [])
    ds.initialize_mem_wal()
    for shard, ids, values in GENERATIONS:
        with ds.mem_wal_writer(shard) as writer:
            writer.put({"id": ids, "v": values})
    ds.constraints.add("positive", "v >= 0")


def merge(path: Path) -> None:
    lk.dataset(str(path)).merge_mem_wal(on_error="quarantine", rows_per_commit=1)


def put_back(path: Path) -> None:
    """Correct the first row and put it back, as long as there is one: the others stay each time."""
    while len(quarantine := lk.dataset(str(path)).mem_wal_quarantine()):
        row = quarantine.to_table().slice(0, 1)
        quarantine.put_back(row.set_column(1, "v", pa.array([5.0])))


def work(path: Path) -> None:
    merge(path)
    put_back(path)
    lk.dataset(str(path)).cleanup_mem_wal(grace=timedelta(0))


def rows(path: Path) -> Counter[tuple[int, float]]:
    """Return how often each row is in the table, as pylance reads it."""
    table = lance.dataset(str(path)).to_table()
    return Counter(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


EXPECTED = {
    "id": {(0, 0.0), (10, 1.0), (12, 2.0), (11, 5.0), (13, 5.0), (20, 4.0), (21, 5.0)},
    None: {(0, 0.0), (10, 1.0), (12, 2.0), (11, 5.0), (11, 3.0), (13, 5.0), (20, 4.0), (21, 5.0)},
}


def check_once(path: Path) -> None:
    """No row is in the table and in the quarantine, and none is there twice."""
    seen = rows(path)
    assert set(seen.values()) == {1}
    held = lk.dataset(str(path)).mem_wal_quarantine().to_table().to_pylist()
    kept = Counter((row["id"], row["_quarantine_generation"]) for row in held)
    assert set(kept.values()) <= {1}
    assert not any((row["id"], 5.0) in seen for row in held if row["v"] == -1.0)


@pytest.mark.torture
@pytest.mark.parametrize("key", ["id", None])
def test_at_every_storage_call(tmp_path: Path, whole: bool, key: str | None) -> None:
    saved, path = tmp_path / "saved", tmp_path / "t"
    prepare(saved, key)

    def attempt(faults: Faults) -> None:
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(saved, path)
        # one thread: the calls come in the same order each time
        with injected(faults), patch("os.sched_getaffinity", return_value={0}):
            work(path)

    with lk.options(fsync=False):
        record = Faults()
        attempt(record)
        assert rows(path) == dict.fromkeys(EXPECTED[key], 1)
        every = [Faults(c.number, mode) for c in record.calls for mode in MODES[c.kind]]
        assert len(every) > 100
        for faults in every if whole else every[key is None :: len(every) // 7]:
            with contextlib.suppress(Crash, errors.LancekitError, OSError):
                attempt(faults)
            check_once(path)
            work(path)
            assert rows(path) == dict.fromkeys(EXPECTED[key], 1), faults
            ds = lk.dataset(str(path))
            assert len(ds.mem_wal_quarantine()) == 0
            ds.cleanup_old_versions(timedelta(0), delete_unverified=True)
            for file in path.glob("_mem_wal/quarantine/**/*"):
                os.utime(file, (0, 0))
            ds.cleanup_mem_wal(grace=timedelta(0))
            assert not list(path.glob("_mem_wal/quarantine/*/*/*")), faults


@pytest.mark.parametrize("step", [merge, put_back])
def test_a_cleanup_leaves_tables_that_are_about_to_be_marked(
    tmp_path: Path, step: Callable[[Path], None]
) -> None:
    """Between the files and the commit no version knows the table, whatever the grace."""
    path = tmp_path / "t"
    prepare(path, "id")
    if step is put_back:
        merge(path)
    other = lk.dataset(str(path))

    def clean(call: Call) -> None:
        if call.kind == "put_if_absent" and call.name.startswith("_versions/"):
            other.cleanup_mem_wal(grace=timedelta(0))

    with injected(Faults(before=clean)):
        step(path)
    check_once(path)
    put_back(path)
    assert rows(path) == dict.fromkeys(EXPECTED["id"], 1)


PROGRAM = """
import sys
from pathlib import Path
from tests.operations.mem_wal.test_quarantine_kills import work
work(Path(sys.argv[2]))  # what is loaded late is there by then
print("ready", flush=True)
sys.stdin.readline()
work(Path(sys.argv[1]))
"""


@pytest.mark.torture
def test_processes_that_are_killed(tmp_path: Path, whole: bool) -> None:
    """Two processes do the same work, and are killed at random times."""
    saved, path = tmp_path / "saved", tmp_path / "t"
    prepare(saved, None)
    chance = random.Random(5)
    for _ in range(200 if whole else 2):
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(saved, path)
        copies = [tmp_path / name for name in ("one", "two")]
        for warm in copies:
            shutil.rmtree(warm, ignore_errors=True)
            shutil.copytree(saved, warm)
        started = [
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(path), str(warm)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            for warm in copies
        ]
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
        for process in started:
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
        for process in started:
            time.sleep(chance.uniform(0, 0.4))
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
        check_once(path)
        work(path)
        assert rows(path) == dict.fromkeys(EXPECTED[None], 1)
