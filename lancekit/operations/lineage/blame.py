"""Which version last changed each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import arrow_kernels as ak
from lancekit.operations.lineage.trace import is_first, places_in, step_back, way_back
from lancekit.pipeline.diff.side import Addresses
from lancekit.versions.snapshot import Snapshot

__all__ = ["LastChanges", "last_changes"]


@dataclass(frozen=True, slots=True)
class LastChanges:
    """For each row the version that last changed it, 0 where that one is gone; the versions."""

    versions: npt.NDArray[np.int64]
    by_number: dict[int, Snapshot]

    def column(self, values: dict[int, object], kind: pa.DataType) -> pa.Array:
        """Return what is known of versions, row by row; null where the version is gone."""
        numbers = np.array(sorted(self.by_number), np.int64)
        listed = pa.array([values[number] for number in numbers.tolist()], kind)
        places = np.searchsorted(numbers, self.versions)
        return ak.take(listed, pa.array(places, mask=self.versions == 0))


def last_changes(
    snapshot: Snapshot, rows: Addresses, columns: Sequence[str] | None = None
) -> LastChanges:
    """Return which version last changed rows, or some columns of them.

    They are followed back along the line; most fragments are in a version and the one before it as
    they are, and of those nothing is asked.

    Parameters
    ----------
    rows
        Addresses.
    columns
        Changes of others do not count; all by default.
    """
    order = np.argsort(rows, kind="stable")
    at, open_, found = rows[order], np.ones(len(rows), bool), np.zeros(len(rows), np.int64)
    by_number: dict[int, Snapshot] = {}
    oldest, left = snapshot, len(rows)
    for pace in way_back(snapshot, columns or ()):
        if not left:
            break
        oldest = pace.old
        touched = places_in(at, pace.changed)
        touched = touched[open_[touched]]
        if not len(touched):
            continue
        names = None if columns is None else [*pace.names.values()]
        step = step_back(pace, at[touched], columns=names)
        changed = step.born | step.updated
        if changed.any():
            done = touched[changed]
            found[order[done]], open_[done] = pace.new.version, False
            by_number[pace.new.version] = pace.new
            left -= len(done)
        at[touched[~changed]] = step.before[~changed]
        if (at[1:] < at[:-1]).any():
            sorting = np.argsort(at, kind="stable")
            at, order, open_ = at[sorting], order[sorting], open_[sorting]
    if left and is_first(oldest):
        found[order[open_]] = oldest.version
        by_number[oldest.version] = oldest
    return LastChanges(found, by_number)
