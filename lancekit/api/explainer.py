"""`Explainer`: a dataset's operations, told and not done.

Each method takes the arguments of the operation of its name, checks and plans with what the
operation itself checks and plans with, and returns an `Explanation`.  A scan or a merge that is
set up already explains itself: `LanceScanner.explain`, `MergeInsertBuilder.explain`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, get_args

from lancekit.api._handle import Handle
from lancekit.api.frames import check_blob_mode, pandas_frame
from lancekit.api.index_config import no_fragments
from lancekit.api.index_requests import optimize_request, scalar_request, vector_request
from lancekit.api.optimizer import DatasetOptimizer
from lancekit.api.pylance.arguments import (
    check_callback,
    check_count,
    check_flag,
    check_place,
    refuse_more,
)
from lancekit.api.scan_options import ScanOptions
from lancekit.api.scanner import LanceScanner, scan_of
from lancekit.call import Call
from lancekit.checked import check_arguments
from lancekit.choice import check_choice
from lancekit.errors import InvalidTypeError
from lancekit.format.storage_version import check_storage_version
from lancekit.operations.cleanup.plan import cleanup_request
from lancekit.operations.cleanup.run import CleanupExplanation, explain_cleanup
from lancekit.operations.columns.add import NewColumns
from lancekit.operations.columns.alter import check_alterations
from lancekit.operations.common.retry import RetryPolicy
from lancekit.operations.explain.explanation import Explanation
from lancekit.operations.explain.indices import (
    explain_index,
    explain_optimize_indices,
    explain_validate,
)
from lancekit.operations.explain.mem_wal import explain_merge_mem_wal
from lancekit.operations.explain.operations import (
    explain_add,
    explain_alter,
    explain_compaction,
    explain_count,
    explain_delete,
    explain_drop,
    explain_join,
    explain_metadata,
    explain_replacement,
    explain_update,
    explain_write,
)
from lancekit.operations.maintenance.compact_plan import CompactionOptions
from lancekit.operations.mem_wal.merge_step import OnError
from lancekit.operations.mem_wal.shards import chosen_shards
from lancekit.operations.update import check_updates, check_where
from lancekit.storage.uris import check_options
from lancekit.versions.references import parse_reference, resolve

__all__ = ["Explainer"]

Arguments = Mapping[str, Any]
Explain = Callable[[Handle, Arguments], Any]


def _at_least_one(name: str, value: Any) -> None:
    check_count(name, value, least=1)


#: checks of arguments that say how an operation is run, and so change nothing of what is told
_HOW: Mapping[str, Callable[[str, Any], object]] = {
    "batch_size": _at_least_one,
    "blob_mode": lambda _, mode: check_blob_mode(mode),
    "conflict_retries": lambda _, number: RetryPolicy(conflict_retries=number),
    "data_storage_version": check_storage_version,
    "delete_concurrency": _at_least_one,
    "delete_rate_limit": _at_least_one,
    "delete_unverified": check_flag,
    "error_if_tagged_old_versions": check_flag,
    "retry_timeout": lambda _, timeout: RetryPolicy(timeout=timeout),
    "storage_options": lambda _, given: check_options(given),
}


def _scan(ds: Handle, given: Arguments) -> Explanation:
    passed = {name: value for name, value in given.items() if name not in {"kwargs", "blob_mode"}}
    rows = passed.pop("num_rows", None)
    if rows is not None:
        passed["limit"] = rows
    kwargs = given.get("kwargs", {})
    if "blob_mode" not in given:
        return _scanner(ds, {**passed, **kwargs}).explain()
    scanner = _scanner(ds, passed)
    pandas_frame(scanner.projected_schema.empty_table(), kwargs)
    return scanner.explain()


def _scanner(ds: Handle, passed: Arguments) -> LanceScanner:
    return scan_of(ds._snapshot, ScanOptions.of(passed).over(ds._scan_defaults))


def _count(ds: Handle, given: Arguments) -> Explanation:
    kwargs = given.get("kwargs", {})
    if given["filter"] is None and not kwargs:
        return explain_count(ds._snapshot, None)
    options = ScanOptions.of({"columns": [], "filter": given["filter"], **kwargs})
    return explain_count(ds._snapshot, scan_of(ds._snapshot, options)._scan)


def _insert(ds: Handle, given: Arguments) -> Explanation:
    mode = given["mode"]
    check_choice("mode", mode, ("append", "overwrite"))
    kwargs = dict(given.get("kwargs", {}))
    schema = kwargs.pop("schema", None)
    why = "It changes nothing of what can be told before the rows are written."
    refuse_more("explain.insert", kwargs, why)
    return explain_write(ds._snapshot, given["data"], mode, schema)


def _new(given: Arguments) -> NewColumns:
    return NewColumns(
        transforms=given["transforms"],
        read_columns=given["read_columns"],
        schema=given["reader_schema"],
        batch_size=given["batch_size"],
        num_threads=check_count("num_threads", given["num_threads"], least=1),
    )


def _add(ds: Handle, given: Arguments) -> Explanation:
    if given["on"] is not None:
        schema = given["reader_schema"]
        return explain_join(ds._snapshot, given["transforms"], given["on"], "add_columns", schema)
    return explain_add(ds._snapshot, _new(given))


def _compact(ds: Handle, given: Arguments) -> Explanation:
    options = CompactionOptions.parse(given, ds._snapshot.manifest.config)
    return explain_compaction(ds._snapshot, options)


def _merge_mem_wal(ds: Handle, given: Arguments) -> Explanation:
    rows = check_count("rows_per_commit", given["rows_per_commit"], least=1)
    check_callback("progress", given["progress"])
    check_flag("flush", given["flush"])
    check_choice("on_error", given["on_error"], get_args(OnError))
    shards = chosen_shards(ds._snapshot, given["shards"])
    return explain_merge_mem_wal(ds._snapshot, shards, rows, flush=given["flush"])


def _cleanup(ds: Handle, given: Arguments) -> CleanupExplanation:
    request = cleanup_request(
        given["older_than"],
        given["retain_versions"],
        given["delete_unverified"],
        given["error_if_tagged_old_versions"],
        given["versions"],
    )
    return explain_cleanup(
        ds._snapshot, request, include_files=False, max_files=1000, tags_are_warnings=True
    )


def _scalar_index(ds: Handle, given: Arguments) -> Explanation:
    asked = {"kwargs": {}, **given}
    if asked.pop("fragment_ids") is not None:
        raise no_fragments("explain.create_scalar_index")
    return explain_index(ds._snapshot, scalar_request(**asked), "create_scalar_index")


def _vector_index(ds: Handle, given: Arguments) -> Explanation:
    asked = dict(given)
    request = vector_request(**asked.pop("kwargs", {}), **asked)
    return explain_index(ds._snapshot, request, "create_index")


def _validate(ds: Handle, given: Arguments) -> Explanation:
    check_flag("sources", given["sources"])
    return explain_validate(ds._snapshot, deep=check_flag("deep", given["deep"]))


def _restore(ds: Handle, _given: Arguments) -> Explanation:
    lost = f"the newest version becomes the same as version {ds.version}; none is lost"
    return explain_metadata(ds._snapshot, "restore", ["Restore"], [lost])


def _fork(ds: Handle, given: Arguments, operation: str, note: str) -> Explanation:
    refuse_more(operation, given.get("kwargs", {}))
    where = given["branch"] if "branch" in given else check_place(given["target_path"])
    reference = given["reference"]
    start = ds.version if reference is None else reference
    snapshot = resolve(ds._line, parse_reference(start, ds._line))
    return explain_metadata(snapshot, operation, ["Clone"], [f"what is made is {where!s}", note])


_SHARED = "no data is copied: the files stay where they are, and are referred to"
_COPIED = "every file of the version is copied"

#: the operations, by the names of the methods
_EXPLAINED: Mapping[str, Explain] = {
    **dict.fromkeys(["scanner", "to_table", "to_batches", "to_pandas", "head"], _scan),
    "count_rows": _count,
    "insert": _insert,
    "delete": lambda ds, given: explain_delete(ds._snapshot, given["predicate"]),
    "truncate_table": lambda ds, _: explain_delete(ds._snapshot, "true", "truncate_table"),
    "update": lambda ds, given: explain_update(
        ds._snapshot, check_updates(given["updates"]), check_where(given["where"])
    ),
    "add_columns": _add,
    "merge": lambda ds, given: explain_join(
        ds._snapshot,
        given["data_obj"],
        given["left_on"],
        "merge",
        given["schema"],
        given["right_on"],
    ),
    "replace_columns": lambda ds, given: explain_replacement(ds._snapshot, _new(given)),
    "alter_columns": lambda ds, given: explain_alter(
        ds._snapshot, check_alterations(given["alterations"])
    ),
    "drop_columns": lambda ds, given: explain_drop(ds._snapshot, given["columns"]),
    "compact_files": _compact,
    "cleanup_old_versions": _cleanup,
    "create_scalar_index": _scalar_index,
    "create_index": _vector_index,
    "optimize_indices": lambda ds, given: explain_optimize_indices(
        ds._snapshot, optimize_request(**{"kwargs": {}, **given})
    ),
    "validate": _validate,
    "merge_mem_wal": _merge_mem_wal,
    "restore": _restore,
    "create_branch": lambda ds, given: _fork(ds, given, "create_branch", _SHARED),
    "shallow_clone": lambda ds, given: _fork(ds, given, "shallow_clone", _SHARED),
    "deep_clone": lambda ds, given: _fork(ds, given, "deep_clone", _COPIED),
}


class Explainer:
    """Tells what an operation on a dataset would do, where it would run, and why; nothing is done.

    Methods have the names and arguments of the dataset's own, those of `DatasetOptimizer`
    among them.  Made by `LanceDataset.explain`.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://explainer-example")
    >>> told = ds.explain.update({"x": "x + 1"}, where="x > 1")
    >>> told.engine, told.reads.rows, told.commits
    ('local', 3, ('Update',))
    >>> ds.version
    1
    """

    __slots__ = ("_dataset",)

    def __init__(self, dataset: Handle) -> None:
        self._dataset = dataset

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _EXPLAINED:
            raise AttributeError(
                f"there is nothing to explain of {name!r}; there is {', '.join(dir(self))}"
            )
        dataset, work = self._dataset, _EXPLAINED[name]
        owner = DatasetOptimizer if hasattr(DatasetOptimizer, name) else type(dataset)
        method = getattr(owner, name)
        full = inspect.signature(method)
        signature = full.replace(parameters=list(full.parameters.values())[1:])

        def explain(*args: Any, **kwargs: Any) -> Any:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise InvalidTypeError(f"explain.{name}(): {error}.") from None
            bound.apply_defaults()
            for argument, value in bound.arguments.items():
                if value is not None and argument in _HOW:
                    _HOW[argument](argument, value)
            check_arguments(signature, bound.arguments)
            told = work(dataset, bound.arguments)
            where = DatasetOptimizer(dataset) if owner is DatasetOptimizer else dataset
            return replace(told, _call=Call(getattr(where, name), *args, **kwargs))

        explain.__name__ = explain.__qualname__ = name
        explain.__doc__ = f"Tell what `{name}` would do with these arguments.\n\n{method.__doc__}"
        explain.__signature__ = signature.replace(  # type: ignore[attr-defined]  # inspect asks
            return_annotation=Explanation
        )
        return explain

    def filter(self, condition: str) -> Explanation:
        """Tell what the rows of a filter would cost to find, and which index would help.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": range(100_000)}, "memory://explain-filter-example")
        >>> notes = " ".join(ds.explain.filter("id = 7").notes)
        >>> "ds.create_scalar_index('id', 'BTREE') reads" in notes
        True
        """
        told: Explanation = self.to_table(filter=condition)
        return told

    def __dir__(self) -> list[str]:
        return sorted([*_EXPLAINED, "filter"])

    def __repr__(self) -> str:
        return f"Explainer({', '.join(dir(self))})"
