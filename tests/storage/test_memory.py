import pickle
import uuid

import pytest

from lancekit._storage.objects import ObstoreStore
from lancekit._storage.places import emptied, open_store
from lancekit.errors import StorageError
from tests.storage.contract import StoreContract


class TestMemory(StoreContract):
    @pytest.fixture
    def store(self):
        store = open_store(f"memory://{uuid.uuid4()}/table.lance")
        yield store
        store.delete_tree("")

    def test_pickled(self, store):
        with pytest.raises(StorageError, match="memory of one process") as caught:
            pickle.dumps(store)
        assert caught.value.context["path"] == store.uri
        assert "object store" in caught.value.hint


def test_one_memory_for_the_process():
    open_store("memory://shared").put("a/b", b"x")
    assert open_store("memory://shared/a/").read("b").to_pybytes() == b"x"
    assert open_store("memory:///shared/a").read("b").to_pybytes() == b"x"
    assert open_store("memory://shared2").list_tree() == []
    assert isinstance(open_store("memory://"), ObstoreStore)
    open_store("memory://shared").delete_tree("")


def test_a_place_begun_anew_is_empty_and_open_stores_keep_what_they_have():
    old, beside = open_store("memory://anew/a b"), open_store("memory://anew/a bc")
    for store in (old, beside):
        store.put("x/y", b"old")
    new = emptied(old)
    assert new.list_tree() == []
    assert old != new
    new.child("x").put("y", b"new")
    for uri in ("memory://anew/a%20b/x", "memory:///anew/a b/x/"):
        assert open_store(uri).read("y").to_pybytes() == b"new"
    assert [old.child("x").read("y"), beside.read("x/y")] == [b"old", b"old"]
    assert [entry.name for entry in old.list_tree()] == ["x/y"]
    assert emptied(new).list_tree() == []
    assert new.read("x/y").to_pybytes() == b"new"
