"""Snapshots of shards, as pylance has them."""

from __future__ import annotations

import pytest
from lance.mem_wal import ShardSnapshot as Theirs

from lancekit._api.lsm_scanner import ShardSnapshot
from lancekit.errors import InvalidArgumentError

SHARD = "6f9b1c0e-6f0a-4c5e-9d52-0f4d1c7a9a10"


@pytest.mark.parametrize("kind", [Theirs, ShardSnapshot])
def test_methods_change_it_and_return_it(kind: type) -> None:
    made = kind(SHARD)
    same = made.with_spec_id(1).with_current_generation(3).with_sstable(2, "0a1b2c3d_gen_2")
    assert same is made
    assert made.shard_id == SHARD
    assert "current_gen" in repr(made)


@pytest.mark.parametrize("kind", [Theirs, ShardSnapshot])
def test_what_is_no_shard_is_refused(kind: type) -> None:
    with pytest.raises(ValueError, match="shard_id"):
        kind("x")


@pytest.mark.parametrize("path", ["../x_gen_1", "/tmp/0a1b2c3d_gen_1", "manifest", ""])
def test_a_path_that_is_no_folder_of_a_generation_is_refused(path: str) -> None:
    with pytest.raises(InvalidArgumentError, match="path"):
        ShardSnapshot(SHARD).with_sstable(1, path)
