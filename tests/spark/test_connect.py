"""Sessions over Spark Connect, each in a process of its own: beginnings, ends, and conflicts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.spark.programs import QUICK, run
from tests.support.patience import HANG_SECONDS

pytestmark = [pytest.mark.classic, pytest.mark.spark]

START = f"spark_session(remote='local[2]', {QUICK})"


SERVER = f"""
import sys
import lancekit as lk
spark = lk.{START}
print(f"sc://{{spark.client._builder.endpoint}}/;token={{spark.client.token}}", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server in another process, by its address with the token."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process.stdout.readline().strip()
    process.communicate("", timeout=HANG_SECONDS)


@pytest.mark.torture
def test_classic_and_connect_follow_each_other_in_silence(whole: bool) -> None:
    program = f"""
import os, sys
import pyarrow as pa
import lancekit as lk
from lancekit.errors import SessionError

def kind(session):
    assert session.range(8).mapInArrow(lambda batches: batches, "id long").toArrow().num_rows == 8
    info = lk.session_info()
    assert info.owned and info.log_file
    return "connect" if info.connect else "classic"

def refused(**asked):
    try:
        lk.spark_session(**asked)
    except SessionError as error:
        return str(error)

before = {{name for name in os.environ if "SPARK" in name}}
spark = lk.{START}
assert kind(spark) == "connect" and lk.session_info().remote == "local"
assert lk.spark_session() is spark and lk.spark_session(remote="local[2]") is spark
for other in (dict(remote="sc://elsewhere"), dict(master="local[2]")):
    assert "A Spark Connect session is active (local)" in refused(**other)
assert lk.stop_spark() and not lk.stop_spark()
assert lk.session_info().state == "none"

spark = lk.spark_session(master="local[2]", {QUICK})
assert kind(spark) == "classic"
assert refused(remote="local[2]").endswith("or call lancekit.stop_spark() first.")
spark.stop()  # by hand, behind lancekit's back
assert lk.session_info().state == "none"

# So is this one; and the next is left to the end of the process.
if sys.argv[1] == "whole":
    spark = lk.{START}
    assert kind(spark) == "connect"
    spark.stop()
    assert lk.session_info().state == "none"
    assert kind(lk.{START}) == "connect"
"""
    # A place that is given comes before the one in Spark's own variable.
    done = run(program, "whole" if whole else "quick", SPARK_REMOTE="sc://elsewhere")
    assert (done.stdout, done.stderr) == ("", "")


def test_a_session_of_somebody_elses(server: str, tmp_path) -> None:
    run(
        """
import sys, warnings
from pyspark.sql import SparkSession
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    theirs = SparkSession.builder.remote(sys.argv[2]).getOrCreate()
import lancekit as lk
assert lk.spark_session() is theirs
assert lk.spark_session(config={"spark.sql.session.timeZone": "UTC"}) is theirs
info = lk.session_info()
assert info.connect and not info.owned and info.spark_version == theirs.version
assert "spark.sql.session.timeZone" not in {difference.name for difference in info.differences}
ds = lk.write_dataset(theirs.range(100), sys.argv[1])
assert ds.to_spark(filter="id < 5").count() == 5
assert lk.stop_spark() is False
assert theirs.range(3).count() == 3
theirs.stop()
""",
        str(tmp_path / "d"),
        server,
    )


def test_a_server_elsewhere(server: str, tmp_path) -> None:
    done = run(
        """
import sys
import lancekit as lk
from lancekit.errors import SessionError
address, place = sys.argv[1], sys.argv[1].split("/;")[0]

spark = lk.spark_session(remote=address)
info = lk.session_info()
assert (info.connect, info.owned, info.remote, info.log_file) == (True, True, place, None)
assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
assert lk.spark_session(remote=place) is spark
ds = lk.write_dataset(spark.range(100), sys.argv[2])
assert ds.to_spark().count() == 100
try:
    lk.spark_session(remote="local[2]")
except SessionError as error:
    assert "token" not in str(error), error
    print(error.message.replace(place, "sc://PLACE"))
assert lk.stop_spark()
assert lk.session_info().state == "none"
assert lk.spark_session(remote=address).range(3).count() == 3  # and left to the end
""",
        server,
        str(tmp_path / "d"),
    )
    assert done.stdout == (
        "A Spark Connect session is active (sc://PLACE), and remote asks for another: "
        "a process has one session at a time.\n"
    )
    assert done.stderr == ""


def test_the_address_of_sparks_own_variable_counts(server: str) -> None:
    run(
        "import lancekit as lk; spark = lk.spark_session(); assert lk.session_info().connect",
        SPARK_REMOTE=server,
    )
