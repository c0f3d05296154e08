"""Search for repeated keys, in any rows or in the rows of one write.

Each key becomes a 64-bit word: an integer or a time is its own word, other keys are hashed. Two
different keys rarely share a hash; before a key is shown, the keys themselves are compared.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit import _arrow_kernels as ak
from lancekit._format.arrow_parts import viewed
from lancekit._format.fragment import Fragment
from lancekit._format.key_filter import KeyFilter, choose_filter
from lancekit._format.paths import paths_by_id
from lancekit._format.schema import LanceField, LanceSchema
from lancekit._legible import count, literals, warn
from lancekit._pipeline.hashed_keys import Hashes, comparable, hash_rows, known_rows
from lancekit._pipeline.join_files import new_sources
from lancekit._pipeline.write_rows import WriteTask
from lancekit._scan.fragments.reader import FragmentReader

#: words that are held in memory, 8 bytes each; more are sorted and spilled to temporary files
_BUFFERED = 1 << 24
#: words of repeated keys that are kept, at most
_KEPT = 1 << 20
#: repeated keys that are compared to find an example
_COMPARED = 16


@dataclass(frozen=True, slots=True)
class Repeated:
    """Rows that share their key with another row.

    rows: the number of these rows.
    keys: the number of their distinct keys.
    words: the words of the keys, ascending; only some if there are very many.
    """

    rows: int
    keys: int
    words: Hashes


def key_words(columns: Sequence[pa.Array]) -> Hashes:
    """Return the word of each row whose key has no null."""
    known = known_rows(columns)
    if len(known) < len(columns[0]):
        columns = [ak.take(column, known) for column in columns]
    if len(columns) == 1 and _is_word(columns[0].type):
        values, width = columns[0], columns[0].type.bit_width // 8
        numbers = viewed(values.buffers()[1], f"i{width}")[values.offset :][: len(values)]
        return numbers.astype(np.int64, copy=False).view(np.uint64)
    return hash_rows([comparable(column) for column in columns])


def _is_word(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_temporal(kind) or types.is_duration(kind))


class KeyCounter:
    """A search for repeated keys that takes rows in batches.

    Examples
    --------
    >>> with KeyCounter() as counter:
    ...     counter.add([pa.array([1, 2, 1, None])])
    ...     found = counter.repeated()
    >>> found.rows, found.keys
    (2, 1)
    """

    def __init__(self, held: int = _BUFFERED) -> None:
        self._most = held
        self._parts: list[Hashes] = []
        self._waiting = 0
        self._runs: list[Hashes] = []
        self._files = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runs.clear()
        self._files.close()

    def add(self, columns: Sequence[pa.Array]) -> None:
        """Add the keys of some rows; a key with a null equals no other key."""
        words = key_words(columns)
        self._parts.append(words)
        self._waiting += len(words)
        if self._waiting >= self._most:
            self._spill()

    def repeated(self) -> Repeated:
        """Return the repeated keys among all rows that were added."""
        rest = _ascending(self._parts)
        rows = keys = 0
        words = [np.empty(0, np.uint64)]
        for part in self._ranges([*self._runs, rest]):
            one = _repeated(part)
            # to keep all words would take the memory that spilling saves
            words.append(one.words[: max(_KEPT - keys, 0)].copy())
            rows, keys = rows + one.rows, keys + one.keys
        return Repeated(rows, keys, np.concatenate(words))

    def _spill(self) -> None:
        """Sort the buffered words, and write them to a file."""
        unnamed = tempfile.TemporaryFile(prefix="lancekit-keys-")  # noqa: SIM115  # closed on exit
        file = self._files.enter_context(unnamed)
        words = _ascending(self._parts)
        words.tofile(file)
        file.flush()
        self._runs.append(np.memmap(file, np.uint64, "r", shape=words.shape))
        self._parts, self._waiting = [], 0

    def _ranges(self, runs: Sequence[Hashes]) -> Iterator[Hashes]:
        """Merge sorted runs; yield their words in ranges that fit in memory."""
        if len(runs) == 1:
            yield runs[0]
            return
        total = sum(map(len, runs))
        count = -(-total // self._most) * 2
        samples = np.sort(np.concatenate([run[:: max(len(run) // 1024, 1)] for run in runs]))
        borders = np.unique(samples[np.arange(1, count) * len(samples) // count])
        cuts = [[0, *np.searchsorted(run, borders).tolist(), len(run)] for run in runs]
        for place in range(len(borders) + 1):
            pieces = [run[cut[place] : cut[place + 1]] for run, cut in zip(runs, cuts, strict=True)]
            yield np.sort(np.concatenate(pieces))


def _ascending(parts: Sequence[Hashes]) -> Hashes:
    words = np.concatenate([np.empty(0, np.uint64), *parts])
    if not (words[1:] > words[:-1]).all():
        words.sort()
    return np.asarray(words)


def _repeated(words: Hashes) -> Repeated:
    same = words[1:] == words[:-1]
    if not same.any():
        return Repeated(0, 0, np.empty(0, np.uint64))
    keys = np.unique(words[1:][same])
    shared = np.zeros(len(words), bool)
    shared[1:] |= same
    shared[:-1] |= same
    return Repeated(int(shared.sum()), len(keys), keys)


def example_of(keys: Iterable[Sequence[pa.Array]], found: Repeated) -> tuple[object, ...] | None:
    """Return a key of two rows or more, or ``None`` if only hashes collide."""
    wanted, seen = found.words[:_COMPARED], Counter[tuple[object, ...]]()
    for columns in keys:
        places = known_rows(columns)[np.isin(key_words(columns), wanted)]
        for row in places.tolist():
            one = tuple(column[row].as_py() for column in columns)
            # as keys, NaN equals NaN; no key has a null
            same = tuple(None if part != part else part for part in one)  # noqa: PLR0124
            seen[same] += 1
            if seen[same] > 1:
                return one
    # among so many repeated words, not all are hash collisions
    return next(iter(seen), None) if found.keys > _COMPARED else None


# ---- the check of the primary keys of one write, before it is committed

#: the reaction to duplicate primary keys among new rows
KeyCheck = Literal["warn", "error", "ignore"]

#: rows whose keys are read at the same time
_STEP = 1 << 18


def check_new_keys(task: WriteTask, fragments: Sequence[Fragment], check: KeyCheck) -> None:
    """Warn or raise if rows of new fragments share their primary key with each other.

    The key columns are read back from the files, so that the check is the same for every engine.
    It ignores the existing rows of the dataset.

    Raises DuplicateKeysError: keys are shared, and ``check`` is ``"error"``.
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
    example = example_of(_keys(readers, key), found) if found.rows else None
    if example is None:
        return
    shown_key = literals(dict(zip(key, example, strict=True)))
    message = (
        f"{count(found.rows)} of {count(total)} rows share their primary key ({', '.join(key)}) "
        f"with another row of this write: for example, more than one row has {shown_key}."
    )
    if check == "error":
        from lancekit._pipeline.source_keys import repeated_in_write

        raise repeated_in_write(message, key, example)
    warn(
        f"{message} Merges, diffs and branch merges need unique keys: ds.duplicates() lists the "
        "rows, and lk.write_dataset(..., primary_key_check='error') refuses such rows."
    )


def _keys(readers: Sequence[FragmentReader], key: Sequence[str]) -> Iterator[list[pa.Array]]:
    from lancekit._pipeline.source_keys import key_columns

    for reader in readers:
        for start in range(0, reader.physical_rows, _STEP):
            rows = range(start, min(start + _STEP, reader.physical_rows))
            yield key_columns(reader.read(list(key), rows), key)


# ---- the filter of inserted keys, with which concurrent commits detect each other's keys


def key_paths(schema: LanceSchema) -> tuple[tuple[str, ...], ...]:
    """Return the paths of the primary key's columns, in key order."""
    key = tuple(path for top in schema.fields for path in paths_in_key(top))
    return tuple(path for path, _ in sorted(key, key=lambda found: found[1]))


def paths_in_key(
    field: LanceField, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the paths of key columns in a field, each with its position in the key."""
    path = (*above, field.name)
    if field.key_position is not None:
        yield path, field.key_position
    for child in field.children:
        yield from paths_in_key(child, path)


def key_filter(schema: LanceSchema, hashes: npt.NDArray[np.uint64] | None) -> KeyFilter | None:
    """Return the filter of inserted key hashes, or ``None`` without hashes."""
    if hashes is None:
        return None
    fields = schema.primary_key
    types = [f.to_arrow().type for f in fields]
    return choose_filter([f.id for f in fields], types, hashes)
