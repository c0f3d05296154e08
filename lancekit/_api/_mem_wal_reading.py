"""The part of a handle that reads what shards hold."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lancekit._api._handle import Handle
from lancekit._checked import checked_methods

if TYPE_CHECKING:
    from lancekit._api.lsm_scanner import LsmScanner

__all__ = ["MemWalReading"]


@checked_methods
class MemWalReading(Handle):
    """Scans of the table together with its shards."""

    def lsm_scanner(self) -> LsmScanner:
        """Set up a scan of the newest version and of what the shards hold that it does not.

        Each run reads what there is then: the table's newest version, wherever the handle is, its
        shards' generations that are not merged, and their logs, whether or not somebody writes to
        them.

        Raises
        ------
        InvalidArgumentError
            The handle is pinned to a version, in which no rows of shards are.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1, 2]}, "memory://lsm-scanner", primary_key="id")
        >>> ds.lsm_scanner().project(["id"]).limit(1).count_rows()
        1
        """
        from lancekit._api.lsm_scanner import LsmScanner
        from lancekit._operations.mem_wal.reader.sources import newest_read_set

        self._check_shards()
        return LsmScanner(self._snapshot, partial(newest_read_set, self._line))
