"""Where an explorer stands after what a person does: nothing is read for it."""

import random
from dataclasses import replace

import pytest

from lancekit._notebook.explorer.state import MOST_SORTED, ExplorerState

STATE = ExplorerState(branch="main", versions=(1, 2, 5, 9), version=5)


@pytest.mark.parametrize(
    ("state", "version"),
    [
        (STATE.go(9), 9),
        (STATE.go(6), 9),  # on the way there, not back to where it was
        (STATE.go(4), 2),
        (STATE.go(100), 9),
        (STATE.go(-3), 1),
        (STATE.go(5), 5),
        (STATE.move(1), 9),
        (STATE.move(-1), 2),
        (STATE.move(50), 9),
        (STATE.move(-50), 1),
        (STATE.end(newest=True), 9),
        (STATE.end(newest=False), 1),
    ],
)
def test_steps_lead_to_versions_that_are_there(state, version):
    assert state.version == version


def test_what_a_stop_is_compared_with():
    assert STATE.against == ("main", 2)
    assert replace(STATE, version=1).against is None
    pinned = STATE.pin()
    assert pinned.go(9).against == ("main", 5)
    assert pinned.pin(on=False).against == ("main", 2)
    other = pinned.switch("trial", (1, 2))
    assert (other.place, other.against) == (("trial", 2), ("main", 5))
    assert STATE.switch("trial", (3, 7, 9), 4).place == ("trial", 3)


def test_a_switch_to_where_one_is_keeps_the_page():
    there = replace(STATE, page=3, filter="x > 1", is_confirmed=True)
    assert there.switch("main", (1, 5, 9, 10), 5) == replace(there, versions=(1, 5, 9, 10))


def test_other_rows_begin_at_their_first_page_and_are_not_asked_for():
    there = replace(STATE, page=3, view="schema", is_confirmed=True)
    for after in (there.where(" x > 1 "), there.sort("x"), there.go(9)):
        assert (after.page, after.is_confirmed) == (0, False)
    assert there.where(" x > 1 ").filter == "x > 1"
    assert there.where("x").view == there.sort("x").view == "rows"
    assert not there.where("x").is_plain
    assert there.go(9).view == "schema"


def test_a_column_is_sorted_by_and_turned_round():
    once = STATE.sort("x")
    assert once.order == ("x", True)
    assert once.sort("x").order == ("x", False)
    assert once.sort("y", ascending=False).order == ("y", False)
    assert once.sort("").order is None


def test_pages_end():
    assert STATE.turn(-1).page == 0
    assert STATE.turn(7).start == 70
    last = STATE.sort("x").turn(10**9)
    assert last.start + last.page_rows == MOST_SORTED


def test_a_summary_is_asked_for_by_choosing_a_column():
    after = STATE.summarize("x")
    assert (after.view, after.column, after.is_confirmed) == ("column", "x", True)
    assert not after.show("compare").is_confirmed
    assert after.show("compare").confirm().is_confirmed


def test_no_walk_leaves_the_versions():
    chance = random.Random(7)
    state = STATE
    for _ in range(2000):
        match chance.randrange(5):
            case 0:
                versions = tuple(sorted(chance.sample(range(1, 50), chance.randint(1, 9))))
                state = state.switch(chance.choice("ab"), versions, chance.choice([None, 7]))
            case 1:
                state = chance.choice(
                    [state.pin(), state.sort("x"), state.where("y"), state.confirm()]
                )
            case _:
                way = chance.choice([state.go, state.move, state.turn])
                state = way(chance.randint(-60, 60))
        assert state.version in state.versions
        assert state.page >= 0
        assert state.before is None or state.before[1] < state.version
