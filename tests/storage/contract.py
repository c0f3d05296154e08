"""What every store must do; each backend's test module subclasses this and brings its store."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

from lancekit._storage.base import RandomAccess, Store
from lancekit.errors import CorruptFileError, InvalidArgumentError

BAD_NAMES = ["", "/etc/passwd", "../up", "a/../b", "a//b", "a/", "./a", "a\\b", "..", "a\0b"]
ODD_NAMES = ["_refs/branches/feature%2Fx.json", "a b/c d.txt", "ü/ñ.bin", "x#y?z=1&w.txt", "a+b~c"]


class StoreContract:
    """Override the ``store`` fixture; it must be empty."""

    @pytest.fixture
    def store(self) -> Store:
        raise NotImplementedError

    def test_put_read_replace(self, store: Store) -> None:
        store.put("_versions/1.manifest", b"one")
        assert store.read("_versions/1.manifest") == pa.py_buffer(b"one")
        store.put("_versions/1.manifest", b"two!")
        assert store.read("_versions/1.manifest").to_pybytes() == b"two!"

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, pa.py_buffer])
    def test_any_buffer_can_be_written(self, store: Store, kind: type) -> None:
        store.put("a", kind(b"bytes"))
        assert store.put_if_absent("b", kind(b"bytes"))
        sink = store.create("c")
        sink.write(kind(b"bytes"))
        sink.close()
        assert {store.read(name).to_pybytes() for name in "abc"} == {b"bytes"}

    def test_an_empty_object(self, store: Store) -> None:
        store.put("empty", b"")
        assert store.read("empty").size == 0
        assert store.tail("empty", 10) == (pa.py_buffer(b""), 0)
        reader = store.open("empty")
        assert reader.size() == 0
        assert reader.read(0, 0).size == 0
        with pytest.raises(CorruptFileError):
            reader.read(0, 1)

    def test_put_if_absent_never_replaces(self, store: Store) -> None:
        assert store.put_if_absent("_versions/2.manifest", b"mine") is True
        assert store.put_if_absent("_versions/2.manifest", b"theirs") is False
        assert store.read("_versions/2.manifest").to_pybytes() == b"mine"
        assert store.list_names("_versions") == ["2.manifest"]

    def test_put_if_absent_has_one_winner_among_threads(self, store: Store) -> None:
        writers = 8
        for round_ in range(5):
            barrier = threading.Barrier(writers)

            def write(me: int, name: str = f"_versions/{round_}", start=barrier) -> bool:
                start.wait()
                return store.put_if_absent(name, b"%d" % me)

            with ThreadPoolExecutor(writers) as pool:
                won = list(pool.map(write, range(writers)))
            assert won.count(True) == 1
            assert store.read(f"_versions/{round_}").to_pybytes() == b"%d" % won.index(True)

    def test_missing_objects(self, store: Store) -> None:
        store.put("there/a", b"")
        for attempt in (store.read, store.open, lambda name: store.tail(name, 8)):
            with pytest.raises(FileNotFoundError) as caught:
                attempt("there/nope")
            assert caught.value.filename == f"{store.uri}/there/nope"
        assert store.exists("there/nope") is False
        assert store.exists("there/a/below-a-file") is False
        assert store.exists("there") is False
        assert store.list_names("nope") == []
        assert store.list_tree("nope") == []
        store.delete("there/nope")
        store.delete_tree("nope")

    def test_ranges(self, store: Store) -> None:
        data = np.random.default_rng(7).bytes(300_000)
        store.put("data/f", data)
        reader = store.open("data/f")
        assert isinstance(reader, RandomAccess)
        assert reader.size() == len(data)
        assert reader.name == f"{store.uri}/data/f"
        assert reader.read(1000, 17).to_pybytes() == data[1000:1017]
        assert reader.read(len(data), 0).size == 0
        ranges = [(299_990, 10), (0, 5), (7, 0), (150_000, 100_000), (3, 4), (0, 5)]
        found = reader.read_many(ranges)
        assert [buffer.to_pybytes() for buffer in found] == [data[s : s + n] for s, n in ranges]
        assert reader.read_many([]) == []
        assert store.open("data/f", size=len(data)).read(5, 5).to_pybytes() == data[5:10]

    def test_many_ranges(self, store: Store) -> None:
        rng = np.random.default_rng(11)
        data = rng.bytes(5_000_000)
        store.put("f", data)
        starts = rng.integers(0, len(data), 200).tolist()
        lengths = (rng.integers(0, 3, 200) * rng.integers(0, 5000, 200)).tolist()
        ranges = [(s, min(n, len(data) - s)) for s, n in zip(starts, lengths, strict=True)]
        far_apart = [(0, 9), (4_900_000, 9), (2_000_000, 9)]
        for wanted in (ranges, far_apart):
            found = store.open("f").read_many(wanted)
            assert [part.to_pybytes() for part in found] == [data[s : s + n] for s, n in wanted]

    @pytest.mark.parametrize("wanted", [(0, 11), (9, 2), (10, 1), (11, 5), (100, 1), (-1, 2)])
    def test_a_short_read_is_a_damaged_file(self, store: Store, wanted: tuple[int, int]) -> None:
        store.put("short", b"0123456789")
        for reader in (store.open("short"), store.open("short", size=1000)):
            with pytest.raises(CorruptFileError) as caught:
                reader.read(*wanted)
            assert caught.value.context["size"] == 10
            assert f"{store.uri}/short" in str(caught.value)
            with pytest.raises(CorruptFileError):
                reader.read_many([(0, 2), wanted, (4, 4)])

    def test_tail(self, store: Store) -> None:
        store.put("f", b"0123456789")
        assert store.tail("f", 4) == (pa.py_buffer(b"6789"), 10)
        assert store.tail("f", 400) == (pa.py_buffer(b"0123456789"), 10)

    def test_sink(self, store: Store) -> None:
        block = np.random.default_rng(1).bytes(3_000_000)
        sink = store.create("data/new.lance")
        for _ in range(7):
            sink.write(block)
        sink.write(pa.py_buffer(b"footer"))
        assert sink.tell() == 7 * len(block) + 6
        sink.close()
        sink.close()
        sink.abort()
        assert store.read("data/new.lance").to_pybytes() == block * 7 + b"footer"

    @pytest.mark.parametrize("size", [10, 20_000_000])
    def test_an_aborted_sink_leaves_nothing(self, store: Store, size: int) -> None:
        sink = store.create("data/half.lance")
        sink.write(bytes(size))
        sink.abort()
        sink.abort()
        assert store.list_tree() == []

    def test_listing(self, store: Store) -> None:
        assert store.list_names("") == []
        assert store.list_tree() == []
        for name in ["a/1", "a/2", "a/3/deep", "ab/4", "top"]:
            store.put(name, name.encode())
        assert {"1", "2"} <= set(store.list_names("a")) <= {"1", "2", "3"}
        assert "top" in store.list_names("")
        tree = {info.name: info.size for info in store.list_tree()}
        assert tree == {"a/1": 3, "a/2": 3, "a/3/deep": 8, "ab/4": 4, "top": 3}
        assert {info.name for info in store.list_tree("a")} == {"a/1", "a/2", "a/3/deep"}

    def test_times_are_seconds_since_the_epoch(self, store: Store) -> None:
        import time

        before = time.time()
        store.put("a", b"")
        (info,) = store.list_tree()
        # stores count in seconds, or by a clock that ticks more slowly
        assert before - 2 <= info.modified <= time.time() + 2

    def test_many_names(self, store: Store) -> None:
        names = [f"{number}.manifest" for number in range(150)]
        for name in names:
            store.put(f"_versions/{name}", b"")
        assert sorted(store.list_names("_versions")) == sorted(names)
        store.delete_tree("_versions")
        assert store.list_tree() == []

    def test_first_names(self, store: Store) -> None:
        """The first name in order, at least; of many names, by one request."""
        assert (list(store.first_names("nope").names), store.first_names("nope").whole) == (
            [],
            True,
        )
        for number in (3, 1, 2):
            store.put(f"_versions/{number}.manifest", b"x")
        page = store.first_names("_versions")
        assert sorted(page.names) == ["1.manifest", "2.manifest", "3.manifest"]
        assert page.whole
        assert set(page.marks) <= set(page.names)

    def test_marks_tell_objects_apart(self, store: Store) -> None:
        """Where there are marks: one object, one mark; another of its name has another."""
        assert store.mark("_versions/1.manifest") is None
        seen = set()
        for content in (b"one", b"other"):
            store.put("_versions/1.manifest", content)
            page = store.first_names("_versions")
            marks = (store.mark("_versions/1.manifest"), page.marks.get("1.manifest"))
            assert marks == (
                store.mark("_versions/1.manifest"),
                store.first_names("_versions").marks.get("1.manifest"),
            )
            assert any(marks)
            seen.add(marks)
            store.delete("_versions/1.manifest")
        assert len(seen) == 2

    @pytest.mark.parametrize("absent", [False, True])
    def test_who_puts_an_object_knows_its_mark(self, store: Store, absent: bool) -> None:
        name = "_versions/1.manifest"
        assert store.mark_of_put(name) is None
        assert store.put_if_absent(name, b"one") if absent else store.put(name, b"one") is None
        listed = store.first_names("_versions").marks.get("1.manifest")
        assert store.mark_of_put(name) == (listed or store.mark(name)) is not None
        if absent:
            assert not store.put_if_absent(name, b"other")
            assert store.mark_of_put(name) == (listed or store.mark(name))

    def test_a_stamp_changes_with_the_names(self, store: Store) -> None:
        """There is none, or every name that is added or removed changes it."""
        store.put("_versions/1", b"")
        store.put("_versions/hint", b"")
        before = store.stamp("_versions")
        store.put("_versions/2", b"")
        assert store.stamp("_versions") is None or store.stamp("_versions") != before
        assert store.stamp("nope") is None

    def test_a_hint_may_shrink(self, store: Store) -> None:
        for content in (b'{"version":10}', b'{"version":9}'):
            store.put_hint("_versions/hint.json", content)
        if store.exists("_versions/hint.json"):
            assert store.read("_versions/hint.json").to_pybytes() == b'{"version":9}'

    def test_delete(self, store: Store) -> None:
        store.put("a/1", b"")
        store.put("a/2", b"")
        store.put("ab", b"")
        store.delete("a/1")
        assert store.list_names("a") == ["2"]
        store.delete_tree("a")
        assert [info.name for info in store.list_tree()] == ["ab"]
        store.delete_tree("")
        assert store.list_tree() == []

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_odd_names(self, store: Store, name: str) -> None:
        assert store.put_if_absent(name, b"x")
        assert store.exists(name)
        assert store.read(name).to_pybytes() == b"x"
        folder, _, bare = name.rpartition("/")
        assert store.list_names(folder) == [bare]
        assert [info.name for info in store.list_tree()] == [name]
        store.delete(name)
        assert not store.exists(name)

    @pytest.mark.parametrize("name", BAD_NAMES)
    def test_names_that_leave_the_store_are_refused(self, store: Store, name: str) -> None:
        calls = [
            store.open,
            store.read,
            store.exists,
            store.delete,
            store.create,
            lambda name: store.put(name, b""),
            lambda name: store.put_if_absent(name, b""),
            lambda name: store.tail(name, 1),
        ]
        if name:
            calls += [
                store.first_names,
                store.child,
                store.list_names,
                store.list_tree,
                store.delete_tree,
            ]
        for call in calls:
            with pytest.raises(InvalidArgumentError) as caught:
                call(name)
            assert caught.value.context["name"] == name
        assert store.list_tree() == []

    def test_an_object_of_a_sub_folder_is_adopted(self, store: Store) -> None:
        child = store.child("tree/exp")
        child.put("data/a", b"bytes")
        assert store.adopt("data/b", child, "data/a")
        child.delete_tree("")
        assert store.read("data/b").to_pybytes() == b"bytes"
        assert store.adopt("c", store, "data/b")
        assert sorted(info.name for info in store.list_tree()) == ["c", "data/b"]
        with pytest.raises(FileNotFoundError):
            store.adopt("d", store, "nowhere")
        with pytest.raises(InvalidArgumentError):
            store.adopt("../d", store, "c")
        with pytest.raises(InvalidArgumentError):
            store.adopt("d", store, "../c")

    def test_child(self, store: Store) -> None:
        child = store.child("tree/exp")
        assert child.uri == f"{store.uri}/tree/exp"
        assert child.put_if_absent("_versions/1", b"x")
        assert store.read("tree/exp/_versions/1").to_pybytes() == b"x"
        assert [info.name for info in child.list_tree()] == ["_versions/1"]
        assert child.child("_versions").list_names("") == ["1"]
        assert child == store.child("tree").child("exp")
        assert hash(child) == hash(store.child("tree/exp"))
        assert child != store

    def test_pickled(self, store: Store) -> None:
        store.put("a", b"x")
        again = pickle.loads(pickle.dumps(store.child("")))
        assert again == store
        assert again.uri == store.uri
        assert again.read("a").to_pybytes() == b"x"
