"""pylance is killed while it writes to a shard, and lancekit goes on from there."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from tests.support.shards import SHARD, keyed

SCHEMA = keyed(pa.schema({"id": pa.int64(), "v": pa.int64(), "text": pa.string()}), "id")

#: puts and deletes until it is killed, and says before and after what it does
WRITER = """
import json, random, sys
import lance, pyarrow as pa
path, shard, seed = sys.argv[1:]
rng = random.Random(int(seed))
ds = lance.dataset(path)
# small memtables, of which one becomes a generation at every few puts
rows = rng.choice([8, 30])
writer = ds.mem_wal_writer(shard, max_wal_flush_interval_ms=1, max_memtable_rows=rows)
print("open", flush=True)
while True:
    ids = rng.sample(range(30), rng.randint(1, 5))
    value = None if rng.random() < 0.2 else rng.randrange(10**9)
    print(json.dumps([ids, value]), flush=True)
    if value is None:
        writer.delete(pa.table({"id": ids}, schema=pa.schema([ds.schema.field("id")])))
    else:
        table = [ids, [value] * len(ids), ["snow"] * len(ids)]
        writer.put(pa.table(table, schema=ds.schema))
    print("done", flush=True)
"""

State = dict[int, int]


def changed(state: State, ids: list[int], value: int | None) -> State:
    left = {key: known for key, known in state.items() if key not in ids}
    return left if value is None else left | dict.fromkeys(ids, value)


def killed(path: Path, random: Random, state: State) -> tuple[State, State]:
    """Return what a writer that was killed acknowledged, and the same with what it had begun."""
    command = [sys.executable, "-c", WRITER, str(path), SHARD, str(random.randrange(10**9))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        time.sleep(random.choice([0.0, 0.01, 0.05, 0.2]) * random.random())
        writer.kill()
        lines = writer.stdout.read().split("\n")[:-1]  # one that is cut off says nothing
    begun = state
    for line in lines:
        if line == "done":
            state = begun
        else:
            begun = changed(state, *json.loads(line))
    return state, begun


def found(rows: Any) -> State:
    keys = rows["id"].to_pylist()
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, rows["v"].to_pylist(), strict=True))


@pytest.mark.torture
def test_lancekit_goes_on_where_pylance_was_killed(tmp_path: Path, whole: bool) -> None:
    random, path = Random(5), tmp_path / "d"
    ds = lance.write_dataset(pa.table([[0], [0], ["snow"]], schema=SCHEMA), str(path))
    ds.create_scalar_index("v", "BTREE")
    ds.create_scalar_index("text", "INVERTED")
    ds.initialize_mem_wal()
    state: State = {0: 0}
    for number in range(100 if whole else 3):
        acknowledged, begun = killed(path, random, state)
        state = found(lk.dataset(path).to_table(include_mem_wal=True))
        assert state in (acknowledged, begun)
        with lk.dataset(path).mem_wal_writer(SHARD) as writer:
            assert found(writer.lsm_scanner().to_table()) == state
            ids = random.sample(range(30), 3)
            writer.put(pa.table([ids, [number] * 3, ["rain"] * 3], schema=SCHEMA))
            writer.delete({"id": ids[:1]})
        state = changed(changed(state, ids, number), ids[:1], None)
        if number % 3 == 1:
            lk.dataset(path).merge_mem_wal()
            lk.dataset(path).cleanup_mem_wal(grace=timedelta(0))
        ours = lk.dataset(path)
        assert found(ours.to_table(include_mem_wal=True)) == state
        rain = ours.to_table(full_text_query="rain", include_mem_wal=True)
        assert state.items() >= found(rain).items() >= dict.fromkeys(ids[1:], number).items()
    lk.dataset(path).merge_mem_wal()
    assert found(lance.dataset(str(path)).to_table()) == state
