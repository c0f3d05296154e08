"""Files of pylance 4.0.0, and files of ours that it reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.file.columns import NULLS, VERSIONS, assert_same, columns, with_nulls
from tests.file.lance_io import open_ours, write_ours

WRITE = """
import lance.file
table = pa.ipc.open_file(arguments["table"]).read_all()
with lance.file.LanceFileWriter(arguments["out"], table.schema, version=arguments["version"]) as w:
    w.write_batch(table)
result = None
"""

READ = """
import lance.file
table = lance.file.LanceFileReader(arguments["file"]).read_all(batch_size=1 << 20).to_table()
with pa.ipc.new_file(arguments["out"], table.schema) as writer:
    writer.write_table(table)
result = None
"""


#: It knows no time zones that are offsets, and cannot read back lists whose items are all null.
BEYOND_IT = ("+05:30", "all items null")


def _table(rows: int, nulls: str) -> pa.Table:
    return pa.table(
        {
            name: with_nulls(array, nulls)
            for name, array in columns(rows)
            if not any(part in name for part in BEYOND_IT)
        }
    )


@pytest.mark.cover
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("nulls", NULLS)
def test_reads_its_files(
    tmp_path: Path, pylance4: Callable[..., Any], version: str, nulls: str
) -> None:
    table = _table(1500, nulls)
    with pa.ipc.new_file(tmp_path / "table.arrow", table.schema) as writer:
        writer.write_table(table)
    out = tmp_path / "a.lance"
    pylance4(WRITE, table=str(tmp_path / "table.arrow"), out=str(out), version=version)
    reader = open_ours(out.read_bytes())
    read = reader.read(reader.columns)
    for name in table.column_names:
        assert_same(read[name], table[name].combine_chunks(), f"{name} {version}")


def _runs(kind: str, lengths: Any, rows: int) -> pa.Array:
    """Values of many bits, repeated; packing them saves less than naming their runs does."""
    values = np.random.default_rng(rows).integers(0, 2**62, len(lengths)).astype(kind)
    return pa.array(np.repeat(values, lengths)[:rows])


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_runs_that_reach_beyond_their_chunk(
    tmp_path: Path, pylance4: Callable[..., Any], version: str
) -> None:
    """Its chunks of runs end at a power of two; the runs in them end where the last one does."""
    rng = np.random.default_rng(7)
    shapes = {
        "by a part of a run": rng.integers(1, 5, 4000),
        "by several runs": np.array(([1] * 870 + [900] + [1] * 60) * 5),
    }
    columns = {}
    for kind in ("int64", "float64", "int32", "float32"):
        for shape, lengths in shapes.items():
            values = _runs(kind, lengths, 9000)
            columns[f"{kind} {shape}"] = values
            columns[f"{kind} {shape}, nulls"] = with_nulls(values, "some")
    table = pa.table(columns)
    with pa.ipc.new_file(tmp_path / "table.arrow", table.schema) as writer:
        writer.write_table(table)
    out = tmp_path / "a.lance"
    pylance4(WRITE, table=str(tmp_path / "table.arrow"), out=str(out), version=version)
    reader = open_ours(out.read_bytes())
    read = reader.read(reader.columns)
    rows = np.sort(rng.choice(table.num_rows, 50, replace=False))
    some = reader.read(reader.columns, rows=rows)
    near = [reader.read(reader.columns, rows=range(at, at + 30)) for at in range(0, 8192, 128)]
    for name in table.column_names:
        values = table[name].combine_chunks()
        assert_same(read[name], values, name)
        assert_same(some[name], values.take(pa.array(rows)), name)
        for k, part in enumerate(near):
            assert_same(part[name], values.slice(128 * k, 30), name)


@pytest.mark.cover
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("nulls", NULLS)
def test_it_reads_ours(
    tmp_path: Path, pylance4: Callable[..., Any], version: str, nulls: str
) -> None:
    table = _table(1500, nulls)
    file = tmp_path / "a.lance"
    file.write_bytes(write_ours(table, version))
    pylance4(READ, file=str(file), out=str(tmp_path / "out.arrow"))
    read = pa.ipc.open_file(tmp_path / "out.arrow").read_all()
    for name in table.column_names:
        assert_same(read[name], table[name].combine_chunks(), f"{name} {version}")
