"""The part of a handle that merges rows."""

from __future__ import annotations

from collections.abc import Iterable

from lancekit.api._handle import Handle
from lancekit.api.merge_builder import MergeInsertBuilder
from lancekit.api.pylance.arguments import check_names
from lancekit.checked import checked_methods
from lancekit.errors import InvalidArgumentError
from lancekit.format.paths import find_field

__all__ = ["Merging"]


@checked_methods
class Merging(Handle):
    """Merge-inserts."""

    def merge_insert(
        self,
        on: str | Iterable[str] | None = None,
        *,
        dedupe: str | None = None,
        dedupe_by: str | None = None,
    ) -> MergeInsertBuilder:
        """Start a merge-insert on key columns, the primary key by default.

        A path such as ``s.id`` is a key inside a struct.  Of several source rows of one key
        ``dedupe`` keeps the ``"first"`` or the ``"last"``, ``dedupe_by`` that with the largest
        value of a column; else they are refused.

        Raises
        ------
        ColumnNotFoundError
            A key column is not in the schema.
        InvalidArgumentError
            No column was named, and the dataset has no primary key.
        """
        schema = self._snapshot.manifest.schema
        names = check_names("on", on)
        names = names or tuple(f.name for f in schema.primary_key)
        if not names:
            raise InvalidArgumentError(
                "A merge-insert needs key columns, and the dataset has no primary key.",
                hint='Name them: merge_insert(["id"]).',
            )
        for name in names:
            find_field(schema, name)
        builder = MergeInsertBuilder(self, names)
        if dedupe is None and dedupe_by is None:
            return builder
        return builder.dedupe(dedupe, by=dedupe_by)
