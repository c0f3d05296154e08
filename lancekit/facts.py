"""What a handle tells of its version without reading a data file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

from lancekit.checked import checked_methods
from lancekit.commit.snapshot import Snapshot
from lancekit.format.manifest import BasePath
from lancekit.format.paths import paths_by_id
from lancekit.schema import LanceSchema

__all__ = ["Facts"]


@checked_methods
class Facts:
    """The part of a handle that describes its version."""

    _snapshot: Snapshot
    _uri: str

    @property
    def uri(self) -> str:
        """Where the dataset is, as it was opened."""
        return self._uri

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of this version."""
        return self._snapshot.row_schema

    @property
    def lance_schema(self) -> LanceSchema:
        """The schema with field ids."""
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
        """Describe the segments of the version's indices, which other libraries made.

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
        return [
            {
                "name": index.name,
                "type": index.kind,
                "uuid": str(index.uuid),
                "fields": self._paths(index.fields),
                "version": index.dataset_version,
                "fragment_ids": BitMap(index.fragment_ids or ()),
                "base_id": index.base_id,
            }
            for index in sorted(self._snapshot.indices, key=lambda index: index.name)
        ]

    def _paths(self, ids: Iterable[int]) -> list[str]:
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
