"""What is wrong with a machine, a server or the workers is said in a sentence, and at once."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from lancekit._machine import total_memory
from lancekit._spark.session.java import find_java
from lancekit._spark.session.preflight import check_machine
from lancekit.errors import SessionError
from tests.spark.programs import run
from tests.support.cluster import other_lancekit

pytestmark = pytest.mark.classic


def refused(program: str, *arguments: str) -> str:
    """Return what a session is refused with, a line for each argument, which the program calls so.

    Neither Spark nor PySpark says a word.
    """
    done = run(
        "import sys, lancekit as lk\n"
        "from lancekit.errors import SessionError\n"
        "for argument in sys.argv[1:] or ['']:\n"
        f"    try: {program}\n"
        "    except SessionError as error: print(error)\n"
        "    assert lk.session_info().state == 'none'\n",
        *arguments,
    )
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"spark.driver.memory": "900g"}, "memory 900g exceeds this machine's memory"),
        ({"spark.driver.memory": "9000000m"}, "memory 9000000m exceeds"),
        ({"spark.driver.memory": "300m"}, "memory 300m is too small for Spark. Request"),
        (
            {"spark.driver.bindAddress": "192.0.2.1"},
            "cannot listen at the address 192.0.2.1: Cannot assign requested address. Set SPARK_",
        ),
        ({"spark.driver.host": "no-such-host.invalid"}, "cannot listen at the address no-such-"),
    ],
)
def test_what_this_machine_cannot_give(settings, said) -> None:
    with pytest.raises(SessionError) as caught:
        check_machine(settings, local=True)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_it_can_give() -> None:
    check_machine({"spark.driver.memory": "1g"}, local=True)
    check_machine({"spark.driver.memory": "whatever Spark makes of it"}, local=True)
    assert total_memory() > 1 << 30


def test_a_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        settings = {"spark.connect.grpc.binding.port": str(port)}
        with pytest.raises(SessionError, match=f"port {port}: Address already in use. Leave"):
            check_machine(settings, local=True)


def test_connect_without_its_packages() -> None:
    said = refused("sys.modules['grpc_status'] = None; lk.spark_session(remote='local[1]')")
    assert said == (
        "Spark Connect needs grpcio-status, which is not installed. "
        'Install the extra connect: pip install "pyspark[connect]>=4.2,<5".'
    )


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port where something listens that is no Connect server."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def hang_up() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connection.sendall(b"220 mail ready\r\n")
                connection.close()

        with ThreadPoolExecutor(1) as pool:
            pool.submit(hang_up)
            yield listener.getsockname()[1]
            listener.shutdown(socket.SHUT_RDWR)


def test_servers_that_are_none(silent_port: int) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = unused.getsockname()[1]
        remotes = [f"sc://localhost:{closed}", f"sc://localhost:{silent_port}/"]
        said, other = refused("lk.spark_session(remote=argument)", *remotes).split("\n")
    assert said.startswith(f"No Spark Connect server can be reached at sc://localhost:{closed}: ")
    assert other.startswith(f"The server at sc://localhost:{silent_port} does not answer as a")


@contextmanager
def server_of_spark(version: str) -> Iterator[int]:
    """Serve what says that it is of another Spark; yield the port."""
    import grpc
    from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

    class Old(base_pb2_grpc.SparkConnectServiceServicer):
        def AnalyzePlan(self, request, context):
            answer = base_pb2.AnalyzePlanResponse(
                session_id=request.session_id, server_side_session_id="1"
            )
            answer.spark_version.version = version
            return answer

    server = grpc.server(ThreadPoolExecutor(2))
    base_pb2_grpc.add_SparkConnectServiceServicer_to_server(Old(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


def test_a_server_of_another_spark() -> None:
    pytest.importorskip("grpc_status", reason="needs the extra connect")
    versions = ["3.5.1", "4.0.2", "5.0.0"]
    with ExitStack() as stack:
        ports = [stack.enter_context(server_of_spark(version)) for version in versions]
        remotes = [f"sc://localhost:{port}" for port in ports]
        said = refused("lk.spark_session(remote=argument)", *remotes).split("\n")
    for line, remote, version in zip(said, remotes, versions, strict=True):
        assert f"The server at {remote} runs Spark {version}, but this Python" in line
        assert line.endswith(f'pip install "pyspark[connect]=={version}".')


OTHER_PYTHON = """\
#!{python}
import collections, runpy, sys
sys.version_info = collections.namedtuple("V", "major minor micro releaselevel serial")(
    3, 9, 18, "final", 0
)
sys.argv = sys.argv[2:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@pytest.mark.spark
def test_workers_of_another_python(tmp_path) -> None:
    other = tmp_path / "python3.9"
    other.write_text(OTHER_PYTHON.format(python=sys.executable))
    other.chmod(0o755)
    said = refused(
        "lk.spark_session(master='local[1]', memory='1g', "
        "config={'spark.pyspark.python': argument})",
        str(other),
    )
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert said.startswith(f"Spark's workers run Python 3.9, but this is Python {ours}. Set PYSP")


OTHERS_SESSION = """
import sys, warnings
from pathlib import Path
from pyspark.sql import SparkSession
warnings.simplefilter("ignore")
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
import lancekit as lk
from lancekit.errors import SessionError
there = lk.write_dataset([{"id": 1}], sys.argv[1] + "-here")
for call in (lambda: lk.write_dataset(spark.range(3), sys.argv[1]), there.to_spark):
    try: call()
    except SessionError as error: print(error)
assert not Path(sys.argv[1]).exists()
"""


@pytest.mark.spark
def test_workers_of_somebody_elses_session(tmp_path: Path) -> None:
    """They have another version of lancekit; nothing is written."""
    (tmp_path / "other").mkdir()
    other = other_lancekit(tmp_path / "other", "9.9.9")
    python = tmp_path / "python"
    python.write_text(
        # Python looks into the current folder first, where this lancekit may be
        f'#!/bin/sh\ncd "{tmp_path}"\nexport PYTHONPATH="{other}:$PYTHONPATH"\n'
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    java = {"JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = run(OTHERS_SESSION, str(tmp_path / "table"), PYSPARK_PYTHON=str(python), **java)
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    for line, more in zip(lines[::2], lines[1::2], strict=True):
        assert line.startswith("Spark's workers have lancekit 9.9.9, but this Python has ")
        assert more.startswith(f"  the worker's Python is {sys.executable} on ")
        assert "set PYSPARK_PYTHON to a Python with it" in more
