"""Maps and columns of tokens: indices that both libraries go on with."""

from __future__ import annotations

import random
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancekit as lk
from lancekit._index.build import text_partitions
from lancekit.file import LanceFileReader

WORDS = [f"w{number}" for number in range(60)] + ["schnee", "снег", "雪", "snow", "snowing"]
PLAIN: dict[str, Any] = {"stem": False, "remove_stop_words": False}
SEARCH = """
ds = lance.dataset(arguments["uri"])
if arguments["optimize"]:
    ds.optimize.optimize_indices()
result = {
    word: ds.to_table(["id"], full_text_query=word)["id"].to_pylist()
    for word in arguments["words"]
}
"""


def rows(first: int, number: int) -> pa.Table:
    source = random.Random(first)
    texts = [" ".join(source.choices(WORDS, k=source.randint(0, 6))) for _ in range(number)]
    return pa.table({"id": range(first, first + number), "t": texts})


def forms(uri: str) -> list[str]:
    """How each segment holds its tokens, the oldest first."""
    found = []
    for segment in lk.dataset(uri).describe_indices()[0].segments:
        file = LanceFileReader(f"{uri}/_indices/{segment.uuid}/metadata.lance")
        said = file.metadata().schema.metadata or {}
        found.append(said[b"token_set_format"].decode())
    return found


def there(uri: str) -> dict[str, list[int]]:
    """The rows that have each word."""
    found: dict[str, list[int]] = {}
    for row in sorted(lance.dataset(uri).to_table(["id", "t"]).to_pylist(), key=itemgetter("id")):
        for word in set(row["t"].split()):
            found.setdefault(word, []).append(row["id"])
    return found


def check(uri: str) -> None:
    """What both find is what is there."""
    wanted = there(uri)
    for library in (lance, lk):
        ds = library.dataset(uri)
        for word in (*WORDS[:3], *WORDS[-5:], "sno"):
            found = ds.to_table(["id", "_score"], full_text_query=word)["id"].to_pylist()
            assert sorted(found) == wanted.get(word, [])


@pytest.fixture
def in_columns(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Have lancekit write columns, as where there are too many words for a map."""
    most = text_partitions._MOST_LETTERS
    return lambda wanted: monkeypatch.setattr(
        text_partitions, "_MOST_LETTERS", 0 if wanted else most
    )


@pytest.mark.cover
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "row-ids"])
@pytest.mark.parametrize("maker", [lk, lance], ids=["mine", "theirs"])
def test_each_goes_on_where_the_other_left_off(
    tmp_path: Path, pylance4: Callable[..., Any], maker: ModuleType, stable: bool
) -> None:
    uri, other = str(tmp_path / "d.lance"), lance if maker is lk else lk
    lance.write_dataset(rows(0, 200), uri, max_rows_per_file=80, enable_stable_row_ids=stable)
    maker.dataset(uri).create_scalar_index("t", "INVERTED", **PLAIN)
    for turn, library in enumerate([other, maker, other]):
        lk.dataset(uri).insert(rows(200 + 30 * turn, 30))
        library.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
        check(uri)
    assert forms(uri) == ["fst"] * 4
    lance.dataset(uri).delete("id % 7 = 3")
    other.dataset(uri).insert(rows(300, 40))
    for merge in (2, 9):
        other.dataset(uri).optimize.optimize_indices(num_indices_to_merge=merge)
        check(uri)
    assert forms(uri) == ["fst"]
    for library in (maker, other):
        library.dataset(uri).insert(rows(340 if library is maker else 380, 40))
        lance.dataset(uri).delete("id % 11 = 4")
        library.dataset(uri).optimize.compact_files()
        library.dataset(uri).optimize.optimize_indices()
        check(uri)
    lance.dataset(uri).delete("id = 0")
    lance.dataset(uri).insert(rows(420, 10))
    for optimize in (False, True):
        answers = pylance4(SEARCH, uri=uri, words=WORDS[-5:], optimize=optimize)
        wanted = there(uri)
        assert {word: sorted(found) for word, found in answers.items()} == {
            word: wanted[word] for word in answers
        }
    check(uri)


def test_columns_stay_beside_columns_and_become_maps_alone(
    tmp_path: Path, in_columns: Callable[[bool], None]
) -> None:
    uri = str(tmp_path / "d.lance")
    lance.write_dataset(rows(0, 100), uri)
    in_columns(True)
    lk.dataset(uri).create_scalar_index("t", "INVERTED", **PLAIN)
    assert forms(uri) == ["arrow"]
    check(uri)
    in_columns(False)
    for first in (100, 120):
        lance.dataset(uri).insert(rows(first, 20))
        lk.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0 if first == 100 else 1)
        assert forms(uri) == ["arrow", "arrow"]
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=2)
    assert forms(uri) == ["arrow"]
    check(uri)
    # the reference's new segments are maps, which it does not put together with columns
    lance.dataset(uri).insert(rows(140, 20))
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    assert forms(uri) == ["arrow", "fst"]
    with pytest.raises(OSError, match="different token set formats"):
        lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=2)
    lk.dataset(uri).insert(rows(160, 20))
    lk.dataset(uri).optimize.optimize_indices()
    assert forms(uri) == ["arrow", "arrow"]
    lance.dataset(uri).insert(rows(180, 20))
    lk.dataset(uri).optimize.optimize_indices(num_indices_to_merge=2)
    assert forms(uri) == ["fst"]
    check(uri)


def test_what_stays_as_columns_becomes_a_map_with_it(
    tmp_path: Path, in_columns: Callable[[bool], None]
) -> None:
    uri = str(tmp_path / "d.lance")
    lance.write_dataset(rows(0, 100), uri)
    in_columns(True)
    lk.dataset(uri).create_scalar_index("t", "INVERTED", **PLAIN)
    in_columns(False)
    lance.dataset(uri).insert(rows(100, 20))
    lk.dataset(uri).optimize.optimize_indices()
    assert forms(uri) == ["fst"]
    check(uri)
    lance.dataset(uri).insert(rows(120, 90))
    lance.dataset(uri).optimize.optimize_indices()
    lance.dataset(uri).optimize.compact_files()
    check(uri)
