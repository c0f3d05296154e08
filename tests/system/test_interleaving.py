"""Another writer lands a commit at each storage call of an operation, in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from types import ModuleType
from typing import Any

import lance
import pytest

import lancekit as lk
from lancekit import errors
from tests.support.crash_points import Change, Place, rows
from tests.support.faults import Call, Faults
from tests.support.two_writers import OURS, THEIRS, Rows, Work, land


@pytest.fixture(scope="module")
def other() -> Iterator[Executor]:
    """The other writer's process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield pool


def found_by(side: ModuleType, place: Place) -> Rows:
    table = side.dataset(str(place.path)).to_table().to_pylist()
    found = frozenset((row["k"], row["v"]) for row in table)
    assert len(found) == len(table), "a row occurs twice"
    return found


@pytest.mark.torture
@pytest.mark.parametrize("theirs", THEIRS)
@pytest.mark.parametrize("ours", OURS)
def test_another_commit_lands_at_each_call(
    tmp_path, other: Executor, ours: str, theirs: str, whole: bool
) -> None:
    place, change = Place(tmp_path), Change(lambda ds, at: OURS[ours].run(ds))
    path = str(place.path)
    mine, yours = OURS[ours].effect, THEIRS[theirs].effect
    with lk.options(fsync=False):
        place.prepare(change)
        before = found_by(lk, place)
        record = Faults()
        place.attempt(change, record)
        assert found_by(lk, place) == mine(before)
        # short runs take a few calls, other ones for every pair
        step = 1 if whole else 40
        first = 1 if whole else 1 + (list(THEIRS).index(theirs) + list(OURS).index(ours)) % step
        for number in range(first, len(record.calls) + 1, step):
            side = ("lancekit", "lance")[number // step % 2]
            turn = partial(other.submit, land, side, theirs, path)
            calls: list[Call] = []
            try:
                landed = interleaved(place, OURS[ours], turn, number, calls)
                assert calls, "the other was not let in"
                either = {yours(mine(before)), mine(yours(before))} if landed else {yours(before)}
                found = found_by(lk, place)
                assert found in either
                assert found_by(lance, place) == found
                lk.dataset(place.path).insert(rows(99))
                assert place.garbage(lk) == set()
            except BaseException as error:
                error.add_note(f"{side} at {calls}")
                raise


def interleaved(
    place: Place, ours: Work, turn: Callable[[], Future[None]], number: int, calls: list[Call]
) -> bool:
    """Run a change, with the other's turn before one of its calls; tell whether it landed."""
    faults = Faults()

    def let_in(call: Call) -> None:
        if call.number == number:
            calls.append(call)
            turn().result(60)

    def run(ds: Any, _: Place) -> None:
        faults.before = let_in  # from here on, and not while the dataset is opened
        ours.run(ds)

    try:
        place.attempt(Change(run), faults)
    except errors.CommitConflictError:
        return False
    return True
