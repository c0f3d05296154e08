"""Facts on all fragments at once, parsed from their encoded messages by NumPy.

No `Fragment` objects are created.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancekit._format.batch_parse import (
    LENGTH,
    VARINT,
    Numbers,
    Offsets,
    damaged,
    inside,
    joined,
    walk,
)
from lancekit._format.pb import table_pb2 as pb
from lancekit._format.row_address import LAST_FRAGMENT, MOST_ROWS
from lancekit._format.unknown_fields import parse

Flags: TypeAlias = NDArray[np.bool_]

# up to this many messages, parsing them one by one is faster than NumPy
_FEW = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over the fragments of a version."""

    rows: int
    deleted_rows: int
    data_files: int
    deletion_files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class FragmentFacts:
    """One entry per fragment; `deleted` counts rows, `has_deletions` flags deletion files."""

    ids: Numbers
    physical_rows: Numbers
    deleted: Numbers
    has_deletions: Flags

    def take(self, which: NDArray[np.generic]) -> FragmentFacts:
        """Select entries by positions or by a mask."""
        return FragmentFacts(
            self.ids[which], self.physical_rows[which], self.deleted[which],
            self.has_deletions[which],
        )  # fmt: skip

    def followed_by(self, other: FragmentFacts) -> FragmentFacts:
        """Concatenate the entries of both."""
        return FragmentFacts(
            np.concatenate([self.ids, other.ids]),
            np.concatenate([self.physical_rows, other.physical_rows]),
            np.concatenate([self.deleted, other.deleted]),
            np.concatenate([self.has_deletions, other.has_deletions]),
        )


def facts_of(encoded: Sequence[bytes]) -> FragmentFacts:
    """Parse the facts on fragments from their encoded messages.

    Raises CorruptFileError: a message is damaged, or its numbers exceed the range of row addresses.
    """
    if len(encoded) <= _FEW:
        return _facts_of_few(encoded)
    messages, count = joined(encoded), len(encoded)
    ids, rows, deleted = (np.zeros(count, np.uint64) for _ in range(3))
    has_deletions = np.zeros(count, np.bool_)
    for fields in walk(messages):
        found = fields.where(1, VARINT)
        ids[found.message] = found.value
        found = fields.where(4, VARINT)
        rows[found.message] = found.value
        found = fields.where(3, LENGTH)
        has_deletions[found.message] = True
        for inner in walk(inside(messages, found)):
            number = inner.where(4, VARINT)
            deleted[found.message[number.message]] = number.value
    if (ids > LAST_FRAGMENT).any() or (rows > MOST_ROWS).any() or (deleted > rows).any():
        raise damaged()
    return FragmentFacts(ids, rows, deleted, has_deletions)


def totals_of(encoded: Sequence[bytes], facts: FragmentFacts | None) -> Totals:
    """Return the sums over fragments; unknown file sizes count as 0.

    facts: the facts on the fragments, if they have been parsed.

    Raises CorruptFileError: a message is damaged.
    """
    if len(encoded) <= _FEW:
        return _totals_of_few(encoded)
    files = size = 0
    messages = joined(encoded)
    for fields in walk(messages):
        found = fields.where(2, LENGTH)
        files += found.message.size
        for inner in walk(inside(messages, found)):
            size += int(inner.where(6, VARINT).value.sum())
    facts = facts or facts_of(encoded)
    deleted = int(facts.deleted.sum())
    return Totals(
        rows=int(facts.physical_rows.sum()) - deleted,
        deleted_rows=deleted,
        data_files=files,
        deletion_files=int(facts.has_deletions.sum()),
        bytes=size,
    )


def _totals_of_few(encoded: Sequence[bytes]) -> Totals:
    """Return the sums over few fragments in one pass, e.g. for each version in a list."""
    rows = deleted = files = deletion_files = size = 0
    for fragment in map(parsed_fragment, encoded):
        rows += fragment.physical_rows
        deleted += fragment.deletion_file.num_deleted_rows
        deletion_files += fragment.HasField("deletion_file")
        for file in fragment.files:
            files += 1
            size += file.file_size_bytes
    return Totals(
        rows=rows - deleted, deleted_rows=deleted, data_files=files,
        deletion_files=deletion_files, bytes=size,
    )  # fmt: skip


def parsed_fragment(data: bytes) -> pb.DataFragment:
    """Parse the message of one fragment.

    Raises CorruptFileError: it is damaged, or its numbers exceed the range of row addresses.
    """
    fragment = parse(pb.DataFragment, data, "a manifest's fragment")
    rows, deleted = fragment.physical_rows, fragment.deletion_file.num_deleted_rows
    if fragment.id > LAST_FRAGMENT or rows > MOST_ROWS or deleted > rows:
        raise damaged()
    return fragment


def _facts_of_few(encoded: Sequence[bytes]) -> FragmentFacts:
    rows = [
        (f.id, f.physical_rows, f.deletion_file.num_deleted_rows, f.HasField("deletion_file"))
        for f in map(parsed_fragment, encoded)
    ]
    columns = zip(*rows, strict=True) if rows else ((), (), (), ())
    kinds = (np.uint64, np.uint64, np.uint64, np.bool_)
    return FragmentFacts(*map(np.array, columns, kinds))


# ---- fragments by the names of their data files, without an object per fragment

_FILES = 2
_PATH = 1


def places_with_files(encoded: Sequence[bytes], paths: Collection[str]) -> Offsets:
    """Return the positions of the fragments that have a data file with one of the names.

    Raises CorruptFileError: a message is damaged.
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
                sized = np.flatnonzero(named.value == length)
                letters = messages.data[named.start[sized, None] + np.arange(length)]
                names = np.ascontiguousarray(letters).view(f"S{length}").ravel()
                hits = sized[np.isin(names, some)]
                found.append(files.message[named.message[hits]])
    return np.unique(np.concatenate(found))
