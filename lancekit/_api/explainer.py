"""`Explainer` plans operations on a dataset without running them.

Each method takes the arguments of the operation of its name.  It runs the same checks and the same
planner as the operation, and returns an `Explanation`.  A scan or a merge builder explains itself:
`LanceScanner.explain`, `MergeInsertBuilder.explain`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, get_args

from lancekit._api._handle import Handle
from lancekit._api.frames import check_blob_mode, pandas_frame
from lancekit._api.hinting import hinting_operators
from lancekit._api.index_requests import (
    no_fragments,
    optimize_request,
    scalar_request,
    vector_request,
)
from lancekit._api.scanner import LanceScanner, scan_of
from lancekit._api.time_travel import snapshot_to_restore
from lancekit._arguments.checks import (
    check_callback,
    check_count,
    check_flag,
    check_place,
    refuse_more,
)
from lancekit._arguments.index import VectorIndexArguments
from lancekit._arguments.scan import FrameArguments, ScanArguments, scan_arguments
from lancekit._arguments.write import InsertArguments
from lancekit._call import Arguments, Call
from lancekit._checked import check_arguments
from lancekit._choice import check_choice
from lancekit._format.data_file import check_storage_version
from lancekit._operations.add_columns import NewColumns
from lancekit._operations.alter_columns import check_alterations, plan_alteration
from lancekit._operations.cleanup.plan import cleanup_request
from lancekit._operations.cleanup.run import CleanupExplanation, explain_cleanup
from lancekit._operations.common.retry import RetryPolicy
from lancekit._operations.delete import plan_delete
from lancekit._operations.explain.explanation import (
    Explanation,
    Writes,
    explain_metadata,
    explanation,
)
from lancekit._operations.explain.rows import (
    explain_add,
    explain_alter,
    explain_delete,
    explain_drop,
    explain_join,
    explain_replacement,
    explain_update,
    explain_write,
)
from lancekit._operations.explain.scans import explain_count
from lancekit._operations.explain.upkeep import (
    explain_compaction,
    explain_index,
    explain_merge_mem_wal,
    explain_optimize_indices,
    explain_validate,
)
from lancekit._operations.index.create import plan_index
from lancekit._operations.maintenance.compact_plan import CompactionOptions
from lancekit._operations.mem_wal.merge_step import OnError
from lancekit._operations.mem_wal.shards import chosen_shards
from lancekit._operations.update import check_updates, check_where, plan_update
from lancekit._pipeline.engine import Choice
from lancekit._storage.base import check_options
from lancekit._versions.references import parse_reference, resolve
from lancekit.errors import InvalidTypeError


def _at_least_one(name: str, value: object) -> None:
    check_count(name, value, least=1)


#: checks of arguments that only affect the execution, so that a plan does not contain them
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


@hinting_operators("__call__")
class Explainer:
    """Describes what an operation would do, where it would run, and why, without running it.

    Its methods have the names and arguments of methods of the dataset and of `DatasetOptimizer`.
    `LanceDataset.explain` returns it.

    Examples
    --------
    >>> import lancekit as lk
    >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://explainer-example")
    >>> plan = ds.explain.update({"x": "x + 1"}, where="x > 1")
    >>> plan.engine, plan.reads.rows, plan.commits
    ('local', 3, ('Update',))
    >>> ds.version
    1
    """

    __slots__ = ("_dataset",)

    def __init__(self, dataset: Handle) -> None:
        self._dataset: Any = dataset

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _EXPLAINED:
            builder = "ds.merge_insert('id').when_matched_update_all().explain(rows)"
            raise AttributeError(
                f"The builder of a merge explains itself: {builder}."
                if name == "merge_insert"
                else f"{name!r} cannot be explained; these can: {', '.join(dir(self))}"
            )
        dataset = self._dataset
        where: object = dataset if hasattr(type(dataset), name) else dataset.optimize
        method = getattr(type(where), name)
        full = inspect.signature(method)
        signature = full.replace(parameters=list(full.parameters.values())[1:])

        def explain(*args: object, **kwargs: object) -> object:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise InvalidTypeError(f"explain.{name}(): {error}.") from None
            bound.apply_defaults()
            for argument, value in bound.arguments.items():
                if value is not None and argument in _HOW:
                    _HOW[argument](argument, value)
            check_arguments(signature, bound.arguments)
            plan = _EXPLAINED[name](dataset, bound.arguments)
            return replace(plan, _call=Call(getattr(where, name), *args, **kwargs))

        explain.__name__ = explain.__qualname__ = name
        explain.__doc__ = (
            f"Plan `{name}` with these arguments, and do not run it.\n\n{method.__doc__}"
        )
        explain.__signature__ = signature.replace(  # type: ignore[attr-defined]  # inspect asks
            return_annotation=Explanation
        )
        return explain

    def filter(self, condition: str) -> Explanation:
        """Estimate the cost of finding the rows of a filter, and name an index that would help.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"id": range(100_000)}, "memory://explain-filter-example")
        >>> notes = " ".join(ds.explain.filter("id = 7").notes)
        >>> "ds.create_scalar_index('id', 'BTREE') reads" in notes
        True
        """
        plan: Explanation = self.to_table(filter=condition)
        return plan

    def __dir__(self) -> list[str]:
        return sorted([*_EXPLAINED, "filter"])

    def __repr__(self) -> str:
        return f"Explainer({', '.join(dir(self))})"


# ---- plans of changes of columns


def _new_columns(given: Arguments) -> NewColumns:
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
    return explain_add(ds._snapshot, _new_columns(given))


def _merge(ds: Handle, given: Arguments) -> Explanation:
    data, on, schema = given["data_obj"], given["left_on"], given["schema"]
    return explain_join(ds._snapshot, data, on, "merge", schema, given["right_on"])


def _replace(ds: Handle, given: Arguments) -> Explanation:
    return explain_replacement(ds._snapshot, _new_columns(given))


def _alter(ds: Handle, given: Arguments) -> Explanation:
    return explain_alter(plan_alteration(ds._snapshot, check_alterations(given["alterations"])))


# ---- plans of reads, and of changes of rows


def _scan(ds: Handle, given: Arguments) -> Explanation:
    passed = {name: value for name, value in given.items() if name not in {"kwargs", "num_rows"}}
    if "num_rows" in given:
        passed["limit"] = given["num_rows"]
    if "blob_mode" not in given:
        return _scanner(ds, scan_arguments({**passed, **given.get("kwargs", {})})).explain()
    frame = FrameArguments.of(passed, "A scan", "to_pandas()")
    scanner = _scanner(ds, frame.as_(ScanArguments))
    pandas_frame(scanner.projected_schema.empty_table(), frame.for_arrow())
    return scanner.explain()


def _scanner(ds: Handle, arguments: ScanArguments) -> LanceScanner:
    return scan_of(ds._snapshot, arguments.over(ds._scan_defaults))


def _count(ds: Handle, given: Arguments) -> Explanation:
    kwargs = given.get("kwargs", {})
    if given["filter"] is None and not kwargs:
        return explain_count(ds._snapshot, None)
    options = scan_arguments({"columns": [], "filter": given["filter"], **kwargs})
    return explain_count(ds._snapshot, scan_of(ds._snapshot, options)._scan)


def _insert(ds: Handle, given: Arguments) -> Explanation:
    mode = given["mode"]
    check_choice("mode", mode, ("append", "overwrite"))
    planned = {"data", "mode", "schema"}
    kinds = InsertArguments.parameters().parameters
    others = [n for n, value in given.items() if n not in planned and value != kinds[n].default]
    why = "Leave it out: it does not change the plan."
    refuse_more("explain.insert", others, why)
    return explain_write(ds._snapshot, given["data"], mode, given["schema"])


def _delete(ds: Handle, given: Arguments) -> Explanation:
    return explain_delete(plan_delete(ds._snapshot, given["predicate"]))


def _update(ds: Handle, given: Arguments) -> Explanation:
    updates, where = check_updates(given["updates"]), check_where(given["where"])
    return explain_update(plan_update(ds._snapshot, updates, where))


# ---- plans for files, indices, logs, branches and clones

_SHARED = "no data is copied: the new versions refer to the existing files"
_COPIES = Choice("local", "this process copies the files")


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
    request = {"kwargs": {}, **given}
    if request.pop("fragment_ids") is not None:
        raise no_fragments("explain.create_scalar_index")
    plan = plan_index(ds._snapshot, scalar_request(**request))
    return explain_index(plan, "create_scalar_index")


def _vector_index(ds: Handle, given: Arguments) -> Explanation:
    arguments = VectorIndexArguments.of(given, "explain.create_index()", "create_index()")
    return explain_index(plan_index(ds._snapshot, vector_request(arguments)), "create_index")


def _validate(ds: Handle, given: Arguments) -> Explanation:
    check_flag("sources", given["sources"])
    return explain_validate(ds._snapshot, deep=check_flag("deep", given["deep"]))


def _restore(ds: Handle, given: Arguments) -> Explanation:
    old = snapshot_to_restore(ds, given["version"])
    lost = f"the newest version becomes the same as version {old.version}; no version is lost"
    return explain_metadata(ds._snapshot, "restore", ["Restore"], [lost])


def _fork(ds: Handle, given: Arguments, operation: str) -> Explanation:
    refuse_more(operation, given.get("kwargs", {}))
    where = given["branch"] if "branch" in given else check_place(given["target_path"])
    reference = given["reference"]
    start = ds.version if reference is None else reference
    snapshot = resolve(ds._location, parse_reference(start, ds._location))
    notes = [f"it creates {where!s}"]
    if operation == "deep_clone":
        copied = Writes(what="a copy of every file of the version")
        return explanation(
            snapshot, operation, _COPIES, writes=copied, commits=["Clone"], notes=notes
        )
    return explain_metadata(snapshot, operation, ["Clone"], [*notes, _SHARED])


def _optimize_indices(ds: Handle, given: Arguments) -> Explanation:
    return explain_optimize_indices(ds._snapshot, optimize_request(**{"kwargs": {}, **given}))


#: the function that plans each operation, by method name
_EXPLAINED: Mapping[str, Callable[[Handle, Arguments], Explanation | CleanupExplanation]] = {
    **dict.fromkeys(["scanner", "to_table", "to_batches", "to_pandas", "head"], _scan),
    "count_rows": _count,
    "insert": _insert,
    "delete": _delete,
    "truncate_table": lambda ds, _: explain_delete(
        plan_delete(ds._snapshot, "true"), "truncate_table"
    ),
    "update": _update,
    "add_columns": _add,
    "merge": _merge,
    "replace_columns": _replace,
    "alter_columns": _alter,
    "drop_columns": lambda ds, given: explain_drop(ds._snapshot, given["columns"]),
    "compact_files": _compact,
    "cleanup_old_versions": _cleanup,
    "create_scalar_index": _scalar_index,
    "create_index": _vector_index,
    "optimize_indices": _optimize_indices,
    "validate": _validate,
    "merge_mem_wal": _merge_mem_wal,
    "restore": _restore,
    "create_branch": partial(_fork, operation="create_branch"),
    "shallow_clone": partial(_fork, operation="shallow_clone"),
    "deep_clone": partial(_fork, operation="deep_clone"),
}
