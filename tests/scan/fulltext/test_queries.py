"""Queries are made, and refused, as pylance's are."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import lance.query
import pytest

import lancekit.query
from lancekit.errors import InvalidArgumentError, InvalidTypeError, NotOfferedError

KINDS = ("MatchQuery", "PhraseQuery", "BoostQuery", "MultiMatchQuery", "BooleanQuery")


@pytest.mark.parametrize("name", KINDS)
def test_arguments_are_those_of_pylance(name: str) -> None:
    def arguments(library: ModuleType) -> list[tuple[str, Any, Any]]:
        given = inspect.signature(getattr(library, name)).parameters.values()
        return [(one.name, one.kind, getattr(one.default, "value", one.default)) for one in given]

    assert arguments(lancekit.query) == arguments(lance.query)


@pytest.mark.parametrize("name", ["FullTextOperator", "Occur", "DocumentGranularity"])
def test_choices_are_those_of_pylance(name: str) -> None:
    mine, theirs = getattr(lancekit.query, name), getattr(lance.query, name)
    assert [(one.name, one.value) for one in mine] == [(one.name, one.value) for one in theirs]


def test_types_are_those_of_pylance() -> None:
    def types(q: Any) -> list[str]:
        match = q.MatchQuery("a", "t")
        made = [match, q.PhraseQuery("a b", "t"), q.BoostQuery(match, match)]
        made += [q.MultiMatchQuery("a", ["t"]), match & match, match | match]
        made.append(q.CombinedFieldsQuery("a", ["t"]))
        return [one.query_type().value for one in made]

    assert types(lancekit.query) == types(lance.query)


Q = lancekit.query
MATCH = Q.MatchQuery("a", "t")


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: Q.MatchQuery(5, "t"), InvalidTypeError, "query must be .* got 5"),
        (lambda: Q.MatchQuery("a", None), InvalidTypeError, "column must be .* got None"),
        (lambda: Q.MatchQuery("a", "t", boost=-1), InvalidArgumentError, "boost must be .* got -1"),
        (
            lambda: Q.MatchQuery("a", "t", boost=float("nan")),
            InvalidArgumentError,
            "boost must be .* got nan",
        ),
        (lambda: Q.MatchQuery("a", "t", boost="x"), InvalidTypeError, "boost must be .* got 'x'"),
        (
            lambda: Q.MatchQuery("a", "t", operator="AND"),
            InvalidTypeError,
            "operator must be .* got 'AND'",
        ),
        (
            lambda: Q.MatchQuery("a", "t", fuzziness=-1),
            InvalidTypeError,
            "fuzziness must be .* got -1",
        ),
        (lambda: Q.MatchQuery("a", "t", max_expansions=None), InvalidTypeError, "got None"),
        (
            lambda: Q.PhraseQuery(
                "a", "t", document_granularity=Q.DocumentGranularity("list_element")
            ),
            NotOfferedError,
            "LIST_ELEMENT is not supported",
        ),
        (lambda: Q.PhraseQuery("a", "t", slop=-1), InvalidTypeError, "slop must be .* got -1"),
        (lambda: Q.BoostQuery(MATCH, "b"), InvalidTypeError, "negative must be .* got 'b'"),
        (lambda: Q.BoostQuery(MATCH, MATCH, negative_boost=-2), InvalidArgumentError, "got -2"),
        (lambda: Q.MultiMatchQuery("a", []), InvalidArgumentError, "0 columns"),
        (lambda: Q.MultiMatchQuery("a", "t"), InvalidTypeError, "columns must be .* got 't'"),
        (lambda: Q.MultiMatchQuery("a", ["t"], boosts=[1, 2]), InvalidArgumentError, "2 boosts"),
        (lambda: Q.CombinedFieldsQuery("a", []), InvalidArgumentError, "0 columns"),
        (lambda: Q.CombinedFieldsQuery("a", ["t", "t"]), InvalidArgumentError, "unique, got t, t"),
        (
            lambda: Q.CombinedFieldsQuery("a", ["t"], boosts=[0.5]),
            InvalidArgumentError,
            "boost must be .* got 0.5",
        ),
        (lambda: Q.BooleanQuery([MATCH]), InvalidTypeError, "queries must be "),
        (
            lambda: Q.BooleanQuery([("MUST", MATCH)]),
            InvalidTypeError,
            "queries must be .* got 'MUST'",
        ),
        (
            lambda: Q.BooleanQuery([(Q.Occur.MUST_NOT, MATCH)]),
            InvalidArgumentError,
            "that selects rows",
        ),
        (lambda: Q.BooleanQuery([]), InvalidArgumentError, "that selects rows"),
    ],
)
def test_wrong_arguments(make: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()
