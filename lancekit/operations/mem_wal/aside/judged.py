"""Rows of a shard that were moved aside, with what was found out about each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lancekit.operations.mem_wal.aside.order import Verdict, verdicts
from lancekit.operations.mem_wal.aside.rows import AsideRows, read_aside_rows
from lancekit.shards.shard import Shard
from lancekit.versions.snapshot import Snapshot

__all__ = ["JudgedRows", "Mask", "judged_rows"]

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class JudgedRows:
    """The rows of a shard that were moved aside, and whether each is the newest of its key."""

    aside: AsideRows
    verdicts: Sequence[Verdict]

    def are(self, state: str) -> Mask:
        """Return which rows have a state."""
        return np.array([one.state == state for one in self.verdicts], bool)


def judged_rows(current: Snapshot, shard: Shard) -> JudgedRows:
    """Return the rows of a shard that were moved aside, with a verdict for each."""
    aside = read_aside_rows(current, shard)
    return JudgedRows(aside, verdicts(current, aside))
