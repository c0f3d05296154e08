"""Fixtures that several rooms' tests share, and how the marked tests are run."""

from __future__ import annotations

import inspect
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

import lancekit
from tests.support import pylance4 as pylance4_process
from tests.support.s3 import S3Server, s3_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
OVER_CONNECT = os.environ.get("LANCEKIT_TEST_SPARK") == "connect"


# A busy machine is no fault of the code, under CI either, where hypothesis has its own profile.
settings.register_profile(
    "patient",
    settings.get_profile("ci" if os.environ.get("CI") else "default"),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--whole", action="store_true", help="run the torture tests at their full length"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # A session costs seconds and most of a gigabyte: one worker runs all tests that need one.
    for item in items:
        # `make torture` selects by the mark: a long form without it would never be run
        asked = inspect.signature(item.function).parameters if hasattr(item, "function") else ()
        if "whole" in asked and not item.get_closest_marker("torture"):
            raise pytest.UsageError(
                f"{item.nodeid} takes `whole`: mark it with pytest.mark.torture"
            )
        if item.get_closest_marker("over_connect"):
            item.add_marker(pytest.mark.xdist_group("connect"))
        elif item.get_closest_marker("spark") or item.get_closest_marker("notebook"):
            item.add_marker(pytest.mark.xdist_group("spark"))


def pytest_collection_finish() -> None:
    # Importing modules for their doctests binds `lancekit.dataset` to the module again.
    lancekit.dataset = sys.modules["lancekit.dataset"].dataset


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What lancekit remembers for its user is kept out of the home of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def interrupts() -> None:
    """Hear interrupts, to which a program is deaf that a shell started in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def whole(request: pytest.FixtureRequest) -> bool:
    """Whether torture tests run at full length."""
    return bool(request.config.getoption("--whole"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of all tests; started by lancekit, quick to start, small.

    With the environment variable LANCEKIT_TEST_SPARK=connect it is one over Spark Connect.
    """
    from lancekit.spark import spark_session, stop_spark

    # Without the optimising compiler a short session starts two seconds earlier.
    config = {"spark.driver.extraJavaOptions": QUICK_JAVA}
    remote = "local[2,4]" if OVER_CONNECT else None
    yield spark_session(remote=remote, memory="1g", config=config)
    stop_spark()


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """An S3 server with one bucket, for the whole session; use a prefix of your own."""
    with s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def pylance4() -> Callable[..., Any]:
    """Run a program under pylance 4.0.0: ``pylance4("result = ...", uri=...)``."""
    if pylance4_process.interpreter() is None:
        pytest.fail("pylance 4.0.0 is not set up: run `make setup`")
    return pylance4_process.run
