"""Whether the rows of one write share their primary keys, before they are committed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._format.fragment import Fragment
from lancekit._format.key_filter import KeyFilter, choose_filter
from lancekit._format.paths import paths_by_id
from lancekit._format.schema import LanceField, LanceSchema
from lancekit._legible import count, literals, warn
from lancekit._pipeline.join_files import new_sources
from lancekit._pipeline.rows.write import WriteTask
from lancekit._scan.fragments.reader import FragmentReader

__all__ = ["KeyCheck", "check_new_keys", "key_filter", "key_paths", "paths_in_key"]

#: what duplicates among the primary keys of new rows are
KeyCheck = Literal["warn", "error", "ignore"]

#: rows of which the keys are read at a time
_STEP = 1 << 18


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
    from lancekit._pipeline.keys.key_counter import KeyCounter, example_of

    readers = [FragmentReader(source) for source in new_sources(task, fragments)]
    with KeyCounter() as counter:
        for columns in _keys(readers, key):
            counter.add(columns)
        found = counter.repeated()
    example = example_of(_keys(readers, key), found) if found.rows else None
    if example is None:
        return
    told = literals(dict(zip(key, example, strict=True)))
    message = (
        f"{count(found.rows)} of {count(total)} rows share their primary key ({', '.join(key)}) "
        f"with another row of this write: for example, more than one row has {told}."
    )
    if check == "error":
        from lancekit._pipeline.keys.source_keys import repeated_in_write

        raise repeated_in_write(message, key, example)
    warn(
        f"{message} Merges, diffs and branch merges need keys that stand once: ds.duplicates() "
        "shows the rows, and primary_key_check='error' refuses them."
    )


def _keys(readers: Sequence[FragmentReader], key: Sequence[str]) -> Iterator[list[pa.Array]]:
    from lancekit._pipeline.keys.source_keys import key_columns

    for reader in readers:
        for start in range(0, reader.physical_rows, _STEP):
            rows = range(start, min(start + _STEP, reader.physical_rows))
            yield key_columns(reader.read(list(key), rows), key)


# ---- what a commit says of the keys that it brings in, so that concurrent ones see each other


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
