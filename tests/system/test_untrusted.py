"""Whatever a dataset's own files say, nothing outside of its bases is read, written or removed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest

import lancekit as lk
from lancekit import errors
from lancekit._format.fragment import FragmentList
from lancekit._format.index import IndexFile, encode_index_section
from lancekit._format.manifest import BasePath, Manifest, encode_manifest_file
from tests.support.hostile import ROWS
from tests.support.plants import move

EVIL = ["../../x", "..", ".", "a/../../x", "/x", "a//b", "a\\..\\x", "a\0b"]


def rewritten(path: Path, change: Callable[[Manifest], Manifest], **index: Any) -> None:
    """Change the newest manifest of a dataset, and the first of its indices."""
    snapshot = lk.dataset(path)._snapshot
    indices = [replace(one, **index) for one in snapshot.indices]
    section = encode_index_section(indices) if indices else None
    data = encode_manifest_file(change(snapshot.manifest), index_section=section)
    (path / "_versions" / snapshot.manifest_name).write_bytes(data)


def with_file(**parts: Any) -> Callable[[Manifest], Manifest]:
    def change(manifest: Manifest) -> Manifest:
        (fragment,) = manifest.fragments
        fragment = replace(fragment, files=(replace(fragment.files[0], **parts),))
        return replace(manifest, fragments=FragmentList.of([fragment]))

    return change


@pytest.fixture
def place(tmp_path) -> Path:
    """A dataset with a branch and tags, beside another dataset that is none of its business."""
    lk.write_dataset(ROWS, tmp_path / "x")
    ds = lk.write_dataset(ROWS.slice(0, 2), tmp_path / "d")
    ds.create_branch("b", 1)
    ds.tags.create("t", ("b", 1))
    return tmp_path / "d"


def outside(place: Path) -> set[str]:
    return {
        str(path)
        for path in place.parent.rglob("*")
        if path.is_file() and not path.is_relative_to(place)
    }


@pytest.mark.parametrize("name", EVIL)
def test_a_tag_names_a_branch_of_its_own(place: Path, name: str) -> None:
    file = place / "_refs/tags/t.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"branch": name}))
    ds = lk.dataset(place)
    for look in (lambda: ds.checkout_version("t"), lambda: ds.deep_clone("c", "t")):
        with pytest.raises(errors.CorruptFileError, match="cannot be a branch"):
            look()
    with pytest.warns(UserWarning, match="'t' is skipped.*cannot be a branch"):
        assert ds.tags.list() == {}


@pytest.mark.parametrize("name", EVIL)
def test_a_branch_descends_from_one_of_its_own(place: Path, name: str) -> None:
    file = place / "_refs/branches/b.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"parentBranch": name}))
    ds = lk.dataset(place)
    with pytest.warns(UserWarning, match="'b' is skipped.*cannot be a branch"):
        assert ds.branches.list() == {}
    with pytest.raises(errors.CorruptFileError, match="cannot be a branch"):
        ds.create_branch("c", ("b", 1))


@pytest.mark.parametrize("name", ["..%2F..%2Fx", "..", "a%2F..%2F..%2F..%2Fx"])
def test_a_branch_file_is_named_after_no_other_folder(place: Path, name: str) -> None:
    folder, before = place / "_refs/branches", outside(place)
    (folder / f"{name}.json").write_bytes((folder / "b.json").read_bytes())
    ds = lk.dataset(place)
    branch = name.replace("%2F", "/")
    known = (errors.FormatError, errors.InvalidArgumentError, errors.NotFoundError)
    for use in (
        lambda: ds.checkout_version((branch, None)),
        lambda: ds.branches.delete(branch),
        lambda: ds.create_branch("new", (branch, 1)),
    ):
        with pytest.raises(known):
            use()
    assert outside(place) == before


@pytest.mark.parametrize("name", EVIL)
def test_a_manifest_moves_no_dataset(place: Path, name: str) -> None:
    before = outside(place)
    rewritten(place, lambda manifest: replace(manifest, branch=name))
    ds = lk.dataset(place)
    ds.insert(ROWS)
    assert (Path(ds.uri), ds.count_rows()) == (place, 6)
    assert outside(place) == before


@pytest.mark.parametrize("is_root", [True, False])
@pytest.mark.parametrize("name", [*EVIL, "/etc/passwd", "../x/data/y.lance"])
def test_files_in_a_base_are_bare_too(place: Path, name: str, is_root: bool) -> None:
    base = BasePath(id=4, path=str(place), is_dataset_root=is_root)
    change = with_file(path=name, base_id=4)
    rewritten(place, lambda manifest: replace(change(manifest), base_paths=(base,)))
    ds = lk.dataset(place)
    for read in (ds.to_table, lambda: ds.deep_clone(place.parent / "c", 1)):
        with pytest.raises(errors.CorruptFileError, match="bare file names"):
            read()


@pytest.mark.parametrize("path", ["{}/../x", "{}/d/../../x", "{}/d/%2e%2e/%2e%2e/x"])
def test_a_trusted_base_is_not_left_by_dots(tmp_path, path: str) -> None:
    """A dataset in memory that claims to have files on a disk."""
    allowed = tmp_path / "allowed"
    lk.write_dataset(ROWS, tmp_path / "x")
    ds = lk.write_dataset(ROWS, f"memory://{tmp_path.name}")
    base = BasePath(id=4, path=path.format(allowed), is_dataset_root=True)
    snapshot = ds._snapshot
    manifest = replace(with_file(base_id=4)(snapshot.manifest), base_paths=(base,))
    ds._location.store.put(f"_versions/{snapshot.manifest_name}", encode_manifest_file(manifest))
    refused = pytest.raises((errors.UntrustedBaseError, errors.CorruptFileError))
    with lk.options(trusted_bases=[str(allowed)]), refused:
        lk.dataset(ds.uri).to_table()


def test_dots_in_a_base_of_the_same_disk_lead_to_data_files_alone(place: Path) -> None:
    """The reference writes such bases; what is read there says itself that it is a data file."""
    home = place.parent / "home"
    home.mkdir()
    base = BasePath(id=4, path=f"{place}/../home", is_dataset_root=False)
    change = with_file(base_id=4)
    rewritten(place, lambda manifest: replace(change(manifest), base_paths=(base,)))
    (file,) = (place / "data").iterdir()
    file.rename(home / file.name)
    before = outside(place)
    assert lk.dataset(place).to_table() == lance.dataset(place).to_table() == ROWS.slice(0, 2)
    lk.dataset(place).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert outside(place) == before
    (home / file.name).write_text("a note of the user's, and nothing of a dataset\n" * 9)
    with pytest.raises(errors.CorruptFileError, match="data file"):
        lk.dataset(place).to_table()


def test_the_files_of_an_index_lie_in_its_folder(place: Path) -> None:
    lance.dataset(str(place)).create_scalar_index("k", "BTREE")
    before = outside(place)
    for path in ("../../../x/data/y.lance", "/etc/passwd", ".."):
        rewritten(place, lambda manifest: manifest, files=(IndexFile(path, 3),))
        with pytest.raises(errors.CorruptFileError, match="does not exist"):
            lk.dataset(place).deep_clone(place.parent / "c", 2)
    assert outside(place) == before


def test_a_cleanup_removes_nothing_outside(place: Path) -> None:
    """The first version claims files of another dataset; no later one needs them."""
    before = outside(place)
    (stolen,) = (place.parent / "x/data").iterdir()
    rewritten(place, with_file(path=f"../../x/data/{stolen.name}"))
    ds = lk.write_dataset(ROWS, place, mode="overwrite")
    ds.tags.delete("t")
    ds.branches.delete("b")
    ds.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert len(ds.versions()) == 1
    assert outside(place) == before


@pytest.mark.parametrize("by", ["a link", "a base", "a base with a link"])
def test_a_clone_copies_no_file_that_is_another(place: Path, by: str) -> None:
    """Nobody looks at the bytes of what is copied."""
    folder = place.parent / "secrets"
    folder.mkdir()
    (folder / "key").write_text("secret")
    if by == "a link":
        (file,) = (place / "data").iterdir()
        file.unlink()
        file.symlink_to(folder / "key")
    else:
        (folder / "link").symlink_to("/etc/passwd")
        base = BasePath(id=4, path=str(folder), is_dataset_root=False)
        change = with_file(path="key" if by == "a base" else "link", base_id=4, file_size_bytes=0)
        rewritten(place, lambda manifest: replace(change(manifest), base_paths=(base,)))
    with pytest.raises((errors.UntrustedBaseError, errors.CorruptFileError)):
        lk.dataset(place).deep_clone(place.parent / "c", 1)
    assert not [path for path in (place.parent / "c").rglob("*") if path.is_file()]


def test_reading_follows_links_and_writing_does_not(place: Path) -> None:
    """Who may make a link may also copy what it leads to; the root may be a link of the user's."""
    kept, link = place.parent / "elsewhere", place.parent / "link"
    move(place / "data", kept)
    link.symlink_to(place, target_is_directory=True)
    ds = lk.dataset(link)
    assert ds.count_rows("k > 1") == 1
    assert ds.to_table() == lance.dataset(str(link)).to_table()
    before = outside(place)
    with pytest.raises(errors.StorageError, match=r"'data' is a link.*base paths"):
        ds.insert(ROWS)
    assert (outside(place), ds.latest_version) == (before, 1)
    ds.delete("k = 1")  # needs no new data file
    assert lance.dataset(str(link)).to_table()["k"].to_pylist() == [2]
    assert outside(place) == before


@pytest.mark.parametrize(
    ("name", "text"),
    [("", "Branch '' does not exist"), ("main", "The main branch cannot be deleted")],
)
def test_main_is_no_branch_that_can_be_deleted(place: Path, name: str, text: str) -> None:
    """The folder of such a branch would be the dataset's own: all of it would go."""
    ds = lk.dataset(place)
    (place / f"_refs/branches/{name}.json").write_bytes(
        (place / "_refs/branches/b.json").read_bytes()
    )
    before = sorted(place.rglob("*"))
    with pytest.raises(errors.BranchNotFoundError, match=text):
        ds.branches.delete(name)
    assert sorted(place.rglob("*")) == before
