"""`LanceStats`: statistics of the files of a version."""

from __future__ import annotations

from typing import Any

import numpy as np

from lancekit._api.hinting import hinting_operators
from lancekit._arguments.checks import check_count
from lancekit._display import Displayed
from lancekit._operations.index.describe import index_statistics
from lancekit._operations.maintenance.inventory import DataStatistics, data_statistics
from lancekit._versions.snapshot import Snapshot


@hinting_operators("__call__")
class LanceStats(Displayed):
    """Statistics of a version; see `LanceDataset.stats`."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def _plain(self) -> str:
        return f"LanceStats({self._snapshot.called})"

    def dataset_stats(self, max_rows_per_group: int = 1024) -> dict[str, int]:
        """Count fragments, those with fewer rows than ``max_rows_per_group``, and deleted rows."""
        least = check_count("max_rows_per_group", max_rows_per_group)
        fragments = self._snapshot.manifest.fragments
        physical = np.array([fragment.physical_rows for fragment in fragments], np.int64)
        return {
            "num_deleted_rows": int(physical.sum()) - self._snapshot.manifest.num_rows,
            "num_fragments": len(fragments),
            "num_small_files": int((physical < least).sum()),
        }

    def index_stats(self, index_name: str) -> dict[str, Any]:
        """Return the coverage of an index and, for a scalar index, statistics of its files.

        Raises
        ------
        IndexNotFoundError
            There is no index of this name.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://index-stats-example")
        >>> _ = ds.create_scalar_index("x", "BTREE")
        >>> found = ds.stats.index_stats("x_idx")
        >>> found["num_indexed_rows"], found["segments"]
        (2, [{'min': '1', 'max': '2', 'num_pages': 1}])
        """
        return index_statistics(self._snapshot, index_name)

    def data_stats(self) -> DataStatistics:
        """Return the bytes of each field in data files, after reading the footer of every file."""
        return data_statistics(self._snapshot)
