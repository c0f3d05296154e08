"""What was acknowledged stays, whoever is killed or stopped at whichever call to the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.shard_histories import run

#: killed writers, mergers, collectors and readers, in all
KILLS, SAMPLE = 10_000, 25


@pytest.mark.torture
def test_no_row_is_lost_or_doubled_or_comes_back(tmp_path: Path, whole: bool) -> None:
    kills = seed = 0
    while kills < (KILLS if whole else SAMPLE):
        kills += run(tmp_path / str(seed), seed).kills
        seed += 1
