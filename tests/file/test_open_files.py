"""Files that a handle keeps open are the ones that their names lead to, and few."""

import gc
import os
import pickle
import signal
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._file import open_files
from lancekit._file.open_files import OpenFiles
from lancekit._file.writer import FileWriter
from lancekit._storage import base
from lancekit._storage.local import LocalStore
from lancekit._storage.places import open_store
from lancekit.options import options


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "SETTLED_SECONDS", -1.0)


def _write(store: LocalStore, name: str, columns: int = 1, value: int = 0) -> None:
    batch = pa.record_batch({f"c{i}": [value] * 10 for i in range(columns)})
    writer = FileWriter(store.create(name), batch.schema)
    writer.write(batch)
    writer.finish()


def _value(files: OpenFiles, store: LocalStore, name: str) -> object:
    reader = files.open(store, name)
    return reader.read(reader.columns, range(3, 4)).column(0)[0].as_py()


def test_a_file_stays_open_until_its_name_leads_elsewhere(tmp_path: Path) -> None:
    store, files = LocalStore(tmp_path), OpenFiles()
    _write(store, "a.lance", value=1)
    first = files.open(store, "a.lance")
    assert files.open(LocalStore(tmp_path), "a.lance") is first
    assert OpenFiles().open(store, "a.lance") is not first

    _write(store, "b.lance", value=2)
    status = (tmp_path / "a.lance").stat()
    os.utime(tmp_path / "b.lance", ns=(status.st_atime_ns, status.st_mtime_ns))
    (tmp_path / "b.lance").replace(tmp_path / "a.lance")
    assert _value(files, store, "a.lance") == 2

    (tmp_path / "a.lance").unlink()
    with pytest.raises(FileNotFoundError):
        files.open(store, "a.lance")


def test_nothing_is_kept_where_nothing_is_to_be_remembered(tmp_path: Path) -> None:
    store, files = LocalStore(tmp_path), OpenFiles()
    _write(store, "a.lance")
    first = files.open(store, "a.lance")
    with options(verify_checksums=True):
        assert files.open(store, "a.lance") is not first
    with options(cache_bytes=0):
        assert files.open(store, "a.lance") is not first
    with options(page_memory_bytes=1 << 20):
        small = files.open(store, "a.lance")
        assert small.container.page_memory == 1 << 20
    assert files.open(store, "a.lance") is first
    lk.clear_cache()
    assert files.open(store, "a.lance") is not first

    memory = open_store("memory://")
    _write(memory, "a.lance", value=5)  # type: ignore[arg-type]
    assert files.open(memory, "a.lance") is not files.open(memory, "a.lance")


def test_young_files_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "SETTLED_SECONDS", 3600.0)
    store, files = LocalStore(tmp_path), OpenFiles()
    _write(store, "a.lance")
    assert files.open(store, "a.lance") is not files.open(store, "a.lance")


def test_few_columns_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_files, "_MOST_COLUMNS", 5)
    store, files = LocalStore(tmp_path), OpenFiles()
    for name, columns in (("a", 2), ("b", 2), ("c", 2), ("wide", 6)):
        _write(store, name, columns)
    a, b = (files.open(store, name) for name in "ab")
    assert files.open(store, "a") is a  # so that b goes first
    c = files.open(store, "c")
    assert files.open(store, "a") is a
    assert files.open(store, "c") is c
    assert files.open(store, "b") is not b
    assert files.open(store, "wide") is not files.open(store, "wide")


def test_a_file_more_takes_the_same_however_many_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = []
    all_seen = OpenFiles._evict_much_read

    def counted(files: OpenFiles) -> None:
        looked_at.append(len(files._cached))
        all_seen(files)

    monkeypatch.setattr(OpenFiles, "_evict_much_read", counted)
    store, files = LocalStore(tmp_path), OpenFiles()
    names = [f"{i}.lance" for i in range(100)]
    for name in names:
        _write(store, name)
    kept = [files.open(store, name) for name in names]
    assert sum(looked_at) <= 3 * len(names)
    assert [files.open(store, name) for name in names] == kept


def test_all_handles_together_keep_few_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.collect()
    lk.clear_cache()
    monkeypatch.setattr(open_files, "_MOST_FILES", 4)
    monkeypatch.setattr(open_files, "_count_at", [0])
    store, handles = LocalStore(tmp_path), [OpenFiles() for _ in range(3)]
    for name in "abcd":
        _write(store, name)
    kept = [[files.open(store, name) for name in "ab"] for files in handles[:2]]
    handles[0].open(store, "a")
    handles[2].open(store, "a")  # the handle that was used longest ago gives up its own
    assert handles[0].open(store, "b") is kept[0][1]
    assert handles[1].open(store, "a") is not kept[1][0]
    alone = [handles[0].open(store, name) for name in "cd"]
    assert [handles[0].open(store, name) for name in "cd"] == alone


def test_a_file_more_takes_the_same_however_many_handles_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.collect()
    lk.clear_cache()
    counted = []
    living = open_files._live_caches
    monkeypatch.setattr(open_files, "_live_caches", lambda: counted.append(1) or living())
    monkeypatch.setattr(open_files, "_MOST_FILES", 40)
    monkeypatch.setattr(open_files, "_count_at", [0])
    store, handles = LocalStore(tmp_path), [OpenFiles() for _ in range(60)]
    for name in "abcd":
        _write(store, name)
    for name in "abcd":
        for files in handles:
            files.open(store, name)
            assert sum(len(one._cached) for one in living()) <= 40
    assert 5 <= len(counted) <= 60  # of 240 files


def test_datasets_are_opened_while_all_files_are_let_go_of() -> None:
    done = threading.Event()

    def open_many() -> None:
        living: list[OpenFiles] = []
        while not done.is_set():
            living = [*living[-50:], OpenFiles()]

    threads = [threading.Thread(target=open_many) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for _ in range(300):
            lk.clear_cache()
    finally:
        done.set()
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()


def test_files_that_were_looked_at_often_are_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "cache_limit", lambda: 20_000)
    store, files = LocalStore(tmp_path), OpenFiles()
    _write(store, "a")
    first = files.open(store, "a")
    first.container.source.read(0, 10)
    assert files.open(store, "a") is first
    for _ in range(600):
        first.container.source.read(0, 10)
    second = files.open(store, "a")
    assert second is not first
    assert files.open(store, "a") is second

    monkeypatch.setattr(open_files, "cache_limit", lambda: 1)
    _write(store, "b")
    files.open(store, "b")
    assert files.open(store, "a") is not second


def test_a_copy_for_another_process_has_none_open(tmp_path: Path) -> None:
    store, files = LocalStore(tmp_path), OpenFiles()
    _write(store, "a")
    first = files.open(store, "a")
    assert pickle.loads(pickle.dumps(files)).open(store, "a") is not first


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_waits_for_no_thread_of_its_parent(tmp_path: Path) -> None:
    store, files = LocalStore(tmp_path), OpenFiles()
    _write(store, "a")
    files.open(store, "a")
    with files._lock:  # as a thread would hold it
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            os._exit(0 if files.open(store, "a").num_rows else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
def test_the_handle_keeps_files_mapped_and_no_longer(tmp_path: Path) -> None:
    def mapped() -> int:
        lines = Path("/proc/self/maps").read_text().splitlines()  # one or several for a file
        return len({line.split(None, 5)[5] for line in lines if f"{tmp_path}/" in line})

    place = f"{tmp_path}/d.lance"
    lk.write_dataset(pa.table({"x": range(100), "y": range(100)}), place).create_scalar_index(
        "x", "BTREE"
    )
    gc.collect()  # what writing left in circles
    gc.disable()
    try:
        ds = lk.dataset(place)
        assert ds.to_table(filter="x = 7").to_pylist() == [{"x": 7, "y": 7}]
        kept = mapped()
        assert kept == 3  # the data file, and both of the index
        ds.to_table(filter="x = 8")
        lk.dataset(place).to_table(filter="x = 8")
        assert mapped() == kept
        ds.delete("x = 1")
        ds.take([3])
        del ds
        assert mapped() == 0
    finally:
        gc.enable()
