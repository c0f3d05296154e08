"""Cleanup: old versions go, and the files that no version needs any more.

See docs/format/operations.md, 6.6.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import cast

from lancekit._call import Call, applied
from lancekit._display import Displayed
from lancekit._format import names
from lancekit._interrupts import attempted
from lancekit._legible import clean
from lancekit._operations.cleanup.files import file_key, merge_bases_among
from lancekit._operations.cleanup.plan import (
    CleanupBranch,
    CleanupFile,
    CleanupPlan,
    CleanupRequest,
    CleanupStats,
    borrowed_among,
    plan_cleanup,
    references,
)
from lancekit._storage.base import Store
from lancekit._storage.folders import leads_away
from lancekit._versions.branch_location import BranchLocation
from lancekit._versions.listing import list_versions
from lancekit._versions.reference_files import all_branches, all_tags
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import StorageError
from lancekit.progress import tracking

#: files that are removed at a time, if nothing else is asked for
_CONCURRENCY = 8


@dataclass(frozen=True, kw_only=True, repr=False)
class CleanupExplanation(Displayed):
    """What a cleanup would remove."""

    read_version: int
    stats: CleanupStats
    candidate_files: list[CleanupFile]
    candidate_files_truncated: bool
    candidate_file_limit: int
    referenced_branches: list[CleanupBranch]
    warnings: list[str]
    _call: Call | None = field(default=None, repr=False, compare=False)

    def apply(self) -> CleanupStats:
        """Remove the old versions, with the arguments that this was made with.

        What goes is worked out anew: what somebody came to need meanwhile stays.

        Raises
        ------
        InvalidArgumentError
            It was applied already.
        NotOfferedError
            There is no call: the explanation came from another process, or was made by
            another function.
        LancekitError
            What the call raises.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://apply-cleanup-example")
        >>> ds.insert({"x": [2]}, mode="overwrite")
        >>> plan = ds.explain_cleanup_old_versions(retain_versions=1)
        >>> plan.stats.old_versions, plan.apply().old_versions
        (1, 1)
        """
        return cast("CleanupStats", applied(self._call))

    def _plain(self) -> str:
        return f"CleanupExplanation(read_version={self.read_version}, stats={self.stats._plain()})"


def explain_cleanup(
    snapshot: Snapshot,
    request: CleanupRequest,
    *,
    include_files: bool,
    max_files: int,
    tags_are_warnings: bool = False,
) -> CleanupExplanation:
    """Plan a cleanup and tell what it would do; nothing is removed.

    With ``tags_are_warnings`` the plan is shown, too, where tags would make the cleanup fail.
    """
    planned = replace(request, error_if_tagged_old_versions=False) if tags_are_warnings else request
    plan = plan_cleanup(snapshot, planned)
    cut = include_files and len(plan.files) > max_files
    warnings = [f"{name!r} keeps version {version}" for name, version in plan.tagged.items()]
    if plan.tagged and request.error_if_tagged_old_versions:
        warnings.append(
            "cleanup_old_versions() refuses to start because of these tags: pass "
            "error_if_tagged_old_versions=False to keep the tagged versions and remove the others"
        )
    warnings += [
        f"the next merge of {one} and {other} keeps version {version}, their merge base"
        for version, (one, other) in sorted(plan.merge_bases.items())
    ]
    warnings += [
        f"the next merge of {one} and {other} keeps version {version}, which shows renamed columns"
        for version, (one, other) in sorted(plan.column_versions.items())
    ]
    left = sorted(plan.left_alone.items())
    warnings += [f"{clean(name)} is left alone: {why}" for name, why in left]
    if cut:
        warnings.append(f"only {max_files} of {len(plan.files)} files are listed")
    return CleanupExplanation(
        read_version=plan.read_version,
        stats=CleanupStats.of(plan.files, left_alone=plan.left_alone),
        candidate_files=list(plan.files[:max_files]) if include_files else [],
        candidate_files_truncated=cut,
        candidate_file_limit=max_files,
        referenced_branches=list(plan.branches),
        warnings=warnings,
    )


def clean_up(
    snapshot: Snapshot,
    request: CleanupRequest,
    *,
    per_second: int | None = None,
    concurrency: int | None = None,
) -> CleanupStats:
    """Plan a cleanup and carry it out.

    Manifests go first, oldest first: a cleanup that dies leaves files that no version refers to,
    and never a version without its files.

    per_second: the most files that are removed in a second.
    concurrency: the most that are removed at a time.
    """
    location = snapshot.location
    plan = plan_cleanup(snapshot, request)
    kept = _needed_since(location, plan)
    files = [file for file in plan.files if not kept(file.path)]
    manifests = [file for file in files if file.kind == "manifest"]
    # names of the newer scheme descend with their versions
    manifests.sort(key=lambda file: _age(file.path), reverse=True)
    rest = [file for file in files if file.kind != "manifest"]
    left_alone = set(plan.left_alone)
    gone: list[CleanupFile] = []

    def remove(file: CleanupFile) -> bool:
        if per_second:
            time.sleep(1 / per_second)
        store: Store = location.root if file.path.startswith("_refs/") else location.store
        try:
            store.delete(file.path)
        except StorageError as error:
            if leads_away(error):  # since it was planned
                left_alone.add(file.path)
            return False
        gone.append(file)
        return True

    attempt = attempted(lambda _: _told(gone, len(files)), lambda: False)
    removed = [file for file in manifests if remove(file)]
    gone_manifests = len(removed) == len(manifests)
    # where a version could not be removed, its files stay with it
    candidates = [file for file in rest if gone_manifests or file.unverified]
    threads = 1 if per_second else concurrency or _CONCURRENCY
    with (
        tracking("removing files", len(candidates)) as tracker,
        ThreadPoolExecutor(threads) as pool,
    ):
        # what tells a folder to be that of a branch goes last
        for telling in (False, True):
            batch = [file for file in candidates if _tells_a_branch(file) is telling]
            for file, is_gone in zip(batch, pool.map(remove, batch), strict=True):
                removed += [file] if is_gone else []
                tracker.advance()
                tracker.draw()
    _remove_empty(location, removed)
    attempt.settle(True)
    return CleanupStats.of(removed, len(manifests) + len(candidates) - len(removed), left_alone)


def _remove_empty(location: BranchLocation, removed: Iterable[CleanupFile]) -> None:
    """Remove the folders of indices that have no file any more; best effort."""
    for folder in {_segment(file.path) for file in removed if file.kind == "index"}:
        with suppress(OSError):
            if not location.store.list_tree(
                folder
            ):  # parts that wait in a folder below are files, too
                location.store.delete_tree(folder)


def _segment(path: str) -> str:
    above, marker, below = path.partition(f"{names.INDICES}/")
    return f"{above}{marker}{below.partition('/')[0]}"


def _tells_a_branch(file: CleanupFile) -> bool:
    return file.path.startswith(f"{names.TREE}/") and file.path.endswith(".manifest")


def _age(path: str) -> int:
    parsed = names.parse_manifest_name(path.rpartition("/")[2])
    return -parsed[0] if parsed else 0


def _needed_since(location: BranchLocation, plan: CleanupPlan) -> Callable[[str], bool]:
    """Return what tells files that came to be needed since the plan was made.

    By new versions, tags, branches and merges, and by lines that read files where they are.
    """
    found = [v for v in list_versions(location).versions if v > plan.latest]
    tags = [t.version for t in all_tags(location.root).values() if t.branch == location.branch]
    forks = all_branches(location.root)
    parents = [b.parent_version for b in forks.values() if b.parent_branch == location.branch]
    planned = set(plan.versions)
    again = sorted({*tags, *parents, *merge_bases_among(location, planned)} & planned)
    snapshots = [load_snapshot(location, version) for version in (*found, *again)]
    kept = references(snapshots) | borrowed_among(location, plan.files)
    kept |= {snapshot.manifest_name for snapshot in snapshots}
    folders = tuple(f"{names.branch_folder(name)}/" for name in forks)
    return lambda path: file_key(path) in kept or path.startswith(folders)


def _told(gone: list[CleanupFile], planned: int) -> str:
    """Return what an interrupt says of a cleanup."""
    versions = sum(file.kind == "manifest" for file in gone)
    return (
        f"at least {len(gone)} of {planned} files were removed by the cleanup, manifests of "
        f"{versions} versions among them (it removes the others when it is called again)"
    )
