"""What every part of a handle stands on: its version, what that says of itself, how it moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pyroaring import BitMap

from lancekit._checked import checked_methods
from lancekit._format.manifest import BasePath
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import InvalidArgumentError, ReadOnlyError

if TYPE_CHECKING:
    from lancekit._api.lance_schema import LanceSchema

T = TypeVar("T")


@checked_methods
class Handle:
    """A version of a dataset, the name it was opened by, and whether it may move."""

    _uri: str
    _scan_defaults: dict[str, object]
    _snapshot: Snapshot
    _read_only: bool
    #: whether the last merge of shards stopped at rows that the table refuses, for cards
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
        return (_reopen, (type(self), *state))

    def __copy__(self) -> Self:
        return self._at(self._snapshot, self._uri, self._scan_defaults, read_only=self._read_only)

    @property
    def _location(self) -> BranchLocation:
        return self._snapshot.location

    def _move(self, change: Callable[[Snapshot], tuple[Snapshot, T]]) -> T:
        """Run a change on the version the handle is at, and move to the one that came of it."""
        self._check_movable()
        self._snapshot, result = change(self._snapshot)
        return result

    def _check_movable(self) -> None:
        if self._read_only:
            raise ReadOnlyError(
                f"This handle is pinned to version {self._snapshot.version}.",
                hint=f"Open the dataset to write to it: {self._location.code}.",
                version=self._snapshot.version,
            )

    def _check_shards(self, asked: bool | None = True) -> None:
        if asked and self._read_only:
            raise InvalidArgumentError(
                f"This handle is pinned to version {self.version}, in which no rows of shards are.",
                hint=f"Read it without them, or open the dataset: {self._location.code}.",
                version=self.version,
            )

    @property
    def version(self) -> int:
        """The version that the handle is at."""
        return self._snapshot.version

    @property
    def uri(self) -> str:
        """Where the dataset is, as it was opened."""
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
        """The highest id that a field has or, as far as data files still know it, had."""
        return self._snapshot.manifest.max_field_id()

    @property
    def metadata(self) -> dict[str, str]:
        """The table's own key-value metadata."""
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
        """Whether the version has indices."""
        return bool(self._snapshot.indices)

    @property
    def index_columns(self) -> dict[str, tuple[str, ...]]:
        """The columns of each index, by the index's name."""
        return {
            index.name: tuple(self._paths(index.fields))
            for index in self._snapshot.indices
            if not index.is_system
        }

    def list_indices(self) -> list[dict[str, Any]]:
        """Describe the segments of the version's indices.

        Returns
        -------
        list of dict
            ``name``, ``type``, ``uuid``, ``fields`` (paths of columns), ``version`` (that was
            indexed), ``fragment_ids`` (those that were indexed, gone ones included) and
            ``base_id``; by name.

        Examples
        --------
        >>> import lancekit as lk
        >>> lk.write_dataset({"x": [1]}, "memory://indices-example").list_indices()
        []
        """
        from lancekit._format.items import Numbers

        return [
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

    def _paths(self, ids: Iterable[int]) -> list[str]:
        from lancekit._format.paths import paths_by_id

        paths = paths_by_id(self._snapshot.manifest.schema)
        return [paths.get(id_, f"field {id_}") for id_ in ids]

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether row ids survive updates and compaction."""
        return self._snapshot.manifest.has_stable_row_ids

    def base_paths(self) -> dict[int, BasePath]:
        """Return the other places that the version's files lie in, by their ids."""
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
) -> Handle:
    return kind._at(load_snapshot(location, version), uri, defaults, read_only=read_only)
