"""Full-text search: the rows and scores that pylance has, with its index and beside it."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
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
from lancekit.errors import (
    ColumnNotFoundError,
    InvalidArgumentError,
    InvalidTypeError,
)

WORDS = [f"w{number}" for number in range(40)] + ["snow", "late", "train"]
WEIGHTS = [200 / (number + 1) for number in range(40)] + [8, 6, 4]

BUILD = """
ds = lance.dataset(arguments["uri"])
ds.create_scalar_index("t", "INVERTED", with_position=True)
result = None
"""


def rows(first: int, number: int) -> pa.Table:
    source = random.Random(first)
    texts = [
        source.choice([None, "", "the"])
        if source.random() < 0.05
        else " ".join(source.choices(WORDS, WEIGHTS, k=source.randint(1, 20)))
        for _ in range(number)
    ]
    return pa.table({"id": range(first, first + number), "t": texts, "plain": texts})


@pytest.fixture(scope="module", params=[False, True], ids=["addresses", "row-ids"])
def uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two segments, rows that none covers, deleted and updated ones."""
    place = str(tmp_path_factory.mktemp("fts") / "d.lance")
    ds = lance.write_dataset(
        rows(0, 600), place, max_rows_per_file=200, enable_stable_row_ids=request.param
    )
    ds.create_scalar_index("t", "INVERTED", with_position=True)
    ds.insert(rows(600, 300))
    ds.optimize.optimize_indices(num_indices_to_merge=0)
    ds.insert(rows(900, 100))
    ds.delete("id % 7 = 3")
    changed = rows(580, 40)
    builder = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    builder.execute(changed)
    return place


Query = Callable[[ModuleType], Any]

QUERIES: dict[str, Query] = {
    "words": lambda q: "late w3 snow",
    "one word twice": lambda q: "snow snow",
    "a stop word": lambda q: "the",
    "nothing": lambda q: "",
    "a word that is nowhere": lambda q: "nowhere",
    "a column": lambda q: {"query": "late snow", "columns": ["t"]},
    "a phrase as text": lambda q: '"w1 w0"',
    "match": lambda q: q.MatchQuery("late snow", "t", boost=2.5),
    "all of": lambda q: q.MatchQuery("w0 w1 w2", "t", operator=q.FullTextOperator.AND),
    "all of, one nowhere": lambda q: q.MatchQuery("w0 no", "t", operator=q.FullTextOperator.AND),
    "phrase": lambda q: q.PhraseQuery("w0 w1", "t"),
    "phrase of three": lambda q: q.PhraseQuery("w0 w1 w0", "t"),
    "phrase with a gap": lambda q: q.PhraseQuery("w0 the w1", "t"),
    "phrase with slop": lambda q: q.PhraseQuery("w2 w1", "t", slop=2),
    "phrase of one word twice": lambda q: q.PhraseQuery("w0 w0", "t", slop=1),
    "boost": lambda q: q.BoostQuery(
        q.MatchQuery("late", "t"), q.MatchQuery("w1", "t"), negative_boost=1.5
    ),
    "columns": lambda q: q.MultiMatchQuery("late snow", ["t", "t"], boosts=[1.0, 2.0]),
    "boolean": lambda q: q.BooleanQuery(
        [
            (q.Occur.MUST, q.MatchQuery("w0", "t")),
            (q.Occur.MUST, q.MatchQuery("w1 w2", "t")),
            (q.Occur.SHOULD, q.MatchQuery("late snow", "t")),
            (q.Occur.MUST_NOT, q.PhraseQuery("w0 w1", "t")),
        ]
    ),
    "and": lambda q: q.MatchQuery("late", "t") & q.MatchQuery("w2", "t"),
    "or": lambda q: q.MatchQuery("late", "t") | q.PhraseQuery("w1 w1", "t"),
}
SCANS: dict[str, dict[str, Any]] = {
    "all": {},
    "best": {"limit": 7},
    "next": {"limit": 5, "offset": 4},
    "filter after": {"limit": 9, "filter": "id % 2 = 0"},
    "filter before": {"limit": 9, "filter": "id % 2 = 0", "prefilter": True},
    "indexed": {"fast_search": True},
}


def scores(found: pa.Table) -> dict[int, float]:
    return dict(zip(found["id"].to_pylist(), found["_score"].to_pylist(), strict=True))


def same(uri: str, query: Query, **scan: Any) -> dict[int, float]:
    """Compare with pylance: all scores in order, and each row's where no row is cut off."""
    mine = lk.dataset(uri).to_table(["id"], full_text_query=query(lancekit.query), **scan)
    theirs = lance.dataset(uri).to_table(["id"], full_text_query=query(lance.query), **scan)
    assert mine.schema == theirs.schema
    ordered = mine["_score"].to_numpy()
    assert (np.diff(ordered) <= 0).all()
    if "filter" not in scan or scan.get("prefilter"):
        np.testing.assert_allclose(ordered, np.sort(theirs["_score"].to_numpy())[::-1], rtol=1e-5)
    if "limit" not in scan:
        assert scores(mine) == pytest.approx(scores(theirs), rel=1e-5)
    return scores(mine)


@pytest.mark.cover
@pytest.mark.parametrize("scan", SCANS.values(), ids=SCANS)
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_rows_and_scores_are_those_of_pylance(uri: str, query: Query, scan: dict[str, Any]) -> None:
    same(uri, query, **scan)


SPELT = [
    {"fuzziness": 1},
    {"fuzziness": 2, "max_expansions": 7},
    {"fuzziness": 2, "prefix_length": 1},
    {"fuzziness": None},
    {"fuzziness": 1, "max_expansions": 0},
]


@pytest.mark.cover(2)
@pytest.mark.parametrize("spelt", SPELT, ids=str)
@pytest.mark.parametrize("operator", ["AND", "OR"])
@pytest.mark.parametrize("words", ["w3 lat", "w3 w3", "snw trains w39", "x"])
def test_words_that_are_spelt_otherwise(
    uri: str, words: str, operator: str, spelt: dict[str, Any]
) -> None:
    """pylance looks for them in what an index covers only."""

    def query(q: ModuleType) -> Any:
        return q.MatchQuery(words, "t", operator=q.FullTextOperator(operator), **spelt)

    same(uri, query, fast_search=True)


def test_fresh_rows_are_searched_for_words_that_are_spelt_otherwise(tmp_path: Path) -> None:
    ds = lk.write_dataset({"id": [1, 2], "t": ["late snow", "rain"]}, tmp_path / "d.lance")
    ds.create_scalar_index("t", "INVERTED")
    ds.insert({"id": [3, 4], "t": ["snöw", "slow"]})
    query = lancekit.query.MatchQuery("sno", "t", fuzziness=1)
    found = ds.to_table(["id"], full_text_query=query)
    assert set(found["id"].to_pylist()) == {1, 3}
    assert ds.to_table(["id"], full_text_query=query, fast_search=True)["id"].to_pylist() == [1]


def test_filters_after_the_search_see_its_best_rows(uri: str) -> None:
    ds = lk.dataset(uri)
    best = ds.to_table(["id"], full_text_query="w1 w2", limit=20)["id"].to_pylist()
    found = ds.to_table(["id"], full_text_query="w1 w2", limit=20, filter="id % 2 = 0")
    assert found["id"].to_pylist() == [row for row in best if row % 2 == 0]
    bound = ds.to_table(full_text_query="late", filter="_score > 2.0")["_score"]
    assert min(bound.to_pylist()) > 2.0
    assert ds.scanner(full_text_query="late", prefilter=True, filter="id < 0").count_rows() == 0


def test_the_score_stands_where_it_is_asked_for(uri: str) -> None:
    ds = lk.dataset(uri)
    names = {
        "all": ds.to_table(full_text_query="late").column_names,
        "named": ds.to_table(["_score", "id"], full_text_query="late").column_names,
        "not": ds.to_table(
            ["id"], full_text_query="late", disable_scoring_autoprojection=True
        ).column_names,
        "computed": ds.to_table({"twice": "_score * 2"}, full_text_query="late").column_names,
    }
    assert names == {
        "all": ["id", "t", "plain", "_score"],
        "named": ["_score", "id"],
        "not": ["id"],
        "computed": ["twice", "_score"],
    }
    ordered = ds.to_table(["id"], full_text_query="late", order_by=["id"], limit=5)
    assert ordered["id"].to_pylist() == sorted(scores(ordered))


def test_fragments_and_builders(uri: str) -> None:
    ds = lk.dataset(uri)
    first = ds.get_fragments()[0]
    found = ds.scanner(["id"], full_text_query="late", fragments=[first]).to_table()
    inside = set(first.to_table(["id"])["id"].to_pylist())
    everywhere = scores(ds.to_table(["id"], full_text_query="late"))
    assert scores(found) == {row: score for row, score in everywhere.items() if row in inside}
    builder = lk.ScannerBuilder(ds).columns(["id"]).full_text_search("late", ["t"])
    assert scores(builder.to_scanner().to_table()) == everywhere
    query = lancekit.query.MatchQuery("late", "t")
    builder = lk.ScannerBuilder(ds).columns(["id"]).full_text_search(query).fast_search(True)
    assert scores(builder.to_scanner().to_table()).keys() < everywhere.keys()


def test_a_column_without_an_index_is_read_as_one_with(tmp_path: Path) -> None:
    place = str(tmp_path / "d.lance")
    ds = lance.write_dataset(rows(0, 200), place)
    before = {
        name: lk.dataset(place).to_table(["id"], full_text_query=query(lancekit.query))
        for name, query in QUERIES.items()
        if not isinstance(query(lancekit.query), str)
    }
    assert before["match"].num_rows
    ds.create_scalar_index("t", "INVERTED", with_position=True)
    for name, found in before.items():
        after = lk.dataset(place).to_table(["id"], full_text_query=QUERIES[name](lancekit.query))
        assert scores(found) == pytest.approx(scores(after), rel=1e-5)


def test_a_text_has_one_score_when_the_index_covers_all_rows(tmp_path: Path) -> None:
    place, texts = str(tmp_path / "d.lance"), ["late snow", "snow", "train", "late train snow"]
    lk.write_dataset(pa.table({"id": range(4), "t": texts}), place)
    lk.dataset(place).create_scalar_index("t", "INVERTED")
    lk.write_dataset(pa.table({"id": [4, 5], "t": ["late snow", "rain"]}), place, mode="append")
    found = same(place, lambda _: "snow")
    assert found[0] != pytest.approx(found[4], rel=1e-3)
    lk.dataset(place).optimize.optimize_indices()
    one = same(place, lambda _: "snow")
    # the rows beside the index had the score that all rows give them
    assert one[0] == pytest.approx(one[4]) == pytest.approx(found[4])


def test_lists_of_texts(tmp_path: Path) -> None:
    texts = [["late snow", "w1"], None, [], [None, "snow"], ["train", "late", "late"]]
    place = str(tmp_path / "d.lance")
    ds = lance.write_dataset(pa.table({"id": range(5), "t": texts}), place)
    ds.create_scalar_index("t", "INVERTED")
    assert scores(lk.dataset(place).to_table(["id"], full_text_query="late snow")) == pytest.approx(
        scores(ds.to_table(["id"], full_text_query="late snow"))
    )
    ds.insert(pa.table({"id": range(5, 10), "t": texts}))
    assert same(place, lambda q: "late snow").keys() == {0, 3, 4, 5, 8, 9}


def test_indices_of_4_0_0(tmp_path: Path, pylance4: Callable[..., Any]) -> None:
    place = str(tmp_path / "d.lance")
    lance.write_dataset(rows(0, 400), place)
    pylance4(BUILD, uri=place)
    lance.dataset(place).insert(rows(400, 50))
    for query in QUERIES.values():
        same(place, query)


def test_rows_whose_ids_are_in_no_order(tmp_path: Path) -> None:
    """An updated row keeps its id, and is the last one of those that are indexed."""
    place = str(tmp_path / "d.lance")
    ds = lk.write_dataset(
        {"id": range(9), "t": ["late snow"] * 9}, place, enable_stable_row_ids=True
    )
    ds.update({"t": "'early snow'"}, where="id IN (1, 4)")
    lance.dataset(place).create_scalar_index("t", "INVERTED")
    for words, ids in (("snow", {*range(9)}), ("early", {1, 4}), ("late", {0, 2, 3, 5, 6, 7, 8})):
        found = lk.dataset(place).to_table(["id"], full_text_query=words)
        assert set(found["id"].to_pylist()) == ids


def test_a_damaged_index_is_told_and_not_used(tmp_path: Path) -> None:
    place = tmp_path / "d.lance"
    ds = lance.write_dataset(rows(0, 100), str(place))
    ds.create_scalar_index("t", "INVERTED", with_position=True)
    wanted = scores(lk.dataset(str(place)).to_table(["id"], full_text_query="late snow"))
    (file,) = place.glob("_indices/*/part_0_docs.lance")
    file.unlink()
    told = r"Index 't_idx' is not used, all rows are scanned: segment \S+ cannot be read: "
    with pytest.warns(UserWarning, match=told):
        found = lk.dataset(str(place)).to_table(["id"], full_text_query="late snow")
    assert scores(found) == pytest.approx(wanted, rel=1e-5)


def test_damaged_posting_lists_are_told_and_not_used(tmp_path: Path) -> None:
    place = tmp_path / "d.lance"
    ds = lk.write_dataset(rows(0, 900), place)
    ds.create_scalar_index("t", "INVERTED", with_position=True)
    query = lancekit.query.PhraseQuery("w0 w1", "t")
    wanted = scores(lk.dataset(place).to_table(["id"], full_text_query=query))
    (file,) = place.glob("_indices/*/part_0_invert.lance")
    whole = file.read_bytes()
    told = 0
    for at in range(0, len(whole) // 2, 701):
        file.write_bytes(whole[:at] + bytes(255 - byte for byte in whole[at : at + 300])
                         + whole[at + 300 :])  # fmt: skip
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = lk.dataset(place).to_table(["id"], full_text_query=query)
        if caught:
            told += 1
            assert "all rows are scanned" in str(caught[0].message)
            assert scores(found) == pytest.approx(wanted, rel=1e-5)
    assert told


def test_the_best_phrases_are_those_of_all(tmp_path: Path) -> None:
    """Few of many are asked for, and looked at: also where most are gone, or have no phrase."""
    place = str(tmp_path / "d.lance")
    source = random.Random(5)
    texts = [" ".join(source.choices(["late", "snow", "w"], k=9)) for _ in range(1500)]
    ds = lk.write_dataset({"id": range(1500), "t": texts}, place, max_rows_per_file=400)
    ds.create_scalar_index("t", "INVERTED", with_position=True)
    asked = lancekit.query.PhraseQuery, lance.query.PhraseQuery
    for part in ("id < 300 AND id % 9 <> 1", "id % 8 <> 2", "id >= 0"):
        for text, slop in (("late snow", 0), ("snow snow late", 0), ("late w late", 1)):
            mine, theirs = (query(text, "t", slop=slop) for query in asked)
            every = ds.to_table(["id"], full_text_query=mine)
            for most in (1, 7, 40):
                best = ds.to_table(["id"], full_text_query=mine, limit=most)
                assert best == every.slice(0, most)
                second = ds.to_table(["id"], full_text_query=mine, limit=most, offset=3)
                assert second == every.slice(3, most)
            if len(text.split()) == 2 or not slop:  # else pylance misses some
                found = lance.dataset(place).to_table(["id"], full_text_query=theirs)
                assert scores(every) == pytest.approx(scores(found), rel=1e-5)
        ds.delete(part)


def test_phrases_need_positions(tmp_path: Path) -> None:
    place = str(tmp_path / "d.lance")
    lance.write_dataset(rows(0, 10), place).create_scalar_index("t", "INVERTED")
    with pytest.raises(InvalidArgumentError, match=r"need token positions.*with_position=True"):
        lk.dataset(place).to_table(full_text_query='"late snow"')


def test_what_cannot_be_asked(tmp_path: Path) -> None:
    plain = lk.write_dataset(rows(0, 10), tmp_path / "plain")
    with pytest.raises(InvalidArgumentError, match="no column has a full-text index"):
        plain.to_table(full_text_query="late snow")
    with pytest.raises(InvalidTypeError, match="'id' must be a text column, but has type int64"):
        plain.to_table(full_text_query={"query": "late", "columns": ["id"]})
    with pytest.raises(ColumnNotFoundError, match="nope"):
        plain.to_table(full_text_query=lancekit.query.MatchQuery("late", "nope"))
    with pytest.raises(InvalidTypeError, match=r"full_text_query must be .* got 5"):
        plain.to_table(full_text_query=5)
    with pytest.raises(InvalidTypeError, match=r"columns must be .* got 't'"):
        plain.to_table(full_text_query={"query": "late", "columns": "t"})
    with pytest.raises(InvalidArgumentError, match="in one column, got 2"):
        plain.to_table(full_text_query={"query": '"late snow"', "columns": ["t", "plain"]})
    with pytest.raises(InvalidArgumentError, match="exclude each other"):
        plain.to_table(full_text_query="late", nearest={"column": "v", "q": [1]})
    scored = lk.write_dataset(pa.table({"_score": [1.0], "t": ["late"]}), tmp_path / "scored")
    with pytest.raises(InvalidArgumentError, match="Column '_score' clashes"):
        scored.to_table(full_text_query={"query": "late", "columns": ["t"]})


def test_compactions_that_the_index_waits_for(tmp_path: Path) -> None:
    """Rows that moved twice are found where they are, with the scores of before."""
    place = str(tmp_path / "d.lance")
    theirs = lance.write_dataset(rows(0, 600), place, max_rows_per_file=200)
    theirs.create_scalar_index("t", "INVERTED", with_position=True)
    for number, module in enumerate((lance, lk)):
        module.dataset(place).delete(f"id % 7 = {number}")
        module.dataset(place).optimize.compact_files(defer_index_remap=True)
        lance.write_dataset(rows(600 + 50 * number, 50), place, mode="append")
    for asked in ("late snow", "w3", '"w1 w0"'):
        assert max(same(place, lambda _, asked=asked: asked)) >= 600  # type: ignore[misc]
        indexed = same(place, lambda _, asked=asked: asked, fast_search=True)  # type: ignore[misc]
        assert max(indexed) < 600
