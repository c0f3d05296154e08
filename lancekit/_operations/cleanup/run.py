"""Cleanup: explain or remove old versions, and files that no version needs any more.

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

#: the default number of files to remove concurrently
_CONCURRENCY = 8


@dataclass(frozen=True, kw_only=True, repr=False)
class CleanupExplanation(Displayed):
    """Explanation of a cleanup before it runs: counts, files, branches and warnings."""

    read_version: int
    stats: CleanupStats
    candidate_files: list[CleanupFile]
    candidate_files_truncated: bool
    candidate_file_limit: int
    referenced_branches: list[CleanupBranch]
    warnings: list[str]
    _call: Call | None = field(default=None, repr=False, compare=False)

    def apply(self) -> CleanupStats:
        """Run the explained cleanup, with the arguments of the explanation.

        The cleanup is planned again, so versions that are needed meanwhile stay.

        Raises
        ------
        InvalidArgumentError
            The explanation was applied already.
        NotOfferedError
            There is no call: the explanation came from another process, or was made by
            another function.
        LancekitError
            Any error of the cleanup.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://apply-cleanup-example")
        >>> _ = ds.insert({"x": [2]}, mode="overwrite")
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
    """Plan a cleanup and explain it; nothing is removed.

    tags_are_warnings: explain the plan even if tags would make the cleanup fail.
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
        f"the next merge of {one} and {other} keeps version {version}, to recognise renamed columns"
        for version, (one, other) in sorted(plan.column_versions.items())
    ]
    left = sorted(plan.left_alone.items())
    warnings += [f"{clean(name)} is kept: {why}" for name, why in left]
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


@tracking("cleaning up")
def clean_up(
    snapshot: Snapshot,
    request: CleanupRequest,
    *,
    per_second: int | None = None,
    concurrency: int | None = None,
) -> CleanupStats:
    """Plan a cleanup and run it.

    Manifests are removed first, the oldest first.  So an interrupted cleanup may leave files that
    no version refers to, but never a version without its files.

    per_second: the maximal number of files to remove in a second.
    concurrency: the maximal number of files to remove concurrently.
    """
    location = snapshot.location
    plan = plan_cleanup(snapshot, request)
    kept = _is_needed_since(location, plan)
    files = [file for file in plan.files if not kept(file.path)]
    manifests = [file for file in files if file.kind == "manifest"]
    # not by name: names of the newer scheme descend as versions ascend
    manifests.sort(key=lambda file: _version(file.path))
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
            if leads_away(error):  # it became a link after the plan
                left_alone.add(file.path)
            return False
        gone.append(file)
        return True

    attempt = attempted(lambda _: _interrupt_message(gone, len(files)), lambda: False)
    removed = [file for file in manifests if remove(file)]
    gone_manifests = len(removed) == len(manifests)
    # if a manifest could not be removed, the version's files stay, too
    candidates = [file for file in rest if gone_manifests or file.unverified]
    threads = 1 if per_second else concurrency or _CONCURRENCY
    with (
        tracking("removing files", len(candidates)) as tracker,
        ThreadPoolExecutor(threads) as pool,
    ):
        # manifests identify the folder of a branch, so they are removed last
        for identifying in (False, True):
            batch = [file for file in candidates if _identifies_branch(file) is identifying]
            for file, is_gone in zip(batch, pool.map(remove, batch), strict=True):
                removed += [file] if is_gone else []
                tracker.advance()
                tracker.draw()
    _remove_empty(location, removed)
    attempt.settle(True)
    return CleanupStats.of(removed, len(manifests) + len(candidates) - len(removed), left_alone)


def _remove_empty(location: BranchLocation, removed: Iterable[CleanupFile]) -> None:
    """Remove empty folders of indices; errors are ignored."""
    for folder in {_segment(file.path) for file in removed if file.kind == "index"}:
        with suppress(OSError):
            # also lists uncommitted parts of an index, in folders below
            if not location.store.list_tree(folder):
                location.store.delete_tree(folder)


def _segment(path: str) -> str:
    above, marker, below = path.partition(f"{names.INDICES}/")
    return f"{above}{marker}{below.partition('/')[0]}"


def _identifies_branch(file: CleanupFile) -> bool:
    return file.path.startswith(f"{names.TREE}/") and file.path.endswith(".manifest")


def _version(path: str) -> int:
    parsed = names.parse_manifest_name(path.rpartition("/")[2])
    return parsed[0] if parsed else 0


def _is_needed_since(location: BranchLocation, plan: CleanupPlan) -> Callable[[str], bool]:
    """Return a function that is True for files that became needed after the plan was made.

    New versions, tags, branches and merges need them, or branches that read them in place.
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


def _interrupt_message(gone: list[CleanupFile], planned: int) -> str:
    """Return the message for an interrupted cleanup: how much it had removed."""
    versions = sum(file.kind == "manifest" for file in gone)
    return (
        f"the cleanup removed at least {len(gone)} of {planned} files, including the manifests of "
        f"{versions} versions (call it again to remove the rest)"
    )
