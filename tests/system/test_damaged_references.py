"""A tag or a branch whose file is damaged is an error of its own, and not one of all the others."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit import errors
from tests.support.plants import SPECIALS, replace_by

ROWS = pa.table({"k": [1, 2]})


#: what may become of a file that can be given up by its name
DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut off": lambda file: file.write_bytes(b'{"branch": "ba'),
    "another kind of JSON": lambda file: file.write_bytes(b"[1]"),
    "too large": lambda file: file.write_bytes(b" " * (1 << 21)),
    **{name: SPECIALS[name] for name in ("an empty file", "a FIFO")},
    **{name: SPECIALS[name] for name in ("a link to itself", "a link to nothing")},
}
ANY = {**DAMAGE, "a folder": SPECIALS["a folder"]}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Branches ``bad``, ``child`` of it and ``other``; tags ``bad`` and ``good``."""
    with lk.options(fsync=False):
        ds = lk.write_dataset(ROWS, tmp_path_factory.mktemp("made") / "d")
        ds.insert(ROWS)
        ds.create_branch("bad", 1).insert(ROWS)
        ds.create_branch("child", ("bad", 2))
        ds.create_branch("other", 1)
        ds.tags.create("bad", 1)
        ds.tags.create("good", 1)
    return Path(ds.uri)


@pytest.fixture
def ds(made: Path, tmp_path: Path) -> Iterator[lk.LanceDataset]:
    with lk.options(fsync=False):
        yield lk.dataset(shutil.copytree(made, tmp_path / "d"))


def damage(ds: lk.LanceDataset, kind: str, *names: str) -> None:
    for name in names:
        replace_by(Path(ds.uri) / f"_refs/{name}.json", ANY[kind])


def clean_up(ds: lk.LanceDataset) -> Any:
    return ds.cleanup_old_versions(
        timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
    )


@pytest.mark.parametrize("kind", ANY)
def test_the_others_stay_usable(ds: lk.LanceDataset, kind: str) -> None:
    damage(ds, kind, "tags/bad", "branches/bad")
    for names, file in ((ds.tags, "_refs/tags/bad.json"), (ds.branches, "_refs/branches/bad.json")):
        with pytest.warns(UserWarning, match=f"'bad' is skipped.*{file}"):
            assert "bad" not in names.list()
        with pytest.warns(UserWarning, match=f"'bad' is skipped.*{file}"):
            assert "bad" not in dict(names.list_ordered())
        assert "bad" in names.names()
    assert ds.checkout_version("good").version == 1
    assert ds.checkout_version(("other", None)).version == 1
    with pytest.raises(errors.TagNotFoundError, match="The dataset's tags: bad, good"):
        ds.tags.get_version("none")
    with pytest.raises(errors.TagNotFoundError):
        ds.tags.delete("none")
    with pytest.raises(errors.BranchNotFoundError, match="bad, child, other"):
        ds.branches.delete("none")
    ds.branches.delete("other")
    assert set(ds.branches.names()) == {"bad", "child"}


@pytest.mark.parametrize("kind", ANY)
def test_who_asks_for_it_is_told(ds: lk.LanceDataset, kind: str) -> None:
    damage(ds, kind, "tags/bad", "branches/bad")
    asks: dict[str, Callable[[], object]] = {
        "tags": lambda: ds.checkout_version("bad"),
        "branches": lambda: ds.branches.replace_metadata("bad", {"a": "b"}),
    }
    for folder, ask in asks.items():
        with pytest.raises(errors.CorruptFileError, match=f"_refs/{folder}/bad.json"):
            ask()


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("folder", ["tags", "branches"])
def test_a_cleanup_says_what_to_do(ds: lk.LanceDataset, kind: str, folder: str) -> None:
    """It has to know all of them: a version that one needs could go."""
    damage(ds, kind, f"{folder}/bad")
    versions = len(ds.versions())
    told = rf"_refs/{folder}/bad.json.*nothing is removed.*ds\.{folder}\.delete\('bad'\)"
    for call in (clean_up, lambda ds: ds.explain_cleanup_old_versions(timedelta(0))):
        with pytest.raises(errors.CorruptFileError, match=told):
            call(ds)
    assert len(ds.versions()) == versions
    assert ds.checkout_version(("bad", None)).count_rows() == 4
    if folder == "branches":
        ds.branches.delete("child")
    getattr(ds, folder).delete("bad")
    clean_up(ds)


@pytest.mark.parametrize("kind", DAMAGE)
def test_what_a_branch_needs_is_kept(ds: lk.LanceDataset, kind: str) -> None:
    """What its own file does not say, its versions do, also where the dataset was moved."""
    damage(ds, kind, "branches/child")
    with pytest.raises(errors.RefConflictError, match="'bad' is still used by the branches child"):
        ds.branches.delete("bad")
    assert ds.checkout_version(("child", None)).count_rows() == 4
    ds.branches.delete("child")
    ds.branches.delete("bad")
    assert ds.branches.names() == ("other",)


@pytest.mark.parametrize("kind", DAMAGE)
def test_there_is_a_way_out_where_nothing_can_be_read(ds: lk.LanceDataset, kind: str) -> None:
    damage(ds, kind, "branches/bad", "branches/child", "branches/other", "tags/bad", "tags/good")
    for manifest in Path(ds.uri).glob("tree/*/_versions/*.manifest"):
        manifest.write_bytes(b"no manifest")
    for name in ("bad", "child", "other"):
        ds.branches.delete(name)
    for name in ("bad", "good"):
        ds.tags.delete(name)
    assert (ds.branches.list(), ds.tags.list()) == ({}, {})
    assert clean_up(ds).old_versions == 1
    assert ds.count_rows() == 4


def test_a_sound_branch_stays_while_it_is_not_known_who_needs_it(ds: lk.LanceDataset) -> None:
    damage(ds, "an empty file", "branches/child")
    for manifest in Path(ds.uri).glob("tree/child/_versions/*.manifest"):
        manifest.write_bytes(b"no manifest")
    with pytest.raises(errors.CorruptFileError, match=r"branches/child.*nothing is removed"):
        ds.branches.delete("bad")
    ds.branches.delete("child")
    ds.branches.delete("bad")


def test_a_branch_that_shares_its_folder_goes_without_a_word(ds: lk.LanceDataset) -> None:
    """Of a branch of that name, only the reference is there: the folder is another one's."""
    ds.create_branch("shared/within", 1)
    references = Path(ds.uri) / "_refs/branches"
    (references / "shared.json").write_bytes((references / "other.json").read_bytes())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds.branches.delete("shared")
    assert ds.checkout_version(("shared/within", None)).count_rows() == 2
    assert set(ds.branches.names()) == {"bad", "child", "other", "shared/within"}
