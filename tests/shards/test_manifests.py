"""The newest manifest, and the next one."""

from __future__ import annotations

import json
import threading
import uuid
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from lancekit._format.mem_wal.names import MANIFEST_HINT, manifest_name
from lancekit._format.mem_wal.shard_manifest import (
    ShardManifest,
    SsTable,
    encode_shard_manifest,
)
from lancekit._shards import manifests
from lancekit._shards.manifests import change, latest, put_next
from lancekit._shards.schema import Shard, shard_of
from lancekit._storage.local import LocalStore
from lancekit._storage.places import open_store
from lancekit.errors import CorruptFileError, FencedError, RetriesExhaustedError, ShardError
from tests.support.shards import SHARD, newest, opened, rows, with_shards

FIRST = ShardManifest(shard=UUID(int=7), version=1, writer_epoch=1)


def made(path: Path, versions: int) -> Shard:
    shard = shard_of(LocalStore(path), FIRST.shard)
    for version in range(1, versions + 1):
        assert put_next(shard, replace(FIRST, version=version))
    return shard


@pytest.mark.parametrize("versions", [1, 3, 40])
def test_case_7_hints_do_not_matter(tmp_path: Path, versions: int) -> None:
    shard = made(tmp_path, versions)
    hint = tmp_path / "_mem_wal" / SHARD / MANIFEST_HINT
    assert json.loads(hint.read_text()) == {"version": versions}
    for text in (
        *("", "0", "{}", '{"version":"1"}', '{"version":-1}', '{"version":true}', "\0"),
        *(json.dumps({"version": number}) for number in (0, 1, 2, versions, 99, 1 << 70)),
        *("[" * 5000, '{"version":1.5}', "9" * 2000),
    ):
        hint.write_text(text)
        assert latest(shard) == replace(FIRST, version=versions), text
    hint.unlink()
    assert latest(shard) == replace(FIRST, version=versions)


def test_case_6_other_files_do_not_matter(tmp_path: Path) -> None:
    shard = made(tmp_path, 2)
    for name in ("manifest/x", f"{manifest_name(9)}.tmp.0a", f"{manifest_name(9)}#1"):
        shard.store.put(name, b"1")
    assert latest(shard) == replace(FIRST, version=2)
    assert latest(shard_of(LocalStore(tmp_path), uuid.UUID(int=1))) is None


@pytest.mark.parametrize("data", [b"", b"\xff", encode_shard_manifest(FIRST)])
def test_a_damaged_newest_one_is_an_error(tmp_path: Path, data: bytes) -> None:
    shard = made(tmp_path, 2)
    shard.store.put(manifest_name(3), data)
    with pytest.raises(CorruptFileError, match=manifest_name(3)[:20]):
        latest(shard)


def test_one_of_many_puts_a_version(tmp_path: Path) -> None:
    for store in (LocalStore(tmp_path), open_store("memory://manifests")):
        shard = shard_of(store, FIRST.shard)
        won = [put_next(shard, replace(FIRST, writer_epoch=epoch)) for epoch in (1, 2)]
        assert won == [True, False]
        assert latest(shard) == FIRST


def test_changes_of_many_all_land(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "_ATTEMPTS", 100)
    shard = made(tmp_path, 1)

    def add(number: int) -> None:
        table = SsTable(number, f"{number:08x}_gen_{number}")
        change(shard, 1, lambda found: replace(found, sstables=(*found.sstables, table)))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = latest(shard)
    assert found is not None
    assert (found.version, {one.generation for one in found.sstables}) == (9, {*range(1, 9)})


def test_who_may_change_what(tmp_path: Path) -> None:
    shard = made(tmp_path, 1)
    assert change(shard, 1, lambda _: None) == FIRST  # nothing to do
    assert change(shard, None, lambda found: found).version == 2
    for epoch in (0, 2):
        with pytest.raises(FencedError, match=f"{SHARD}.* this writer has {epoch}"):
            change(shard, epoch, lambda found: found)
    with pytest.raises(ShardError, match="no manifest"):
        change(shard_of(LocalStore(tmp_path), uuid.UUID(int=1)), 1, lambda found: found)

    def too_late(found: ShardManifest) -> ShardManifest:
        put_next(shard, replace(found, version=found.version + 1))
        return found

    with pytest.raises(RetriesExhaustedError):
        change(shard, 1, too_late)


def test_the_reference_goes_on_from_ours(tmp_path: Path) -> None:
    ds = with_shards(tmp_path)
    with ds.mem_wal_writer(SHARD) as writer:
        writer.put(rows(4))
    sealed = change(opened(tmp_path), 1, lambda found: replace(found, status=1))
    with pytest.raises(OSError, match="sealed"):
        ds.mem_wal_writer(SHARD)
    change(opened(tmp_path), None, lambda found: replace(found, status=0))
    with ds.mem_wal_writer(SHARD) as writer:
        writer.put(rows(5))
    found = newest(tmp_path)
    assert found.version == sealed.version + 4  # ours, then claim, replay, flush
    assert [one.generation for one in found.sstables] == [1, 2]
