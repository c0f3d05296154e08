"""Plan of a cleanup: old versions, and files that no version needs.

See docs/format/operations.md, 6.6.

Files are listed before versions are read.  So if the list has a file of a commit that lands in
between, the plan also sees the version that refers to it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

from lancekit._display import Displayed
from lancekit._format import names
from lancekit._format.fragment import Fragment, FragmentList
from lancekit._legible import plural, shown
from lancekit._operations.cleanup.files import (
    NamedBlobs,
    column_versions_among,
    file_key,
    is_blob_file,
    list_files,
    merge_bases_among,
    named_blobs,
)
from lancekit._pipeline.engine import LocalRunner
from lancekit._storage.base import ObjectInfo
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import list_versions
from lancekit._versions.merge_edges import check_requirements
from lancekit._versions.reference_files import all_branches, all_tags, borrowers
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import InvalidArgumentError, InvalidTypeError, RefConflictError

#: minimal age of an unreferenced file to remove: younger ones may belong to a commit under way
IN_FLIGHT = timedelta(days=7)
#: reasons why the next merge of two branches needs a version
_MERGE_BASE = "it is the merge base of {} and {}, which their next merge compares with"
_RENAMES = "the next merge of {} and {} needs it to recognise renamed columns"
#: kinds of files that a branch can read in the folder of another branch
_BORROWED = frozenset({"data", "deletion", "index"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupRequest:
    """Conditions of a cleanup; a version is removed only if it meets all that are set.

    keep_from: the first version to keep regardless of conditions, by default the handle's own.
    """

    older_than: timedelta | None = None
    retain_versions: int | None = None
    versions: frozenset[int] | None = None
    delete_unverified: bool = False
    error_if_tagged_old_versions: bool = True
    keep_from: int | None = None


#: the default of `older_than` if no condition is set
_TWO_WEEKS = timedelta(days=14)


def cleanup_request(
    older_than: object,
    retain_versions: object,
    delete_unverified: bool,
    error_if_tagged: bool,
    versions: Any,
) -> CleanupRequest:
    """Return the request for a user's arguments, after a check.

    Raises InvalidArgumentError: a value is invalid.
    """
    if older_than is not None and not isinstance(older_than, timedelta):
        raise InvalidTypeError(
            f"older_than must be a timedelta, got {shown(older_than)}.",
            hint="Pass a timedelta, such as timedelta(days=7).",
        )
    if older_than is not None and older_than < timedelta(0):
        raise InvalidArgumentError(
            f"older_than must be an age of 0 or more, got {shown(older_than)}.",
            hint="Pass a positive timedelta: versions older than two weeks are timedelta(days=14).",
        )
    if retain_versions is not None and (
        isinstance(retain_versions, bool)
        or not isinstance(retain_versions, int)
        or retain_versions < 1
    ):
        raise InvalidArgumentError(
            f"retain_versions must be an integer of 1 or more, got {shown(retain_versions)}."
        )
    wanted = None
    if versions is not None:
        if isinstance(versions, str | int) or not versions:
            raise InvalidArgumentError(
                f"versions must be a list of version numbers, got {shown(versions)}."
            )
        wanted = frozenset(versions)
    if older_than is None and retain_versions is None and wanted is None:
        older_than = _TWO_WEEKS
    return CleanupRequest(
        older_than=older_than,
        retain_versions=retain_versions,
        versions=wanted,
        delete_unverified=delete_unverified,
        error_if_tagged_old_versions=error_if_tagged,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupFile:
    """A file to remove; ``unverified`` if it belongs to no known version."""

    path: str
    kind: str
    unverified: bool
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupBranch:
    """A branch whose fork version is old enough to remove, but stays because of the branch."""

    name: str
    referenced_version: int
    cleanup_candidate: bool = False


@dataclass(frozen=True, kw_only=True, repr=False)
class CleanupStats(Displayed):
    """Counts of the files that a cleanup removed or would remove.

    `left_alone` (only in lancekit) names entries of the dataset's folders that are not its files,
    such as links.  A cleanup neither follows nor removes them.
    """

    _in_line = True
    bytes_removed: int = 0
    old_versions: int = 0
    data_files_removed: int = 0
    transaction_files_removed: int = 0
    index_files_removed: int = 0
    deletion_files_removed: int = 0
    temporary_files_removed: int = 0
    failed_deletes: int = 0
    left_alone: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, files: Iterable[CleanupFile], failed: int = 0, left_alone: Iterable[str] = ()
    ) -> CleanupStats:
        """Return the counts of files to remove, by kind.

        Parameters
        ----------
        files
            The files to remove.
        failed
            The number of files that could not be removed.
        left_alone
            Entries that are not the dataset's files.

        Returns
        -------
        CleanupStats
            The counts and the bytes.

        Raises
        ------
        AttributeError
            An item of ``files`` is not a `CleanupFile`.

        Examples
        --------
        >>> file = CleanupFile(path="data/a.lance", kind="data", unverified=False, size_bytes=5)
        >>> CleanupStats.of([file]).bytes_removed
        5
        """
        listed = list(files)
        kinds = [file.kind for file in listed]
        return cls(
            bytes_removed=sum(file.size_bytes for file in listed),
            old_versions=kinds.count("manifest"),
            data_files_removed=kinds.count("data"),
            transaction_files_removed=kinds.count("transaction"),
            index_files_removed=kinds.count("index"),
            deletion_files_removed=kinds.count("deletion"),
            temporary_files_removed=kinds.count("temporary") + kinds.count("temporary_manifest"),
            failed_deletes=failed,
            left_alone=tuple(sorted(left_alone)),
        )

    def _plain(self) -> str:
        left = f", left_alone={list(self.left_alone)}" if self.left_alone else ""
        return (
            f"CleanupStats(bytes_removed={self.bytes_removed}, old_versions={self.old_versions}, "
            f"data_files_removed={self.data_files_removed}{left})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPlan:
    """Old versions and files to remove from one branch, and the references that keep others."""

    read_version: int
    latest: int
    versions: tuple[int, ...]
    files: tuple[CleanupFile, ...]
    branches: tuple[CleanupBranch, ...] = ()
    tagged: Mapping[str, int] = field(default_factory=dict)
    left_alone: Mapping[str, str] = field(default_factory=dict)
    merge_bases: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    column_versions: Mapping[int, tuple[str, str]] = field(default_factory=dict)


def plan_cleanup(snapshot: Snapshot, request: CleanupRequest) -> CleanupPlan:
    """Plan a cleanup of a branch; nothing is removed.

    The plan keeps the handle's version and all later ones, tagged versions, fork versions of
    branches, and merge bases of two branches.  It also keeps versions that alone show renamed
    columns to the next merge, detached versions, and all files that kept versions refer to.  Files
    outside of the branch's own folder stay.

    Raises RefConflictError: a version that is old enough is tagged, unless the request allows it.
    Raises RefConflictError: a branch or the next merge needs a version of ``request.versions``.
    Raises FormatError: a version cannot be read, so its files are unknown.
    Raises FormatError: the table, or one of its branches, requires a newer lancekit.
    """
    location = snapshot.location
    now = time.time()
    listed = list_files(location)
    listing = list_versions(location)
    loaded = LocalRunner().map(lambda v: load_snapshot(location, v), listing.versions)
    for one in (snapshot, *loaded[-1:]):
        check_requirements(one, "A cleanup")
    old = {s.version for s in loaded if _is_old(s, snapshot, request, listing.versions, now)}
    tags = {
        name: t.version
        for name, t in all_tags(location.root).items()
        if t.branch == location.branch
    }
    tagged = {name: version for name, version in tags.items() if version in old}
    if tagged and request.error_if_tagged_old_versions:
        shown = ", ".join(f"{name!r} (version {v})" for name, v in sorted(tagged.items())[:5])
        raise RefConflictError(
            f"The versions to clean up have {plural(len(tagged), 'tag')}: {shown}.",
            hint="Delete these tags, or pass error_if_tagged_old_versions=False to keep the "
            "tagged versions.",
            tags=tagged,
        )
    forked = _forks(location, old)
    forks = {branch.referenced_version: f"branch {branch.name} starts at it" for branch in forked}
    unlisted = dict.fromkeys(
        _unlisted_forks(location) & old, "a branch that is being created needs it"
    )
    removed = old - set(tagged.values()) - forks.keys() - unlisted.keys()
    bases = merge_bases_among(location, removed)
    removed -= bases.keys()
    renamed = column_versions_among(location, loaded, removed)
    removed -= renamed.keys()
    needed_by = {**_reasons(renamed, _RENAMES), **_reasons(bases, _MERGE_BASE), **unlisted, **forks}
    if request.versions is not None and needed_by:
        raise _needed(location, needed_by)
    kept = [s for s in loaded if s.version not in removed] + _detached(location)
    needed = references(kept)
    verified = references((s for s in loaded if s.version in removed), own=True)
    manifests = {s.manifest_name for s in loaded if s.version in removed}
    blobs = [*(f.name for f, _, _ in listed.own), *(f.name for f, _ in listed.orphaned)]
    named = named_blobs(location, kept, loaded) if any(map(is_blob_file, blobs)) else NamedBlobs()
    files = [
        CleanupFile(path=f.name, kind=kind, unverified=not known, size_bytes=f.size)
        for f, kind, key in listed.own
        for known in [
            key in verified or (kind == "manifest" and key in manifests) or f.name in named.ever
        ]
        if key not in needed and not named.keeps(f.name)
        if known or (kind != "manifest" and _is_left_over(f, request, now))
    ]
    borrowed = borrowed_among(location, files)
    files = [file for file in files if file_key(file.path) not in borrowed]
    files += [
        CleanupFile(path=f.name, kind=kind, unverified=True, size_bytes=f.size)
        for f, kind in listed.orphaned
        if _is_left_over(f, request, now) and not named.keeps(f.name)
    ]
    return CleanupPlan(
        read_version=snapshot.version,
        latest=listing.latest,
        versions=tuple(sorted(removed)),
        files=tuple(files),
        branches=tuple(forked),
        tagged=tagged,
        left_alone=listed.left_alone,
        merge_bases=bases,
        column_versions=renamed,
    )


def _reasons(versions: Mapping[int, tuple[str, str]], why: str) -> dict[int, str]:
    return {version: why.format(*branches) for version, branches in versions.items()}


def _needed(location: BranchLocation, needed_by: Mapping[int, str]) -> RefConflictError:
    (version, why), *others = sorted(needed_by.items())
    more = "".join(f"; version {other}: {reason}" for other, reason in others[:4])
    more += f"; and {len(others) - 4} more" if len(others) > 4 else ""
    return RefConflictError(
        f"Version {version} of {location.name} cannot be removed: {why}{more}.",
        hint="Remove it from versions=. A version that a merge needs can be removed after the "
        "merge, a version that a branch needs after the branch is deleted.",
        versions=sorted(needed_by),
    )


def _is_old(
    found: Snapshot, at: Snapshot, request: CleanupRequest, versions: tuple[int, ...], now: float
) -> bool:
    if found.version >= (at.version if request.keep_from is None else request.keep_from):
        return False
    if request.versions is not None and found.version not in request.versions:
        return False
    keep = request.retain_versions
    if keep is not None and found.version in versions[-keep:]:
        return False
    if request.older_than is None:
        return True
    age = datetime.fromtimestamp(now, UTC) - found.manifest.timestamp
    return age > request.older_than  # not by date: now - older_than may be out of range


def _is_left_over(file: ObjectInfo, request: CleanupRequest, now: float) -> bool:
    return request.delete_unverified or file.modified < now - IN_FLIGHT.total_seconds()


# ---- versions and files to keep


def _forks(location: BranchLocation, old: set[int]) -> list[CleanupBranch]:
    return [
        CleanupBranch(name=name, referenced_version=branch.parent_version)
        for name, branch in sorted(all_branches(location.root).items())
        if branch.parent_branch == location.branch and branch.parent_version in old
    ]


def _unlisted_forks(location: BranchLocation) -> set[int]:
    """Return the fork versions of branches without an entry, which may be under creation.

    A branch's first version has the number of the version that it forked from.
    """
    listed = set(all_branches(location.root))
    first: dict[str, int] = {}
    for file in location.root.list_tree(names.TREE):
        folder, _, name = file.name.rpartition(f"/{names.VERSIONS}/")
        parsed = names.parse_manifest_name(name)
        branch = folder.removeprefix(f"{names.TREE}/")
        if parsed and branch not in listed:
            first[branch] = min(parsed[0], first.get(branch, parsed[0]))
    return set(first.values())


def borrowed_among(location: BranchLocation, files: Iterable[CleanupFile]) -> set[str]:
    """Return the keys of files that versions of other branches read.

    A fork reads files of its fork version, which stays.  A branch that was fast-forwarded to main
    also reads files of later versions of main.  Its newest version may lack them, if an older one
    was restored since.  So all versions of all branches are read, unless only manifests and
    transactions would go, as in a table with only appends.
    """
    if all(file.kind not in _BORROWED for file in files):
        return set()
    return references(chain.from_iterable(borrowers(location).values()))


def _detached(location: BranchLocation) -> list[Snapshot]:
    found = []
    for name in location.store.list_names(names.VERSIONS):
        stem = name.removesuffix(".manifest")
        if name != stem and re.fullmatch(r"d\d+", stem):
            found.append(load_snapshot(location, int(stem[1:])))
    return found


def references(snapshots: Iterable[Snapshot], *, own: bool = False) -> set[str]:
    """Return the keys (see `file_key`) of the files that versions refer to.

    Names are unique: no file in the branch's folder has the name of a file in another base path.
    So files in all base paths count, and with ``own`` only files in the branch's folder.
    """
    found: set[str] = set()
    seen: set[bytes] = set()
    for snapshot in snapshots:
        manifest = snapshot.manifest
        if manifest.transaction_file:
            found.add(f"{names.TRANSACTIONS}/{manifest.transaction_file}")
        found.update(
            f"{names.INDICES}/{index.uuid}"
            for index in snapshot.indices
            if index.base_id is None or not own
        )
        # most fragments are equal to the previous version's, byte for byte
        for message in FragmentList.of(manifest.fragments).encoded:
            if message not in seen:
                seen.add(message)
                found.update(_files_of(Fragment.from_bytes(message), own=own))
    return found


def _files_of(fragment: Fragment, *, own: bool) -> Iterator[str]:
    for file in fragment.files:
        if file.base_id is None or not own:
            yield f"{names.DATA}/{file.path.rpartition('/')[2].removesuffix('.lance')}"
    deletion = fragment.deletion_file
    if deletion is not None and (deletion.base_id is None or not own):
        yield deletion.name(fragment.id)
