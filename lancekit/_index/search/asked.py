"""How each kind of scalar index is asked, and what is read of it before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lancekit._index.kinds import BITMAP, BLOOM_FILTER, BTREE, LABEL_LIST, NGRAM, ZONE_MAP

if TYPE_CHECKING:
    from lancekit._index.search.row_sets import Rows
    from lancekit._index.segment import Segment

__all__ = ["ASKED", "Asked"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What can be done with segments of a kind, and in which modules that is.

    The modules are loaded when an index of the kind is first asked.
    """

    module: str
    loader: tuple[str, str]

    def search(self) -> Callable[..., Rows | None]:
        """Return what gives the rows of a segment for a question; ``None`` if it does not pay."""
        return _function(self.module, "search")

    def load(self) -> Callable[[Segment], Any]:
        """Return what remembers of a segment what every question needs."""
        return _function(*self.loader)


def _function(module: str, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


_BITMAP = "lancekit._index.search.bitmap"
_BLOOM = "lancekit._index.search.bloom"
_BTREE = "lancekit._index.search.btree"
_LABEL_LIST = "lancekit._index.search.label_list"
_NGRAM = "lancekit._index.search.ngram"
_ZONE_MAP = "lancekit._index.search.zonemap"

#: by the names of kinds
ASKED: Mapping[str, Asked] = {
    BTREE.name: Asked(_BTREE, (_BTREE, "load")),
    BITMAP.name: Asked(_BITMAP, (_BITMAP, "load")),
    ZONE_MAP.name: Asked(_ZONE_MAP, (_ZONE_MAP, "load")),
    BLOOM_FILTER.name: Asked(_BLOOM, (_BLOOM, "load")),
    LABEL_LIST.name: Asked(_LABEL_LIST, (_BITMAP, "keys_of")),
    NGRAM.name: Asked(_NGRAM, (_NGRAM, "load")),
}
