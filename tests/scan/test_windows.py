"""Fragments so large that their deleted rows are looked up block by block."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lancekit as lk
from lancekit._scan.fragments import reader as fragment


def test_deleted_rows_are_the_same_block_by_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    uri = tmp_path / "d"
    ds = lk.write_dataset({"n": np.arange(30_000)}, uri)
    ds.insert({"n": np.arange(30_000, 31_000)})
    gone = {*range(100), *range(20_000, 25_000), *rng.integers(0, 31_000, 300).tolist()}
    ds.delete(f"n IN ({', '.join(map(str, sorted(gone)))})")
    left = [row for row in range(31_000) if row not in gone]

    def answers() -> list[object]:
        read = lk.dataset(uri)
        places = sorted(rng.choice(len(left), 50).tolist())
        taken = read.take(places)["n"].to_pylist()
        assert taken == [left[place] for place in places]
        return [
            read.to_table()["n"].to_pylist(),
            read.to_table(limit=70, offset=19_000)["n"].to_pylist(),
            read.to_table(filter="n % 7 = 1", limit=9)["n"].to_pylist(),
            [batch.num_rows for batch in read.to_batches(batch_size=999)],
        ]

    usual = answers()
    assert usual[0] == left
    monkeypatch.setattr(fragment, "_MANY_ROWS", 1)
    assert answers() == usual
