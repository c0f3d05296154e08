"""What of a table its indices do not cover, and since when."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._operations.index import describe
from lancekit.errors import IndexNotFoundError


def _made(place: str, **options: object) -> lk.LanceDataset:
    ds = lk.write_dataset({"id": range(1000), "city": ["Ulm", "Linz"] * 500}, place, **options)
    ds.create_scalar_index("id", "BTREE")
    return ds


def _parts(ds: lk.LanceDataset, name: str = "id_idx") -> list[tuple[object, ...]]:
    return [(p.version, p.operation, p.num_rows) for p in ds.indices[name].uncovered]


@pytest.mark.parametrize("stable", [False, True])
def test_what_came_later_is_told_by_the_version_that_brought_it(
    tmp_path: Path, stable: bool
) -> None:
    ds = _made(str(tmp_path / "d"), enable_stable_row_ids=stable)
    assert list(ds.indices) == ["id_idx"]
    assert ds.indices["id_idx"].share == 1
    ds.insert({"id": [1000, 1001], "city": ["Bonn"] * 2})
    ds.tags.create("between")
    lance.write_dataset(
        pa.table({"id": range(2000, 2005), "city": ["Wien"] * 5}), ds.uri, mode="append"
    )
    ds = lk.dataset(ds.uri)
    ds.update({"city": "'Rom'"}, where="id < 3")
    # a row that keeps its id stays in the index of a column that was not changed
    moved = [] if stable else [(5, "Update", 3)]
    assert _parts(ds) == [*moved, (4, "Append", 5), (3, "Append", 2)]
    found = ds.indices["id_idx"]
    assert found.share == (1000 if stable else 997) / 1007
    assert _parts(ds.checkout_version("between")) == [(3, "Append", 2)]
    assert found.mended_by is not None
    eval(found.mended_by, {"ds": ds})
    assert _parts(ds) == []
    assert ds.indices["id_idx"].mended_by is None


def test_values_written_anew_in_place(tmp_path: Path) -> None:
    ds = _made(str(tmp_path / "d"))
    ds.insert({"id": [1000], "city": ["Bonn"]})
    ds.optimize.optimize_indices()
    ds.replace_columns({"id": "id + 1"})
    ds.tags.create("now")
    for number in range(5):
        ds.update_config({"number": str(number)})
    assert _parts(ds) == [(5, ds.versions()[4].operation, 1001)]


def test_an_index_that_covers_nothing_yet(tmp_path: Path) -> None:
    ds = _made(str(tmp_path / "d"))
    ds.create_scalar_index("city", "BITMAP", train=False)
    assert _parts(ds, "city_idx") == [(3, "CreateIndex", 1000)]


def test_versions_that_are_gone_and_branches(tmp_path: Path) -> None:
    ds = _made(str(tmp_path / "d"))
    for number in range(3):
        ds.insert({"id": [number], "city": ["Bonn"]})
    branch = ds.create_branch("side")
    branch.insert({"id": [7], "city": ["Graz"]})
    assert _parts(branch)[0] == (6, "Append", 1)
    assert sum(rows for *_, rows in _parts(branch)) == 4
    ds.cleanup_old_versions(retain_versions=1)
    assert _parts(ds) == [(None, None, 3)]


def test_only_the_newest_versions_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe, "_MOST_NAMED", 2)
    ds = _made(str(tmp_path / "d"))
    for number in range(4):
        ds.insert({"id": [number], "city": ["Bonn"]})
    assert _parts(ds) == [(6, "Append", 1), (5, "Append", 1), (None, None, 2)]


def test_an_index_that_there_is_not(tmp_path: Path) -> None:
    ds = _made(str(tmp_path / "d"))
    with pytest.raises(IndexNotFoundError, match="id_idx"):
        ds.indices["nothing"]
    assert ds.indices.get("nothing") is None
    assert "nothing" not in ds.indices
    assert len(ds.indices) == 1
