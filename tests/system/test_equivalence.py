"""Every operation in this process: equal to a plain model, and to the reference."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lance
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import lancekit as lk
from tests.support.equivalence import Differs, Side, Way, begin, draw_step, pylance_fails
from tests.support.merge_steps import MERGES
from tests.support.operations_table import OPERATIONS
from tests.support.steps import Step

LOCAL = Way("local", lk, {"engine": "local", "fsync": False})
PYLANCE = Way("pylance", lance)
#: what a dataset has gone through before an operation is tried on it
BEFORE = ["append full", "append some", "delete", "update where", "compact", "add by SQL"]
MERGE_NAMES = {merge.name for merge in MERGES}
OTHERS = [name for name in OPERATIONS if name not in MERGE_NAMES]


@contextmanager
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="equivalence"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


@contextmanager
def told(steps: list[Step]) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note("\n".join(step.text for step in steps))
        raise


def prepared(data: st.DataObject, place: Path) -> Side:
    """Create a dataset, and let the library that did change it a little."""
    side = begin(data.draw, place)
    for _ in range(data.draw(st.integers(0, 2))):
        step = draw_step(data.draw, BEFORE, side.state, side.past)
        if step is not None:
            with told([step]):
                side.do(step)
    return side


def alike(data: st.DataObject, name: str) -> None:
    """Do an operation with both libraries on copies of one folder."""
    with folder() as place:
        base = prepared(data, place)
        step = OPERATIONS[name](data.draw, base.state, base.past)
        if step is None:
            return
        with told([step]):
            counts = base.copy(LOCAL).do(step)
            if pylance_fails(step):
                return
            try:
                others = base.copy(PYLANCE).do(step)
            except Differs:
                return
            assert (counts is None) == (others is None)
            if counts is not None and others is not None:
                assert dict(counts) == dict(others)


def runs(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],  # to shrink takes minutes; the steps are told
        suppress_health_check=list(HealthCheck),
    )


def repeat(times: int, test: Any) -> None:
    """Run a test of hypothesis with random bytes to draw from, the same for each number.

    Steps are drawn from what earlier steps made.  The search of hypothesis varies the draws of
    earlier runs, and ends with an error if equal draws are followed by others.  Here each run
    stands alone, and can be repeated alone by its number.
    """
    run = test.hypothesis.fuzz_one_input
    for number in range(times):
        try:
            drawn = run(random.Random(number).randbytes(1 << 16))
        except BaseException as error:
            error.add_note(f"history {number}")
            raise
        assert drawn is not None, f"history {number} was cut short by hypothesis"


@pytest.mark.torture
@pytest.mark.parametrize("name", OTHERS)
def test_an_operation(name: str, whole: bool) -> None:
    runs(100 if whole else 2)(given(st.data())(lambda data: alike(data, name)))()


@pytest.mark.torture
def test_merges(whole: bool) -> None:
    if whole:
        for name in sorted(MERGE_NAMES):
            runs(10)(given(st.data(), st.just(name))(alike))()
    names = st.sampled_from(sorted(MERGE_NAMES))
    runs(2000 if whole else 15)(given(st.data(), names)(alike))()


def history(data: st.DataObject, ways: list[Way], kinds: list[list[str]]) -> None:
    """Do the same sequence of operations in every way, from copies of one folder.

    Each operation is one of the names that stand in its place.
    """
    with folder() as place:
        base = begin(data.draw, place)
        sides = [base.copy(way) for way in ways]
        steps: list[Step] = []
        with told(steps):
            for names in kinds:
                step = draw_step(data.draw, names, sides[0].state, sides[0].past)
                if step is None or pylance_fails(step):
                    continue
                steps.append(step)
                try:
                    for side in sides:
                        side.do(step)
                except Differs:
                    return
            for side in sides:
                side.check_past()


@pytest.mark.torture
def test_sequences(whole: bool) -> None:
    kind = st.sampled_from([OTHERS, sorted(MERGE_NAMES)])
    kinds = st.lists(kind, min_size=5, max_size=15)

    def sequence(data: st.DataObject, names: list[list[str]]) -> None:
        history(data, [LOCAL, PYLANCE], names)

    repeat(600 if whole else 3, given(st.data(), kinds)(sequence))
