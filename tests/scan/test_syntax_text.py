"""Syntax that is written as text parses to the same syntax, in the same places."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancekit._scan.expressions.parser import parse
from lancekit._scan.expressions.predicate import Unbound
from lancekit._scan.expressions.syntax import Listed, Syntax
from lancekit._scan.expressions.syntax_text import literal_text, written
from lancekit.errors import PredicateError
from tests.scan.test_filters import SAME


def shape(tree: Syntax, *, places: bool = False) -> Any:
    """Return what a piece of syntax is made of, with its places if they are asked for."""
    value = tree.value
    if isinstance(value, Listed):
        value = [(type(one), one) for one in value.values]
    elif tree.kind in ("CAST", "TRY_CAST"):
        value = value[:2]
    parts = [shape(part, places=places) for part in tree.parts]
    if tree.kind == "NOT" and parts[0][0] == "IN":  # chains have one kind for both
        return "NOT IN", *parts[0][1:]
    where = (tree.start, tree.end, tree.at) if places else ()
    return tree.kind, (type(value).__name__, value), parts, where


@pytest.mark.parametrize("section", SAME)
def test_filters_are_written_as_they_are_meant(section: str) -> None:
    for sql in SAME[section]:
        try:
            tree = parse(sql)
        except PredicateError:
            continue
        found = written(tree)
        again = parse(str(found))
        assert shape(again) == shape(tree), sql
        if " NOT IN " not in found:
            assert shape(again, places=True) == shape(found.tree, places=True), found


LITERALS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(max_size=9),
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def _piece(kind: str, *parts: Syntax, value: Any = None) -> Syntax:
    return Syntax(kind, parts, value)


def _chain(kind: str, parts: list[Syntax]) -> Syntax:
    flat = [one for part in parts for one in (part.parts if part.kind == kind else (part,))]
    return _piece(kind, *flat)


def _more(inner: st.SearchStrategy[Syntax]) -> st.SearchStrategy[Syntax]:
    pairs = st.sampled_from(["=", "<", "+", "-", "*", "||", "IS DISTINCT FROM"])
    return st.one_of(
        st.builds(_piece, st.sampled_from(["NOT", "NEGATE", "IS NULL", "IS TRUE"]), inner),
        st.builds(_piece, pairs, inner, inner),
        st.builds(_piece, st.just("BETWEEN"), inner, inner, inner),
        st.builds(_chain, st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=2, max_size=4)),
        st.builds(_piece, st.just("LIKE"), inner, inner, value=st.sampled_from("\\!'")),
        st.builds(_piece, st.just("element"), inner, inner),
        st.builds(_piece, st.just("call"), inner, inner, value=st.just("coalesce")),
    )


TREES = st.recursive(
    st.one_of(
        st.builds(_piece, st.just("literal"), value=LITERALS),
        st.builds(_piece, st.just("column"), value=st.lists(NAMES, min_size=1).map(tuple)),
    ),
    _more,
    max_leaves=12,
)


@given(TREES)
def test_what_is_built_is_written_as_it_is_meant(tree: Syntax) -> None:
    found = written(tree)
    assert shape(found.tree) == shape(tree)
    assert shape(parse(str(found)), places=True) == shape(found.tree, places=True)


@given(LITERALS)
def test_literals_are_read_back(value: Any) -> None:
    tree = parse(literal_text(value))
    assert (tree.kind, tree.value) == ("literal", value)


def test_unbound_expressions_are_their_texts() -> None:
    one, other = Unbound("x > 1"), written(parse("x > 1"))
    assert one == "x > 1"
    assert Unbound(other) is other == "`x` > 1"
    again = pickle.loads(pickle.dumps(other))
    assert (type(again), again, again.tree.kind) == (Unbound, other, ">")
    with pytest.raises(PredicateError):
        _ = Unbound("x >").tree
