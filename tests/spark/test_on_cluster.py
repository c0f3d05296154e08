"""Spark tests once more on a cluster of Spark's own: other processes, and no setting of lancekit's.

Every operation is among them; at full length (``--whole``) they are all that can run there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lancekit.spark.session.java import find_java
from tests.support.cluster import standalone
from tests.support.patience import HANG_SECONDS, WHOLE_SECONDS

pytestmark = [pytest.mark.classic, pytest.mark.over_connect, pytest.mark.torture]

ROOT = Path(__file__).parents[2]
FOLDER = "tests/spark"
CHOSEN = ["test_equivalence.py::test_a_tour_of_all_operations", "test_file_sizes.py"]


def test_the_spark_tests_on_a_cluster(tmp_path: Path, whole: bool) -> None:
    some = [FOLDER] if whole else [f"{FOLDER}/{name}" for name in CHOSEN]
    options = ["-m", "spark and not classic", "-q", "-p", "no:cacheprovider", "--no-header"]
    # A worker of a parallel run has told its environment what it is.
    given = {name: v for name, v in os.environ.items() if not name.startswith("PYTEST_")}
    with standalone(tmp_path) as master:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *some, *(["--whole"] if whole else [])],
            cwd=ROOT,
            env={
                **given,
                "LANCEKIT_TEST_SPARK": master,
                "JAVA_HOME": str(find_java().home),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "PYTHONPATH": str(ROOT),
            },
            capture_output=True,
            text=True,
            timeout=WHOLE_SECONDS if whole else HANG_SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-20_000:]
    assert " passed" in done.stdout
