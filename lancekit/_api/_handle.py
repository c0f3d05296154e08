"""The base class of all parts of a dataset handle: its version, its properties, its moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import UUID

from pyroaring import BitMap

from lancekit._checked import checked_methods
from lancekit._format.manifest import BasePath
from lancekit._legible import warn
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import DatasetNotFoundError, InvalidArgumentError, ReadOnlyError
from lancekit.options import options

if TYPE_CHECKING:
    from lancekit._api.answer import Answer
    from lancekit._api.lance_schema import LanceSchema
    from lancekit._api.listed import Listed
    from lancekit._operations.index.describe import IndexDescription

T = TypeVar("T")


@checked_methods
class Handle:
    """A version of a dataset, the URI it was opened by, and whether the handle can move."""

    _uri: str
    _scan_defaults: dict[str, object]
    _snapshot: Snapshot
    _read_only: bool
    #: True if the user opened a version by its number, tag or time, and has not written to it
    _pinned: bool = False
    #: True if the last merge of shards stopped at rows that the table refuses; cards show it
    _merge_refused: bool = False

    @classmethod
    def _at(
        cls,
        snapshot: Snapshot,
        uri: str,
        defaults: Mapping[str, object],
        *,
        read_only: bool = False,
    ) -> Self:
        handle = cls.__new__(cls)
        handle._uri = uri
        handle._scan_defaults = dict(defaults)
        handle._snapshot = snapshot
        handle._read_only = read_only
        return handle

    def _other(self, snapshot: Snapshot, *, read_only: bool = False) -> Self:
        same_location = snapshot.location == self._location
        uri = self._uri if same_location else snapshot.location.uri
        return self._at(snapshot, uri, self._scan_defaults, read_only=read_only)

    def __reduce__(self) -> tuple[object, ...]:
        location = self._location
        state = (location, self._snapshot.version, self._uri, self._scan_defaults, self._read_only)
        return (_reopen, (type(self), *state, self._pinned))

    def __copy__(self) -> Self:
        found = self._other(self._snapshot, read_only=self._read_only)
        found._pinned = self._pinned
        return found

    @property
    def _location(self) -> BranchLocation:
        return self._snapshot.location

    def _move(self, change: Callable[[Snapshot], tuple[Snapshot, T]]) -> T:
        """Run a change on the handle's version, and move the handle to the resulting version."""
        self._check_movable()
        try:
            self._snapshot, result = change(self._snapshot)
        except DatasetNotFoundError as error:
            if error.context.get("uri") == self._location.root.uri:
                self._location.root.prune()  # the folders of new files, which are removed again
            raise
        return result

    def _done(self, call: str, change: Callable[[Snapshot], Snapshot], **given: object) -> Answer:
        """Run a change, move the handle, and return the answer of the call."""
        from lancekit._api.answer import answer

        before = self._snapshot
        self._move(lambda snapshot: (change(snapshot), None))
        return answer(call, before, self._snapshot, **given)

    def _check_movable(self) -> None:
        if self._read_only:
            raise ReadOnlyError(
                f"This handle is pinned to version {self._snapshot.version}.",
                hint=f"Open the dataset to write to it: {self._location.code}.",
                version=self._snapshot.version,
            )
        if self._pinned:
            self._check_newest()

    def _check_newest(self) -> None:
        """Warn, or raise, before a write by a handle at an old version; only once."""
        from lancekit._versions.listing import list_versions

        newest = list_versions(self._location).latest
        if newest > self.version:
            branch, refuses = self._location.name, options.pinned_writes == "error"
            done = "is refused" if refuses else f"goes on top of {branch}:{newest}"
            text = f"This handle is at {branch}:{self.version}, and the write {done}."
            hint = "Use ds.latest() to write there, or ds.create_branch('name') to write from here."
            if refuses:
                raise ReadOnlyError(text, hint=hint, version=self.version, newest=newest)
            warn(f"{text} {hint}")
        self._pinned = False

    def _check_shards(self, requested: bool | None = True) -> None:
        if requested and self._read_only:
            raise InvalidArgumentError(
                f"This handle is pinned to version {self.version}, which has no rows of shards.",
                hint=f"Read without shards, or open the dataset: {self._location.code}.",
                version=self.version,
            )

    @property
    def version(self) -> int:
        """The version number that the handle is at."""
        return self._snapshot.version

    @property
    def uri(self) -> str:
        """The path or URI that the dataset was opened by."""
        return self._uri

    @property
    def lance_schema(self) -> LanceSchema:
        """The schema with field ids."""
        from lancekit._api.lance_schema import LanceSchema

        return LanceSchema(self._snapshot.manifest.schema)

    @property
    def data_storage_version(self) -> str:
        """The file version of the dataset's data files, such as ``"2.2"``."""
        return self._snapshot.manifest.storage_version

    @property
    def max_field_id(self) -> int:
        """The highest field id in the schema and in the data files, which keep dropped fields."""
        return self._snapshot.manifest.max_field_id()

    @property
    def metadata(self) -> dict[str, str]:
        """The table's key-value metadata."""
        return dict(self._snapshot.manifest.table_metadata)

    @property
    def schema_metadata(self) -> dict[str, str]:
        """The schema's key-value metadata."""
        return dict(self._snapshot.manifest.schema.metadata)

    def config(self) -> dict[str, str]:
        """Return the table's config."""
        return dict(self._snapshot.manifest.config)

    @property
    def has_index(self) -> bool:
        """True if the version has an index, which can be internal, for example of a MemWAL."""
        return bool(self._snapshot.indices)

    @property
    def index_columns(self) -> dict[str, tuple[str, ...]]:
        """The columns of each index, by index name."""
        return {
            index.name: tuple(self._paths(index.fields))
            for index in self._snapshot.indices
            if not index.is_system
        }

    def list_indices(self) -> Listed[dict[str, Any]]:
        """Describe the segments of the version's indices.

        Returns
        -------
        Listed of dict
            ``name``, ``type``, ``uuid``, ``fields`` (column paths), ``version`` (the version that
            was indexed), ``fragment_ids`` (the fragments that were indexed, also removed ones) and
            ``base_id``; sorted by name.  ``.to_pandas()`` returns them as a frame.

        Examples
        --------
        >>> import lancekit as lk
        >>> lk.write_dataset({"x": [1]}, "memory://indices-example").list_indices()
        []
        """
        from lancekit._api.listed import Listed
        from lancekit._format.items import Numbers

        columns = ("name", "type", "uuid", "fields", "version", "fragment_ids", "base_id")
        found = [
            {
                "name": index.name,
                "type": index.kind,
                "uuid": str(index.uuid),
                "fields": self._paths(index.fields),
                "version": index.dataset_version,
                "fragment_ids": Numbers(index.fragment_ids or ()),
                "base_id": index.base_id,
            }
            for index in sorted(self._snapshot.indices, key=lambda index: index.name)
        ]
        return Listed(found, columns)

    def describe_indices(self) -> Listed[IndexDescription]:
        """Describe the version's indices, sorted by name, without reading files.

        ``.to_pandas()`` returns them as a frame.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://describe-example")
        >>> _ = ds.create_scalar_index("x", "BITMAP")
        >>> found = ds.describe_indices()[0]
        >>> found.name, found.index_type, found.field_names, found.num_rows_indexed
        ('x_idx', 'Bitmap', ('x',), 2)
        """
        from lancekit._api.listed import Listed
        from lancekit._operations.index.describe import describe_indices

        columns = ("name", "index_type", "field_names", "num_rows_indexed", "total_size_bytes")
        return Listed(describe_indices(self._snapshot), columns)

    def prewarm_index(
        self,
        name: str,
        *,
        with_position: bool = False,
        index_segments: Iterable[str | UUID] | None = None,
    ) -> Answer:
        """Load the parts of an index that searches need, so that the first search is not slower.

        B-tree pages are not loaded if they exceed the cache (`lancekit.options.cache_bytes`).
        Posting lists and vector codes are only loaded by searches.

        Parameters
        ----------
        name
            The name of the index.
        with_position
            An error if the index has no word positions; otherwise it changes nothing.
        index_segments
            The UUIDs of the segments to load; all by default.

        Returns
        -------
        Answer
            The change that was made.

        Raises
        ------
        IndexNotFoundError
            There is no index of this name, or it has no such segment.
        InvalidArgumentError
            ``with_position`` is True and the index has no word positions.
        FormatError
            A file of the index cannot be read.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": range(9)}, "memory://prewarm-example")
        >>> _ = ds.create_scalar_index("id", "BTREE")
        >>> ds.prewarm_index("id_idx")
        loaded 1 segment of index id_idx · main:2
        """
        from lancekit._api.answer import answer
        from lancekit._api.index_requests import parsed_uuid
        from lancekit._operations.index.vectors import prewarm_index

        uuids = None
        if index_segments is not None:
            uuids = [parsed_uuid(str(one), "index_segments") for one in index_segments]
        loaded = prewarm_index(self._snapshot, name, with_position=with_position, uuids=uuids)
        return answer("prewarm_index", self._snapshot, self._snapshot, name=name, segments=loaded)

    def index_statistics(self, index_name: str) -> dict[str, Any]:
        """Return the statistics of an index; an older name of ``ds.stats.index_stats``."""
        from lancekit._operations.index.describe import index_statistics

        return index_statistics(self._snapshot, index_name)

    def _paths(self, ids: Iterable[int]) -> list[str]:
        from lancekit._format.paths import paths_by_id

        paths = paths_by_id(self._snapshot.manifest.schema)
        return [paths.get(id_, f"field {id_}") for id_ in ids]

    @property
    def has_stable_row_ids(self) -> bool:
        """True if row ids survive updates and compaction."""
        return self._snapshot.manifest.has_stable_row_ids

    def base_paths(self) -> dict[int, BasePath]:
        """Return the version's base paths (further places of its files), by id."""
        return {base.id: base for base in self._snapshot.manifest.base_paths}

    def fragment_ids(self) -> BitMap:
        """Return the ids of the version's fragments."""
        return BitMap(f.id for f in self._snapshot.manifest.fragments)


def _reopen(
    kind: type[Handle],
    location: BranchLocation,
    version: int,
    uri: str,
    defaults: dict[str, object],
    read_only: bool,
    pinned: bool = False,
) -> Handle:
    found = kind._at(load_snapshot(location, version), uri, defaults, read_only=read_only)
    found._pinned = pinned
    return found
