"""What a commit says of the keys that it brings in, so that concurrent ones see each other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from lancekit.format.key_filter import KeyFilter, choose_filter
from lancekit.format.schema import LanceField, LanceSchema

__all__ = ["key_filter", "key_paths", "paths_in_key"]


def key_paths(schema: LanceSchema) -> tuple[tuple[str, ...], ...]:
    """Return the paths of the columns of the primary key, in its order."""
    key = tuple(path for top in schema.fields for path in paths_in_key(top))
    return tuple(path for path, _ in sorted(key, key=lambda found: found[1]))


def paths_in_key(
    field: LanceField, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the paths of key columns in a field, each with its place in the key."""
    path = (*above, field.name)
    if field.key_position is not None:
        yield path, field.key_position
    for child in field.children:
        yield from paths_in_key(child, path)


def key_filter(schema: LanceSchema, hashes: npt.NDArray[np.uint64] | None) -> KeyFilter | None:
    """Return the filter of the hashes of inserted keys; ``None`` if nothing is guarded."""
    if hashes is None:
        return None
    fields = schema.primary_key
    types = [f.to_arrow().type for f in fields]
    return choose_filter([f.id for f in fields], types, hashes)
