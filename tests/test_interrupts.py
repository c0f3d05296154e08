"""An interrupt says whether the versions that a call puts are there, wherever it strikes."""

from __future__ import annotations

import pickle
import traceback
from typing import Any

import pytest

import lancekit as lk
from lancekit.interrupts import PREFIX
from tests.support.faults import Call, Faults, injected

NOTHING = "nothing was committed"


class Stop:
    """Interrupts the call of some number, before it is carried out."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, call: Call) -> None:
        if call.number == self.at:
            raise KeyboardInterrupt


def interrupted(place: Any, at: int, repeat: int = 1) -> tuple[KeyboardInterrupt | None, int]:
    """Append to a dataset, interrupted at a call to its store; return that, and the calls."""
    with injected(Faults(before=Stop(at))) as faults:
        try:
            ds = lk.dataset(place)
            for _ in range(repeat):
                ds.insert({"id": [9]})
        except KeyboardInterrupt as stop:
            return stop, len(faults.calls)
        return None, len(faults.calls)


def note(stop: KeyboardInterrupt) -> str:
    (said,) = (n for n in stop.__notes__ if n.startswith(PREFIX))
    return said


def test_what_it_says_is_true_wherever_it_strikes(tmp_path: Any) -> None:
    place = tmp_path / "d.lance"
    lk.write_dataset({"id": [1]}, place)
    _, calls = interrupted(place, 0)
    seen = set()
    for at in range(1, calls + 1):
        before = lk.dataset(place).version
        stop, _ = interrupted(place, at)
        assert stop is not None
        landed = lk.dataset(place).version > before
        assert (f"version {before + 1} of " in note(stop)) == landed, at
        assert (NOTHING in note(stop)) != landed
        seen.add(landed)
        assert note(stop) in "".join(traceback.format_exception(stop))
        assert type(stop) is KeyboardInterrupt
    assert seen == {True, False}


def test_only_what_the_interrupted_call_did_counts(tmp_path: Any) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "d.lance")
    ds.insert({"id": [2]})

    def nosuch(batch: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        ds.add_columns(nosuch, read_columns=["id"])
    assert NOTHING in note(caught.value)


def test_an_outer_call_knows_more(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = lk.write_dataset({"id": [1]}, tmp_path / "d.lance")

    @lk.checked.checked  # type: ignore[attr-defined]
    def both() -> None:
        ds.insert({"id": [2]})
        with injected(Faults(before=Stop(2))):
            lk.dataset(ds.uri).to_table()

    with pytest.raises(KeyboardInterrupt) as caught:
        both()
    assert "version 2 of " in note(caught.value)
    assert NOTHING not in note(caught.value)


def test_what_cannot_be_told_is_said(tmp_path: Any) -> None:
    place = tmp_path / "d.lance"
    lk.write_dataset({"id": [1]}, place)
    put = []

    def stop(call: Call) -> None:
        if call.kind == "put_if_absent" or put:
            put.append(call)
            raise KeyboardInterrupt  # and again, while it looks what became of it

    with injected(Faults(before=stop)), pytest.raises(KeyboardInterrupt) as caught:
        lk.dataset(place).insert({"id": [2]})
    assert "whether it landed is not known (look for transaction " in note(caught.value)


def test_it_can_be_sent_and_shown(tmp_path: Any) -> None:
    place = tmp_path / "d.lance"
    lk.write_dataset({"id": [1]}, place)
    stop, _ = interrupted(place, 2)
    assert stop is not None
    (first, *_) = stop._render_traceback_()  # type: ignore[attr-defined]
    assert first.startswith("KeyboardInterrupt: before the interrupt nothing was committed")
    assert note(pickle.loads(pickle.dumps(stop))) == note(stop)
