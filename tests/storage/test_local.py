import errno
import os
import pickle
import resource
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

import lancekit._storage.durable as durable
from lancekit._storage.local import LocalStore
from lancekit._storage.places import open_store
from lancekit.errors import StorageError
from lancekit.options import options
from tests.storage.contract import StoreContract
from tests.support.forked import at_once


class TestLocal(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        return open_store(tmp_path / "table.lance")


class TestLocalWithoutFsync(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        with options(fsync=False):
            yield open_store(tmp_path / "table.lance")


@pytest.fixture
def store(tmp_path):
    return LocalStore(tmp_path / "table.lance")


def all_files(folder):
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*"))


# ---- where it is


def test_paths_are_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    store = open_store("a/../b.lance")
    assert store.uri == str(tmp_path / "b.lance")
    monkeypatch.chdir("/")
    store.put("x", b"")
    assert (tmp_path / "b.lance" / "x").exists()
    assert open_store("~/c.lance").uri == str(tmp_path / "home" / "c.lance")
    assert open_store(f"file://{tmp_path}/with%20space").uri == f"{tmp_path}/with space"
    assert open_store(f"file://localhost{tmp_path}").uri == str(tmp_path)


# ---- durability


def record_calls(monkeypatch):
    """Record, in order, what reaches the operating system: (call, bare name)."""
    calls = []

    def name_of(target):
        path = Path(f"/proc/self/fd/{target}").readlink() if isinstance(target, int) else target
        name = Path(path).name
        return ".tmp" if name.startswith(".tmp-") else "unnamed" if name.startswith("#") else name

    def spy(call, shown):
        original = getattr(os, call)

        def recorded(*args, **kwargs):
            calls.append((call, name_of(args[shown])))
            return original(*args, **kwargs)

        monkeypatch.setattr(os, call, recorded)

    for call, shown in [("fsync", 0), ("link", 1), ("replace", 1), ("mkdir", 0), ("unlink", 0)]:
        spy(call, shown)
    return calls


def test_a_commit_flushes_the_file_links_it_then_flushes_the_folder(store, monkeypatch):
    store.put("_versions/0", b"")
    calls = record_calls(monkeypatch)
    assert store.put_if_absent("_versions/1", b"x")
    assert calls == [("fsync", "unnamed"), ("link", "1"), ("fsync", "_versions")]
    assert not store.put_if_absent("_versions/1", b"y")
    assert store.read("_versions/1").to_pybytes() == b"x"


@pytest.mark.parametrize("missing", ["files without names", "/proc"])
def test_a_commit_writes_aside_where_files_need_names(store, monkeypatch, missing):
    store.put("_versions/0", b"")
    if missing == "/proc":
        link = os.link

        def linked(source, *args, **kwargs):
            if source.startswith("/proc"):
                raise FileNotFoundError(errno.ENOENT, "no /proc is mounted", source)
            link(source, *args, **kwargs)

        monkeypatch.setattr(os, "link", linked)
    else:
        monkeypatch.setattr(durable, "_UNNAMED", 0)
    calls = record_calls(monkeypatch)
    assert store.put_if_absent("_versions/1", b"x")
    assert calls[-4:] == [
        ("fsync", ".tmp"),
        ("link", "1"),
        ("fsync", "_versions"),
        ("unlink", ".tmp"),
    ]
    assert store.read("_versions/1").to_pybytes() == b"x"
    assert not store.put_if_absent("_versions/1", b"y")


def test_what_others_wrote_is_flushed_with_its_name(store, monkeypatch):
    store.put("_versions/0", b"")
    calls = record_calls(monkeypatch)
    store.flush("_versions/0")
    assert calls == [("fsync", "0"), ("fsync", "_versions")]
    with options(fsync=False):
        store.flush("_versions/0")
    assert len(calls) == 2
    with pytest.raises(FileNotFoundError):
        store.flush("_versions/1")


def test_a_replacement_flushes_the_file_before_it_moves(store, monkeypatch):
    store.put("_refs/tags/a.json", b"")
    calls = record_calls(monkeypatch)
    store.put("_refs/tags/a.json", b"x")
    assert calls[:3] == [("fsync", ".tmp"), ("replace", "a.json"), ("fsync", "tags")]


def test_new_folders_are_flushed_into_their_parents(tmp_path, monkeypatch):
    calls = record_calls(monkeypatch)
    LocalStore(tmp_path / "a/b").put_if_absent("_versions/1", b"x")
    assert calls[:6] == [
        ("mkdir", "a"),
        ("fsync", tmp_path.name),
        ("mkdir", "b"),
        ("fsync", "a"),
        ("mkdir", "_versions"),
        ("fsync", "b"),
    ]


def test_fsync_can_be_turned_off(store, monkeypatch):
    calls = record_calls(monkeypatch)
    with options(fsync=False):
        assert store.fsync is False
        assert store.child("x").fsync is False
        store.put_if_absent("_versions/1", b"x")
        store.put("_refs/a", b"x")
        sink = store.create("data/f")
        sink.close()
    assert store.fsync is True
    assert "fsync" not in {call for call, _ in calls}


def test_the_setting_travels_to_a_worker(store):
    with options(fsync=False):
        sent = pickle.dumps(store)
    assert pickle.loads(sent).fsync is False
    assert pickle.loads(pickle.dumps(store)).fsync is True


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_the_kernel_sees_data_before_the_manifest(tmp_path):
    program = (
        "import sys; from lancekit._storage.local import LocalStore\n"
        "store = LocalStore(sys.argv[1])\n"
        "sink = store.create('data/d.lance'); sink.write(bytes(100)); sink.close()\n"
        "assert store.put_if_absent('_versions/1.manifest', b'm')"
    )
    log = tmp_path / "strace.log"
    trace = ["strace", "-y", "-e", "trace=fsync,link,linkat", "-o", str(log)]
    target = str(tmp_path / "t.lance")
    done = subprocess.run(
        [*trace, sys.executable, "-c", program, target], capture_output=True, text=True, check=False
    )
    if "ptrace" in done.stderr.lower():
        pytest.skip(f"strace may not trace here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    lines = [line for line in log.read_text().splitlines() if target in line]

    def first(*parts):
        return next(at for at, line in enumerate(lines) if all(part in line for part in parts))

    order = [
        first("fsync", "data/d.lance"),
        first("fsync", f"{target}/data>"),
        first("fsync", "_versions/#"),
        first("link", "1.manifest"),
        first("fsync", f"{target}/_versions>"),
    ]
    assert order == sorted(order)


# ---- races


RACE = """
import sys
from lancekit._storage.local import LocalStore

root, (writers, keys, me) = sys.argv[1], map(int, sys.argv[2:])
store = LocalStore(root, fsync=False)
for key in range(keys):
    # Everybody waits for the last one at each key.
    store.put(f"ready/{key}/{me}", b"")
    while len(store.list_names(f"ready/{key}")) < writers:
        pass
    print(int(store.put_if_absent(f"_versions/{key}", b"%d" % me)))
"""


def test_one_winner_among_processes(store):
    writers, keys = 4, 25
    ended = at_once([(RACE, store.uri, *map(str, (writers, keys, me))) for me in range(writers)])
    won = [said.split() for said, _ in ended]
    for key in range(keys):
        winners = [me for me in range(writers) if won[me][key] == "1"]
        assert [store.read(f"_versions/{key}").to_pybytes()] == [b"%d" % me for me in winners]
    assert not [name for name in all_files(store.uri) if ".tmp" in name]


def test_folders_made_by_several_at_once(tmp_path):
    barrier = threading.Barrier(8)

    def write(me):
        barrier.wait()
        LocalStore(tmp_path / "a/b/c").put(f"d/e/{me}", b"")

    threads = [threading.Thread(target=write, args=(me,)) for me in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(LocalStore(tmp_path).list_tree()) == 8


# ---- failures


def write_sink(store, data):
    sink = store.create("f/x")
    sink.write(data)
    sink.close()


WRITES = {
    "put": lambda store, data: store.put("f/x", data),
    "put_if_absent": lambda store, data: store.put_if_absent("f/x", data),
    "create": write_sink,
}


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 64 KiB; needs the right to mount."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if (
        not shutil.which("mount")
        or subprocess.run(mount, capture_output=True, check=False).returncode
    ):
        pytest.skip("mounting a small disk is not allowed here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_full_disk(small_disk, write):
    store = LocalStore(small_disk / "t.lance")
    store.put("f/old", b"old")
    with pytest.raises(StorageError) as caught:
        write(store, bytes(1 << 20))
    assert caught.value.context == {"path": f"{store.uri}/f/x", "errno": errno.ENOSPC}
    assert os.strerror(errno.ENOSPC) in caught.value.message
    assert caught.value.hint == "Free some space and try again."
    assert all_files(store.uri) == ["f", "f/old"]
    assert store.read("f/old").to_pybytes() == b"old"


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_file_over_the_limit(tmp_path, write):
    """As a full disk, by a limit that needs no rights."""
    store = LocalStore(tmp_path / "t.lance")
    store.put("f/old", b"old")
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, old[1]))
    try:
        with pytest.raises(StorageError) as caught:
            write(store, bytes(1 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert caught.value.context == {"path": f"{store.uri}/f/x", "errno": errno.EFBIG}
    assert all_files(store.uri) == ["f", "f/old"]


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_file_where_a_folder_should_be(tmp_path, write):
    (tmp_path / "t.lance").write_text("a file")
    store = LocalStore(tmp_path / "t.lance")
    with pytest.raises(StorageError) as caught:
        write(store, b"x")
    assert str(tmp_path / "t.lance") in caught.value.message
    assert store.list_names("") == []
    assert store.list_tree() == []
    assert all_files(tmp_path) == ["t.lance"]


def test_no_permission(tmp_path):
    """Run as another user where the tests run as root, whom permissions do not stop."""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o555)
    program = (
        "import os, sys, lancekit._storage.local as s\n"
        "if os.getuid() == 0: os.setegid(65534); os.seteuid(65534)\n"
        "for name in ('t.lance', '.'):\n"
        "    try: s.LocalStore(sys.argv[1] + '/' + name).put_if_absent('x', b'')\n"
        "    except Exception as e: print(type(e).__name__, e)\n"
    )
    for parent in [tmp_path, *tmp_path.parents[:2]]:
        parent.chmod(parent.stat().st_mode | 0o055)
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stderr
    for line in lines:
        assert line.startswith(f"StorageError cannot write {folder}")
        assert "Permission denied" in line
        assert "Check the permissions" in line


def test_a_disk_without_hard_links(store, monkeypatch):
    def refuse(source, target, **folders):
        raise OSError(errno.EPERM, "Operation not permitted", source)

    monkeypatch.setattr(durable.os, "link", refuse)
    with pytest.raises(StorageError, match="no hard links") as caught:
        store.put_if_absent("_versions/1", b"x")
    assert caught.value.context["errno"] == errno.EPERM
    assert "object store" in caught.value.hint
    assert all_files(store.uri) == ["_versions"]


def test_a_name_that_is_taken_is_not_streamed_over(store):
    store.put("data/f", b"old")
    with pytest.raises(StorageError, match="File exists"):
        store.create("data/f")
    assert store.read("data/f").to_pybytes() == b"old"


def test_a_failed_flush_is_an_error(store, monkeypatch):
    store.put("data/old", b"")

    def fail(descriptor):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(durable.os, "fsync", fail)
    for write in WRITES.values():
        with pytest.raises(StorageError, match="Input/output error"):
            write(store, b"x")
    assert all_files(store.uri) == ["data", "data/old", "f"]


def test_writers_in_progress_are_not_listed(store):
    store.put("_versions/1.manifest", b"")
    (Path(store.uri) / "_versions" / ".tmp-left-by-a-crash").touch()
    assert store.list_names("_versions") == ["1.manifest"]
    assert {info.name for info in store.list_tree()} == {
        "_versions/.tmp-left-by-a-crash",
        "_versions/1.manifest",
    }


# ---- reads


def descriptors_of(path):
    """Count the descriptors that lead to a file; other threads open and close some of their own."""
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found += descriptor.readlink() == path
    return found


def test_a_buffer_outlives_its_file_and_holds_no_descriptor(store, tmp_path):
    store.put("f", bytes(range(256)) * 4096)
    path = tmp_path / "table.lance" / "f"
    with path.open("rb"):
        assert descriptors_of(path) == 1  # as one that is open counts
    buffers = [store.open("f").read(start, 256) for start in range(0, 20 * 256, 256)]
    assert descriptors_of(path) == 0
    store.delete("f")
    assert {buffer.to_pybytes() for buffer in buffers} == {bytes(range(256))}


def test_reads_from_many_threads(store):
    data = os.urandom(1 << 20)
    store.put("f", data)
    reader = store.open("f")
    wrong = []

    def read(seed):
        starts = range(seed, (1 << 20) - 4096, 40_000)
        wrong.extend(
            start
            for start in starts
            if reader.read(start, 4096).to_pybytes() != data[start : start + 4096]
        )

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM, errno.EMLINK])
def test_what_cannot_be_linked_is_not_adopted(tmp_path, monkeypatch, code):
    store = LocalStore(tmp_path)
    store.put("a", b"x")

    def refused(*args, **keywords):
        raise OSError(code, "no link")

    monkeypatch.setattr(durable.os, "link", refused)
    assert not store.adopt("b", store, "a")
    monkeypatch.undo()
    (tmp_path / "l").symlink_to(tmp_path / "a")
    assert not store.adopt("b", store, "l")
    assert not store.adopt("b", open_store("memory://adopted"), "a")
    assert not store.exists("b")


def test_an_adopted_file_is_as_new(tmp_path):
    store = LocalStore(tmp_path)
    store.put("a", b"x")
    os.utime(tmp_path / "a", (1, 1))
    assert store.adopt("deep/b", store, "a")
    assert (tmp_path / "deep/b").stat().st_mtime > 1000
    assert (tmp_path / "a").samefile(tmp_path / "deep/b")
