"""How far indices cover what was merged of shards (docs/format/memwal.md, 7).

A reader that asks an index of the table may leave a generation out only if the index covers its
rows.  That is known of an index which covers the whole table when it is made or changed; else
nothing is said of it, and readers look at the generation as long as it is there.
"""

from __future__ import annotations

import uuid
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace

from pyroaring import BitMap

from lancekit.format.fragment import FragmentList
from lancekit.format.index import IndexMetadata
from lancekit.format.mem_wal.details import (
    IndexCatchUp,
    encode_details,
    parse_details,
)
from lancekit.format.mem_wal.names import mem_wal_entry
from lancekit.format.operation_parts import CompactedSsTable

__all__ = ["caught_up"]

Indices = tuple[IndexMetadata, ...]


def caught_up(before: Indices, after: Indices, live: FragmentList, version: int) -> Indices:
    """Return the indices of a version with what its entry of shards says of the others.

    Parameters
    ----------
    before, after
        Those of the version before, and of this one.
    live
        The fragments of this one.
    version
        Its number.
    """
    entry = mem_wal_entry(after)
    if entry is None:
        return after
    details = parse_details(entry.index_details)
    merged = tuple(CompactedSsTable(*mark) for mark in details.merged.items())
    known = {one.index_name: one for one in details.caught_up}
    old, new = _segments(before), _segments(after)
    found = []
    for name in sorted(new):
        if old.get(name) == new[name]:
            found += [known[name]] if name in known else []
        elif merged and _covers(after, name, live):
            found.append(IndexCatchUp(name, merged))
    if tuple(found) == details.caught_up:
        return after
    changed = replace(
        entry,
        uuid=uuid.uuid4(),  # readers cache by it
        dataset_version=version,
        index_details=encode_details(replace(details, caught_up=tuple(found))),
    )
    return tuple(changed if index is entry else index for index in after)


def _segments(indices: Iterable[IndexMetadata]) -> Mapping[str, set[Hashable]]:
    """Return what tells the states of each index apart: its segments, and what they cover."""
    found: dict[str, set[Hashable]] = {}
    for index in indices:
        if not index.is_system:
            covered = index.fragment_ids
            state = None if covered is None else covered.serialize()
            found.setdefault(index.name, set()).add((index.uuid, state))
    return found


def _covers(indices: Iterable[IndexMetadata], name: str, live: FragmentList) -> bool:
    own = (index.fragment_ids for index in indices if index.name == name)
    covered = BitMap.union(*(ids or BitMap() for ids in own))
    return bool(live) and BitMap(live.ids.tolist()) <= covered
