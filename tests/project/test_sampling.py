"""What a short run leaves out of tests with many parameters: nothing that only one case shows."""

from __future__ import annotations

import random
from itertools import combinations, product

import pytest

from tests.support.sampling import covering


def families() -> list[list[dict[str, str]]]:
    """Return the cases of tests: products of parameters, and products with holes."""
    made = []
    for seed in range(20):
        rng = random.Random(seed)
        values = {name: [f"{name}{at}" for at in range(rng.randint(1, 5))] for name in "abc"}
        cases = [dict(zip(values, case, strict=True)) for case in product(*values.values())]
        made += [cases, rng.sample(cases, rng.randint(1, len(cases)))]
    return made


@pytest.mark.parametrize("together", [1, 2])
def test_every_value_and_every_pair_of_the_whole_run_is_in_the_short_one(together: int) -> None:
    def shown(cases):
        return {part for case in cases for part in combinations(sorted(case.items()), together)}

    for cases in families():
        chosen = covering(cases, together)
        assert shown(cases[at] for at in chosen) == shown(cases)


def test_no_more_cases_are_chosen_than_the_longest_parameter_has_values() -> None:
    cases = [{"a": a, "b": b, "c": c} for a, b, c in product(range(4), range(7), range(2))]
    assert len(covering(cases)) == 7
    assert len(covering(cases, 2)) < len(cases)


def test_each_worker_of_a_run_chooses_the_same_cases() -> None:
    """Numbers stand for objects, which every process has at another place in memory."""
    for cases in families():
        places: dict[str, int] = {}
        rng = random.Random(1)
        elsewhere = [
            {name: places.setdefault(value, rng.getrandbits(40)) for name, value in case.items()}
            for case in cases
        ]
        for together in (1, 2):
            assert covering(elsewhere, together) == covering(cases, together)
