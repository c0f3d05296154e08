"""Parts are remembered by what tells their files: a reader that comes again opens what is new."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from random import Random

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._format.schema import LanceSchema
from lancekit._operations.mem_wal.reader import parts
from lancekit._operations.mem_wal.reader.sources import ReadSet, newest_read_set
from lancekit._shards.schema import Shard
from lancekit._versions.snapshot import Snapshot
from tests.support.remembering import all_remembered
from tests.support.shard_model import ShardedTable
from tests.support.shards import SHARD, keyed

SCHEMA = keyed(pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.int64())]), "id")


def rows(*pairs: tuple[int, int]) -> pa.Table:
    return pa.table({"id": [k for k, _ in pairs], "v": [v for _, v in pairs]}, schema=SCHEMA)


def put(ds: lk.LanceDataset, *pairs: tuple[int, int]) -> None:
    with ds.mem_wal_writer(SHARD) as writer:
        writer.put(rows(*pairs))


def test_only_what_is_new_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = lk.write_dataset(rows((1, 1), (2, 2)), tmp_path / "d")
    ds.initialize_mem_wal()
    opened: list[int] = []
    original = parts.open_generation

    def counted(shard: Shard, table: parts.SsTable, schema: LanceSchema) -> Snapshot:
        opened.append(table.generation)
        return original(shard, table, schema)

    monkeypatch.setattr(parts, "open_generation", counted)

    def read() -> tuple[ReadSet, list[int]]:
        time.sleep(0.1)  # files settle
        opened.clear()
        return newest_read_set(ds._location), list(opened)

    with all_remembered():
        put(ds, (1, 10))
        put(ds, (2, 20))
        first, new = read()
        assert new == [2, 1]
        again, new = read()
        assert (again.is_like(first), new) == (True, [])
        assert again.newest is first.newest
        put(ds, (3, 30))
        assert read()[1] == [3]
        assert dict(ds.to_table(include_mem_wal=True).to_pandas().values) == {1: 10, 2: 20, 3: 30}
        lk.dataset(ds.uri).insert(rows((4, 4)))  # another version may have other columns
        assert read()[1] == [3, 2, 1]
        # nothing of the handle that came first is kept open by what is remembered
        assert all(
            part.fragment.location.open_files is not ds._location.open_files for part in first.parts
        )
        ds.merge_mem_wal()
        assert not newest_read_set(ds._location).parts


def test_a_generation_that_is_put_in_the_place_of_another_is_seen(tmp_path: Path) -> None:
    with all_remembered():
        seen = []
        for name, value in (("one", 10), ("two", 77)):
            ds = lk.write_dataset(rows((1, 1)), tmp_path / name)
            ds.initialize_mem_wal()
            with lance.dataset(ds.uri).mem_wal_writer(SHARD) as writer:  # without a checksum
                writer.put(rows((1, value)))
        at = [
            next((tmp_path / name / "_mem_wal" / SHARD).glob("*_gen_1")) for name in ("one", "two")
        ]
        ds = lk.dataset(tmp_path / "one")
        for _ in range(2):
            time.sleep(0.1)
            seen.append(ds.to_table(include_mem_wal=True)["v"].to_pylist())
            shutil.rmtree(at[0])
            shutil.copytree(at[1], at[0])
        assert seen == [[10], [77]]


@pytest.mark.parametrize("seed", [1, 2])
def test_random_histories_read_the_same_when_all_is_remembered(tmp_path: Path, seed: int) -> None:
    table = ShardedTable(tmp_path / "d", Random(seed), pairs=seed == 2)
    with all_remembered():
        for step in range(24):
            table.step()
            if step % 4 == 0:
                time.sleep(0.05)
            for _ in range(2):
                found = lk.dataset(table.path).to_table(include_mem_wal=True)
                wanted = table.rows()
                assert {table.key(row): row for row in found.to_pylist()} == wanted
                assert found.num_rows == len(wanted)
