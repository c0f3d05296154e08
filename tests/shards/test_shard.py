"""Which shards there are."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from lancekit._format.mem_wal.names import LOGS
from lancekit._shards.schema import shard_of, shards_of
from lancekit._storage.base import Store
from lancekit._storage.local import LocalStore
from lancekit._storage.places import open_store
from tests.support.shards import SHARD, rows, with_shards


def test_shards_of_the_reference_are_listed(tmp_path: Path) -> None:
    ds = with_shards(tmp_path / "t")
    store = LocalStore(tmp_path / "t")
    assert shards_of(store) == []
    other = str(uuid.UUID(int=3))
    for shard in (SHARD, other):
        with ds.mem_wal_writer(shard) as writer:
            writer.put(rows(4))
    for foreign in ("x", str(uuid.UUID(int=9)).replace("-", ""), "{" + str(uuid.UUID(int=8)) + "}"):
        (tmp_path / "t" / LOGS / foreign).mkdir()
    (tmp_path / "t" / LOGS / str(uuid.UUID(int=10))).symlink_to(tmp_path)
    (tmp_path / "t" / LOGS / str(uuid.UUID(int=11))).write_text("")
    assert [str(one.id) for one in shards_of(store)] == [other, SHARD]
    assert shards_of(store)[1] == shard_of(store, uuid.UUID(SHARD))


@pytest.mark.parametrize("uri", ["{}", "memory://shards-of"])
def test_folders_are_listed_in_every_store(tmp_path: Path, uri: str) -> None:
    store: Store = open_store(uri.format(tmp_path / "d"))
    assert store.list_folders(LOGS) == []
    assert store.list_folders("") == []
    for name in ("a/x", "a/y/z", "b/x", "c"):
        store.put(f"{LOGS}/{name}", b"1")
    assert sorted(store.list_folders(LOGS)) == ["a", "b"]
    assert store.child(LOGS).list_folders("a") == ["y"]
    assert store.list_folders("") == [LOGS]
