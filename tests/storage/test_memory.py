import pickle
import uuid

import pytest

from lancekit.errors import StorageError
from lancekit.storage import ObstoreStore, open_store
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
