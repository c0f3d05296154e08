"""Sorted keys find what a table of keys finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lancekit._pipeline import probe_ranges
from lancekit._pipeline import probe_ranges as module
from lancekit._pipeline.probe import KeyTable

KINDS = [
    pa.int64(),
    pa.uint64(),
    pa.int32(),
    pa.uint8(),
    pa.int8(),
    pa.timestamp("us"),
    pa.date32(),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_as_a_table_of_keys(monkeypatch, kind):
    monkeypatch.setattr(module, "_LEAST_KEYS", 1)
    monkeypatch.setattr(module, "_BLOCK", 7)
    rng = np.random.default_rng(0)
    width = kind.bit_width
    numbers = rng.permutation(1 << min(width, 9))[:150] * (1 << (width - min(width, 9)))
    bits = numbers.astype(f"u{width // 8}").view(f"i{width // 8}")
    known = pa.concat_arrays([pa.array(bits), pa.nulls(2, pa.array(bits).type)]).view(kind)
    table = KeyTable(("k",), (known,))
    keys = module.sorted_keys(table)
    assert keys is not None
    asked = known.take(pa.array(rng.integers(0, len(known), 100)))
    others = pa.array(rng.integers(-100, 100, 40).astype(f"i{width // 8}")).view(kind)
    values = pa.chunked_array([asked.slice(3), others, asked.slice(0, 0)])
    places, codes = keys.find(0, values)
    wanted, wanted_codes = table.find(0, values)
    assert places.tolist() == wanted.tolist()
    assert keys.first_rows[codes].tolist() == table.first_rows[wanted_codes].tolist()


def test_other_keys_stay_a_table(monkeypatch):
    assert module.sorted_keys(KeyTable(("k",), (pa.array([1, 2]),))) is None
    monkeypatch.setattr(module, "_LEAST_KEYS", 1)
    pair = KeyTable(("k", "l"), (pa.array([1]), pa.array([1])))
    for table in (
        KeyTable(("k",), (pa.array(["a"]),)),
        pair,
        KeyTable(("k",), (pa.nulls(2, pa.int8()),)),
    ):
        assert module.sorted_keys(table) is None


def test_the_page_says_from_how_many_keys_on_they_are_sorted_or_hashed() -> None:
    page = (Path(__file__).parents[2] / "docs/format/operations.md").read_text()
    assert f"a column of {module._LEAST_KEYS:,} or more integers or times" in page
    assert f"other keys, {probe_ranges._LEAST_KEYS:,} or more" in page
