"""Files that a cleanup may remove, and versions and blobs that it must keep for other readers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations

from lancekit._commit.refs import holds_branch
from lancekit._format import names
from lancekit._format.field_marks import is_blob_v2
from lancekit._format.names import MAIN
from lancekit._pipeline.diff.column_identity import column_versions
from lancekit._pipeline.engine import LocalRunner
from lancekit._scan.fragments.managed_blobs import managed_blobs
from lancekit._scan.fragments.source import FragmentSource, fragment_sources
from lancekit._storage.base import ObjectInfo, Store, is_name, is_temporary
from lancekit._versions.ancestor import source_of, unique_name
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.commit_graph import CommitGraph
from lancekit._versions.listing import at_once, latest_snapshot, list_versions
from lancekit._versions.merge_edges import VersionVector, check_requirements
from lancekit._versions.reference_files import all_branches, branch_files
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import (
    BranchNotFoundError,
    DatasetNotFoundError,
    FormatError,
    UnsupportedFeatureError,
    UntrustedBaseError,
    VersionNotFoundError,
)

#: folder, name pattern, kind; the pattern's group is the file's reference key
_KINDS: tuple[tuple[str, re.Pattern[str], str], ...] = tuple(
    (folder, re.compile(pattern), kind)
    for folder, pattern, kind in (
        (names.DATA, names.DATA_FILE, "data"),
        (names.BLOBS, r"(_blobs/[^/]+\.blob)", "data"),
        (names.DELETIONS, r"(_deletions/[^/]+\.(?:arrow|bin))", "deletion"),
        (names.TRANSACTIONS, r"(_transactions/[^/]+\.txn)", "transaction"),
        (names.INDICES, r"(_indices/[^/]+)/.+", "index"),
        (names.VERSIONS, r"_versions/(\d+\.manifest)", "manifest"),
        # temporary manifests, of a store that commits by rename or by a lock
        (names.VERSIONS, r"(_versions/(?:\.tmp.*|\d+\.manifest[-.].+))", "temporary_manifest"),
    )
)
_FOLDERS = (
    names.DATA, names.BLOBS, names.DELETIONS, names.TRANSACTIONS, names.INDICES, names.VERSIONS
)  # fmt: skip

#: a file, its kind, and its reference key
_Classified = tuple[ObjectInfo, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Files that a cleanup may remove.

    own: files of the branch that is cleaned up.
    orphaned: files of branches without an entry, each with its kind.
    left_alone: other entries of these folders, each with the reason to leave it alone.
    """

    own: list[_Classified] = field(default_factory=list)
    orphaned: list[tuple[ObjectInfo, str]] = field(default_factory=list)
    left_alone: dict[str, str] = field(default_factory=dict)


def file_key(name: str) -> str:
    """Return the reference key of a file, as in `plan.references`, from its name in the branch."""
    for folder, pattern, _ in _KINDS:
        found = pattern.fullmatch(name) if name.startswith(f"{folder}/") else None
        if found:
            return found[1]
    return name


def list_files(location: BranchLocation) -> Listed:
    """List the files of a branch; for main, also leftovers of branches without an entry."""
    listed = Listed()
    for folder in _FOLDERS:
        for file in _regular(location.store, folder, listed):
            listed.own.extend(_classified(file, folder))
    for folder in (names.TAGS, names.BRANCHES):
        for file in _regular(location.root, folder, listed):
            # crashes may leave temporary files beside tags and branches
            if is_temporary(file.name):
                listed.own.append((file, "temporary", file.name))
    if location.branch is None:
        listed.orphaned.extend(_orphaned(location, listed))
    return listed


def _regular(store: Store, folder: str, listed: Listed) -> Iterator[ObjectInfo]:
    for file in store.list_tree(folder):
        if not file.regular:
            listed.left_alone[file.name] = "a link or a special file"
        elif not is_name(file.name):
            listed.left_alone[file.name] = "a name that points elsewhere"
        else:
            yield file


def _classified(file: ObjectInfo, folder: str) -> Iterator[_Classified]:
    if is_temporary(file.name):
        kind = "temporary_manifest" if folder == names.VERSIONS else "temporary"
        yield file, kind, file.name
        return
    for place, pattern, kind in _KINDS:
        found = pattern.fullmatch(file.name) if place == folder else None
        if found:
            yield file, kind, found[1]
            return


def _orphaned(location: BranchLocation, listed: Listed) -> Iterator[tuple[ObjectInfo, str]]:
    """Yield the files in folders of branches without an entry, each with its kind.

    Such a branch was deleted in part, or is being created; the age of its files decides which.
    Its manifests are written first and deleted last.  So a folder without manifests that name the
    branch is not a branch.
    """
    branches = [f"{names.branch_folder(name)}/" for name in all_branches(location.root)]
    are_branches: dict[str, bool] = {}
    for file in _regular(location.root, names.TREE, listed):
        # the longest, because a branch may be in the folder of another one
        own = max((b for b in branches if file.name.startswith(b)), key=len, default="")
        rest = file.name.removeprefix(own).split("/")
        if own and rest[0] in _FOLDERS:
            continue
        for start in range(1 if own else 2, len(rest)):
            kind = _kind_in_branch(file, rest[start:])
            if kind is None:
                continue
            branch = (own + "/".join(rest[:start])).removeprefix(f"{names.TREE}/")
            if branch not in are_branches:
                are_branches[branch] = holds_branch(location.on(branch))
            if are_branches[branch]:
                yield file, kind
            else:
                listed.left_alone[names.branch_folder(branch)] = "not a branch of this dataset"
            break


def _kind_in_branch(file: ObjectInfo, parts: list[str]) -> str | None:
    if parts == [names.VERSIONS, names.HINT]:
        return "temporary"
    if parts[0] not in _FOLDERS:  # still part of the branch's name
        return None
    for _, kind, _ in _classified(replace(file, name="/".join(parts)), parts[0]):
        return "temporary_manifest" if kind == "manifest" else kind
    return None


# ---- the versions of a branch that the next merge of two branches needs
#
# A merge compares with merge bases, and follows columns through the versions after them.


def merge_bases_among(
    location: BranchLocation, versions: Set[int]
) -> Mapping[int, tuple[str, str]]:
    """Return the merge bases of two branches among versions of a branch, with the two names.

    The newest manifest of each branch is read once, and base versions if there are several
    candidates.  Pairs of branches without a merge are skipped: their merge base is a fork version,
    which the cleanup keeps anyway.
    """
    names = branch_files(location.root)
    if not versions or not names:
        return {}
    graph, own = CommitGraph(location), unique_name(location)
    found: dict[int, tuple[str, str]] = {}
    for (one, left), (other, right) in combinations(_heads(graph, location, names), 2):
        common = min(left.versions.get(own, 0), right.versions.get(own, 0))
        if common not in versions or not (left.edges or right.edges):
            continue
        for base in graph.merge_bases(one, other):
            if base.name == own:
                found[base.version] = (one.location.name, other.location.name)
    return found


def column_versions_among(
    location: BranchLocation, there: Sequence[Snapshot], removed: Set[int]
) -> Mapping[int, tuple[str, str]]:
    """Return versions that a merge needs to follow renamed columns, with the two branches of each.

    location: the branch that is cleaned up.
    there: its versions, oldest first.
    removed: the numbers of versions to remove.
    """
    names = branch_files(location.root)
    if not (removed and names):
        return {}
    before = there[0]
    if location.branch is not None and before.version in removed:
        before = source_of(location) or before  # the history goes on there
    found, gap = list[tuple[int, int, set[int]]](), list[Snapshot]()
    for at in (one for one in there if one.version > before.version):
        gap.append(at)
        if at.version not in removed:
            renamed = column_versions(before, gap) & removed if gap[1:] else set()
            found += [(before.version, at.version, renamed)] if renamed else []
            before, gap = at, []
    if not found:
        return {}
    graph, own = CommitGraph(location), unique_name(location)
    needed: dict[int, tuple[str, str]] = {}
    for (one, left), (other, right) in combinations(_heads(graph, location, names), 2):
        versions = sorted(side.versions.get(own, 0) for side in (left, right))
        for first, last, renamed in found:
            if versions[0] < last and first < versions[1]:
                needed |= dict.fromkeys(renamed, (one.location.name, other.location.name))
    return needed


def _heads(
    graph: CommitGraph, location: BranchLocation, names: Iterable[str]
) -> Iterator[tuple[Snapshot, VersionVector]]:
    """Yield the newest version of main and of each branch, with its version vector."""
    for head in at_once(_newest, [location.on(name) for name in (MAIN, *names)]):
        with suppress(BranchNotFoundError):  # deleted meanwhile
            if head is not None:
                yield head, graph.vector(head)


def _newest(location: BranchLocation) -> Snapshot | None:
    """Return the newest version of a branch; ``None`` if missing or damaged: it cannot be merged.

    Raises UnsupportedFeatureError: only a newer release can read the branch or its merge bases.
    """
    try:
        newest = latest_snapshot(location)
        check_requirements(newest, "A cleanup")
    except UnsupportedFeatureError:
        raise
    except (DatasetNotFoundError, VersionNotFoundError, FormatError):
        return None
    return newest


# ---- blob files that the data files of a dataset name: managed blobs, and adopted ones
#
# See docs/format/data-files.md, 10.  A compaction of a table with managed blobs moves rows but not
# their blobs, which may be files of the table or of the branch that it forked from.  Only data
# files name these blobs.


@dataclass(frozen=True, slots=True)
class NamedBlobs:
    """Paths of blob files, relative to their dataset or branch; no two folders share a path.

    needed: paths that the kept versions name, ``None`` if unknown.
    ever: paths that any version names.
    managed: the dataset may have managed blobs.
    """

    needed: frozenset[str] | None = frozenset()
    ever: frozenset[str] = frozenset()
    managed: bool = False

    def keeps(self, path: str) -> bool:
        """Return True if a cleanup must leave a file because of its blobs."""
        if not is_blob_file(path):
            return False
        if not self.managed:  # a blob beside a data file goes with it
            return names.BLOBS in path.split("/")
        # the path may start in the folder of a branch without an entry
        parts = path.split("/")
        tails = ("/".join(parts[start:]) for start in range(len(parts)))
        return self.needed is None or any(tail in self.needed for tail in tails)


def is_blob_file(path: str) -> bool:
    """Return True if a path names a blob file."""
    return path.endswith(".blob")


def named_blobs(
    location: BranchLocation, kept: Sequence[Snapshot], loaded: Sequence[Snapshot]
) -> NamedBlobs:
    """Return the blob files that the data files of a dataset name.

    location: the branch to clean up.
    kept, loaded: its versions to keep, and all its versions.
    """
    locations = [
        location.on(name) for name in (MAIN, *branch_files(location.root)) if name != location.name
    ]
    try:
        managed = any(s.manifest.has_managed_blobs for s in kept) or any(
            map(_is_managed, locations)
        )
        if not managed:  # the flag is never cleared, so the newest version of a branch decides
            return NamedBlobs()
        others = [snapshot for other in locations for snapshot in _versions(other)]
    except FormatError:
        return NamedBlobs(needed=None, managed=True)
    read: dict[object, frozenset[str]] = {}
    try:
        needed = _named_by([*kept, *others], read)
        ever = _named_by(loaded, read)
    except (FormatError, UntrustedBaseError):  # the needed blobs are unknown
        return NamedBlobs(needed=None, managed=True)
    return NamedBlobs(needed, ever | needed, managed=True)


def _is_managed(location: BranchLocation) -> bool:
    try:
        return latest_snapshot(location).manifest.has_managed_blobs
    except DatasetNotFoundError:
        return False


def _versions(location: BranchLocation) -> Iterator[Snapshot]:
    try:
        listed = list_versions(location).versions
    except DatasetNotFoundError:
        return
    for version in listed:
        with suppress(VersionNotFoundError):  # cleaned up meanwhile
            yield load_snapshot(location, version)


def _named_by(snapshots: Iterable[Snapshot], read: dict[object, frozenset[str]]) -> frozenset[str]:
    """Return the blob paths that the data files of versions name; each file is read once."""
    sources: dict[object, FragmentSource] = {}
    for snapshot in snapshots:
        if snapshot.manifest.has_managed_blobs:
            for source in fragment_sources(snapshot):
                columns = (f.id for f in source.schema.walk() if is_blob_v2(f.metadata))
                key: object = (*map(str, source.files), *columns)
                # with deleted rows, which an older version may still have
                sources.setdefault(key, replace(source, with_deleted=True))
    fresh = [key for key in sources if key not in read]
    found = LocalRunner().map(lambda key: managed_blobs(sources[key]), fresh)
    for key, blobs in zip(fresh, found, strict=True):
        read[key] = frozenset(blob.path for blob in blobs)
    return frozenset().union(*(read[key] for key in sources))
