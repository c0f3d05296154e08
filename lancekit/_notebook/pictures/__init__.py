"""Pictures of datasets: metadata drawn by matplotlib or as SVG, with an equivalent text.

`PICTURES` maps each kind to a function that takes a handle (or a diff) and returns a `Picture`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lancekit._notebook.pictures.columns import columns_picture
from lancekit._notebook.pictures.fragments import fragments_picture
from lancekit._notebook.pictures.graph import graph_picture
from lancekit._notebook.pictures.history import diff_picture, history_picture
from lancekit._notebook.pictures.keys import key_filters_picture
from lancekit._notebook.pictures.mem_wal import mem_wal_picture
from lancekit._picture import Picture

PICTURES: Mapping[str, Callable[..., Picture]] = {
    "history": history_picture,
    "graph": graph_picture,
    "fragments": fragments_picture,
    "key_filters": key_filters_picture,
    "columns": columns_picture,
    "mem_wal": mem_wal_picture,
    "diff": diff_picture,
}


def draw(kind: str, subject: object, **how: object) -> Picture:
    """Return the picture of a handle or a diff; ``kind`` is a key of `PICTURES`."""
    return PICTURES[kind](subject, **how)
