"""Sets of rows are joined so that no row that is wanted is lost."""

import pickle
import random
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyroaring import BitMap

import lancekit as lk
from lancekit._scan.fragments.source import RowSet, fragment_sources
from lancekit._scan.read import Read

ROWS, FRAGMENTS = range(6), range(4)
Wanted = dict[int, set[int]]


def _wanted(chance: random.Random) -> Wanted:
    return {id_: {row for row in ROWS if chance.random() < 0.4} for id_ in FRAGMENTS}


def _said(wanted: Wanted, chance: random.Random) -> RowSet:
    """Return a set that says something of some fragments, more rows than are wanted of some."""
    rows, skipped, exact = {}, BitMap(), BitMap()
    for id_ in FRAGMENTS:
        if chance.random() < 0.3:
            continue
        is_exact = chance.random() < 0.5
        more = () if is_exact else (row for row in ROWS if chance.random() < 0.3)
        if found := BitMap([*wanted[id_], *more]):
            rows[id_] = found
            if is_exact:
                exact.add(id_)
        else:
            skipped.add(id_)
    return RowSet(rows=rows, skipped=skipped, exact=exact)


def _check(found: RowSet, wanted: Wanted) -> None:
    assert not found.skipped & BitMap(found.rows)
    assert found.exact <= BitMap(found.rows)
    assert all(found.rows.values())
    for id_ in FRAGMENTS:
        rows = found.of(id_)
        assert (rows is not None) is (id_ in found.known)
        if rows is not None:
            assert set(rows) >= wanted[id_]
            assert id_ not in found.exact or set(rows) == wanted[id_]


@pytest.mark.parametrize("seed", range(60))
def test_joined_sets_have_all_rows_that_are_wanted(seed: int) -> None:
    chance = random.Random(seed)
    one, other = _wanted(chance), _wanted(chance)
    mine, theirs = _said(one, chance), _said(other, chance)
    _check(mine & theirs, {id_: one[id_] & other[id_] for id_ in FRAGMENTS})
    _check(mine | theirs, {id_: one[id_] | other[id_] for id_ in FRAGMENTS})
    again = _said(one, chance)
    _check(mine.filled_by(again), one)
    _check(mine.inexact(), one)
    assert (mine & theirs).known == mine.known | theirs.known
    assert (mine | theirs).known == mine.known & theirs.known
    assert mine.filled_by(again).known == mine.known | again.known


def test_what_is_known_exactly_of_both_is_known_exactly_of_either() -> None:
    one = RowSet(rows={0: BitMap([1])}, skipped=BitMap([1]), exact=BitMap([0]))
    other = RowSet(rows={0: BitMap([2]), 1: BitMap([3])}, exact=BitMap([0, 1]))
    assert (one | other).exact == BitMap([0, 1])
    assert (one & other).skipped == BitMap([0, 1])


def test_the_empty_set_says_all_rows() -> None:
    everything, some = RowSet(), RowSet(rows={0: BitMap([1])}, exact=BitMap([0]))
    assert everything.of(0) is None
    assert (everything & some).of(0) == BitMap([1])
    assert (everything & some).exact == BitMap()
    assert (everything | some) == everything


def test_a_part_is_what_is_said_of_some_fragments() -> None:
    rows = RowSet(rows={0: BitMap([1]), 2: BitMap([5])}, skipped=BitMap([1]), exact=BitMap([2]))
    assert rows.only([1, 2]) == RowSet(
        rows={2: BitMap([5])}, skipped=BitMap([1]), exact=BitMap([2])
    )
    assert pickle.loads(pickle.dumps(rows)) == rows


@dataclass(frozen=True)
class _Marked(Read):
    mark: int = 0


def test_parts_of_a_read_keep_its_other_fields(tmp_path: Path) -> None:
    ds = lk.write_dataset({"x": range(12)}, tmp_path / "d", max_rows_per_file=3)
    sources = fragment_sources(ds._snapshot)
    for rows in ({}, {0: BitMap([1])}, {0: BitMap([1]), 1: BitMap([2])}):
        read = _Marked(sources, RowSet(rows=rows), mark=7)
        parts = [*read.parts(), read.only(sources)]
        assert [part.mark for part in parts if isinstance(part, _Marked)] == [7] * len(parts)
