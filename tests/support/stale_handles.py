"""Two writers of one version: changes as the reference makes them, committed one after the other.

Every change is made once, on a copy of the dataset, so that its files and its operation are the
reference's own; then the operations are committed in all orders, by both libraries.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance import LanceOperation
from lance.file import LanceFileWriter
from lance.fragment import DataFile, write_fragments

from lancekit import errors
from lancekit._commit.clock import Clock
from lancekit._commit.protocol import commit
from lancekit._commit.rules.pending import Pending
from lancekit._format.operations import Operation
from lancekit._versions.branch_location import open_location
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot, load_snapshot

__all__ = ["CHANGES", "Change", "Prepared", "Stage", "lancekit_commits", "prepare"]
__all__ += ["newest", "reference_commits"]

Make = Callable[[Any, Path], Any]


def rows(*keys: int) -> pa.Table:
    v = [f"v{k}" for k in keys]
    return pa.table({"k": pa.array(keys, pa.int64()), "v": v, "w": [k * 10 for k in keys]})


def _upsert(ds: Any, table: pa.Table, mode: str = "auto") -> None:
    builder = ds.merge_insert("k").when_matched_update_all()
    if mode == "auto":
        builder = builder.when_not_matched_insert_all()
    builder.write_mode(mode).execute(table)


def _column(ds: Any, path: Path, field: int, fragment: int) -> DataFile:
    """Write a column of a fragment anew: its values in another file."""
    name = f"{uuid.uuid4()}.lance"
    column = ["k", "v", "w"][field]
    table = ds.get_fragment(fragment).to_table([column])
    values = [f"{v}!" for v in table[column].to_pylist()] if column == "v" else [7] * len(table)
    one = pa.schema([table.schema.field(column)])
    with LanceFileWriter(str(path / "data" / name), one, version=ds.data_storage_version) as w:
        w.write_batch(pa.table({column: values}, schema=table.schema))
    old = next(f for f in ds.get_fragment(fragment).metadata.files if field in f.fields)
    version = old.file_major_version, old.file_minor_version
    return DataFile(name, [field], [0], *version)


def _replaces(field: int, fragment: int) -> Make:
    def make(ds: Any, path: Path) -> Any:
        group = LanceOperation.DataReplacementGroup(fragment, _column(ds, path, field, fragment))
        return LanceOperation.DataReplacement([group])

    return make


def _compacts(*ids: int) -> Make:
    def make(ds: Any, path: Path) -> Any:
        old = [ds.get_fragment(i).metadata for i in ids]
        table = pa.concat_tables([ds.get_fragment(i).to_table() for i in ids])
        new = write_fragments(table, ds)
        return LanceOperation.Rewrite([LanceOperation.RewriteGroup(old, new)], [])

    return make


def _config(**updates: Any) -> Make:
    def make(_ds: Any, _path: Path) -> Any:
        return LanceOperation.UpdateConfig(**updates)

    return make


def _map(replace: bool = False, **entries: str | None) -> Any:
    return LanceOperation.UpdateMap(entries, replace)


def _stricter(change: Callable[[Any], Any]) -> Make:
    """Let a change of the schema not promise that it refuses nothing."""

    def make(ds: Any, _path: Path) -> Any:
        change(ds)
        operation = ds.read_transaction(ds.version).operation
        operation.preserves_nullability = False
        return operation

    return make


def _drop_and_add(ds: Any, _path: Path) -> None:
    ds.drop_columns(["w"])
    ds.add_columns({"w": "k * 3"})


#: a change returns its operation, or is done to the dataset, which then knows it
CHANGES: dict[str, Make] = {
    "append": lambda ds, _: ds.insert(rows(90)),
    "append of some columns": lambda ds, _: ds.insert(rows(91).select(["k", "v"])),
    "delete of row 0": lambda ds, _: ds.delete("k = 0"),
    "delete of row 1": lambda ds, _: ds.delete("k = 1"),
    "delete of fragment 0": lambda ds, _: ds.delete("k < 10"),
    "delete in fragment 1": lambda ds, _: ds.delete("k = 10"),
    "delete of nothing": lambda ds, _: ds.delete("k = -1"),
    "overwrite": lambda ds, _: ds.insert(rows(7), mode="overwrite"),
    "index on v": lambda ds, _: ds.create_scalar_index("v", "BTREE"),
    "index on w": lambda ds, _: ds.create_scalar_index("w", "BTREE"),
    "index on w, another": lambda ds, _: ds.create_scalar_index("w", "BITMAP", name="other"),
    "index on k made anew": lambda ds, _: ds.create_scalar_index("k", "BTREE", replace=True),
    "index on k dropped": lambda ds, _: ds.drop_index("k_idx"),
    "compaction of 0 and 1": _compacts(0, 1),
    "compaction of 2": _compacts(2),
    "column added": lambda ds, _: ds.add_columns({"x": "k + 1"}),
    "column added, perhaps stricter": _stricter(lambda ds: ds.add_columns({"y": "k + 1"})),
    "cast of w": lambda ds, _: ds.alter_columns({"path": "w", "data_type": pa.int32()}),
    "w dropped and added": _drop_and_add,
    "restore": lambda _ds, _: LanceOperation.Restore(version=3),
    "update of row 0": lambda ds, _: ds.update({"w": "1"}, where="k = 0"),
    "update of row 1": lambda ds, _: ds.update({"v": "'one'"}, where="k = 1"),
    "update of fragment 0": lambda ds, _: ds.update({"w": "2"}, where="k < 10"),
    "update in fragment 1": lambda ds, _: ds.update({"w": "3"}, where="k = 10"),
    "upsert of a new row": lambda ds, _: _upsert(ds, rows(77)),
    "update of w in place": lambda ds, _: _upsert(
        ds, rows(0).select(["k", "w"]).set_column(1, "w", [[5]]), "rewrite_columns"
    ),
    "rename of v": lambda ds, _: ds.alter_columns({"path": "v", "name": "v2"}),
    "drop of w": lambda ds, _: ds.drop_columns(["w"]),
    "v never null": lambda ds, _: ds.alter_columns({"path": "v", "nullable": False}),
    "config a": _config(config_updates=_map(a="1")),
    "config b": _config(config_updates=_map(b="1")),
    "config a deleted": _config(config_updates=_map(a=None)),
    "config replaced": _config(config_updates=_map(True, c="1")),
    "table metadata a": _config(table_metadata_updates=_map(a="1")),
    "table metadata b": _config(table_metadata_updates=_map(b="1")),
    "table metadata replaced": _config(table_metadata_updates=_map(True, c="1")),
    "schema metadata a": _config(schema_metadata_updates=_map(a="1")),
    "schema metadata b": _config(schema_metadata_updates=_map(b="1")),
    "metadata of v": _config(field_metadata_updates={1: _map(a="1")}),
    "metadata of w": _config(field_metadata_updates={2: _map(a="1")}),
    "w of 0 replaced": _replaces(2, 0),
    "v of 0 replaced": _replaces(1, 0),
    "w of 1 replaced": _replaces(2, 1),
}


@dataclass(frozen=True)
class Change:
    """A change as the reference's operations, and as ours: the same bytes, parsed."""

    theirs: tuple[Any, ...]
    mine: tuple[Operation, ...]


@dataclass(frozen=True)
class Prepared:
    """A dataset whose folder has the files of every change, and the changes."""

    path: Path
    version: int
    changes: dict[str, Change]


def _copy(source: Path, target: Path) -> Path:
    # files never change, so that links will do
    shutil.copytree(source, target, copy_function=os.link)
    return target


def prepare(folder: Path, changes: dict[str, Make] = CHANGES, **create: Any) -> Prepared:
    """Create the dataset: three fragments, three columns in files of their own, an index on k."""
    path = folder / "base"
    lance.write_dataset(rows().select(["k"]), path, **create)
    for keys in ((0, 1, 2), (10, 11, 12), (20, 21, 22)):
        lance.write_dataset(rows(*keys).select(["k"]), path, mode="append")
    ds = lance.dataset(path)
    ds.add_columns({"v": "concat('v', k)"})
    ds.add_columns({"w": "k * 10"})
    ds.create_scalar_index("k", "BTREE")
    ds.update_config({"a": "0"})
    made = {
        name: _prepared(path, folder / f"scratch {name}", make, ds.version)
        for name, make in changes.items()
    }
    return Prepared(path, ds.version, made)


def _prepared(base: Path, scratch: Path, make: Make, version: int) -> Change:
    ds = lance.dataset(_copy(base, scratch))
    operation = make(ds, scratch)
    if isinstance(operation, LanceOperation.BaseOperation):
        shutil.rmtree(scratch / "_versions")
        _copy(base / "_versions", scratch / "_versions")
        lance.LanceDataset.commit(str(scratch), operation, read_version=version)
    else:
        ds = lance.dataset(scratch)
    newest = lance.dataset(scratch).version
    theirs = tuple(
        lance.dataset(scratch).read_transaction(v).operation for v in range(version + 1, newest + 1)
    )
    line = open_location(scratch)
    mine = []
    for number in range(version + 1, newest + 1):
        transaction = load_snapshot(line, number).transaction
        assert transaction is not None
        mine.append(transaction.operation)
    for part in ("data", "_deletions", "_indices"):
        for file in (scratch / part).rglob("*.*"):
            target = base / file.relative_to(scratch)
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.hardlink_to(file)
    return Change(theirs, tuple(mine))


# ---- committing


class Stage:
    """Copies of the dataset on which a change has landed already."""

    def __init__(
        self, prepared: Prepared, folder: Path, theirs: str, *, lancekit: bool = False
    ) -> None:
        self._folder = folder
        self.path = _copy(prepared.path, folder / "landed")
        change = prepared.changes[theirs]
        for place, (operation, mine) in enumerate(zip(change.theirs, change.mine, strict=True)):
            version = prepared.version + place
            if lancekit:
                assert lancekit_commits(self.path, mine, version) == "landed"
            else:
                lance.LanceDataset.commit(str(self.path), operation, read_version=version)
        self._count = 0

    def copy(self) -> Path:
        self._count += 1
        return _copy(self.path, self._folder / str(self._count))


def reference_commits(path: Path, operation: Any, read_version: int) -> str:
    """Commit a stale operation with the reference; return the outcome."""
    try:
        lance.LanceDataset.commit(str(path), operation, read_version=read_version)
    except lance.commit.CommitConflictError as error:
        return "retryable" if error.retryable else "incompatible"
    except Exception as error:  # whatever it does is its outcome
        return f"{type(error).__name__}: {error}"
    return "landed"


def lancekit_commits(path: Path, operation: Operation, read_version: int) -> str:
    """Commit a stale operation with lancekit; return the outcome."""
    read: Snapshot = load_snapshot(open_location(path), read_version)
    quick = Clock(sleep=lambda _: None)
    try:
        commit(read, Pending(operation=operation, uuid=str(uuid.uuid4())), clock=quick)
    except errors.RetryableConflictError:
        return "retryable"
    except errors.IncompatibleConflictError:
        return "incompatible"
    except errors.LancekitError as error:
        return f"{type(error).__name__}: {error}"
    return "landed"


def newest(path: Path) -> Snapshot:
    return latest_snapshot(open_location(path))
