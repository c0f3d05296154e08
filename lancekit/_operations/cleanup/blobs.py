"""Which files with blobs the data files of a dataset name: managed blobs, and adopted ones.

See docs/format/data-files.md, 10.  A compaction of a table with managed blobs moves rows and not
their blobs, which may be files of the table or of the branch that it forked from.  Only data files
name these blobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from lancekit._format import names
from lancekit._format.field_marks import is_blob_v2
from lancekit._format.names import MAIN
from lancekit._pipeline.engine.engine import LocalRunner
from lancekit._scan.fragments.managed_blobs import managed_blobs
from lancekit._scan.fragments.source import FragmentSource, fragment_sources
from lancekit._versions.line import Line
from lancekit._versions.listing import latest_snapshot, list_versions
from lancekit._versions.reference_files import branch_files
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import (
    DatasetNotFoundError,
    FormatError,
    UntrustedBaseError,
    VersionNotFoundError,
)

__all__ = ["NamedBlobs", "is_blob_file", "named_blobs"]


@dataclass(frozen=True, slots=True)
class NamedBlobs:
    """Paths of files with blobs, below whichever folder: paths are unique.

    Attributes
    ----------
    needed
        Those that versions which stay name; ``None`` if that is not known.
    ever
        Those that any version names.
    managed
        There may be any.
    """

    needed: frozenset[str] | None = frozenset()
    ever: frozenset[str] = frozenset()
    managed: bool = False

    def keeps(self, path: str) -> bool:
        """Return True if a cleanup must leave a file because of its blobs."""
        if not is_blob_file(path):
            return False
        if not self.managed:  # beside a data file, whose versions decide
            return names.BLOBS in path.split("/")
        # below the folder of an unlisted branch, perhaps
        parts = path.split("/")
        tails = ("/".join(parts[start:]) for start in range(len(parts)))
        return self.needed is None or any(tail in self.needed for tail in tails)


def is_blob_file(path: str) -> bool:
    """Return True for the name of a file with blobs."""
    return path.endswith(".blob")


def named_blobs(line: Line, kept: Sequence[Snapshot], loaded: Sequence[Snapshot]) -> NamedBlobs:
    """Return what the data files of a dataset name.

    Parameters
    ----------
    line
        The line to clean up.
    kept, loaded
        Its versions that stay, and all of them.
    """
    lines = [line.on(name) for name in (MAIN, *branch_files(line.root)) if name != line.name]
    try:
        managed = any(s.manifest.has_managed_blobs for s in kept) or any(map(_is_managed, lines))
        if not managed:  # the flag is for good, so that the newest version of a line tells
            return NamedBlobs()
        others = [snapshot for other in lines for snapshot in _versions(other)]
    except FormatError:
        return NamedBlobs(needed=None, managed=True)
    read: dict[object, frozenset[str]] = {}
    try:
        needed = _named_by([*kept, *others], read)
        ever = _named_by(loaded, read)
    except (FormatError, UntrustedBaseError):  # then nobody knows what is needed
        return NamedBlobs(needed=None, managed=True)
    return NamedBlobs(needed, ever | needed, managed=True)


def _is_managed(line: Line) -> bool:
    try:
        return latest_snapshot(line).manifest.has_managed_blobs
    except DatasetNotFoundError:
        return False


def _versions(line: Line) -> Iterator[Snapshot]:
    try:
        listed = list_versions(line).versions
    except DatasetNotFoundError:
        return
    for version in listed:
        with suppress(VersionNotFoundError):  # cleaned up meanwhile
            yield load_snapshot(line, version)


def _named_by(snapshots: Iterable[Snapshot], read: dict[object, frozenset[str]]) -> frozenset[str]:
    """Return the paths that the data files of versions name; each file is read once."""
    sources: dict[object, FragmentSource] = {}
    for snapshot in snapshots:
        if snapshot.manifest.has_managed_blobs:
            for source in fragment_sources(snapshot):
                columns = (f.id for f in source.schema.walk() if is_blob_v2(f.metadata))
                key: object = (*map(str, source.files), *columns)
                # deleted rows too: a version before may have them
                sources.setdefault(key, replace(source, with_deleted=True))
    fresh = [key for key in sources if key not in read]
    found = LocalRunner().map(lambda key: managed_blobs(sources[key]), fresh)
    for key, blobs in zip(fresh, found, strict=True):
        read[key] = frozenset(blob.path for blob in blobs)
    return frozenset().union(*(read[key] for key in sources))
