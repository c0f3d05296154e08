"""Few bytes that claim to be many: refused before memory is set aside, and named."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import lancekit as lk
from lancekit import errors
from tests.support.bombs import BOMBS, READS, file_of, plant
from tests.test_malformed import run

#: the largest of the files: that of 3 GiB in a frame of Zstd
MOST_BYTES = 110_000

#: what tells nothing of the rows
OF_METADATA = ("count", "card")
OF_FEW_ROWS = ("limit", "take")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    folder = tmp_path_factory.mktemp("bombs")
    paths = {}
    for number, (name, bomb) in enumerate(BOMBS.items()):
        plant(bomb, folder / str(number))
        paths[str(folder / str(number))] = name
    return {paths[path]: outcome for path, outcome in run("bombs", *paths).items()}


@pytest.mark.parametrize("name", BOMBS)
def test_no_page_takes_more_than_its_bytes_and_counts_allow(
    found: dict[str, dict[str, str]], name: str
) -> None:
    bomb = BOMBS[name]
    assert len(file_of(bomb)) < MOST_BYTES
    assert found[name].keys() == READS.keys()
    for way, said in found[name].items():
        if way in OF_METADATA or not bomb.problem or (bomb.few and way in OF_FEW_ROWS):
            assert said == "", way
        else:
            assert bomb.problem in said, way
            assert re.search(r"\.lance, column 'c(\.item)?', page 0 is damaged", said), way


def test_who_knows_better_may_say_so(tmp_path: Path) -> None:
    plant(BOMBS["2.0: a dictionary of 2^32 nulls"], tmp_path / "d")
    with pytest.raises(errors.CorruptFileError, match=r"options\.page_memory_bytes"):
        lk.dataset(tmp_path / "d").to_table()
    many = pa.table({"s": ["a" * 100_000] * 5_000})  # half a gigabyte of one text is no bomb
    assert lk.write_dataset(many, tmp_path / "many").to_table().equals(many)
    long = [letter * 3_000_000 for letter in "abc"]
    ds = lk.write_dataset({"s": long}, tmp_path / "long")
    assert ds.to_table()["s"].to_pylist() == long
    with (
        lk.options(page_memory_bytes=1 << 20),
        pytest.raises(errors.CorruptFileError, match=r"would take [39],000,000 bytes"),
    ):
        lk.dataset(tmp_path / "long").to_table()
