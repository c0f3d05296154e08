"""Fragments that stay apart: no key could tell all values of their dictionaries apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

from lancekit.file.columns.categories import Categories
from lancekit.format.fragment import Fragment
from lancekit.scan.fragment_rows import ScanRequest, scan_fragment
from lancekit.scan.fragments.source import fragment_sources
from lancekit.scan.outputs import plan_columns
from lancekit.versions.snapshot import Snapshot

__all__ = ["Apart", "kept_apart"]

#: of so many fragments values are kept, should it be asked again
_REMEMBERED = 1024

#: cuts a run of fragments into those that may become one
Apart: TypeAlias = Callable[[Sequence[Fragment]], Iterable[tuple[Fragment, ...]]]


def kept_apart(snapshot: Snapshot) -> Apart:
    """Return what cuts a run of a version's fragments where their values would be too many.

    Only tables that have dictionaries with small keys are read for it, and of those no other
    column.
    """
    schema = snapshot.manifest.schema
    arrow = schema.to_arrow()
    places = sorted(Categories(arrow).columns)
    if not places:
        return lambda fragments: [tuple(fragments)]
    narrow = replace(schema, fields=tuple(schema.fields[place] for place in places))
    request = ScanRequest(outputs=plan_columns(narrow, None))
    sources = {source.fragment.id: source for source in fragment_sources(snapshot, narrow)}

    @lru_cache(maxsize=_REMEMBERED)
    def of(number: int) -> Categories | None:
        """Return the values of a fragment; ``None`` if they are too many even alone."""
        found = Categories(narrow.to_arrow())
        for table in scan_fragment(sources[number], request):
            if any(found.add(batch.column) is not None for batch in table.to_batches()):
                return None
        return found

    def apart(fragments: Sequence[Fragment]) -> Iterator[tuple[Fragment, ...]]:
        seen = Categories(narrow.to_arrow())
        group: list[Fragment] = []
        for fragment in fragments:
            own = of(fragment.id)
            if own is None or seen.join(own) is not None:
                if group:
                    yield tuple(group)
                seen, group = Categories(narrow.to_arrow()), []
                if own is None:
                    yield (fragment,)
                    continue
                seen.join(own)
            group.append(fragment)
        if group:
            yield tuple(group)

    return apart
