"""A dataset is made only where every reader opens it; one that was sent is read wherever it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit import errors

ROWS = pa.table({"k": [1]})
CONTROL = [*map(chr, range(1, 32)), "\x7f"]
#: what a screen should not be given either, and what the reference opens
OPENED = ["a b", "é", "a\u202eb", "a\x85b", "a\u2028b", 'a"b', "a\\b", "a%20b", "a?b#c", "~a"]


def created(place: Path) -> Any:
    fragments = lk.fragment.write_fragments(ROWS, place.parent / "source")
    return lk.LanceDataset.commit(place, lk.LanceOperation.Overwrite(ROWS.schema, fragments))


MAKE: dict[str, Callable[[Any, Path], Any]] = {
    "write": lambda _, place: lk.write_dataset(ROWS, place),
    "append": lambda _, place: lk.write_dataset(ROWS, place, mode="append"),
    "a URI": lambda _, place: lk.write_dataset(ROWS, f"file://{quote(str(place))}"),
    "fragments": lambda _, place: lk.fragment.write_fragments(ROWS, place),
    "commit": lambda _, place: created(place),
    "clone": lambda ds, place: ds.shallow_clone(place, 1),
    "deep clone": lambda ds, place: ds.deep_clone(place, 1),
}


@pytest.fixture
def source(tmp_path: Path) -> lk.LanceDataset:
    return lk.write_dataset(ROWS, tmp_path / "source")


@pytest.mark.parametrize("way", MAKE)
def test_no_way_makes_a_dataset_that_others_do_not_open(
    source: lk.LanceDataset, tmp_path: Path, way: str
) -> None:
    for name in ("a\nb", "a\x7f/d"):
        with pytest.raises(
            errors.InvalidArgumentError, match=r"contains the character '\\(n|x7f)'"
        ):
            MAKE[way](source, tmp_path / name)
        assert not (tmp_path / name.partition("/")[0]).exists()


def test_the_reference_opens_all_other_places(tmp_path: Path) -> None:
    for character in CONTROL:
        with pytest.raises(OSError, match="Failed to parse path"):
            lance.write_dataset(ROWS, tmp_path / f"a{character}b")
        with pytest.raises(errors.InvalidArgumentError):
            lk.write_dataset(ROWS, tmp_path / f"a{character}b")
    for name in OPENED:
        lk.write_dataset(ROWS, tmp_path / name)
        assert lance.dataset(tmp_path / name).to_table() == ROWS


def test_a_dataset_that_was_sent_is_read_and_written_on(
    source: lk.LanceDataset, tmp_path: Path
) -> None:
    place = Path(source.uri).rename(tmp_path / "a\nb")
    ds = lk.dataset(place)
    ds.insert(ROWS)
    ds.create_branch("b", 1).insert(ROWS)
    lk.write_dataset(ROWS, place, mode="overwrite")
    assert ds.checkout_version(2).count_rows() == 2
    assert ds.checkout_version(("b", None)).count_rows() == 2
