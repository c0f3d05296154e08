"""Datasets made to do harm: whatever is called, nothing outside changes, nothing runs away."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

import lancekit as lk
from lancekit.errors import CorruptFileError
from tests.support import hostile
from tests.support.hostile_datasets import HOSTILE
from tests.support.patience import WHOLE_SECONDS
from tests.support.public_calls import CALLS, NEEDS_SPARK, ROWS, public_names

ROOT = Path(__file__).parents[2]
SHARES = 3


def test_everything_that_a_dataset_offers_is_called() -> None:
    assert public_names() <= set(CALLS) | set(NEEDS_SPARK)
    classes = {name.partition(".")[0] for name in public_names()}
    assert {name for name in CALLS if name.partition(".")[0] in classes} <= public_names()


def run(root: Path, how: str, names: list[str]) -> int:
    """Try calls on hostile datasets, in a process of its own; return how many were tried."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.support.hostile_datasets",
            str(root),
            how,
            *names,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=WHOLE_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout)
    assert report["found"] == {}
    return int(report["tried"])


@pytest.mark.torture
@pytest.mark.parametrize("share", range(SHARES))
def test_no_call_on_a_hostile_dataset_does_harm(tmp_path: Path, share: int, whole: bool) -> None:
    """Whole: each call on each; otherwise each dataset and each call once, and a third is shown."""
    names = list(HOSTILE)
    if whole:
        names = names[share::SHARES]
        assert run(tmp_path, "every", names) == len(names) * len(CALLS)
        return
    if share:
        pytest.skip("only in a whole run; the first share has all calls, and all datasets")
    random.Random(1).shuffle(names)
    assert len(names) >= len(CALLS)
    assert run(tmp_path, "next", names) == len(names) + -(-len(names) // 3)


def test_a_manifest_that_names_a_column_of_no_file_is_damaged(tmp_path: Path) -> None:
    whole = lk.write_dataset(ROWS, tmp_path / "t").to_table(["s", "b"], blob_handling="all_binary")
    hostile.alter(tmp_path / "t", hostile.COUNTS["column 2**31"])
    ds = lk.dataset(tmp_path / "t")
    for columns in (["k"], None):
        with pytest.raises(CorruptFileError, match="no physical column 2147483647"):
            ds.to_table(columns)
    assert ds.to_table(["s", "b"], blob_handling="all_binary") == whole
