"""A forked process that is measured copies no pages of its parent's while it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = 2000
#: in a process of its own, as there is much in that of the tests
PROGRAM = f"""
import json, os, resource
from benchmarks.memory import own_memory

PAGES = {PAGES}


def faults(data, own):
    # how often a fork that writes to each page has to wait for one
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
        found = json.loads(answers.read())
    os.waitpid(child, 0)
    return found


data = bytearray(b"\\1" * PAGES * 4096)
print(json.dumps([faults(data, own) for own in (False, True)]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_what_a_fork_shares_is_its_own_before_it_is_measured() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=root, capture_output=True, check=True
    )
    shared, own = json.loads(done.stdout)
    if shared < PAGES // 2:
        pytest.skip("pages here are larger")
    assert own < PAGES // 10
