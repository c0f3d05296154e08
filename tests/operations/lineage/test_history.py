"""What the commits between two versions did, those that a restore took back included."""

from __future__ import annotations

from pathlib import Path

import lancekit as lk
from lancekit._operations.lineage.diff import operations_between


def test_operations_that_a_restore_took_back(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1, 2, 3]}, tmp_path / "t")
    ds.delete("id = 1")
    ds.insert({"id": [4]}, mode="append")
    ds.checkout_version(1).restore()
    ds.checkout_latest()
    branch = ds.create_branch("b", 4)
    branch.delete("id = 2")

    def between(old: int, new: int) -> list[str]:
        sides = (ds.checkout_version(version)._snapshot for version in (old, new))
        return [type(done).__name__ for done in operations_between(*sides) or []]

    assert between(1, 3) == between(3, 1) == ["Append", "Delete"]
    assert between(2, 2) == []
    assert between(3, 4) == ["Restore", "Append", "Delete"]
    assert operations_between(ds._snapshot, branch._snapshot) is None
