"""What `Explainer` tells of files, indices, logs, branches and clones."""

from __future__ import annotations

from typing import get_args

from lancekit._api._handle import Handle
from lancekit._api.index_config import no_fragments
from lancekit._api.index_requests import optimize_request, scalar_request, vector_request
from lancekit._arguments.checks import (
    check_callback,
    check_count,
    check_flag,
    check_place,
    refuse_more,
)
from lancekit._call import Arguments
from lancekit._choice import check_choice
from lancekit._operations.cleanup.plan import cleanup_request
from lancekit._operations.cleanup.run import CleanupExplanation, explain_cleanup
from lancekit._operations.explain.explanation import Explanation, explain_metadata
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
from lancekit._versions.references import parse_reference, resolve

__all__ = [
    "branch",
    "cleanup",
    "compact",
    "deep_clone",
    "merge_mem_wal",
    "optimize_indices",
    "restore",
    "scalar_index",
    "shallow_clone",
    "validate",
    "vector_index",
]

_SHARED = "no data is copied: the files stay where they are, and are referred to"
_COPIED = "every file of the version is copied"


def compact(ds: Handle, given: Arguments) -> Explanation:
    """Tell what a compaction would do."""
    options = CompactionOptions.parse(given, ds._snapshot.manifest.config)
    return explain_compaction(ds._snapshot, options)


def merge_mem_wal(ds: Handle, given: Arguments) -> Explanation:
    """Tell what a merge of write-ahead logs would do."""
    rows = check_count("rows_per_commit", given["rows_per_commit"], least=1)
    check_callback("progress", given["progress"])
    check_flag("flush", given["flush"])
    check_choice("on_error", given["on_error"], get_args(OnError))
    shards = chosen_shards(ds._snapshot, given["shards"])
    return explain_merge_mem_wal(ds._snapshot, shards, rows, flush=given["flush"])


def cleanup(ds: Handle, given: Arguments) -> CleanupExplanation:
    """Tell what a cleanup would remove."""
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


def scalar_index(ds: Handle, given: Arguments) -> Explanation:
    """Tell what a scalar index would do."""
    asked = {"kwargs": {}, **given}
    if asked.pop("fragment_ids") is not None:
        raise no_fragments("explain.create_scalar_index")
    plan = plan_index(ds._snapshot, scalar_request(**asked))
    return explain_index(plan, "create_scalar_index")


def vector_index(ds: Handle, given: Arguments) -> Explanation:
    """Tell what an index of vectors would do."""
    asked = dict(given)
    request = vector_request(**asked.pop("kwargs", {}), **asked)
    return explain_index(plan_index(ds._snapshot, request), "create_index")


def validate(ds: Handle, given: Arguments) -> Explanation:
    """Tell what a validation would read."""
    check_flag("sources", given["sources"])
    return explain_validate(ds._snapshot, deep=check_flag("deep", given["deep"]))


def restore(ds: Handle, _given: Arguments) -> Explanation:
    """Tell what a restore would do."""
    lost = f"the newest version becomes the same as version {ds.version}; none is lost"
    return explain_metadata(ds._snapshot, "restore", ["Restore"], [lost])


def _fork(ds: Handle, given: Arguments, operation: str, note: str) -> Explanation:
    refuse_more(operation, given.get("kwargs", {}))
    where = given["branch"] if "branch" in given else check_place(given["target_path"])
    reference = given["reference"]
    start = ds.version if reference is None else reference
    snapshot = resolve(ds._line, parse_reference(start, ds._line))
    return explain_metadata(snapshot, operation, ["Clone"], [f"what is made is {where!s}", note])


def optimize_indices(ds: Handle, given: Arguments) -> Explanation:
    """Tell what would become of indices."""
    return explain_optimize_indices(ds._snapshot, optimize_request(**{"kwargs": {}, **given}))


def branch(ds: Handle, given: Arguments) -> Explanation:
    """Tell what a branch would do."""
    return _fork(ds, given, "create_branch", _SHARED)


def shallow_clone(ds: Handle, given: Arguments) -> Explanation:
    """Tell what a shallow clone would do."""
    return _fork(ds, given, "shallow_clone", _SHARED)


def deep_clone(ds: Handle, given: Arguments) -> Explanation:
    """Tell what a deep clone would do."""
    return _fork(ds, given, "deep_clone", _COPIED)
