"""Handles that are behind versions which were cleaned up: what still lands, and what is told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import (
    IncompatibleConflictError,
    RetryableConflictError,
    VersionNotFoundError,
)

ROWS = pa.table({"a": [1, 2], "b": ["x", "y"]})
Op: Any = lk.LanceOperation
Change = Callable[[Any], Any]


def _config(**values: str) -> Any:
    return Op.UpdateConfig(Op.UpdateMap(values))


#: changes of settings: the change, the same by another writer, and what it sets
SETTINGS: dict[str, tuple[Change, Change, Change]] = {
    "config": (
        lambda ds: ds.update_config({"k": "mine"}),
        lambda ds: ds.update_config({"k": "theirs"}),
        lambda ds: ds.config()["k"],
    ),
    "config replaced": (
        lambda ds: ds.update_config({"k": "mine"}, replace=True),
        lambda ds: ds.update_config({"other": "theirs"}),
        lambda ds: ds.config()["k"],
    ),
    "table metadata": (
        lambda ds: ds.update_metadata({"k": "mine"}),
        lambda ds: ds.update_metadata({"k": "theirs"}),
        lambda ds: ds.metadata["k"],
    ),
    "schema metadata": (
        lambda ds: ds.update_schema_metadata({"k": "mine"}),
        lambda ds: ds.update_schema_metadata({"k": "theirs"}),
        lambda ds: ds.schema.metadata[b"k"].decode(),
    ),
    "field metadata": (
        lambda ds: ds.update_field_metadata({"b": {"k": "mine"}}),
        lambda ds: ds.update_field_metadata({"b": {"k": "theirs"}}),
        lambda ds: ds.schema.field("b").metadata[b"k"].decode(),
    ),
    "base path": (
        lambda ds: ds.add_bases([lk.DatasetBasePath("/mine", "mine")]),
        lambda ds: lk.dataset(ds.uri).add_bases([lk.DatasetBasePath("/mine", "theirs")]),
        lambda ds: [base.name for base in lk.dataset(ds.uri).base_paths().values()][-1],
    ),
    "automatic cleanup": (
        lambda ds: ds.optimize.enable_auto_cleanup({"interval": 99, "older_than_seconds": 60}),
        lambda ds: ds.update_config({"lance.auto_cleanup.interval": "98"}),
        lambda ds: "mine" if ds.config()["lance.auto_cleanup.interval"] == "99" else "theirs",
    ),
    "by hand": (
        lambda ds: lk.LanceDataset.commit(ds, _config(k="mine"), read_version=ds.version),
        lambda ds: ds.update_config({"k": "theirs"}),
        lambda ds: lk.dataset(ds.uri).config()["k"],
    ),
}


def _append(ds: Any) -> None:
    names = ds.schema.names
    ds.insert(ROWS.select([name for name in ROWS.column_names if name in names]))


def _gap(path: Path, *changes: Change) -> Any:
    """Return a handle at version 1 of which only it and the newest of what followed are left."""
    stale = lk.write_dataset(ROWS, path)
    stale.tags.create("first", 1)
    for change in (*changes, _append, _append):
        change(lance.dataset(path))
    newest = lance.dataset(path)
    newest.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    assert [v["version"] for v in lance.dataset(path).versions()] == [1, newest.version]
    return stale


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("setting", sorted(SETTINGS.keys() - {"config replaced"}))
def test_settings_pass_a_gap(tmp_path: Path, setting: str, kept: bool) -> None:
    mine, _, value = SETTINGS[setting]
    stale = _gap(tmp_path, lambda ds: ds.update_config({"unrelated": "1"}))
    if not kept:
        stale.tags.delete("first")
        lance.dataset(tmp_path).cleanup_old_versions(timedelta(0))
    mine(stale)
    now = lk.dataset(tmp_path)
    assert value(now) == "mine"
    assert now.config()["unrelated"] == "1"
    assert now.count_rows() == lance.dataset(tmp_path).count_rows() == 3 * len(ROWS)


@pytest.mark.parametrize("setting", SETTINGS)
def test_what_a_gap_set_is_not_overwritten(tmp_path: Path, setting: str) -> None:
    mine, theirs, _ = SETTINGS[setting]
    stale = _gap(tmp_path, theirs)
    before = lk.dataset(tmp_path).version
    with pytest.raises(IncompatibleConflictError, match=r"versions 2 to 3, cleaned up since"):
        mine(stale)
    assert lk.dataset(tmp_path).version == before
    again = lk.dataset(tmp_path)
    if setting == "base path":
        assert [base.name for base in again.base_paths().values()] == ["theirs"]
        return
    mine(again)
    assert SETTINGS[setting][2](lk.dataset(tmp_path)) == "mine"


def test_a_config_is_replaced_over_a_gap_that_left_it(tmp_path: Path) -> None:
    stale = _gap(tmp_path)
    stale.update_config({"k": "mine"}, replace=True)
    assert lk.dataset(tmp_path).config() == {"k": "mine"}


def test_metadata_do_not_reach_a_field_that_took_the_place(tmp_path: Path) -> None:
    other = pa.table({"a": [1], "c": [0.5]})
    renamed = {"path": "b", "name": "z"}
    stale = _gap(tmp_path / "renamed", lambda ds: ds.alter_columns(renamed))
    with pytest.raises(RetryableConflictError, match="'b' was changed"):
        stale.update_field_metadata({"b": {"k": "1"}})
    stale = lk.write_dataset(ROWS, tmp_path / "over")
    lance.write_dataset(other, tmp_path / "over", mode="overwrite")
    lance.write_dataset(other, tmp_path / "over", mode="append")
    lance.dataset(tmp_path / "over").cleanup_old_versions(timedelta(0))
    with pytest.raises(RetryableConflictError, match="'b' was changed"):
        stale.update_field_metadata({"b": {"k": "1"}})
    stale = _gap(tmp_path / "dropped", lambda ds: ds.drop_columns(["b"]))
    with pytest.raises(IncompatibleConflictError, match="'b' was dropped"):
        stale.update_field_metadata({"b": {"k": "1"}})


#: changes of rows: nobody can tell what they would meet
ROW_CHANGES: dict[str, Change] = {
    "append": lambda ds: ds.insert(ROWS),
    "overwrite": lambda ds: lk.write_dataset(ROWS, ds, mode="overwrite"),
    "by hand": lambda ds: lk.LanceDataset.commit(
        ds, Op.Append([lk.LanceFragment.create(ds.uri, ROWS)]), read_version=1
    ),
}


@pytest.mark.parametrize("change", ROW_CHANGES)
def test_rows_do_not_pass_a_gap(tmp_path: Path, change: str) -> None:
    stale = _gap(tmp_path)
    with pytest.raises(RetryableConflictError, match=r"version 2 .* it was cleaned up"):
        ROW_CHANGES[change](stale)
    stale.checkout_latest()
    assert stale.version == 3


#: these look at rows, and begin anew on the newest version by themselves
AGAIN: dict[str, tuple[Change, int]] = {
    "delete": (lambda ds: ds.delete("a = 1"), 3),
    "update": (lambda ds: ds.update({"b": "'z'"}, where="a = 1"), 6),
    "merge": (
        lambda ds: (
            ds.merge_insert("a")
            .when_not_matched_insert_all()
            .execute(pa.table({"a": [1, 9], "b": ["p", "q"]}))
        ),
        7,
    ),
    "column": (lambda ds: ds.add_columns({"c": "a + 1"}), 6),
    "rename": (lambda ds: ds.alter_columns({"path": "b", "name": "z"}), 6),
}


@pytest.mark.parametrize("change", AGAIN)
def test_what_reads_rows_begins_anew(tmp_path: Path, change: str) -> None:
    work, count = AGAIN[change]
    stale = _gap(tmp_path)
    work(stale)
    assert stale.count_rows() == lance.dataset(tmp_path).count_rows() == count


def test_references_are_made_from_behind_a_gap(tmp_path: Path) -> None:
    stale = _gap(tmp_path)
    stale.tags.create("newest", 3)
    stale.tags.update("first", 3)
    assert stale.create_branch("b", "newest").count_rows() == 6
    stale.tags.delete("first")
    lance.dataset(tmp_path).cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    for library in (lk, lance):
        assert {name: tag["version"] for name, tag in library.dataset(tmp_path).tags.list().items()}
    with pytest.raises(VersionNotFoundError, match="Version 1 of "):
        stale.tags.create("gone", stale.version)


def test_transactions_end_at_a_gap(tmp_path: Path) -> None:
    """A list with a hole that cannot be seen would be taken for all that happened."""
    _gap(tmp_path)
    for library in (lk, lance):
        ds = library.write_dataset(ROWS, tmp_path, mode="append")
        told = [(type(t.operation).__name__, t.read_version) for t in ds.get_transactions()]
        expected = [("Append", v) for v in range(ds.version - 1, 1, -1)]
        assert told == expected
        assert len(ds.get_transactions(1)) == 1
        with pytest.raises(OSError, match=r"not found|no version"):
            ds.read_transaction(2)
