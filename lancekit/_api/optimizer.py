"""Compaction, index maintenance and automatic cleanup: `DatasetOptimizer`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import Any

from lancekit._api._handle import Handle
from lancekit._api.answer import Answer
from lancekit._api.hinting import hinting_operators
from lancekit._api.index_requests import optimize_request
from lancekit._arguments.checks import check_items, refuse_more
from lancekit._arguments.record import Arguments, takes
from lancekit._checked import checked_methods, from_text
from lancekit._display import Hinting
from lancekit._format.fragment import Fragment
from lancekit._format.operation_parts import UpdateMap
from lancekit._format.operations import UpdateConfig
from lancekit._legible import shown
from lancekit._operations.cleanup.auto import SETTINGS
from lancekit._operations.cleanup.auto import auto_cleanup_config as auto_cleanup_settings
from lancekit._operations.common.results import CompactionMetrics
from lancekit._operations.common.retry import RetryPolicy
from lancekit._operations.index.optimize import optimize_indices
from lancekit._operations.maintenance import compact_plan
from lancekit._operations.maintenance.compact import (
    RewriteResult,
    commit_compaction,
    compact,
    measure,
    parsed_task,
    run_tasks,
    shown_task,
)
from lancekit._operations.maintenance.compact_plan import (
    CompactionOptions,
    Covered,
    plan_compaction,
)
from lancekit._operations.settings import update_settings
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import InvalidArgumentError


class CompactionArguments(Arguments):
    """The arguments of a compaction.

    Parameters
    ----------
    target_rows_per_fragment
        Fragments with fewer rows are merged with small neighbours (1,048,576).
    max_bytes_per_file
        The size at which a new file begins, whatever its rows.
    materialize_deletions, materialize_deletions_threshold
        Whether to rewrite fragments with deleted rows (``True``), and the fraction of deleted rows
        above which they are rewritten (0.1).
    defer_index_remap
        Only record the new row addresses, and do not update indices, which is faster (``False``).
        Readers use the record until `optimize_indices`.  Not for tables with stable row ids.
    compaction_mode
        ``"reencode"`` decodes all rows.  ``"try_binary_copy"`` copies the pages of all columns that
        can be copied, of any size.  By default only columns of 1 MiB and more are copied.
    max_source_fragments, max_source_rows, max_source_bytes
        The upper limits of a compaction, which rewrites the oldest fragments first.
    excluded_fragment_ids
        Fragments that are not rewritten.
    max_rows_per_group, batch_size, binary_copy_read_batch_bytes, num_threads
        Sizes of groups, batches and buffers, and a number of threads: hints that change nothing.
    data_storage_version
        The format of the new files, by default the dataset's.
    drop_index_coverage
        In tables without stable row ids, also rewrite fragments that an index of unknown kind
        covers, and remove them from it (``False``).  HNSW indices always lose them, with a warning.
    """

    _: KW_ONLY
    target_rows_per_fragment: int | None = None
    max_rows_per_group: int | None = None
    max_bytes_per_file: int | None = None
    materialize_deletions: bool | None = None
    materialize_deletions_threshold: float | None = None
    defer_index_remap: bool | None = None
    num_threads: int | None = None
    batch_size: int | None = None
    compaction_mode: str | None = None
    binary_copy_read_batch_bytes: int | None = None
    max_source_fragments: int | None = None
    max_source_rows: int | None = None
    max_source_bytes: int | None = None
    excluded_fragment_ids: list[int] | None = None
    data_storage_version: str | None = None
    drop_index_coverage: bool | None = None


@hinting_operators("__call__ __enter__ __exit__")
@checked_methods
class DatasetOptimizer(Hinting):
    """Maintenance of a dataset's files and indices; see `LanceDataset.optimize`."""

    def __init__(self, dataset: Handle) -> None:
        self._dataset = dataset

    def __repr__(self) -> str:
        methods = "compact_files, optimize_indices, enable_auto_cleanup, disable_auto_cleanup"
        return f"DatasetOptimizer({methods})"

    @takes(CompactionArguments)
    def compact_files(self, arguments: CompactionArguments) -> CompactionMetrics:
        """Merge small adjacent fragments, and rewrite fragments with many deleted rows.

        The handle moves.  The order, ids and versions of rows are preserved, and indices are
        updated.  The old files stay for older versions.

        The table's config can contain defaults as ``lance.compaction.<option>``.

        Returns
        -------
        CompactionMetrics
            Counts of fragments and files, and the fragments that were skipped because of an index.

        Raises
        ------
        InvalidArgumentError
            An option has an invalid value.
        RetriesExhaustedError
            Other writers changed the same fragments before every attempt.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": range(6)}, "memory://compact-example", max_rows_per_file=2)
        >>> done = ds.optimize.compact_files()
        >>> done.fragments_removed, done.fragments_added, ds.count_rows()
        (3, 1, 6)
        """
        return Compaction.execute(self._dataset, arguments.given)

    def optimize_indices(
        self,
        *,
        num_indices_to_merge: int | None = None,
        index_names: list[str] | None = None,
        retrain: bool | None = None,
        **kwargs: object,
    ) -> Answer:
        """Add rows that no index covers yet to the indices; the handle moves.

        Without such rows no version is created.  New vectors are added to the existing partitions,
        and encoded.  An index that lancekit cannot update, such as an HNSW index (``IVF_HNSW_SQ``),
        does not change.  Then there is a warning, and searches read the uncovered rows.

        The records of moved rows from deferred compactions are removed once no index needs them.

        Parameters
        ----------
        num_indices_to_merge
            The number of newest segments that are merged with the new rows (1).  With 0 the new
            rows form their own segment, which is faster but makes searches slower.
        index_names
            The names of the indices; all by default.
        retrain
            Whether to rebuild the indices from all rows.

        Returns
        -------
        Answer
            The change, and the call that undoes it.

        Raises
        ------
        IndexNotFoundError
            An index does not exist.
        NotOfferedError
            lancekit does not make this kind of index.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://optimize-indices-example")
        >>> _ = ds.create_scalar_index("x", "BTREE")
        >>> _ = ds.insert({"x": [3]})
        >>> _ = ds.optimize.optimize_indices()
        >>> list(ds.list_indices()[0]["fragment_ids"])
        [0, 1]
        """
        request = optimize_request(num_indices_to_merge, index_names, retrain, kwargs)
        return self._dataset._done(
            "optimize_indices", lambda snapshot: optimize_indices(snapshot, request, RetryPolicy())
        )

    def enable_auto_cleanup(
        self, auto_cleanup_config: Mapping[str, object], **kwargs: object
    ) -> Answer:
        """Remove old versions automatically after every ``interval`` versions; the handle moves.

        The previous version, tagged versions and fork points of branches always stay.  If a cleanup
        fails, the commit stays valid, and there is a warning.

        Settings made here apply at once, for this user's lancekit.  Settings that came with a
        dataset or from another library need consent: ``lancekit.options.trusted_cleanup = [uri]``.

        Parameters
        ----------
        auto_cleanup_config
            ``interval``: the number of versions between cleanups.  ``older_than_seconds``: the age
            of versions to remove.  ``retain_versions`` (only in lancekit): the number of newest
            versions to keep.  At least one of the latter two is required.

        Returns
        -------
        Answer
            The change, and the call that undoes it.

        Raises
        ------
        InvalidArgumentError
            A setting is invalid, or both limits are missing.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://auto-cleanup-example")
        >>> _ = ds.optimize.enable_auto_cleanup({"interval": 4, "older_than_seconds": 0})
        >>> for _ in range(2):
        ...     _ = ds.insert({"x": [2]})
        >>> [version.version for version in ds.versions()]
        [3, 4]
        """
        refuse_more("enable_auto_cleanup", kwargs)
        settings = auto_cleanup_settings(auto_cleanup_config)
        return self._dataset._done("settings", lambda at: _configured(at, settings))

    def disable_auto_cleanup(self, **kwargs: object) -> Answer:
        """Remove all settings of automatic cleanup from the table's config; the handle moves."""
        refuse_more("disable_auto_cleanup", kwargs)
        settings = dict.fromkeys(SETTINGS)
        return self._dataset._done("settings", lambda at: _configured(at, settings))


@checked_methods
@dataclass(frozen=True, slots=True, repr=False)
class CompactionTask:
    """Adjacent fragments to rewrite together.  A task can be sent to a worker."""

    planned: compact_plan.CompactionTask

    def __repr__(self) -> str:
        listed = ", ".join(str(f.id) for f in self.fragments)
        return f"CompactionTask(read_version={self.read_version}, fragments=[{listed}])"

    @property
    def read_version(self) -> int:
        """The version that the task was planned on."""
        return self.planned.read_version

    @property
    def fragments(self) -> list[Fragment]:
        """The fragments to rewrite."""
        return list(self.planned.fragments)

    def json(self) -> str:
        """Serialize the task for another process, in a form that pylance reads, too."""
        return json.dumps(shown_task(self.planned))

    @staticmethod
    def from_json(json: str) -> CompactionTask:
        """Deserialize a task that `json`, lancekit's or pylance's, has written.

        Raises
        ------
        InvalidArgumentError
            The text is not a task.
        """
        return CompactionTask(from_text("CompactionTask", json, parsed_task))

    def execute(self, dataset: Handle) -> RewriteResult:
        """Write the new files; `Compaction.commit` commits them."""
        (result,) = run_tasks(_at(dataset, self.read_version), [self.planned])
        return result


@checked_methods
@dataclass(frozen=True, slots=True, repr=False)
class CompactionPlan:
    """The tasks of a compaction, and the fragments that are skipped because of indices."""

    read_version: int
    tasks: list[CompactionTask]
    left_to_indices: tuple[Covered, ...] = ()
    options: CompactionOptions = field(default_factory=CompactionOptions)

    def __repr__(self) -> str:
        tasks = f"<{len(self.tasks)} compaction tasks>"
        return f"CompactionPlan(read_version={self.read_version}, tasks={tasks})"

    def num_tasks(self) -> int:
        """Return the number of tasks."""
        return len(self.tasks)

    def json(self) -> str:
        """Serialize the plan for another process, in a form that pylance reads, too."""
        return json.dumps(
            {
                "tasks": [shown_task(task.planned)["task"] for task in self.tasks],
                "read_version": self.read_version,
                "options": self.options.to_json(),
                "left_to_indices": [asdict(covered) for covered in self.left_to_indices],
            }
        )

    @staticmethod
    def from_json(json: str) -> CompactionPlan:
        """Deserialize a plan that `json`, lancekit's or pylance's, has written.

        Raises
        ------
        InvalidArgumentError
            The text is not a plan.
        """
        return from_text("CompactionPlan", json, _parsed_plan)


def _parsed_plan(values: Mapping[str, Any]) -> CompactionPlan:
    shared = {"read_version": values["read_version"], "options": values["options"]}
    return CompactionPlan(
        read_version=int(values["read_version"]),
        tasks=[CompactionTask(parsed_task({"task": task, **shared})) for task in values["tasks"]],
        left_to_indices=tuple(
            Covered(index=covered["index"], fragment_ids=tuple(covered["fragment_ids"]))
            for covered in values.get("left_to_indices", ())
        ),
        options=CompactionOptions.from_json(values["options"]),
    )


@checked_methods
class Compaction:
    """A compaction in steps: plan, execute each task anywhere, commit.

    ``options`` of its methods are arguments of `DatasetOptimizer.compact_files`, by name.

    Examples
    --------
    >>> import lancekit as lk
    >>> from lancekit.optimize import Compaction
    >>> ds = lk.write_dataset({"x": range(6)}, "memory://steps-example", max_rows_per_file=2)
    >>> plan = Compaction.plan(ds, {"target_rows_per_fragment": 4})
    >>> results = [task.execute(ds) for task in plan.tasks]
    >>> Compaction.commit(ds, results).fragments_removed
    3
    """

    @staticmethod
    def plan(dataset: Handle, options: Mapping[str, object] | None = None) -> CompactionPlan:
        """Plan the compaction of the handle's version, without writing.

        Parameters
        ----------
        dataset
            A handle.
        options
            See the class.

        Returns
        -------
        CompactionPlan
            The tasks.

        Raises
        ------
        InvalidArgumentError
            An option is unknown, or its value is invalid.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": range(6)}, "memory://compact-plan", max_rows_per_file=2)
        >>> Compaction.plan(ds).num_tasks()
        1
        """
        snapshot = dataset._snapshot
        parsed = _parsed(snapshot, options)
        plan = plan_compaction(snapshot, parsed)
        tasks = [CompactionTask(task) for task in plan.tasks]
        return CompactionPlan(plan.read_version, tasks, plan.left_to_indices, parsed)

    @staticmethod
    def execute(dataset: Handle, options: Mapping[str, object] | None = None) -> CompactionMetrics:
        """Plan, rewrite and commit; the handle moves.

        Parameters
        ----------
        dataset, options
            As in `plan`.

        Returns
        -------
        CompactionMetrics
            The numbers of removed and added fragments and files.

        Raises
        ------
        InvalidArgumentError
            As in `plan`, or the handle is pinned to a version.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": range(6)}, "memory://compact-execute", max_rows_per_file=2)
        >>> Compaction.execute(ds).fragments_removed
        3
        """

        def change(snapshot: Snapshot) -> tuple[Snapshot, CompactionMetrics]:
            return compact(snapshot, _parsed(snapshot, options), RetryPolicy())

        return dataset._move(change)

    @staticmethod
    def commit(
        dataset: Handle,
        rewrites: Iterable[RewriteResult],
        options: Mapping[str, object] | None = None,
    ) -> CompactionMetrics:
        """Commit the results of some or all tasks; the handle moves.

        Parameters
        ----------
        dataset, options
            As in `plan`.
        rewrites
            The results of the tasks.

        Returns
        -------
        CompactionMetrics
            As in `execute`.

        Raises
        ------
        RetryableConflictError
            Other writers changed these fragments since they were read.  The new files are removed.
        InvalidArgumentError
            The tasks were planned on different versions.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": range(6)}, "memory://compact-commit", max_rows_per_file=2)
        >>> results = [task.execute(ds) for task in Compaction.plan(ds).tasks]
        >>> Compaction.commit(ds, results).fragments_added
        1
        """
        results = check_items(
            "rewrites", rewrites, RewriteResult, "results of CompactionTask.execute"
        )

        def change(snapshot: Snapshot) -> tuple[Snapshot, CompactionMetrics]:
            defer = _parsed(snapshot, options).defer_index_remap
            read = _at(dataset, results[0].read_version) if results else snapshot
            landed = commit_compaction(read, results, defer=defer)
            return landed, measure(results, landed.version)

        return dataset._move(change)


def _configured(snapshot: Snapshot, changes: Mapping[str, str | None]) -> Snapshot:
    return update_settings(snapshot, UpdateConfig(config_updates=UpdateMap(changes)))


def _parsed(snapshot: Snapshot, options: Mapping[str, object] | None) -> CompactionOptions:
    if options is not None and not isinstance(options, Mapping):
        raise InvalidArgumentError(
            f"The options of a compaction must be a dict, got {shown(options)}."
        )
    return CompactionOptions.parse(options or {}, snapshot.manifest.config)


def _at(dataset: Handle, version: int) -> Snapshot:
    snapshot = dataset._snapshot
    if snapshot.version == version:
        return snapshot
    return load_snapshot(snapshot.location, version, snapshot.naming)
