"""Programs in processes of their own: a process has one Spark session at a time."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.patience import HANG_SECONDS

QUICK = "memory='1g', config={'spark.driver.extraJavaOptions': '-XX:TieredStopAtLevel=1'}"


def run(program: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its good end; what it printed is in the result."""
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
        env={**os.environ, **environ},
    )
    assert done.returncode == 0, done.stderr
    return done
