"""Values that fit nowhere, and a valid call of everything public for them to be put into."""

from __future__ import annotations

import inspect
import io
import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

import lancekit as lk
from lancekit._api.lance_schema import LanceField, LanceSchema
from lancekit._api.optimizer import Compaction, CompactionPlan, CompactionTask
from lancekit._api.sql import SqlQueryBuilder
from lancekit.file import LanceFileReader, LanceFileWriter


class OwnError(Exception):
    """What the user's own code raises, which may pass."""


def _failing() -> Iterator[Any]:
    raise OwnError
    yield


class _Hostile:
    """Every question about it is an error of the user's own."""

    def __repr__(self) -> str:
        raise OwnError

    def __str__(self) -> str:
        raise OwnError

    def __eq__(self, other: object) -> bool:
        raise OwnError

    __hash__ = object.__hash__


class _Refusing:
    """Cannot be made."""

    def __init__(self, *_: object) -> None:
        raise OwnError


def _nested() -> Any:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    return deep


#: each made anew for each call
ODD: Mapping[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "False": lambda: False,
    "minus one": lambda: -1,
    "zero": lambda: 0,
    "huge": lambda: 2**70,
    "half": lambda: 0.5,
    "nan": lambda: float("nan"),
    "complex": lambda: 1j,
    "empty text": lambda: "",
    "text": lambda: "2.1",
    "surrogate": lambda: "\ud800",
    "zero byte": lambda: "\x00",
    "bidi": lambda: "a\u202eb",
    "parentheses": lambda: "(" * 3000,
    "long": lambda: "x" * 100_000,
    "dots": lambda: "../..",
    "bytes": lambda: b"\xff\x00",
    "object": object,
    "hostile": _Hostile,
    "type": lambda: _Refusing,
    "no list": list,
    "nulls": lambda: [None],
    "texts": lambda: ["2.1"],
    "odd list": lambda: [1, "a", None, b"", object()],
    "surrogates": lambda: ["\ud800"],
    "twice": lambda: ["id", "id"],
    "nested": _nested,
    "pairs": lambda: [(1, 2, 3)],
    "minus ones": lambda: [-1, 2**70],
    "no dict": dict,
    "dict": lambda: {"nosuch": object()},
    "odd dict": lambda: {1: None},
    "surrogate dict": lambda: {"\ud800": "\ud800"},
    "nested dict": lambda: {"id": _nested()},
    "rows of huge": lambda: {"id": [2**70]},
    "rows of complex": lambda: {"id": [1j]},
    "dicts": lambda: [{"id": 1}, 5],
    "lambda": lambda: lambda *_: object(),
    "set": lambda: {"id"},
    "failing": _failing,
    "generator": lambda: (value for value in [object()]),
    "table": lambda: pa.table({"other": [1]}),
    "type of Arrow": pa.int8,
    "schema": lambda: pa.schema([("id", pa.month_day_nano_interval())]),
    "two of a name": lambda: pa.schema([("id", pa.int8()), ("id", pa.int8())]),
    "array": lambda: np.array([[1.5, 2.5]]),
    "arrow array": lambda: pa.array(["x", None]),
    "decimal": lambda: Decimal("NaN"),
    "datetime": lambda: datetime(2020, 1, 1, tzinfo=UTC),
    "naive": lambda: datetime.max,
    "date": lambda: date(2020, 1, 1),
    "negative time": lambda: timedelta(-1),
    "longest time": lambda: timedelta.max,
    "path": lambda: Path("no/such/place"),
    "file": lambda: io.BytesIO(b"x"),
    "error": lambda: ValueError("x"),
}

ROWS = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "s": ["a", "b", None, "d", "e", "f"],
        "v": pa.array([[1.0, 2.0]] * 6, pa.list_(pa.float32(), 2)),
    }
)


class Place:
    """A dataset of two versions with a tag, a branch and blobs, and what is made of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names = itertools.count()
        self.uri = str(folder / "d")
        field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        rows = ROWS.append_column(field, pa.array([b"blob"] * 6, pa.large_binary()))
        self.rows = rows.slice(0, 1)
        ds = lk.write_dataset(rows, self.uri, max_rows_per_file=3, enable_stable_row_ids=True)
        ds.delete("id = 1")
        ds.tags.create("t", 1)
        ds.create_branch("b", 1)
        shutil.copytree(self.uri, folder / "kept")
        self.open()

    def open(self) -> None:
        """Open the dataset anew."""
        self.ds = lk.dataset(self.uri)

    def reset(self) -> None:
        """Put the dataset back to how it was made."""
        shutil.rmtree(self.uri)
        shutil.copytree(self._folder / "kept", self.uri)
        self.open()

    @property
    def new(self) -> str:
        """A place where nothing is yet."""
        return str(self._folder / f"new{next(self._names)}")

    @property
    def fragment(self) -> lk.LanceFragment:
        return self.ds.get_fragments()[0]

    @property
    def merge(self) -> Any:
        return self.ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()

    @property
    def builder(self) -> Any:
        return lk.ScannerBuilder(self.ds)

    @property
    def sql(self) -> SqlQueryBuilder:
        return self.ds.sql("SELECT id FROM dataset")

    @property
    def blob(self) -> Any:
        return self.ds.take_blobs("b", indices=[0])[0]

    @property
    def plan(self) -> CompactionPlan:
        return Compaction.plan(self.ds)

    def written(self) -> LanceFileReader:
        path = self.new
        with LanceFileWriter(path) as writer:
            writer.write_batch(ROWS)
        return LanceFileReader(path)


#: how the object is come by whose methods are called
OWNERS: Mapping[type, Callable[[Place], Any]] = {
    lk.LanceDataset: lambda p: p.ds,
    lk.LanceFragment: lambda p: p.fragment,
    lk.LanceScanner: lambda p: p.ds.scanner(),
    lk.ScannerBuilder: lambda p: p.builder,
    lk.MergeInsertBuilder: lambda p: p.merge,
    lk.Tags: lambda p: p.ds.tags,
    lk.Branches: lambda p: p.ds.branches,
    lk.History: lambda p: p.ds.versions(),
    lk.BlobFile: lambda p: p.blob,
    lk.Blob: lambda _: lk.Blob,
    lk.FragmentMetadata: lambda p: p.fragment.metadata,
    lk.SqliteManifestStore: lambda p: lk.SqliteManifestStore(p.new + ".db"),
    SqlQueryBuilder: lambda p: p.sql,
    LanceSchema: lambda p: p.ds.lance_schema,
    LanceField: lambda p: p.ds.lance_schema.fields()[0],
    LanceFileReader: lambda p: p.written(),
    LanceFileWriter: lambda p: LanceFileWriter(p.new, ROWS.schema),
    lk.optimize.DatasetOptimizer: lambda p: p.ds.optimize,
    Compaction: lambda _: Compaction,
    CompactionPlan: lambda p: p.plan,
    CompactionTask: lambda p: p.plan.tasks[0],
}

Arguments = Callable[[Place], Mapping[str, Any]]

#: classes that lancekit makes, or that are plain records of what happened
NOT_CALLED = {
    "BlobFile",
    "BlobType",
    "BranchComparison",
    "BranchMergePlan",
    "Branches",
    "CellChange",
    "CleanupExplanation",
    "CleanupStats",
    "ApplyResult",
    "CompactionMetrics",
    "ConflictedRow",
    "Conflicts",
    "DataStatistics",
    "DeleteResult",
    "ExecutionPlan",
    "Expression",
    "Explanation",
    "FieldStatistics",
    "FragmentWriteProgress",
    "FtsToken",
    "History",
    "Index",
    "IndexProgress",
    "LanceScanner",
    "MergeInsertBuilder",
    "MergePlan",
    "MergeResult",
    "ScanStatistics",
    "Sides",
    "SqlResult",
    "Tags",
    "UpdateResult",
    "Version",
    "LanceField",
    "LanceSchema",
    "SqlQueryBuilder",
    "DatasetOptimizer",
    "Compaction",
    "CompactionPlan",
    "CompactionTask",
    # they start Java, or end it
    "spark_session",
    "stop_spark",
    "warm_up",
    "LanceDataset.create_temp_view",
    "LanceDataset.to_spark",
}

#: the arguments without which a function cannot be called
NEEDED: Mapping[str, Arguments] = {
    "BatchUDF": lambda _: {"func": len},
    "ColumnOrdering": lambda _: {"column_name": "id"},
    "CompactedSsTable": lambda _: {"shard_id": UUID(int=1), "generation": 1},
    "DatasetBasePath": lambda p: {"path": p.new},
    "FragmentMetadata": lambda _: {"id": 0, "files": [], "physical_rows": 1},
    "LanceDataset": lambda p: {"uri": p.uri},
    "IndexFile": lambda _: {"path": "x", "size_bytes": 1},
    "LanceFragment": lambda p: {"dataset": p.ds, "fragment_id": 0},
    "LanceFileReader": lambda p: {"path": p.uri + "/data/" + p.fragment.data_files()[0].path},
    "LanceFileWriter": lambda p: {"path": p.new},
    "ScannerBuilder": lambda p: {"ds": p.ds},
    "ShardingField": lambda _: {"field_id": "bucket", "source_ids": (0,)},
    "ShardingSpec": lambda _: {"spec_id": 1, "fields": ()},
    "SqliteManifestStore": lambda p: {"path": p.new},
    "Transaction": lambda _: {"read_version": 1, "operation": lk.LanceOperation.Restore(1)},
    "blob_array": lambda _: {"values": [b"x"]},
    "blob_field": lambda _: {"name": "b"},
    "dataset": lambda p: {"uri": p.uri},
    "plot_history": lambda p: {"dataset": p.ds},
    "mem_wal_sink": lambda p: {"uri": p.uri, "query": "q"},
    "stream_sink": lambda p: {"uri": p.new, "query": "q"},
    "write_dataset": lambda p: {"data_obj": p.rows, "uri": p.uri, "mode": "append"},
    "Blob.from_bytes": lambda _: {"data": b"x"},
    "Blob.from_uri": lambda _: {"uri": "file:///x"},
    "BlobFile.read_range": lambda _: {"offset": 0, "length": 1},
    "BlobFile.read_ranges": lambda _: {"ranges": [(0, 1)]},
    "BlobFile.readinto": lambda _: {"buffer": bytearray(2)},
    "BlobFile.seek": lambda _: {"offset": 0},
    "Branches.delete": lambda _: {"branch": "b"},
    "Branches.replace_metadata": lambda _: {"branch": "b", "metadata": {}},
    "Tags.create": lambda _: {"tag": "n"},
    "Tags.delete": lambda _: {"tag": "t"},
    "Tags.get_version": lambda _: {"tag": "t"},
    "Tags.replace_metadata": lambda _: {"tag": "t", "metadata": {}},
    "Tags.update": lambda _: {"tag": "t"},
    "History.row_change": lambda p: {"version": p.ds.get_version()},
    "FragmentMetadata.from_bytes": lambda p: {"data": p.fragment.metadata.to_bytes()},
    "FragmentMetadata.from_dict": lambda p: {"values": p.fragment.metadata.to_json()},
    "FragmentMetadata.from_json": lambda _: {"json_data": "{}"},
    "LanceDataset.add_bases": lambda p: {"new_bases": [lk.DatasetBasePath(p.new, "n")]},
    "LanceDataset.add_columns": lambda _: {"transforms": {"n": "id + 1"}},
    "LanceDataset.alter_columns": lambda _: {},
    "LanceDataset.at": lambda _: {"when": 1},
    "LanceDataset.explore": lambda _: {"at": 1, "against": 1},
    "LanceDataset.duplicates": lambda _: {"on": "id"},
    "LanceDataset.row_history": lambda _: {"rows": {"id": 1}},
    "LanceDataset.column_history": lambda _: {"column": "id"},
    "LanceDataset.bisect": lambda _: {"condition": lambda past: past.version < 2},
    "LanceDataset.checkout_version": lambda _: {"version": 1},
    "LanceDataset.commit": lambda p: {
        "base_uri": p.uri,
        "operation": lk.LanceOperation.ReserveFragments(1),
        "read_version": 2,
    },
    "LanceDataset.commit_batch": lambda p: {
        "dest": p.uri,
        "transactions": [lk.Transaction(2, lk.LanceOperation.Append([]))],
    },
    "LanceDataset.changes": lambda _: {"since": 1},
    "LanceDataset.create_branch": lambda _: {"branch": "n"},
    "LanceDataset.export": lambda p: {"path": f"{p.new}.csv"},
    "LanceDataset.pack": lambda p: {"path": f"{p.new}.zip"},
    "LanceDataset.deep_clone": lambda p: {"target_path": p.new, "reference": 1},
    "LanceDataset.shallow_clone": lambda p: {"target_path": p.new, "reference": 1},
    "LanceDataset.delete": lambda _: {"predicate": "id = 2"},
    "LanceDataset.delete_config_keys": lambda _: {"keys": ["k"]},
    "LanceDataset.delta": lambda _: {"compared_against": 1},
    "diff": lambda p: {"old": p.ds, "new": p.ds},
    "LanceDataset.diff": lambda _: {"old": 1},
    "LanceDataset.drop": lambda p: {"base_uri": lk.write_dataset(ROWS, p.new).uri},
    "LanceDataset.drop_columns": lambda _: {"columns": ["s"]},
    "LanceDataset.get_fragment": lambda _: {"fragment_id": 0},
    "LanceDataset.insert": lambda p: {"data": p.rows},
    "LanceDataset.merge": lambda _: {
        "data_obj": pa.table({"id": [0], "n": [1]}),
        "left_on": "id",
    },
    "LanceDataset.merge_insert": lambda _: {"on": "id"},
    "LanceDataset.read_blob_ranges": lambda _: {
        "blob_column": "b",
        "requests": [(0, 0, 1)],
        "selector": "index",
    },
    "LanceDataset.read_blobs": lambda _: {"blob_column": "b", "indices": [0]},
    "LanceDataset.read_transaction": lambda _: {"version": 1},
    "LanceDataset.replace_columns": lambda _: {"transforms": {"s": "'x'"}},
    "LanceDataset.replace_field_metadata": lambda _: {"field_name": "s", "new_metadata": {}},
    "LanceDataset.replace_schema_metadata": lambda _: {"new_metadata": {}},
    "LanceDataset.sample": lambda _: {"num_rows": 2},
    "LanceDataset.slice": lambda _: {"start": 0, "end": 2},
    "LanceDataset.sql": lambda _: {"sql": "SELECT 1"},
    "LanceDataset.take": lambda _: {"indices": [0]},
    "LanceDataset.take_blobs": lambda _: {"blob_column": "b", "indices": [0]},
    "LanceDataset.update": lambda _: {"updates": {"s": "'x'"}},
    "LanceDataset.update_config": lambda _: {"values": {"k": "v"}},
    "LanceDataset.update_field_metadata": lambda _: {"field_updates": {"s": {"k": "v"}}},
    "LanceDataset.update_metadata": lambda _: {"values": {"k": "v"}},
    "LanceDataset.update_schema_metadata": lambda _: {"values": {"k": "v"}},
    "LanceFragment.create": lambda p: {"dataset_uri": p.uri, "data": p.rows},
    "LanceFragment.create_from_file": lambda p: {
        "filename": p.fragment.data_files()[0].path,
        "dataset": p.ds,
        "fragment_id": 0,
    },
    "LanceFragment.delete": lambda _: {"predicate": "id = 2"},
    "LanceFragment.delete_rows": lambda _: {"offsets": [0]},
    "LanceFragment.head": lambda _: {"num_rows": 1},
    "LanceFragment.merge": lambda _: {
        "data_obj": pa.table({"id": [0], "n": [1]}),
        "left_on": "id",
    },
    "LanceFragment.merge_columns": lambda _: {"value_func": {"n": "id + 1"}},
    "LanceFragment.take": lambda _: {"indices": [0]},
    "LanceFragment.update_columns": lambda _: {
        "data_obj": pa.table({"id": [0], "s": ["x"]}),
        "left_on": "id",
    },
    "LanceScanner.head": lambda _: {"num_rows": 1},
    "MergeInsertBuilder.analyze_plan": lambda p: {"data_obj": p.rows},
    "MergeInsertBuilder.analyze_plan_batches": lambda p: {"new_data": p.rows},
    "MergeInsertBuilder.conflict_retries": lambda _: {"max_retries": 1},
    "MergeInsertBuilder.data_storage_version": lambda _: {"version": "2.1"},
    "MergeInsertBuilder.execute": lambda p: {"data_obj": p.rows},
    "MergeInsertBuilder.execute_batches": lambda p: {"new_data": p.rows},
    "MergeInsertBuilder.execute_uncommitted": lambda p: {"data_obj": p.rows},
    "MergeInsertBuilder.execute_uncommitted_batches": lambda p: {"new_data": p.rows},
    "MergeInsertBuilder.interactive": lambda p: {"data_obj": p.rows},
    "MergeInsertBuilder.preview": lambda p: {"data_obj": p.rows},
    "MergeInsertBuilder.retry_timeout": lambda _: {"timeout": timedelta(1)},
    "MergeInsertBuilder.target_bases": lambda _: {"bases": ["n"]},
    "MergeInsertBuilder.use_index": lambda _: {"use_index": True},
    "MergeInsertBuilder.write_mode": lambda _: {"mode": "auto"},
    "ScannerBuilder.apply_defaults": lambda _: {"default_opts": {}},
    "ScannerBuilder.batch_size": lambda _: {"batch_size": 2},
    "ScannerBuilder.batch_size_bytes": lambda _: {"batch_size_bytes": 200},
    "ScannerBuilder.blob_handling": lambda _: {"blob_handling": "all_binary"},
    "ScannerBuilder.filter": lambda _: {"filter": "id > 1"},
    "ScannerBuilder.include_deleted_rows": lambda _: {"flag": False},
    "ScannerBuilder.io_buffer_size": lambda _: {"io_buffer_size": 200},
    "ScannerBuilder.late_materialization": lambda _: {"late_materialization": True},
    "ScannerBuilder.order_by": lambda _: {"orderings": ["id"]},
    "ScannerBuilder.prefilter": lambda _: {"prefilter": True},
    "ScannerBuilder.scan_stats_callback": lambda _: {"callback": len},
    "ScannerBuilder.with_fragments": lambda p: {"fragments": [p.fragment]},
    "SqliteManifestStore.delete": lambda _: {"base_uri": "x"},
    "SqliteManifestStore.get": lambda _: {"base_uri": "x", "version": 1},
    "SqliteManifestStore.get_latest_version": lambda _: {"base_uri": "x"},
    "SqliteManifestStore.put_if_exists": lambda _: {"base_uri": "x", "version": 1, "path": "y"},
    "SqliteManifestStore.put_if_not_exists": lambda _: {
        "base_uri": "x",
        "version": 1,
        "path": "y",
    },
    "SqlQueryBuilder.table_name": lambda _: {"table_name": "t"},
    "SqlQueryBuilder.batch_size": lambda _: {"batch_size": 2},
    "SqlQueryBuilder.batch_size_bytes": lambda _: {"batch_size_bytes": 200},
    "SqlQueryBuilder.blob_handling": lambda _: {"blob_handling": "all_binary"},
    "LanceSchema.field": lambda _: {"name": "id"},
    "LanceSchema.field_case_insensitive": lambda _: {"name": "id"},
    "LanceSchema.from_pyarrow": lambda _: {"schema": ROWS.schema},
    "LanceFileReader.read_global_buffer": lambda _: {"index": 0},
    "LanceFileReader.read_range": lambda _: {"start": 0, "num_rows": 1},
    "LanceFileReader.take_rows": lambda _: {"indices": [0]},
    "LanceFileWriter.add_global_buffer": lambda _: {"data": b"x"},
    "LanceFileWriter.add_schema_metadata": lambda _: {"key": "k", "value": "v"},
    "LanceFileWriter.write_batch": lambda _: {"batch": ROWS},
    "DatasetOptimizer.enable_auto_cleanup": lambda _: {
        "auto_cleanup_config": {"interval": 5, "older_than_seconds": 100}
    },
    "Compaction.plan": lambda p: {"dataset": p.ds},
    "Compaction.execute": lambda p: {"dataset": p.ds},
    "Compaction.commit": lambda p: {
        "dataset": p.ds,
        "rewrites": [task.execute(p.ds) for task in p.plan.tasks],
    },
    "CompactionPlan.from_json": lambda p: {"json": p.plan.json()},
    "CompactionTask.from_json": lambda p: {"json": p.plan.tasks[0].json()},
    "CompactionTask.execute": lambda p: {"dataset": p.ds},
}


def public_names() -> Iterator[tuple[str, Callable[[Place], Any]]]:
    """Yield everything public that can be called, and how to come by it."""
    for name in lk.__all__:
        value = getattr(lk, name)
        if callable(value) and name not in NOT_CALLED and name != "options":
            if isinstance(value, type) and value is lk.LanceOperation:
                continue
            yield name, lambda _, value=value: value
    for owner in (LanceFileReader, LanceFileWriter):
        yield owner.__name__, lambda _, owner=owner: owner
    for owner, make in OWNERS.items():
        for method in sorted(vars_of(owner)):
            if f"{owner.__name__}.{method}" not in NOT_CALLED:
                called = owner.__name__ if owner is not lk.FragmentMetadata else "FragmentMetadata"
                yield (
                    f"{called}.{method}",
                    lambda p, make=make, method=method: getattr(make(p), method),
                )


def vars_of(owner: type) -> set[str]:
    """Return the names of a class's own public methods, inherited from lancekit or its own."""
    found = set()
    for kind in owner.__mro__:
        if kind.__module__.startswith("lancekit"):
            for name, value in vars(kind).items():
                plain = inspect.isfunction(value) or isinstance(value, staticmethod | classmethod)
                if not name.startswith("_") and plain:
                    found.add(name)
    return found


def parameters(call: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters that an odd value can be given to."""
    listed = inspect.signature(call).parameters.values()
    return [p for p in listed if p.kind is not inspect.Parameter.VAR_KEYWORD]
