"""Look-ups of single keys, against a plain model."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._operations.mem_wal.reader.sources import newest_read_set
from lancekit._pylance.lsm_planners import look_up
from lancekit._scan.outputs import plan_columns
from tests.support.remembering import all_remembered, small_blocks
from tests.support.shard_model import ShardedTable


@pytest.mark.parametrize(("pairs", "indexed"), [(False, False), (False, True), (True, True)])
def test_each_key_gives_its_newest_row_or_none(tmp_path: Path, pairs: bool, indexed: bool) -> None:
    table = ShardedTable(tmp_path / "d", Random(11), pairs=pairs)
    if indexed:
        lk.dataset(table.path).create_scalar_index("id", "BTREE")
    for _ in range(30):
        table.step()
    wanted, of = table.rows(), newest_read_set(lk.dataset(table.path)._location)
    assert of.parts
    outputs = plan_columns(of.base.manifest.schema, None)
    types = [table.schema.field(name).type for name in table.keys]
    time.sleep(0.1)  # then all is remembered, bounds of blocks too, by which others are left out
    with all_remembered(), small_blocks(128):
        for number in [*range(60), *range(-2, 60)]:
            row = {"id": number, "name": f"n{number % 3}"}
            key = tuple(pa.array([row[n]], t) for n, t in zip(table.keys, types, strict=True))
            found = look_up(of, key, outputs).to_pylist()
            assert found == [wanted[k] for k in [table.key(row)] if k in wanted]
