"""The values of rows, read and compared in this process or by tasks on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._pipeline.diff.fragments import ColumnPair
from lancekit._pipeline.diff.row_values import changed_rows, row_digests, unlike
from lancekit._pipeline.diff.side import Addresses, Side
from lancekit._pipeline.diff.values import Digests, Seeds
from lancekit._pipeline.engine.engine import Runner
from lancekit._scan.fragments.source import FragmentSource

__all__ = ["ChangedRows", "Values", "compared", "digested", "read_changed"]

Sources = tuple[FragmentSource, ...]

#: rows of a task on Spark, at most
_TASK_ROWS = 1 << 18


class Values:
    """The values of two sides.

    Parameters
    ----------
    sides
        What reads them here.
    step
        Rows that are held at a time.
    runner
        What reads them elsewhere: one that runs here is not asked.
    """

    def __init__(self, sides: tuple[Side, Side], step: int, runner: Runner | None) -> None:
        self._sides = sides
        self._runner = None if runner is None or runner.name == "local" else runner
        self._step = step if self._runner is None else min(step, _TASK_ROWS)

    @property
    def are_here(self) -> bool:
        """Whether they are read in this process."""
        return self._runner is None

    def _parts(self, rows: int) -> list[slice]:
        return [slice(start, start + self._step) for start in range(0, rows, self._step)]

    def digests(
        self, columns: Sequence[ColumnPair], rows: Addresses, seeds: Seeds, *, new: bool
    ) -> Digests:
        """Return digests of columns of rows of a side."""
        side = self._sides[new]
        if self._runner is None:
            return row_digests(columns, side, rows, seeds, new=new)
        tasks = [
            Keys(tuple(columns), side.sources(rows[part]), rows[part], seeds, new)
            for part in self._parts(len(rows))
        ]
        return Digests.joined(self._runner.map(digested, tasks))

    def unlike(
        self, columns: Sequence[ColumnPair], old: Addresses, new: Addresses
    ) -> Iterator[tuple[slice, npt.NDArray[np.bool_]]]:
        """Yield which values of pairs of rows differ, and of which of them."""
        parts = self._parts(len(old))
        if self._runner is None:
            for part in parts:
                yield part, unlike(columns, self._sides, old[part], new[part])
            return
        olds, news = self._sides
        tasks = [
            Comparison(
                tuple(columns),
                (olds.sources(old[part]), news.sources(new[part])),
                old[part],
                new[part],
            )
            for part in parts
        ]
        yield from zip(parts, self._runner.map(compared, tasks), strict=True)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A task: pairs of rows, and the fragments that they are in."""

    columns: tuple[ColumnPair, ...]
    sources: tuple[Sources, Sources]
    old: Addresses
    new: Addresses


def compared(task: Comparison) -> npt.NDArray[np.bool_]:
    """Return what `unlike` does."""
    olds, news = (Side(sources, None) for sources in task.sources)
    return unlike(task.columns, (olds, news), task.old, task.new)


@dataclass(frozen=True, slots=True)
class Keys:
    """A task: rows of a side, of which digests are wanted."""

    columns: tuple[ColumnPair, ...]
    sources: Sources
    rows: Addresses
    seeds: Seeds
    new: bool


def digested(task: Keys) -> Digests:
    """Return what `row_digests` does."""
    side = Side(task.sources, None)
    return row_digests(task.columns, side, task.rows, task.seeds, new=task.new)


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """A task: rows of a side that became something."""

    schema: pa.Schema
    word: str
    columns: tuple[ColumnPair, ...]
    sources: Sources
    rows: Addresses
    new: bool


def read_changed(task: ChangedRows) -> pa.Table:
    """Return what `changed_rows` does."""
    side = Side(task.sources, None)
    return changed_rows(task.schema, task.word, task.columns, side, task.rows, new=task.new)
