"""What is told of a merge of generations is what it does."""

from __future__ import annotations

import uuid
from pathlib import Path

import lance

import lancekit as lk
from tests.support.mem_wal_model import table_of, write_with_pylance
from tests.support.trees import tree_hash

ONE, TWO = (str(uuid.UUID(int=number)) for number in (1, 2))


def test_what_is_told_is_done(tmp_path: Path) -> None:
    table = table_of({key: (float(key), "") for key in range(20)})
    made = lance.write_dataset(table, str(tmp_path / "t"), max_rows_per_file=6)
    made.initialize_mem_wal(unsharded=True)
    for shard, first in ((ONE, 0), (TWO, 30)):
        for key in (first, first + 1):
            write_with_pylance(made, shard, {key: (-1.0, "")}, [key + 2])
    ds = lk.dataset(made.uri)
    before = tree_hash(tmp_path)
    told = ds.explain.merge_mem_wal(rows_per_commit=4)
    assert tree_hash(tmp_path) == before
    assert told.operation == "merge_mem_wal"
    assert told.reads is not None
    assert (told.reads.columns, told.reads.rows, told.reads.fragments) == (("id",), 20, 4)
    assert told.writes is not None
    assert told.writes.rows == 8
    assert "4 generations of 2 shards are also read" in told.notes
    one = ds.explain.merge_mem_wal([ONE])
    assert one.commits == ("Update",)
    done = ds.merge_mem_wal(rows_per_commit=4)
    assert told.commits == ("Update",) * done.commits == ("Update", "Update")
    assert told.engine == done.engine == "local"
    nothing = ds.explain.merge_mem_wal()
    assert nothing.commits == ()
    assert "no generation of 2 shards is waiting" in nothing.notes
