"""Nullability and metadata that one side of a merge changed come along, with and without a key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from tests.operations.lineage.test_column_merges import Change

#: a change of a description, and what the schema says after it: nullability or metadata
DESCRIBED: dict[str, tuple[Change, Callable[[pa.Schema], Any], Any]] = {
    "takes no nulls": (
        lambda ds: ds.alter_columns({"path": "n", "nullable": False}),
        lambda schema: schema.field("n").nullable,
        False,
    ),
    "a column's metadata": (
        lambda ds: ds.update_field_metadata({"n": {"unit": "m"}}),
        lambda schema: schema.field("n").metadata,
        {b"unit": b"m"},
    ),
    "a part's metadata": (
        lambda ds: ds.update_field_metadata({"s.x": {"unit": "m"}}),
        lambda schema: schema.field("s").type.field("x").metadata,
        {b"unit": b"m"},
    ),
    "the schema's metadata": (
        lambda ds: ds.update_schema_metadata({"owner": "a"}),
        lambda schema: schema.metadata,
        {b"owner": b"a"},
    ),
}


def structs(path: Path, *, key: str | None = None) -> lk.LanceDataset:
    rows = pa.table(
        {"id": [1, 2, 3], "n": [1, 2, 3], "s": [{"x": 1, "y": "a"}] * 3},
        schema=pa.schema(
            [
                pa.field("id", pa.int64(), nullable=False),
                pa.field("n", pa.int64()),
                pa.field("s", pa.struct([("x", pa.int32()), ("y", pa.string())])),
            ]
        ),
    )
    kept = {} if key is None else {"primary_key": key}
    return lk.write_dataset(rows, path, enable_stable_row_ids=key is None, **kept)


@pytest.mark.cover(2)
@pytest.mark.parametrize("key", ["id", None])  # without a key, row ids tell the rows
@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize("what", DESCRIBED)
def test_a_description_comes_along_that_one_side_changed(
    tmp_path: Path, what: str, side: str, key: str | None
) -> None:
    change, read, wanted = DESCRIBED[what]
    ds = structs(tmp_path / "t", key=key)
    exp = ds.create_branch("exp")
    change(ds if side == "ours" else exp)
    exp.update({"n": "20"}, where="id = 2")
    ds.update({"n": "30"}, where="id = 3")
    result = ds.branches.merge("exp")
    assert read(ds._snapshot.manifest.schema.to_arrow()) == wanted
    assert bool(result.columns_altered) == (side == "theirs" and "schema" not in what)
    for library in (lk, lance):
        found = library.dataset(ds.uri)
        assert found.to_table(columns=["id", "n"]).sort_by("id")["n"].to_pylist() == [1, 20, 30]
        if "part" not in what:  # pylance shows no metadata of parts
            assert read(found.schema) == wanted


def test_categories_of_polars_are_no_difference(tmp_path: Path) -> None:
    ds = structs(tmp_path / "t", key="id")
    exp = ds.create_branch("exp")
    for side, values in ((ds, "1;a"), (exp, "1;b")):
        side.update_field_metadata({"s.y": {"_PL_ENUM_VALUES2": values}})
    ds.update({"n": "20"}, where="id = 2")
    exp.update({"n": "30"}, where="id = 3")
    result = ds.branches.merge("exp")  # no conflict
    assert not result.columns_altered
    assert ds.lance_schema.field("s").children()[1].metadata == {"_PL_ENUM_VALUES2": "1;a"}
