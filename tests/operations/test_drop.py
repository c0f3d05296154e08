"""The removal of a dataset: all of it, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import lance
import pytest

import lancekit as lk
from lancekit.errors import DatasetNotFoundError, InvalidArgumentError


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Write a dataset with deletions, an index, a branch, and what an old release leaves."""
    uri = str(tmp_path / "t")
    ds = cast(Any, lance).write_dataset({"x": list(range(10))}, uri)
    ds.delete("x < 3")
    ds.create_scalar_index("x", "BTREE")
    ds.create_branch("side/way", 3)
    lk.write_dataset({"x": [1]}, lk.dataset(uri, version=("side/way", None)), mode="append")
    ds.tags.create("a", 1)
    (tmp_path / "t" / "_latest.manifest").write_bytes(b"")
    return uri


def test_drop(uri: str, tmp_path: Path) -> None:
    lk.LanceDataset.drop(uri)
    assert not (tmp_path / "t").exists()
    with pytest.raises(DatasetNotFoundError):
        lk.LanceDataset.drop(uri)
    lk.LanceDataset.drop(uri, ignore_not_found=True)
    lk.write_dataset({"x": [1]}, uri)
    assert cast(Any, lance).dataset(uri).version == 1


def test_a_drop_says_what_it_left_alone(tmp_path: Path) -> None:
    bases = [lk.DatasetBasePath(str(tmp_path / "big disk"), "big")]
    place = tmp_path / "t"
    lk.write_dataset({"x": [1]}, place, initial_bases=bases, target_bases=["big"])
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    (place / "_indices").symlink_to(tmp_path / "notes")
    (kept,) = (tmp_path / "big disk").rglob("*.lance")
    with pytest.warns(UserWarning, match="was removed, except") as told:
        lk.LanceDataset.drop(place)
    said = sorted(str(one.message) for one in told)
    assert len(said) == 2
    assert said[0].endswith(f"was removed, except its files in base paths: {tmp_path}/big disk.")
    assert said[1].endswith("was removed, except the targets of its links: _indices.")
    assert not place.exists()
    assert kept.exists()
    assert (tmp_path / "notes" / "mine.txt").exists()


def test_only_datasets_are_dropped(uri: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("mine")
    for place in (tmp_path, tmp_path / "folder", tmp_path / "t" / "data"):
        for ignore in (None, True):
            with pytest.raises(InvalidArgumentError, match="was not dropped"):
                lk.LanceDataset.drop(place, ignore_not_found=ignore)
    with pytest.raises(InvalidArgumentError, match="branch 'side/way'"):
        lk.LanceDataset.drop(f"{uri}/tree/side/way")
    for manifest in (tmp_path / "t" / "_versions").iterdir():
        manifest.write_bytes(b"nothing")
    with pytest.raises(InvalidArgumentError, match="no readable version"):
        lk.LanceDataset.drop(uri)
    assert (tmp_path / "t" / "data").exists()


def test_a_dataset_in_memory_is_dropped() -> None:
    lk.write_dataset({"x": [1]}, "memory://dropped")
    lk.LanceDataset.drop("memory://dropped")
    with pytest.raises(DatasetNotFoundError):
        lk.dataset("memory://dropped")


def test_what_is_not_the_datasets_stays(uri: str, tmp_path: Path) -> None:
    """Whoever writes a dataset into the folder of a project does not lose the project with it."""
    place = tmp_path / "t"
    mine = [
        "notes.txt", "data/raw.csv", "data/raw/more.csv", "tree/oak.txt", "tree/side/photo.png",
        "projects/other.lance/_versions/1.manifest", "projects/other.lance/data/a.lance",
    ]  # fmt: skip
    for name in mine:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("mine")
    (place / "elsewhere").symlink_to(tmp_path)
    with pytest.warns(UserWarning, match="other files in its folder") as told:
        lk.LanceDataset.drop(uri)
    (said,) = (str(one.message) for one in told)
    assert said.endswith(
        "data/raw.csv, data/raw/more.csv, elsewhere, notes.txt, "
        "projects/other.lance/_versions/1.manifest and 3 more."
    )
    left = [str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()]
    assert sorted(left) == sorted(mine)
    assert (place / "elsewhere").is_symlink()
    assert lk.write_dataset({"x": [1]}, uri).count_rows() == 1


@pytest.mark.parametrize(
    "arguments",
    [(("x",), {}), ((Path("x"),), {}), ((["x"],), {}), (("./x",), {}), ((), {"columns": ["x"]})],
    ids=str,
)
def test_a_handle_drops_no_dataset_of_a_columns_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[Any, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    ds = lk.write_dataset({"x": [1]}, "t")
    lk.write_dataset({"y": [1]}, "x")
    args, keywords = arguments
    with pytest.raises(InvalidArgumentError, match="absolute path") as refused:
        ds.drop(*args, **keywords)
    assert "drop_columns" in str(refused.value)
    assert lk.dataset("x").count_rows() == 1


def test_places_that_a_handle_drops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ds = lk.write_dataset({"x": [1]}, "t")
    for place in (str(tmp_path / "x"), tmp_path / "x", (tmp_path / "x").as_uri()):
        lk.write_dataset({"y": [1]}, "x")
        ds.drop(base_uri=place)
        assert not (tmp_path / "x").exists()
    lk.write_dataset({"y": [1]}, "memory://dropped-by-a-handle")
    ds.drop("memory://dropped-by-a-handle")
    lk.write_dataset({"y": [1]}, "x")
    lk.LanceDataset.drop("x")
    assert not (tmp_path / "x").exists()
