"""Writers of one shard that are killed at random times, one after the other.

A program of its own, which does not load the reference: that is not safe to fork.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lancekit as lk
from lancekit._api.lance_dataset import LanceDataset
from lancekit.errors import LancekitError
from tests.support.shard_state import newest_rows

#: threads of a writer, each with keys of its own
THREADS = 3
KEYS = 12

State = dict[int, str | None]


def work(uri: str, shard: str, log: int, seed: int, settings: dict[str, Any]) -> None:
    """Put and delete until killed, saying before and after what is done."""

    def say(*what: Any) -> None:
        # one write to the kernel: it stays when the process is killed
        os.write(log, (json.dumps(what) + "\n").encode())

    writer = LanceDataset(uri).mem_wal_writer(shard, **settings)

    def run(thread: int) -> None:
        rng = random.Random(seed * THREADS + thread)
        own = range(thread * KEYS, (thread + 1) * KEYS)
        for number in range(10**6):
            keys = rng.sample(own, rng.randint(1, 4))
            value = None if rng.random() < 0.3 else f"{seed}.{thread}.{number}"
            say("begin", thread, keys, value)
            if value is None:
                writer.delete({"id": keys})
            else:
                writer.put({"id": keys, "v": [value] * len(keys)})
            say("done", thread)

    threads = [threading.Thread(target=run, args=(thread,)) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def keep_up(uri: str) -> None:
    """Read, merge and collect until killed."""
    while True:
        keys = LanceDataset(uri).to_table(["id"], include_mem_wal=True)["id"].to_pylist()
        assert len(set(keys)) == len(keys), "a key is read twice"
        LanceDataset(uri).merge_mem_wal()
        LanceDataset(uri).cleanup_mem_wal(grace=timedelta(0))


def forked(work_: Callable[[], None]) -> int:
    """Do something in a process of its own, which does not end by itself; return its id."""
    child = os.fork()
    if child == 0:
        try:
            work_()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return child


def killed(child: int, who: str) -> None:
    """Kill a process that is still at work."""
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"the {who} ended by itself"


def kill_one(job: dict[str, Any], seed: int, rng: random.Random) -> list[list[Any]]:
    """Let a writer work for a while, kill it wherever it is; return what it said.

    Beside it another process reads, merges and collects, which is killed as well.
    """
    log = Path(job["log"])
    log.write_bytes(b"")
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    writer = forked(lambda: work(job["uri"], job["shard"], descriptor, seed, job["settings"]))
    os.close(descriptor)
    other = forked(lambda: keep_up(job["uri"]))
    # some while they take the shard; the others once they write
    until, writing = time.monotonic() + 20, rng.random() < 0.8
    while writing and b"done" not in log.read_bytes() and time.monotonic() < until:
        time.sleep(0.001)
    time.sleep(rng.uniform(0, 0.15))
    killed(writer, "writer")
    time.sleep(rng.uniform(0, 0.05))
    killed(other, "merger")
    return [json.loads(line) for line in log.read_text().splitlines()]


def expected(state: State, said: list[list[Any]]) -> tuple[State, dict[int, str | None]]:
    """Return what is there for certain, and what may have come in over it."""
    open_: dict[int, tuple[list[int], str | None]] = {}
    for kind, thread, *what in said:
        if kind == "begin":
            open_[thread] = (what[0], what[1])
        else:
            keys, value = open_.pop(thread)
            state.update(dict.fromkeys(keys, value))
    return state, {key: value for keys, value in open_.values() for key in keys}


def check(job: dict[str, Any], state: State, maybe: dict[int, str | None]) -> State:
    """Compare with what is there; return that, from which the next writer goes on."""
    rows = newest_rows(job["uri"])
    found = {key: rows[key]["v"] if key in rows else None for key in range(THREADS * KEYS)}
    for key, value in found.items():
        allowed = [state.get(key)] + ([maybe[key]] if key in maybe else [])
        assert value in allowed, f"key {key} is {value}, not one of {allowed}"
    return found


def kill_many(job: dict[str, Any], first: int, count: int) -> int:
    """Kill so many writers, and look at each time what is there; return how often rows were put."""
    rng, done = random.Random(first), 0
    state = {int(key): value for key, value in job["state"].items()}
    try:
        lk.options.fsync = job["fsync"]
        # what all load is loaded once
        with LanceDataset(job["uri"]).mem_wal_writer(job["shard"]) as writer:
            writer.delete({"id": [-1]})
        LanceDataset(job["uri"]).merge_mem_wal()
        for seed in range(first, first + count):
            said = kill_one(job, seed, rng)
            done += sum(kind == "done" for kind, *_ in said)
            state = check(job, *expected(state, said))
    except LancekitError as error:
        raise AssertionError(f"after {done} puts: {error}") from error
    print(json.dumps({"done": done, "state": state}))
    return done


if __name__ == "__main__":
    kill_many(json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
