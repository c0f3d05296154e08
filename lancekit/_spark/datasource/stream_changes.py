"""The fragments that contain the changes between two versions of a table, for streams.

The order of the fragments is always the same, so that their count is a position:

- from version 0 on, all fragments of the later version;
- in a table with stable row ids, the fragments of the later version with a row that was created or
  changed after the earlier version;
- in other tables, the fragments of each append between the versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from lancekit._format import operations as ops
from lancekit._format.row_ids import read_row_versions
from lancekit._scan.fragments.blobs import blob_view
from lancekit._scan.fragments.reader import FragmentReader
from lancekit._scan.fragments.source import FragmentSource, fragment_sources
from lancekit._spark.datasource.options import SourceOptions
from lancekit._versions.snapshot import FileLocation, Snapshot, load_snapshot
from lancekit.errors import NotOfferedError, VersionNotFoundError

#: operations that neither add nor change rows
_QUIET = (
    ops.Delete,
    ops.Rewrite,
    ops.ReserveFragments,
    ops.CreateIndex,
    ops.UpdateConfig,
    ops.UpdateBases,
    ops.UpdateMemWalState,
    ops.Project,
)

#: the most lists of sizes that are cached
_CACHED = 256


class ChangeLog:
    """The changes of the table that a stream's options name."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._location = options.location()
        self._sizes: dict[tuple[int, int], npt.NDArray[np.int64]] = {}

    def load(self, version: int, since: int) -> Snapshot:
        """Load a version for a stream that has read up to version ``since``.

        Raises VersionNotFoundError: the version was cleaned up.
        """
        try:
            return load_snapshot(self._location, version)
        except VersionNotFoundError:
            raise VersionNotFoundError(
                f"Version {version} of {self._location.uri} was cleaned up before the stream, "
                f"which is at version {since}, read it.",
                hint="Start with a new checkpoint. To prevent this, keep versions longer (a tag "
                "keeps one).",
                version=version,
            ) from None

    def steps(self, since: int, until: int) -> Iterator[tuple[int, int]]:
        """Split the change from ``since`` to ``until`` into the smallest changes, in order.

        With stable row ids there is only one, because a row that changed twice is read once.
        """
        if until <= since:
            return
        if _is_one_change(self.load(until, since), since):
            yield since, until
        else:
            yield from ((version - 1, version) for version in range(since + 1, until + 1))

    def sources(self, since: int, until: int) -> Sequence[FragmentSource]:
        """Return the fragments of a change.

        Raises NotOfferedError: a version rewrote rows, and the rows cannot be identified.
        Raises VersionNotFoundError: a version was cleaned up.
        """
        at = self.load(until, since)
        if not _is_one_change(at, since):
            return [
                source
                for version in range(since + 1, until + 1)
                for source in self._appended(self.load(version, since))
            ]
        sources = fragment_sources(at, blob_view(at.manifest.schema))
        return sources if since == 0 else [s for s in sources if _may_have_changed(s, since)]

    def sizes(self, since: int, until: int) -> npt.NDArray[np.int64]:
        """Return the file bytes of each fragment of a change; for errors, see `sources`."""
        known = self._sizes.get((since, until))
        if known is None:
            if len(self._sizes) >= _CACHED:
                self._sizes.clear()
            sizes = [sum(map(_size, source.files)) for source in self.sources(since, until)]
            known = self._sizes[since, until] = np.array(sizes, np.int64)
        return known

    def changed_ids(self, since: int, until: int) -> npt.NDArray[np.uint64]:
        """Return the stable ids of the rows that a change created or updated."""
        found = [np.empty(0, np.uint64)]
        for source in self.sources(since, until):
            reader = FragmentReader(source)
            rows = np.arange(reader.physical_rows)
            found.append(reader.row_ids(rows[reader.last_updated_at(rows) > since]))
        return np.concatenate(found)

    def _appended(self, at: Snapshot) -> list[FragmentSource]:
        """Return the fragments that a version appended, in their state at that version."""
        operation = None if at.transaction is None else at.transaction.operation
        if isinstance(operation, _QUIET):
            return []
        if isinstance(operation, ops.Append):
            new = {file.path for fragment in operation.fragments for file in fragment.files}
            sources = fragment_sources(at, blob_view(at.manifest.schema))
            return [s for s in sources if any(f.path in new for f in s.fragment.files)]
        if self._options.skip_rewrites:
            return []
        raise NotOfferedError(
            f"The changed rows of version {at.version} of {at.location.uri} are unknown: it is "
            f"not an append ({type(operation).__name__}), and there are no stable row ids.",
            hint='Pass option("skipRewrites", "true") to skip its rows, or start after it with a '
            "new checkpoint. Datasets with enable_stable_row_ids=True record changed rows.",
            version=at.version,
        )


def _is_one_change(at: Snapshot, since: int) -> bool:
    """Return True if the later version alone identifies the changed rows."""
    return since == 0 or at.manifest.has_stable_row_ids


def _may_have_changed(source: FragmentSource, since: int) -> bool:
    """Return True if a fragment may have rows that changed after a version."""
    fragment = source.fragment
    if fragment.last_updated_at is None:
        return True
    found = read_row_versions(fragment.last_updated_at, fragment.physical_rows, source.where)
    return bool((found.versions > since).any())


def _size(file: FileLocation) -> int:
    """Return the bytes of a file; query the store if the manifest has no size."""
    return file.size if file.size is not None else file.store.open(file.name).size()
