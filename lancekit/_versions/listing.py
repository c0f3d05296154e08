"""Finding versions by listing a folder (docs/format/table.md, 8.2), and naming them anew.

Names alone decide.  The hint that some releases write beside the manifests is never followed, not
even upwards from the version that it names: releases that write no hint, and a cleanup that keeps
a tagged version, leave a hint followed by a gap, and a commit into that gap would be a second
history.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from lancekit._format import names
from lancekit._format.names import ManifestNaming
from lancekit._storage.base import Store
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import CorruptFileError, DatasetNotFoundError, VersionNotFoundError


@dataclass(frozen=True, slots=True)
class VersionListing:
    """The versions of one folder, ascending; gaps are versions that were cleaned up.

    `naming` is that of the newest one.
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

    `mixed` tells whether manifests of both namings were met: a migration was interrupted, or goes
    on right now.  `marks` are those of manifests by their names, where the listing brought them.
    """

    version: int
    naming: ManifestNaming
    mixed: bool = False
    marks: Mapping[str, str | None] = field(default_factory=dict, compare=False)

    def mark_of(self, version: int) -> str | None:
        """Return the mark of a version's manifest, ``None`` if it is not known."""
        return self.marks.get(names.manifest_name(version, self.naming))


# what a folder's newest version was, as long as the folder's stamp is the same
_REMEMBERED: dict[str, tuple[Hashable, Newest]] = {}
_MOST_REMEMBERED = 512


def list_versions(location: BranchLocation) -> VersionListing:
    """List the versions of a line.

    Raises DatasetNotFoundError: there is no version at all.
    """
    location.committer.settle(location.store)
    found = location.store.list_names(names.VERSIONS)
    newest = _newest(found)
    if newest is None:
        raise _no_dataset(location)
    # a migration that was interrupted may leave one version under both names
    return VersionListing(tuple(sorted(set(names.manifest_versions(found)))), newest.naming)


def newest_version(location: BranchLocation) -> Newest | None:
    """Return the newest version of a line, ``None`` if there is no version.

    One listing at most: none where the folder has not changed since the last one in this process.
    """
    location.committer.settle(location.store)
    store = location.store
    # before the listing: what is added after it changes the stamp
    stamp = store.stamp(names.VERSIONS)
    if stamp is not None and (known := _REMEMBERED.get(store.uri)) and known[0] == stamp:
        return known[1]
    newest = _listed(store)
    if stamp is not None and newest is not None:
        if len(_REMEMBERED) >= _MOST_REMEMBERED:
            _REMEMBERED.clear()
        _REMEMBERED[store.uri] = (stamp, newest)
    return newest


def _listed(store: Store) -> Newest | None:
    page = store.first_names(names.VERSIONS)
    newest = _newest(page.names)
    # in order the newest comes first only under the newer naming
    if not page.whole and (newest is None or newest.naming is ManifestNaming.V1):
        newest = _newest(store.list_names(names.VERSIONS))
    if newest is None:
        return None
    return replace(newest, marks=page.marks)


def _newest(found: Collection[str]) -> Newest | None:
    """Return the newest of some names; of ten thousand, few are looked at one by one."""
    odd = (names.parse_manifest_name(name) for name in found if len(name) != names.V2_NAME_LENGTH)
    older = [version for version, _ in filter(None, odd)]
    # digits sort before the names of all other files that belong there
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
    """Return whether the line has a version."""
    return newest_version(location) is not None


def latest_snapshot(location: BranchLocation) -> Snapshot:
    """Load the newest version.

    A version that vanishes between listing and reading (a branch deleted meanwhile) is an error
    like any other missing version.

    Raises DatasetNotFoundError: there is no version at all.
    """
    newest = newest_version(location)
    if newest is None:
        raise _no_dataset(location)
    return load_snapshot(location, newest.version, newest.naming, newest.mark_of(newest.version))


def _no_dataset(location: BranchLocation) -> DatasetNotFoundError:
    return DatasetNotFoundError(
        f"There is no Lance dataset at {location.uri}.",
        hint="Check the path, or create the dataset with write_dataset().",
        uri=location.uri,
    )


def version_as_of(
    listing: VersionListing, moment: datetime, load: Callable[[int], Snapshot]
) -> Snapshot:
    """Return the newest version committed at or before ``moment`` (aware).

    Reads about log2(n) manifests: timestamps ascend with versions, as far as clocks agree.

    Raises VersionNotFoundError: every version is younger, or the one that was the newest then may
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
            f"{moment.isoformat()} is earlier than the first version that is still there: "
            f"version {versions[0]} of {committed(versions[0]).isoformat()}.",
            hint="Ask for a later time, or for a version by its number.",
            asof=moment,
        )
    version = versions[place - 1]
    if place < len(versions) and versions[place] > version + 1 and moment > committed(version):
        after = versions[place]
        raise VersionNotFoundError(
            f"What was the newest version at {moment.isoformat()} is not known: versions between "
            f"{version} of {committed(version).isoformat()} and {after} of "
            f"{committed(after).isoformat()} were cleaned up.",
            hint="Ask for one of the two by its number.",
            asof=moment,
            nearest=(version, after),
        )
    committed(version)
    return loaded[version]


# ---- small files at the same time: many to write, or to read where the first takes long to come

K = TypeVar("K")
V = TypeVar("V")

_AT_ONCE = 8
_LONG = 0.005


def timed(read: Callable[[K], V], key: K) -> tuple[V, bool]:
    """Return what ``read`` returns, and whether more that take as long are worth `at_once`."""
    began = time.perf_counter()
    found = read(key)
    return found, time.perf_counter() - began > _LONG


def at_once(work: Callable[[K], V], keys: Collection[K]) -> list[V]:
    """Return what ``work`` returns for each key, called in a few threads."""
    if len(keys) < 2:
        return [work(key) for key in keys]
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="lancekit-small-files") as pool:
        return list(pool.map(work, keys))


# ---- giving the manifests of a folder the newer names (docs/format/table.md, 1)


def migrate_names(location: BranchLocation) -> int:
    """Give every manifest its newer name; return how many had the older one.

    A manifest is copied before it goes, so that each version is there at every moment, at times
    under both names; a run that was interrupted is finished by the next.  The newest version comes
    first: whoever lists in order meets it first from then on.

    Raises CorruptFileError: a version is there twice with different content: somebody committed
        under the older name while the folder was migrated.
    """
    store, moved = location.store, 0
    # writers that know only the older names may add one meanwhile
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
    except FileNotFoundError:  # somebody else has moved it, or cleaned it up
        return
    if not store.put_if_absent(new, data) and store.read(new) != data:
        raise CorruptFileError(
            f"{store.uri} has two versions {version}: {old} and {new} differ.",
            hint="Look at both, and move the one that is to go elsewhere.",
            version=version,
            file=new,
        )
    store.delete(old)
