"""`LanceSchema` and `LanceField`: a schema with the ids of its fields, as pylance names its parts.

Names follow ``lance.schema``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from lancekit._checked import checked_methods
from lancekit._format.extensions import resolved_schema
from lancekit._format.paths import parse_path
from lancekit._format.schema import LanceField as StoredField
from lancekit._format.schema import LanceSchema as StoredSchema
from lancekit._format.schema_json import json_to_schema, schema_to_json
from lancekit._legible import clean

__all__ = ["LanceField", "LanceSchema", "json_to_schema", "schema_to_json"]

_CLUSTERING_POSITION = "lance-schema:unenforced-clustering-key:position"


@dataclass(frozen=True, slots=True)
class LanceField:
    """A field of a schema: a column, or a part of a nested one."""

    _stored: StoredField

    def __repr__(self) -> str:
        return clean(f"LanceField(id={self.id()}, {self.to_arrow()})")

    def id(self) -> int:
        """Return the field's id, which it keeps for good."""
        return self._stored.id

    def name(self) -> str:
        """Return the field's own name."""
        return self._stored.name

    def children(self) -> list[LanceField]:
        """Return the fields that a nested one is made of."""
        return [LanceField(child) for child in self._stored.children]

    @property
    def metadata(self) -> dict[str, str]:
        """The field's key-value metadata."""
        return dict(self._stored.metadata)

    def to_arrow(self) -> pa.Field:
        """Return the Arrow field, with its metadata."""
        return self._stored.to_arrow()

    def is_unenforced_primary_key(self) -> bool:
        """Return whether the field is a part of the primary key."""
        return self._stored.key_position is not None

    def unenforced_primary_key_position(self) -> int | None:
        """Return the field's place in the key, from 1; ``None`` where it follows the schema's."""
        return self._stored.key_position or None

    def is_unenforced_clustering_key(self) -> bool:
        """Return whether the field is a part of the clustering key."""
        return self.unenforced_clustering_key_position() is not None

    def unenforced_clustering_key_position(self) -> int | None:
        """Return the field's place in the clustering key, from 1."""
        position = self._stored.metadata.get(_CLUSTERING_POSITION, "")
        return int(position) if position.isdecimal() else None


@checked_methods
@dataclass(frozen=True, slots=True)
class LanceSchema:
    """A schema with field ids; the operations that take an Arrow schema take it too.

    Examples
    --------
    >>> import pyarrow as pa
    >>> schema = LanceSchema.from_pyarrow(pa.schema({"a": pa.int64(), "b": pa.string()}))
    >>> [(field.name(), field.id()) for field in schema.fields()]
    [('a', 0), ('b', 1)]
    """

    __lance_schema__: StoredSchema

    def __repr__(self) -> str:
        return f"LanceSchema({', '.join(map(repr, self.fields()))})"

    @staticmethod
    def from_pyarrow(schema: pa.Schema) -> LanceSchema:
        """Give every field an id, depth-first from 0."""
        return LanceSchema(StoredSchema.from_arrow(schema))

    def to_pyarrow(self) -> pa.Schema:
        """Return the Arrow schema, with its metadata."""
        return resolved_schema(self.__lance_schema__.to_arrow())

    @property
    def metadata(self) -> Mapping[str, str]:
        """The schema's key-value metadata."""
        return dict(self.__lance_schema__.metadata)

    def fields(self) -> list[LanceField]:
        """Return the top-level fields."""
        return _views(self.__lance_schema__.fields)

    def field(self, name: str) -> LanceField | None:
        """Return the field at a path such as ``"s.x"``, ``None`` if there is none."""
        return self._found(name, str)

    def field_case_insensitive(self, name: str) -> LanceField | None:
        """Return the field at a path, whatever the case of its letters, ``None`` if there is none.

        One whose letters are the same comes first.
        """
        return self._found(name, str) or self._found(name, str.lower)

    def _found(self, path: str, spelling: Callable[[str], str]) -> LanceField | None:
        fields, found = self.fields(), None
        for part in map(spelling, parse_path(path)):
            found = next((field for field in fields if spelling(field.name()) == part), None)
            if found is None:
                return None
            fields = found.children()
        return found

    def unenforced_primary_key(self) -> list[LanceField]:
        """Return the fields of the primary key, in its order."""
        return _views(self.__lance_schema__.primary_key)

    def unenforced_clustering_key(self) -> list[LanceField]:
        """Return the fields of the clustering key, in its order."""
        placed = [
            (place, field)
            for field in _views(self.__lance_schema__.walk())
            if (place := field.unenforced_clustering_key_position()) is not None
        ]
        return [field for _, field in sorted(placed, key=lambda pair: pair[0])]


def _views(fields: Iterable[StoredField]) -> list[LanceField]:
    return [LanceField(field) for field in fields]
