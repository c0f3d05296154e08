"""What tasks need of a store: credentials, which nobody else sees, and a place within reach."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import lancekit as lk
from lancekit._spark.jobs import client as clients
from lancekit._spark.jobs.collect import pack
from lancekit._storage.local import LocalStore, sent_to
from lancekit._storage.objects import ObstoreStore
from lancekit.errors import LancekitError, StorageError
from tests.spark.programs import QUICK, run

SECRET = "wJalrXUtnFEMI-the-secret"


def test_nothing_of_this_process_environment_is_sent(monkeypatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA-of-the-driver")
    store = ObstoreStore("s3://bucket/folder", {"region": "eu-north-1"})
    packed = pickle.dumps(store)
    assert SECRET.encode() not in packed
    assert b"AKIA" not in packed
    assert pickle.loads(packed).storage_options == {"region": "eu-north-1"}


def test_given_options_are_sent_and_not_shown() -> None:
    store = ObstoreStore(
        "s3://bucket/folder", {"aws_access_key_id": "A", "aws_secret_access_key": SECRET}
    )
    assert SECRET.encode() in pickle.dumps(store)
    assert SECRET not in repr(store)
    assert SECRET not in str(store)
    assert SECRET not in repr(store.child("data"))


@pytest.mark.spark
def test_credentials_are_in_no_plan_log_or_error(spark, s3, capfd) -> None:
    given = s3.storage_options
    secret = given["aws_secret_access_key"]
    uri = f"s3://{s3.bucket}/places.lance"
    ds = lk.write_dataset(spark.range(100), uri, storage_options=given)
    assert ds.count_rows() == 100
    frame = ds.to_spark(filter="id < 50")
    assert frame.count() == 50
    shown = [repr(ds), repr(frame), repr(ds.uri)]
    for mode in ("simple", "extended", "codegen", "formatted"):
        frame.explain(mode)
    with lk.options(engine="spark"):
        assert ds.delete("id >= 90")["num_deleted_rows"] == 10
    result = ds.merge_insert("id").when_not_matched_insert_all()
    shown += [repr(result), repr(result.execute(spark.range(90, 120)))]
    with pytest.raises(LancekitError) as caught:
        ds.insert(spark.sql("select id, raise_error('no luck') as s from range(1)"))
    shown += [str(caught.value), repr(caught.value), repr(caught.value.context)]
    shown += [*capfd.readouterr(), repr(lk.session_info())]
    if log := lk.session_info().log_file:
        shown.append(Path(log).read_text(errors="replace"))
    assert all(secret not in text for text in shown)


# ---- local folders


@pytest.mark.parametrize(
    ("master", "elsewhere"),
    [("local[2]", False), ("local-cluster[2,1,512]", False), ("spark://host:7077", True)],
)
def test_which_masters_are_elsewhere(master, elsewhere) -> None:
    assert (clients._beyond_this_machine(master) is not None) is elsewhere


def test_a_local_folder_is_not_sent_elsewhere(tmp_path) -> None:
    store = LocalStore(tmp_path / "d")
    with sent_to(None):
        pickle.dumps(store)
    with sent_to("spark://host:7077"):
        with pytest.raises(StorageError) as caught:
            pickle.dumps({"task": [store.child("data")]})
        for shared in (str(tmp_path), f"file://{tmp_path}", str(tmp_path / "d")):
            with lk.options(shared_folders=[shared]):
                pickle.dumps(store)
        with lk.options(shared_folders=[f"{tmp_path}/d2"]), pytest.raises(StorageError):
            pickle.dumps(store)
    said = str(caught.value)
    assert f"{tmp_path}/d/data is on the disk of this machine" in said
    assert "spark://host:7077" in said
    assert "shared_folders" in said


@pytest.mark.spark
def test_work_for_this_machine_is_packed(spark, tmp_path) -> None:
    assert pickle.loads(pack(spark, LocalStore(tmp_path))).uri == str(tmp_path)


@pytest.mark.classic
@pytest.mark.spark
def test_tasks_on_other_machines_get_no_local_folder(spark, tmp_path, monkeypatch) -> None:
    """As on a cluster, of which the session's name for where it runs is all that there is."""
    elsewhere = "spark://host:7077"
    monkeypatch.setattr(clients, "_beyond_this_machine", lambda master: elsewhere)
    ds = lk.write_dataset({"id": [1]}, tmp_path / "d")
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    jobs = scheduler.numTotalJobs()
    said = (
        f"{tmp_path}/d is on the disk of this machine, but the tasks of {elsewhere} run on other "
        "machines"
    )
    with pytest.raises(StorageError, match=said):
        lk.write_dataset(spark.range(5), ds, mode="append")
    with pytest.raises(StorageError, match=said):
        ds.to_spark().count()
    assert scheduler.numTotalJobs() == jobs  # refused before any work
    with lk.options(shared_folders=[str(tmp_path)]):
        ds = lk.write_dataset(spark.range(5), ds, mode="append")
        assert ds.to_spark().count() == 6


REFUSED = f"""
import subprocess, sys
from pathlib import Path
import pyspark
import lancekit as lk
from lancekit.errors import StorageError
from lancekit._spark.session.java import find_java
from lancekit._spark.session.session import _environment

# A cluster of one machine, which for Spark is a cluster like any other.
home = Path(pyspark.__file__).parent
with _environment(find_java(), local=True):
    master = subprocess.Popen(
        [str(home / "bin/spark-class"), "org.apache.spark.deploy.master.Master",
         "--host", "127.0.0.1", "--port", sys.argv[2], "--webui-port", "0"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    worker = subprocess.Popen(
        [str(home / "bin/spark-class"), "org.apache.spark.deploy.worker.Worker", "--cores", "1",
         "--memory", "1g", "--webui-port", "0", "--host", "127.0.0.1", "--work-dir", sys.argv[3],
         f"spark://127.0.0.1:{{sys.argv[2]}}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
try:
    spark = lk.spark_session(master=f"spark://127.0.0.1:{{sys.argv[2]}}", {QUICK})
    ds = lk.write_dataset({{"id": [1]}}, sys.argv[1])
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    jobs = scheduler.numTotalJobs()
    for work in (
        lambda: lk.write_dataset(spark.range(5), ds, mode="append"),
        lambda: ds.to_spark().count(),
    ):
        try:
            work()
        except StorageError as error:
            print(error.message.replace(sys.argv[1], "PLACE").replace(sys.argv[2], "PORT"))
    assert scheduler.numTotalJobs() == jobs  # refused before any work
    with lk.options(shared_folders=[sys.argv[1]]):
        ds = lk.write_dataset(spark.range(5), ds, mode="append")
        print(ds.to_spark().count())
    lk.stop_spark()
finally:
    worker.terminate()
    master.terminate()
    worker.wait()
    master.wait()
"""


@pytest.mark.torture
@pytest.mark.classic
@pytest.mark.spark
def test_on_a_cluster(tmp_path, whole) -> None:
    if not whole:
        pytest.skip("only in a whole run: it starts four Javas; a short run is told of a cluster")
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = str(tmp_path / "d")
    done = run(REFUSED, place, str(port), str(tmp_path / "work"), SPARK_LOCAL_IP="127.0.0.1")
    said = (
        "PLACE is on the disk of this machine, but the tasks of spark://127.0.0.1:PORT run on "
        "other machines."
    )
    assert done.stdout.splitlines() == [said, said, "6"]
