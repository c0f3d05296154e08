"""What a handle tells of its version without reading a data file."""

from __future__ import annotations

import pyarrow as pa
from pyroaring import BitMap

from lancekit.checked import checked_methods
from lancekit.commit.snapshot import Snapshot
from lancekit.format.manifest import BasePath
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
        names = {f.id: f.name for f in self._snapshot.manifest.schema.walk()}
        return {
            index.name: tuple(names.get(id_, f"field {id_}") for id_ in index.fields)
            for index in self._snapshot.indices
            if not index.is_system
        }

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
