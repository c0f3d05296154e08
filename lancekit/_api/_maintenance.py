"""The part of a dataset handle that maintains files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._arguments.checks import check_count, check_flag, check_hints, check_place
from lancekit._checked import checked_methods
from lancekit._legible import shown
from lancekit._versions.branch_location import open_location
from lancekit.errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    from lancekit._api.answer import Answer
    from lancekit._api.fragment import LanceFragment
    from lancekit._api.lance_stats import LanceStats
    from lancekit._api.listed import Listed
    from lancekit._api.optimizer import DatasetOptimizer
    from lancekit._operations.cleanup.plan import CleanupRequest, CleanupStats
    from lancekit._operations.cleanup.run import CleanupExplanation
    from lancekit._operations.maintenance.deepen import DeepenResult

    _Static = staticmethod[..., Answer]
else:
    _Static = staticmethod  # not subscriptable at run time


class _Removal(_Static):
    """The static method `drop`; called on a handle, it accepts only absolute paths and URIs.

    In pandas and Polars, a method of this name drops columns, and a path can look like a column.
    """

    def __get__(self, instance: object, owner: type | None = None, /) -> Callable[..., Answer]:
        remove = super().__get__(instance, owner)
        if instance is None:
            return remove

        @wraps(remove)
        def remove_elsewhere(*args: object, **kwargs: object) -> Answer:
            place = args[0] if args else kwargs.get("base_uri")
            if not (isinstance(place, str | os.PathLike) and _is_absolute(os.fspath(place))):
                given = kwargs if place is None and kwargs else place
                raise InvalidArgumentError(
                    "drop() removes a whole dataset. Called on a handle, it needs an absolute "
                    f"path or a URI, got {shown(given)}.",
                    hint=f"Use ds.drop_columns({_columns(place, kwargs)}) to remove columns, or "
                    "lk.LanceDataset.drop(path) to remove a dataset.",
                    argument="base_uri",
                )
            return remove(*args, **kwargs)

        return remove_elsewhere


def _columns(place: object, given: Mapping[str, object]) -> list[str]:
    """Return the columns that a drop in the manner of pandas means; an example without any."""
    meant = given.get("columns", given.get("labels", place))
    names = [meant] if isinstance(meant, str) else meant
    return [str(name) for name in names] if isinstance(names, list | tuple) else ["x"]


def _is_absolute(place: str | bytes) -> bool:
    text = os.fsdecode(place)
    return "://" in text or Path(text).is_absolute()


@checked_methods
class Maintenance(Handle):
    """Fragments, compaction, cleanup, file listings, validation, and the removal of a dataset."""

    @property
    def optimize(self) -> DatasetOptimizer:
        """Compaction and index maintenance."""
        from lancekit._api.optimizer import DatasetOptimizer

        return DatasetOptimizer(self)

    def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: list[int] | None = None,
        delete_concurrency: int | None = None,
    ) -> CleanupStats:
        """Remove old versions of the handle's branch, and files that no version needs.

        The handle's version and all newer ones stay, with their files.  So do tagged versions, fork
        points of branches, and merge bases of two branches.  Versions also stay if only they show
        the next merge which columns were renamed.  A shallow clone elsewhere protects nothing.

        Parameters
        ----------
        older_than
            Remove versions older than this; two weeks if nothing else is given.
        retain_versions
            The number of newest versions to keep.
        delete_unverified
            Also remove files that belong to no version and are less than seven days old.  This
            destroys the files of concurrent commits: use it only if nobody else writes.
        error_if_tagged_old_versions
            Whether a tagged version among the old ones is an error, or is skipped.
        delete_rate_limit, delete_concurrency
            The most files to remove per second, and at the same time.
        versions
            Remove only these versions.

        Returns
        -------
        CleanupStats
            The numbers of removed versions, files and bytes.

        Raises
        ------
        RefConflictError
            A version to remove is tagged, or a branch or its next merge needs one of ``versions``.
        InvalidArgumentError
            An argument is out of range.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://cleanup-example")
        >>> _ = ds.insert({"x": [2]}, mode="overwrite")
        >>> ds.cleanup_old_versions(retain_versions=1).old_versions
        1
        """
        from lancekit._operations.cleanup.run import clean_up

        request = _cleanup(
            older_than, retain_versions, delete_unverified, error_if_tagged_old_versions, versions
        )
        limits = {"delete_rate_limit": delete_rate_limit, "delete_concurrency": delete_concurrency}
        for name, value in limits.items():
            if value is not None:
                check_count(name, value, least=1)
        return clean_up(
            self._snapshot, request, per_second=delete_rate_limit, concurrency=delete_concurrency
        )

    def explain_cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: list[int] | None = None,
        include_files: bool = False,
        max_files: int = 1000,
    ) -> CleanupExplanation:
        """Plan `cleanup_old_versions` without removing files; `apply` of the plan removes them.

        Parameters
        ----------
        include_files, max_files
            Whether to list files, and how many at most; others as in `cleanup_old_versions`.

        Returns
        -------
        CleanupExplanation
            The versions and files to remove.

        Raises
        ------
        RefConflictError, InvalidArgumentError
            As in `cleanup_old_versions`.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://plan-cleanup-example")
        >>> _ = ds.insert({"x": [2]})
        >>> ds.explain_cleanup_old_versions(retain_versions=1).stats.old_versions
        1
        """
        from lancekit._call import Call
        from lancekit._operations.cleanup.run import explain_cleanup

        check_hints(delete_rate_limit=delete_rate_limit)  # nothing is removed
        request = _cleanup(
            older_than, retain_versions, delete_unverified, error_if_tagged_old_versions, versions
        )
        most = check_count("max_files", max_files, least=1)
        plan = explain_cleanup(self._snapshot, request, include_files=include_files, max_files=most)
        call = Call(
            self.cleanup_old_versions,
            older_than,
            retain_versions,
            delete_unverified=delete_unverified,
            error_if_tagged_old_versions=error_if_tagged_old_versions,
            delete_rate_limit=delete_rate_limit,
            versions=versions,
        )
        return replace(plan, _call=call)

    @property
    def stats(self) -> LanceStats:
        """Statistics of this version.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": range(1000)}, "memory://stats-example")
        >>> ds.stats.dataset_stats()
        {'num_deleted_rows': 0, 'num_fragments': 1, 'num_small_files': 1}
        """
        from lancekit._api.lance_stats import LanceStats

        return LanceStats(self._snapshot)

    def all_files(self) -> pa.RecordBatchReader:
        """List all files in the folder of the handle's branch, also unneeded ones.

        Returns
        -------
        pyarrow.RecordBatchReader
            ``base_uri`` (the folder), ``path`` (in it), ``size_bytes`` and ``last_modified``.
        """
        from lancekit._operations.maintenance.inventory import ALL_FILES, all_files

        return pa.RecordBatchReader.from_batches(ALL_FILES, all_files(self._location))

    def get_fragments(self, filter: object = None) -> Listed[LanceFragment]:  # noqa: A002
        """Return the fragments in row order; ``.to_pandas()`` returns them as a frame."""
        from lancekit._api.fragment import LanceFragment
        from lancekit._api.listed import Listed
        from lancekit._scan.fragments.source import fragment_sources

        if filter is not None:
            raise InvalidArgumentError(
                "get_fragments(filter=...) is not supported.", hint="Use scanner(filter=...)."
            )
        found = (LanceFragment._of(self, source) for source in fragment_sources(self._snapshot))
        return Listed(found, ("fragment_id", "physical_rows", "num_deletions"))

    def get_fragment(self, fragment_id: int) -> LanceFragment | None:
        """Return the fragment with an id, or ``None``."""
        found = (f for f in self.get_fragments() if f.fragment_id == fragment_id)
        return next(found, None)

    def remap_row_addrs(self, addrs: pa.Array) -> pa.Array | None:
        """Translate row addresses from before compactions with ``defer_index_remap=True``.

        Only compactions that some index has not caught up with are applied.

        Parameters
        ----------
        addrs
            Row addresses as uint64, for example from ``_rowaddr``.  Nulls are allowed.

        Returns
        -------
        pa.Array | None
            The current addresses.  Nulls and deleted rows are null, and rows that did not move keep
            their address.  ``None`` if no such compaction is recorded.

        Raises
        ------
        InvalidTypeError
            ``addrs`` is not an array of uint64.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> ds = lk.write_dataset({"x": range(4)}, "memory://moved-example", max_rows_per_file=2)
        >>> _ = ds.create_scalar_index("x", "BTREE")
        >>> done = ds.optimize.compact_files(defer_index_remap=True)
        >>> ds.remap_row_addrs(pa.array([1 << 32], pa.uint64())).to_pylist()
        [8589934594]
        """
        from lancekit._index.search.reuse import reuse_of

        if not isinstance(addrs, pa.Array) or addrs.type != pa.uint64():
            raise InvalidTypeError(
                f"addrs must be an array of uint64, got {shown(addrs)}.",
                hint="Pass pa.array([...], pa.uint64()).",
                argument="addrs",
            )
        reuse = reuse_of(self._snapshot)
        if reuse is None:
            return None
        valid = addrs.is_valid().to_numpy(zero_copy_only=False)
        rows, exists = reuse.moved(addrs.fill_null(0).to_numpy())
        return pa.array(rows, mask=~(valid & exists))

    def tracked_files(
        self,
        *,
        min_version: int | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> pa.RecordBatchReader:
        """List the files that versions of the handle's branch reference, version by version.

        Parameters
        ----------
        min_version
            The first version to list; all versions by default.
        progress
            Called after each version with the number of finished versions and of all versions.

        Returns
        -------
        pyarrow.RecordBatchReader
            ``version``, ``base_uri`` and ``path`` of the file, and its ``type``: ``manifest``,
            ``transaction file``, ``data file``, ``deletion file`` or ``index file``.

        Raises
        ------
        InvalidArgumentError
            ``min_version`` is negative.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://tracked-files-example")
        >>> ds.tracked_files().read_all()["type"].to_pylist()
        ['manifest', 'transaction file', 'data file']
        """
        from lancekit._operations.maintenance.inventory import TRACKED_FILES, tracked_files

        first = 0 if min_version is None else check_count("min_version", min_version)
        batches = tracked_files(self._location, first, progress)
        return pa.RecordBatchReader.from_batches(TRACKED_FILES, batches)

    def validate(self, *, deep: bool = False, sources: bool = False) -> Answer:
        """Check this version, and raise an error for damage.

        Parameters
        ----------
        deep
            Read every value, and verify the checksums of files that have them.  By default only the
            manifest and the structure of each file are read.
        sources
            First check that all files in other places exist with their sizes: in a shallow clone's
            source and in base paths.  The error names all places with missing files.  Warns if the
            source version of a clone was cleaned up.

        Returns
        -------
        Answer
            The change, and the call that undoes it.

        Raises
        ------
        CorruptFileError
            A file is damaged.  The error names the file, and the column and page if known.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://validate-example")
        >>> ds.validate(deep=True)
        no damage in 1 data file: every value was read · main:1
        """
        from lancekit._api.answer import answer
        from lancekit._operations.maintenance.validate import validate_sources, validate_version

        if check_flag("sources", sources):
            validate_sources(self._snapshot)
        validate_version(self._snapshot, deep=check_flag("deep", deep))
        return answer("validate", self._snapshot, self._snapshot, deep=deep)

    def deepen(self) -> DeepenResult:
        """Copy the table's files in other places into its own folder; the handle moves.

        A shallow clone, a branch, or a table with base paths then needs only its own folder.  Rows,
        row ids, row versions and indices do not change.  Older versions do not change, and still
        read from the other places.  On one disk files are linked; in one bucket the server copies
        them.  An interruption leaves the table unchanged; the next call reuses copied files.

        Returns
        -------
        DeepenResult
            The copied files and bytes.  If there is nothing to copy, no version is created.

        Raises
        ------
        CorruptFileError
            A file is missing, or its size differs from the version's entry.
        RetriesExhaustedError
            Other writers changed the same fragments again and again.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://deepened-example")
        >>> clone = ds.shallow_clone("memory://deepened-clone-example", 1)
        >>> clone.deepen().files_copied
        1
        >>> _ = lk.LanceDataset.drop("memory://deepened-example")
        >>> clone.count_rows("x > 1")
        1
        """
        from lancekit._operations.common.retry import RetryPolicy
        from lancekit._operations.maintenance.deepen import deepen

        return self._move(lambda snapshot: deepen(snapshot, RetryPolicy()))

    def migrate_manifest_paths_v2(self) -> Answer:
        """Rename the branch's manifests to the newer scheme, which sorts the newest version first.

        A dataset of an old release then opens faster on stores that list names in order.  Versions
        and handles stay valid.  Other writers should pause: a concurrent commit under an old name
        may have to be repeated.  The next call finishes an interrupted migration.
        """
        from lancekit._api.answer import answer
        from lancekit._versions.listing import migrate_names

        moved = migrate_names(self._location)
        return answer("migrate_manifest_paths_v2", self._snapshot, self._snapshot, manifests=moved)

    @_Removal
    def drop(
        base_uri: str | os.PathLike[str],  # noqa: N805  # a static method
        storage_options: Mapping[str, str] | None = None,
        ignore_not_found: bool | None = None,
    ) -> Answer:
        """Remove a dataset, and its folder if no other files are in it.

        Files that do not belong to the dataset stay.  Files behind links and in base paths stay,
        too, and a warning names them.  Call it on the class.  A handle only takes absolute paths
        and URIs, because many readers take ``ds.drop("x")`` for the removal of a column.

        Parameters
        ----------
        base_uri
            The folder of the dataset, which must have a readable version.
        storage_options
            Credentials and settings of an object store.
        ignore_not_found
            Do nothing if the folder does not exist.

        Returns
        -------
        Answer
            The change that was made.

        Raises
        ------
        DatasetNotFoundError
            There are no files at ``base_uri``.
        InvalidArgumentError
            ``base_uri`` is no dataset, or is a branch; or a handle got a relative path.

        Examples
        --------
        >>> import lancekit as lk
        >>> _ = lk.write_dataset({"x": [1]}, "memory://drop-example")
        >>> lk.LanceDataset.drop("memory://drop-example")
        dropped memory://drop-example with 1 row
        >>> lk.LanceDataset.drop("memory://drop-example", ignore_not_found=True)
        nothing to drop: there is no dataset at memory://drop-example
        """
        from lancekit._api.answer import Answer
        from lancekit._operations.maintenance.drop import drop_dataset

        location = open_location(check_place(base_uri), storage_options)
        missing = check_flag("ignore_not_found", ignore_not_found or False)
        gone = drop_dataset(location, ignore_not_found=missing)
        given = {"uri": location.uri, "rows": gone.manifest.num_rows if gone else None}
        at = gone.version if gone else 0
        return Answer(call="drop", version=at, branch=location.name, _given=given)


def _cleanup(
    older_than: object, retain_versions: object, unverified: bool, tagged: bool, versions: object
) -> CleanupRequest:
    from lancekit._operations.cleanup.plan import cleanup_request

    check_flag("delete_unverified", unverified)
    check_flag("error_if_tagged_old_versions", tagged)
    return cleanup_request(older_than, retain_versions, unverified, tagged, versions)
