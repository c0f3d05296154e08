"""`ds.validate(sources=True)`: what other places lack."""

from __future__ import annotations

import shutil
import warnings
from datetime import timedelta
from pathlib import Path

import lance
import pytest

import lancekit as lk
from lancekit.errors import CorruptFileError
from tests.operations.test_deep_clones import rich


def test_clones_of_whole_sources(tmp_path: Path) -> None:
    source = rich(tmp_path / "d")
    clone = lk.dataset(tmp_path / "d").shallow_clone(tmp_path / "c", source.version)
    second = clone.shallow_clone(tmp_path / "e", clone.version)
    branch = lk.dataset(tmp_path / "d").checkout_version(("br", None))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ds in (lk.dataset(tmp_path / "d"), clone, second, branch):
            ds.validate(sources=True)


@pytest.mark.parametrize("folder", ["data", "_deletions", "_indices"])
@pytest.mark.parametrize("change", ["missing", "longer"])
def test_files_that_are_missing_or_changed(tmp_path: Path, folder: str, change: str) -> None:
    source = rich(tmp_path / "d")
    lk.dataset(tmp_path / "d").shallow_clone(tmp_path / "c", source.version).insert(
        source.to_table().slice(0, 2)
    )
    clone = lk.dataset(tmp_path / "c").shallow_clone(tmp_path / "e", 1 + source.version)
    for file in (tmp_path / "d" / folder).rglob("*"):
        if file.is_file() and change == "missing":
            file.unlink()
        elif file.is_file() and file.suffix not in (".arrow", ".bin"):
            file.write_bytes(file.read_bytes() + b"x")
    if (folder, change) == ("_deletions", "longer"):  # nothing says how long they are
        clone.validate(sources=True)
        return
    for found in (clone, lk.dataset(tmp_path / "c")):
        with pytest.raises(
            CorruptFileError, match=f"outside of the dataset:\n.*{folder}/"
        ) as caught:
            found.validate(sources=True)
        assert caught.value.context["bases"] == (str(tmp_path / "d"),)
        word = "is missing" if change == "missing" else "bytes instead of"
        assert word in str(caught.value)


def test_a_source_that_is_gone(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": range(50)}, tmp_path / "d", max_rows_per_file=5)
    clone = ds.shallow_clone(tmp_path / "c", 1)
    shutil.rmtree(tmp_path / "d")
    with pytest.raises(CorruptFileError, match="lacks 10 files") as caught:
        clone.validate(sources=True)
    assert "and 7 more" in str(caught.value)
    assert caught.value.context["files"] == 10


@pytest.mark.parametrize("maker", ["lancekit", "pylance"])
def test_a_version_that_was_cleaned_up(tmp_path: Path, maker: str) -> None:
    ds = lk.write_dataset({"x": [1, 2]}, tmp_path / "d")
    if maker == "pylance":
        lance.dataset(ds.uri).shallow_clone(str(tmp_path / "c"), 1)
    else:
        ds.shallow_clone(tmp_path / "c", 1)
    ds.insert({"x": [3]})
    lance.dataset(ds.uri).cleanup_old_versions(timedelta(0))
    clone = lk.dataset(tmp_path / "c")
    with pytest.warns(UserWarning, match=r"Version 1 of .* was cleaned up.*ds\.deepen\(\)"):
        clone.validate(sources=True)
    clone.deepen()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone.validate(sources=True)


def test_base_paths(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    base = lk.DatasetBasePath(str(tmp_path / "one"), name="one")
    ds = lk.write_dataset({"x": [1]}, tmp_path / "d", initial_bases=[base], target_bases=["one"])
    ds.validate(sources=True)
    (file,) = (tmp_path / "one").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CorruptFileError, match=str(tmp_path / "one")):
        ds.validate(sources=True)
