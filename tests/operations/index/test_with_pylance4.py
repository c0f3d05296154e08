"""Indices that lancekit makes, used by pylance 4.0.0: it answers as without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lancekit as lk
from lancekit._index.kinds import KINDS
from tests.support.indexed_columns import COLUMNS, filters_on, rows

ASK = """
ds = lance.dataset(arguments["path"])
found = [[], 0]
for text in arguments["filters"]:
    try:
        by_scan = ds.to_table(["row"], filter=text, use_scalar_index=False)["row"].to_pylist()
    except ValueError:  # a filter that it does not know yet
        continue
    by_index = ds.to_table(["row"], filter=text)["row"].to_pylist()
    if by_index != by_scan:
        found[0].append([text, by_index, by_scan])
    found[1] += "ScalarIndexQuery" in ds.scanner(filter=text).explain_plan()
result = found
"""
#: of its own bitmaps, too, it refuses what texts begin with, and mixes up NaNs of both signs
LEFT_OUT = {"BITMAP": ("LIKE", "float", "double")}


@pytest.mark.cover
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "row-ids"])
@pytest.mark.parametrize("name", KINDS)
def test_it_answers_as_without(name: str, stable: bool, tmp_path: Path, pylance4: Any) -> None:
    kind = KINDS[name]
    if kind.zones and stable:
        pytest.skip("refused: it would lose rows")
    path = str(tmp_path / "d.lance")
    ds = lk.write_dataset(rows(), path, max_rows_per_file=10, enable_stable_row_ids=stable)
    ds.delete("row % 7 = 3")
    made = [column for column in COLUMNS if kind.fits(COLUMNS[column].type)]
    for column in made:
        ds.create_scalar_index(column, name)
    ds.delete("int32 = 4")
    ds.insert(rows(1))
    filters = [text for column in made for text in filters_on(column)]
    left_out = LEFT_OUT.get(name, ())
    filters = [text for text in filters if not any(word in text for word in left_out)]
    unlike, asked = pylance4(ASK, path=path, filters=filters)
    assert unlike == []
    assert asked > len(made) // 2
    ds.optimize.optimize_indices()
    ds.optimize.compact_files()
    assert pylance4(ASK, path=path, filters=filters)[0] == []
