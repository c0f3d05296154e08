"""Programs in processes of their own: a process has one Spark session at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.java import archived
from tests.support.patience import HANG_SECONDS, WHOLE_SECONDS
from tests.support.quick_spark import INTERPRETED

ROOT = Path(__file__).parents[2]

#: arguments of a session that is soon there, and works on few rows
QUICK = (
    f"memory='1g', config={{'spark.driver.extraJavaOptions': '-XX:TieredStopAtLevel=1'}} | "
    f"{INTERPRETED}"
)


def run(program: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its good end; what it printed is in the result."""
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
        env={**os.environ, **archived(), **environ},
    )
    assert done.returncode == 0, done.stderr
    return done


def run_spark_tests(names: Sequence[str], place: str, *, whole: bool, **environ: str) -> str:
    """Run tests of Spark again in a process of their own, at a place; return what pytest said."""
    options = ["-m", "spark and not classic", "-q", "-p", "no:cacheprovider", "--no-header"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *options,
            *names,
            *(["--whole", "--timeout=0"] if whole else []),
        ],
        cwd=ROOT,
        env={
            # A worker of a parallel run has told its environment what it is.
            **{name: v for name, v in os.environ.items() if not name.startswith("PYTEST_")},
            **archived(),
            "LANCEKIT_TEST_SPARK": place,
            # Workers start in a folder of the session's own.
            "PYTHONPATH": str(ROOT),
            **environ,
        },
        capture_output=True,
        text=True,
        timeout=WHOLE_SECONDS if whole else HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:]
    assert " passed" in done.stdout
    return done.stdout


SEVERAL = """
import contextlib, io, json, sys, traceback
answers = sys.stdout
for line in sys.stdin:
    program, arguments = json.loads(line)
    sys.argv, error = ["-c", *arguments], ""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        try:
            exec(program, {"__name__": "__main__"})
        except BaseException:
            error = traceback.format_exc()
    print(json.dumps([said.getvalue(), error]), file=answers, flush=True)
"""


@contextmanager
def several(**environ: str) -> Iterator[Callable[..., str]]:
    """Run programs one after the other in one process, which keeps the session that they share.

    What is called with a program and its arguments returns what it printed.
    """
    with subprocess.Popen(
        [sys.executable, "-W", "error::UserWarning", "-c", SEVERAL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **archived(), **environ},
    ) as process:

        def run_in_it(program: str, *arguments: str) -> str:
            print(json.dumps([program, arguments]), file=process.stdin, flush=True)
            said, error = json.loads(process.stdout.readline())
            assert not error, error
            return said

        yield run_in_it
        process.communicate("", timeout=HANG_SECONDS)
