"""Search for versions by listing a folder (docs/format/table.md, 8.2), and renaming of manifests.

Only names count.  The hint that some releases write beside the manifests is never followed, not
even as a lower bound of the newest version.  Releases without hints, and a cleanup that keeps a
tagged version, leave a gap after the hinted version.  A commit into that gap would start a second
history.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from lancekit._format import names
from lancekit._format.names import ManifestNaming
from lancekit._lazy import loaded
from lancekit._storage.base import Store
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import CorruptFileError, DatasetNotFoundError, VersionNotFoundError


@dataclass(frozen=True, slots=True)
class VersionListing:
    """The versions of one folder, ascending; gaps are versions that were cleaned up.

    `naming` is the naming of the newest manifest.
    """

    versions: tuple[int, ...]
    naming: ManifestNaming

    @property
    def latest(self) -> int:
        """The newest version."""
        return self.versions[-1]


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest version of a folder.

    `mixed` is True if manifests of both namings exist: a migration was interrupted, or is running.
    `marks` has the marks of manifests by name (see `Store.mark`), as far as the listing has them.
    """

    version: int
    naming: ManifestNaming
    mixed: bool = False
    marks: Mapping[str, str | None] = field(default_factory=dict, compare=False)

    def mark_of(self, version: int) -> str | None:
        """Return the mark of a version's manifest, ``None`` if it is not known."""
        return self.marks.get(names.manifest_name(version, self.naming))


# by store URI: the folder's stamp, and its newest version at that stamp
_CACHED: dict[str, tuple[Hashable, Newest]] = {}
_MOST_CACHED = 512


def list_versions(location: BranchLocation) -> VersionListing:
    """List the versions of a branch.

    Raises DatasetNotFoundError: there are no versions.
    """
    location.committer.settle(location.store)
    found = location.store.list_names(names.VERSIONS)
    newest = _newest(found)
    if newest is None:
        raise _no_dataset(location)
    # an interrupted migration may leave one version under both names
    return VersionListing(tuple(sorted(set(names.manifest_versions(found)))), newest.naming)


def newest_version(location: BranchLocation) -> Newest | None:
    """Return the newest version of a branch, ``None`` if there is no version.

    Lists nothing if the folder has not changed since the last listing in this process.
    """
    location.committer.settle(location.store)
    store = location.store
    # before the listing, because any later addition changes the stamp
    stamp = store.stamp(names.VERSIONS)
    if stamp is not None and (known := _CACHED.get(store.uri)) and known[0] == stamp:
        return known[1]
    newest = _listed(store)
    if stamp is not None and newest is not None:
        if len(_CACHED) >= _MOST_CACHED:
            _CACHED.clear()
        _CACHED[store.uri] = (stamp, newest)
    return newest


def _listed(store: Store) -> Newest | None:
    page = store.first_names(names.VERSIONS)
    newest = _newest(page.names)
    # only with the newer naming, the newest version comes first in order
    if not page.whole and (newest is None or newest.naming is ManifestNaming.V1):
        newest = _newest(store.list_names(names.VERSIONS))
    if newest is None:
        return None
    return replace(newest, marks=page.marks)


def _newest(found: Collection[str]) -> Newest | None:
    """Return the newest version among names; of 10,000 names, only a few are parsed."""
    odd = (names.parse_manifest_name(name) for name in found if len(name) != names.V2_NAME_LENGTH)
    older = [version for version, _ in filter(None, odd)]
    # digits sort before the names of all other files in the folder
    parsed = _parsed_v2(min(found, default=""))
    if parsed is None:
        parsed = _parsed_v2(min(filter(_parsed_v2, found), default=""))
    if parsed is None:
        return Newest(max(older), ManifestNaming.V1) if older else None
    newest = Newest(parsed, ManifestNaming.V2, mixed=bool(older))
    if older and max(older) > newest.version:
        return replace(newest, version=max(older), naming=ManifestNaming.V1)
    return newest


def _parsed_v2(name: str) -> int | None:
    parsed = names.parse_manifest_name(name) if len(name) == names.V2_NAME_LENGTH else None
    return parsed[0] if parsed is not None else None


def dataset_exists(location: BranchLocation) -> bool:
    """Return True if the branch has a version."""
    return newest_version(location) is not None


def latest_snapshot(location: BranchLocation) -> Snapshot:
    """Load the newest version.

    Raises DatasetNotFoundError: there are no versions.
    Raises VersionNotFoundError: the version vanished after the listing, with a deleted branch.
    """
    found = find_latest(location)
    if found is None:
        raise _no_dataset(location)
    return found


def find_latest(location: BranchLocation) -> Snapshot | None:
    """Load the newest version; ``None`` if there are no versions.

    Raises VersionNotFoundError: as `latest_snapshot`.
    """
    newest = newest_version(location)
    if newest is None:
        return None
    return load_snapshot(location, newest.version, newest.naming, newest.mark_of(newest.version))


def _no_dataset(location: BranchLocation) -> DatasetNotFoundError:
    names: list[str] = []
    with suppress(Exception):  # the folder may be missing, or a file
        names = [*location.store.first_names("").names, *location.store.list_folders("")]
    return DatasetNotFoundError(
        f"Dataset at path {location.uri} was not found.",
        hint=loaded("_guesses.place_hint")(location.uri, names),
        uri=location.uri,
    )


def version_as_of(
    listing: VersionListing, moment: datetime, load: Callable[[int], Snapshot]
) -> Snapshot:
    """Return the newest version committed at or before ``moment`` (aware).

    Reads about log2(n) manifests: timestamps ascend with versions, as far as clocks agree.

    Raises VersionNotFoundError: every version is younger, or the newest version of that time may
        be gone.
    """
    loaded: dict[int, Snapshot] = {}

    def committed(version: int) -> datetime:
        if version not in loaded:
            loaded[version] = load(version)
        return loaded[version].manifest.timestamp

    versions = listing.versions
    place = bisect_right(versions, moment, key=committed)
    if place == 0:
        raise VersionNotFoundError(
            f"{moment.isoformat()} is before the first remaining version: version {versions[0]} "
            f"of {committed(versions[0]).isoformat()}.",
            hint="Pass a later time, or a version number.",
            asof=moment,
        )
    version = versions[place - 1]
    if place < len(versions) and versions[place] > version + 1 and moment > committed(version):
        after = versions[place]
        raise VersionNotFoundError(
            f"The newest version at {moment.isoformat()} is unknown: versions between {version} "
            f"of {committed(version).isoformat()} and {after} of {committed(after).isoformat()} "
            "were cleaned up.",
            hint="Pass one of these two version numbers.",
            asof=moment,
            nearest=(version, after),
        )
    committed(version)
    return loaded[version]


# ---- many small files in parallel: writes, and reads if the first one was slow

K = TypeVar("K")
V = TypeVar("V")

_AT_ONCE = 8
_LONG = 0.005


def timed(read: Callable[[K], V], key: K) -> tuple[V, bool]:
    """Return the result of ``read``, and True if further reads should use `at_once`."""
    began = time.perf_counter()
    found = read(key)
    return found, time.perf_counter() - began > _LONG


def at_once(work: Callable[[K], V], keys: Collection[K]) -> list[V]:
    """Call ``work`` for each key in a few threads, and return the results."""
    if len(keys) < 2:
        return [work(key) for key in keys]
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="lancekit-small-files") as pool:
        return list(pool.map(work, keys))


# ---- renaming of a folder's manifests to the newer naming (docs/format/table.md, 1)


def migrate_names(location: BranchLocation) -> int:
    """Give every manifest its newer name; return the number of manifests renamed.

    A manifest is copied before it is removed, so that each version exists at every moment, for a
    while under both names.  The next run finishes an interrupted one.  The newest version comes
    first, so that listings in order find it first from then on.

    Raises CorruptFileError: a version exists twice with different content, because a writer
        committed under the older name during the migration.
    """
    store, moved = location.store, 0
    # writers that know only the older naming may add a manifest meanwhile
    while older := _older(store):
        for version in older:
            _move(store, version)
        moved += len(older)
    return moved


def _older(store: Store) -> list[int]:
    parsed = filter(None, map(names.parse_manifest_name, store.list_names(names.VERSIONS)))
    return sorted((v for v, naming in parsed if naming is ManifestNaming.V1), reverse=True)


def _move(store: Store, version: int) -> None:
    old, new = (
        f"{names.VERSIONS}/{names.manifest_name(version, naming)}" for naming in ManifestNaming
    )
    try:
        data = store.read(old)
    except FileNotFoundError:  # another process has moved it, or cleaned it up
        return
    if not store.put_if_absent(new, data) and store.read(new) != data:
        raise CorruptFileError(
            f"{store.uri} has two different manifests for version {version}: {old} and {new}.",
            hint="Compare them, and move the wrong one to another place.",
            version=version,
            file=new,
        )
    store.delete(old)
