"""What indices tell is joined so that no row that is wanted is lost."""

import random

import pytest
from pyroaring import BitMap

from lancekit.scan.indexed.found import Found

ROWS, FRAGMENTS = range(6), range(4)
Wanted = dict[int, set[int]]


def _wanted(chance: random.Random) -> Wanted:
    return {id_: {row for row in ROWS if chance.random() < 0.4} for id_ in FRAGMENTS}


def _told(wanted: Wanted, chance: random.Random) -> Found:
    covered = BitMap([id_ for id_ in FRAGMENTS if chance.random() < 0.7])
    exact = BitMap([id_ for id_ in covered if chance.random() < 0.5])
    rows = {}
    for id_ in covered:
        more = () if id_ in exact else (row for row in ROWS if chance.random() < 0.3)
        if found := BitMap([*wanted[id_], *more]):
            rows[id_] = found
    return Found(rows=rows, covered=covered, exact=exact)


def _check(found: Found, wanted: Wanted) -> None:
    assert set(found.exact) <= set(found.covered)
    assert set(found.rows) <= set(found.covered)
    for id_ in found.covered:
        rows = set(found.rows.get(id_, ()))
        assert rows >= wanted[id_]
        assert id_ not in found.exact or rows == wanted[id_]


@pytest.mark.parametrize("seed", range(60))
def test_joined_answers_have_all_rows_that_are_wanted(seed: int) -> None:
    chance = random.Random(seed)
    one, other = _wanted(chance), _wanted(chance)
    mine, theirs = _told(one, chance), _told(other, chance)
    _check(mine & theirs, {id_: one[id_] & other[id_] for id_ in FRAGMENTS})
    _check(mine | theirs, {id_: one[id_] | other[id_] for id_ in FRAGMENTS})
    again = _told(one, chance)
    _check(mine.filled_by(again), one)
    _check(mine.inexact(), one)
    assert (mine & theirs).covered == mine.covered | theirs.covered
    assert (mine | theirs).covered == mine.covered & theirs.covered
