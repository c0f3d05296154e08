"""A handle that was opened at an old version writes on top of the newest, with a warning."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import lancekit as lk
from lancekit.errors import ReadOnlyError

Open = Callable[[Path], lk.LanceDataset]
OPENED: dict[str, Open] = {
    "number": lambda path: lk.dataset(path, 1),
    "tag": lambda path: lk.dataset(path, "first"),
    "checkout": lambda path: lk.dataset(path).checkout_version(1),
    "checkout of a tag": lambda path: lk.dataset(path).tags["first"],
    "pair": lambda path: lk.dataset(path, ("main", 1)),
    "time": lambda path: lk.dataset(path, asof=lk.dataset(path).versions()[0].timestamp),
    "copy": lambda path: copy.copy(lk.dataset(path, 1)),
    "pickle": lambda path: pickle.loads(pickle.dumps(lk.dataset(path, 1))),
}
NOT_PINNED: dict[str, Open] = {
    "newest": lk.dataset,
    "branch": lambda path: lk.dataset(path).branches["main"],
    "number of the newest": lambda path: lk.dataset(path, 2),
    "time of the newest": lambda path: lk.dataset(path, asof=timedelta(0)),
    "latest": lambda path: lk.dataset(path, 1).latest(),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two versions; the first has a tag."""
    ds = lk.write_dataset({"id": [1]}, tmp_path / "d")
    ds.tags.create("first", 1)
    ds.insert({"id": [2]})
    return tmp_path / "d"


@pytest.mark.parametrize("how", OPENED)
def test_an_old_version_warns_once(path: Path, how: str) -> None:
    ds = OPENED[how](path)
    says = r"at main:1, and the write goes on top of main:2. Use ds.latest\(\).*create_branch"
    with pytest.warns(UserWarning, match=says):
        ds.insert({"id": [3]})
    assert ds.to_table()["id"].to_pylist() == [1, 2, 3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds.delete("id = 1")  # the handle is at the newest version now


@pytest.mark.parametrize("how", NOT_PINNED)
def test_the_newest_does_not_warn(path: Path, how: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NOT_PINNED[how](path).insert({"id": [3]})


def test_a_write_of_rows_to_a_handle_warns(path: Path) -> None:
    old = lk.dataset(path, 1)
    with pytest.warns(UserWarning, match="at main:1"):
        lk.write_dataset({"id": [3]}, old, mode="append")


def test_ways_back_do_not_warn(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lk.dataset(path, 1).restore()
        moved = lk.dataset(path, 1)
        moved.checkout_latest()
        moved.insert({"id": [3]})
        lk.dataset(path, 1).create_branch("b").insert({"id": [4]})


def test_the_option_refuses(path: Path) -> None:
    ds = lk.dataset(path, 1)
    with lk.options(pinned_writes="error"):
        for write in (
            lambda: ds.insert({"id": [3]}),
            lambda: ds.delete("true"),
            ds.optimize.compact_files,
            lambda: lk.write_dataset({"id": [3]}, ds, mode="overwrite"),
        ):
            with pytest.raises(ReadOnlyError, match="the write is refused") as seen:
                write()
            assert seen.value.context == {"version": 1, "newest": 2}
        ds.checkout_latest()
        ds.insert({"id": [3]})
    assert lk.dataset(path).version == 3
    with pytest.raises(lk.errors.InvalidArgumentError, match="pinned_writes"):
        lk.options.pinned_writes = "refuse"
