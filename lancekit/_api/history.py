"""The versions of a branch: `History`, and `Version`, whose manifest is read on demand."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

import numpy as np
import pyarrow as pa

from lancekit._api.hinting import hinting_operators
from lancekit._api.tags import Tags
from lancekit._checked import checked_methods
from lancekit._display import Displayed
from lancekit._format.names import MAIN, ManifestNaming
from lancekit._lazy import cached_property
from lancekit._legible import plural
from lancekit._provenance import Provenance
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import VersionListing, at_once, list_versions, timed
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import InvalidTypeError, LancekitError, RowOutOfRangeError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

# ---- `LazyDict`: a dictionary whose items are loaded on first access


class _Unread:
    """A placeholder for a value that is not loaded yet."""

    def __repr__(self) -> str:
        return "<not read yet: use dict(version), or ds.versions().to_polars()>"


class LazyDict(dict[str, Any]):
    """A dictionary that loads its items by `_items` on first access.

    Libraries that read a dictionary's memory without its methods (the conversions of Arrow and
    Polars) find placeholders before the first access.  Pass ``dict(it)`` to them.
    """

    _loaded = False

    def __init__(self, keys: Iterable[str]) -> None:
        # without keys in memory, C code treats a dictionary as empty
        super().__init__(dict.fromkeys(keys, _Unread()))

    def _items(self) -> dict[str, object]:
        """Load the items of the dictionary."""
        raise NotImplementedError

    def _load(self) -> None:
        if not self._loaded:
            dict.update(self, self._items())
            self._loaded = True

    def __eq__(self, other: object) -> bool:
        for one in (self, other):
            if isinstance(one, LazyDict):
                one._load()
        return bool(dict.__eq__(self, other)) if isinstance(other, dict) else NotImplemented

    def __ne__(self, other: object) -> bool:
        same = self.__eq__(other)
        return same if same is NotImplemented else not same

    __hash__ = None


class _AfterLoading:
    """A dictionary method that first loads the items; it stays a bound method of the dictionary."""

    def __init__(self, name: str) -> None:
        self._method = getattr(dict, name)

    def __get__(self, it: LazyDict | None, owner: type | None = None) -> Callable[..., object]:
        if it is not None:
            it._load()
        bound: Callable[..., object] = self._method.__get__(it, owner)
        return bound


for _name in (
    *("__contains__", "__delitem__", "__getitem__", "__ior__", "__iter__", "__len__", "__or__"),
    *("__reversed__", "__ror__", "__setitem__", "clear", "copy", "get", "items", "keys", "pop"),
    *("popitem", "setdefault", "update", "values"),
):
    setattr(LazyDict, _name, _AfterLoading(_name))

#: the columns of a history as a table, and the types of all but text columns
_COLUMNS = ("version", "timestamp", "operation", "num_rows", "message", "writer")
_TYPES = {"version": pa.int64(), "timestamp": pa.timestamp("us", "UTC"), "num_rows": pa.int64()}
#: the number of versions to read together on a slow store
_READ_TOGETHER = 25


@dataclass(frozen=True, kw_only=True, slots=True)
class _Facts:
    """The data of a version's manifest and transaction."""

    timestamp: datetime
    operation: str | None
    message: str | None
    writer: str | None
    read_version: int | None
    provenance: Provenance | None
    num_rows: int
    num_fragments: int
    num_data_files: int
    num_deletion_files: int
    num_deleted_rows: int
    num_columns: int
    total_bytes: int
    rows: tuple[int, ...] | None = None
    rewritten: int = 0
    files: tuple[int, int] | None = None


class Version(Displayed, LazyDict):
    """A version: its commit, time and writer.  Only its number is known without reading.

    The manifest is read when another property is first used.  A version is also pylance's
    dictionary, with the same values: ``version["timestamp"]`` is local time without a zone, while
    ``version.timestamp`` has the zone UTC.
    """

    def __init__(self, version: int, branch: str, load: Callable[[], _Facts]) -> None:
        super().__init__(("version", "timestamp", "metadata"))
        dict.__setitem__(self, "version", version)
        self.version = version
        self.branch = branch
        self._facts_of = load

    @cached_property
    def _facts(self) -> _Facts:
        return self._facts_of()

    @property
    def timestamp(self) -> datetime:
        """The commit time, with zone UTC."""
        return self._facts.timestamp

    @property
    def operation(self) -> str | None:
        """The name of the transaction's operation, as in ``lance.LanceOperation``: ``"Append"``.

        The commit that creates a dataset is an ``"Overwrite"``, which cards and pictures call
        *create*.  ``None`` if the commit recorded no transaction.
        """
        return self._facts.operation

    @property
    def message(self) -> str | None:
        """The commit message."""
        return self._facts.message

    @property
    def writer(self) -> str | None:
        """The library that wrote the version, and its release."""
        return self._facts.writer

    @property
    def read_version(self) -> int | None:
        """The version that the change is based on."""
        return self._facts.read_version

    @property
    def provenance(self) -> Provenance | None:
        """The origin (cell, script, user), if `options.provenance` recorded it."""
        return self._facts.provenance

    def source(self) -> str | None:
        """Return the source text of the cell that wrote the version, if it was recorded.

        Credentials are removed.  Text is cut at 8 KiB; ``provenance.cut`` is its full length.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://source-example")
        >>> ds.versions()[-1].source() is None
        True
        """
        found = self.provenance
        return found.source or None if found else None

    @property
    def num_rows(self) -> int:
        """The number of rows, without deleted rows."""
        return self._facts.num_rows

    @property
    def num_fragments(self) -> int:
        """The number of fragments."""
        return self._facts.num_fragments

    @property
    def num_data_files(self) -> int:
        """The number of data files of the fragments."""
        return self._facts.num_data_files

    @property
    def num_deletion_files(self) -> int:
        """The number of fragments with deleted rows."""
        return self._facts.num_deletion_files

    @property
    def num_deleted_rows(self) -> int:
        """The number of deleted rows in the data files."""
        return self._facts.num_deleted_rows

    @property
    def num_columns(self) -> int:
        """The number of top-level columns."""
        return self._facts.num_columns

    @property
    def total_bytes(self) -> int:
        """The size of the data files in bytes, as far as the manifest records it."""
        return self._facts.total_bytes

    @property
    def metadata(self) -> dict[str, str]:
        """The summary of pylance, under its names, as strings."""
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

    def __lt__(self, other: Version) -> bool:
        return self.version < other.version

    def __getitem__(self, key: str) -> Any:
        return self.version if key == "version" else super().__getitem__(key)

    def _items(self) -> dict[str, object]:
        local = _local(self.timestamp)
        return {"version": self.version, "timestamp": local, "metadata": self.metadata}

    def __reduce__(self) -> tuple[object, ...]:
        return Version, (self.version, self.branch, partial(_same, self._facts))

    def _plain(self) -> str:
        return f"{self.branch}:{self.version}"


def _same(facts: _Facts) -> _Facts:
    return facts


def _local(moment: datetime) -> datetime:
    """Return local time without a zone, or UTC if local time is out of range."""
    with suppress(OverflowError, ValueError, OSError):
        moment = moment.astimezone()
    return moment.replace(tzinfo=None)


def describe_version(snapshot: Snapshot) -> Version:
    """Return the `Version` of a loaded snapshot."""
    name = snapshot.location.branch or MAIN
    return Version(snapshot.manifest.version, name, partial(_facts_of, snapshot))


def _facts_of(snapshot: Snapshot) -> _Facts:
    manifest, transaction = snapshot.manifest, snapshot.transaction_summary
    totals = manifest.totals()
    return _Facts(
        timestamp=manifest.timestamp,
        operation=transaction.operation if transaction else None,
        message=transaction.message if transaction else None,
        writer=str(manifest.writer) if manifest.writer else None,
        read_version=transaction.read_version if transaction else None,
        provenance=transaction.provenance if transaction else None,
        num_rows=totals.rows,
        num_fragments=len(manifest.fragments),
        num_data_files=totals.data_files,
        num_deletion_files=totals.deletion_files,
        num_deleted_rows=totals.deleted_rows,
        num_columns=len(manifest.schema.fields),
        total_bytes=totals.bytes,
        rows=transaction.rows if transaction else None,
        rewritten=transaction.rewritten if transaction else 0,
        files=transaction.files if transaction else None,
    )


class _Loader:
    """Reads the versions of a branch, each once."""

    def __init__(self, location: BranchLocation, naming: ManifestNaming) -> None:
        self._location = location
        self._naming = naming
        self._known: dict[int, _Facts] = {}

    def get(self, number: int, page: Sequence[int] = ()) -> _Facts:
        """Return a version's data; on a slow store, also load the versions of its page.

        A local disk is not slow.
        """
        if number not in self._known:
            _, slow = timed(self._read, number)
            if page and slow:
                at_once(self._try, [other for other in page if other not in self._known])
        return self._known[number]

    def _try(self, number: int) -> None:
        with suppress(LancekitError):  # raised later, when the version is used
            self._read(number)

    def _read(self, number: int) -> None:
        self._known[number] = _facts_of(load_snapshot(self._location, number, self._naming))


@hinting_operators("__delitem__ __setitem__ __enter__ __exit__")
@checked_methods
class History(Displayed, Sequence[Version]):
    """The versions of a branch, oldest first; a slice is a history, too.

    Only the numbers of versions are known without reading their manifests.

    Examples
    --------
    >>> import lancekit as lk, pyarrow as pa
    >>> ds = lk.write_dataset(pa.table({"x": [1]}), "memory://history-example")
    >>> [v["version"] for v in ds.versions()]
    [1]
    """

    def __init__(self, location: BranchLocation, listing: VersionListing | None = None) -> None:
        listing = listing or list_versions(location)
        self._location = location
        self._all = self._numbers = listing.versions
        self._loader = _Loader(location, listing.naming)

    @property
    def tags(self) -> Tags[Self]:
        """The dataset's tags."""
        return Tags(self)

    @property
    def version(self) -> int:
        """The number of the newest version."""
        return self._all[-1]

    @property
    def branch(self) -> str:
        """The name of the branch; ``main`` for the main branch."""
        return self._location.name

    @property
    def numbers(self) -> tuple[int, ...]:
        """The version numbers, which need no reading."""
        return self._numbers

    @property
    def whole(self) -> History:
        """The history that this slice is a part of, or the history itself."""
        part = copy(self)
        part._numbers = self._all
        return part

    @overload
    def __getitem__(self, index: int) -> Version: ...
    @overload
    def __getitem__(self, index: slice) -> History: ...
    def __getitem__(self, index: int | slice | str | list[str]) -> Version | History:
        if isinstance(index, slice):
            part = copy(self)
            part._numbers = self._numbers[index]
            return part
        if not isinstance(index, int | np.integer):
            asked = f"ds.checkout_version({index!r}) for a tag"
            raise InvalidTypeError(
                f"Versions have positions, not names, got {index!r}.",
                hint=f"Use {'' if isinstance(index, list) else f'{asked}, or '}ds.versions()"
                f".to_pandas()[{index!r}].",
            )
        try:
            return self._version(self._numbers[index])
        except IndexError:
            raise RowOutOfRangeError(
                f"There is no version at position {index}: the history has {len(self)}.",
                hint=f"Use ds.checkout_version({index}) for the version of this number.",
                version=index,
            ) from None

    def __contains__(self, version: object) -> bool:
        return version in self._numbers if isinstance(version, int) else version in list(self)

    def __iter__(self) -> Iterator[Version]:
        for start in range(0, len(self), _READ_TOGETHER):
            page = self._numbers[start : start + _READ_TOGETHER]
            for number in page:
                yield self._version(number, page)

    def __len__(self) -> int:
        return len(self._numbers)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, History):
            return (self._location, self._numbers) == (other._location, other._numbers)
        return isinstance(other, Sequence) and list(self) == list(other)

    # unhashable, because it equals a list
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def row_change(self, version: Version) -> int | None:
        """Return the difference in rows between a version and the previous one of its branch.

        A branch or clone begins with existing rows, which is no change.  ``None`` if the previous
        version was cleaned up.
        """
        place = bisect_left(self._all, version.version)
        if version.operation == "Clone":
            return 0
        if place > 0:
            return version.num_rows - self._loader.get(self._all[place - 1]).num_rows
        return version.num_rows if version.version == 1 else None

    def to_table(self) -> pa.Table:
        """Return the versions as rows, oldest first, with their operation, message and writer.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://history-table-example")
        >>> ds.versions().to_table().select(["version", "operation", "num_rows"]).to_pylist()
        [{'version': 1, 'operation': 'Overwrite', 'num_rows': 1}]
        """
        rows = [{name: getattr(one, name) for name in _COLUMNS} for one in self]
        schema = pa.schema([(name, _TYPES.get(name, pa.string())) for name in _COLUMNS])
        return pa.Table.from_pylist(rows, schema)

    def to_pandas(self) -> pd.DataFrame:
        """Return the versions as rows of a pandas DataFrame, with the columns of `to_table`."""
        return self.to_table().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Return the versions as rows of a Polars DataFrame, with the columns of `to_table`."""
        from lancekit._pipeline.frames import polars_frame

        return polars_frame(self.to_table())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_table().__arrow_c_stream__(requested_schema)

    def _version(self, number: int, page: Sequence[int] = ()) -> Version:
        return Version(number, self.branch, partial(self._loader.get, number, page))

    def _plain(self) -> str:
        return f"{plural(len(self), 'version')} of {self.branch}"
