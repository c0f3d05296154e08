"""A commit that fails removes the deletion files that it wrote, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

import lancekit as lk
from lancekit._commit.rules.pending import Pending
from lancekit._format.operations import Delete
from lancekit._operations.cleanup.auto import commit
from lancekit.errors import LancekitError


def test_the_deletion_file_of_an_older_version_stays(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1, 2, 3, 4]}, tmp_path / "d")
    ds.delete("id = 1")
    restored = ds._snapshot.manifest.fragments[0]
    ds.delete("id = 2")
    read = ds._snapshot
    ds.insert({"id": [5]})
    pending = Pending(operation=Delete(updated_fragments=(restored,)))
    with pytest.raises(LancekitError):
        commit(read, pending, strict=True)
    lk.clear_cache()
    assert ds.checkout_version(2).to_table()["id"].to_pylist() == [2, 3, 4]
