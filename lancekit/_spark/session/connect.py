"""Sessions over Spark Connect: on a server in this machine's Java process, or elsewhere.

PySpark reads the kind of session of a process from environment variables.  They are set when a
session starts, and removed after it, so that a session of the other kind can follow in the same
process.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lancekit._extras import install_hint
from lancekit._spark.jobs.client import LOCAL_VARIABLE
from lancekit.errors import InvalidArgumentError, SessionError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.session import SparkSession as ConnectSession

DEFAULT_PORT = 15002
REACH_SECONDS = 5

MODE_VARIABLE = "SPARK_CONNECT_MODE_ENABLED"

FORK_VARIABLE = "GRPC_ENABLE_FORK_SUPPORT"

#: the packages of `pyspark[connect]`, by a module of each
PACKAGES = {
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "google.rpc": "googleapis-common-protos",
    "zstandard": "zstandard",
}

SERVER_SETTINGS: Mapping[str, str] = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.sql.artifact.isolation.enabled": "true",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
    # Only this machine can connect, on any free port, so that two notebooks do not collide.
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
}
"""Settings for a server in this machine's own Java process, in addition to a classic session's."""


def parse_remote(remote: object) -> str:
    """Check and return the place of a Connect session.

    Raises InvalidArgumentError: it is neither ``sc://host:port`` nor ``local[...]``.
    """
    hint = "For example 'sc://host:15002', or 'local[2]' for a server in this process."
    if not isinstance(remote, str) or not remote.startswith(("sc://", "local")):
        raise InvalidArgumentError(
            f"{remote!r} is not the address of a Spark Connect server.", hint=hint, remote=remote
        )
    if remote.startswith("sc://"):
        try:
            endpoint_of(remote)
        except ValueError:
            # The text may contain a token, so it is not repeated.
            raise InvalidArgumentError(
                "The address of the Spark Connect server has no host or no valid port.", hint=hint
            ) from None
    return remote


def endpoint_of(remote: str) -> tuple[str, int]:
    """Return the host and port in ``sc://host:port/;token=...``.

    Examples
    --------
    >>> endpoint_of("sc://spark.example/;token=abc")
    ('spark.example', 15002)
    """
    parts = urlsplit(remote)
    if not parts.hostname:
        raise ValueError(remote)
    return parts.hostname, parts.port or DEFAULT_PORT


def check_packages() -> None:
    """Check that the packages of Spark Connect's client are installed.

    Raises SessionError: at least one is missing.
    """
    missing = [package for module, package in PACKAGES.items() if not _installed(module)]
    if missing:
        raise SessionError(
            f"Spark Connect needs {', '.join(missing)}, which "
            f"{'is' if len(missing) == 1 else 'are'} not installed.",
            hint=f"{install_hint('connect')}.",
            missing=missing,
        )


def join_local_server(context: SparkContext, token: str) -> SparkSession:
    """Return a session on the server that a Spark context of this process has started."""
    service = "org.apache.spark.sql.connect.service.SparkConnectService$"
    port = getattr(getattr(context._jvm, service), "MODULE$").localPort()
    os.environ[LOCAL_VARIABLE] = "1"
    os.environ[MODE_VARIABLE] = "1"
    return _builder().remote(f"sc://localhost:{port}/;token={token}").create()


def join_server(remote: str) -> SparkSession:
    """Return a new session on a remote server.

    Raises SessionError: the server cannot be reached, does not answer, or runs a version of Spark
        that this client cannot use.
    """
    builder = _builder()
    from pyspark.sql.connect.client.retries import DefaultPolicy

    host, port = endpoint_of(remote)
    place = f"sc://{host}:{port}"
    _check_reachable(host, port)
    os.environ[MODE_VARIABLE] = "1"
    session = None
    try:
        session = builder.remote(remote).create()
        patient = session.client.get_retry_policies()
        # The default policy retries for 10 minutes, but a listening server answers at once.
        session.client.set_retry_policies([DefaultPolicy(max_retries=2)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such a warning becomes the error
            _check_version(session.version, place)
        session.client.set_retry_policies(patient)
    except BaseException as error:
        if session is not None:
            release(session, alive=False)
        leave_connect_mode()
        if isinstance(error, SessionError) or not isinstance(error, Exception):
            raise
        raise SessionError(
            f"The server at {place} does not answer as a Spark Connect server: "
            f"{str(error).strip().splitlines()[0].rstrip('.')}.",
            hint="Check host, port and token. The default port of a server is 15002.",
            remote=place,
        ) from error
    return session


def _builder() -> ConnectSession.Builder:
    """Return PySpark's builder of Connect sessions, after loading gRPC.

    gRPC would restart its threads in each forked process.  One in ten of these would crash when
    their files are closed, before Java could be started for the next session.
    """
    given = os.environ.get(FORK_VARIABLE)
    os.environ[FORK_VARIABLE] = given or "false"  # gRPC reads it only once
    try:
        from pyspark.sql.connect.session import SparkSession as ConnectSession
    finally:
        if given is None:
            del os.environ[FORK_VARIABLE]
    return ConnectSession.builder


def release(session: SparkSession, *, alive: bool) -> None:
    """Stop a Connect session, and the server if it runs in this process.

    session: the session, which may be stopped already.
    alive: whether the server can be notified.
    """
    from pyspark.sql.connect.client.retries import DefaultPolicy

    if not session.is_stopped:
        # By default, requests to a server that is gone are retried for 10 minutes.
        session.client.set_retry_policies([DefaultPolicy(max_retries=1)])
        session.release_session_on_close = alive
        session.stop()
    leave_connect_mode()


def leave_connect_mode() -> None:
    """Let the next session of this process be of either kind."""
    for name in (MODE_VARIABLE, LOCAL_VARIABLE):
        os.environ.pop(name, None)


def _installed(module: str) -> bool:
    with suppress(ModuleNotFoundError):
        return importlib.util.find_spec(module) is not None
    return False


def _check_reachable(host: str, port: int) -> None:
    try:
        socket.create_connection((host, port), REACH_SECONDS).close()
    except OSError as error:
        raise SessionError(
            f"No Spark Connect server can be reached at sc://{host}:{port}: "
            f"{error.strerror or error}.",
            hint="Check host, port and firewall, and that the server runs.",
            remote=f"sc://{host}:{port}",
        ) from error


def _check_version(server: str, place: str) -> None:
    """Refuse a server of another major version, and a server older than the client."""
    import pyspark

    theirs, ours = (tuple(map(int, v.split(".")[:2])) for v in (server, pyspark.__version__))
    if theirs[0] != ours[0] or theirs < ours:
        raise SessionError(
            f"The server at {place} runs Spark {server}, but this Python has PySpark "
            f"{pyspark.__version__}.",
            hint=f'Install the same version: pip install "pyspark[connect]=={server}".',
            server=server,
            client=pyspark.__version__,
        )
