"""Programs in processes of their own: a process has one Spark session at a time."""

from __future__ import annotations

import os
import subprocess
import sys

from lancekit.user_cache import cache_folder
from tests.support.patience import HANG_SECONDS

QUICK = "memory='1g', config={'spark.driver.extraJavaOptions': '-XX:TieredStopAtLevel=1'}"


def archived() -> dict[str, str]:
    """Return the variable by which a Java that lancekit does not start is quick to start, too.

    It names the archive that the first test makes, if it is there.
    """
    found = [
        f"-XX:SharedArchiveFile={path} -Xlog:disable" for path in cache_folder().glob("s*.jsa")
    ]
    return {"JDK_JAVA_OPTIONS": " ".join([os.environ.get("JDK_JAVA_OPTIONS", ""), *found[:1]])}


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
