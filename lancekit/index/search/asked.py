"""How each kind of scalar index is asked, and what is read of it before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lancekit.index.kinds import BITMAP, BLOOM_FILTER, BTREE, LABEL_LIST, NGRAM, ZONE_MAP
from lancekit.index.search import bitmap, bloom, btree, label_list, ngram, zonemap
from lancekit.index.search.row_sets import Rows
from lancekit.index.segment import Segment

__all__ = ["ASKED", "Asked"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What can be done with segments of a kind.

    Attributes
    ----------
    search
        Returns the rows of a segment for a question; ``None`` if it does not pay to ask.
    load
        Remembers what of a segment every question needs.
    """

    search: Callable[..., Rows | None]
    load: Callable[[Segment], Any]


#: by the names of kinds
ASKED: Mapping[str, Asked] = {
    BTREE.name: Asked(btree.search, btree.load),
    BITMAP.name: Asked(bitmap.search, bitmap.load),
    ZONE_MAP.name: Asked(zonemap.search, zonemap.load),
    BLOOM_FILTER.name: Asked(bloom.search, bloom.load),
    LABEL_LIST.name: Asked(label_list.search, bitmap.keys_of),
    NGRAM.name: Asked(ngram.search, ngram.load),
}
