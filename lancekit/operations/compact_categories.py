"""Fragments that stay apart: no key could tell all values of their dictionaries apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from lancekit.commit.snapshot import Snapshot
from lancekit.file.categories import Categories
from lancekit.format.fragment import Fragment
from lancekit.scan.scanner import ScanRequest, plan_columns, scan_fragment
from lancekit.scan.sources import fragment_sources

__all__ = ["Apart", "kept_apart"]

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

    def batches(fragment: Fragment) -> Iterator[pa.RecordBatch]:
        for table in scan_fragment(sources[fragment.id], request):
            yield from table.to_batches()

    def takes(seen: Categories, fragment: Fragment) -> bool:
        return all(seen.add(batch.column) is None for batch in batches(fragment))

    def apart(fragments: Sequence[Fragment]) -> Iterator[tuple[Fragment, ...]]:
        seen = Categories(narrow.to_arrow())
        group: list[Fragment] = []
        for fragment in fragments:
            if not takes(seen, fragment):
                if group:
                    yield tuple(group)
                seen, group = Categories(narrow.to_arrow()), []
                if not takes(seen, fragment):  # on its own, too
                    yield (fragment,)
                    seen = Categories(narrow.to_arrow())
                    continue
            group.append(fragment)
        if group:
            yield tuple(group)

    return apart
