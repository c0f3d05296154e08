"""Columns that are searched as one: the rows and scores that pylance has."""

from __future__ import annotations

import random
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import lance.query
import pyarrow as pa
import pytest

import lancekit as lk
import lancekit.query
from lancekit.errors import InvalidArgumentError

WORDS = ["foo", "bar", "baz", "qux", "hello", "snow"]
PLAIN: dict[str, Any] = {"stem": False, "remove_stop_words": False}


def rows(number: int) -> pa.Table:
    source = random.Random(number)

    def texts(filled: float) -> list[str | None]:
        return [
            " ".join(source.choices(WORDS, k=source.randint(1, 8)))
            if source.random() < filled
            else source.choice(["", None])
            for _ in range(number)
        ]

    return pa.table({"id": range(number), "a": texts(0.8), "b": texts(0.5), "c": texts(0.9)})


@pytest.fixture(scope="module", params=["abc", "a", "ab"])
def uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Columns with an index and without, rows that none covers, deleted ones."""
    place = str(tmp_path_factory.mktemp("fields") / "d.lance")
    ds = lance.write_dataset(rows(90).slice(0, 70), place)
    for column in request.param:
        ds.create_scalar_index(column, "INVERTED", **PLAIN)
    ds.insert(rows(90).slice(70))
    ds.delete("id % 9 = 4")
    return place


COLUMNS: list[tuple[list[str], list[float] | None]] = [
    (["a"], None),
    (["b", "a"], None),
    (["b", "a", "c"], [1.0, 2.5, 7.0]),
]


@pytest.mark.cover(2)
@pytest.mark.parametrize(("columns", "boosts"), COLUMNS, ids=str)
@pytest.mark.parametrize("operator", ["AND", "OR"])
@pytest.mark.parametrize("words", ["foo", "foo bar", "snow snow", "nothing", "foo nothing", ""])
def test_rows_and_scores_are_those_of_pylance(
    uri: str, columns: list[str], boosts: list[float] | None, operator: str, words: str
) -> None:
    def scores(module: ModuleType, ds: Any) -> dict[int, float]:
        query = module.query.CombinedFieldsQuery(
            words, columns, boosts=boosts, operator=module.query.FullTextOperator(operator)
        )
        found = ds.to_table(["id"], full_text_query=query)
        return dict(zip(found["id"].to_pylist(), found["_score"].to_pylist(), strict=True))

    mine, theirs = scores(lk, lk.dataset(uri)), scores(lance, lance.dataset(uri))
    assert mine == pytest.approx(theirs, rel=1e-5)


def test_a_word_of_each_column(tmp_path: Path) -> None:
    people = {"first": ["Anna", "Anna", "Berta"], "last": ["Berg", "Thal", "Berg"]}
    ds = lk.write_dataset(people, tmp_path / "d.lance")
    both = lancekit.query.FullTextOperator.AND
    query = lancekit.query.CombinedFieldsQuery("anna berg", ["first", "last"], operator=both)
    assert ds.to_table(["first", "last"], full_text_query=query).drop("_score").to_pylist() == [
        {"first": "Anna", "last": "Berg"}
    ]
    assert ds.count_rows() == 3
    nothing = ds.to_table(full_text_query=query, filter="last = 'Thal'", prefilter=True)
    assert not nothing.num_rows


def test_indices_with_different_settings(tmp_path: Path) -> None:
    ds = lk.write_dataset({"a": ["x"], "b": ["y"]}, tmp_path / "d.lance")
    ds.create_scalar_index("a", "INVERTED")
    ds.create_scalar_index("b", "INVERTED", stem=False)
    query = lancekit.query.CombinedFieldsQuery("x", ["a", "b"])
    with pytest.raises(InvalidArgumentError, match="'a', 'b' have different"):
        ds.to_table(full_text_query=query)
