"""Which cases of a test with many parameters run in a short run."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations

__all__ = ["covering"]


def covering(cases: Sequence[Mapping[str, Hashable]], together: int = 1) -> list[int]:
    """Return the positions of few cases that show every value of every parameter.

    The cases are chosen greedily, the first of equals, so each worker of a run chooses the same.

    Parameters
    ----------
    cases
        The value of each parameter, by its name.
    together
        How many values must appear together in one case: 2 is for each pair of two parameters'
        values.
    """
    shows = [set(combinations(sorted(case.items()), together)) for case in cases]
    missing = set().union(*shows)
    chosen: set[int] = set()
    while missing:
        best = max(range(len(cases)), key=lambda at: len(shows[at] & missing))
        missing -= shows[best]
        chosen.add(best)
    return sorted(chosen)
