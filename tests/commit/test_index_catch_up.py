"""What the entry of shards says of the other indices, beside what pylance says in it."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance.mem_wal import CompactedSsTable

import lancekit as lk
from lancekit._format.mem_wal.details import details_of
from tests.support.mem_wal_model import table_of

ONE, TWO = (str(uuid.UUID(int=number)) for number in (1, 2))


def known(uri: str) -> dict[str, dict[str, int]]:
    """Return up to which generation indices are known to have caught up."""
    details = details_of(lk.dataset(uri)._snapshot.indices)
    assert details is not None
    return {
        one.index_name: {
            str(mark.shard_id): mark.generation for mark in one.generations if mark.generation
        }
        for one in details.caught_up
    }


def merge(uri: str, shard: str, key: int) -> None:
    """Merge a row as generation 1 of a shard."""
    clauses = lance.dataset(uri).merge_insert("id")
    clauses = clauses.when_matched_update_all().when_not_matched_insert_all()
    clauses = clauses.mark_sstables_as_compacted([CompactedSsTable(shard, 1)])
    clauses.execute(table_of({key: (1.0, "a")}))


def history(library: Any, uri: str) -> list[tuple[str, dict[str, dict[str, int]]]]:
    """Change a table step by step; return what was known after each."""
    schema = table_of({}).schema
    ds = lance.write_dataset(table_of({n: (float(n), str(n)) for n in range(50)}), uri)
    ds.create_scalar_index("v", "BTREE", name="vi")
    ds.create_scalar_index("s", "BITMAP", name="si")
    ds.initialize_mem_wal(unsharded=True)
    at = library.dataset
    row = table_of({60: (1.0, "x")})

    def optimize() -> None:
        at(uri).optimize.optimize_indices()

    steps: dict[str, Any] = {
        "merge": lambda: merge(uri, ONE, 1),
        "optimize one": lambda: at(uri).optimize.optimize_indices(index_names=["vi"]),
        "optimize": optimize,
        "append": lambda: library.write_dataset(row, uri, schema=schema, mode="append"),
        "delete": lambda: at(uri).delete("id = 3"),
        "update": lambda: at(uri).update({"v": "v + 1"}, where="id = 4"),
        "merge another": lambda: merge(uri, TWO, 60),
        "create": lambda: at(uri).create_scalar_index("id", "BTREE", name="ii"),
        "drop index": lambda: at(uri).drop_index("vi"),
        "optimize again": optimize,
        "add column": lambda: at(uri).add_columns(pa.field("d", pa.int32())),
        "drop column": lambda: at(uri).drop_columns(["s"]),
        "restore": lambda: library.dataset(uri, version=7).restore(),
    }
    found = []
    for name, step in steps.items():
        step()
        found.append((name, known(uri)))
    return found


def test_the_same_as_by_pylance(tmp_path: Path) -> None:
    theirs, ours = (history(each, str(tmp_path / each.__name__)) for each in (lance, lk))
    assert ours == theirs
    assert dict(ours)["create"] == {
        "ii": {ONE: 1, TWO: 1},
        "si": {ONE: 1},
        "vi": {ONE: 1},
    }


def test_indices_that_follow_a_compaction_stay_caught_up(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    ds = lance.write_dataset(table_of({n: (float(n), "") for n in range(20)}), uri)
    ds.initialize_mem_wal(unsharded=True)
    merge(uri, ONE, 30)
    lk.dataset(uri).create_scalar_index("id", "BTREE", name="ii")
    lk.dataset(uri).optimize.compact_files()  # pylance takes it back, though it covers all
    assert known(uri) == {"ii": {ONE: 1}}
    assert lance.dataset(uri).to_table(filter="id = 30").num_rows == 1


def test_empty_tables_earn_nothing(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    ds = lance.write_dataset(table_of({}), uri, schema=table_of({}).schema)
    ds.initialize_mem_wal(unsharded=True)
    merge(uri, ONE, 1)
    lk.dataset(uri).delete("true")
    lk.dataset(uri).create_scalar_index("id", "BTREE", name="ii")
    assert known(uri) == {}
