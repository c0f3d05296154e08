"""Finding versions: one folder's line of versions, by listing (table format, 8.2)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from lancekit.commit.line import Line
from lancekit.commit.snapshot import Snapshot, load_snapshot
from lancekit.errors import CorruptFileError, DatasetNotFoundError, VersionNotFoundError
from lancekit.format import names
from lancekit.format.names import ManifestNaming
from lancekit.storage import Store

__all__ = ["VersionListing", "dataset_exists", "latest_snapshot", "list_versions", "version_as_of"]


@dataclass(frozen=True, slots=True)
class VersionListing:
    """The versions of one folder, ascending; gaps are versions that were cleaned up."""

    versions: tuple[int, ...]
    naming: ManifestNaming

    @property
    def latest(self) -> int:
        """The newest version."""
        return self.versions[-1]


def list_versions(line: Line) -> VersionListing:
    """List the versions of a line.

    Raises
    ------
    DatasetNotFoundError
        There is no version at all.
    CorruptFileError
        Both manifest namings occur in the folder.
    """
    store = line.store
    listing = _list(store)
    if listing is None:
        raise DatasetNotFoundError(
            f"There is no Lance dataset at {store.uri}.",
            hint="Check the path, or create the dataset with write_dataset().",
            uri=store.uri,
        )
    return listing


def dataset_exists(line: Line) -> bool:
    """Return whether the line has a version."""
    return _list(line.store) is not None


def _list(store: Store) -> VersionListing | None:
    parsed = filter(None, map(names.parse_manifest_name, store.list_names(names.VERSIONS)))
    found = dict(parsed)
    if not found:
        return None
    namings = set(found.values())
    if len(namings) > 1:
        raise CorruptFileError(
            f"{store.uri}/{names.VERSIONS} mixes both manifest naming schemes.",
            hint="A migration was interrupted; run migrate_manifest_paths_v2() with pylance.",
            uri=store.uri,
        )
    return VersionListing(tuple(sorted(found)), namings.pop())


def latest_snapshot(line: Line) -> Snapshot:
    """Load the newest version.

    A version that vanishes between listing and reading (a branch deleted meanwhile) is an error
    like any other missing version.
    """
    listing = list_versions(line)
    return load_snapshot(line, listing.latest, listing.naming)


def version_as_of(
    listing: VersionListing, moment: datetime, load: Callable[[int], Snapshot]
) -> Snapshot:
    """Return the newest version committed at or before ``moment`` (aware).

    Reads about log2(n) manifests: timestamps ascend with versions, as far as clocks agree.

    Raises
    ------
    VersionNotFoundError
        Every version is younger.
    """
    loaded: dict[int, Snapshot] = {}

    def committed(version: int) -> datetime:
        loaded[version] = load(version)
        return loaded[version].manifest.timestamp

    place = bisect_right(listing.versions, moment, key=committed)
    if place == 0:
        first = loaded[listing.versions[0]].manifest
        raise VersionNotFoundError(
            f"{moment.isoformat()} is earlier than the first version that is still there: "
            f"version {first.version} of {first.timestamp.isoformat()}.",
            hint="Ask for a later time, or for a version by its number.",
            asof=moment,
        )
    version = listing.versions[place - 1]
    return loaded[version] if version in loaded else load(version)
