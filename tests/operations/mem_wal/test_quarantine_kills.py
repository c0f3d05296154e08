"""Merges with a quarantine that fail, or are killed: a row is in one place, and there once."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import lance
import pytest

import lancekit as lk
from lancekit import errors
from tests.support.faults import MODES, Call, Crash, Faults, attempt_on_copy, injected
from tests.support.quarantine_kills import merge, prepare, put_back, work


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
        attempt_on_copy(work, saved, path, faults)

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


@pytest.mark.torture
@pytest.mark.parametrize("key", ["id", None])
def test_two_processes_that_are_killed(tmp_path: Path, whole: bool, key: str | None) -> None:
    rounds = 200 if whole else 4
    program = [sys.executable, "-m", "tests.support.quarantine_kills"]
    done = subprocess.run(
        [*program, str(tmp_path), key or "", str(rounds)],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for number in range(rounds):
        path = tmp_path / f"round-{number}"
        check_once(path)
        work(path)
        found, expected = rows(path), dict.fromkeys(EXPECTED[key], 1)
        if key and found[11, 3.0]:  # the newer row of the key came after the corrected row
            found[11, 5.0] = found.pop((11, 3.0))
        assert found == expected, number
