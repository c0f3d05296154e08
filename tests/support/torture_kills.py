"""Writers that are killed at random times, one after the other, on one table.

A program of its own, which does not load the reference: that is not safe to fork.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import lancekit as lk
from tests.support.torture import rows_of
from tests.support.torture_worker import Worker


def kill_one(job: dict[str, Any], seconds: float) -> None:
    """Let a writer work for so long, and kill it wherever it is."""
    # forked, not started anew: half a second of imports each would leave few kills per minute
    child = os.fork()
    if child == 0:
        try:
            Worker(job | {"module": "lancekit"}).run(10**6)
        finally:
            os._exit(1)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the writer ended by itself"


def kill_many(job: dict[str, Any], first: int, count: int) -> None:
    """Kill so many writers; the table opens after each."""
    rng = random.Random(first)
    for number in range(first, first + count):
        log = str(Path(job["log"]) / f"{number}.log")
        Path(log).touch()
        kill_one(job | {"who": number, "seed": number, "log": log}, rng.uniform(0.01, 0.15))
        rows_of(lk.dataset(job["uri"]))


if __name__ == "__main__":
    kill_many(json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
