"""How a shard is taken: epochs, sentinels, what is replayed, and damage that nothing hides."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import lancekit as lk
from lancekit._format.mem_wal.names import WAL, entry_name
from lancekit._format.mem_wal.shard_manifest import ShardFieldValue
from lancekit._operations.mem_wal import claim as claiming
from lancekit._operations.mem_wal.claim import Claim, claim
from lancekit._shards.entry import encode_entry, read_entry
from lancekit._shards.log import positions, put_entry, replayable
from lancekit._shards.manifests import change, latest
from lancekit._shards.schema import Shard, wal_schema
from lancekit._storage.local import LocalStore
from lancekit.errors import CorruptFileError, FencedError, ShardError
from tests.support.shards import SHARD, newest, opened, rows, with_shards


def begun(path: Path, entries: int = 3) -> tuple[Any, Shard, Any]:
    """Return a table whose shard the reference began, and left without a flush; and the schema."""
    ds = with_shards(path)
    writer = ds.mem_wal_writer(SHARD)
    for number in range(entries):
        writer.put(rows(10 + number))
    schema = wal_schema(lk.dataset(path)._snapshot.manifest.schema)
    return writer, opened(path), schema


def ids(claimed: Claim) -> list[int]:
    return [
        number
        for table in claimed.memtables
        for batch in table.batches
        for number in batch["id"].to_pylist()
    ]


def test_a_new_shard_comes_after_what_is_inherited(tmp_path: Path) -> None:
    _, _, schema = begun(tmp_path / "t", 0)
    shard = opened(tmp_path / "t", "00000000-0000-0000-0000-000000000008")
    value = (ShardFieldValue("bucket", b"\1\0\0\0"),)
    claimed = claim(shard, schema, merged=4, spec_id=1, values=value)
    assert (claimed.epoch, claimed.position, positions(shard)) == (1, 1, [])
    manifest = latest(shard)
    assert manifest is not None
    assert (manifest.current_generation, manifest.field_values) == (5, value)
    assert (manifest.spec_id, manifest.version) == (1, 1)
    assert claimed.memtables[-1].generation == 5
    assert claim(shard, schema, merged=4).epoch == 2
    with pytest.raises(ShardError, match="all up to 5"):
        claim(shard, schema, merged=5)


def test_what_the_reference_left_is_replayed(tmp_path: Path) -> None:
    writer, shard, schema = begun(tmp_path)
    claimed = claim(shard, schema)
    assert (claimed.epoch, claimed.position, ids(claimed)) == (2, 5, [10, 11, 12])
    assert read_entry(shard, 4).sentinel
    assert newest(tmp_path).last_seen == 4
    with pytest.raises(OSError, match="fenced"):
        writer.put(rows(13))
    assert positions(shard) == [1, 2, 3, 4]


def test_what_the_reference_did_not_flush_is_flushed_before_more_is_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, shard, schema = begun(tmp_path)
    flushed: list[str] = []
    monkeypatch.setattr(LocalStore, "flush", lambda _, name: flushed.append(name))
    claimed = claim(shard, schema)
    assert flushed == [entry_name(at) for at in (1, 2, 3)]
    batches = claimed.memtables[-1].batches
    put_entry(shard, 5, encode_entry(schema, batches, claimed.epoch, 1))
    flushed.clear()
    claim(shard, schema)  # ours are flushed when they are put
    assert flushed == [entry_name(at) for at in (1, 2, 3)]


def test_who_lost_the_shard_while_it_replayed_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its successor may have brought the log into a generation, and collected it."""
    _, shard, schema = begun(tmp_path)

    def late(*given: Any) -> Any:
        monkeypatch.undo()
        with lk.dataset(tmp_path).mem_wal_writer(SHARD) as successor:
            successor.put(rows(20))
        lk.dataset(tmp_path).cleanup_mem_wal(grace=timedelta(0))
        return replayable(*given)

    monkeypatch.setattr(claiming, "replayable", late)
    with pytest.raises(FencedError):
        claim(shard, schema)


@pytest.mark.parametrize("left", [0, 1, 60])
def test_case_3_a_torn_last_entry_is_healed(tmp_path: Path, left: int) -> None:
    _, shard, schema = begun(tmp_path)
    whole = bytes(shard.store.read(entry_name(3)))
    shard.store.put(entry_name(3), whole[: len(whole) - 8 if left == 60 else left])
    with pytest.warns(UserWarning, match="is torn"):
        claimed = claim(shard, schema)
    assert (claimed.healed, ids(claimed), claimed.position) == (3, [10, 11], 5)
    assert [read_entry(shard, at).sentinel for at in (1, 2, 3, 4)] == [False, False, True, True]
    again = claim(shard, schema)
    assert (again.healed, ids(again)) == (None, [10, 11])


@pytest.mark.parametrize("damage", ["torn", "missing"])
def test_case_4_and_5_damage_in_the_middle_is_named(tmp_path: Path, damage: str) -> None:
    _, shard, schema = begun(tmp_path)
    if damage == "torn":
        shard.store.put(entry_name(2), bytes(shard.store.read(entry_name(2)))[:100])
    else:
        shard.store.delete(entry_name(2))
    before = {at: bytes(shard.store.read(entry_name(at))) for at in positions(shard)}
    for _ in range(2):
        with pytest.raises(CorruptFileError, match="Entry 2 "):
            claim(shard, schema)
    after = {at: bytes(shard.store.read(entry_name(at))) for at in positions(shard)}
    assert {at: after.get(at) for at in before} == before
    assert sorted(set(after) - set(before)) == [4, 5]  # sentinels


def test_case_6_foreign_files_do_not_matter(tmp_path: Path) -> None:
    _, shard, schema = begun(tmp_path)
    folder = tmp_path / "_mem_wal" / SHARD / WAL
    name = Path(entry_name(9)).name
    for foreign in ("readme", f"{name}.tmp.0a1b", f"{name}#1", f".tmp-{name}"):
        (folder / foreign).write_bytes(b"?")
    assert ids(claim(shard, schema)) == [10, 11, 12]


def test_case_8_two_claims_at_once(tmp_path: Path) -> None:
    _, shard, schema = begun(tmp_path)
    for _ in range(5):
        start, outcomes = threading.Barrier(4), []

        def take(start: threading.Barrier = start, outcomes: list[object] = outcomes) -> None:
            start.wait()
            try:
                outcomes.append(claim(shard, schema).epoch)
            except FencedError as error:
                outcomes.append(error)

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        epochs = [one for one in outcomes if isinstance(one, int)]
        assert len(outcomes) == 4
        assert epochs
        assert len(set(epochs)) == len(epochs)
    assert ids(claim(shard, schema)) == [10, 11, 12]


def test_case_10_an_entry_between_claim_and_sentinel_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, shard, schema = begun(tmp_path)
    late = rows(77).append_column("_tombstone", [[False]]).cast(schema).to_batches()

    def put_late(shard: Shard, number: int, data: bytes) -> bool:
        if number == 4:
            assert put_entry(shard, 4, encode_entry(schema, late, 1, 1))
        return put_entry(shard, number, data)

    monkeypatch.setattr("lancekit._operations.mem_wal.claim.put_entry", put_late)
    claimed = claim(shard, schema)
    assert (ids(claimed), claimed.position) == ([10, 11, 12, 77], 6)


def test_another_claim_meanwhile_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, shard, schema = begun(tmp_path)
    taken = []

    def put_late(shard: Shard, number: int, data: bytes) -> bool:
        monkeypatch.undo()
        taken.append(claim(shard, schema))
        return put_entry(shard, number, data)

    monkeypatch.setattr("lancekit._operations.mem_wal.claim.put_entry", put_late)
    with pytest.raises(FencedError):
        claim(shard, schema)
    assert taken[0].epoch == 3


def test_a_drain_meanwhile_is_no_rival(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, shard, schema = begun(tmp_path)

    def drained_first(shard: Shard, manifest: Any) -> bool:
        monkeypatch.undo()
        change(shard, None, lambda newest: replace(newest, last_seen=1))
        return False

    monkeypatch.setattr("lancekit._operations.mem_wal.claim.put_next", drained_first)
    assert claim(shard, schema).epoch == 2


def test_case_26_a_sealed_shard_is_refused(tmp_path: Path) -> None:
    _, shard, schema = begun(tmp_path)
    change(shard, None, lambda newest: replace(newest, status=1))
    with pytest.raises(ShardError, match="is sealed"):
        claim(shard, schema)
    assert positions(shard) == [1, 2, 3]


def test_who_was_killed_before_his_first_manifest_is_in_nobodys_way(tmp_path: Path) -> None:
    with_shards(tmp_path / "t")
    shard = opened(tmp_path / "t")
    LocalStore(tmp_path / "t").put(f"_mem_wal/{SHARD}/manifest/.tmp-1", b"half of a mani")
    assert latest(shard) is None
    ds = lk.dataset(tmp_path / "t")
    assert ds.to_table(include_mem_wal=True).num_rows == ds.count_rows()
    assert ds.mem_wal_shards() == []
    ds.merge_mem_wal()
    ds.cleanup_mem_wal(grace=timedelta(0))
    with ds.mem_wal_writer(SHARD) as writer:
        writer.put(rows(50))
    assert ds.count_rows(include_mem_wal=True) == ds.count_rows() + 1
