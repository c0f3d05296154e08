"""A door: pylance's `vector`, which is `lancekit.api.vectors`."""

from lancekit.api.vectors import (
    vec_to_table,
)

__all__ = [
    "vec_to_table",
]
