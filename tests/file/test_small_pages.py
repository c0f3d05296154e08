"""What is written of many small pages at once is what is written of each alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancekit._file import writer
from lancekit._file.encodings import choose
from tests.file.columns import columns, with_nulls
from tests.file.lance_io import open_ours, write_ours


def wide(rows: int) -> pa.Table:
    """Return columns of every type and shape, some with nulls, and tables of numbers at random."""
    rng = np.random.default_rng(rows)

    def found() -> Iterator[tuple[str, pa.Array]]:
        for name, array in columns(rows):
            for copy in range(3):
                yield f"{name} {copy}", pa.concat_arrays([array[copy:], array[:copy]])
            yield f"{name} null", with_nulls(array, "some")
        for distinct in (1, 2, 40, rows // 8 + 1, rows // 2 + 1, 1 << 62):
            for dtype in (np.uint8, np.int32, np.uint64):
                most = int(np.iinfo(dtype).max)
                count = min(distinct, most)
                drawn = rng.integers(0, count, rows, np.uint64) * np.uint64(most // count)
                values = drawn.astype(dtype)
                yield f"{distinct} of {values.dtype}", pa.array(values)
                yield f"{distinct} of {values.dtype}, sorted", pa.array(np.sort(values))
        yield "a slice", pa.array(rng.random(rows + 5))[5:]

    return pa.table(dict(found()))


@pytest.mark.cover
@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("rows", [1, 2, 129, 1000, 1024, 2048])
@pytest.mark.parametrize("share", range(4))
def test_files_are_the_same(
    monkeypatch: pytest.MonkeyPatch, version: str, rows: int, share: int
) -> None:
    table = wide(rows)
    parts = len(table.column_names) // 4 + 1  # neighbours are alike
    table = table.select(table.column_names[share * parts : (share + 1) * parts])
    together = write_ours(table, version)
    monkeypatch.setattr(writer, "_FEW", 1 << 30)
    assert together == write_ours(table, version)


def test_pages_that_stay_as_they_are_are_chosen_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    table = pa.table({f"c{number}": rng.random(500) for number in range(40)})
    chosen: Counter[str] = Counter()
    mini_values = choose.mini_values

    def counted(*given: Any, **named: Any) -> Any:
        chosen["alone"] += 1
        return mini_values(*given, **named)

    monkeypatch.setattr("lancekit._file.layouts.choose.mini_values", counted)
    reader = open_ours(write_ours(table))
    assert chosen["alone"] == 1
    assert reader.read(reader.columns).equals(table)
    asked = [
        pa.field(f.name, f.type, metadata={"lance-encoding:compression": "zstd"})
        for f in table.schema
    ]
    write_ours(table.cast(pa.schema(asked)))
    assert chosen["alone"] == 1 + 40
