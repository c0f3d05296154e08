"""`DatasetOptimizer`, `Compaction`, `LanceStats`: fewer and larger files, and what they hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import Any

import numpy as np

from lancekit._api._handle import Handle
from lancekit._api.index_requests import optimize_request
from lancekit._api.not_offered import PartOfPylance
from lancekit._arguments.checks import check_count, check_items, refuse_more
from lancekit._arguments.record import Arguments, takes
from lancekit._checked import checked_methods, from_text
from lancekit._display import Displayed
from lancekit._format.fragment import Fragment
from lancekit._format.operation_parts import UpdateMap
from lancekit._format.operations import UpdateConfig
from lancekit._legible import shown
from lancekit._operations.cleanup.auto import SETTINGS
from lancekit._operations.cleanup.auto import auto_cleanup_config as auto_cleanup_settings
from lancekit._operations.common.results import CompactionMetrics
from lancekit._operations.common.retry import RetryPolicy
from lancekit._operations.index.describe import index_statistics
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
from lancekit._operations.maintenance.inventory import DataStatistics, data_statistics
from lancekit._operations.settings import update_settings
from lancekit._versions.snapshot import Snapshot, load_snapshot
from lancekit.errors import InvalidArgumentError

__all__ = [
    "Compaction",
    "CompactionMetrics",
    "CompactionOptions",
    "CompactionPlan",
    "CompactionTask",
    "Covered",
    "DatasetOptimizer",
    "LanceStats",
    "RewriteResult",
]


class CompactionArguments(Arguments):
    """What a compaction takes.

    Parameters
    ----------
    target_rows_per_fragment
        Fragments with fewer rows are put together with small neighbours (1,048,576).
    max_bytes_per_file
        When to start a new file, whatever its rows.
    materialize_deletions, materialize_deletions_threshold
        Whether to rewrite fragments with deleted rows (``True``), and from which share of
        their rows on (more than 0.1).
    defer_index_remap
        Leave indices as they are, which is quicker, and note where rows are now (``False``):
        readers follow that, until `optimize_indices` puts it into the indices.  Not for tables
        with stable row ids.
    compaction_mode
        ``"reencode"`` decodes all rows; ``"try_binary_copy"`` copies the pages of all columns
        that can be copied, however small.  By default those of 1 MiB and more are.
    max_source_fragments, max_source_rows, max_source_bytes
        How much to rewrite at most, oldest fragments first.
    excluded_fragment_ids
        Fragments to leave alone.
    max_rows_per_group, batch_size, binary_copy_read_batch_bytes, num_threads
        Sizes of groups, batches and buffers, and the number of threads: hints that change no
        result.
    data_storage_version
        The format of the new files, that of the dataset by default.
    drop_index_coverage
        Rewrite fragments too that an index covers of a kind that is not known, without stable
        row ids, and take them out of the index (``False``).  Graphs over vectors lose them
        anyway, with a warning.
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


@checked_methods
class DatasetOptimizer(PartOfPylance):
    """Maintenance of a dataset's files; `LanceDataset.optimize`."""

    def __init__(self, dataset: Handle) -> None:
        self._dataset = dataset

    def __repr__(self) -> str:
        methods = "compact_files, optimize_indices, enable_auto_cleanup, disable_auto_cleanup"
        return f"DatasetOptimizer({methods})"

    @takes(CompactionArguments)
    def compact_files(self, arguments: CompactionArguments) -> CompactionMetrics:
        """Rewrite small adjacent fragments, and those with many deleted rows; the handle moves.

        Order, row ids and the versions of rows stay, and indices are kept up.  The old files stay
        too, for older versions.

        The table's config may hold defaults as ``lance.compaction.<option>``.

        Returns
        -------
        CompactionMetrics
            Counts of fragments and files, and the fragments that were left alone because an
            index covers them.

        Raises
        ------
        InvalidArgumentError
            An option cannot have this value.
        RetriesExhaustedError
            Others changed the same fragments before every attempt.

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
    ) -> None:
        """Put rows that are in no index yet into the indices; the handle moves.

        Nothing to do makes no version.  New vectors go to the partitions of an index, and get
        codes of its kind.  An index that cannot be kept up, such as one of graphs over vectors
        (``IVF_HNSW_SQ``), stays as it is, with a warning, and searches look at the other rows.

        Once no index needs it, what a deferred compaction keeps of moved rows is let go of.

        Parameters
        ----------
        num_indices_to_merge
            How many of the newest segments are put together with the new rows (1); 0 makes a
            segment of the new rows alone, which is quicker and makes searches slower.
        index_names
            Which indices, by default all.
        retrain
            Whether to make them anew, of all rows.

        Raises
        ------
        IndexNotFoundError
            There is no index of a name.
        NotOfferedError
            An index of a kind that lancekit does not make.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://optimize-indices-example")
        >>> ds.create_scalar_index("x", "BTREE")
        >>> ds.insert({"x": [3]})
        >>> ds.optimize.optimize_indices()
        >>> list(ds.list_indices()[0]["fragment_ids"])
        [0, 1]
        """
        request = optimize_request(num_indices_to_merge, index_names, retrain, kwargs)
        self._dataset._move(
            lambda snapshot: (optimize_indices(snapshot, request, RetryPolicy()), None)
        )

    def enable_auto_cleanup(
        self, auto_cleanup_config: Mapping[str, object], **kwargs: object
    ) -> None:
        """Let every so many versions remove old ones, whoever commits; the handle moves.

        The version before the one that a commit makes always stays, as do tagged ones and those
        that branches forked from.  A cleanup that fails is a warning, and the commit stands.

        Settings made here are followed from then on, by this user's lancekit.  Those that came
        with a dataset, or that another library wrote, are followed once you agreed to them:
        ``lancekit.options.trusted_cleanup = [uri]``.

        Parameters
        ----------
        auto_cleanup_config
            ``interval``: after how many versions; ``older_than_seconds``: the age of what goes;
            ``retain_versions`` (ours): the newest ones to keep, so many of them.  At least one of
            the latter two.

        Raises
        ------
        InvalidArgumentError
            A setting cannot be used, or nothing bounds what would go.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://auto-cleanup-example")
        >>> ds.optimize.enable_auto_cleanup({"interval": 4, "older_than_seconds": 0})
        >>> for _ in range(2):
        ...     ds.insert({"x": [2]})
        >>> [version.version for version in ds.versions()]
        [3, 4]
        """
        refuse_more("enable_auto_cleanup", kwargs)
        settings = auto_cleanup_settings(auto_cleanup_config)
        self._dataset._move(lambda snapshot: (_configured(snapshot, settings), None))

    def disable_auto_cleanup(self, **kwargs: object) -> None:
        """Remove all settings of automatic cleanup from the table's config; the handle moves."""
        refuse_more("disable_auto_cleanup", kwargs)
        settings = dict.fromkeys(SETTINGS)
        self._dataset._move(lambda snapshot: (_configured(snapshot, settings), None))


@checked_methods
@dataclass(frozen=True, slots=True, repr=False)
class CompactionTask:
    """Adjacent fragments that are to be rewritten together.  Can be sent to a worker."""

    planned: compact_plan.CompactionTask

    def __repr__(self) -> str:
        listed = ", ".join(str(f.id) for f in self.fragments)
        return f"CompactionTask(read_version={self.read_version}, fragments=[{listed}])"

    @property
    def read_version(self) -> int:
        """The version that it was planned on."""
        return self.planned.read_version

    @property
    def fragments(self) -> list[Fragment]:
        """The fragments to rewrite."""
        return list(self.planned.fragments)

    def json(self) -> str:
        """Return a text for another process, which pylance understands too."""
        return json.dumps(shown_task(self.planned))

    @staticmethod
    def from_json(json: str) -> CompactionTask:
        """Return what `json`, here or in pylance, made a text of.

        Raises
        ------
        InvalidArgumentError
            It is another text.
        """
        return CompactionTask(from_text("CompactionTask", json, parsed_task))

    def execute(self, dataset: Handle) -> RewriteResult:
        """Write the new files; `Compaction.commit` makes them part of the dataset."""
        (result,) = run_tasks(_at(dataset, self.read_version), [self.planned])
        return result


@checked_methods
@dataclass(frozen=True, slots=True, repr=False)
class CompactionPlan:
    """What a compaction would rewrite, and what it would leave to indices."""

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
        """Return a text for another process, which pylance understands too."""
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
        """Return what `json`, here or in pylance, made a text of.

        Raises
        ------
        InvalidArgumentError
            It is another text.
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
        """Plan the compaction of the version that the handle is at; nothing is written."""
        snapshot = dataset._snapshot
        parsed = _parsed(snapshot, options)
        plan = plan_compaction(snapshot, parsed)
        tasks = [CompactionTask(task) for task in plan.tasks]
        return CompactionPlan(plan.read_version, tasks, plan.left_to_indices, parsed)

    @staticmethod
    def execute(dataset: Handle, options: Mapping[str, object] | None = None) -> CompactionMetrics:
        """Plan, rewrite and commit; the handle moves."""

        def change(snapshot: Snapshot) -> tuple[Snapshot, CompactionMetrics]:
            return compact(snapshot, _parsed(snapshot, options), RetryPolicy())

        return dataset._move(change)

    @staticmethod
    def commit(
        dataset: Handle,
        rewrites: Iterable[RewriteResult],
        options: Mapping[str, object] | None = None,
    ) -> CompactionMetrics:
        """Commit results of tasks, all or some; the handle moves.

        Raises
        ------
        RetryableConflictError
            Others changed these fragments since they were read.  The new files are removed.
        InvalidArgumentError
            The tasks were planned on different versions.
        """
        results = check_items(
            "rewrites", rewrites, RewriteResult, "what CompactionTask.execute gave"
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
            f"The options of a compaction are {shown(options)}.", hint="Pass a dictionary."
        )
    return CompactionOptions.parse(options or {}, snapshot.manifest.config)


def _at(dataset: Handle, version: int) -> Snapshot:
    snapshot = dataset._snapshot
    if snapshot.version == version:
        return snapshot
    return load_snapshot(snapshot.location, version, snapshot.naming)


# ---- `LanceStats`: what a version's files amount to


class LanceStats(Displayed, PartOfPylance):
    """Statistics of a version; `LanceDataset.stats`."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def _plain(self) -> str:
        return f"LanceStats({self._snapshot.called})"

    def dataset_stats(self, max_rows_per_group: int = 1024) -> dict[str, int]:
        """Count fragments, those of fewer rows than ``max_rows_per_group``, and deleted rows."""
        least = check_count("max_rows_per_group", max_rows_per_group)
        fragments = self._snapshot.manifest.fragments
        physical = np.array([fragment.physical_rows for fragment in fragments], np.int64)
        return {
            "num_deleted_rows": int(physical.sum()) - self._snapshot.manifest.num_rows,
            "num_fragments": len(fragments),
            "num_small_files": int((physical < least).sum()),
        }

    def index_stats(self, index_name: str) -> dict[str, Any]:
        """Tell which rows an index covers and, if it is a scalar one, what is in its files.

        Raises
        ------
        IndexNotFoundError
            There is no index of the name.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1, 2]}, "memory://index-stats-example")
        >>> ds.create_scalar_index("x", "BTREE")
        >>> found = ds.stats.index_stats("x_idx")
        >>> found["num_indexed_rows"], found["segments"]
        (2, [{'min': '1', 'max': '2', 'num_pages': 1}])
        """
        return index_statistics(self._snapshot, index_name)

    def data_stats(self) -> DataStatistics:
        """Return how many bytes of data files each field has; reads the end of every file."""
        return data_statistics(self._snapshot)
