"""Few bytes that claim to be many: refused before memory is set aside, and named."""

from __future__ import annotations

import re
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit import errors
from lancekit._file.kernels import bounds
from tests.file.columns import VERSIONS
from tests.support.bombs import BOMBS, READS, file_of, plant
from tests.system.test_malformed import run

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
            place = re.search(r"\.lance, column 'c(\.item)?', page 0(.*)", said)
            assert place, way
            limited = bomb.problem == "would take"
            assert place[2].startswith(":" if limited else " is damaged"), way
            assert ("options.page_memory_bytes" in said) == limited, way


def test_who_knows_better_may_say_so(tmp_path: Path) -> None:
    plant(BOMBS["2.0: a dictionary of 2^32 nulls"], tmp_path / "d")
    with pytest.raises(errors.MemoryLimitError, match=r"options\.page_memory_bytes"):
        lk.dataset(tmp_path / "d").to_table()
    many = pa.table({"s": ["a" * 100_000] * 1_000})  # very many bytes of one text are no bomb
    with lk.options(page_memory_bytes=1 << 27):  # as half a gigabyte is none by default
        assert lk.write_dataset(many, tmp_path / "many").to_table().equals(many)
    long = [letter * 3_000_000 for letter in "abc"]
    ds = lk.write_dataset({"s": long}, tmp_path / "long")
    assert ds.to_table()["s"].to_pylist() == long
    with lk.options(page_memory_bytes=1 << 20):
        limited = lk.dataset(tmp_path / "long")
        with pytest.raises(errors.MemoryLimitError) as refused:
            limited.to_table()
        said = str(refused.value)
        assert "damaged" not in said
        assert "copy" not in said
        assert re.search(r"would take [39],000,000 bytes", said)
        assert "lancekit.options.page_memory_bytes is 1,048,576" in said
        wanted = re.search(r"lancekit\.options\.page_memory_bytes = (\d+)", said)
        assert wanted
        with lk.options(page_memory_bytes=int(wanted[1])):
            assert limited.to_table()["s"].to_pylist() == long


ONE = "a" * 3_000_000
DENSE = {
    "one text": pa.array([ONE]),
    "bytes": pa.array([ONE.encode()]),
    "some texts": pa.array([letter * 900_000 for letter in "abcdef"]),
    "the same text": pa.array([ONE[:20_000]] * 300),
    "few texts": pa.array([ONE[: 20_000 + n % 3] for n in range(300)]),
    "a list": pa.array([[ONE[: 20_000 + n % 3] for n in range(300)]]),
    "a list of the same": pa.array([[ONE[:20_000]] * 300]),
}


@pytest.mark.cover
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mark", [None, "zstd", "lz4"])
def test_what_is_written_is_read_without_being_asked_to(
    tmp_path: Path, version: str, mark: str | None
) -> None:
    """However small its values become: a page that would take too much is cut, or not packed."""
    metadata = mark and {"lance-encoding:compression": mark}
    for number, (name, values) in enumerate(DENSE.items()):
        table = pa.table(
            [values], schema=pa.schema([pa.field("c", values.type, metadata=metadata)])
        )
        uri = str(tmp_path / str(number))
        with lk.options(page_memory_bytes=1 << 20):
            ds = lk.write_dataset(table, uri, data_storage_version=version)
            assert ds.to_table().equals(table), name
            assert ds.take([len(table) - 1]).equals(table.slice(len(table) - 1)), name
        assert lance.dataset(uri).to_table().equals(table), name


def test_writers_keep_to_what_readers_take_whatever_the_option_says_here() -> None:
    with lk.options(page_memory_bytes=1 << 40):
        assert bounds.written() == 1 << 29
