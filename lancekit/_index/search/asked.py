"""How each kind of scalar index is asked, and what is read of it before."""

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
class Asked:
    """What can be done with segments of a kind: functions by module and name.

    The modules are loaded when an index of the kind is first asked.
    """

    searching: tuple[str, str]
    loading: tuple[str, str]

    def search(self) -> Callable[..., Rows | None]:
        """Return what gives the rows of a segment for a question; ``None`` if it does not pay."""
        return _function(*self.searching)

    def load(self) -> Callable[[Segment], object]:
        """Return what remembers of a segment what every question needs."""
        return _function(*self.loading)


def _function(module: str, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


_BTREE = "lancekit._index.search.btree"
_POSTINGS = "lancekit._index.search.postings"
_ZONES = "lancekit._index.search.zones"

#: by the names of kinds
ASKED: Mapping[str, Asked] = {
    BTREE.name: Asked((_BTREE, "search"), (_BTREE, "load")),
    BITMAP.name: Asked((_POSTINGS, "search_bitmap"), (_POSTINGS, "load_bitmap")),
    ZONE_MAP.name: Asked((_ZONES, "search_zone_map"), (_ZONES, "load_zone_map")),
    BLOOM_FILTER.name: Asked((_ZONES, "search_bloom"), (_ZONES, "load_bloom")),
    LABEL_LIST.name: Asked((_POSTINGS, "search_labels"), (_POSTINGS, "load_labels")),
    NGRAM.name: Asked((_POSTINGS, "search_ngrams"), (_POSTINGS, "load_ngrams")),
}
