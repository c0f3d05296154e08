"""Automatic cleanup leaves after each commit what pylance leaves, and never too little."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path
from typing import Any, cast

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import InvalidArgumentError, InvalidTypeError

PREFIX = "lance.auto_cleanup."
ROWS = pa.table({"x": pa.array([1], pa.int64())})


def numbers(ds: Any) -> list[int]:
    return [version["version"] for version in ds.versions()]


def history(module: Any, uri: str, config: dict[str, str], commits: int = 6) -> list[list[int]]:
    """Return the versions that there are after each of several appends."""
    module.write_dataset(ROWS, uri)
    ds = module.dataset(uri)
    ds.update_config({PREFIX + key: value for key, value in config.items()})
    seen = []
    for _ in range(commits):
        ds = module.write_dataset(ROWS, ds, mode="append")
        seen.append(numbers(ds))
    return seen


@pytest.mark.parametrize(
    "config",
    [
        {"interval": "2", "older_than": "0s"},
        {"interval": "1", "older_than": "0"},
        {"interval": "3", "retain_versions": "3"},
        {"interval": "1", "older_than": "1h 30m"},
        {"interval": "1", "older_than": "1h", "retain_versions": "2"},
        {"interval": "2", "older_than": "0ms", "retain_versions": "5"},
        {"older_than": "0s"},
        {"interval": "2", "older_than": "0days", "delete_rate_limit": "1000"},
    ],
    ids=str,
)
def test_versions_go_as_in_pylance(tmp_path: Path, config: dict[str, str]) -> None:
    theirs = history(lance, str(tmp_path / "theirs"), config)
    assert history(lk, str(tmp_path / "ours"), config) == theirs
    assert lance.dataset(str(tmp_path / "ours")).count_rows() == 7


def test_settings_are_written_as_by_pylance(tmp_path: Path) -> None:
    options: Any = {"interval": 2, "older_than_seconds": 0}
    configs = []
    for module in (lance, lk):
        uri = str(tmp_path / module.__name__)
        made = cast(Any, module).write_dataset(ROWS, uri, auto_cleanup_options=options)
        configs.append([made.config(), numbers(made)])
        # a dataset that is there keeps its own settings
        other = {"interval": 9, "older_than_seconds": 9}
        made = cast(Any, module).write_dataset(
            ROWS, made, mode="overwrite", auto_cleanup_options=other
        )
        configs[-1] += [made.config(), numbers(made)]
        made.optimize.disable_auto_cleanup()
        configs[-1] += [made.config(), made.version, numbers(made)]
        made.optimize.enable_auto_cleanup({"interval": 4, "older_than_seconds": 0})
        configs[-1] += [made.config(), made.version, numbers(made)]
    assert configs[0] == configs[1]


def test_every_kind_of_commit_cleans_up(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    options = {"interval": 1, "older_than_seconds": 0}
    ds = lk.write_dataset({"x": [1, 2, 3]}, uri, auto_cleanup_options=options, max_rows_per_file=1)
    ds.delete("x = 3")
    ds.update({"x": "x + 1"})
    ds.add_columns({"y": "x"})
    ds.drop_columns(["y"])
    ds.alter_columns({"path": "x", "name": "z"})
    ds.merge_insert("z").when_not_matched_insert_all().execute({"z": [9]})
    ds.update_metadata({"a": "b"})
    ds.optimize.compact_files()
    ds = lk.LanceDataset.commit(ds, lk.LanceOperation.Restore(ds.version - 1))
    assert numbers(ds) == [ds.version - 1, ds.version]
    assert sorted(ds.to_table()["z"].to_pylist()) == [2, 3, 9]
    assert sorted(cast(Any, lance.dataset(uri)).to_table()["z"].to_pylist()) == [2, 3, 9]


def test_tags_branches_and_clones_of_the_table_stay(tmp_path: Path) -> None:
    ds = lk.write_dataset(ROWS, str(tmp_path / "t"))
    ds.tags.create("kept", 1)
    ds.insert(ROWS)
    side = ds.create_branch("side", 2)
    ds.optimize.enable_auto_cleanup({"interval": 1, "older_than_seconds": 0})
    for _ in range(3):
        ds.insert(ROWS)
    assert numbers(ds) == [1, 2, 5, 6]
    assert ds.checkout_version("kept").count_rows() == 1
    side.insert(ROWS)
    assert ds.checkout_version(("side", None)).count_rows() == 3


def test_no_interval_or_zero_asks_for_nothing(tmp_path: Path) -> None:
    ds = lk.write_dataset(ROWS, str(tmp_path / "t"))
    ds.update_config({PREFIX + "interval": "0", PREFIX + "older_than": "0s"})
    ds.insert(ROWS)
    assert numbers(ds) == [1, 2, 3]


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"interval": "often", "older_than": "0s"}, "interval is 'often'"),
        ({"interval": "-1", "older_than": "0s"}, "interval is '-1'"),
        ({"interval": "1"}, "neither older_than nor retain_versions"),
        ({"interval": "1", "older_than": "two weeks"}, "older_than is 'two weeks'"),
        ({"interval": "1", "older_than": "5"}, "older_than is '5'"),
        ({"interval": "1", "older_than": "1h 5"}, "older_than is '1h 5'"),
        ({"interval": "1", "retain_versions": "0"}, "retain_versions is '0'"),
    ],
    ids=str,
)
def test_a_setting_that_cannot_be_used_is_a_warning(
    tmp_path: Path, config: dict[str, str], named: str
) -> None:
    ds = lk.write_dataset(ROWS, str(tmp_path / "t"))
    with pytest.warns(UserWarning, match=f"Version 2 has landed.*{named}"):
        ds.update_config({PREFIX + key: value for key, value in config.items()})
    with pytest.warns(UserWarning, match="Version 3 has landed"):
        ds.insert(ROWS)
    assert numbers(ds) == [1, 2, 3]


def test_a_cleanup_that_fails_is_a_warning(tmp_path: Path) -> None:
    ds = lk.write_dataset(ROWS, str(tmp_path / "t"))
    ds.insert(ROWS)
    ds.insert(ROWS)
    manifest = min((tmp_path / "t" / "_versions").iterdir(), key=lambda path: path.stat().st_mtime)
    manifest.write_bytes(b"no manifest")
    with pytest.warns(UserWarning, match="Version 4 has landed"):
        ds.optimize.enable_auto_cleanup({"interval": 1, "older_than_seconds": 0})
    assert ds.version == 4


def test_older_readers_of_the_previous_version_go_on(tmp_path: Path) -> None:
    options = {"interval": 1, "retain_versions": 1}
    ds = lk.write_dataset(ROWS, str(tmp_path / "t"), auto_cleanup_options=options)
    before = lk.dataset(str(tmp_path / "t"))
    ds.insert(ROWS, mode="overwrite")
    assert before.to_table().num_rows == 1
    assert numbers(ds) == [1, 2]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"older_than_seconds": 5}, "need an interval"),
        ({"interval": 5}, "neither"),
        ({"interval": 5, "older_than": 5}, "older_than"),
        ({"interval": 5, "older_than_seconds": "x"}, "older_than is 'xs'"),
        ({"interval": -5, "older_than_seconds": 1}, "interval is '-5'"),
        ({"interval": 5, "retain_versions": 0}, "retain_versions is '0'"),
    ],
    ids=str,
)
def test_wrong_settings_are_refused(tmp_path: Path, settings: Any, named: str) -> None:
    ds = lk.write_dataset(ROWS, str(tmp_path / "t"))
    with pytest.raises(InvalidArgumentError, match=named):
        ds.optimize.enable_auto_cleanup(settings)
    assert ds.version == 1


def test_other_settings_than_a_dictionary_are_refused() -> None:
    with pytest.raises(InvalidTypeError, match="settings of automatic cleanup"):
        lk.write_dataset(ROWS, "memory://no-auto-cleanup", auto_cleanup_options=5)


def test_nothing_is_said_without_settings(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lk.write_dataset(ROWS, str(tmp_path / "t")).insert(ROWS)


def test_no_operation_goes_around_the_settings() -> None:
    operations = Path(lk.__file__).parent / "operations"
    around = [
        path.name
        for path in operations.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "lancekit.commit.protocol"
        if "commit" in [alias.name for alias in node.names]
    ]
    assert around == ["auto_cleanup.py"]
