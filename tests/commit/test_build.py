"""The next manifest of every operation, against those that pylance built of the same operations.

A history is made by pylance; then each of its operations is built again on the version that
pylance built it on, and has to give the version that pylance made of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import LanceOperation

from lancekit._commit.manifest.build import Built, build_manifest, first_manifest
from lancekit._format import operations as ops
from lancekit._format.index import IndexMetadata
from lancekit._versions.branch_location import open_location
from lancekit._versions.listing import list_versions
from lancekit._versions.snapshot import Snapshot, load_snapshot
from tests.support.small_versions import sequences

# ---- replay of the reference's histories


def table(*keys: int, text: str = "x") -> pa.Table:
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "s": [f"{text}{k % 5}" for k in keys],
            "v": pa.FixedSizeListArray.from_arrays(
                pa.array(np.arange(2 * len(keys), dtype="f4")), 2
            ),
        }
    )


def rows_and_files(ds: Any) -> Any:
    ds.insert(table(*range(20, 29)))
    ds.delete("k % 4 = 1")
    ds.update({"s": "'new'"}, where="k > 6 AND k < 22")
    ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(
        table(2, 3, 90, 91, text="m")
    )
    ds.delete("k < 4")
    ds.optimize.compact_files(target_rows_per_fragment=100)
    ds.restore()
    ds = ds.checkout_version(3)
    ds.restore()
    ds.insert(table(200, 201))
    lance.write_dataset(table(1, 2, 3), ds.uri, mode="overwrite", max_rows_per_file=2)
    ds = lance.dataset(ds.uri)
    ds.insert(table(4))
    ds.delete("true")
    ds.insert(table(5))
    return ds


def columns(ds: Any) -> Any:
    ds.add_columns({"twice": "k * 2"})
    ds.add_columns(pa.field("blank", pa.string()))
    ds.alter_columns({"path": "s", "name": "text"})
    ds.alter_columns({"path": "k", "data_type": pa.int32()})
    ds.merge(pa.table({"id": pa.array([1, 2, 3], pa.int32()), "w": [1.0, 2.0, 3.0]}), "k", "id")
    ds.drop_columns(["twice"])
    ds.drop_columns(["w", "blank"])
    ds.alter_columns({"path": "text", "nullable": False})
    return ds


def settings(ds: Any) -> Any:
    ds.update_config({"a": "1", "b": "2"})
    ds.update_config({"a": None, "c": "3"})
    ds.update_config({"z": "9"}, replace=True)
    ds.update_metadata({"owner": "me"})
    ds.update_schema_metadata({"about": "all", "x": "y"})
    ds.update_schema_metadata({"x": None})
    ds.update_field_metadata({"s": {"unit": "m"}, "v": {"a": "b"}})
    ds.update_field_metadata({"s": {"other": "1"}}, replace=True)
    ds.delete_config_keys(["z"])
    ds.add_bases([lance.DatasetBasePath("/tmp/elsewhere", "one")])
    ds.add_bases([lance.DatasetBasePath("/tmp/third", "two", is_dataset_root=True)])
    return ds


def indices(ds: Any) -> Any:
    ds.create_scalar_index("k", "BTREE")
    ds.create_scalar_index("s", "BITMAP")
    ds.create_index("v", "IVF_FLAT", num_partitions=1)
    ds.insert(table(*range(50, 60)))
    ds.optimize.optimize_indices(num_indices_to_merge=0)
    ds.update({"s": "'moved'"}, where="k = 3 OR k = 11")
    ds.delete("k < 9")
    ds.optimize.compact_files(target_rows_per_fragment=30)
    ds.create_scalar_index("k", "BTREE")
    ds.alter_columns({"path": "s", "name": "text"})
    ds.drop_columns(["text"])
    ds.drop_index("k_idx")
    lance.write_dataset(table(1, 2), ds.uri, mode="overwrite")
    return lance.dataset(ds.uri)


def in_place(ds: Any) -> Any:
    """Columns rewritten in place, by the operations that only a program commits."""
    ds.create_scalar_index("k", "BTREE")
    ds.create_scalar_index("s", "BITMAP")
    fragment = ds.get_fragments()[1]
    change = pa.table({"_rowid": fragment.to_table(columns=[], with_row_id=True)["_rowid"]})
    change = change.append_column("s", pa.array(["w"] * change.num_rows))
    changed, fields = fragment.update_columns(change)
    operation = LanceOperation.Update(
        updated_fragments=[changed], fields_modified=fields, update_mode="rewrite_columns"
    )
    ds = lance.LanceDataset.commit(ds, operation, read_version=ds.version)
    for names in (["s"], ["k", "s"]):
        file = one_file(ds, names, ds.get_fragments()[0].physical_rows)
        group = LanceOperation.DataReplacementGroup(0, file)
        operation = LanceOperation.DataReplacement([group])
        ds = lance.LanceDataset.commit(ds, operation, read_version=ds.version)
    return ds


def one_file(ds: Any, names: list[str], count: int) -> Any:
    path = f"{uuid.uuid4()}.lance"
    with lance.file.LanceFileWriter(f"{ds.uri}/data/{path}") as writer:
        writer.write_batch(table(*range(count), text="r").select(names))
    ids = [ds.lance_schema.field(name).id() for name in names]
    size = (Path(ds.uri) / "data" / path).stat().st_size
    major, minor = map(int, ds.data_storage_version.split("."))
    return lance.fragment.DataFile(path, ids, list(range(len(ids))), major, minor, size)


HISTORIES = [rows_and_files, columns, settings, indices, in_place]


def compared(built: Built) -> dict[str, Any]:
    manifest, indices = built
    plain = {"row_ids": None, "created_at": None, "last_updated_at": None}
    return {
        "fragments": [replace(f, **plain) for f in manifest.fragments],
        "sequences": [sequences(f) for f in manifest.fragments],
        "schema": manifest.schema,
        "counters": (manifest.version, manifest.max_fragment_id, manifest.next_row_id),
        "flags": (manifest.reader_flags, manifest.writer_flags),
        "maps": (dict(manifest.config), dict(manifest.table_metadata)),
        "bases": sorted(manifest.base_paths, key=lambda base: base.id),
        "format": manifest.storage_version,
        "indices": {index.uuid: index for index in indices},
    }


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("history", HISTORIES, ids=lambda made: made.__name__)
def test_replayed_histories_of_the_reference(
    tmp_path: Path, history: Callable[[Any], Any], stable: bool
) -> None:
    ds = lance.write_dataset(
        table(*range(20)), str(tmp_path / "d"), max_rows_per_file=8, enable_stable_row_ids=stable
    )
    history(ds)
    line = open_location(ds.uri)
    versions = [load_snapshot(line, version) for version in list_versions(line).versions]
    for before, after in zip([None, *versions], versions, strict=False):
        _check_step(before, after, versions)


def _check_step(before: Snapshot | None, after: Snapshot, versions: list[Snapshot]) -> None:
    assert after.transaction is not None
    operation = after.transaction.operation
    if before is None:
        assert isinstance(operation, ops.Overwrite)
        latest = first_manifest(
            operation, after.manifest.storage_version,
            stable_row_ids=after.manifest.has_stable_row_ids,
        )  # fmt: skip
        known: tuple[IndexMetadata, ...] = ()
    else:
        latest, known = before.manifest, before.indices
    restored = None
    if isinstance(operation, ops.Restore):
        old = versions[operation.version - 1]
        restored = Built(old.manifest, old.indices)
    built = build_manifest(
        latest, operation, timestamp_ns=1, indices=known, restored=restored,
        storage_version=after.manifest.storage_version,
    )  # fmt: skip
    found, expected = compared(built), compared(Built(after.manifest, after.indices))
    if isinstance(operation, ops.Merge):
        # the reference takes a column that was added for a change of every row
        for state in (found, expected):
            state["sequences"] = [ids[:2] for ids in state["sequences"]]
    for part, value in expected.items():
        assert found[part] == value, (type(operation).__name__, after.version, part)
