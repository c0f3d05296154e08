"""Which rows of a fragment a predicate deletes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pyroaring import BitMap

from lancekit.format.deletions import to_bitmap
from lancekit.scan.fragment import FragmentReader
from lancekit.scan.predicate import Predicate
from lancekit.scan.scanner import ScanRequest, plan_columns, scan_open_fragment
from lancekit.scan.sources import FragmentSource

__all__ = ["MarkTask", "Marked", "find_rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkTask:
    """A fragment and a predicate.  Can be sent to a worker."""

    source: FragmentSource
    predicate: Predicate


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """The rows found in a fragment, and those that were deleted before."""

    fragment_id: int
    rows: BitMap
    deleted_before: BitMap


def find_rows(task: MarkTask) -> Marked:
    """Return the offsets of the live rows that the predicate selects."""
    request = ScanRequest(
        outputs=plan_columns(task.source.schema, ["_rowaddr"]), predicate=task.predicate
    )
    reader = FragmentReader(task.source)
    rows = BitMap()
    for block in scan_open_fragment(reader, request):
        addresses = block.column("_rowaddr").to_numpy()
        rows |= to_bitmap(addresses & np.uint64(0xFFFFFFFF))
    return Marked(
        fragment_id=task.source.fragment.id,
        rows=rows,
        deleted_before=reader.deleted,
    )
