"""Blame names the version that last changed a row, as the versions themselves say."""

from __future__ import annotations

from pathlib import Path

import pytest

import lancekit as lk
from tests.support.row_stories import Story, story


def check(told: Story) -> None:
    ds = lk.dataset(told.path)
    name = told.names[ds.version]["id"]
    found = ds.blame()
    assert found.select(ds.schema.names) == ds.to_table()
    expected = {key: told.last_change(key) for key in told.rows(ds.version)}
    assert (
        dict(zip(*(found[n].to_pylist() for n in (name, "_changed_in")), strict=True)) == expected
    )
    commits = {v.version: v for v in ds.versions()}
    for row in found.to_pylist():
        commit = commits.get(row["_changed_in"])
        facts = (row["_changed_at"], row["_changed_by"], row["_changed_message"])
        assert facts == (
            (None, None, None)
            if commit is None
            else (commit.timestamp, commit.operation, commit.message)
        )


@pytest.mark.torture
@pytest.mark.parametrize("stable", [False, True])
def test_of_random_histories(tmp_path: Path, stable: bool, whole: bool) -> None:
    for seed in range(200 if whole else 12):
        check(story(tmp_path / f"t{seed}", seed, 14, stable=stable, clean=seed % 2 == 0))
