"""Whether the rows of one write share their primary keys, before they are committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from lancekit.format.fragment import Fragment
from lancekit.format.paths import paths_by_id
from lancekit.legible import count, literals, warn
from lancekit.pipeline.join_files import new_sources
from lancekit.pipeline.keys.hash import known_rows
from lancekit.pipeline.keys.key_counter import KeyCounter, Repeated, key_words
from lancekit.pipeline.keys.repeated import repeated_in_write
from lancekit.pipeline.keys.source_keys import key_columns
from lancekit.pipeline.rows.write import WriteTask
from lancekit.scan.fragments.reader import FragmentReader

__all__ = ["KeyCheck", "check_new_keys"]

#: what duplicates among the primary keys of new rows are
KeyCheck = Literal["warn", "error", "ignore"]

#: rows of which the keys are read at a time
_STEP = 1 << 18
#: repeated keys that are looked at for an example
_LOOKED_AT = 16


def check_new_keys(task: WriteTask, fragments: Sequence[Fragment], check: KeyCheck) -> None:
    """Warn, or raise, if rows of new fragments share their primary key with each other.

    The key columns are read back from the files, so that rows of every engine are checked alike.
    Rows that the dataset has already are not looked at.

    Raises
    ------
    DuplicateKeysError
        They do, and ``check`` is ``"error"``.
    """
    paths = paths_by_id(task.schema)
    key = tuple(paths[field.id] for field in task.schema.primary_key)
    total = sum(fragment.physical_rows for fragment in fragments)
    if check == "ignore" or not key or total < 2:
        return
    readers = [FragmentReader(source) for source in new_sources(task, fragments)]
    with KeyCounter() as counter:
        for columns in _keys(readers, key):
            counter.add(columns)
        found = counter.repeated()
    example = _example(readers, key, found) if found.rows else None
    if example is None:
        return
    told = literals(dict(zip(key, example, strict=True)))
    message = (
        f"{count(found.rows)} of {count(total)} rows share their primary key ({', '.join(key)}) "
        f"with another row of this write: for example, more than one row has {told}."
    )
    if check == "error":
        raise repeated_in_write(message, key, example)
    warn(
        f"{message} Merges, diffs and branch merges need keys that stand once: ds.duplicates() "
        "shows the rows, and primary_key_check='error' refuses them."
    )


def _keys(readers: Sequence[FragmentReader], key: Sequence[str]) -> Iterator[list[pa.Array]]:
    for reader in readers:
        for start in range(0, reader.physical_rows, _STEP):
            rows = range(start, min(start + _STEP, reader.physical_rows))
            yield key_columns(reader.read(list(key), rows), key)


def _example(
    readers: Sequence[FragmentReader], key: Sequence[str], found: Repeated
) -> tuple[object, ...] | None:
    """Return a key that more than one row has; ``None`` if only hashes are the same."""
    wanted, seen = found.words[:_LOOKED_AT], Counter[tuple[object, ...]]()
    for columns in _keys(readers, key):
        places = known_rows(columns)[np.isin(key_words(columns), wanted)]
        for row in places.tolist():
            one = tuple(column[row].as_py() for column in columns)
            # a NaN equals a NaN as a key, and no key has a null
            same = tuple(None if part != part else part for part in one)  # noqa: PLR0124
            seen[same] += 1
            if seen[same] > 1:
                return one
    # of more keys than are looked at, not all have the hash of another one
    return next(iter(seen), None) if found.keys > _LOOKED_AT else None
