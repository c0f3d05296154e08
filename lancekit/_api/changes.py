"""Row changes of a table: commit by commit (`ChangeFeed`), or between versions (`DatasetDelta`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancekit._api._handle import Handle
from lancekit._api.diff import DatasetDiff, diff_of
from lancekit._api.diff_rows import labels_of
from lancekit._api.scanner import scan_of
from lancekit._arguments.checks import check_count
from lancekit._arguments.scan import ScanArguments
from lancekit._checked import checked_methods
from lancekit._display import Displayed
from lancekit._format.fragment import fragment_from_pb
from lancekit._format.fragment_columns import parsed_fragment
from lancekit._format.transaction import Transaction
from lancekit._lazy import cached_property
from lancekit._pipeline.frames import exact_frame
from lancekit._scan.expressions.objects import Filter
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import fragment_sources
from lancekit._versions.listing import list_versions
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import InvalidArgumentError, UnsupportedFeatureError

if TYPE_CHECKING:
    import pandas as pd

_VERSION = pa.field("_commit_version", pa.uint64(), False)
_TIME = pa.field("_commit_timestamp", pa.timestamp("us", "UTC"), False)


@dataclass(frozen=True, slots=True)
class ChangeStep:
    """The changes from version `old` to version `new`, normally one commit.

    If versions in between were cleaned up, the step has the changes of all of their commits.
    """

    old: int
    new: int
    timestamp: datetime
    diff: DatasetDiff

    @property
    def commits(self) -> int:
        """The number of commits in the step."""
        return self.new - self.old


@checked_methods
class ChangeFeed(Displayed):
    """The row changes since a version, step by step; `LanceDataset.changes` makes it.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"id": [1, 2]}, "memory://changes-example", primary_key="id")
    >>> _ = ds.delete("id = 1")
    >>> _ = ds.insert({"id": [3]}, mode="append")
    >>> feed = ds.changes(1).to_table()
    >>> list(zip(*(feed[c].to_pylist() for c in ("_change", "id", "_commit_version"))))
    [('delete', 1, 2), ('insert', 3, 3)]
    """

    def __init__(
        self,
        since: Snapshot,
        until: Snapshot,
        on: str | Sequence[str] | None,
        condition: Filter | None,
        columns: Sequence[str] | None,
    ) -> None:
        if since.location != until.location or since.version > until.version:
            raise InvalidArgumentError(
                f"Version {until.version} of {until.location.name} does not come after version "
                f"{since.version} of {since.location.name}.",
                hint="A change feed goes from an older to a newer version of one branch. diff() "
                "compares any two versions.",
            )
        self._since = since
        self._until = until
        self._options = (on, condition, columns)

    @cached_property
    def versions(self) -> list[int]:
        """The compared versions, oldest first; each is compared with the one before it."""
        first, last = self._since.version, self._until.version
        there = [v for v in list_versions(self._since.location).versions if first < v < last]
        return [first, *there, last] if first < last else [first]

    @cached_property
    def steps(self) -> list[ChangeStep]:
        """The commits with their changes, oldest first; no rows are read."""
        location, (on, condition, columns) = self._since.location, self._options
        between = [load_snapshot(location, version) for version in self.versions[1:-1]]
        ends = [self._since, *between, self._until][: len(self.versions)]
        return [
            ChangeStep(
                old.version,
                new.version,
                new.manifest.timestamp,
                diff_of(old, new, on=on, condition=condition, columns=columns),
            )
            for old, new in pairwise(ends)
        ]

    @property
    def is_listed(self) -> bool:
        """True if the versions have been loaded already."""
        return "steps" in self.__dict__

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Pairs of versions with missing versions in between, whose commits form one step."""
        return [(old, new) for old, new in pairwise(self.versions) if new - old > 1]

    def to_batches(
        self, batch_size: int | None = None, *, names: Literal["lance", "delta"] = "lance"
    ) -> Iterator[pa.RecordBatch]:
        """Yield the changed rows of each commit, oldest first.

        The last columns are ``_commit_version`` and ``_commit_timestamp``.  If a commit changes the
        schema, its batches have the new columns.

        Parameters
        ----------
        batch_size, names
            As in `DatasetDiff.to_batches`.

        Returns
        -------
        iterator of pyarrow.RecordBatch
            The batches, each of one commit.

        Raises
        ------
        InvalidArgumentError
            ``batch_size`` is less than 1, or ``names`` is unknown.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": [1]}, "memory://feed-batches-example")
        >>> _ = ds.insert({"id": [2, 3]})
        >>> [batch["id"].to_pylist() for batch in ds.changes(1).to_batches()]
        [[2, 3]]
        """
        labels_of(names)
        if batch_size is not None:
            check_count("batch_size", batch_size, least=1)
        return chain.from_iterable(
            (_stamped(batch, step) for batch in step.diff.to_batches(batch_size, names=names))
            for step in self.steps
        )

    def to_table(self, *, names: Literal["lance", "delta"] = "lance") -> pa.Table:
        """Return the changed rows of all commits.

        Rows of commits that lack a column have nulls in it.

        Raises
        ------
        UnsupportedFeatureError
            A column had types without a common type.
        """
        tables = [
            pa.Table.from_batches([_stamped(batch, step) for batch in table.to_batches()])
            for step in self.steps
            if (table := step.diff.to_table(names=names)).num_rows
        ]
        if tables:
            return _together(tables)
        none = diff_of(self._until, self._until, on=None, condition=None, columns=self._options[2])
        empty = none.to_table(names=names).schema
        return pa.schema([*empty, _VERSION, _TIME]).empty_table()

    def to_pandas(self, *, names: Literal["lance", "delta"] = "lance") -> pd.DataFrame:
        """Return the changed rows of all commits as a pandas DataFrame."""
        return exact_frame(self.to_table(names=names), {})

    def _plain(self) -> str:
        return f"ChangeFeed(version {self._since.version} to {self._until.version})"


def _together(tables: Sequence[pa.Table]) -> pa.Table:
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowTypeError as error:
        raise UnsupportedFeatureError(
            f"The commits do not fit one table, because a column changed its type: {error}.",
            hint="Use to_batches() or steps, which keep the types of each commit, or leave the "
            "column out: changes(columns=[...]).",
        ) from error


def _stamped(batch: pa.RecordBatch, step: ChangeStep) -> pa.RecordBatch:
    rows = batch.num_rows
    return batch.append_column(
        _VERSION, pa.repeat(pa.scalar(step.new, _VERSION.type), rows)
    ).append_column(_TIME, pa.repeat(pa.scalar(step.timestamp, _TIME.type), rows))


# ---- `DatasetDelta`: row changes between two versions of a table with stable row ids

_CREATED = "_row_created_at_version"
_UPDATED = "_row_last_updated_at_version"


def _same_rows(before: bytes, after: bytes) -> bool:
    """Return True if a fragment has the same rows in two versions."""
    if before == after:
        return True
    old, new = (fragment_from_pb(parsed_fragment(message)) for message in (before, after))
    facts = attrgetter("row_ids", "deletion_file", "physical_rows")
    return bool(facts(old) == facts(new))


@checked_methods
class DatasetDelta(Displayed):
    """Row changes after `begin_version`, up to and including `end_version`.

    Rows are read at `end_version`, so rows that changed several times are found, too.

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
        """Return the transactions of the commits in between, oldest first.

        Raises
        ------
        VersionNotFoundError
            A version in between was cleaned up.
        """
        for version in self.missing:
            self._at(version)
        return [transaction for _, transaction in self.commits() if transaction is not None]

    @property
    def missing(self) -> list[int]:
        """The versions in between that were cleaned up."""
        numbers = range(self.begin_version + 1, self.end_version + 1)
        return sorted({*numbers}.difference(list_versions(self._dataset._location).versions))

    def commits(self, newest: int | None = None) -> list[tuple[int, Transaction | None]]:
        """Return the existing versions in between with their transactions, oldest first.

        Parameters
        ----------
        newest
            The number of newest versions to read; all by default.
        """
        numbers = sorted({*range(self.begin_version + 1, self.end_version + 1)} - {*self.missing})
        wanted = numbers if newest is None else numbers[max(len(numbers) - newest, 0) :]
        return [
            (number, load_snapshot(self._dataset._location, number).transaction)
            for number in wanted
        ]

    def get_inserted_rows(self) -> pa.RecordBatchReader:
        """Return the rows created in between, with row ids and versions.

        Raises
        ------
        InvalidArgumentError
            The table has no stable row ids, so the versions of its rows are not recorded.
        """
        return self._rows(f"{_CREATED} > {self.begin_version} AND {_CREATED} <= {self.end_version}")

    def get_updated_rows(self) -> pa.RecordBatchReader:
        """Return the rows that changed in between, without new rows, with row ids and versions."""
        return self._rows(
            f"{_CREATED} <= {self.begin_version} "
            f"AND {_UPDATED} > {self.begin_version} AND {_UPDATED} <= {self.end_version}"
        )

    def get_deleted_row_ids(self) -> pa.RecordBatchReader:
        """Return the ids of the rows that exist at `begin_version`, but not at `end_version`."""
        before, after = self._fragments(self.begin_version), self._fragments(self.end_version)
        # fragments with the same rows on both sides have no deleted rows, and no moved ones
        same = {id_ for id_ in before.keys() & after.keys() if _same_rows(before[id_], after[id_])}
        lost, kept = self._ids(self.begin_version, same), self._ids(self.end_version, same)
        gone = pa.table({"_rowid": pa.array(np.setdiff1d(lost, kept), pa.uint64())})
        return gone.to_reader()

    def _rows(self, condition: str) -> pa.RecordBatchReader:
        at = self._at(self.end_version)
        columns = [*at.manifest.schema.names, "_rowid", _CREATED, _UPDATED]
        return scan_of(at, ScanArguments(columns=columns, filter=condition)).to_reader()

    def _fragments(self, version: int) -> dict[int, bytes]:
        """Return the encoded fragments of a version, by id."""
        if version == 0:
            return {}
        found = self._at(version).manifest.fragments
        return dict(zip(found.ids.tolist(), found.encoded, strict=True))

    def _ids(self, version: int, left_out: Collection[int]) -> npt.NDArray[np.uint64]:
        """Return the row ids in all fragments of a version but those in ``left_out``."""
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
        at = load_snapshot(self._dataset._location, version)
        if not at.manifest.has_stable_row_ids:
            raise InvalidArgumentError(
                f"{self._dataset.uri} has no stable row ids, so the changes of its rows are not "
                "recorded.",
                hint="Create the dataset with enable_stable_row_ids=True.",
                version=version,
            )
        return at
