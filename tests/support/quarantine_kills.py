"""Merges with a quarantine and rows that are put back, by two processes that are killed.

A program of its own, which does not load the reference: that is not safe to fork.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import sys
import time
import traceback
import uuid
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import lancekit as lk
from lancekit.errors import IncompatibleConflictError, InvalidArgumentError
from tests.support.faults import Call, Faults, injected

__all__ = ["merge", "prepare", "put_back", "work"]

ONE, TWO = (str(uuid.UUID(int=number)) for number in (1, 2))
#: what the shards hold: rows of -1.0 break the constraint, and are corrected to 5.0
GENERATIONS = ((ONE, [10, 11, 12], [1.0, -1.0, 2.0]), (ONE, [11, 13], [3.0, -1.0]))
GENERATIONS += ((TWO, [20, 21], [4.0, -1.0]),)

#: two processes share the work, so that neither makes all of the calls
_SHARE = 0.7
_GOLDEN = 0.618


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
    """Correct the newest row of an id and put it back, as long as there is one.

    Rows of other ids stay each time.
    """
    while (held := lk.dataset(str(path)).mem_wal_quarantine().to_table()).num_rows:
        newest = held.filter(pc.equal(held["id"], held["id"][0])).sort_by("_quarantine_row")[-1:]
        row = newest.set_column(1, "v", pa.array([5.0]))
        # another process was first: after this reading, or after that reading
        with contextlib.suppress(InvalidArgumentError, IncompatibleConflictError):
            lk.dataset(str(path)).mem_wal_quarantine().put_back(row)


def work(path: Path) -> None:
    merge(path)
    put_back(path)
    lk.dataset(str(path)).cleanup_mem_wal(grace=timedelta(0))


def _forked(path: Path, at: int) -> int:
    """Do the work in a process that is killed at a call to the store; return its id.

    The process pauses at some calls, so that the other process comes in between.
    """
    child = os.fork()
    if child:
        return child
    pauses = random.Random(at)

    def kill(call: Call) -> None:
        if call.number == at:
            os.kill(os.getpid(), signal.SIGKILL)
        if pauses.random() < 0.1:
            time.sleep(pauses.uniform(0, 0.02))

    try:
        with injected(Faults(before=kill)):
            work(path)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def kill_many(folder: Path, key: str | None, rounds: int) -> None:
    """Leave a table in a folder for each round: two processes worked on it at once.

    The calls at which they are killed spread evenly over the work.  In each fourth round one is
    killed, and the other works to the end.
    """
    prepare(folder / "saved", key)
    shutil.copytree(folder / "saved", folder / "measured")
    with injected(Faults()) as record:  # and what is loaded late is there by then
        work(folder / "measured")
    calls = len(record.calls) * _SHARE
    for number in range(rounds):
        path = folder / f"round-{number}"
        shutil.copytree(folder / "saved", path)
        first = 1 + int((number + 0.5) / rounds * calls)
        second = 1 + int((0.5 + number * _GOLDEN) % 1 * calls) if number % 4 else 0
        for child in [_forked(path, at) for at in (first, second)]:
            _, status = os.waitpid(child, 0)
            killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            assert killed or status == 0, f"round {number}: a process ended with {status}"


if __name__ == "__main__":
    lk.options.fsync = False
    kill_many(Path(sys.argv[1]), sys.argv[2] or None, int(sys.argv[3]))
