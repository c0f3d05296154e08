"""Joint reads of small adjacent fragments.

The fragments share the fixed cost of opening a file and decoding a page. A hundred fragments of ten
thousand rows take a fifth of the time that separate reads take.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancekit._file.kernels.memory import starts_of
from lancekit._file.reader import FileReader
from lancekit._lazy import cached_property
from lancekit._machine import decoding_threads
from lancekit._scan.fragments.blobs import has_blobs
from lancekit._scan.fragments.reader import FragmentReader, Offsets, as_offsets
from lancekit._scan.fragments.source import FragmentSource
from lancekit.errors import FormatError

Numbers = npt.NDArray[np.uint64]

#: files that are mapped at once
_MOST_FILES = 512
#: the most rows that are read together, and the fewest rows that are worth a thread
_JOINT_ROWS, _THREAD_ROWS = 1 << 18, 1 << 16


class JointReader(FragmentReader):
    """A reader of several fragments whose files have the same columns, as if they were one.

    Offsets count all physical rows, fragment after fragment. Hidden columns such as addresses must
    be read by `hidden`.
    """

    def __init__(self, sources: Sequence[FragmentSource]) -> None:
        super().__init__(sources[0])
        self.readers = [FragmentReader(source) for source in sources]
        self.borders = starts_of(np.array([reader.physical_rows for reader in self.readers]))

    @property
    def physical_rows(self) -> int:
        """The number of rows in the files."""
        return int(self.borders[-1])

    @cached_property
    def deleted(self) -> BitMap:
        """The deleted offsets."""
        parts = zip(self.readers, self.borders.tolist(), strict=False)
        return BitMap.union(BitMap(), *(reader.deleted.shift(first) for reader, first in parts))

    def file(self, file_index: int) -> FileReader:
        """Return the files with one index in all fragments, concatenated."""
        joined = self._open.get(file_index)
        if joined is None:
            from lancekit._file.concatenated import join_files  # most fragments are read alone

            joined = join_files([reader.file(file_index) for reader in self.readers])
            self._open[file_index] = joined
        return joined

    def read(self, columns: Sequence[str], rows: Offsets | range) -> pa.Table:
        """Read columns of the given ascending offsets, as `FragmentReader.read` does.

        If a file is damaged, the fragments are read one by one: then the error names the file.
        """
        try:
            return super().read(columns, rows)
        except FormatError:
            parts = [reader.read(columns, mine) for reader, mine in self.split(as_offsets(rows))]
            return pa.concat_tables(parts)

    def split(self, rows: Offsets) -> Iterator[tuple[FragmentReader, Offsets]]:
        """Yield ascending rows as offsets in their fragment, for fragments that have any."""
        cuts = np.searchsorted(rows, self.borders)
        for place in np.flatnonzero(np.diff(cuts)).tolist():
            part = rows[cuts[place] : cuts[place + 1]] - self.borders[place]
            yield self.readers[place], part

    def offsets_at(self, positions: Offsets) -> Offsets:
        """Return the offsets of live rows by their ascending positions in the whole dataset."""
        cuts = np.searchsorted(positions, [reader.source.first_row for reader in self.readers[1:]])
        parts = zip(self.readers, self.borders, np.split(positions, cuts), strict=False)
        return np.concatenate([reader.offsets_at(mine) + first for reader, first, mine in parts])

    def hidden(self, name: str, rows: Offsets) -> Numbers:
        """Return a hidden column of all fragments."""
        parts = [reader.hidden(name, part) for reader, part in self.split(rows)]
        return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def rows_together(sources: Iterable[FragmentSource]) -> int:
    """Return how many rows to read together: a share for each thread, within fixed limits.

    Large fragments gain nothing: the decoded pages of several do not stay in the processor's cache.
    """
    rows = sum(source.fragment.physical_rows for source in sources)
    share = -(-rows // decoding_threads())
    return min(max(share, _THREAD_ROWS), _JOINT_ROWS)


def together(
    sources: Iterable[FragmentSource], most_rows: int
) -> Iterator[tuple[FragmentSource, ...]]:
    """Yield all fragments in order, as tuples of fragments that can be read together.

    Fragments with blobs are read alone, because a blob is located relative to its data file.

    most_rows: the most rows of a tuple with several fragments.
    """
    group: list[FragmentSource] = []
    rows, kind, blobs = 0, None, None
    for source in sources:
        if blobs is None:
            blobs = has_blobs(source.schema)
        found = None if blobs else _kind(source)
        count = source.fragment.physical_rows
        if group and (
            found is None
            or found != kind
            or rows + count > most_rows
            or len(group) * len(found) >= _MOST_FILES
        ):
            yield tuple(group)
            group, rows = [], 0
        group.append(source)
        rows, kind = rows + count, found
    if group:
        yield tuple(group)


def open_together(sources: Sequence[FragmentSource]) -> FragmentReader:
    """Return a reader of fragments that `together` has grouped."""
    return FragmentReader(sources[0]) if len(sources) == 1 else JointReader(sources)


def _kind(source: FragmentSource) -> tuple[object, ...] | None:
    """Return the key that fragments must share; ``None`` for a fragment that is read alone.

    Files in an object store are not read together: there requests cost more than decoding, and each
    fragment sends its own in a thread.
    """
    files = source.fragment.files
    if not source.on_disk or not files or not source.fragment.physical_rows:
        return None
    if any(file.version < (2, 1) for file in files):
        return None
    return tuple((file.version, file.fields, file.column_indices) for file in files)
