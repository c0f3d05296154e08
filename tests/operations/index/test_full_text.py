"""Full-text indices that lancekit makes: pylance searches and extends them as its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import lance.query
import numpy as np
import pyarrow as pa
import pytest

import lancekit as lk
import lancekit.query
from lancekit._storage.local import LocalStore
from lancekit.errors import (
    IndexExistsError,
    InvalidArgumentError,
    InvalidTypeError,
)
from lancekit.file import LanceFileReader
from lancekit.indices import IndexConfig

WORDS = [f"w{number}" for number in range(30)] + ["snow", "late"]
WEIGHTS = [100 / (number + 1) for number in range(30)] + [6, 4]

SEARCH = """
from lance.query import PhraseQuery
ds = lance.dataset(arguments["uri"])
result = []
for query in ("late snow", "w0 w9", PhraseQuery("w0 w1", "t")):
    found = ds.to_table(["id"], full_text_query=query)
    result.append(dict(zip(map(str, found["id"].to_pylist()), found["_score"].to_pylist())))
"""


def rows(first: int, number: int) -> pa.Table:
    """One word is in all texts, which makes whole blocks and a rest; one is often in a text."""
    source = random.Random(first)
    texts = [
        " ".join(["every1", *source.choices(WORDS, WEIGHTS, k=source.randint(0, 20))])
        for _ in range(number - 3)
    ]
    return pa.table({"id": range(first, first + number), "t": [*texts, None, "", "often " * 300]})


QUERIES: list[Callable[[ModuleType], Any]] = [
    lambda q: "late snow",
    lambda q: "every1 w3",
    lambda q: "often",
    lambda q: q.MatchQuery("w0 w1 w2", "t", operator=q.FullTextOperator.AND),
    lambda q: q.PhraseQuery("w0 w1", "t"),
    lambda q: q.PhraseQuery("every1 w0 w1", "t"),
    lambda q: q.PhraseQuery("often often", "t"),
]


def found(ds: Any, query: Any, **scan: Any) -> dict[int, float]:
    table = ds.to_table(["id"], full_text_query=query, **scan)
    return dict(zip(table["id"].to_pylist(), table["_score"].to_pylist(), strict=True))


def same_in_pylance(mine: str, theirs: str) -> None:
    for query in QUERIES:
        ours, reference = lance.dataset(mine), lance.dataset(theirs)
        wanted = found(reference, query(lance.query))
        assert wanted
        assert found(ours, query(lance.query)) == pytest.approx(wanted, rel=1e-5)
        best = sorted(found(ours, query(lance.query), limit=5).values())
        assert best == pytest.approx(sorted(wanted.values())[-5:], rel=1e-5)
        assert found(lk.dataset(mine), query(lancekit.query)) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "row-ids"])
def test_pylance_searches_and_extends_it(tmp_path: Path, stable: bool) -> None:
    places = [str(tmp_path / "mine.lance"), str(tmp_path / "theirs.lance")]
    for place in places:
        ds = lance.write_dataset(
            rows(0, 400), place, max_rows_per_file=150, enable_stable_row_ids=stable
        )
        ds.delete("id % 9 = 4")
    lk.dataset(places[0]).create_scalar_index("t", "INVERTED", with_position=True)
    lance.dataset(places[1]).create_scalar_index("t", "INVERTED", with_position=True)
    same_in_pylance(*places)
    for place in places:
        ds = lance.dataset(place)
        ds.insert(rows(400, 60))
    same_in_pylance(*places)
    for place in places:
        lance.dataset(place).optimize.optimize_indices()
        lance.dataset(place).optimize.compact_files()
    same_in_pylance(*places)


def parts(place: Path) -> dict[str, int]:
    """Return the files of the newest segment, each with its number on the disk."""
    newest = max(place.glob("_indices/*"), key=lambda folder: folder.stat().st_mtime_ns)
    return {file.name: file.stat().st_ino for file in newest.iterdir()}


@pytest.mark.cover
@pytest.mark.parametrize("positions", [False, True], ids=["plain", "positions"])
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "row-ids"])
@pytest.mark.parametrize("maker", [lk, lance], ids=["mine", "theirs"])
def test_what_stays_of_an_index_is_not_written_again(
    tmp_path: Path, pylance4: Callable[..., Any], maker: ModuleType, stable: bool, positions: bool
) -> None:
    place, other = tmp_path / "mine", tmp_path / "theirs"
    for library, uri in ((lk, place), (lance, other)):
        lance.write_dataset(
            rows(0, 300), str(uri), max_rows_per_file=150, enable_stable_row_ids=stable
        )
        maker.dataset(str(uri)).create_scalar_index("t", "INVERTED", with_position=positions)
        before = parts(uri)
        lance.dataset(str(uri)).insert(rows(300, 150))
        library.dataset(str(uri)).optimize.optimize_indices()
        if library is lk:
            kept = parts(place)
            assert kept["part_0_invert.lance"] == before["part_0_invert.lance"]
            assert kept["part_0_docs.lance"] == before["part_0_docs.lance"]
            assert kept["part_0_tokens.lance"] == before["part_0_tokens.lance"]
    answers = []
    for step in ("kept", "compacted", "without some", "by pylance"):
        if step == "without some":
            for library, uri in ((lk, place), (lance, other)):
                lance.dataset(str(uri)).delete("id < 20 OR id = 170")
                lance.dataset(str(uri)).insert(rows(450, 150))
                library.dataset(str(uri)).optimize.optimize_indices()
        elif step != "kept":
            library = lk if step == "compacted" else lance
            library.dataset(str(place)).optimize.compact_files()
            lance.dataset(str(other)).optimize.compact_files()
        for query in QUERIES[: 4 if not positions else None]:
            wanted = found(lance.dataset(str(other)), query(lance.query))
            for ours in (lk.dataset(str(place)), lance.dataset(str(place))):
                module = lancekit.query if isinstance(ours, lk.LanceDataset) else lance.query
                mine = found(ours, query(module))
                assert mine.keys() == wanted.keys()
                assert mine == pytest.approx(wanted, rel=1e-5) or step != "kept"
            answers.append(len(wanted))
        if step == "compacted" and not stable and maker is lk:
            assert parts(place)["part_0_invert.lance"] == kept["part_0_invert.lance"]
    assert min(answers) > 0
    if positions and not stable:
        theirs = pylance4(SEARCH, uri=str(place))
        assert {int(row) for row in theirs[0]} == set(found(lk.dataset(str(place)), "late snow"))


@pytest.mark.parametrize("library", [lk, lance], ids=["mine", "theirs"])
def test_partitions_stay_few(tmp_path: Path, library: ModuleType) -> None:
    places = [tmp_path / "mine", tmp_path / "theirs"]
    for place in places:
        lance.write_dataset(rows(0, 60), str(place))
        library.dataset(str(place)).create_scalar_index("t", "INVERTED", with_position=True)
    for step in range(1, 6):
        for module, place in zip((lk, lance), places, strict=True):
            lance.dataset(str(place)).insert(rows(step * 60, 60))
            module.dataset(str(place)).optimize.optimize_indices()
    same_in_pylance(*map(str, places))
    assert sum(name.endswith("_docs.lance") for name in parts(places[0])) <= 3


def test_files_are_copied_where_they_cannot_be_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalStore, "adopt", lambda *_: False)
    ds = lk.write_dataset(rows(0, 200), str(tmp_path / "d"))
    ds.create_scalar_index("t", "INVERTED")
    before = parts(tmp_path / "d")
    wanted = found(ds, "late snow")
    ds.insert(rows(200, 50))
    ds.optimize.optimize_indices()
    assert not set(before.values()) & set(parts(tmp_path / "d").values())
    assert set(wanted) <= set(found(lance.dataset(ds.uri), "late snow"))


def with_outliers(first: int, number: int) -> pa.Table:
    """Return texts of most lengths, and some that have a word much more often than others."""
    table = rows(first, number)
    often = [f"{'every1 ' * (first + place) if place % 30 == 0 else ''}" for place in range(number)]
    texts = [
        None if text is None else text + more
        for text, more in zip(table["t"].to_pylist(), often, strict=True)
    ]
    return table.set_column(1, "t", pa.array(texts, pa.string()))


@pytest.mark.parametrize(
    ("form", "version"),
    [({}, 2), ({"format_version": 1}, 1), ({"format_version": 3}, 3), ({"block_size": 256}, 3)],
    ids=str,
)
def test_versions_that_pylance_writes(tmp_path: Path, form: dict[str, int], version: int) -> None:
    rows = pa.table({"id": [1, 2, 3], "t": ["late snow", "snow", "rain"]})
    theirs = lance.write_dataset(rows, str(tmp_path))
    theirs.create_scalar_index("t", "INVERTED", **form)
    (index,) = theirs.describe_indices()
    assert index.segments[0].index_version == version
    ours = lk.dataset(tmp_path)
    assert ours.to_table(full_text_query="snow")["id"].to_pylist() == [2, 1]
    ours.insert(rows)
    ours.optimize.optimize_indices()
    (index,) = lance.dataset(str(tmp_path)).describe_indices()
    assert index.segments[0].index_version == 2
    found = lance.dataset(str(tmp_path)).to_table(full_text_query="snow")
    assert sorted(found["id"].to_pylist()) == [1, 1, 2, 2]


@pytest.mark.cover
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "row-ids"])
@pytest.mark.parametrize("form", [{"format_version": 3}, {"block_size": 256}], ids=str)
def test_indices_of_the_newest_version(tmp_path: Path, form: dict[str, int], stable: bool) -> None:
    place, large = str(tmp_path / "d"), "block_size" in form
    lance.write_dataset(
        with_outliers(0, 700), place, max_rows_per_file=300, enable_stable_row_ids=stable
    )
    lance.dataset(place).create_scalar_index("t", "INVERTED", with_position=True, **form)

    def both_agree() -> None:
        for query in QUERIES:
            wanted = found(lance.dataset(place), query(lance.query))
            assert wanted
            assert found(lk.dataset(place), query(lancekit.query)) == pytest.approx(
                wanted, rel=1e-6
            )

    both_agree()
    lance.dataset(place).insert(with_outliers(700, 50))
    both_agree()
    lance.dataset(place).optimize.optimize_indices(num_indices_to_merge=0)
    both_agree()
    # addresses in segments with large blocks are not made anew where there are several
    left = (
        pytest.warns(UserWarning, match="large blocks") if large and not stable else nullcontext()
    )
    with left:
        lk.dataset(place).optimize.compact_files()
    both_agree()
    lk.dataset(place).insert(with_outliers(750, 50))
    # segments of both forms would not be searched
    lk.dataset(place).optimize.optimize_indices(num_indices_to_merge=0)
    both_agree()
    lance.dataset(place).delete("id % 5 = 2")
    lk.dataset(place).optimize.compact_files()
    both_agree()
    lance.dataset(place).insert(with_outliers(800, 50))
    lance.dataset(place).optimize.optimize_indices()
    both_agree()


def test_files_say_what_pylance_says(tmp_path: Path) -> None:
    posted = []
    for library in (lk, lance):
        place = tmp_path / library.__name__
        ds = lance.write_dataset(rows(0, 400), str(place))
        ds = library.dataset(str(place))
        ds.create_scalar_index("t", "FTS", with_position=True)
        (path,) = place.glob("_indices/*/part_0_invert.lance")
        posted.append(LanceFileReader(str(path)).read_all().to_table())
    mine, theirs = posted
    for name in ("_length", "_compressed_position", "_position_block_offset"):
        assert mine[name].to_pylist() == theirs[name].to_pylist()
    np.testing.assert_allclose(mine["_max_score"], theirs["_max_score"], rtol=1e-5)
    for ours, others in zip(
        mine["_posting"].to_pylist(), theirs["_posting"].to_pylist(), strict=True
    ):
        assert [block[4:] for block in ours] == [block[4:] for block in others]
        best, wanted = ([np.frombuffer(b[:4], "<f4")[0] for b in part] for part in (ours, others))
        np.testing.assert_allclose(best, wanted, rtol=1e-5)


def test_4_0_0_searches_it(tmp_path: Path, pylance4: Callable[..., Any]) -> None:
    place = str(tmp_path / "d.lance")
    lance.write_dataset(rows(0, 300), place)
    ds = lk.dataset(place)
    ds.create_scalar_index("t", "INVERTED", with_position=True)
    queries = ("late snow", "w0 w9", lancekit.query.PhraseQuery("w0 w1", "t"))
    for query, theirs in zip(queries, pylance4(SEARCH, uri=place), strict=True):
        assert {int(row): score for row, score in theirs.items()} == pytest.approx(
            found(ds, query), rel=1e-5
        )


def test_settings(tmp_path: Path) -> None:
    texts = ["Late snow-fall", "LATE Rain", "the café"]
    place = str(tmp_path / "d.lance")
    ds = lk.write_dataset(pa.table({"id": range(3), "t": texts}), place)
    settings = {"base_tokenizer": "whitespace", "lower_case": False, "stem": False}
    ds.create_scalar_index("t", IndexConfig("inverted", {**settings, "ascii_folding": False}))
    for each in (ds, lance.dataset(place)):
        assert set(found(each, "Late")) == {0}
        assert set(found(each, "LATE snow-fall")) == {0, 1}
        assert set(found(each, "cafe the")) == set()
    ds.create_scalar_index("t", "INVERTED", custom_stop_words=["late"], max_token_length=None)
    for each in (ds, lance.dataset(place)):
        assert set(found(each, "late cafe")) == {2}
    assert ds.index_columns == {"t_idx": ("t",)}


def test_lists_no_rows_and_names(tmp_path: Path) -> None:
    place = str(tmp_path / "d.lance")
    texts = [["late snow", None, "rain"], None, [], ["snow"]]
    ds = lk.write_dataset(pa.table({"id": range(4), "t": texts}), place)
    ds.create_scalar_index("id", "BTREE", name="t_idx")
    ds.create_scalar_index("t", "INVERTED", train=False)
    assert found(lance.dataset(place), "snow").keys() == {0, 3}
    ds.create_scalar_index("t", "INVERTED", with_position=True)
    assert found(lance.dataset(place), "snow") == pytest.approx(found(ds, "snow"), rel=1e-5)
    assert found(ds, '"snow rain"').keys() == {0}
    assert ds.index_columns == {"t_idx": ("id",), "t_idx_2": ("t",)}
    with pytest.raises(IndexExistsError, match="replace is False"):
        ds.create_scalar_index("t", "INVERTED", replace=False)
    with pytest.raises(IndexExistsError, match="on another column"):
        ds.create_scalar_index("t", "INVERTED", name="t_idx")


@pytest.mark.cover
@pytest.mark.parametrize("theirs", [False, True], ids=["ours", "theirs"])
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "row-ids"])
def test_new_rows_join(tmp_path: Path, stable: bool, theirs: bool) -> None:
    place = str(tmp_path / "d.lance")
    words = [f"w{number % 7} common" for number in range(300)]
    lk.write_dataset({"k": range(300), "t": words}, place, enable_stable_row_ids=stable)
    first: Any = (lance if theirs else lk).dataset(place)
    first.create_scalar_index("t", "INVERTED", with_position=True)
    ds = lk.write_dataset({"k": [300, 301], "t": ["w3 common", None]}, place, mode="append")
    ds.update({"t": "'w9 w3 common'"}, where="k = 5")
    ds.delete("k = 10")
    for merge in (0, 1, 2):
        ds.optimize.optimize_indices(num_indices_to_merge=merge)
        for one in (lk.dataset(place), lance.dataset(place)):
            for asked in ("w3", '"w3 common"'):
                table = one.to_table(["k"], full_text_query=asked, fast_search=True)
                known = {k for k in range(300) if k % 7 == 3 and k != 10} | {5, 300}
                assert set(table["k"].to_pylist()) == known, (merge, asked)
        ds.insert({"k": [1000 + merge], "t": ["lantern"]})
    version = ds.version
    ds.optimize.optimize_indices()
    ds.optimize.compact_files()
    assert ds.version > version
    for one in (lk.dataset(place), lance.dataset(place)):
        found_ = one.to_table(["k"], full_text_query="lantern", fast_search=True)["k"].to_pylist()
        assert sorted(found_) == [1000, 1001, 1002]
    lance.dataset(place).optimize.optimize_indices()
    lance.dataset(place).optimize.compact_files()
    found_ = lance.dataset(place).to_table(["k"], full_text_query="lantern", fast_search=True)
    assert len(found_) == 3


@pytest.mark.cover
@pytest.mark.parametrize("by", [lk, lance], ids=["ours", "theirs"])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"min_ngram_length": 2, "max_ngram_length": 4, "stem": True, "remove_stop_words": True},
        {"prefix_only": True, "min_ngram_length": 1, "max_ngram_length": 3},
    ],
    ids=str,
)
def test_pieces_of_texts(by: ModuleType, given: dict[str, Any], tmp_path: Path) -> None:
    source = random.Random(4)
    texts = ["lance database", "Lance is cool", "search the Café", "ab", "  ", "the theme", None]
    texts += ["".join(source.choices("abc é", k=source.randint(0, 9))) for _ in range(40)]
    place = str(tmp_path / "d.lance")
    lk.write_dataset({"id": range(len(texts)), "t": texts}, place)
    by.dataset(place).create_scalar_index(
        "t", "INVERTED", base_tokenizer="ngram", with_position=True, **given
    )

    def scores(library: ModuleType, words: str, kind: str) -> dict[int, float]:
        q = library.query
        query = {
            "any": lambda: q.MatchQuery(words, "t"),
            "all": lambda: q.MatchQuery(words, "t", operator=q.FullTextOperator.AND),
            "phrase": lambda: q.PhraseQuery(words, "t"),
        }[kind]()
        found = library.dataset(place).to_table(["id"], full_text_query=query)
        return dict(zip(found["id"].to_pylist(), found["_score"].to_pylist(), strict=True))

    for words in ("lan", "la", "lance cool", "the", "caf", "ab c", "x"):
        for kind in ("any", "all", "phrase"):
            theirs = scores(lance, words, kind)
            assert scores(lk, words, kind) == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize("by", [lance, lk], ids=["lance", "lancekit"])
@pytest.mark.parametrize(
    ("values", "queries"),
    [
        (["snow", "rain", "", "hail", "", None], ["snow", ""]),
        (
            [["snow"], ["rain", ""], ["", "rain"], [""], ["a", "", "b"], [None], [], None],
            ["snow", "", "rain", "rain ", "a  b"],
        ),
    ],
    ids=["texts", "lists"],
)
def test_the_raw_tokenizer_counts_empty_texts_as_pylance_does(
    by: ModuleType, values: list[Any], queries: list[str], tmp_path: Path
) -> None:
    """In the index, beside it, and after both were joined."""
    table = pa.table({"id": range(len(values)), "t": values})
    ds = by.write_dataset(table, tmp_path / "d")
    plain = {"stem": False, "remove_stop_words": False}
    ds.create_scalar_index("t", "INVERTED", base_tokenizer="raw", **plain)

    def found(library: ModuleType, query: str) -> list[tuple[int, float]]:
        rows = library.dataset(tmp_path / "d").to_table(["id"], full_text_query=query).to_pylist()
        return sorted((row["id"], round(row["_score"], 4)) for row in rows)

    for join in (False, True):
        if join:
            by.dataset(tmp_path / "d").optimize.optimize_indices()
        for query in queries:
            assert found(lk, query) == found(lance, query), (query, join)
            assert found(lk, query)
        if not join:
            lance.write_dataset(table, tmp_path / "d", mode="append")
            for query in queries[:2]:
                assert found(lk, query) == found(lance, query), query


def test_an_index_whose_tokens_are_not_made_here_stays(tmp_path: Path) -> None:
    place = str(tmp_path / "d.lance")
    lance.write_dataset(
        pa.table({"id": range(8), "t": ["lantern"] * 8}), place, max_rows_per_file=4
    )
    lance.dataset(place).create_scalar_index("t", "INVERTED", base_tokenizer="icu")
    ds = lk.write_dataset({"id": [9], "t": ["lance"]}, place, mode="append")
    before = ds.list_indices()
    with pytest.warns(UserWarning, match="'t_idx' was not updated"):
        ds.optimize.optimize_indices()
    assert ds.list_indices() == before
    ds.delete("id = 2")
    ds.optimize.compact_files()  # for which it need not be known what its tokens are
    found_ = lance.dataset(place).to_table(["id"], full_text_query="lantern", fast_search=True)
    assert sorted(found_["id"].to_pylist()) == [0, 1, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("column", "given", "error", "text"),
    [
        ("id", {}, InvalidTypeError, "cannot have an index of type INVERTED"),
        ("t", {"stemm": True}, InvalidArgumentError, "no parameter 'stemm'"),
        ("t", {"stem": "yes"}, InvalidArgumentError, "stem must be .* got 'yes'"),
        ("t", {"with_position": "yes"}, InvalidArgumentError, "with_position must be .* got 'yes'"),
        (
            "t",
            {"base_tokenizer": "icu"},
            InvalidArgumentError,
            "base_tokenizer must be .* got 'icu'",
        ),
        ("t", {"min_ngram_length": 0}, InvalidArgumentError, "min_ngram_length must be .* got 0"),
        ("t", {"min_ngram_length": 4}, InvalidArgumentError, "4 is larger than max_ngram_length 3"),
        ("t", {"max_token_length": 0}, InvalidArgumentError, "max_token_length must be .* got 0"),
        (
            "t",
            {"custom_stop_words": "a"},
            InvalidArgumentError,
            "custom_stop_words must be .* got 'a'",
        ),
        ("t", {"language": "Klingon"}, InvalidArgumentError, "language must be .* got 'Klingon'"),
    ],
)
def test_what_cannot_be_made(
    tmp_path: Path, column: str, given: dict[str, Any], error: type[Exception], text: str
) -> None:
    ds = lk.write_dataset(rows(0, 5), tmp_path / "d.lance")
    with pytest.raises(error, match=text):
        ds.create_scalar_index(column, "INVERTED", **given)
    assert ds.version == 1


def test_older_releases_find_what_joined(tmp_path: Path, pylance4: Callable[..., Any]) -> None:
    """An index of release 4.0.0 is kept up here, and goes on there.

    Without positions: that release cannot compact a table whose index has those of 14.0.2.
    """
    place = str(tmp_path / "d.lance")
    program = """
import pyarrow as pa
uri, mode = arguments["uri"], arguments["mode"]
if mode == "create":
    rows = pa.table({"k": range(300), "t": [f"w{k % 7} common" for k in range(300)]})
    ds = lance.write_dataset(rows, uri, max_rows_per_file=100)
    ds.create_scalar_index("t", "INVERTED", with_position=False)
if mode == "extend":
    lance.dataset(uri).optimize.optimize_indices()
    lance.dataset(uri).optimize.compact_files()
ds = lance.dataset(uri)
result = sorted(ds.to_table(full_text_query="w3", fast_search=True)["k"].to_pylist())
"""
    known = list(range(3, 300, 7))
    assert pylance4(program, uri=place, mode="create") == known
    ds = lk.write_dataset({"k": [1000], "t": ["w3"]}, place, mode="append")
    ds.optimize.optimize_indices()
    assert pylance4(program, uri=place, mode="read") == [*known, 1000]
    ds.delete("k = 3")
    ds.optimize.compact_files()
    assert pylance4(program, uri=place, mode="read") == [*known[1:], 1000]
    lk.write_dataset({"k": [1001], "t": ["w3"]}, place, mode="append")
    assert pylance4(program, uri=place, mode="extend") == [*known[1:], 1000, 1001]
    for one in (lk.dataset(place), lance.dataset(place)):
        table = one.to_table(["k"], full_text_query="w3", fast_search=True)
        assert sorted(table["k"].to_pylist()) == [*known[1:], 1000, 1001]


def test_arguments_that_ask_for_what_is_done_anyway_are_taken(tmp_path: Path) -> None:
    table = pa.table({"id": range(50), "t": [f"w{n % 7} w{n % 3}" for n in range(50)]})
    found = []
    for module in (lance, lk):
        ds = module.write_dataset(table, tmp_path / module.__name__)
        ds.create_scalar_index(
            "t",
            "INVERTED",
            format_version="v2",
            document_granularity=module.query.DocumentGranularity.ROW,
            block_size=128,
            memory_limit=512,
            num_workers=1,
        )
        (described,) = ds.describe_indices()
        rows = ds.to_table(["id", "_score"], full_text_query="w5").sort_by("id")
        found.append([described.segments[0].index_version, rows["id"].to_pylist()])
        found[-1] += rows["_score"].to_pylist()
    assert found[0][:2] == found[1][:2]
    assert found[0][2:] == pytest.approx(found[1][2:], rel=1e-6)
    for given in ({"num_workers": "many"}, {"block_size": 256}):
        with pytest.raises((InvalidArgumentError, InvalidTypeError), match=next(iter(given))):
            ds.create_scalar_index("t", "INVERTED", **given)
