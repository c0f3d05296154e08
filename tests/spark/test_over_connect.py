"""All Spark tests that can, once more over Spark Connect: a process has one kind of session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.classic, pytest.mark.over_connect]

SECONDS = 1200
ROOT = Path(__file__).parents[2]


def test_the_spark_tests_over_connect() -> None:
    chosen = ["-m", "spark and not classic", "-q", "-p", "no:cacheprovider", "--no-header"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/spark", *chosen],
        cwd=ROOT,
        env={
            # A worker of a parallel run has told its environment what it is.
            **{name: v for name, v in os.environ.items() if not name.startswith("PYTEST_")},
            "LANCEKIT_TEST_SPARK": "connect",
            # Over Connect, workers start in a folder of the session's own.
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:]
    assert " passed" in done.stdout
    assert " skipped" not in done.stdout
