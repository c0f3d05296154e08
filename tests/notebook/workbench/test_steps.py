"""The steps of a workbench, one by one, and any of them in any order."""

import random

import pytest

from lancekit._notebook.workbench.steps import State

ERROR = ValueError("no")
READY = State(choices="a", phase="ready", plan="plan of a")


def test_a_preview_is_applied_and_taken_back():
    state = State(choices="a").previewed("a", "plan")
    assert (state.phase, state.plan, state.can_apply) == ("ready", "plan", True)
    state = state.apply()
    assert state.phase == "applying"
    state = state.applied("result", "done so")
    assert (state.phase, state.result, state.plan, state.notice) == (
        "done",
        "result",
        None,
        "done so",
    )
    state = state.undo()
    assert (state.phase, state.can_undo) == ("undoing", False)
    state = state.undone("back")
    assert (state.phase, state.result, state.notice) == ("previewing", None, "back")


def test_only_what_is_chosen_is_previewed():
    state = READY.choose("b")
    assert (state.phase, state.plan, state.can_apply) == ("previewing", "plan of a", False)
    assert state.previewed("a", "late") is state
    assert state.failed("a", ERROR) is state
    assert state.apply() is state
    failed = state.failed("b", ERROR)
    assert (failed.phase, failed.error, failed.plan) == ("failed", ERROR, None)
    assert failed.request_preview().phase == "previewing"
    assert failed.choose("c").error is None
    assert READY.choose("a") is READY


def test_a_moved_table_asks_again():
    state = READY.apply().outdated("newer", "others wrote")
    assert (state.phase, state.plan, state.notice) == ("ready", "newer", "others wrote")


def test_what_is_refused_can_be_tried_again():
    failed = READY.apply().refused(ERROR)
    assert (failed.phase, failed.error, failed.can_apply) == ("failed", ERROR, False)
    done = READY.apply().applied("result").undo().refused(ERROR)
    assert (done.phase, done.error, done.can_undo) == ("done", ERROR, True)


def test_what_is_on_demand_waits():
    state = State(choices="a", phase="waiting", on_demand=True)
    assert state.choose("b").phase == "waiting"
    assert state.request_preview().phase == "previewing"
    done = state.request_preview().previewed("a", 1).apply().applied(2).undo().undone("back")
    assert done.phase == "waiting"


@pytest.mark.parametrize(
    "event", [lambda state: state.choose("b"), State.request_preview, State.apply, State.undo]
)
def test_nobody_asks_for_more_while_the_dataset_is_changed(event):
    state = READY.apply()
    assert event(state) is state


def test_any_events_in_any_order_leave_a_state_that_makes_sense():
    events = [
        ("choose", "a"),
        ("choose", "b"),
        ("request_preview",),
        ("apply",),
        ("undo",),
        ("turn", -1),
        ("turn", 3),
        ("with_notice", ""),
    ]
    for seed in range(200):
        rng, state = random.Random(seed), State(choices="a", on_demand=seed % 2 == 0)
        for _ in range(40):
            choices = state.choices
            working = {
                "previewing": [("previewed", choices, choices), ("failed", choices, ERROR)],
                "applying": [("applied", "r"), ("refused", ERROR), ("outdated", choices, "moved")],
                "undoing": [("undone", "back"), ("refused", ERROR)],
            }
            name, *arguments = rng.choice(events + 3 * working.get(state.phase, []))
            state = getattr(state, name)(*arguments)
            assert not state.can_apply or state.plan == state.choices
            assert (state.phase == "failed") <= (state.error is not None)
            assert (state.phase == "undoing") <= (state.result is not None)
            assert state.page >= 0
