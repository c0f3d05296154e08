"""Batches of commits, detached versions, emptied tables and restored ones: as in pylance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._arguments.record import AlterColumn, AutoCleanupConfig

ROWS = pa.table({"x": pa.array([1, 2, 3], pa.int64())})


def _state(ds: Any) -> tuple[int, list[int], list[int], list[str]]:
    ids = [fragment.fragment_id for fragment in ds.get_fragments()]
    return ds.version, sorted(ds.to_table()["x"].to_pylist()), ids, ds.schema.names


def _both(tmp_path: Path, run: Any, **options: Any) -> None:
    seen = []
    for module in (lance, lk):
        ds = module.write_dataset(ROWS, str(tmp_path / module.__name__), **options)
        seen.append(run(module, ds))
    assert seen[1] == seen[0]
    theirs = lance.dataset(str(tmp_path / "lancekit"))
    theirs.validate()
    assert theirs.count_rows() == lk.dataset(tmp_path / "lancekit").count_rows()


@pytest.mark.parametrize("stable", [False, True])
def test_a_table_is_emptied_and_filled_again(tmp_path: Path, stable: bool) -> None:
    def run(_: Any, ds: Any) -> list[Any]:
        seen = []
        ds.truncate_table()
        seen.append((_state(ds), ds.count_rows()))
        ds.insert(ROWS)
        seen.append((_state(ds), ds.to_table(with_row_id=True)["_rowid"].to_pylist()))
        ds.truncate_table()
        ds.truncate_table()
        seen.append(_state(ds))
        return seen

    _both(tmp_path, run, enable_stable_row_ids=stable)


def test_a_version_is_restored_and_written_on(tmp_path: Path) -> None:
    def run(module: Any, ds: Any) -> list[Any]:
        seen = []
        ds.delete("x = 1")
        ds.add_columns({"y": "x + 1"})
        old = ds.checkout_version(1)
        old.restore()
        seen.append(_state(old))
        old.insert(ROWS)
        seen.append(_state(old))
        ds.checkout_latest()
        seen.append(_state(ds))
        again = module.dataset(ds.uri, version=2)
        again.restore()
        seen.append(_state(again))
        return seen

    _both(tmp_path, run)


@pytest.mark.parametrize("stable", [False, True])
def test_several_appends_are_one_version(tmp_path: Path, stable: bool) -> None:
    def run(module: Any, ds: Any) -> list[Any]:
        write = module.fragment.write_fragments
        made = [write(ROWS, ds.uri, return_transaction=True) for _ in range(3)]
        done = module.LanceDataset.commit_batch(ds, made)
        merged = done["merged"]
        return [_state(done["dataset"]), merged.read_version, len(merged.operation.fragments)]

    _both(tmp_path, run, enable_stable_row_ids=stable)


def test_a_detached_version_is_found_by_its_number_alone(tmp_path: Path) -> None:
    def run(module: Any, ds: Any) -> list[Any]:
        fragment = module.fragment.LanceFragment.create(ds.uri, ROWS)
        append = module.LanceOperation.Append([fragment])
        aside = module.LanceDataset.commit(ds, append, read_version=1, detached=True)
        found = module.dataset(ds.uri, version=aside.version)
        latest = module.dataset(ds.uri)
        return [
            aside.version >> 63,
            found.count_rows(),
            _state(latest),
            [version["version"] for version in latest.versions()],
        ]

    _both(tmp_path, run)


def test_settings_are_dictionaries_with_names(tmp_path: Path) -> None:
    settings: AutoCleanupConfig = {"interval": 5, "older_than_seconds": 60}
    ds = lk.write_dataset(ROWS, tmp_path, auto_cleanup_options=settings)
    assert ds.config()["lance.auto_cleanup.interval"] == "5"
    change: AlterColumn = {"path": "x", "name": "z"}
    ds.alter_columns(change)
    assert ds.schema.names == ["z"]
