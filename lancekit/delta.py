"""`DatasetDelta`: the rows that changed between two versions of a table with stable row ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancekit.errors import InvalidArgumentError
from lancekit.format.transaction import Transaction

if TYPE_CHECKING:
    from lancekit.dataset import LanceDataset

__all__ = ["DatasetDelta"]

_CREATED = "_row_created_at_version"
_UPDATED = "_row_last_updated_at_version"


class DatasetDelta:
    """Changes after `begin_version`, up to and including `end_version`.

    Rows are read at `end_version`, so a row that changed again later is still found.
    """

    def __init__(self, dataset: LanceDataset, begin_version: int, end_version: int) -> None:
        self._dataset = dataset
        self.begin_version = begin_version
        self.end_version = end_version

    def list_transactions(self) -> list[Transaction]:
        """Return what each commit in between did, oldest first."""
        numbers = range(self.begin_version + 1, self.end_version + 1)
        found = (self._dataset.read_transaction(number) for number in numbers)
        return [transaction for transaction in found if transaction is not None]

    def get_inserted_rows(self) -> pa.RecordBatchReader:
        """Return the rows created in between, with row ids and versions.

        Raises
        ------
        InvalidArgumentError
            The table has no stable row ids, so its rows' versions are not recorded.
        """
        return self._rows(f"{_CREATED} > {self.begin_version} AND {_CREATED} <= {self.end_version}")

    def get_updated_rows(self) -> pa.RecordBatchReader:
        """Return the older rows changed in between, with row ids and versions."""
        return self._rows(
            f"{_CREATED} <= {self.begin_version} "
            f"AND {_UPDATED} > {self.begin_version} AND {_UPDATED} <= {self.end_version}"
        )

    def get_deleted_row_ids(self) -> pa.RecordBatchReader:
        """Return the ids of rows that were there at the begin and are gone at the end."""
        before, after = (self._ids(v) for v in (self.begin_version, self.end_version))
        gone = pa.table({"_rowid": pa.array(np.setdiff1d(before, after), pa.uint64())})
        return gone.to_reader()

    def _rows(self, condition: str) -> pa.RecordBatchReader:
        at = self._at(self.end_version)
        columns = [*at.schema.names, "_rowid", _CREATED, _UPDATED]
        return at.scanner(columns=columns, filter=condition).to_reader()

    def _ids(self, version: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        if version == 0:
            return np.empty(0, np.uint64)
        ids: np.ndarray[tuple[int], np.dtype[np.uint64]] = (
            self._at(version).to_table(columns=["_rowid"]).column(0).to_numpy()
        )
        return ids

    def _at(self, version: int) -> LanceDataset:
        at = self._dataset.checkout_version(version)
        if not at.has_stable_row_ids:
            raise InvalidArgumentError(
                f"{at.uri} has no stable row ids, so it does not record when its rows changed.",
                hint="Create the dataset with pylance's enable_stable_row_ids=True.",
                version=version,
            )
        return at
