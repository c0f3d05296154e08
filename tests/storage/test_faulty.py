"""The store that fails on purpose keeps the contract as long as it does not fail."""

from __future__ import annotations

import uuid

import pytest

from lancekit._storage.base import Store
from lancekit._storage.places import open_store
from lancekit.errors import StorageError
from tests.storage.contract import StoreContract
from tests.support.faults import MODES, Crash, Faults, FaultyStore, Mode


class TestFaultyLocal(StoreContract):
    @pytest.fixture
    def store(self, tmp_path) -> Store:
        return FaultyStore(open_store(tmp_path / "t"), Faults())


class TestFaultyS3(StoreContract):
    @pytest.fixture
    def store(self, s3) -> Store:
        store = open_store(f"s3://{s3.bucket}/{uuid.uuid4()}", s3.storage_options)
        yield FaultyStore(store, Faults())
        store.delete_tree("")


def _write(store: Store) -> None:
    store.put("a/put", b"12345678")
    store.put_if_absent("a/new", b"12345678")
    sink = store.create("a/sink")
    try:
        sink.write(b"1234")
        sink.write(b"5678")
        sink.close()
    except StorageError:
        sink.abort()
        raise
    store.delete("a/put")
    store.delete_tree("a")


CALLS = ["put", "put_if_absent", "create", "sink.write", "sink.write", "sink.close"]
CALLS += ["delete", "delete_tree"]


@pytest.mark.parametrize("mode", Mode)
def test_each_call_fails_as_told(tmp_path, mode: Mode) -> None:
    faults = Faults()
    _write(FaultyStore(open_store(tmp_path / "whole"), faults))
    assert [call.kind for call in faults.calls] == CALLS
    for number, kind in enumerate(CALLS, start=1):
        if mode not in MODES[kind]:
            continue
        real = open_store(tmp_path / str(number))
        faults = Faults(number, mode)
        dies = mode in {Mode.TORN, Mode.CRASH}
        with pytest.raises(Crash if dies else StorageError, match=mode.value):
            _write(FaultyStore(real, faults))
        aborted = kind.startswith("sink") and not dies
        assert len(faults.calls) == number + aborted
        found = {info.name: info.size for info in real.list_tree()}
        left_aside = [name for name in found if "/.tmp-" in name]
        assert bool(left_aside) == (mode is Mode.TORN and kind.startswith("put"))
        if kind == "put":
            assert ("a/put" in found) == (mode in {Mode.LOST, Mode.CRASH})
        if kind == "put_if_absent":
            assert ("a/new" in found) == (mode in {Mode.LOST, Mode.CRASH})
        if kind == "delete_tree":
            assert len(found) == {Mode.REFUSED: 2, Mode.TORN: 1}.get(mode, 0)
        if dies:
            with pytest.raises(Crash):
                FaultyStore(real, faults).read("a/put")


def test_another_writer_can_be_let_in(tmp_path) -> None:
    real = open_store(tmp_path)
    faults = Faults(before=lambda call: real.put("a", b"theirs"))
    assert FaultyStore(real, faults).put_if_absent("a", b"mine") is False
