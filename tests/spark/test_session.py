import gc
import sys
import warnings
from pathlib import Path

import pytest

from lancekit._spark.session.settings import SETTINGS, local_settings, parse_config
from lancekit.errors import InvalidArgumentError, InvalidTypeError, SessionError
from lancekit.spark import freeze_worker, session_info, spark_session
from tests.spark.programs import QUICK, run

pytestmark = pytest.mark.classic


def test_importing_loads_no_pyspark():
    run(
        "import sys; import lancekit.spark as s\n"
        "from lancekit._spark.session.session import is_active\n"
        "assert not is_active() and s.session_info().state == 'none' and not s.stop_spark()\n"
        "assert 'pyspark' not in sys.modules"
    )


# ---- settings


def test_local_settings():
    settings = local_settings(master="local[2,4]", memory=None)
    assert settings["spark.sql.session.timeZone"] == "UTC"
    assert settings["spark.driver.memory"] in {"1g", "2g", "3g"}
    assert "spark.sql.shuffle.partitions" in settings
    assert "spark.sql.shuffle.partitions" not in local_settings(master="yarn", memory="2g")
    assert all(setting.why.endswith(".") for setting in SETTINGS)


def test_what_a_caller_asks_for():
    config = {"spark.a": True, "spark.b": 3, "spark.c": "x"}
    assert parse_config(master="local", memory="2G", config=config) == {
        "spark.a": "true",
        "spark.b": "3",
        "spark.c": "x",
        "spark.master": "local",
        "spark.driver.memory": "2G",
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"memory": "3 gigabytes"}, InvalidArgumentError),
        ({"memory": 3}, InvalidArgumentError),
        ({"memory": "0g"}, InvalidArgumentError),
        ({"master": ""}, InvalidArgumentError),
        ({"config": {"driver.memory": "3g"}}, InvalidArgumentError),
        ({"config": {"spark.x": ["a"]}}, InvalidTypeError),
        ({"remote": 15002}, InvalidArgumentError),
        ({"remote": "spark.example:15002"}, InvalidArgumentError),
        ({"remote": "sc://"}, InvalidArgumentError),
        ({"remote": "sc://host:port"}, InvalidArgumentError),
        ({"remote": "local[2]", "master": "local[2]"}, InvalidArgumentError),
        ({"remote": "sc://host", "memory": "2g"}, InvalidArgumentError),
        ({"config": {"spark.remote": "nowhere"}}, InvalidArgumentError),
    ],
)
def test_bad_arguments_start_nothing(arguments, expected):
    with pytest.raises(expected) as caught:
        spark_session(**arguments)
    assert caught.value.hint


# ---- the session of all tests


def frozen_objects(batches):
    import sys

    import pyarrow as pa

    freeze_worker()
    freeze_worker()
    for _ in batches:
        yield pa.RecordBatch.from_pydict(
            {"frozen": [gc.get_freeze_count()], "py": [sys.executable]}
        )


@pytest.mark.spark
class TestStarted:
    def test_it_is_attached_to_afterwards(self, spark):
        assert spark_session() is spark

    def test_settings(self, spark):
        for setting in SETTINGS:
            if setting.name != "spark.driver.extraJavaOptions":
                assert spark.conf.get(setting.name) == setting.value, setting.name
        assert spark.sparkContext.master.endswith(",4]")

    def test_info(self, spark):
        info = session_info()
        assert info.state == "active"
        assert info.owned is True
        assert info.connect is False
        assert info.spark_version == spark.version
        assert info.master == spark.sparkContext.master
        assert info.cores == spark.sparkContext.defaultParallelism
        assert info.driver_memory == "1g"
        assert int(info.java_version.split(".")[0]) >= 17
        assert Path(info.java_home).is_dir()
        assert info.python == sys.executable
        assert info.differences == ()
        assert Path(info.log_file).is_file()

    def test_workers_run_this_python_and_freeze_once(self, spark):
        rows = spark.range(0, 4, 1, 2).mapInArrow(frozen_objects, "frozen long, py string")
        for row in rows.toArrow().to_pylist():
            assert row["frozen"] > 10_000
            assert row["py"] == sys.executable

    def test_settings_that_may_change_are_applied(self, spark):
        name = "spark.sql.shuffle.partitions"
        before = spark.conf.get(name)
        assert spark_session(config={name: 7}) is spark
        assert spark.conf.get(name) == "7"
        spark.conf.set(name, before)

    def test_settings_that_may_not_change_are_named(self, spark):
        with pytest.warns(UserWarning, match="keeps its spark.driver.memory") as caught:
            assert spark_session(memory="2g") is spark
        assert "lancekit.stop_spark() first" in str(caught[0].message)
        assert caught[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            spark_session(memory="1g")

    def test_differences_are_told(self, spark):
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        try:
            (difference,) = session_info().differences
            assert difference.name == "spark.sql.session.timeZone"
            assert (difference.advised, difference.actual) == ("UTC", "Asia/Tokyo")
        finally:
            spark.conf.set("spark.sql.session.timeZone", "UTC")


# ---- processes of their own


@pytest.mark.spark
def test_a_life_of_sessions_prints_nothing():
    """The JVM, its log4j, its progress bar and the workers write to the log file only."""
    done = run(f"""
import os, signal, sys
from pathlib import Path
import lancekit.spark as s
from lancekit.errors import SessionError
from lancekit._spark.session.session import owned_session

def loud(batches):
    print("a worker's print", file=sys.stderr)
    print("a worker's print")
    os.write(2, b"a worker's write")
    yield from batches

def rows():
    return spark.range(0, 8, 1, 4).mapInArrow(loud, "id long").toArrow().num_rows

# A start that fails leaves the way free.
for wrong in (dict(master="nonsense"), dict(config={{"spark.driver.extraJavaOptions": "-Xmx2g"}})):
    try:
        s.spark_session(**wrong)
    except SessionError as error:
        print(error.message)
        assert Path(error.context["log_file"]).is_file()
        Path(error.context["log_file"]).unlink()
    assert s.session_info().state == "none"

names = ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP")
before = [os.environ.get(name) for name in names]
spark = s.spark_session({QUICK})
assert [os.environ.get(name) for name in names] == before
assert rows() == 8
first = s.session_info()
assert "a worker's print" in Path(first.log_file).read_text()
assert s.stop_spark()
assert not Path(first.log_file).exists()
assert s.session_info().state == "none"

# Another memory needs another Java process.
spark = s.spark_session(memory="700m")
assert rows() == 8
assert s.session_info().driver_memory == "700m"
heap = spark.sparkContext._jvm.java.lang.Runtime.getRuntime().maxMemory()
assert heap < 750 << 20, heap

# The Java process dies: PySpark itself is loud about that.
print("killed", file=sys.stderr, flush=True)
process = owned_session().process
os.kill(process.pid, signal.SIGKILL)
process.wait()
assert s.session_info().state == "none"
assert not s.stop_spark()
""")
    master, option = done.stdout.splitlines()
    assert master.startswith("Spark's Java process ended at once: Master must either be yarn")
    assert "Not allowed to specify max heap" in option
    assert done.stderr.startswith("killed\n")


@pytest.mark.spark
def test_a_session_of_somebody_else_is_never_stopped():
    """And one of our own, which comes after it, maps the archive of classes."""
    done = run("""
from pathlib import Path
import lancekit as lk
archive = lk.warm_up(kernels=False).spark
import os
from lancekit._spark.session.java import find_java
from pyspark.sql import SparkSession
os.environ["JAVA_HOME"] = str(find_java().home)
theirs = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate()
import lancekit.spark as s
assert s.spark_session() is theirs
info = s.session_info()
assert not info.owned and info.state == "active" and info.log_file is None
assert info.master == "local[1]"
names = {difference.name for difference in info.differences}
assert "spark.sql.timeType.enabled" in names, names
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert s.spark_session(memory="2g") is theirs
assert "when the session is started" in str(caught[0].message), caught
assert s.stop_spark() is False
assert theirs.range(3).count() == 3
theirs.stop()
del os.environ["JAVA_HOME"]
own = s.spark_session(master="local[1]", memory="1g")
assert own.range(3).count() == 3 and s.session_info().owned
from lancekit._spark.session.java import base_of
from lancekit._spark.session.session import owned_session
if Path("/proc/self/maps").exists():
    maps = Path(f"/proc/{owned_session().process.pid}/maps").read_text()
    assert str(archive) in maps and str(base_of(archive)) in maps
""")
    assert done.stdout == ""


def test_an_error_can_be_pickled():
    import pickle

    error = pickle.loads(pickle.dumps(SessionError("x", hint="y", log_file="z")))
    assert (error.message, error.hint, error.context) == ("x", "y", {"log_file": "z"})
