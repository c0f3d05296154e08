"""Random operations by lancekit and the reference in turn, against a plain dictionary."""

from __future__ import annotations

import random
from contextlib import nullcontext

import pytest

from tests.support.model import World
from tests.support.remembering import all_remembered

#: in two of the parts, all that is read is remembered, or what has room for a short time
REMEMBERING = (nullcontext, nullcontext, all_remembered, lambda: all_remembered(30_000))


@pytest.mark.torture
@pytest.mark.parametrize("part", range(4))
def test_any_sequence_of_operations(tmp_path, part: int, whole: bool) -> None:
    for seed in range(part, 60 if whole else 4, 4):
        world = World(tmp_path / str(seed), random.Random(seed))
        try:
            with REMEMBERING[part]():
                for _ in range(40 if whole else 15):
                    world.step()
                world.check()
        except BaseException as error:
            error.add_note(f"seed {seed}, operations: " + "; ".join(world.log))
            raise
