"""A forked process that is measured copies no pages of its parent's while it is."""

from __future__ import annotations

import json
import os
import resource
import sys

import pytest

from benchmarks.memory import own_memory

PAGES = 2000


def _faults(data: bytearray, *, own: bool) -> int:
    """Return how often a fork that writes to each page has to wait for one."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        if own:
            own_memory()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for page in range(PAGES):
            data[page * 4096] = 2
        after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        os.write(write, json.dumps(after - before).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answers:
        found: int = json.loads(answers.read())
    os.waitpid(child, 0)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_what_a_fork_shares_is_its_own_before_it_is_measured() -> None:
    data = bytearray(b"\1" * PAGES * 4096)
    if _faults(data, own=False) < PAGES // 2:
        pytest.skip("pages here are larger")
    assert _faults(data, own=True) < PAGES // 10
