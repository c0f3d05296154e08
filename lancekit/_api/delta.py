"""`DatasetDelta`: the rows that changed between two versions of a table with stable row ids."""

from __future__ import annotations

from collections.abc import Collection
from operator import attrgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancekit._api._handle import Handle
from lancekit._api.scanner import scan_of
from lancekit._arguments.scan import ScanArguments
from lancekit._checked import checked_methods
from lancekit._display import Displayed
from lancekit._format.fragment import fragment_from_pb
from lancekit._format.fragment_columns import parsed_fragment
from lancekit._format.transaction import Transaction
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import fragment_sources
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import InvalidArgumentError

__all__ = ["DatasetDelta"]

_CREATED = "_row_created_at_version"
_UPDATED = "_row_last_updated_at_version"


def _same_rows(before: bytes, after: bytes) -> bool:
    """Return whether a fragment has the same rows in two versions."""
    if before == after:
        return True
    old, new = (fragment_from_pb(parsed_fragment(message)) for message in (before, after))
    facts = attrgetter("row_ids", "deletion_file", "physical_rows")
    return bool(facts(old) == facts(new))


@checked_methods
class DatasetDelta(Displayed):
    """Changes after `begin_version`, up to and including `end_version`.

    Rows are read at `end_version`, so a row that changed again later is still found.

    Examples
    --------
    >>> import lancekit as lk
    >>> rows = {"id": [1, 2], "v": ["a", "b"]}
    >>> ds = lk.write_dataset(rows, "memory://delta-example", enable_stable_row_ids=True)
    >>> merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    >>> _ = merge.execute({"id": [2, 3], "v": ["B", "C"]})
    >>> delta = ds.delta(compared_against=1)
    >>> delta.get_inserted_rows().read_all()["id"].to_pylist()
    [3]
    >>> delta.get_updated_rows().read_all()["id"].to_pylist()
    [2]
    """

    def __init__(self, dataset: Handle, begin_version: int, end_version: int) -> None:
        self._dataset = dataset
        self.begin_version = begin_version
        self.end_version = end_version

    def _plain(self) -> str:
        return f"DatasetDelta(begin_version={self.begin_version}, end_version={self.end_version})"

    def list_transactions(self) -> list[Transaction]:
        """Return what each commit in between did, oldest first."""
        return [transaction for _, transaction in self.commits() if transaction is not None]

    def commits(self, newest: int | None = None) -> list[tuple[int, Transaction | None]]:
        """Return each version in between with what its commit did, oldest first.

        Parameters
        ----------
        newest
            How many to read, from the end; all of them by default.
        """
        numbers = range(self.begin_version + 1, self.end_version + 1)
        wanted = numbers if newest is None else numbers[max(len(numbers) - newest, 0) :]
        return [
            (number, load_snapshot(self._dataset._line, number).transaction) for number in wanted
        ]

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
        before, after = self._fragments(self.begin_version), self._fragments(self.end_version)
        # what both have as it is has lost no row, and holds none that the rest has lost
        same = {id_ for id_ in before.keys() & after.keys() if _same_rows(before[id_], after[id_])}
        lost, kept = self._ids(self.begin_version, same), self._ids(self.end_version, same)
        gone = pa.table({"_rowid": pa.array(np.setdiff1d(lost, kept), pa.uint64())})
        return gone.to_reader()

    def _rows(self, condition: str) -> pa.RecordBatchReader:
        at = self._at(self.end_version)
        columns = [*at.manifest.schema.names, "_rowid", _CREATED, _UPDATED]
        return scan_of(at, ScanArguments(columns=columns, filter=condition)).to_reader()

    def _fragments(self, version: int) -> dict[int, bytes]:
        """Return the fragments of a version by their ids, as the manifest has them."""
        if version == 0:
            return {}
        found = self._at(version).manifest.fragments
        return dict(zip(found.ids.tolist(), found.encoded, strict=True))

    def _ids(self, version: int, left_out: Collection[int]) -> npt.NDArray[np.uint64]:
        """Return the ids of the rows in the other fragments of a version."""
        if version == 0:
            return np.empty(0, np.uint64)
        sources = fragment_sources(self._at(version)).without(BitMap(left_out))
        readers = map(FragmentReader, sources)
        parts = [
            reader.row_ids(np.arange(reader.physical_rows) if reader.live is None else reader.live)
            for reader in readers
        ]
        return np.concatenate([np.empty(0, np.uint64), *parts])

    def _at(self, version: int) -> Snapshot:
        at = load_snapshot(self._dataset._line, version)
        if not at.manifest.has_stable_row_ids:
            raise InvalidArgumentError(
                f"{self._dataset.uri} has no stable row ids, so it does not record when its rows "
                "changed.",
                hint="Create the dataset with enable_stable_row_ids=True.",
                version=version,
            )
        return at
