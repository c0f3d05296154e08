"""Which versions of other lines of a dataset read files in a line's folder."""

from __future__ import annotations

import os
from functools import cache

from lancekit._format.names import MAIN
from lancekit._versions.at_once import at_once
from lancekit._versions.line import Line
from lancekit._versions.listing import list_versions
from lancekit._versions.reference_files import branch_files
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import (
    DatasetNotFoundError,
    FormatError,
    InvalidArgumentError,
    UntrustedBaseError,
    VersionNotFoundError,
)

__all__ = ["borrowers"]


def borrowers(line: Line) -> dict[str, list[Snapshot]]:
    """Return the versions that read files of a line, by the name of their line, oldest first.

    They are those of branches that were made of it, and of lines into which it was merged without
    copies.  A version that cannot be read loses nothing.
    """
    own = _place(line.uri)

    @cache
    def is_own(path: str) -> bool:
        try:
            return _place(line.base(path).uri) == own
        except (UntrustedBaseError, InvalidArgumentError):
            return False

    def load(at: tuple[Line, int]) -> Snapshot | None:
        try:
            found = load_snapshot(*at)
            bases = {base.id for base in found.manifest.base_paths if is_own(base.path)}
            return found if bases and _reads(found, bases) else None
        except (VersionNotFoundError, FormatError):
            return None

    found: dict[str, list[Snapshot]] = {}
    for name in (MAIN, *branch_files(line.root)):
        if name != line.name:
            other = line.on(name)
            loaded = at_once(load, [(other, version) for version in _versions(other)])
            if reading := [snapshot for snapshot in loaded if snapshot is not None]:
                found[name] = reading
    return found


def _versions(line: Line) -> tuple[int, ...]:
    try:
        return list_versions(line).versions
    except (DatasetNotFoundError, FormatError):
        return ()


def _reads(snapshot: Snapshot, bases: set[int]) -> bool:
    """Return whether a version has files in one of some bases, or may have blobs there."""
    if snapshot.manifest.has_managed_blobs:  # which its data files name, and not the manifest
        return True
    if any(index.base_id in bases for index in snapshot.indices):
        return True
    for fragment in snapshot.manifest.fragments:
        deletion = fragment.deletion_file
        if deletion is not None and deletion.base_id in bases:
            return True
        if any(file.base_id in bases for file in fragment.files):
            return True
    return False


def _place(uri: str) -> str:
    return uri if "://" in uri else os.path.realpath(uri)
