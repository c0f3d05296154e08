"""Sessions over Spark Connect, each in a process of its own: beginnings, ends, and conflicts."""

from __future__ import annotations

import pytest

from tests.spark.programs import QUICK, run
from tests.spark.test_failing_tasks import check_cancelled

pytestmark = [pytest.mark.classic, pytest.mark.spark]


@pytest.mark.torture
def test_classic_and_connect_follow_each_other_in_silence(whole: bool) -> None:
    if not whole:
        pytest.skip("only in a whole run: it starts four Javas; a server of others is asked below")
    start = f"spark_session(remote='local[2]', {QUICK})"
    program = f"""
import os
import pyarrow as pa
import lancekit as lk
from lancekit.errors import SessionError

def kind(session):
    assert session.range(8).mapInArrow(lambda batches: batches, "id long").toArrow().num_rows == 8
    info = lk.session_info()
    assert info.owned and info.log_file and info.remote in (None, "local")
    return "connect" if info.connect else "classic"

def refused(**asked):
    try:
        lk.spark_session(**asked)
    except SessionError as error:
        return str(error)

spark = lk.{start}
assert kind(spark) == "connect"
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
spark = lk.{start}
assert kind(spark) == "connect"
spark.stop()
assert lk.session_info().state == "none"
assert kind(lk.{start}) == "connect"
"""
    # A place that is given comes before the one in Spark's own variable.
    done = run(program, SPARK_REMOTE="sc://elsewhere")
    assert (done.stdout, done.stderr) == ("", "")


def test_processes_that_are_forked_live() -> None:
    """As the Java process of the next session is: gRPC by itself ends one of ten."""
    run(
        """
import os, subprocess
from concurrent.futures import ThreadPoolExecutor
from lancekit._spark.session import connect

connect._builder()
assert connect.FORK_VARIABLE not in os.environ

import grpc

server = grpc.server(ThreadPoolExecutor(2))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
ended = set()
for _ in range(40):
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        grpc.channel_ready_future(channel).result()
        ended.add(subprocess.run(["true"], preexec_fn=lambda: None).returncode)
server.stop(None)
assert ended == {0}, ended
"""
    )


def test_a_session_of_somebody_elses(connect_server: str, tmp_path) -> None:
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
        connect_server,
    )


def test_a_server_elsewhere(connect_server: str, tmp_path) -> None:
    done = run(
        """
import os, sys
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
os.environ["SPARK_REMOTE"] = address  # Spark's own variable counts, if nothing is given
assert lk.spark_session().range(3).count() == 3  # and left to the end
assert (lk.session_info().connect, lk.session_info().remote) == (True, place)
""",
        connect_server,
        str(tmp_path / "d"),
        SPARK_REMOTE="sc://elsewhere",  # a place that is given comes before it
    )
    assert done.stdout == (
        "A Spark Connect session is active (sc://PLACE), but remote requests another one: a "
        "process has one session at a time.\n"
    )
    assert done.stderr == ""


@pytest.mark.torture
def test_a_cell_that_is_cancelled(connect_server: str, tmp_path, whole: bool) -> None:
    """A source's and lancekit's own functions at work; at full length in every operation."""
    check_cancelled(
        lambda program, *arguments: run(program, *arguments).stdout,
        tmp_path,
        connect_server,
        ["write", "merge", "update", "compact"] if whole else ["merge"],
    )
