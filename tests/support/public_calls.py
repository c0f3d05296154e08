"""One call of everything that a dataset offers, on any dataset with the columns of `ROWS`."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import lancekit as lk
from lancekit.file import LanceFileReader

__all__ = ["CALLS", "NEEDS_SPARK", "ROWS", "public_names"]

ROWS = pa.table(
    {
        "k": pa.array([1, 2, 3, 4], pa.int64()),
        "s": ["a", "b", None, "d"],
        "b": lk.blob_array([b"x", b"y", None, b"z"]),
    },
    pa.schema(
        [
            pa.field("k", pa.int64()),
            pa.field("s", pa.string()),
            lk.blob_field("b"),
        ]
    ),
)
NO_TIME = timedelta(0)

Dataset = lk.LanceDataset
#: what to do with a dataset; the folder is an empty one beside it
Call = Callable[[Dataset, Path], object]


def _put(ds: Any) -> None:
    with _with_shards(ds).mem_wal_writer("00000000-0000-0000-0000-000000000007") as writer:
        writer.put(ROWS)
        writer.delete(ROWS)
        _shown(writer)


def _merge(ds: Dataset) -> lk.MergeInsertBuilder:
    return ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()


def _with_shards(ds: Dataset) -> Dataset:
    ds.initialize_mem_wal(unsharded=True)
    return ds


def _fragment(ds: Dataset) -> lk.LanceFragment:
    return ds.get_fragments()[0]


def _part_of_an_index(ds: Dataset) -> Any:
    return ds.create_index_uncommitted("k", "BTREE", fragment_ids=[_fragment(ds).fragment_id])


def _shown(thing: Any) -> list[str]:
    html = getattr(thing, "_repr_html_", None)
    return [repr(thing), str(thing), html() if html else ""]


def _all_shown(ds: Dataset, _: Path) -> list[str]:
    parts = [ds, ds.versions(), ds.tags, ds.branches, ds.lance_schema, _fragment(ds), ds.scanner()]
    parts += [ds[name] for name in ds.schema.names[:3]]
    return [text for part in parts for text in _shown(part)]


def _files(ds: Dataset, _: Path) -> list[object]:
    found: list[object] = []
    for file in _fragment(ds).data_files():
        reader = LanceFileReader(f"{ds.uri}/data/{file.path}")
        found += [reader.metadata(), reader.read_all().to_table()]
    return found


def _commit(ds: Dataset, _: Path) -> object:
    made = lk.LanceFragment.create(ds.uri, ROWS)
    return Dataset.commit(ds, lk.LanceOperation.Append([made]), read_version=ds.version)


def _commit_batch(ds: Dataset, _: Path) -> object:
    made = lk.LanceFragment.create(ds.uri, ROWS)
    append = lk.LanceOperation.Append([made])
    return Dataset.commit_batch(ds, [lk.Transaction(ds.version, append)])


def _uncommitted(ds: Dataset, _: Path) -> object:
    transaction, _result = _merge(ds).execute_uncommitted(ROWS)
    return Dataset.commit(ds, transaction)


def _constrained(ds: Dataset, _: Path) -> object:
    ds.constraints.add("known", "count(k) >= 0")
    return [*_shown(ds.constraints), *_shown(ds.constraints.run())]


#: by the name of the class and of the method or property
CALLS: Mapping[str, Call] = {
    "shown": _all_shown,
    "pickled": lambda ds, _: pickle.loads(pickle.dumps(ds)).count_rows(),
    "files": _files,
    # ---- the dataset: looking
    "LanceDataset.explore": lambda ds, _: _shown(ds.explore(1)),
    "LanceDataset.columns": lambda ds, _: ds.columns,
    "LanceDataset.dtypes": lambda ds, _: ds.dtypes,
    "LanceDataset.shape": lambda ds, _: ds.shape,
    "LanceDataset.latest": lambda ds, _: ds.latest().to_table(),
    "Branches.create": lambda ds, _: ds.branches.create("newer", 1).insert(ROWS),
    "LanceDataset.at": lambda ds, _: ds.at(1).to_table(),
    "LanceDataset.all_files": lambda ds, _: list(ds.all_files()),
    "LanceDataset.base_paths": lambda ds, _: ds.base_paths(),
    "LanceDataset.bisect": lambda ds, _: _shown(ds.bisect(lambda past: past.version < 2)),
    "LanceDataset.blame": lambda ds, _: ds.blame(),
    "LanceDataset.branch": lambda ds, _: ds.branch,
    "LanceDataset.changes": lambda ds, _: ds.changes(1).to_table(),
    "LanceDataset.checkout_latest": lambda ds, _: ds.checkout_latest(),
    "LanceDataset.checkout_version": lambda ds, _: ds.checkout_version("t").to_table(),
    "LanceDataset.column_history": lambda ds, _: _shown(ds.column_history("s")),
    "LanceDataset.config": lambda ds, _: ds.config(),
    "LanceDataset.constraints": _constrained,
    "LanceDataset.count_rows": lambda ds, _: ds.count_rows("k > 1"),
    "LanceDataset.data_storage_version": lambda ds, _: ds.data_storage_version,
    "LanceDataset.delta": lambda ds, _: list(ds.delta(compared_against=1).list_transactions()),
    "LanceDataset.diff": lambda ds, _: ds.diff(1).to_table(),
    "LanceDataset.explain": lambda ds, _: _shown(ds.explain.delete("k = 1")),
    "LanceDataset.fragment_ids": lambda ds, _: ds.fragment_ids,
    "LanceDataset.get_fragment": lambda ds, _: ds.get_fragment(0),
    "LanceDataset.get_fragments": lambda ds, _: ds.get_fragments(),
    "LanceDataset.get_transactions": lambda ds, _: _shown(ds.get_transactions()),
    "LanceDataset.get_version": lambda ds, _: ds.tags.get_version("t"),
    "LanceDataset.get_ivf_model": lambda ds, _: ds.get_ivf_model("k_idx"),
    "LanceDataset.has_index": lambda ds, _: ds.has_index,
    "LanceDataset.has_stable_row_ids": lambda ds, _: ds.has_stable_row_ids,
    "LanceDataset.head": lambda ds, _: ds.head(1),
    "LanceDataset.index_columns": lambda ds, _: ds.index_columns,
    "LanceDataset.lance_schema": lambda ds, _: _shown(ds.lance_schema),
    "LanceDataset.latest_version": lambda ds, _: ds.latest_version,
    "LanceDataset.list_indices": lambda ds, _: ds.list_indices(),
    "LanceDataset.max_field_id": lambda ds, _: ds.max_field_id,
    "LanceDataset.merge_index_metadata": lambda ds, _: ds.merge_index_metadata(
        _part_of_an_index(ds).uuid, "INVERTED"
    ),
    "LanceDataset.metadata": lambda ds, _: ds.metadata,
    "LanceDataset.new_file_session": lambda ds, _: ds.new_file_session().list(),
    "LanceDataset.read_transaction": lambda ds, _: _shown(ds.read_transaction(1)),
    "LanceDataset.remap_row_addrs": lambda ds, _: ds.remap_row_addrs(pa.array([0, 1], pa.uint64())),
    "LanceDataset.revert": lambda ds, _: ds.revert(2),
    "LanceDataset.duplicates": lambda ds, _: _shown(ds.duplicates("k")),
    "LanceDataset.row_history": lambda ds, _: _shown(ds.row_history({"k": 1})),
    "LanceDataset.sample": lambda ds, _: ds.sample(2),
    "LanceDataset.schema": lambda ds, _: ds.schema,
    "LanceDataset.schema_metadata": lambda ds, _: ds.schema_metadata,
    "LanceDataset.session": lambda ds, _: _shown(ds.session()),
    "LanceDataset.slice": lambda ds, _: ds.slice(0, 2),
    "LanceDataset.stats": lambda ds, _: ds.stats.dataset_stats(),
    "LanceDataset.take": lambda ds, _: ds.take([0, 1]),
    "LanceDataset.take_blobs": lambda ds, _: [
        file and file.readall() for file in ds.take_blobs("b", indices=[0, 1])
    ],
    "LanceDataset.read_blobs": lambda ds, _: ds.read_blobs("b", indices=[0, 1]),
    "LanceDataset.read_blob_ranges": lambda ds, _: ds.read_blob_ranges(
        "b", [(0, 0, 1)], selector="indices"
    ),
    "LanceDataset.to_batches": lambda ds, _: list(ds.to_batches()),
    "LanceDataset.to_pandas": lambda ds, _: ds.to_pandas(),
    "LanceDataset.to_table": lambda ds, _: ds.to_table(filter="s LIKE '%a%'"),
    "LanceDataset.tracked_files": lambda ds, _: list(ds.tracked_files()),
    "LanceDataset.uri": lambda ds, _: ds.uri,
    "LanceDataset.validate": lambda ds, _: ds.validate(deep=True, sources=True),
    "LanceDataset.version": lambda ds, _: ds.version,
    "LanceDataset.version_refs": lambda ds, _: list(ds.version_refs()),
    "LanceDataset.versions": lambda ds, _: list(ds.versions()),
    # ---- the dataset: changing
    "LanceDataset.add_bases": lambda ds, folder: ds.add_bases(
        [lk.DatasetBasePath(str(folder), "spare")]
    ),
    "LanceDataset.add_columns": lambda ds, _: ds.add_columns({"n": "k + 1"}),
    "LanceDataset.alter_columns": lambda ds, _: ds.alter_columns({"path": "s", "name": "t"}),
    "LanceDataset.cleanup_old_versions": lambda ds, _: ds.cleanup_old_versions(
        NO_TIME, delete_unverified=True, error_if_tagged_old_versions=False
    ),
    "LanceDataset.commit": _commit,
    "LanceDataset.commit_batch": _commit_batch,
    "LanceDataset.create_branch": lambda ds, _: ds.create_branch("new", 1).insert(ROWS),
    "Branches.to_pandas": lambda ds, _: ds.branches.to_pandas(),
    "Branches.to_polars": lambda ds, _: ds.branches.to_polars(),
    "Tags.to_pandas": lambda ds, _: ds.tags.to_pandas(),
    "Tags.to_polars": lambda ds, _: ds.tags.to_polars(),
    "LanceDataset.to_duckdb": lambda ds, _: ds.to_duckdb().fetchall(),
    "LanceDataset.to_polars": lambda ds, _: ds.to_polars(),
    "LanceDataset.export": lambda ds, folder: ds.export(folder / "x.parquet"),
    "LanceDataset.pack": lambda ds, folder: ds.pack(folder / "x.zip"),
    "LanceDataset.deep_clone": lambda ds, folder: ds.deep_clone(folder / "deep", 1),
    "LanceDataset.deepen": lambda ds, _: _shown(ds.deepen()),
    "LanceDataset.centroids": lambda ds, _: ds.centroids(index_name="k_idx"),
    "LanceDataset.commit_existing_index_segments": lambda ds, _: ds.commit_existing_index_segments(
        "k_idx", "k", [_part_of_an_index(ds)]
    ),
    "LanceDataset.create_index": lambda ds, _: ds.create_index("k", "IVF_FLAT"),
    "LanceDataset.create_index_uncommitted": lambda ds, _: _part_of_an_index(ds),
    "LanceDataset.create_scalar_index": lambda ds, _: ds.create_scalar_index("k", "BTREE"),
    "LanceDataset.describe_indices": lambda ds, _: ds.describe_indices(),
    "LanceDataset.drop_index": lambda ds, _: ds.drop_index("k_idx"),
    "LanceDataset.indices": lambda ds, _: _shown(ds.indices),
    "LanceDataset.index_statistics": lambda ds, _: [
        ds.index_statistics(one.name) for one in ds.describe_indices()
    ],
    "LanceDataset.merge_existing_index_segments": lambda ds, _: ds.merge_existing_index_segments(
        [_part_of_an_index(ds)]
    ),
    "LanceDataset.delete": lambda ds, _: ds.delete("k = 1"),
    "LanceDataset.delete_config_keys": lambda ds, _: ds.delete_config_keys(["x"]),
    "LanceDataset.drop": lambda ds, _: lk.LanceDataset.drop(ds.uri),
    "LanceDataset.drop_columns": lambda ds, _: ds.drop_columns(["s"]),
    "LanceDataset.explain_cleanup_old_versions": lambda ds, _: _shown(
        ds.explain_cleanup_old_versions(
            NO_TIME, delete_unverified=True, error_if_tagged_old_versions=False
        )
    ),
    "LanceDataset.initialize_mem_wal": lambda ds, _: ds.initialize_mem_wal(unsharded=True),
    "LanceDataset.insert": lambda ds, _: ds.insert(ROWS),
    "LanceDataset.cleanup_mem_wal": lambda ds, _: _with_shards(ds).cleanup_mem_wal(grace=NO_TIME),
    "LanceDataset.merge_mem_wal": lambda ds, _: _with_shards(ds).merge_mem_wal(),
    "LanceDataset.repair_mem_wal": lambda ds, _: _with_shards(ds).repair_mem_wal(),
    "LanceDataset.mem_wal_quarantine": lambda ds, _: ds.mem_wal_quarantine(),
    "LanceDataset.mem_wal_set_aside": lambda ds, _: _with_shards(ds).mem_wal_set_aside(),
    "LanceDataset.mem_wal_index_details": lambda ds, _: ds.mem_wal_index_details(),
    "LanceDataset.mem_wal_shards": lambda ds, _: ds.mem_wal_shards(),
    "LanceDataset.mem_wal_upsert": lambda ds, _: _with_shards(ds).mem_wal_upsert(ROWS, flush=True),
    "LanceDataset.mem_wal_writer": lambda ds, _: _put(ds),
    "LanceDataset.lsm_scanner": lambda ds, _: _with_shards(ds).lsm_scanner().to_table(),
    "LanceDataset.prewarm_index": lambda ds, _: ds.prewarm_index("k_idx"),
    "LanceDataset.merge": lambda ds, _: ds.merge(pa.table({"k": [1, 2], "m": [5, 6]}), "k"),
    "LanceDataset.merge_insert": lambda ds, _: _merge(ds).execute(ROWS),
    "LanceDataset.migrate_manifest_paths_v2": lambda ds, _: ds.migrate_manifest_paths_v2(),
    "LanceDataset.optimize": lambda ds, _: ds.optimize.compact_files(),
    "LanceDataset.replace_columns": lambda ds, _: ds.replace_columns({"s": "'z'"}),
    "LanceDataset.replace_field_metadata": lambda ds, _: ds.replace_field_metadata("s", {"a": "b"}),
    "LanceDataset.replace_schema_metadata": lambda ds, _: ds.replace_schema_metadata({"a": "b"}),
    "LanceDataset.restore": lambda ds, _: ds.checkout_version(1).restore(),
    "LanceDataset.scanner": lambda ds, _: ds.scanner(columns=["k"], with_row_id=True).to_table(),
    "LanceDataset.shallow_clone": lambda ds, folder: ds.shallow_clone(folder / "shallow", 1),
    "LanceDataset.sql": lambda ds, _: ds.sql("SELECT k FROM dataset").build().to_batch_records(),
    "LanceDataset.truncate_table": lambda ds, _: ds.truncate_table(),
    "LanceDataset.undo": lambda ds, _: ds.undo(),
    "LanceDataset.update": lambda ds, _: ds.update({"s": "'z'"}, where="k = 2"),
    "LanceDataset.update_config": lambda ds, _: ds.update_config({"x": "y"}),
    "LanceDataset.update_field_metadata": lambda ds, _: ds.update_field_metadata({"s": {"a": "b"}}),
    "LanceDataset.update_metadata": lambda ds, _: ds.update_metadata({"x": "y"}),
    "LanceDataset.update_schema_metadata": lambda ds, _: ds.update_schema_metadata({"x": "y"}),
    # ---- tags and branches
    "LanceDataset.tags": lambda ds, _: _shown(ds.tags),
    "LanceDataset.branches": lambda ds, _: _shown(ds.branches),
    "Tags.create": lambda ds, _: ds.tags.create("new", 1),
    "Tags.delete": lambda ds, _: ds.tags.delete("t"),
    "Tags.get_version": lambda ds, _: ds.tags.get_version("t"),
    "Tags.list": lambda ds, _: ds.tags.list(),
    "Tags.list_ordered": lambda ds, _: ds.tags.list_ordered(),
    "Tags.names": lambda ds, _: ds.tags.names(),
    "Tags.keys": lambda ds, _: ds.tags.keys(),
    "Tags.replace_metadata": lambda ds, _: ds.tags.replace_metadata("t", {"a": "b"}),
    "Tags.update": lambda ds, _: ds.tags.update("t", 1),
    "Branches.cherry_pick": lambda ds, _: ds.branches.cherry_pick("main", 2),
    "Branches.compare": lambda ds, _: _shown(ds.branches.compare("b", on="k")),
    "Branches.delete": lambda ds, _: [
        ds.branches.delete(name) for name in sorted({*ds.branches.names(), "b"})
    ],
    "Branches.list": lambda ds, _: ds.branches.list(),
    "Branches.list_ordered": lambda ds, _: ds.branches.list_ordered(),
    "Branches.names": lambda ds, _: ds.branches.names(),
    "Branches.keys": lambda ds, _: ds.branches.keys(),
    "Branches.merge": lambda ds, _: _shown(ds.branches.merge("b", on="k", dry_run=True)),
    "Branches.rebase": lambda ds, _: ds.branches.rebase("b", on="k"),
    "Branches.replace_metadata": lambda ds, _: ds.branches.replace_metadata("b", {"a": "b"}),
    "on a branch": lambda ds, _: ds.checkout_version(("b", None)).insert(ROWS),
    "cleanup on a branch": lambda ds, _: ds.checkout_version(("b", None)).cleanup_old_versions(
        NO_TIME, delete_unverified=True, error_if_tagged_old_versions=False
    ),
    # ---- scanners, fragments, merges
    "LanceScanner.analyze_plan": lambda ds, _: ds.scanner().analyze_plan(),
    "LanceScanner.count_rows": lambda ds, _: ds.scanner(filter="k > 1").count_rows(),
    "LanceScanner.dataset_schema": lambda ds, _: ds.scanner().dataset_schema,
    "LanceScanner.explain": lambda ds, _: _shown(ds.scanner().explain()),
    "LanceScanner.explain_plan": lambda ds, _: ds.scanner().explain_plan(),
    "LanceScanner.head": lambda ds, _: ds.scanner().head(1),
    "LanceScanner.projected_schema": lambda ds, _: ds.scanner().projected_schema,
    "LanceScanner.schema": lambda ds, _: ds.scanner().schema,
    "LanceScanner.to_batches": lambda ds, _: list(ds.scanner().to_batches()),
    "LanceScanner.to_pandas": lambda ds, _: ds.scanner().to_pandas(),
    "LanceScanner.to_reader": lambda ds, _: ds.scanner().to_reader().read_all(),
    "LanceScanner.to_table": lambda ds, _: ds.scanner(limit=1).to_table(),
    "LanceScanner.unsorted": lambda ds, _: ds.scanner(order_by=["k"]).unsorted,
    "LanceFragment.count_rows": lambda ds, _: _fragment(ds).count_rows("k > 1"),
    "LanceFragment.create": lambda ds, _: lk.LanceFragment.create(ds.uri, ROWS),
    "LanceFragment.create_from_file": lambda ds, _: lk.LanceFragment.create_from_file(
        _fragment(ds).data_files()[0].path, ds, 9
    ),
    "LanceFragment.data_files": lambda ds, _: _fragment(ds).data_files(),
    "LanceFragment.delete": lambda ds, _: _fragment(ds).delete("k = 1"),
    "LanceFragment.delete_rows": lambda ds, _: _fragment(ds).delete_rows([0]),
    "LanceFragment.deletion_file": lambda ds, _: _fragment(ds).deletion_file(),
    "LanceFragment.fragment_id": lambda ds, _: _fragment(ds).fragment_id,
    "LanceFragment.head": lambda ds, _: _fragment(ds).head(1),
    "LanceFragment.merge": lambda ds, _: _fragment(ds).merge(pa.table({"k": [1], "m": [2]}), "k"),
    "LanceFragment.merge_columns": lambda ds, _: _fragment(ds).merge_columns({"n": "k"}),
    "LanceFragment.metadata": lambda ds, _: _shown(_fragment(ds).metadata),
    "LanceFragment.num_deletions": lambda ds, _: _fragment(ds).num_deletions,
    "LanceFragment.open_session": lambda ds, _: _fragment(ds).open_session(["k"]).take([0]),
    "LanceFragment.physical_rows": lambda ds, _: _fragment(ds).physical_rows,
    "LanceFragment.physical_schema": lambda ds, _: _fragment(ds).physical_schema,
    "LanceFragment.scanner": lambda ds, _: _fragment(ds).scanner().to_table(),
    "LanceFragment.schema": lambda ds, _: _fragment(ds).schema,
    "LanceFragment.take": lambda ds, _: _fragment(ds).take([0]),
    "LanceFragment.to_batches": lambda ds, _: list(_fragment(ds).to_batches()),
    "LanceFragment.to_pandas": lambda ds, _: _fragment(ds).scanner().to_pandas(),
    "LanceFragment.to_table": lambda ds, _: _fragment(ds).to_table(),
    "LanceFragment.update_columns": lambda ds, _: _fragment(ds).update_columns(
        pa.table({"k": [1], "s": ["q"]}), "k"
    ),
    "LanceFragment.validate": lambda ds, _: _fragment(ds).validate(),
    "MergeInsertBuilder.analyze_plan": lambda ds, _: _merge(ds).analyze_plan(ROWS),
    "MergeInsertBuilder.execute": lambda ds, _: _merge(ds).execute(ROWS),
    "MergeInsertBuilder.execute_uncommitted": _uncommitted,
    "MergeInsertBuilder.explain": lambda ds, _: _shown(_merge(ds).explain(ROWS)),
    "MergeInsertBuilder.explain_plan": lambda ds, _: _merge(ds).explain_plan(),
    "MergeInsertBuilder.interactive": lambda ds, _: _shown(_merge(ds).interactive(ROWS)),
    "MergeInsertBuilder.preview": lambda ds, _: _shown(_merge(ds).preview(ROWS)),
    "LanceDataset.plot": lambda ds, _: [
        _shown(picture) for picture in (ds.plot.history(), ds.plot.graph(), ds.plot.fragments())
    ],
    # ---- the doors
    "write_dataset.append": lambda ds, _: lk.write_dataset(ROWS, ds.uri, mode="append"),
    "write_dataset.overwrite": lambda ds, _: lk.write_dataset(ROWS, ds.uri, mode="overwrite"),
    "plot_history": lambda ds, _: lk.plot_history(ds),
}

#: by name: why a call of it has no place in a process without Spark
NEEDS_SPARK = {
    "LanceDataset.create_temp_view": "a session",
    "LanceDataset.to_spark": "a session",
}


def public_names() -> set[str]:
    """Return the methods and properties of the classes above that do something by themselves.

    The steps of a merge's builder only note down what `execute` is to do.
    """
    classes = [lk.LanceDataset, lk.Tags, lk.Branches, lk.LanceScanner, lk.LanceFragment]
    names = {f"{kind.__name__}.{name}" for kind in classes for name in vars_of(kind)}
    steps = [
        name
        for name in vars_of(lk.MergeInsertBuilder)
        if name.startswith(("ex", "an", "pr", "int"))
    ]
    # those of batches take the same way with another source
    return names | {f"MergeInsertBuilder.{name}" for name in steps if "batches" not in name}


def vars_of(kind: type) -> list[str]:
    """Return the public names of a class."""
    return [name for name in dir(kind) if not name.startswith("_")]
