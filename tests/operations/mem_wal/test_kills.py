"""A merge and a cleanup that fail, or are killed, at every storage call in turn."""

from __future__ import annotations

import contextlib
import uuid
from datetime import timedelta
from pathlib import Path

import lance
import pytest

import lancekit as lk
from lancekit import errors
from lancekit._shards.manifests import latest
from lancekit._shards.schema import shards_of
from tests.support.faults import MODES, Crash, Faults, attempt_on_copy
from tests.support.mem_wal_model import Rows, table_of, write_with_pylance

SHARDS = [str(uuid.UUID(int=number)) for number in (1, 2)]


def prepare(path: Path) -> None:
    """Make a table with two shards, each of which has two generations."""
    base: Rows = {key: (float(key), str(key)) for key in range(8)}
    ds = lance.write_dataset(table_of(base), str(path), max_rows_per_file=3)
    ds.initialize_mem_wal(unsharded=True)
    for number in (1, 2):
        for at, shard in enumerate(SHARDS):
            rows: Rows = {at: (10.0 * number, None), 20 * number + at: (1.0, "new")}
            write_with_pylance(ds, shard, rows, [2 * number + at])


def work(path: Path) -> None:
    ds = lk.dataset(str(path))
    ds.merge_mem_wal(rows_per_commit=3)
    ds.cleanup_mem_wal(grace=timedelta(0))


def values(path: Path) -> dict[int, float | None]:
    table = lance.dataset(str(path)).to_table()
    assert table.num_rows == len(set(table["id"].to_pylist()))
    return dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


@pytest.mark.torture
def test_at_every_storage_call(tmp_path: Path, whole: bool) -> None:
    saved, path = tmp_path / "saved", tmp_path / "t"
    prepare(saved)

    def attempt(faults: Faults) -> None:
        attempt_on_copy(work, saved, path, faults)

    with lk.options(fsync=False):
        record = Faults()
        attempt(record)
        expected = values(path)
        assert expected == {
            0: 20.0,
            1: 20.0,
            6: 6.0,
            7: 7.0,
            **dict.fromkeys([20, 21, 40, 41], 1.0),
        }
        every = [Faults(c.number, mode) for c in record.calls for mode in MODES[c.kind]]
        assert len(every) > 100
        for faults in every if whole else every[:: len(every) // 12]:
            with contextlib.suppress(Crash, errors.StorageError, errors.CommitUnknownError):
                attempt(faults)
            seen = values(path)
            for key in seen:  # each row is what it was, or what it is to be
                assert seen[key] in {float(key), 10.0, 20.0, 1.0}, faults
            work(path)
            assert values(path) == expected, faults
            for shard in shards_of(lk.dataset(str(path))._snapshot.store):
                manifest = latest(shard)
                assert manifest is not None
                assert (manifest.sstables, manifest.current_generation) == ((), 3)
            assert not list(path.glob("_mem_wal/*/*_gen_*"))
        for shard in SHARDS:
            write_with_pylance(lance.dataset(str(path)), shard, {0: (5.0, "")}, [1])
            work(path)
        assert values(path)[0] == 5.0
