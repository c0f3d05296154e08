"""A dataset with branches, tags and gaps, and an explorer of it."""

import shutil

import pyarrow as pa
import pytest

import lancekit as lk


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """Eight versions of main, of which two are gone, and two tags."""
    rows = {"id": list(range(100)), "x": [i * 7 % 10 for i in range(100)], "s": ["a", "b"] * 50}
    place = tmp_path_factory.mktemp("explorer") / "d.lance"
    made = lk.write_dataset(pa.table(rows), place, primary_key="id", max_rows_per_file=20)
    made.insert({"id": [100], "x": [None], "s": ["<b>new</b>"]}, commit_message="one & more")
    made.delete("id < 3")
    made.add_columns({"y": "x + 0.5"})
    made.alter_columns({"path": "s", "name": "letter"})
    made.update({"x": "11"}, where="id = 50")
    made.insert({"id": [200], "x": [1], "letter": ["z"], "y": [1.0]})
    made.drop_columns(["y"])
    made.tags.create("two", 2)
    made.tags.create("six", 6)
    made.cleanup_old_versions(versions=[3, 5])
    return place


@pytest.fixture
def ds(template, tmp_path):
    """A copy of it, with a branch of two versions: branches say where the files of main are."""
    shutil.copytree(template, tmp_path / "d.lance")
    made = lk.dataset(tmp_path / "d.lance")
    made.create_branch("trial", 6).delete("id = 60")
    return made
