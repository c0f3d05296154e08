"""Where an explorer stands after what a person does: nothing is read for it."""

import random
from dataclasses import replace

import pytest

from lancekit._notebook.explorer.state import (
    MOST_SORTED,
    Ask,
    End,
    ExplorerState,
    Filter,
    Go,
    Look,
    Move,
    Pin,
    Sort,
    Summarize,
    Switch,
    Turn,
    step,
)

STATE = ExplorerState(branch="main", versions=(1, 2, 5, 9), version=5)


@pytest.mark.parametrize(
    ("event", "version"),
    [
        (Go(9), 9),
        (Go(6), 9),  # on the way there, not back to where it was
        (Go(4), 2),
        (Go(100), 9),
        (Go(-3), 1),
        (Go(5), 5),
        (Move(1), 9),
        (Move(-1), 2),
        (Move(50), 9),
        (Move(-50), 1),
        (End(newest=True), 9),
        (End(newest=False), 1),
    ],
)
def test_steps_lead_to_versions_that_are_there(event, version):
    assert step(STATE, event).version == version


def test_what_a_stop_is_compared_with():
    assert STATE.against == ("main", 2)
    assert replace(STATE, version=1).against is None
    pinned = step(STATE, Pin())
    assert step(pinned, Go(9)).against == ("main", 5)
    assert step(pinned, Pin(on=False)).against == ("main", 2)
    other = step(pinned, Switch("trial", (1, 2)))
    assert (other.place, other.against) == (("trial", 2), ("main", 5))
    assert step(STATE, Switch("trial", (3, 7, 9), 4)).place == ("trial", 3)


def test_a_switch_to_where_one_is_keeps_the_page():
    there = replace(STATE, page=3, filter="x > 1", is_asked=True)
    assert step(there, Switch("main", (1, 5, 9, 10), 5)) == replace(there, versions=(1, 5, 9, 10))


def test_other_rows_begin_at_their_first_page_and_are_not_asked_for():
    there = replace(STATE, page=3, view="schema", is_asked=True)
    for event in (Filter(" x > 1 "), Sort("x"), Go(9)):
        after = step(there, event)
        assert (after.page, after.is_asked) == (0, False)
    assert step(there, Filter(" x > 1 ")).filter == "x > 1"
    assert step(there, Filter("x")).view == step(there, Sort("x")).view == "rows"
    assert not step(there, Filter("x")).is_plain
    assert step(there, Go(9)).view == "schema"


def test_a_column_is_sorted_by_and_turned_round():
    once = step(STATE, Sort("x"))
    assert once.order == ("x", True)
    assert step(once, Sort("x")).order == ("x", False)
    assert step(once, Sort("y", ascending=False)).order == ("y", False)
    assert step(once, Sort("")).order is None


def test_pages_end():
    assert step(STATE, Turn(-1)).page == 0
    assert step(STATE, Turn(7)).start == 70
    last = step(step(STATE, Sort("x")), Turn(10**9))
    assert last.start + last.page_rows == MOST_SORTED


def test_a_summary_is_asked_for_by_choosing_a_column():
    after = step(STATE, Summarize("x"))
    assert (after.view, after.column, after.is_asked) == ("column", "x", True)
    assert not step(after, Look("compare")).is_asked
    assert step(step(after, Look("compare")), Ask()).is_asked


def test_no_walk_leaves_the_versions():
    chance = random.Random(7)
    events = [Go, Move, Turn]
    state = STATE
    for _ in range(2000):
        match chance.randrange(5):
            case 0:
                versions = tuple(sorted(chance.sample(range(1, 50), chance.randint(1, 9))))
                state = step(state, Switch(chance.choice("ab"), versions, chance.choice([None, 7])))
            case 1:
                state = step(state, chance.choice([Pin(), Sort("x"), Filter("y"), Ask()]))
            case _:
                state = step(state, chance.choice(events)(chance.randint(-60, 60)))
        assert state.version in state.versions
        assert state.page >= 0
        assert state.before is None or state.before[1] < state.version
