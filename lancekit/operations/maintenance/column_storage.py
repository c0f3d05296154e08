"""How a column is stored: its bytes and encodings, by the metadata of data files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from lancekit.errors import LancekitError
from lancekit.file.file_metadata import metadata_of
from lancekit.legible import clean
from lancekit.scan.fragments.reader import FragmentReader
from lancekit.scan.fragments.source import fragment_sources
from lancekit.versions.snapshot import Snapshot

__all__ = ["ColumnStorage", "column_storage"]

#: so many files are looked at: each may be a request
_FILES = 8
_ENCODINGS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStorage:
    """How a column is stored.

    Attributes
    ----------
    bytes
        What its pages take in the files that were looked at.
    encodings
        What these pages are, the most of the column first; at most four.
    files, files_read
        In how many files the column is, and how many were looked at.
    problem
        Why fewer could be read; empty if all is well.
    """

    bytes: int
    encodings: tuple[str, ...]
    files: int
    files_read: int
    problem: str = ""


def column_storage(snapshot: Snapshot, ids: Collection[int]) -> ColumnStorage:
    """Return how some fields are stored that make one column; reads the ends of a few files."""
    places = [
        (source, place)
        for source in fragment_sources(snapshot)
        for place, file in enumerate(source.fragment.files)
        if not file.columns.keys().isdisjoint(ids)
    ]
    encodings = Counter[str]()
    total = read = 0
    problem = ""
    for source, place in places[:_FILES]:
        columns = source.fragment.files[place].columns
        try:
            found = metadata_of(FragmentReader(source).file(place)).columns
        except (LancekitError, OSError) as error:
            problem = clean(str(error))
            continue
        read += 1
        for id_ in columns.keys() & set(ids):
            if columns[id_] < len(found):
                column = found[columns[id_]]
                total += column.size_bytes
                for page in column.pages:
                    encodings[page.encoding] += page.num_rows
    return ColumnStorage(
        bytes=total,
        encodings=tuple(name for name, _ in encodings.most_common(_ENCODINGS) if name),
        files=len(places),
        files_read=read,
        problem=problem,
    )
