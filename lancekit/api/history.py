"""Versions and the line they form."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Any, overload

from lancekit.api.tags_and_branches import Tags
from lancekit.checked import checked_methods
from lancekit.display import Displayed
from lancekit.format.names import ManifestNaming
from lancekit.format.refs import MAIN
from lancekit.legible import plural
from lancekit.versions.line import Line
from lancekit.versions.listing import VersionListing, list_versions
from lancekit.versions.snapshot import Snapshot, load_snapshot

__all__ = ["History", "Version", "describe_version"]

# an iteration reads so many versions ahead, in so many threads, where one takes longer (seconds)
_PAGE = 25
_AT_ONCE = 8
_LONG = 0.005


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Version(Displayed, dict[str, Any]):
    """One version: what was committed, when and by whom.

    It is pylance's dictionary too, with the same values: ``version["timestamp"]`` is local time
    without a zone, while ``version.timestamp`` is aware, UTC.  `operation` is ``None`` where the
    commit recorded none.
    """

    version: int
    timestamp: datetime
    branch: str
    operation: str | None
    message: str | None
    writer: str | None
    read_version: int | None
    num_rows: int
    num_fragments: int
    num_data_files: int
    num_deletion_files: int
    num_deleted_rows: int
    num_columns: int
    total_bytes: int

    def __post_init__(self) -> None:
        local = _local(self.timestamp)
        self.update(version=self.version, timestamp=local, metadata=self.metadata)

    @property
    def metadata(self) -> dict[str, str]:
        """The summary that pylance gives, under its names, as strings."""
        physical = self.num_rows + self.num_deleted_rows
        return {
            "total_data_file_rows": str(physical),
            "total_data_files": str(self.num_data_files),
            "total_deletion_file_rows": str(self.num_deleted_rows),
            "total_deletion_files": str(self.num_deletion_files),
            "total_files_size": str(self.total_bytes),
            "total_fragments": str(self.num_fragments),
            "total_rows": str(self.num_rows),
        }

    def _plain(self) -> str:
        return f"{self.branch}:{self.version} {self.operation or ''}".rstrip()


def _local(moment: datetime) -> datetime:
    """Return local time without a zone; UTC's where the zone leads beyond the last of all years."""
    with suppress(OverflowError, ValueError, OSError):
        moment = moment.astimezone()
    return moment.replace(tzinfo=None)


def describe_version(snapshot: Snapshot) -> Version:
    """Return what is shown of a loaded version."""
    manifest, transaction = snapshot.manifest, snapshot.transaction_summary
    totals = manifest.totals()
    return Version(
        version=manifest.version,
        timestamp=manifest.timestamp,
        branch=snapshot.line.branch or MAIN,
        operation=transaction.operation if transaction else None,
        message=transaction.message if transaction else None,
        writer=str(manifest.writer) if manifest.writer else None,
        read_version=transaction.read_version if transaction else None,
        num_rows=totals.rows,
        num_fragments=len(manifest.fragments),
        num_data_files=totals.data_files,
        num_deletion_files=totals.deletion_files,
        num_deleted_rows=totals.deleted_rows,
        num_columns=len(manifest.schema.fields),
        total_bytes=totals.bytes,
    )


@checked_methods
class History(Displayed, Sequence[Version]):
    """The versions of a line, oldest first.  A version's manifest is read when it is looked at.

    A slice is a history too, of those versions.

    Examples
    --------
    >>> import lancekit as lk, pyarrow as pa
    >>> ds = lk.write_dataset(pa.table({"x": [1]}), "memory://history-example")
    >>> [v["version"] for v in ds.versions()]
    [1]
    """

    def __init__(self, line: Line, listing: VersionListing | None = None) -> None:
        listing = listing or list_versions(line)
        self._line = line
        self._naming: ManifestNaming = listing.naming
        self._all = self._numbers = listing.versions
        self._loaded: dict[int, Version] = {}

    @property
    def tags(self) -> Tags:
        """The dataset's tags."""
        return Tags(self)

    @property
    def version(self) -> int:
        """The newest version's number."""
        return self._all[-1]

    @property
    def branch(self) -> str:
        """The line's branch, ``main`` for the main one."""
        return self._line.name

    @property
    def numbers(self) -> tuple[int, ...]:
        """The version numbers; nothing is read for them."""
        return self._numbers

    @property
    def whole(self) -> History:
        """The history that this one is a slice of, or itself."""
        part = copy(self)
        part._numbers = self._all
        return part

    @overload
    def __getitem__(self, index: int) -> Version: ...
    @overload
    def __getitem__(self, index: slice) -> History: ...
    def __getitem__(self, index: int | slice) -> Version | History:
        if isinstance(index, slice):
            part = copy(self)
            part._numbers = self._numbers[index]
            return part
        return self._load(self._numbers[index])

    def __iter__(self) -> Iterator[Version]:
        for start in range(0, len(self), _PAGE):
            page = self._numbers[start : start + _PAGE]
            self._read_ahead([number for number in page if number not in self._loaded])
            yield from map(self._load, page)

    def _read_ahead(self, numbers: Sequence[int]) -> None:
        """Load versions at the same time, if one takes long to come: not from a local disk."""
        if len(numbers) < 2:
            return
        began = time.perf_counter()
        self._load(numbers[0])
        if time.perf_counter() - began > _LONG:
            with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="lancekit-history") as pool:
                list(pool.map(self._load, numbers[1:]))

    def __len__(self) -> int:
        return len(self._numbers)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, History):
            return (self._line, self._numbers) == (other._line, other._numbers)
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # a sequence that can be compared with a list

    def row_change(self, version: Version) -> int | None:
        """Return by how many rows a version differs from the one before it on its line.

        A branch or clone starts with the rows it was made from, which is no change.  ``None`` if
        the version before is not there any more.
        """
        place = bisect_left(self._all, version.version)
        if version.operation == "Clone":
            return 0
        if place > 0:
            return version.num_rows - self._load(self._all[place - 1]).num_rows
        return version.num_rows if version.version == 1 else None

    def _load(self, number: int) -> Version:
        version = self._loaded.get(number)
        if version is None:
            version = describe_version(load_snapshot(self._line, number, self._naming))
            self._loaded[number] = version
        return version

    def _plain(self) -> str:
        return f"{plural(len(self), 'version')} of {self.branch}"
