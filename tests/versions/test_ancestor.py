"""Where versions of branches, of branches of branches and of clones part."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest

import lancekit as lk
from lancekit._versions.ancestor import common_ancestor


def add(ds: lk.LanceDataset, *ids: int) -> lk.LanceDataset:
    ds.insert({"id": list(ids)}, mode="append")
    return ds


@pytest.fixture
def main(tmp_path: Path) -> lk.LanceDataset:
    """A table at version 3."""
    return add(add(lk.write_dataset({"id": [0]}, tmp_path / "t"), 1), 2)


def meet(one: lk.LanceDataset, other: lk.LanceDataset) -> tuple[str, int] | None:
    found = common_ancestor(one._snapshot, other._snapshot)
    assert common_ancestor(other._snapshot, one._snapshot) == found
    return None if found is None else (found.location.name, found.version)


def test_on_one_line_it_is_the_older(main: lk.LanceDataset) -> None:
    assert meet(main, main.checkout_version(2)) == ("main", 2)
    assert meet(main, main) == ("main", 3)


@pytest.mark.parametrize("module", [lk, lance])
def test_branches_of_branches(main: lk.LanceDataset, module: object) -> None:
    at = module.dataset(main.uri)  # type: ignore[attr-defined]
    at.create_branch("exp", 2)
    exp = add(add(main.checkout_version(("exp", None)), 10), 11)
    at.checkout_version(("exp", exp.version)).create_branch("exp/sub", ("exp", 3))
    sub = add(main.checkout_version(("exp/sub", None)), 20)
    add(main, 3)
    assert meet(main, exp) == ("main", 2)
    assert meet(exp, sub) == ("exp", 3)
    assert meet(main, sub) == ("main", 2)
    assert meet(main.checkout_version(1), sub) == ("main", 1)
    assert meet(exp.checkout_version(3), sub) == ("exp", 3)


def test_a_branch_that_took_a_deleted_ones_name(main: lk.LanceDataset) -> None:
    first = add(main.create_branch("exp", 1), 5)
    old = first._snapshot
    main.branches.delete("exp")
    second = add(main.create_branch("exp", 3), 5)
    found = common_ancestor(old, second._snapshot)
    assert found is not None  # nothing is left to tell them apart by
    assert meet(second, main) == ("main", 3)


def test_clones_of_clones(main: lk.LanceDataset, tmp_path: Path) -> None:
    clone = add(main.shallow_clone(tmp_path / "clone", 2), 30)
    again = add(clone.deep_clone(tmp_path / "again", clone.version), 31)
    add(main, 3)
    assert meet(main, clone) == ("main", 2)
    assert meet(main, again) == ("main", 2)
    found = common_ancestor(clone._snapshot, again._snapshot)
    assert found is not None
    assert (found.location.uri, found.version) == (str(tmp_path / "clone"), clone.version)


def test_tables_that_have_nothing_in_common(main: lk.LanceDataset, tmp_path: Path) -> None:
    other = lk.write_dataset({"id": [0]}, tmp_path / "other")
    assert meet(main, other) is None
    clone = main.shallow_clone(tmp_path / "clone", 3)
    lk.LanceDataset.drop(main.uri)
    assert meet(clone, other) is None
