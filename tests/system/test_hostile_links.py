"""Whatever links a received dataset has, nothing that they lead to is written or removed."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lancekit as lk
from lancekit._operations.cleanup import run as cleanup
from lancekit._storage.local import LocalStore
from lancekit.errors import StorageError
from tests.support.hostile_files import (
    NOW,
    OPERATIONS,
    PLANTS,
    ROWS,
    contents,
    copied,
    make_neighbours,
    make_received,
    run,
)
from tests.support.plants import move

#: what removes or writes most; `--whole` does all the rest
FIRST = ("append", "clean up", "clean up a branch", "remove a branch", "remove a planted branch",
         "remove another branch", "drop")  # fmt: skip

EVERYTHING: dict[str, Any] = {"delete_unverified": True, "error_if_tagged_old_versions": False}


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with lk.options(fsync=False):
        yield


@pytest.fixture(scope="module")
def received(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_received(tmp_path_factory.mktemp("received") / "d")


@pytest.fixture
def place(tmp_path: Path, received: Path) -> Path:
    """A received dataset beside others that are none of its business."""
    make_neighbours(tmp_path)
    return copied(received, tmp_path / "d")


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def outside(place: Path) -> dict[str, bytes | str]:
    found = contents(place.parent)
    return {name: what for name, what in found.items() if not (name + "/").startswith("d/")}


@pytest.mark.torture
@pytest.mark.parametrize("plant", PLANTS)
def test_links_lead_nowhere(place: Path, plant: str, whole: bool, tmp_path_factory: Any) -> None:
    PLANTS[plant](place, place.parent)
    before, out = outside(place), tmp_path_factory.mktemp("out")
    kept = copied(place, out / "kept")
    for name in OPERATIONS if whole else FIRST:
        shutil.rmtree(place, ignore_errors=True)
        copied(kept, place)
        run(place, name, out / name)
        assert outside(place) == before, name


def test_the_datasets_beside_a_link_to_the_folder_above(place: Path) -> None:
    """A cleanup that the config asks for took the files of all datasets there for left-overs."""
    PLANTS["tree is the folder above"](place, place.parent)
    before = outside(place)
    ds = lk.dataset(place)
    told = ds.explain_cleanup_old_versions(NOW, **EVERYTHING, include_files=True)
    assert not [file for file in told.candidate_files if file.path.startswith("tree")]
    assert "tree is kept: a link or a special file" in told.warnings
    done = ds.cleanup_old_versions(NOW, **EVERYTHING)
    assert done.left_alone == ("tree",)
    assert done.old_versions == 2
    assert "left_alone=['tree']" in done._plain()
    assert re.search(r"kept +tree", repr(done))
    assert outside(place) == before
    assert ds.to_table().num_rows == 4


def test_data_that_the_user_moved_stays_where_it_is(place: Path) -> None:
    PLANTS["data, moved"](place, place.parent)
    before, ds = outside(place), lk.dataset(place)
    done = ds.cleanup_old_versions(NOW, **EVERYTHING)
    assert (done.old_versions, done.data_files_removed, done.left_alone) == (2, 0, ("data",))
    assert outside(place) == before
    assert ds.to_table() == ROWS


def test_links_in_the_place_of_files_stay(place: Path) -> None:
    """They are no files of this dataset, even where an old version needs one."""
    PLANTS["a file"](place, place.parent)
    before = {name for name, what in contents(place).items() if str(what).startswith("->")}
    assert len(before) == 6
    done = lk.dataset(place, version=3).cleanup_old_versions(NOW, **EVERYTHING)
    assert set(done.left_alone) == before


def test_a_hint_is_written_over_no_other_file(place: Path) -> None:
    hint, other = place / "_versions/latest_version_hint.json", place.parent / "docs/b.txt"
    for link in (hint.symlink_to, hint.hardlink_to):
        hint.unlink(missing_ok=True)
        link(other)
        ds = lk.dataset(place)
        ds.insert(ROWS)
        assert other.read_bytes() == b"not yours"
        assert hint.read_text() == f'{{"version":{ds.version}}}'
        assert not hint.is_symlink()


# ---- branches


def test_a_reference_makes_no_branch_of_a_folder(place: Path) -> None:
    """A planted reference, and a folder of that name that holds something else."""
    reference = (place / "_refs/branches/side.json").read_text()
    for name in ("notes", "other", "empty"):
        (place / f"_refs/branches/{name}.json").write_text(reference)
    (place / "tree/notes").mkdir()
    (place / "tree/notes/data").mkdir()
    (place / "tree/notes/data/a.lance").write_text("mine")
    copied(place.parent / "victim", place / "tree/other")
    before = contents(place / "tree")
    ds = lk.dataset(place)
    for name in ("notes", "other"):
        with pytest.warns(UserWarning, match=f"{name}' is no longer listed.*is kept"):
            ds.branches.delete(name)
    ds.branches.delete("empty")
    assert list(ds.branches.list()) == ["side"]
    done = ds.cleanup_old_versions(NOW, **EVERYTHING)
    assert set(done.left_alone) == {"tree/notes", "tree/other", "tree/other/tree/side"}
    assert contents(place / "tree") == before
    with pytest.raises(lk.errors.BranchNotFoundError):
        ds.branches.delete("notes")
    assert contents(place / "tree") == before


def test_a_branch_behind_a_link_is_only_no_longer_listed(place: Path) -> None:
    move(place / "tree", place.parent / "moved")
    before, ds = outside(place), lk.dataset(place)
    with pytest.warns(UserWarning, match="'side' is no longer listed.*'tree' is a link"):
        ds.branches.delete("side")
    assert list(ds.branches.list()) == []
    assert outside(place) == before


def test_links_in_a_branch_go_with_it(place: Path) -> None:
    before = outside(place)
    PLANTS["deep in a branch"](place, place.parent)
    lk.dataset(place).branches.delete("side")
    assert not (place / "tree/side").exists()
    assert outside(place) == before


def test_a_damaged_branch_can_be_deleted(place: Path) -> None:
    for manifest in (place / "tree/side/_versions").glob("*.manifest"):
        manifest.write_bytes(b"no manifest")
    lk.dataset(place).branches.delete("side")
    assert not (place / "tree/side").exists()


def test_what_a_deletion_left_of_a_branch_goes(place: Path) -> None:
    """Its manifests, which tell what it is, are the last to go."""
    (place / "_refs/branches/side.json").unlink()
    ds = lk.dataset(place)
    removed: list[str] = []
    real = LocalStore.delete

    def delete(self: LocalStore, name: str) -> None:
        removed.append(name)
        real(self, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStore, "delete", delete)
        done = ds.cleanup_old_versions(NOW, **EVERYTHING)
    assert done.left_alone == ()
    assert not [path for path in (place / "tree").rglob("*") if path.is_file()]
    ours = [name.rpartition(".")[2] for name in removed if name.startswith("tree/side")]
    assert ours.index("manifest") == len(ours) - ours.count("manifest")


def test_what_a_crash_left_in_a_branch_with_a_name_of_parts_goes(place: Path) -> None:
    ds = lk.dataset(place)
    ds.create_branch("x/y", 2)
    (place / "_refs/branches/x%2Fy.json").unlink()
    for folder in ("_versions", "data"):
        (place / f"tree/x/y/{folder}").mkdir(exist_ok=True)
        (place / f"tree/x/y/{folder}/.tmp-0").write_text("half")
    done = ds.cleanup_old_versions(NOW, **EVERYTHING)
    assert done.left_alone == ()
    assert not [path for path in (place / "tree/x").rglob("*") if path.is_file()]


def test_a_branch_in_the_folder_of_another_one_stays(place: Path) -> None:
    """Also while it is being made, and not listed yet."""
    ds = lk.dataset(place)
    within = ds.create_branch("side/within", 2)
    (place / "_refs/branches/side%2Fwithin.json").unlink()
    ds.branches.delete("side")
    assert within.to_table().num_rows == 3
    assert names_in(place / "tree/side") == ["within"]


# ---- between the plan and the deed


def swapped(place: Path, other: Path) -> Callable[[], None]:
    """Return what moves a folder away and puts a link to another one in its place, once."""

    def swap() -> None:
        if not place.is_symlink():
            place.rename(place.with_name(place.name + ".old"))
            place.symlink_to(other)

    return swap


@pytest.mark.parametrize("folder", ["data", "_versions", "_transactions"])
def test_a_link_that_comes_after_the_plan(
    place: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other folder has files of the very names that are to go."""
    ds = lk.dataset(place)
    twin = copied(place, place.parent / "twin")
    before = outside(place)
    swap = swapped(place / folder, twin / folder)
    needed = cleanup._is_needed_since

    def then(*arguments: Any) -> Any:
        found = needed(*arguments)
        swap()
        return found

    monkeypatch.setattr(cleanup, "_is_needed_since", then)
    done = ds.cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert any(name.startswith(folder) for name in done.left_alone)
    assert done.failed_deletes > 0
    assert outside(place) == before


def test_a_link_that_comes_and_goes(tmp_path: Path) -> None:
    """Somebody swaps a folder for a link all the time, while files of its name are removed."""
    (tmp_path / "victim").mkdir()
    store = LocalStore(tmp_path / "d", fsync=False)
    for number in range(200):
        (tmp_path / f"victim/{number}").touch()
        store.put(f"data/{number}", b"")
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    stop = threading.Event()

    def swap() -> None:
        data, link, aside = tmp_path / "d/data", tmp_path / "link", tmp_path / "aside"
        while not stop.is_set():
            data.rename(aside)
            link.rename(data)
            data.rename(link)
            aside.rename(data)

    swapping = threading.Thread(target=swap)
    swapping.start()
    refused = 0
    try:
        while refused < 50:
            for number in range(200):
                try:
                    store.delete(f"data/{number}")
                except StorageError:
                    refused += 1
    finally:
        stop.set()
        swapping.join()
    assert sorted(names_in(tmp_path / "victim"), key=int) == [str(n) for n in range(200)]


# ---- the store


def test_every_way_to_write_or_remove(tmp_path: Path) -> None:
    """A link in any part below the root, of a store and of a store within it."""
    (tmp_path / "other/b/c").mkdir(parents=True)
    (tmp_path / "other/b/c/f").write_text("not yours")
    before = contents(tmp_path / "other")
    ways: dict[str, Callable[[LocalStore, str], object]] = {
        "put": lambda store, name: store.put(name, b"x"),
        "put_if_absent": lambda store, name: store.put_if_absent(name + "2", b"x"),
        "create": lambda store, name: store.create(name + "3"),
        "delete": lambda store, name: store.delete(name),
        "delete_tree": lambda store, name: store.delete_tree(name),
    }
    for depth, link in enumerate(("a", "a/b", "a/b/c")):
        root = tmp_path / f"root{depth}"
        (root / link).parent.mkdir(parents=True)
        (root / link).symlink_to(tmp_path.joinpath("other", *link.split("/")[1:]))
        store = LocalStore(root)
        for inner in ("", "a", "a/b", "a/b/c"):
            name = "a/b/c/f".removeprefix(inner).lstrip("/")
            below = store.child(inner)
            assert below.read(name).to_pybytes() == b"not yours"
            for way, do in ways.items():
                with pytest.raises(StorageError, match="is a link") as caught:
                    do(below, name)
                assert caught.value.context["link"] == link.rpartition("/")[2], way
            below.put_hint(name, b"x")
            assert [(file.regular, file.name) for file in below.list_tree(name)] == [(False, name)]
    assert contents(tmp_path / "other") == before


def test_a_root_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    ds = lk.write_dataset(ROWS, tmp_path / "link")
    ds.insert(ROWS, mode="overwrite")
    assert ds.cleanup_old_versions(NOW).old_versions == 1
    assert lk.dataset(tmp_path / "real").count_rows() == 4
    lk.LanceDataset.drop(tmp_path / "link")
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("folder", ["data", "_indices"])
def test_folders_too_deep_for_a_walk(place: Path, folder: str) -> None:
    """Neither followed nor removed, and no descriptor or frame for each of them."""
    deep = place / folder
    for _ in range(40):
        deep = deep / ("x" * 10) / "y" / "z" / "v" / "w"
        deep.mkdir(parents=True)
    ds = lk.dataset(place)
    done = ds.cleanup_old_versions(NOW, **EVERYTHING)
    (left,) = done.left_alone
    assert left.startswith(f"{folder}/xxxxxxxxxx/y")
    with (
        pytest.warns(UserWarning, match="other files in its folder: data/xxxxxxxxxx")
        if folder == "data"
        else pytest.raises(StorageError, match="100 nested folders")
    ):
        lk.LanceDataset.drop(place)
    assert deep.exists()


def test_names_that_no_store_takes_are_left_alone(place: Path) -> None:
    for name in ("data/a\\b.lance", "tree/x\\y/data/c.lance"):
        file = place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("odd")
    done = lk.dataset(place).cleanup_old_versions(NOW, **EVERYTHING)
    assert set(done.left_alone) == {"data/a\\b.lance", "tree/x\\y/data/c.lance"}
