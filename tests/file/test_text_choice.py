"""What text is written for: which encodings are chosen, by all that write, and who reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit.errors import InvalidArgumentError
from lancekit.options import GOALS, options
from tests.file.lance_io import open_ours, read_reference, write_ours
from tests.file.test_old_release import READ

WORDS = "the north wind and sun were disputing which was stronger when a traveller came along"

#: by version, what becomes of each kind of text for each goal
ENCODINGS = {
    "sentences": {
        "balance": "mini-block of strings, lz4",
        "scan": "mini-block of strings",
        "take": "mini-block of strings, fsst",
        "size": "mini-block of strings, zstd",
    },
    "long": {
        "balance": "mini-block of strings, lz4",
        "scan": "full-zip of strings",
        "take": "full-zip of strings, fsst",
        "size": "mini-block of strings, zstd",
    },
    "noise": dict.fromkeys(("balance", "scan", "take"), "mini-block of strings")
    | {"size": "mini-block of strings, zstd"},
    "few": dict.fromkeys(GOALS, "dictionary"),
    "bytes": dict.fromkeys(GOALS, "mini-block of strings"),
}


def _lines(rng: np.random.Generator, rows: int, words: int) -> list[str]:
    return [" ".join(line) for line in rng.choice(WORDS.split(), (rows, words)).tolist()]


def _table(rows: int = 4000) -> pa.Table:
    rng = np.random.default_rng(3)
    noise = rng.integers(33, 126, (rows, 12), np.uint8)
    sentences = pa.array(_lines(rng, rows, 8))
    return pa.table(
        {
            "sentences": sentences,
            "long": pa.array(_lines(rng, rows, 90)),
            "noise": pa.array([line.tobytes().decode() for line in noise]),
            "few": sentences.take(pa.array(rng.integers(0, 50, rows))),
            "bytes": sentences.cast(pa.binary()),
            "null": pa.array(sentences, mask=rng.random(rows) < 0.3),
        }
    )


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return _table()


@pytest.mark.cover
@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("goal", GOALS)
def test_each_goal_has_its_encodings(
    table: pa.Table, tmp_path: Path, pylance4: Callable[..., Any], goal: str, version: str
) -> None:
    data = write_ours(table, version, optimize_for=goal)
    (tmp_path / "a.lance").write_bytes(data)
    stored = lk.file.LanceFileReader(tmp_path / "a.lance").metadata().columns
    found = {column.name: column.pages[0].encoding for column in stored}
    for name, wanted in ENCODINGS.items():
        assert wanted[goal] in found[name], name
        if "dictionary" not in wanted[goal]:
            assert found[name].endswith(wanted[goal]), name
    reader = open_ours(data)
    assert reader.read(reader.columns).equals(table)
    rows = np.arange(5, 4000, 97)
    assert reader.read(reader.columns, rows).equals(table.take(pa.array(rows)))
    assert read_reference(data, tmp_path / "b.lance").equals(table)
    pylance4(READ, file=str(tmp_path / "a.lance"), out=str(tmp_path / "a.arrow"))
    assert pa.ipc.open_file(tmp_path / "a.arrow").read_all().equals(table)


@pytest.mark.parametrize("goal", GOALS)
def test_the_choice_does_not_depend_on_kernels(kernels: Any, table: pa.Table, goal: str) -> None:
    with options(kernels=False):
        plain = write_ours(table, optimize_for=goal)
    assert write_ours(table, optimize_for=goal) == plain


def _encodings(ds: lk.LanceDataset) -> list[str]:
    """Return how each file of a dataset has its text."""
    paths = [f"{ds.uri}/data/{file.path}" for f in ds.get_fragments() for file in f.data_files()]
    columns = [c for path in paths for c in lk.file.LanceFileReader(path).metadata().columns]
    return [c.pages[0].encoding.rpartition(", ")[2] for c in columns if c.name == "t"]


def test_all_that_write_follow(tmp_path: Path, table: pa.Table) -> None:
    text = table.column("sentences")
    parts = [pa.table({"t": text.slice(start, 1000)}) for start in range(0, 4000, 1000)]
    ds = lk.write_dataset(parts[0], tmp_path / "d", optimize_for="take")
    ds = lk.write_dataset(parts[1], ds, mode="append", optimize_for="size")
    fragments = lk.fragment.write_fragments(parts[2], ds, optimize_for="scan")
    ds = lk.LanceDataset.commit(ds, lk.LanceOperation.Append(fragments), read_version=ds.version)
    with options(optimize_for="take"):
        ds = lk.write_dataset(parts[3], ds, mode="append")
    assert _encodings(ds) == ["fsst", "zstd", "mini-block of strings", "fsst"]
    with options(optimize_for="size"):
        ds.update({"t": "concat(t, '.')"})
    assert set(_encodings(ds)) == {"zstd"}
    with options(optimize_for="scan"):
        ds.alter_columns({"path": "t", "data_type": pa.large_string()})
    assert set(_encodings(ds)) == {"mini-block of strings"}
    ds = lk.write_dataset(parts[0], ds, mode="append")
    with options(optimize_for="take"):
        ds.optimize.compact_files()
    assert _encodings(ds) == ["fsst"]
    assert lance.dataset(ds.uri).to_table().equals(ds.to_table())


def test_a_goal_that_nobody_knows(tmp_path: Path) -> None:
    for write in (
        lambda: lk.write_dataset({"t": ["a"]}, tmp_path / "d", optimize_for="speed"),
        lambda: lk.fragment.write_fragments({"t": ["a"]}, tmp_path / "d", optimize_for="speed"),
        lambda: lk.file.LanceFileWriter(tmp_path / "a.lance", optimize_for="speed"),
    ):
        with pytest.raises(
            InvalidArgumentError, match=r"optimize_for must be .* got 'speed'"
        ) as caught:
            write()
        assert "'balance', 'scan', 'take' or 'size'" in str(caught.value)
    with pytest.raises(InvalidArgumentError, match=r"option 'optimize_for' must be .* got 'speed'"):
        options.optimize_for = "speed"
    assert list(tmp_path.iterdir()) == []
