"""The indices of generations: of the kinds of the table's, and made with their settings.

See docs/format/memwal.md, 4.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from lancekit.format.index import IndexMetadata
from lancekit.format.mem_wal.details import details_of
from lancekit.format.schema import LanceField
from lancekit.index.build.builders import builder_of
from lancekit.index.build.files import delete_segment
from lancekit.index.build.read import OpenSegment
from lancekit.index.kinds import IndexKind, kept_up_as
from lancekit.operations.index.segments import IndexedField, read_rows, write_segment
from lancekit.versions.line import Line
from lancekit.versions.listing import latest_snapshot
from lancekit.versions.snapshot import Snapshot

__all__ = ["MaintainedIndices", "maintained"]

LOGGER = logging.getLogger(__name__)


def maintained(table: Snapshot) -> Iterator[tuple[IndexMetadata, IndexKind]]:
    """Yield which indices of a table its generations have, each by its newest segment.

    Of those that the table's entry names, or of all of them, those of a top-level column and of a
    kind that generations have.
    """
    details = details_of(table.indices)
    if details is None:
        return
    newest = {index.name: index for index in table.indices if not index.is_system}
    for name, index in newest.items():
        kind = kept_up_as(index)
        wanted = details.maintain_all or name in details.maintained
        if wanted and kind is not None and builder_of(kind).bare and len(index.fields) == 1:
            yield index, kind


@dataclass(frozen=True, slots=True)
class MaintainedIndices:
    """Makes the indices of a generation, as the newest version of its table has them.

    An index is made to find rows sooner, and rows are found without: one that cannot be made is
    left out, which is logged, and the generation is written.
    """

    table: Line

    def __call__(self, generation: Snapshot) -> tuple[IndexMetadata, ...]:
        """Write the files of the indices; return what the generation's manifest says of them."""
        try:
            table = latest_snapshot(self.table)
            wanted = list(maintained(table))
        except Exception as error:  # whatever it is, rows come first
            LOGGER.warning("a generation of %s has no indices: %s", self.table.uri, error)
            return ()
        columns = {field.id: field for field in generation.manifest.schema.fields}
        made = (
            _made(table, generation, index, kind, columns[index.fields[0]])
            for index, kind in wanted
            if index.fields[0] in columns
        )
        return tuple(index for index in made if index is not None)


def _made(
    table: Snapshot, generation: Snapshot, like: IndexMetadata, kind: IndexKind, field: LanceField
) -> IndexMetadata | None:
    """Make an index of a generation like one of its table; ``None`` if that cannot be done."""
    column = IndexedField(field=field, path=field.name, type=field.to_arrow().type)
    builder, new = builder_of(kind), uuid.uuid4()
    if builder.bare is None or not kind.fits(column.type):
        return None
    try:
        stored = OpenSegment.open(table.base_store(like.base_id), like, kind, column.type)
        (fragment,) = generation.manifest.fragments.ids.tolist()
        rows = read_rows(generation, column, kind, [fragment])
        content = builder.extended(builder.bare(stored), rows)
        return write_segment(generation, column, kind, like.name, content, [fragment], uuid=new)
    except Exception as error:  # whatever it is, rows come first
        delete_segment(generation.store, new)
        uri, name = table.line.uri, like.name
        LOGGER.warning("a generation of %s lacks the index %s: %s", uri, name, error)
        return None
