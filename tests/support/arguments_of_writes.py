"""Checks of the arguments of functions that write, or that set something up."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import lancekit as lk
import lancekit.fragment
from lancekit.file import LanceFileReader, LanceFileWriter
from lancekit.optimize import Compaction, CompactionPlan, CompactionTask
from tests.support.argument_checks import (
    Check,
    Hint,
    Keywords,
    Made,
    Method,
    Refused,
    Value,
    fragment,
    fresh,
    place,
    shared,
)
from tests.support.arguments_of_reads import GONE

__all__ = ["WRITES"]

Call = Callable[..., Any]
Op = lk.LanceOperation


def after(change: Call, *, result: bool = True) -> Call:
    """Return a call that changes a new dataset, and shows that and the result."""

    def call(**arguments: Any) -> Any:
        ds = fresh()
        found = change(ds, **arguments)
        plain = found if result and isinstance(found, int | str | dict | tuple | list) else None
        return plain, ds, ds.config(), ds.schema.metadata, ds.metadata, ds.schema.field(0).metadata

    return call


class Told(lk.FragmentWriteProgress):
    """Counts what it is told of."""

    calls = 0

    def begin(self, fragment: Any, **kwargs: Any) -> None:
        Told.calls += 1

    def complete(self, fragment: Any, **kwargs: Any) -> None:
        """Hear that one is complete."""


def _counted(call: Call) -> Call:
    """Return a call that also shows how often progress was told of."""

    def counting(**arguments: Any) -> Any:
        Told.calls = 0
        return call(**arguments), Told.calls

    return counting


def _written(**arguments: Any) -> Any:
    """Write, and show all that a write can change."""
    data = arguments.pop("data_obj", {"id": [1, 2, 3]})
    ds = lk.write_dataset(data, arguments.pop("uri", None) or place(), **arguments)
    (transaction, *_) = ds.get_transactions(1)
    fragments = [f.metadata for f in ds.get_fragments()]
    listed = ds.all_files().read_all()["path"].to_pylist()
    return (
        ds,
        len(fragments),
        ds.data_storage_version,
        ds.has_stable_row_ids,
        ds.config(),
        getattr(transaction, "transaction_properties", None),
        [f.nullable for f in ds.schema],
        [len(name) for name in listed if "_versions" in name],
        [(file.base_id, file.file_size_bytes) for f in fragments for file in f.files],
        len(ds.base_paths()),
    )


def _staged(**arguments: Any) -> Any:
    """Write fragments, and show them."""
    data = arguments.pop("data", {"id": [1, 2, 3]})
    made = lancekit.fragment.write_fragments(data, **{"dataset_uri": place(), **arguments})
    fragments = made if isinstance(made, list) else []
    return type(made).__name__, [_shown(f) for f in fragments]


def _shown(made: Any) -> Any:
    return (
        made.id,
        made.physical_rows,
        [(f.base_id, f.file_minor_version, f.file_size_bytes, len(f.fields)) for f in made.files],
    )


def _created(**arguments: Any) -> Any:
    given = {"dataset_uri": place(), "data": {"id": [1, 2, 3]}, **arguments}
    return _shown(lk.LanceFragment.create(**given))


def _lock(version: int) -> Any:
    raise lk.errors.InvalidArgumentError(f"commit_lock is asked for {version}")


#: a blob that is said to be in a file elsewhere
ELSEWHERE = pa.table(
    [lk.blob_array([lk.Blob.from_uri("memory://elsewhere/file")])],
    schema=pa.schema([lk.blob_field("b")]),
)
MANY = {"id": list(range(5000))}
NARROW = pa.schema({"id": pa.int8()})
BASE = lk.DatasetBasePath("memory://every-argument-base", name="base")
WRITING: dict[str, Check] = {
    "schema": Value(NARROW),
    "max_rows_per_file": Value(1),
    "max_rows_per_group": Hint(7, "x"),
    "max_bytes_per_file": Refused(0),
    "data_cache_bytes": Refused(1),
    "max_page_bytes": Refused(0),
    "progress": Value(Made(Told)),
    "storage_options": Refused("text"),
    "data_storage_version": Value("2.1"),
    "use_legacy_format": Refused(True),
    "initial_bases": Refused(5),
    "target_bases": Refused(["none"], "none"),
    "target_all_bases": Value(True, {"initial_bases": [BASE], "max_rows_per_file": 1}),
    "external_blob_mode": Refused("ingest"),
    **GONE,
}
RETRIES: dict[str, Check] = {
    "conflict_retries": Refused(-1),
    "retry_timeout": Refused(5),
}
COLUMNS: dict[str, Check] = {
    "read_columns": Refused(["none"], "none"),
    "reader_schema": Value(pa.schema({"y": pa.int8()})),
    "batch_size": Refused(0),
}


def _ys(batch: pa.RecordBatch) -> Any:
    return {"y": pa.array([1] * batch.num_rows, pa.int64())}


def _xs(batch: pa.RecordBatch) -> Any:
    return {"x": pa.array([1.0] * batch.num_rows)}


KEYED = pa.table({"id": [1], "y": [2], "k": [1]})
MAPPED = {"values": Value({"a": "2"}), "replace": Value(True)}


# ---- merges


def _merged(*setters: str, rows: Any = None, run: str = "execute") -> Call:
    """Return a call of one setter of a merge; the others are set before."""

    def call(**arguments: Any) -> Any:
        ds = fresh()
        merge = ds.merge_insert("id")
        for setter in setters[:-1]:
            getattr(merge, setter)()
        if setters and (arguments or setters[-1].startswith("when")):
            getattr(merge, setters[-1])(**arguments)
        given = {"id": [0, 1, 100], "x": [5.0, 6.0, 7.0], "s": ["A", "B", "C"]}
        found = getattr(merge, run)(given if rows is None else rows)
        return ds, dict(found), [f.metadata.files[-1].base_id for f in ds.get_fragments()]

    return call


def _run(name: str) -> Call:
    """Return a call of one of the ways to run a merge, with its own arguments."""

    def call(**arguments: Any) -> Any:
        ds = fresh()
        merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        found = getattr(merge, name)(**arguments)
        if isinstance(found, tuple):
            found = found[1]
        counts = [getattr(found, n, None) for n in ("num_updated_rows", "num_inserted_rows")]
        text = str(found) if isinstance(found, str | lk.Explanation) else ""
        lines = [line for line in text.splitlines() if "worked out" not in line]
        return ds, counts, lines, found if isinstance(found, dict) else None

    return call


SOURCE = {"id": [0, 100], "x": [5.0, 6.0], "s": ["A", "B"]}
SCHEMA = pa.schema({"id": pa.int64(), "x": pa.int8(), "s": pa.string()})
RUN: dict[str, Check] = {
    "data_obj": Value({"id": [1], "x": [5.0], "s": ["A"]}),
    "schema": Value(pa.schema({"id": pa.int64(), "x": pa.float64()})),
}
BATCHES: dict[str, Check] = {"new_data": Value(pa.table({"id": [1], "x": [5.0], "s": ["A"]}))}
UPSERT = ("when_matched_update_all", "when_not_matched_insert_all")


# ---- commits


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


# ---- compaction, cleanup, references


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
    "defer_index_remap": Refused(True),
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
    return found, [version.version for version in ds.versions()]


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


def _file_written(name: str, **arguments: Any) -> Any:
    path = arguments.pop("path", None) or f"{place()}/a.lance"
    own = name == "LanceFileWriter"
    with LanceFileWriter(path, **(arguments if own else {})) as writer:
        batch = arguments.get("batch") or pa.table(MANY)
        writer.write_batch(batch)
        if not own and name != "write_batch":
            getattr(writer, name)(**arguments)
    reader = LanceFileReader(path)
    told = reader.metadata()
    pages = [len(c.pages) for c in told.columns]
    table = reader.read_all().to_table()
    return (
        table,
        table.schema.metadata,
        (told.major_version, told.minor_version),
        pages,
        [reader.read_global_buffer(at) for at in range(1, 2) if name == "add_global_buffer"],
    )


def _swapped(name: str, **fixed: Any) -> Call:
    """Return a call of a fragment's method that writes, and shows what it made."""

    def call(**arguments: Any) -> Any:
        made = getattr(fragment(fresh()), name)(**{**fixed, **arguments})
        first = made[0] if isinstance(made, tuple) else made
        return len(made) if isinstance(made, tuple) else 1, None if first is None else (
            first.num_rows,
            [(f.fields, f.file_size_bytes) for f in first.files],
        )

    return call


def _based(**arguments: Any) -> lk.LanceDataset:
    ds = fresh()
    ds.add_bases(**arguments)
    return ds


def _merge_of(**arguments: Any) -> Any:
    ds = fresh()
    rows = {"id": [0, 0], "x": [1.0, 2.0], "s": ["A", "B"]}
    return ds.merge_insert(**arguments).when_matched_update_all().execute(rows), ds


def _from_file(**arguments: Any) -> Any:
    ds = fresh()
    name = ds.get_fragments()[0].metadata.files[0].path
    return _shown(
        lk.LanceFragment.create_from_file(**{"filename": name, "dataset": ds, **arguments})
    )


WRITES: dict[str, Method] = {
    "write_dataset": Method(
        _counted(_written),
        WRITING
        | {
            "allow_external_blob_outside_bases": Value(True, {"data_obj": ELSEWHERE}),
            "data_obj": Value({"id": [5]}),
            "uri": Value(Made(lambda: fresh().uri)),
            "mode": Refused("nonsense"),
            "commit_lock": Refused(5),
            "enable_v2_manifest_paths": Value(False),
            "enable_stable_row_ids": Value(True),
            "auto_cleanup_options": Value({"interval": 5, "older_than_seconds": 5}),
            "commit_message": Value("a"),
            "transaction_properties": Value({"a": "b"}),
            "initial_bases": Value([BASE]),
            "blob_pack_file_size_threshold": Refused(5),
            "primary_key": Value("id"),
            "checksums": Value(True),
            "manifest_store": Refused(5),
        },
    ),
    "write_fragments": Method(
        _counted(_staged),
        WRITING
        | {
            "allow_external_blob_outside_bases": Value(True, {"data": ELSEWHERE}),
            "data": Value({"id": [5]}),
            "dataset_uri": Refused(None, "path"),
            "return_transaction": Value(True),
            "mode": Refused("nonsense"),
            "enable_stable_row_ids": Hint(True, "x"),
        },
        {"mode": "create"},
    ),
    "LanceFragment.create": Method(
        _counted(_created),
        {name: WRITING[name] for name in ("schema", "max_rows_per_group", "progress")}
        | {
            "data_storage_version": Value("2.1"),
            "dataset_uri": Refused(None, "path"),
            "data": Value({"id": [5]}),
            "fragment_id": Value(7),
            "mode": Refused("nonsense"),
            "use_legacy_format": Refused(True),
            "storage_options": Refused("text"),
            **{name: GONE[name] for name in ("namespace_client", "table_id", "session")},
        },
    ),
    "LanceDataset.insert": Method(
        after(lambda ds, data, **kw: ds.insert(data, **kw)),
        {
            "data": Value({"id": [5]}),
            "mode": Value("overwrite"),
            "kwargs": Keywords("schema", NARROW),
        },
        {"data": {"id": [300]}},
    ),
    "LanceDataset.delete": Method(
        after(lambda ds, **kw: ds.delete(**kw)),
        {"predicate": Value("id = 2"), **RETRIES},
        {"predicate": "id = 1"},
    ),
    "LanceDataset.update": Method(
        after(lambda ds, **kw: ds.update(**kw)),
        {
            "updates": Value({"x": "2"}),
            "where": Value("id = 1"),
            "data_storage_version": Refused("2.0"),
            **RETRIES,
        },
        {"updates": {"x": "1"}},
    ),
    "LanceDataset.replace_columns": Method(
        after(lambda ds, **kw: ds.replace_columns(**kw)),
        {
            "transforms": Value({"x": "2"}),
            **COLUMNS,
            "reader_schema": Refused(pa.schema({"none": pa.int8()}), "none"),
            **RETRIES,
        },
        {"transforms": _xs},
    ),
    "LanceDataset.add_columns": Method(
        after(lambda ds, **kw: ds.add_columns(**kw)),
        {"transforms": Value({"y": "2"}), **COLUMNS, "on": Value("id")},
        {"transforms": _ys},
    ),
    "LanceDataset.merge": Method(
        after(lambda ds, **kw: ds.merge(**kw)),
        {
            "data_obj": Value(KEYED.slice(0, 0).drop_columns("k")),
            "left_on": Refused("none", "none"),
            "right_on": Refused("none", "none"),
            "schema": Value(pa.schema({"id": pa.int64(), "y": pa.int8()})),
        },
        {"data_obj": KEYED.drop_columns("k"), "left_on": "id"},
    ),
    "LanceDataset.drop_columns": Method(
        after(lambda ds, **kw: ds.drop_columns(**kw)), {"columns": Value(["s"])}, {"columns": ["x"]}
    ),
    "LanceDataset.alter_columns": Method(
        after(lambda ds, alterations: ds.alter_columns(alterations)),
        {"alterations": Value({"path": "x", "name": "z"})},
        {"alterations": {"path": "x", "name": "y"}},
    ),
    "LanceDataset.add_bases": Method(
        lambda **kw: [
            (done.base_paths(), done.get_transactions(1)[0].transaction_properties)  # type: ignore[union-attr]
            for done in [_based(**kw)]
        ],
        {"new_bases": Value([]), "transaction_properties": Value({"a": "b"})},
        {"new_bases": [BASE]},
    ),
    "LanceDataset.delete_config_keys": Method(
        after(
            lambda ds, keys: (ds.update_config({"a": "1", "b": "1"}), ds.delete_config_keys(keys))
        ),
        {"keys": Value(["b"])},
        {"keys": ["a"]},
    ),
    **{
        f"LanceDataset.{name}": Method(
            after(
                lambda ds, name=name, **kw: (getattr(ds, name)({"k": "1"}), getattr(ds, name)(**kw))
            ),
            MAPPED,
            {"values": {"a": "1"}},
        )
        for name in ("update_config", "update_metadata", "update_schema_metadata")
    },
    "LanceDataset.update_field_metadata": Method(
        after(
            lambda ds, **kw: (
                ds.update_field_metadata({"id": {"k": "1"}}),
                ds.update_field_metadata(**kw),
            )
        ),
        {"field_updates": Value({"id": {"a": "2"}}), "replace": Value(True)},
        {"field_updates": {"id": {"a": "1"}}},
    ),
    "LanceDataset.replace_schema_metadata": Method(
        after(lambda ds, **kw: ds.replace_schema_metadata(**kw)),
        {"new_metadata": Value({"a": "2"})},
        {"new_metadata": {"a": "1"}},
    ),
    "LanceDataset.replace_field_metadata": Method(
        after(lambda ds, **kw: ds.replace_field_metadata(**kw)),
        {"new_metadata": Value({"a": "2"}), "field_name": Value("x")},
        {"field_name": "id", "new_metadata": {"a": "1"}},
    ),
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
    "LanceDataset.shallow_clone": Method(_cloned("shallow_clone"), CLONING, {"reference": 2}),
    "LanceDataset.deep_clone": Method(_cloned("deep_clone"), CLONING, {"reference": 2}),
    "LanceDataset.drop": Method(
        lk.LanceDataset.drop,
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
    "LanceDataset.merge_insert": Method(
        _merge_of,
        {
            "on": Refused("none", "none"),
            "dedupe": Value("first"),
            "dedupe_by": Value("x"),
        },
        {"on": "id"},
    ),
    "MergeInsertBuilder.when_matched_update_all": Method(
        _merged("when_matched_update_all"), {"condition": Value("source.x > 5")}
    ),
    "MergeInsertBuilder.when_not_matched_by_source_delete": Method(
        _merged("when_not_matched_by_source_delete"), {"expr": Value("id > 5")}
    ),
    "MergeInsertBuilder.dedupe": Method(
        _merged(*UPSERT, "dedupe", rows={"id": [0, 0], "x": [1.0, 2.0], "s": ["A", "B"]}),
        {"keep": Value("first"), "by": Value("x")},
    ),
    "MergeInsertBuilder.write_mode": Method(
        _merged("when_matched_update_all", "write_mode"), {"mode": Value("rewrite_columns")}
    ),
    "MergeInsertBuilder.conflict_retries": Method(
        _merged(*UPSERT, "conflict_retries"), {"max_retries": Refused(-1, "conflict_retries")}
    ),
    "MergeInsertBuilder.retry_timeout": Method(
        _merged(*UPSERT, "retry_timeout"), {"timeout": Refused(5)}
    ),
    "MergeInsertBuilder.use_index": Method(
        _merged(*UPSERT, "use_index"), {"use_index": Hint(False, "x")}
    ),
    "MergeInsertBuilder.target_bases": Method(
        _merged(*UPSERT, "target_bases"), {"bases": Refused(["none"], "none")}
    ),
    "MergeInsertBuilder.target_all_bases": Method(
        _merged(*UPSERT, "target_all_bases"), {"include_primary": Value(False)}
    ),
    "MergeInsertBuilder.data_storage_version": Method(
        _merged(*UPSERT, "data_storage_version"), {"version": Refused("2.0", "2.0")}
    ),
    **{
        f"MergeInsertBuilder.{name}": Method(_run(name), RUN, {"data_obj": SOURCE})
        for name in ("execute", "execute_uncommitted", "preview", "explain", "analyze_plan")
    },
    **{
        f"MergeInsertBuilder.{name}": Method(
            lambda new_data, name=name: _run(name.removesuffix("_batches"))(data_obj=new_data),
            BATCHES,
            {"new_data": SOURCE},
        )
        for name in ("execute_batches", "execute_uncommitted_batches", "analyze_plan_batches")
    },
    "MergeInsertBuilder.explain_plan": Method(
        _run("explain_plan"), {"schema": Value(NARROW), "verbose": Hint(True, "x")}
    ),
    "LanceFragment.create_from_file": Method(
        _from_file,
        {
            "filename": Refused("none.lance", "none"),
            "dataset": Refused(5, "5"),
            "fragment_id": Value(7),
        },
        {"fragment_id": 0},
    ),
    "LanceFragment.delete": Method(
        _swapped("delete"), {"predicate": Value("id > 1")}, {"predicate": "id = 1"}
    ),
    "LanceFragment.delete_rows": Method(
        _swapped("delete_rows"), {"offsets": Value([1, 2])}, {"offsets": [1]}
    ),
    "LanceFragment.merge": Method(
        _swapped("merge"),
        {
            "data_obj": Value({"id": [1]}),
            "left_on": Refused("none", "none"),
            "right_on": Refused("none", "none"),
            "schema": Value(pa.schema({"id": pa.int64(), "y": pa.int8()})),
        },
        {"data_obj": KEYED.drop_columns("k"), "left_on": "id"},
    ),
    "LanceFragment.merge_columns": Method(
        _swapped("merge_columns"),
        {
            "value_func": Value({"y": "1", "z": "2"}),
            "columns": COLUMNS["read_columns"],
            "batch_size": COLUMNS["batch_size"],
            "reader_schema": COLUMNS["reader_schema"],
        },
        {"value_func": _ys},
    ),
    "LanceFragment.update_columns": Method(
        _swapped("update_columns"),
        {
            "data_obj": Value({"id": [1], "x": [1.0], "s": ["b"]}),
            "left_on": Refused("none", "none"),
            "right_on": Refused("none", "none"),
            "schema": Refused(pa.schema({"id": pa.int64()}), "x"),
            "with_offsets": Value(True),
        },
        {"data_obj": {"id": [1], "x": [1.0]}, "left_on": "id"},
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
    "LanceFileWriter": Method(
        lambda **kw: _file_written("LanceFileWriter", **kw),
        {
            "path": Value("memory://every-argument-file/none/../a.lance"),
            "schema": Value(pa.schema({"none": pa.int8()})),
            "data_cache_bytes": Value(1),
            "version": Value("2.1"),
            "storage_options": Refused("text"),
            "namespace_client": Refused(object(), "Namespaces"),
            "table_id": Refused(["a"], "Namespaces"),
            "max_page_bytes": Value(64),
        },
    ),
    "LanceFileWriter.write_batch": Method(
        lambda **kw: _file_written("write_batch", **kw), {"batch": Value(pa.table({"id": [1]}))}
    ),
    "LanceFileWriter.add_schema_metadata": Method(
        lambda **kw: _file_written("add_schema_metadata", **kw),
        {"key": Value("b"), "value": Value("2")},
        {"key": "a", "value": "1"},
    ),
    "LanceFileWriter.add_global_buffer": Method(
        lambda **kw: _file_written("add_global_buffer", **kw), {"data": Value(b"b")}, {"data": b"a"}
    ),
}
