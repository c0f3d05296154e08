"""Checks of the arguments of functions that write rows and columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

import lancekit as lk
import lancekit.fragment
from tests.support.argument_checks import (
    Check,
    Hint,
    Made,
    Method,
    Refused,
    Value,
    fragment,
    fresh,
    place,
)
from tests.support.arguments_of_reads import GONE

__all__ = ["OPTIONS", "WRITES", "WRITING"]

Call = Callable[..., Any]


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
    return _facts(lk.write_dataset(data, arguments.pop("uri", None) or place(), **arguments))


def _inserted(**arguments: Any) -> Any:
    ds = fresh()
    ds.insert(**arguments)
    return _facts(ds)


def _facts(ds: lk.LanceDataset) -> Any:
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


#: a blob that is said to be in a file elsewhere
ELSEWHERE = pa.table(
    [lk.blob_array([lk.Blob.from_uri("memory://elsewhere/file")])],
    schema=pa.schema([lk.blob_field("b")]),
)

NARROW = pa.schema({"id": pa.int8()})

BASE = lk.DatasetBasePath("memory://every-argument-base", name="base")

WRITING: dict[str, Check] = {
    "schema": Value(NARROW),
    "max_rows_per_file": Value(1),
    "max_rows_per_group": Hint(7, "x"),
    "max_bytes_per_file": Refused(0),
    "data_cache_bytes": Refused(1),
    "max_page_bytes": Refused(0),
    "optimize_for": Refused("speed", "speed"),
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


def _from_file(**arguments: Any) -> Any:
    ds = fresh()
    name = ds.get_fragments()[0].metadata.files[0].path
    return _shown(
        lk.LanceFragment.create_from_file(**{"filename": name, "dataset": ds, **arguments})
    )


#: what writes of a dataset take besides
OPTIONS: dict[str, Check] = {
    "allow_external_blob_outside_bases": Value(True, {"data_obj": ELSEWHERE}),
    "commit_lock": Refused(5),
    "enable_v2_manifest_paths": Value(False),
    "enable_stable_row_ids": Value(True),
    "auto_cleanup_options": Value({"interval": 5, "older_than_seconds": 5}),
    "commit_message": Value("a"),
    "schema_mode": Refused("none", "schema_mode"),
    "transaction_properties": Value({"a": "b"}),
    "initial_bases": Value([BASE]),
    "blob_pack_file_size_threshold": Refused(5),
    "primary_key": Value("id"),
    "primary_key_check": Refused("nonsense"),
    "checksums": Value(True),
    "manifest_store": Refused(5),
}

#: changes nothing of a dataset that is there
OF_THE_FIRST = Hint(False, "x")

WRITES: dict[str, Method] = {
    "write_dataset": Method(
        _counted(_written),
        WRITING
        | OPTIONS
        | {
            "data_obj": Value({"id": [5]}),
            "uri": Value(Made(fresh)),
            "mode": Refused("nonsense"),
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
        _counted(_inserted),
        WRITING
        | OPTIONS
        | {
            "data": Value({"id": [5]}),
            "mode": Value("overwrite"),
            "target_all_bases": Hint(True, "x"),
            "data_storage_version": Refused("9.9", "9.9"),
            "allow_external_blob_outside_bases": Value(
                True, {"data": ELSEWHERE, "mode": "overwrite"}
            ),
            "auto_cleanup_options": Hint(
                {"interval": 5, "older_than_seconds": 5}, 5, "automatic cleanup"
            ),
            **dict.fromkeys(("enable_v2_manifest_paths", "enable_stable_row_ids"), OF_THE_FIRST),
        },
        {"data": {"id": [300, 301]}},
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
            "num_threads": Hint(2, 0),
            **RETRIES,
        },
        {"transforms": _xs},
    ),
    "LanceDataset.add_columns": Method(
        after(lambda ds, **kw: ds.add_columns(**kw)),
        {"transforms": Value({"y": "2"}), **COLUMNS, "on": Value("id"), "num_threads": Hint(2, 0)},
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
}
