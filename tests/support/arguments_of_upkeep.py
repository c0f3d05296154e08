"""Checks of the arguments of commits, references, upkeep, and data files."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa

import lancekit as lk
import lancekit.fragment
from lancekit._api.optimizer import Compaction, CompactionPlan, CompactionTask
from tests.support.argument_checks import (
    Check,
    Hint,
    Keywords,
    Made,
    Method,
    Refused,
    Value,
    fresh,
    place,
    shared,
)
from tests.support.arguments_of_reads import GONE
from tests.support.arguments_of_writes import Call, after

__all__ = ["UPKEEP"]

Op = lk.LanceOperation


def _append(ds: lk.LanceDataset) -> Any:
    return Op.Append(lancekit.fragment.write_fragments({"id": [1]}, ds))


def _commit(**arguments: Any) -> Any:
    ds = fresh()
    given = {"base_uri": ds.uri, "operation": _append(ds), "read_version": 2, **arguments}
    landed = lk.LanceDataset.commit(**given)
    transaction = landed.read_transaction(landed.version)
    assert transaction is not None
    return landed.version < 100, landed, transaction.transaction_properties


def _create(**arguments: Any) -> Any:
    uri = place()
    made = lancekit.fragment.write_fragments({"id": [1]}, uri, mode="create")
    schema = lk.schema.LanceSchema.from_pyarrow(pa.schema({"id": pa.int64()}))
    landed = lk.LanceDataset.commit(uri, Op.Overwrite(schema, made), **arguments)
    listed = landed.all_files().read_all()["path"].to_pylist()
    return landed, landed.has_stable_row_ids, [len(p) for p in listed if "_versions" in p]


def _batch(**arguments: Any) -> Any:
    ds = fresh()
    one = [lk.Transaction(2, _append(ds))]
    landed = lk.LanceDataset.commit_batch(**{"dest": ds.uri, "transactions": one, **arguments})
    return landed["dataset"].version < 100, landed["dataset"]


COMMITTING: dict[str, Check] = {
    "commit_lock": Refused(5),
    "storage_options": Refused("text"),
    "detached": Value(True),
    "max_retries": Refused(-1),
    "base_store_params": GONE["base_store_params"],
    "commit_timeout": Refused(5),
}


def _compacted(**arguments: Any) -> Any:
    ds = fresh()
    done = ds.optimize.compact_files(**arguments)
    minors = [f.file_minor_version for g in ds.get_fragments() for f in g.metadata.files]
    return ds, done.fragments_removed, done.fragments_added, minors


COMPACTING: dict[str, Check] = {
    "target_rows_per_fragment": Value(1),
    "max_rows_per_group": Hint(7, "x"),
    "max_bytes_per_file": Refused(0),
    "materialize_deletions": Value(False, {"target_rows_per_fragment": 1}),
    "materialize_deletions_threshold": Value(0.5, {"target_rows_per_fragment": 1}),
    "defer_index_remap": Refused("x"),
    "num_threads": Hint(1, "x"),
    "batch_size": Hint(7, "x"),
    "compaction_mode": Refused("force_binary_copy"),
    "binary_copy_read_batch_bytes": Hint(7, "x"),
    "max_source_fragments": Value(1),
    "max_source_rows": Value(5),
    "max_source_bytes": Value(1),
    "excluded_fragment_ids": Value([0]),
    "data_storage_version": Refused("2.0"),
    "drop_index_coverage": Refused("x"),
}


def _cleaned(**arguments: Any) -> Any:
    ds = fresh()
    ds.tags.create("t", 1)
    ds.insert({"id": [1]})
    found = ds.cleanup_old_versions(**arguments)
    stats = found.old_versions, found.data_files_removed
    return stats, [version.version for version in ds.versions()]


def _would_clean(**arguments: Any) -> Any:
    ds = fresh()
    ds.tags.create("t", 1)
    ds.insert({"id": [1]})
    found = ds.explain_cleanup_old_versions(**arguments)
    stats = found.stats.old_versions, found.stats.data_files_removed
    return stats, len(found.candidate_files), found.candidate_file_limit


CLEANING: dict[str, Check] = {
    "older_than": Refused(5),
    "retain_versions": Value(1, {"older_than": None}),
    "delete_unverified": Refused("x"),
    "error_if_tagged_old_versions": Value(True),
    "versions": Value([2], {"older_than": None}),
}

ALL: dict[str, Any] = {"older_than": dt.timedelta(0), "error_if_tagged_old_versions": False}


def _tagged(name: str) -> Call:
    def call(**arguments: Any) -> Any:
        ds = fresh()
        for tag in ("t", "u"):
            ds.tags.create(tag, 1)
        getattr(ds.tags, name)(**arguments)
        return {tag: (v["version"], v["metadata"]) for tag, v in ds.tags.list().items()}

    return call


def _branched(name: str) -> Call:
    def call(**arguments: Any) -> Any:
        ds = fresh()
        for branch in "bc":
            ds.create_branch(branch, 1)
        getattr(ds.branches, name)(**arguments)
        return {branch: v["metadata"] for branch, v in ds.branches.list().items()}

    return call


def _cloned(name: str) -> Call:
    def call(**arguments: Any) -> Any:
        return getattr(fresh(), name)(**{"target_path": place(), **arguments})

    return call


CLONING: dict[str, Check] = {
    "target_path": Refused(None, "path"),
    "reference": Value(1),
    "storage_options": Refused("text"),
    "kwargs": Keywords("nonsense", 1),
}


def _task(**arguments: Any) -> Any:
    ds = fresh()
    (task,) = Compaction.plan(ds).tasks
    return task.execute(**{"dataset": ds, **arguments}).metrics


def _plan_committed(**arguments: Any) -> Any:
    ds = fresh()
    results = [task.execute(ds) for task in Compaction.plan(ds).tasks]
    done = Compaction.commit(**{"dataset": ds, "rewrites": results, **arguments})
    return ds, done.fragments_removed


def _planned_text(kind: Any, text: str | None) -> Any:
    ds = fresh()
    plan = Compaction.plan(ds)
    made = plan if kind is CompactionPlan else plan.tasks[0]
    return len(kind.from_json(made.json() if text is None else text).json()) > 0


def _dropped(**arguments: Any) -> str:
    try:
        lk.LanceDataset.drop(**arguments)
    except lk.errors.DatasetNotFoundError:
        return "there was nothing"
    return "dropped"


UPKEEP: dict[str, Method] = {
    "LanceDataset.commit": Method(
        _commit,
        COMMITTING
        | {
            "base_uri": Refused(5),
            "operation": Refused(5),
            "read_version": Refused("x"),
            "commit_message": Value("a"),
            "properties": Value({"a": "b"}),
            "namespace_client_managed_versioning": Refused(True),
            "namespace_client": GONE["namespace_client"],
            "table_id": GONE["table_id"],
        },
    ),
    "LanceDataset.commit ": Method(
        _create, {"enable_v2_manifest_paths": Value(False), "enable_stable_row_ids": Value(True)}
    ),
    "LanceDataset.commit_batch": Method(
        _batch,
        COMMITTING
        | {
            "dest": Refused(5, "int"),
            "transactions": Refused([]),
            "enable_v2_manifest_paths": Refused("x"),
        },
    ),
    "LanceDataset.create_branch": Method(
        lambda **kw: fresh().create_branch(**kw),
        {
            "branch": Value("c"),
            "reference": Value(1),
            "storage_options": Refused({"a": "b"}),
        },
        {"branch": "b"},
    ),
    "Branches.create": Method(
        lambda branch, reference=None: fresh().branches.create(branch, reference),
        {"branch": Value("c"), "reference": Value(1)},
        {"branch": "b"},
    ),
    "LanceDataset.shallow_clone": Method(_cloned("shallow_clone"), CLONING, {"reference": 2}),
    "LanceDataset.deep_clone": Method(_cloned("deep_clone"), CLONING, {"reference": 2}),
    "LanceDataset.restore": Method(after(lambda ds, **kw: ds.restore(**kw)), {"version": Value(1)}),
    "LanceDataset.drop": Method(
        _dropped,
        {
            "base_uri": Value(Made(lambda: fresh().uri)),
            "storage_options": Refused("text"),
            "ignore_not_found": Value(True),
        },
        {"base_uri": Made(place)},
    ),
    "LanceDataset.cleanup_old_versions": Method(
        _cleaned,
        CLEANING | {"delete_rate_limit": Refused(0), "delete_concurrency": Refused(0)},
        ALL,
    ),
    "LanceDataset.explain_cleanup_old_versions": Method(
        _would_clean,
        CLEANING
        | {
            "delete_rate_limit": Hint(5, "x"),
            "include_files": Value(True),
            "max_files": Value(1, {"include_files": True}),
        },
        ALL,
    ),
    "DatasetOptimizer.compact_files": Method(_compacted, COMPACTING),
    "DatasetOptimizer.enable_auto_cleanup": Method(
        after(lambda ds, **kw: ds.optimize.enable_auto_cleanup(**kw)),
        {
            "auto_cleanup_config": Value({"interval": 9, "older_than_seconds": 5}),
            "kwargs": Keywords("nonsense", 1),
        },
        {"auto_cleanup_config": {"interval": 5, "older_than_seconds": 5}},
    ),
    "DatasetOptimizer.disable_auto_cleanup": Method(
        after(lambda ds, **kw: ds.optimize.disable_auto_cleanup(**kw)),
        {"kwargs": Keywords("nonsense", 1)},
    ),
    "Compaction.plan": Method(
        lambda **kw: Compaction.plan(**kw).num_tasks(),
        {
            "dataset": Value(Made(lambda: lk.write_dataset({"id": [1]}, place()))),
            "options": Value({"target_rows_per_fragment": 1, "materialize_deletions": False}),
        },
        {"dataset": Made(fresh)},
    ),
    "Compaction.execute": Method(
        lambda **kw: Compaction.execute(**kw).fragments_removed,
        {"dataset": Value(Made(fresh)), "options": Refused({"none": 1}, "none")},
        {"dataset": Made(lambda: lk.write_dataset({"id": [1]}, place()))},
    ),
    "Compaction.commit": Method(
        _plan_committed,
        {
            "dataset": Refused(Made(lambda: shared().at(1)), "pinned"),
            "rewrites": Value([]),
            "options": Refused({"none": 1}, "none"),
        },
    ),
    "CompactionTask.execute": Method(
        _task, {"dataset": Value(Made(lambda: lk.write_dataset({"a": [1]}, place())))}
    ),
    "CompactionTask.from_json": Method(
        lambda json=None: _planned_text(CompactionTask, json),
        {"json": Refused("x", "CompactionTask")},
    ),
    "CompactionPlan.from_json": Method(
        lambda json=None: _planned_text(CompactionPlan, json),
        {"json": Refused("x", "CompactionPlan")},
    ),
    "Tags.create": Method(
        _tagged("create"), {"tag": Value("w"), "reference": Value(1)}, {"tag": "v"}
    ),
    "Tags.update": Method(
        _tagged("update"), {"tag": Value("u"), "reference": Value(1)}, {"tag": "t"}
    ),
    "Tags.delete": Method(_tagged("delete"), {"tag": Value("u")}, {"tag": "t"}),
    "Tags.replace_metadata": Method(
        _tagged("replace_metadata"),
        {"tag": Value("u"), "metadata": Value({"a": "2"})},
        {"tag": "t", "metadata": {"a": "1"}},
    ),
    "Branches.delete": Method(_branched("delete"), {"branch": Value("c")}, {"branch": "b"}),
    "Branches.replace_metadata": Method(
        _branched("replace_metadata"),
        {"branch": Value("c"), "metadata": Value({"a": "2"})},
        {"branch": "b", "metadata": {"a": "1"}},
    ),
}
