"""Which fragments have data files of some names, without an object per fragment."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from lancekit.format.batch_parse import LENGTH, Offsets, inside, joined, walk

__all__ = ["places_with_files"]

_FILES = 2
_PATH = 1


def places_with_files(encoded: Sequence[bytes], paths: Collection[str]) -> Offsets:
    """Return the places of the encoded fragments that have a data file of one of the names.

    Raises
    ------
    CorruptFileError
        A message is damaged.
    """
    wanted: dict[int, list[bytes]] = {}
    for path in map(str.encode, paths):
        if path:
            wanted.setdefault(len(path), []).append(path)
    found = [np.empty(0, np.int64)]
    messages = joined(encoded)
    for fields in walk(messages):
        files = fields.where(_FILES, LENGTH)
        for inner in walk(inside(messages, files)):
            named = inner.where(_PATH, LENGTH)
            for length, some in wanted.items():
                chosen = np.flatnonzero(named.value == length)
                letters = messages.data[named.start[chosen, None] + np.arange(length)]
                names = np.ascontiguousarray(letters).view(f"S{length}").ravel()
                hits = chosen[np.isin(names, some)]
                found.append(files.message[named.message[hits]])
    return np.unique(np.concatenate(found))
