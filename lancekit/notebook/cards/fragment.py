"""The card of a fragment."""

from __future__ import annotations

from datetime import datetime

from lancekit.api.fragment import LanceFragment
from lancekit.notebook.cards.common import facts, first_of, table
from lancekit.notebook.render.models import Card, Column, Row
from lancekit.notebook.render.words import clean, count, plural, size
from lancekit.options import options

__all__ = ["fragment_card"]

_FILES = (Column("file"), Column("fields", numeric=True), Column("size", numeric=True))


def fragment_card(fragment: LanceFragment, _now: datetime) -> Card:
    found, most = fragment.metadata, options.display_rows
    deleted = (found.physical_rows or 0) - found.num_rows
    return Card(
        kind="Fragment",
        title=f"fragment {count(found.id)}",
        headline=(plural(found.num_rows, "row"), plural(len(found.files), "data file")),
        facts=facts(("deleted", plural(deleted, "row") if deleted > 0 else "")),
        tables=(
            table(
                caption="Data files",
                columns=_FILES,
                rows=tuple(
                    Row(
                        (
                            clean(file.path),
                            count(len(file.fields)),
                            size(file.file_size_bytes) if file.file_size_bytes else "",
                        )
                    )
                    for file in found.files[:most]
                ),
                note=first_of(most, len(found.files)),
            ),
        ),
    )
