"""The first read of a key in a process: it loads nothing that takes longer than the read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lancekit as lk
from tests.support.shards import SHARD

PROGRAM = """
import sys
import lancekit as lk
whole, parts = (lk.dataset(path) for path in sys.argv[1:3])
found = whole.to_table(filter="id = 17", include_mem_wal=True)
assert found.select(["v"]).column(0)[0].as_py() == "generation 9", found
assert parts.to_table(filter="id = 'k3' AND b = 0", include_mem_wal=True).num_rows == 1
assert parts.count_rows("id = 'k5' AND b = 2", include_mem_wal=True) == 0
print(*[name for name in ("pandas", "sqlglot") if name in sys.modules])
"""


def test_the_first_read_of_a_key_loads_neither_pandas_nor_sqlglot(tmp_path: Path) -> None:
    with lk.options(fsync=False):
        whole = lk.write_dataset(
            {"id": range(1000), "v": ["table"] * 1000}, tmp_path / "whole", primary_key="id"
        )
        whole.initialize_mem_wal()
        for number in range(10):
            with whole.mem_wal_writer(SHARD) as writer:
                ids = range(10 * number % 20, 10 * number + 20)
                writer.put({"id": ids, "v": [f"generation {number}"] * len(ids)})
        # a key of two columns, deleted rows, and rows that are in the log alone
        rows = {"id": [f"k{n}" for n in range(20)], "b": [n % 3 for n in range(20)]}
        parts = lk.write_dataset(rows, tmp_path / "parts", primary_key=["id", "b"])
        parts.initialize_mem_wal()
        for _ in range(2):
            with parts.mem_wal_writer(SHARD) as writer:
                writer.put(rows)
                writer.put(rows)
                writer.delete({"id": ["k5"], "b": [2]})
        parts.mem_wal_writer(SHARD).put({"id": ["k3"], "b": [0]})
    given = [sys.executable, "-c", PROGRAM, str(tmp_path / "whole"), str(tmp_path / "parts")]
    done = subprocess.run(given, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("", 0), done.stderr
