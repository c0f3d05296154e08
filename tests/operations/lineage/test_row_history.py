"""The history of a row is what its versions say, one compared with the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lancekit as lk
from tests.support.row_stories import Change, Story, story


def cells(story: Story, change: Change, newest: dict[str, str]) -> dict[str, tuple[Any, Any]]:
    """Return the values that changed, by the names that columns have in that version."""
    version, kind, before, after = change
    versions = story.versions()
    at = versions[versions.index(version) - 1] if kind == "died" else version
    found = {}
    for name, now in story.names[at].items():
        ends = tuple(None if row is None else row.get(name) for row in (before, after))
        if name != "id" and ends[0] != ends[1]:
            found[now] = ends
    return found


def check(told: Story) -> None:
    ds = lk.dataset(told.path)
    newest = told.names[ds.version]
    ever: set[int] = set()
    for version in told.versions():
        ever |= told.rows(version).keys()
    for key in sorted(ever):
        expected = [(c[0], c[1], cells(told, c, newest)) for c in told.changes(key)]
        found = ds.row_history({newest["id"]: key})
        assert [(c.version, c.kind, c.cells) for c in found] == expected, key
        assert {c.key[newest["id"]] for c in found} == {key}
        assert [c.before for c in found] == [before(told, c.version) for c in found]


def before(told: Story, version: int) -> int | None:
    return max((v for v in told.versions() if v < version), default=None)


@pytest.mark.torture
@pytest.mark.parametrize("stable", [False, True])
def test_of_random_histories(tmp_path: Path, stable: bool, whole: bool) -> None:
    for seed in range(150) if whole else [int(stable)]:
        check(story(tmp_path / f"t{seed}", seed, 14, stable=stable, clean=seed % 2 == 0))
