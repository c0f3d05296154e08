"""What is remembered of files is what is there, whatever is done to them."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit import _cache as cache
from lancekit import _machine as machine
from lancekit._file.concatenated import join_files
from lancekit._file.reader import FileReader
from lancekit._file.writer import FileWriter
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._spark.jobs.worker import enter_worker
from lancekit._storage import base
from lancekit._storage.local import LocalStore
from lancekit._storage.mapped import MappedFile
from lancekit._storage.places import open_store
from lancekit.errors import CorruptFileError, InvalidTypeError
from lancekit.options import Options
from tests.support.worker_options import options_stay


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty cache; files are remembered once the clock of this disk has moved on."""
    monkeypatch.setattr(base, "SETTLED_SECONDS", 0.02)
    lk.clear_cache()
    yield
    lk.options.cache_bytes = None
    lk.clear_cache()


def settle(path: Path) -> None:
    """Wait until a file is old enough to be remembered."""
    while MappedFile(str(path)).identity is None:
        time.sleep(0.005)


def put(folder: Path, values: list[str | int], name: str = "f.lance") -> Path:
    """Write a data file under a name, in the place of one that has it."""
    writer = FileWriter(
        LocalStore(folder, fsync=False).create_over(name), pa.schema({"x": pa.array(values).type})
    )
    writer.write(pa.record_batch({"x": values}))
    writer.finish()
    settle(folder / name)
    return folder / name


def read(path: Path) -> list[str | int]:
    reader = FileReader.open(LocalStore(path.parent).open(path.name))
    found: list[str | int] = reader.read(reader.columns).column("x").to_pylist()
    return found


def cities(first: str) -> list[str | int]:
    """Values that are stored with a dictionary, in a file as large whichever is the first."""
    return [first, *["Rome", "Oslo"] * 3000]


def test_what_was_read_is_found_again(tmp_path: Path) -> None:
    path = put(tmp_path, cities("Bonn"))
    first = read(path)
    before = lk.cache_info()
    assert read(path) == first == cities("Bonn")
    after = lk.cache_info()
    for kind in ("files", "columns", "dictionaries", "pages"):
        assert after.kinds[kind].misses == before.kinds[kind].misses
        assert after.kinds[kind].hits > before.kinds[kind].hits
    read(path)
    assert lk.cache_info().kinds["values"].hits == 1
    assert 0 < after.bytes <= after.limit


def replaced(path: Path, other: bytes) -> None:
    """Another file under the name."""
    aside = path.with_name("aside")
    aside.write_bytes(other)
    aside.rename(path)


def rewritten(path: Path, other: bytes) -> None:
    """The same file with other bytes."""
    with path.open("r+b") as file:
        file.write(other)
        file.truncate()


def made_anew(path: Path, other: bytes) -> None:
    """A file that may get the inode of the one that was there."""
    path.unlink()
    path.write_bytes(other)


@pytest.mark.parametrize("how", [replaced, rewritten, made_anew])
@pytest.mark.parametrize("back", [False, True], ids=["", "its time put back"])
def test_a_file_put_in_place_of_another_is_read(
    tmp_path: Path, how: Callable[[Path, bytes], None], back: bool
) -> None:
    path = put(tmp_path, cities("Bonn"))
    assert read(path) == cities("Bonn")
    assert read(path) == cities("Bonn")
    other = put(tmp_path, cities("Kiel"), "other.lance").read_bytes()
    status = path.stat()
    assert len(other) == status.st_size
    how(path, other)
    if back:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert read(path) == cities("Kiel")  # at once, while it is too young to be remembered
    settle(path)
    assert read(path) == cities("Kiel")
    assert read(path) == cities("Kiel")


def test_a_young_file_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, cities("Bonn"))
    now = time.time()
    os.utime(path, (now, now))
    monkeypatch.setattr(base, "SETTLED_SECONDS", 3600.0)
    assert read(path) == cities("Bonn")
    assert lk.cache_info().entries == 0
    os.utime(path, (0, 0))  # the other time says when that was done
    assert MappedFile(str(path)).identity is None
    monkeypatch.setattr(base, "SETTLED_SECONDS", 0.0)
    os.utime(path, (now + 3600, now + 3600))
    assert MappedFile(str(path)).identity is None


def test_a_file_is_the_one_that_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, cities("Bonn"))
    other = put(tmp_path, cities("Kiel"), "other.lance")
    first = MappedFile(str(path)).identity
    mapping = pa.memory_map

    def swapped(name: str, mode: str) -> pa.MemoryMappedFile:
        if other.exists():
            other.replace(path)  # between the look at the file and its mapping
        return mapping(name, mode)

    monkeypatch.setattr("lancekit._storage.mapped.pa.memory_map", swapped)
    opened = MappedFile(str(path))
    assert opened.identity == first
    assert b"Bonn" in opened.read(0, opened.size()).to_pybytes()
    assert read(path) == cities("Kiel")


def test_a_dataset_made_anew_at_its_place(tmp_path: Path) -> None:
    for number in range(4):
        ds = lk.write_dataset({"x": [number] * 3, "y": ["a", None, "b"]}, tmp_path / "t")
        for path in (tmp_path / "t/data").iterdir():
            settle(path)
        for _ in range(3):
            assert lk.dataset(tmp_path / "t").to_table()["x"].to_pylist() == [number] * 3
        assert lk.cache_info().hits > 0
        lk.LanceDataset.drop(ds.uri)


def test_files_read_together_of_which_one_is_too_young(tmp_path: Path) -> None:
    paths = [put(tmp_path, cities(name), f"{name}.lance") for name in ("Bonn", "Kiel")]
    os.utime(paths[1], (time.time() + 3600,) * 2)
    readers = [FileReader.open(MappedFile(str(path))) for path in paths]
    joined = join_files(readers)
    assert joined.read(readers[0].columns).column("x").to_pylist() == [
        *cities("Bonn"),
        *cities("Kiel"),
    ]
    assert read(paths[0]) == cities("Bonn")
    os.utime(paths[1], (0, 0))
    settle(paths[1])
    for _ in range(2):
        joined = join_files([FileReader.open(MappedFile(str(path))) for path in paths])
        assert joined.read(readers[0].columns, range(6000, 6003)).column("x").to_pylist() == [
            "Oslo",
            "Kiel",
            "Rome",
        ]
    assert read(paths[0]) == cities("Bonn")


def manifest(place: Path, version: int) -> Path:
    name = f"_versions/{2**64 - 1 - version:020d}.manifest"
    settle(place / name)
    return place / name


def test_manifests_are_remembered_by_their_files(tmp_path: Path) -> None:
    place = tmp_path / "t"
    for number in (1, 2):
        lk.write_dataset({"x": [number]}, place, mode="overwrite")
    first, second = manifest(place, 1), manifest(place, 2)
    for _ in range(2):
        assert lk.dataset(place, version=1).to_table()["x"].to_pylist() == [1]
    assert lk.cache_info().kinds["manifests"].hits > 0
    # the same file under the name of another version is no version
    second.unlink()
    os.link(first, second)
    settle(second)
    assert lk.dataset(place, version=1).version == 1
    with pytest.raises(CorruptFileError, match="version 1, not 2"):
        lk.dataset(place, version=2)
    # and one in its place is another
    other = lk.write_dataset({"y": ["of another"]}, tmp_path / "other")
    replaced(first, manifest(tmp_path / "other", 1).read_bytes())
    settle(first)
    assert other.version == 1
    for _ in range(2):
        assert lk.dataset(place, version=1).schema.names == ["y"]


def test_what_is_given_away_of_a_manifest_is_a_copy(tmp_path: Path) -> None:
    lk.write_dataset({"x": [1]}, tmp_path / "t").update_config({"a": "b"})
    manifest(tmp_path / "t", 2)
    for _ in range(3):
        ds = lk.dataset(tmp_path / "t")
        assert ds.config() == {"a": "b"}
        for given in (ds.config(), ds.metadata, ds.schema_metadata):
            given["a"] = "changed"


def test_manifests_in_an_object_store_are_remembered_by_their_tags() -> None:
    lk.write_dataset({"x": [1]}, "memory://tagged")
    lk.dataset("memory://tagged")
    before = lk.cache_info().kinds["manifests"]
    assert lk.dataset("memory://tagged").count_rows() == 1
    assert lk.cache_info().kinds["manifests"].hits == before.hits + 1
    lk.LanceDataset.drop("memory://tagged")
    lk.write_dataset({"x": [1, 2]}, "memory://tagged")
    for _ in range(2):
        assert lk.dataset("memory://tagged").count_rows() == 2


def deleted_file(place: Path) -> Path:
    (found,) = (place / "_deletions").iterdir()
    settle(found)
    return found


def test_deleted_rows_are_remembered_by_their_files(tmp_path: Path) -> None:
    for name, gone in (("t", 3), ("other", 4)):
        lk.write_dataset({"x": range(9)}, tmp_path / name).delete(f"x = {gone}")
    mine, others = deleted_file(tmp_path / "t"), deleted_file(tmp_path / "other")
    ds = lk.dataset(tmp_path / "t")
    for hits in range(3):
        assert ds.to_table()["x"].to_pylist() == [0, 1, 2, 4, 5, 6, 7, 8]
        assert lk.cache_info().kinds["deletions"].hits == hits
    # what is handed out is a copy
    (fragment,) = ds.get_fragments()
    FragmentReader(fragment.source).deleted.add(0)
    assert ds.count_rows("x < 5") == 4
    # another file under the name is another one, and none is an error
    replaced(mine, others.read_bytes())
    settle(mine)
    for _ in range(2):
        assert ds.to_table()["x"].to_pylist() == [0, 1, 2, 3, 5, 6, 7, 8]
    mine.unlink()
    with pytest.raises(CorruptFileError, match="does not exist"):
        ds.to_table()


def test_deleted_rows_in_an_object_store_are_read_once() -> None:
    ds = lk.write_dataset({"x": range(9)}, "memory://deleted")
    ds.delete("x = 3")
    lk.clear_cache()
    for hits in range(2):
        assert lk.dataset("memory://deleted").count_rows("x < 5") == 4
        assert lk.cache_info().kinds["deletions"].hits == hits
    ds.delete("x = 4")
    assert lk.dataset("memory://deleted").count_rows("x < 5") == 3
    lk.LanceDataset.drop("memory://deleted")


def large_manifest(place: Path, value: int) -> Path:
    """Write a version whose manifest takes more than the read that fetches most of them."""
    wide = {f"a column with a rather long name, {number:04d}": [value] for number in range(900)}
    lk.write_dataset(wide, place)
    written = manifest(place, 1)
    assert written.stat().st_size > 1 << 16
    return written


def test_large_manifests_are_remembered_too(tmp_path: Path) -> None:
    written = large_manifest(tmp_path / "t", 1)
    lk.dataset(tmp_path / "t")
    before = lk.cache_info().kinds["manifests"]
    assert before.bytes > written.stat().st_size
    assert lk.dataset(tmp_path / "t").head(1).column(0).to_pylist() == [1]
    assert lk.cache_info().kinds["manifests"].hits == before.hits + 1
    other = large_manifest(tmp_path / "other", 2)
    shutil.copytree(tmp_path / "other" / "data", tmp_path / "t" / "data", dirs_exist_ok=True)
    replaced(written, other.read_bytes())
    settle(written)
    for _ in range(2):
        assert lk.dataset(tmp_path / "t").head(1).column(0).to_pylist() == [2]


def test_large_manifests_in_an_object_store_are_remembered_too() -> None:
    wide = {f"a column with a rather long name, {number:04d}": [1] for number in range(900)}
    lk.write_dataset(wide, "memory://large")
    lk.clear_cache()
    lk.dataset("memory://large")
    before = lk.cache_info().kinds["manifests"]
    assert lk.dataset("memory://large").count_rows() == 1
    assert lk.cache_info().kinds["manifests"].hits == before.hits + 1
    lk.LanceDataset.drop("memory://large")


def test_errors_are_not_remembered(tmp_path: Path) -> None:
    path = put(tmp_path, cities("Bonn"))
    whole = path.read_bytes()
    replaced(path, whole[:-4] + b"NOPE")
    settle(path)
    for _ in range(2):
        with pytest.raises(CorruptFileError, match="not a Lance data file"):
            read(path)
    assert lk.cache_info().entries == 0
    replaced(path, whole)
    assert read(path) == cities("Bonn")


def test_what_is_opened_in_a_block_without_it_is_read(tmp_path: Path) -> None:
    path = put(tmp_path, cities("Bonn"))
    with lk.options(cache_bytes=0):
        read(path)
    assert lk.cache_info().entries == 0
    read(path)
    before = lk.cache_info()
    with lk.options(cache_bytes=0):
        read(path)
    assert lk.cache_info() == before


def test_it_holds_no_more_than_it_may(tmp_path: Path) -> None:
    paths = [put(tmp_path, cities("Bonn"), f"{number}.lance") for number in range(10)]
    lk.options.cache_bytes = 20_000
    for path in paths:
        assert read(path) == cities("Bonn")
        info = lk.cache_info()
        assert 0 < info.bytes <= info.limit == 20_000
    hits = lk.cache_info().hits
    read(paths[-1])
    assert lk.cache_info().hits > hits
    lk.options.cache_bytes = 0
    assert lk.cache_info().entries == 0
    read(paths[-1])
    assert lk.cache_info().entries == 0


def test_what_was_not_used_for_longest_goes_first() -> None:
    lk.options.cache_bytes = 3000
    for name in "ab":
        cache.keep("k", name, name, 500)
    assert cache.look_up("k", "a") == "a"
    cache.keep("k", "c", "c", 1000)
    cache.keep("k", "d", "d", 100)
    assert [cache.look_up("k", name) for name in "abcd"] == ["a", None, "c", "d"]
    assert cache.keep("k", "huge", "huge", 5000) == "huge"
    assert cache.look_up("k", "huge") is None
    assert lk.cache_info().entries == 3


def test_two_that_make_the_same_get_one() -> None:
    first, second = object(), object()
    assert cache.keep("k", "a", first, 1) is first
    assert cache.keep("k", "a", second, 1) is first


def test_many_threads() -> None:
    lk.options.cache_bytes = 50_000
    wrong: list[object] = []

    def work(seed: int) -> None:
        for step in range(3000):
            key = (seed * 7 + step * step) % 300
            made = cache.remembered("k", key, lambda key=key: str(key), len)
            if made != str(key):
                wrong.append(made)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    info = lk.cache_info()
    assert not wrong
    assert info.hits + info.misses == 12_000
    assert info.bytes <= info.limit


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_child_goes_on_with_what_its_parent_had() -> None:
    cache.keep("k", "a", "of the parent", 10)
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        with cache._cache.lock:
            held.set()
            go.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    threading.Timer(0.05, go.set).start()
    child = os.fork()  # waits until no thread is about to change anything
    if child == 0:
        found = cache.look_up("k", "a")
        os._exit(0 if found == "of the parent" else 1)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    assert cache.look_up("k", "a") == "of the parent"


def test_objects_with_a_random_name_are_remembered_by_client() -> None:
    name = "0" * 24 + "ab" * 13
    known = base.object_identity
    assert known(1, f"d/{name}.lance", 10) == known(1, f"d/{name}.lance", 10) is not None
    assert known(1, f"d/{name}.lance", 10) != known(2, f"d/{name}.lance", 10)
    assert known(1, f"d/{name}.lance", 10) != known(1, f"d/{name}.lance", 11)
    assert known(1, f"d/{name}.lance", None) is None
    assert known(1, "d/words.lance", 10) is None
    assert known(1, f"{name}/words.lance", 10) is None
    assert known(1, "d/1.manifest", 10, "tag") != known(1, "d/1.manifest", 10, "other")


def test_every_set_of_credentials_has_a_client_of_its_own() -> None:
    def opened(secret: str) -> object:
        options = {"access_key_id": "k", "secret_access_key": secret, "region": "x"}
        name = "data/11110001011011100000101025b10b482ab8b90b81bfa28462.lance"
        return open_store("s3://bucket/t", options).open(name, 100).identity

    assert opened("one") == opened("one") is not None
    assert opened("one") != opened("two")
    assert "one" not in repr(opened("one"))


def test_a_dataset_in_memory_is_remembered() -> None:
    lk.write_dataset({"x": [1, 2]}, "memory://remembered")
    for _ in range(2):
        assert lk.dataset("memory://remembered").to_table()["x"].to_pylist() == [1, 2]
    assert lk.cache_info().kinds["files"].hits > 0


def test_validation_reads_what_is_there(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": list(range(100))}, tmp_path / "t")
    (path,) = (tmp_path / "t/data").iterdir()
    settle(path)
    ds.to_table()
    before = lk.cache_info()
    ds.validate(deep=True)
    assert lk.cache_info() == before


def test_the_option() -> None:
    with pytest.raises(InvalidTypeError, match="cache_bytes"):
        lk.options.cache_bytes = "1 GiB"
    lk.options.cache_bytes = None
    assert lk.cache_info().limit == min(1 << 30, machine.total_memory() // 10)


def test_memory_is_what_the_container_has(tmp_path: Path) -> None:
    mine, root = tmp_path / "cgroup", tmp_path / "fs"
    mine.write_text("12:memory,cpu:/docker/a\n11:pids:/docker/a\n0::/user/b\n")
    for name, limit in {
        "memory/docker/memory.limit_in_bytes": "700",
        "memory/docker/a/memory.limit_in_bytes": "9223372036854771712",
        "memory.max": "max",
        "user/memory.max": "900",
        "user/b/memory.max": "max",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{limit}\n")
    assert sorted(machine._limits_of_groups(mine, root)) == [700, 900, 9223372036854771712]
    assert machine._limits_of_groups(tmp_path / "none", root) == []
    assert 0 < machine.total_memory() < 1 << 50


def test_a_worker_of_many_keeps_less() -> None:
    with options_stay():
        for asked, limit in ((None, 64 << 20), (0, 0), (1 << 20, 1 << 20)):
            enter_worker(replace(Options(), cache_bytes=asked))
            assert lk.cache_info().limit == limit


def test_a_compaction_reads_for_the_last_time(tmp_path: Path) -> None:
    """Its files are gone from the newest version: values would be kept that nobody reads again."""
    path = str(tmp_path / "t.lance")
    rows = pa.table({"id": range(30_000), "code": [i % 7 for i in range(30_000)]})
    lk.write_dataset(rows, path, max_rows_per_file=10_000)
    for file in Path(path, "data").iterdir():
        settle(file)
    before = lk.dataset(path)
    assert before.to_table() == rows  # seen once: the next read would keep it
    before.to_table(["id"])
    held = lk.cache_info().kinds["values"]
    assert held.entries > 0
    after = lk.dataset(path)
    after.optimize.compact_files()
    found = lk.cache_info().kinds["values"]
    assert (found.entries, found.bytes) == (held.entries, held.bytes)
    assert found.hits > held.hits  # what is remembered is used
    assert after.to_table() == rows
    before.to_table(["code"])
    assert lk.cache_info().kinds["values"].entries > held.entries
