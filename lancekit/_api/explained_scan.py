"""The part of a scan that tells what it would read, and what it read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lancekit._arguments.checks import check_hints
from lancekit._checked import checked_methods
from lancekit._scan.scan import Scan
from lancekit._versions.snapshot import Snapshot

if TYPE_CHECKING:
    from lancekit._operations.explain.explanation import Explanation
    from lancekit._scan.statistics import ScanStatistics

__all__ = ["ExplainedScan"]


@checked_methods
class ExplainedScan:
    """What a scan would read, without reading it; or what a run of it took."""

    _scan: Scan
    _snapshot: Snapshot
    _order: Sequence[Any]

    def explain(self) -> Explanation:
        """Tell what the scan would read, and where; indices are queried, and no rows are read.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2, 3], "y": ["a", "b", "c"]}, "memory://explain-scan")
        >>> told = ds.scanner(columns=["y"], filter="x > 1").explain()
        >>> told.engine, told.reads.columns, told.reads.fragments
        ('local', ('x', 'y'), 1)
        """
        from lancekit._operations.explain.scans import explain_scan

        order = [ordering.column_name for ordering in self._order]
        return explain_scan(self._snapshot, self._scan, order_by=order)

    def explain_plan(self, verbose: bool = False) -> str:
        """Return `explain` as text; there is no more to tell if it is to be ``verbose``."""
        check_hints(verbose=verbose)
        return str(self.explain())

    def analyze_plan(self, count_rows: bool = False) -> str:
        """Run the scan, and return `explain` as text with what the run took.

        Parameters
        ----------
        count_rows
            Count the rows as `count_rows` does, instead of making batches of them.
        """
        from lancekit._scan.statistics import WatchedScan

        found: list[ScanStatistics] = []
        watched = WatchedScan(**vars(self._scan), report=found.append)
        started = time.monotonic()
        rows = watched.count() if count_rows else sum(b.num_rows for b in watched.batches())
        took = f"ran: {rows:,} rows in {time.monotonic() - started:.3f} s"
        counts = [
            f"read: {s.bytes_read:,} bytes in {s.iops:,} ranges by {s.requests:,} requests"
            for s in found
        ]
        return "\n".join([str(self.explain()), *(f"  {line}" for line in (took, *counts))])
