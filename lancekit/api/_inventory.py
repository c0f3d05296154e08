"""The part of a handle that tells of files and their sizes, and removes datasets."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from lancekit.api._handle import Handle
from lancekit.api.pylance.arguments import check_count, check_flag, check_place
from lancekit.api.pylance.not_offered import PartOfPylance
from lancekit.checked import checked_methods
from lancekit.operations.maintenance.inventory import (
    ALL_FILES,
    TRACKED_FILES,
    DataStatistics,
    FieldStatistics,
    all_files,
    data_statistics,
    drop_dataset,
    tracked_files,
)
from lancekit.versions.line import open_line
from lancekit.versions.listing import list_versions
from lancekit.versions.snapshot import Snapshot

__all__ = ["DataStatistics", "FieldStatistics", "Inventory", "LanceStats"]


class LanceStats(PartOfPylance):
    """Statistics of a version; `LanceDataset.stats`."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def dataset_stats(self, max_rows_per_group: int = 1024) -> dict[str, int]:
        """Count fragments, those of fewer rows than ``max_rows_per_group``, and deleted rows."""
        least = check_count("max_rows_per_group", max_rows_per_group)
        fragments = self._snapshot.manifest.fragments
        physical = np.array([fragment.physical_rows for fragment in fragments], np.int64)
        return {
            "num_deleted_rows": int(physical.sum()) - self._snapshot.manifest.num_rows,
            "num_fragments": len(fragments),
            "num_small_files": int((physical < least).sum()),
        }

    def data_stats(self) -> DataStatistics:
        """Return how many bytes of data files each field has; reads the end of every file."""
        return data_statistics(self._snapshot)


@checked_methods
class Inventory(Handle):
    """Files, sizes, and the removal of a dataset."""

    @property
    def stats(self) -> LanceStats:
        """Statistics of this version.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": range(1000)}, "memory://stats-example")
        >>> ds.stats.dataset_stats()
        {'num_deleted_rows': 0, 'num_fragments': 1, 'num_small_files': 1}
        """
        return LanceStats(self._snapshot)

    def version_refs(self) -> list[dict[str, int]]:
        """Return the numbers of the branch's versions, oldest first; no manifest is read."""
        return [{"version": version} for version in list_versions(self._line).versions]

    def all_files(self) -> pa.RecordBatchReader:
        """List every file in the folder of the handle's branch, needed or not.

        Returns
        -------
        pyarrow.RecordBatchReader
            ``base_uri`` (the folder), ``path`` (in it), ``size_bytes`` and ``last_modified``.
        """
        return pa.RecordBatchReader.from_batches(ALL_FILES, all_files(self._line))

    def tracked_files(
        self,
        *,
        min_version: int | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> pa.RecordBatchReader:
        """List the files that versions of the handle's branch refer to, version by version.

        Parameters
        ----------
        min_version
            The first version to list, all by default.
        progress
            Called after each version with the number of those done, and of all.

        Returns
        -------
        pyarrow.RecordBatchReader
            ``version``, ``base_uri`` and ``path`` of the file, and its ``type``: ``manifest``,
            ``transaction file``, ``data file``, ``deletion file`` or ``index file``.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://tracked-files-example")
        >>> ds.tracked_files().read_all()["type"].to_pylist()
        ['manifest', 'transaction file', 'data file']
        """
        first = 0 if min_version is None else check_count("min_version", min_version)
        batches = tracked_files(self._line, first, progress)
        return pa.RecordBatchReader.from_batches(TRACKED_FILES, batches)

    @staticmethod
    def drop(
        base_uri: str | os.PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        ignore_not_found: bool | None = None,
    ) -> None:
        """Remove a dataset and whatever else is in its folder.

        What is elsewhere stays, behind links and in base paths: a warning names these.

        Parameters
        ----------
        base_uri
            The folder, in which there has to be a version that can be read.
        storage_options
            Credentials and settings of an object store.
        ignore_not_found
            Do nothing if there is nothing.

        Raises
        ------
        DatasetNotFoundError
            There is nothing.
        InvalidArgumentError
            What is there is no dataset, or is a branch of one.

        Examples
        --------
        >>> import lancekit as lk
        >>> _ = lk.write_dataset({"x": [1]}, "memory://drop-example")
        >>> lk.LanceDataset.drop("memory://drop-example")
        >>> lk.LanceDataset.drop("memory://drop-example", ignore_not_found=True)
        """
        line = open_line(check_place(base_uri), storage_options)
        missing = check_flag("ignore_not_found", ignore_not_found or False)
        drop_dataset(line, ignore_not_found=missing)
