"""Tables of early releases, whose manifests leave out much of what later ones say."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import CorruptFileError

KEPT = Path(__file__).parents[1] / "data" / "legacy"


def _unpacked(release: str, folder: Path) -> tuple[Path, pa.Table]:
    shutil.unpack_archive(KEPT / f"{release}.zip", folder)
    return folder / "d.lance", pa.ipc.open_file(folder / "rows.arrow").read_all()


@pytest.mark.parametrize("release", ["0.4.21", "0.6.5", "0.16.0"])
def test_tables_of_early_releases(tmp_path: Path, release: str) -> None:
    path, expected = _unpacked(release, tmp_path)
    ds = lk.dataset(path)
    assert ds.data_storage_version == "0.1"
    assert ds.count_rows() == ds.stats.dataset_stats()["num_deleted_rows"] * -1 + 250
    assert ds.to_table().equals(expected)
    places = [0, 20, 130, len(expected) - 1]
    assert ds.take(places).equals(expected.take(places))
    found = ds.to_table(columns=["m", "st.y"], filter="i between 60 and 70")
    assert found["m"].to_pylist() == [f"m{i}" for i in [*range(60, 71)] * 2]
    assert found["st.y"].to_pylist() == [f"q{i}" for i in [*range(60, 71)] * 2]
    ds.validate(deep=True)
    for version in ds.versions():
        assert lk.dataset(path, version=version["version"]).to_table().num_rows


@pytest.mark.parametrize("release", ["0.4.21", "0.6.5", "0.16.0"])
def test_the_next_commit_says_what_they_left_out(tmp_path: Path, release: str) -> None:
    path, expected = _unpacked(release, tmp_path)
    ds = lk.dataset(path)
    ds.delete("i >= 100")
    kept = expected.filter(pa.compute.less(expected["i"], 100))
    assert lk.dataset(path).to_table().equals(kept)
    theirs = lance.dataset(path)
    assert theirs.count_rows() == len(kept)
    names = ["i", "s", "st"]  # of merged columns of the first releases the reference finds none
    assert theirs.to_table(columns=names).equals(kept.select(names))
    for fragment in theirs.get_fragments():
        assert fragment.metadata.physical_rows in (100, 150)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    path, _ = _unpacked("0.4.21", tmp_path)
    shutil.rmtree(path / "data")
    with pytest.raises(CorruptFileError, match="lists a file that does not exist"):
        lk.dataset(path)
