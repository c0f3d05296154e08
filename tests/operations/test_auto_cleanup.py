"""Automatic cleanup leaves after each commit what pylance leaves, and never too little."""

from __future__ import annotations

import ast
import json
import re
import shutil
import warnings
from pathlib import Path
from typing import Any, cast

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._operations.cleanup import auto as cleanup_consent
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
        ({"interval": "often", "older_than": "0s"}, "interval must be .* got 'often'"),
        ({"interval": "-1", "older_than": "0s"}, "interval must be .* got '-1'"),
        ({"interval": "1"}, "without older_than or retain_versions"),
        (
            {"interval": "1", "older_than": "two weeks"},
            "older_than must be a duration, got 'two weeks'",
        ),
        ({"interval": "1", "older_than": "5"}, "older_than must be a duration, got '5'"),
        ({"interval": "1", "older_than": "1h 5"}, "older_than must be a duration, got '1h 5'"),
        (
            {"interval": "1", "retain_versions": "0"},
            "retain_versions must be an integer of 1 or more, got '0'",
        ),
    ],
    ids=str,
)
def test_a_setting_that_cannot_be_used_is_a_warning(
    tmp_path: Path, config: dict[str, str], named: str
) -> None:
    ds = lk.write_dataset(ROWS, str(tmp_path / "t"))
    with pytest.warns(UserWarning, match=f"Version 2 was committed.*{named}"):
        ds.update_config({PREFIX + key: value for key, value in config.items()})
    with pytest.warns(UserWarning, match="Version 3 was committed"):
        ds.insert(ROWS)
    assert numbers(ds) == [1, 2, 3]


def test_a_cleanup_that_fails_is_a_warning(tmp_path: Path) -> None:
    ds = lk.write_dataset(ROWS, str(tmp_path / "t"))
    ds.insert(ROWS)
    ds.insert(ROWS)
    manifest = min((tmp_path / "t" / "_versions").iterdir(), key=lambda path: path.stat().st_mtime)
    manifest.write_bytes(b"no manifest")
    with pytest.warns(UserWarning, match="Version 4 was committed"):
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
        ({"interval": 5}, "without"),
        ({"interval": 5, "older_than": 5}, "older_than"),
        ({"interval": 5, "older_than_seconds": "x"}, "older_than must be a duration, got 'xs'"),
        ({"interval": -5, "older_than_seconds": 1}, "interval must be .* got '-5'"),
        (
            {"interval": 5, "retain_versions": 0},
            "retain_versions must be an integer of 1 or more, got '0'",
        ),
    ],
    ids=str,
)
def test_wrong_settings_are_refused(tmp_path: Path, settings: Any, named: str) -> None:
    ds = lk.write_dataset(ROWS, str(tmp_path / "t"))
    with pytest.raises(InvalidArgumentError, match=named):
        ds.optimize.enable_auto_cleanup(settings)
    assert ds.version == 1


def test_other_settings_than_a_dictionary_are_refused() -> None:
    with pytest.raises(InvalidTypeError, match="automatic cleanup settings must be"):
        lk.write_dataset(ROWS, "memory://no-auto-cleanup", auto_cleanup_options=5)


def test_nothing_is_said_without_settings(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lk.write_dataset(ROWS, str(tmp_path / "t")).insert(ROWS)


# ---- whose wish it is


def received(path: Path, **config: str) -> Path:
    """Make a dataset by other means than ours, as somebody would who hands it over."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = cast(Any, lance.write_dataset(ROWS, str(path)))
    made.update_config({PREFIX + key: value for key, value in config.items()})
    return path


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place of its own for what is remembered; a process that knows nothing yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    forget(monkeypatch)
    return tmp_path / "state"


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    for known in ("_consents", "_warned"):
        monkeypatch.setattr(cleanup_consent, known, set())


ASKS = r"automatically \(interval='1', older_than='0s'\)\. lancekit removed nothing"


def test_settings_that_came_with_a_dataset_need_a_word_of_the_user(
    tmp_path: Path, at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = received(tmp_path / "d", interval="1", older_than="0s")
    ds = lk.dataset(path)
    with pytest.warns(UserWarning, match=ASKS) as caught:
        ds.insert(ROWS)
    with warnings.catch_warnings():  # it is said once
        warnings.simplefilter("error")
        ds.insert(ROWS)
    assert numbers(ds) == [1, 2, 3, 4]
    said = re.search(r"lancekit\.(options\.trusted_cleanup = \[.*?\])", str(caught[0].message))
    assert said is not None
    scope: dict[str, Any] = {"options": lk.options}
    try:
        exec(said[1], scope)
        ds.insert(ROWS)
    finally:
        lk.options.trusted_cleanup = ()
    assert numbers(ds) == [4, 5]
    forget(monkeypatch)  # another process knows it too
    ds.insert(ROWS)
    assert numbers(ds) == [5, 6]


@pytest.mark.parametrize("change", ["settings", "place", "folder"])
def test_agreeing_holds_for_one_dataset_and_its_settings(
    tmp_path: Path, at_home: Path, change: str
) -> None:
    path = received(tmp_path / "d", interval="1", older_than="0s")
    with lk.options(trusted_cleanup=[str(tmp_path)]):
        lk.dataset(path).insert(ROWS)
    assert len(lk.dataset(path).versions()) == 2
    if change == "settings":
        cast(Any, lance.dataset(str(path))).update_config({PREFIX + "older_than": "1ms"})
    elif change == "place":
        path = Path(shutil.copytree(path, tmp_path / "e"))
    else:
        path.rename(tmp_path / "old")
        received(path, interval="1", older_than="0s")
    ds = lk.dataset(path)
    before = len(ds.versions())
    with pytest.warns(UserWarning, match="clean up its old versions automatically"):
        ds.insert(ROWS)
    assert len(ds.versions()) == before + 1


@pytest.mark.parametrize("how", ["create", "enable", "config", "commit"])
def test_own_settings_are_followed_by_other_processes(
    tmp_path: Path, at_home: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: dict[str, Any] = {"interval": 1, "older_than_seconds": 0}
    config = {PREFIX + "interval": "1", PREFIX + "older_than": "0s"}
    path = str(tmp_path / "d")
    made = lk.write_dataset(ROWS, path, auto_cleanup_options=wanted if how == "create" else None)
    if how == "enable":
        made.optimize.enable_auto_cleanup(wanted)
    elif how == "config":
        made.update_config(config)
    elif how == "commit":
        lk.LanceDataset.commit(path, lk.LanceOperation.UpdateConfig(upsert_values=config), 1)
    forget(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds = lk.dataset(path)
        ds.insert(ROWS)
        ds.insert(ROWS)
    assert len(numbers(ds)) == 2


def test_nothing_is_kept_in_the_dataset_or_for_datasets_in_memory(
    tmp_path: Path, at_home: Path
) -> None:
    wanted: dict[str, Any] = {"interval": 1, "older_than_seconds": 0}
    ds = lk.write_dataset(ROWS, f"memory://{tmp_path.name}", auto_cleanup_options=wanted)
    ds.insert(ROWS)
    ds.insert(ROWS)
    assert numbers(ds) == [2, 3]
    assert not at_home.exists()
    lk.write_dataset(ROWS, str(tmp_path / "d"), auto_cleanup_options=wanted)
    (file,) = (path for path in at_home.rglob("*") if path.is_file())
    assert json.loads(file.read_text())["place"] == str(tmp_path / "d")
    assert file.parent.stat().st_mode & 0o077 == 0


def test_a_home_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    forget(monkeypatch)
    ds = lk.write_dataset(
        ROWS, str(tmp_path / "d"), auto_cleanup_options={"interval": 1, "older_than_seconds": 0}
    )
    ds.insert(ROWS)
    ds.insert(ROWS)
    assert numbers(ds) == [2, 3]


def test_what_a_cleanup_leaves_alone_is_said(tmp_path: Path) -> None:
    ds = lk.write_dataset(ROWS, str(tmp_path / "d"))
    (tmp_path / "d/tree").symlink_to(tmp_path)
    with pytest.warns(UserWarning, match="kept tree: explain_cleanup_old_versions"):
        ds.optimize.enable_auto_cleanup({"interval": 1, "older_than_seconds": 0})


def test_no_operation_goes_around_the_settings() -> None:
    operations = Path(lk.__file__).parent / "_operations"
    around = [
        path.name
        for path in operations.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "lancekit._commit.protocol"
        if "commit" in [alias.name for alias in node.names]
    ]
    assert around == ["auto.py"]
