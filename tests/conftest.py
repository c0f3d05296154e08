"""Fixtures that several rooms' tests share, and how the marked tests are run."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance.arrow  # noqa: F401  # registers its types of Arrow, and fails if ours came first
import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

import lancekit
from lancekit._compiled import state, store
from tests.support import pylance4 as pylance4_process
from tests.support.java import path_without_java
from tests.support.quick_spark import INTERPRETED, SETTINGS
from tests.support.recorded_kernels import called
from tests.support.remembering import all_remembered
from tests.support.s3 import S3Server, s3_server
from tests.support.sampling import covering

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK_JAVA = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""Without the optimising compiler, and without proofs that its classes are well formed, a short
session takes less than half of the processor's time."""
PLACE = os.environ.get("LANCEKIT_TEST_SPARK", "")
"""Where the Spark tests run, instead of in a session of lancekit's own: `spark`."""
ON_CLUSTER = PLACE.startswith("spark://")
OVER_CONNECT = bool(PLACE) and not ON_CLUSTER
TESTS = Path(__file__).parent
FOLDER_NUMBERS = count()


# A busy machine is no fault of the code, under CI either, where hypothesis has its own profile.
settings.register_profile(
    "patient",
    settings.get_profile("ci" if os.environ.get("CI") else "default"),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("short", settings.get_profile("patient"), max_examples=20)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--whole", action="store_true", help="run the torture tests at their full length"
    )


def pytest_configure(config: pytest.Config) -> None:
    if ON_CLUSTER:
        # Here, for some tests put options back to what they were before they had a session.
        lancekit.options.shared_folders = ["/"]
    settings.load_profile("patient" if config.getoption("--whole") else "short")
    config.pluginmanager.register(_Examples())
    if not config.getoption("--whole"):
        # What is drawn does not depend on which modules are there by then; and to look for the
        # constants of all of them takes each worker seconds, in a fresh clone.
        providers.is_local_module_file = lambda _: False


class _Examples:
    """Looks for examples of docstrings only in modules that have any, which no test has.

    To look at every object of every module takes a good part of the collection.  It is a plugin of
    its own, because the hooks of this file are for tests alone.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(
        self, file_path: Path
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        collectors = yield
        if file_path.is_relative_to(TESTS) or b">>> " not in file_path.read_bytes():
            return [one for one in collectors if not isinstance(one, DoctestModule)]
        return collectors


@pytest.hookimpl(tryfirst=True)  # xdist looks at the groups in this hook, too
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _leave_out_repetitions(config, items)
    for item in items:
        # `make torture` selects by the mark: a long form without it would never be run
        if "whole" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("torture"):
            raise pytest.UsageError(
                f"{item.nodeid} takes `whole`: mark it with pytest.mark.torture"
            )
        item.add_marker(pytest.mark.xdist_group(_group_of(item)))
    items.sort(key=_turn)


def _leave_out_repetitions(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the cases of tests with the mark `cover`, run as many as show each value once.

    ``cover(2)`` is for each pair of two parameters' values; of those with ``sample(n)``, whose
    cases differ by a seed, the first run. All of them run with ``--whole``, where they are torture
    tests, as are those of hypothesis, which try more then.
    """
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("cover") or item.get_closest_marker("sample"):
            families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    if config.getoption("--whole"):
        for item in items:
            if item in families.get(item.nodeid.partition("[")[0], ()) or _is_drawn(item):
                item.add_marker(pytest.mark.torture)
        return
    left_out = {item for family in families.values() for item in _repetitions(family)}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def _repetitions(family: list[pytest.Item]) -> set[pytest.Item]:
    """Return the cases of a test that show nothing which another does not."""
    sample = family[0].get_closest_marker("sample")
    if sample:
        return set(family[sample.args[0] :])
    mark = family[0].get_closest_marker("cover")
    together = mark.args[0] if mark and mark.args else 1
    chosen = covering([_values_of(item) for item in family], together)
    return {item for at, item in enumerate(family) if at not in chosen}


def _is_drawn(item: pytest.Item) -> bool:
    return bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))


def _values_of(item: pytest.Item) -> dict[str, int]:
    """Return which parameters have which values, by what they are in memory: all cases share it."""
    return {name: id(value) for name, value in item.callspec.params.items()}


def _turn(item: pytest.Item) -> int:
    """Return when a test's turn comes: what takes long begins early.

    The first test makes an archive of classes that every Java maps which starts after it; the tests
    of the first room, which start none, are done meanwhile.  What ends last are files of few tests.
    """
    if item.name == "test_it_is_made_once":
        return 0
    group = _group_of(item)
    groups = {"processes": 1, "spark": 3, "notebooks": 3}
    if group in groups:
        return groups[group]
    rooms = ("tests/api", 2), ("tests/system", 4)
    return next((turn for room, turn in rooms if room in item.path.as_posix()), 5)


def _group_of(item: pytest.Item) -> str:
    """Return which tests one worker runs together: those of a file, which share its fixtures.

    Tests that wait for Spark half of their time are in three groups, none of which takes longer
    than all others together: those that share a session, which costs seconds and most of a
    gigabyte; those that start processes with sessions of their own, over Spark Connect or not; and
    the notebooks, each of which runs once.
    A server for S3 costs seconds, too.
    """
    marks = {mark.name for mark in item.iter_markers()}
    if "spark" in getattr(item, "fixturenames", ()):
        if "spark" not in marks:
            raise pytest.UsageError(f"{item.nodeid} takes `spark`: mark it with pytest.mark.spark")
        return "spark"
    if "notebook" in marks or item.path.name == "test_notebooks.py":
        return "notebooks"
    if "classic" in marks and marks & {"spark", "over_connect"}:
        return "processes"
    if "spark" in marks:
        return "spark"
    return "s3" if "s3" in getattr(item, "fixturenames", ()) else item.nodeid.partition("::")[0]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage in tests and modules, which stay: it took a tenth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_finish() -> None:
    # Importing modules for their doctests binds `lancekit.dataset` to the module again.
    lancekit.dataset = sys.modules["lancekit.dataset"].dataset


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What lancekit remembers for its user is kept out of the home of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        if not PLACE:  # a run inside of this one, which has all that follows
            # What matplotlib knows of the machine's fonts takes it seconds to find out.
            cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
            patch.setenv(
                "MPLCONFIGDIR", os.environ.get("MPLCONFIGDIR") or str(cache / "matplotlib")
            )
            # The Java that lancekit brings, whatever else the machine has.
            patch.delenv("JAVA_HOME", raising=False)
            patch.setenv("PATH", path_without_java(tmp_path_factory.mktemp("tools")))
            # One for all workers: a session that one has warmed up starts quicker in the other.
            mine = tmp_path_factory.getbasetemp()
            shared = mine.parent if "PYTEST_XDIST_WORKER" in os.environ else mine
            patch.setenv("XDG_CACHE_HOME", str(shared / "cache"))
            # Every Java, of notebooks, clusters and the Spark of others, too.
            given = os.environ.get("JDK_JAVA_OPTIONS", "")
            patch.setenv("JDK_JAVA_OPTIONS", f"{given} {QUICK_JAVA}".strip())
        yield


@pytest.fixture(scope="session")
def _code(own_state: None) -> store.Code | None:
    """The kernels, compiled once for all workers of a run; ``None`` without Numba."""
    if not state.is_possible():
        return None
    store.build(wait=True)
    return store.load()


@pytest.fixture(scope="session", autouse=True)
def _same_code(request: pytest.FixtureRequest) -> Iterator[None]:
    """Which code a test runs does not depend on those before it: NumPy's, unless it says so.

    With the environment variable LANCEKIT_TEST_KERNELS=1 all tests run compiled kernels.
    """
    process = state.Process(next_attempt=float("inf"), may_build=False)
    if os.environ.get("LANCEKIT_TEST_KERNELS"):
        process.code = request.getfixturevalue("_code")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "process", process)
        yield


@pytest.fixture
def kernels(_code: store.Code | None, monkeypatch: pytest.MonkeyPatch) -> store.Code:
    """Compiled kernels, used for all work however small; `lk.options.kernels` turns them off."""
    if _code is None:
        pytest.skip("needs the extra fast")
    monkeypatch.setattr(state, "process", state.Process(code=_code))
    return _code


@pytest.fixture(scope="session", autouse=True)
def remembering() -> Iterator[None]:
    """With LANCEKIT_TEST_CACHE=eager, or a number of bytes, all is remembered at the first use."""
    asked = os.environ.get("LANCEKIT_TEST_CACHE", "")
    with all_remembered(int(asked) if asked.isdecimal() else None) if asked else nullcontext():
        yield


@pytest.fixture(scope="session", autouse=True)
def known_kernels() -> Iterator[None]:
    """Check that every kernel that lancekit called is tried: tests/system/test_every_kernel.py."""
    yield
    from tests.support.called_kernels import FUNCTIONS, METHODS

    unknown = called - set(FUNCTIONS) - set(METHODS)
    assert unknown == set(), "add these to tests/support/called_kernels.py"


@pytest.fixture(scope="session", autouse=True)
def interrupts() -> None:
    """Hear interrupts, to which a program is deaf that a shell started in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder for one test.

    To find a free name, pytest lists the folders of all tests before, which grows with each.
    """
    name = re.sub(r"\W", "_", request.node.name)[:30]
    return tmp_path_factory.mktemp(f"{name}_{next(FOLDER_NUMBERS)}", numbered=False)


@pytest.fixture(scope="session")
def whole(request: pytest.FixtureRequest) -> bool:
    """Whether torture tests run at full length."""
    return bool(request.config.getoption("--whole"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of all tests; started by lancekit, quick to start, small.

    With the environment variable LANCEKIT_TEST_SPARK=connect it is one over Spark Connect; with
    that of a server, there; with that of a cluster, a session that its user started, without any
    setting of lancekit's.
    """
    from lancekit.spark import spark_session, stop_spark

    if ON_CLUSTER:
        from pyspark.sql import SparkSession

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PySpark's own, in a session as Spark starts it
            builder = SparkSession.builder.master(PLACE)
            for name, value in INTERPRETED.items():
                builder = builder.config(name, value)
            users = builder.getOrCreate()
        yield users
        users.stop()
        return
    if PLACE not in ("", "connect"):
        yield spark_session(remote=PLACE)
    else:
        remote = "local[2,4]" if OVER_CONNECT else None
        yield spark_session(remote=remote, memory="1g", config=SETTINGS)
    stop_spark()


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """An S3 server with one bucket, for the whole session; use a prefix of your own."""
    with s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def pylance4() -> Iterator[Callable[..., Any]]:
    """Run a program under pylance 4.0.0: ``pylance4("result = ...", uri=...)``."""
    if pylance4_process.interpreter() is None:
        pytest.fail("pylance 4.0.0 is not set up: run `make setup`")
    with pylance4_process.started() as run:
        yield run
