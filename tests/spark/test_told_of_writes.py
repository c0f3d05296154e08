"""Who is told of fragments that Spark's tasks wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lancekit as lk

pytestmark = pytest.mark.spark


class _Told:
    def __init__(self) -> None:
        self.heard: list[tuple[str, lk.FragmentMetadata]] = []

    def begin(self, fragment: lk.FragmentMetadata) -> None:
        self.heard.append(("begin", fragment))

    def complete(self, fragment: lk.FragmentMetadata) -> None:
        self.heard.append(("complete", fragment))


def test_the_driver_is_told_of_all_fragments(spark: Any, tmp_path: Path) -> None:
    told: Any = _Told()
    # the files of both partitions are joined, and those are told
    ds = lk.write_dataset(spark.range(1_300_000, numPartitions=2), tmp_path, progress=told)
    assert [word for word, _ in told.heard] == ["begin", "complete"] * 2
    written = [fragment.metadata.files for fragment in ds.get_fragments()]
    assert [fragment.files for word, fragment in told.heard if word == "complete"] == written


def test_what_is_raised_there_leaves_no_file(spark: Any, tmp_path: Path) -> None:
    told: Any = _Told()
    told.complete = lambda fragment: 1 / 0
    with pytest.raises(ZeroDivisionError):
        lk.write_dataset(spark.range(10, numPartitions=2), tmp_path / "d", progress=told)
    assert list((tmp_path / "d").rglob("*.lance")) == []
