"""The index registry: for each kind of scalar index, how to load and search its segments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lancekit._index.kinds import BITMAP, BLOOM_FILTER, BTREE, LABEL_LIST, NGRAM, ZONE_MAP

if TYPE_CHECKING:
    from lancekit._index.row_sets import Rows
    from lancekit._index.segment import Segment


@dataclass(frozen=True, slots=True)
class SegmentFunctions:
    """The functions that load and search segments of one kind, by module and name.

    The modules are imported when an index of the kind is first searched.
    """

    searching: tuple[str, str]
    loading: tuple[str, str]

    def search(self) -> Callable[..., Rows | None]:
        """Return the function that finds rows of a segment, or ``None`` if a scan is cheaper."""
        return _function(*self.searching)

    def load(self) -> Callable[[Segment], object]:
        """Return the function that loads the part of a segment that every search needs."""
        return _function(*self.loading)


def _function(module: str, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


_BTREE = "lancekit._index.search.btree"
_POSTINGS = "lancekit._index.search.postings"
_ZONES = "lancekit._index.search.zones"

#: by the name of the index kind
REGISTRY: Mapping[str, SegmentFunctions] = {
    BTREE.name: SegmentFunctions((_BTREE, "search"), (_BTREE, "load")),
    BITMAP.name: SegmentFunctions((_POSTINGS, "search_bitmap"), (_POSTINGS, "load_bitmap")),
    ZONE_MAP.name: SegmentFunctions((_ZONES, "search_zone_map"), (_ZONES, "load_zone_map")),
    BLOOM_FILTER.name: SegmentFunctions((_ZONES, "search_bloom"), (_ZONES, "load_bloom")),
    LABEL_LIST.name: SegmentFunctions((_POSTINGS, "search_labels"), (_POSTINGS, "load_labels")),
    NGRAM.name: SegmentFunctions((_POSTINGS, "search_ngrams"), (_POSTINGS, "load_ngrams")),
}
