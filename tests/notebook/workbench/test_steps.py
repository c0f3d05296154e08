"""The steps of a workbench, one by one, and any of them in any order."""

import random

import pytest

from lancekit._notebook.workbench.steps import (
    Applied,
    Apply,
    Choose,
    Failed,
    Look,
    Moved,
    Previewed,
    Refused,
    Said,
    State,
    Turn,
    Undo,
    Undone,
    step,
)

ERROR = ValueError("no")
READY = State(chosen="a", phase="ready", plan="plan of a")


def walk(state, *events):
    for event in events:
        state = step(state, event)
    return state


def test_a_preview_is_applied_and_taken_back():
    state = walk(State(chosen="a"), Previewed("a", "plan"))
    assert (state.phase, state.plan, state.can_apply) == ("ready", "plan", True)
    state = walk(state, Apply())
    assert state.phase == "applying"
    state = walk(state, Applied("result", "done so"))
    assert (state.phase, state.result, state.plan, state.notice) == (
        "done",
        "result",
        None,
        "done so",
    )
    state = walk(state, Undo())
    assert (state.phase, state.can_undo) == ("undoing", False)
    state = walk(state, Undone("back"))
    assert (state.phase, state.result, state.notice) == ("looking", None, "back")


def test_only_what_is_chosen_is_previewed():
    state = walk(READY, Choose("b"))
    assert (state.phase, state.plan, state.can_apply) == ("looking", "plan of a", False)
    assert walk(state, Previewed("a", "late")) is state
    assert walk(state, Failed("a", ERROR)) is state
    assert walk(state, Apply()) is state
    failed = walk(state, Failed("b", ERROR))
    assert (failed.phase, failed.error, failed.plan) == ("failed", ERROR, None)
    assert walk(failed, Look()).phase == "looking"
    assert walk(failed, Choose("c")).error is None
    assert walk(READY, Choose("a")) is READY


def test_a_moved_table_asks_again():
    state = walk(READY, Apply(), Moved("newer", "others wrote"))
    assert (state.phase, state.plan, state.notice) == ("ready", "newer", "others wrote")


def test_what_is_refused_can_be_tried_again():
    failed = walk(READY, Apply(), Refused(ERROR))
    assert (failed.phase, failed.error, failed.can_apply) == ("failed", ERROR, False)
    done = walk(READY, Apply(), Applied("result"), Undo(), Refused(ERROR))
    assert (done.phase, done.error, done.can_undo) == ("done", ERROR, True)


def test_what_is_on_demand_waits():
    state = State(chosen="a", phase="waiting", on_demand=True)
    assert walk(state, Choose("b")).phase == "waiting"
    assert walk(state, Look()).phase == "looking"
    done = walk(state, Look(), Previewed("a", 1), Apply(), Applied(2), Undo(), Undone("back"))
    assert done.phase == "waiting"


@pytest.mark.parametrize("event", [Choose("b"), Look(), Apply(), Undo()])
def test_nobody_asks_for_more_while_the_dataset_is_changed(event):
    state = walk(READY, Apply())
    assert walk(state, event) is state


def test_any_events_in_any_order_leave_a_state_that_makes_sense():
    events = [Choose("a"), Choose("b"), Look(), Apply(), Undo(), Turn(-1), Turn(3), Said("")]
    for seed in range(200):
        rng, state = random.Random(seed), State(chosen="a", on_demand=seed % 2 == 0)
        for _ in range(40):
            working = {
                "looking": [Previewed(state.chosen, state.chosen), Failed(state.chosen, ERROR)],
                "applying": [Applied("r"), Refused(ERROR), Moved(state.chosen, "moved")],
                "undoing": [Undone("back"), Refused(ERROR)],
            }
            state = step(state, rng.choice(events + 3 * working.get(state.phase, [])))
            assert not state.can_apply or state.plan == state.chosen
            assert (state.phase == "failed") <= (state.error is not None)
            assert (state.phase == "undoing") <= (state.result is not None)
            assert state.page >= 0
