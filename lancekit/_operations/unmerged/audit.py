"""Check commits that would orphan rows of shards, by the versions before and after.

Some changes are refused while a shard has rows that no version has, or still lists merged
generations.  The others are refused as long as the table has shards, as in the reference.  An open
writer may put more rows with the columns that it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from lancekit._format import operations as ops
from lancekit._format.manifest import Manifest
from lancekit._format.mem_wal.names import MEM_WAL, mem_wal_entry
from lancekit._format.schema import LanceField
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError


def check_shards(latest: Snapshot, manifest: Manifest, operation: ops.Operation) -> None:
    """Raise ``InvalidArgumentError`` if a new version would orphan rows of shards.

    latest: the newest version.
    manifest: the manifest of the new version.
    operation: the operation that makes the new version.
    """
    if mem_wal_entry(latest.indices) is None:
        return
    if isinstance(operation, ops.Overwrite | ops.Restore):
        _check_merged(latest, _REPLACES[type(operation)])
    elif isinstance(operation, ops.CreateIndex):
        gone = mem_wal_entry(operation.removed_indices)
        if gone is not None and mem_wal_entry(operation.new_indices) is None:
            _check_merged(latest, f"Dropping {MEM_WAL}")
    elif manifest.schema is not latest.manifest.schema:
        _check_columns(latest, manifest)


_REPLACES: Mapping[type, str] = {
    ops.Overwrite: "Overwriting the table",
    ops.Restore: "Restoring an older version",
}


def _check_merged(latest: Snapshot, action: str) -> None:
    from lancekit._operations.unmerged.waiting import check_merged  # most tables have no shards

    check_merged(latest, action)


def _check_columns(latest: Snapshot, manifest: Manifest) -> None:
    before = {f.id: f for f in latest.manifest.schema.walk()}
    after = {f.id: f for f in manifest.schema.walk()}
    for what, find in _COLUMNS.items():
        found = find(before, after, manifest)
        if found is not None:
            raise _refused(what, found.name)
    if not _keys(before) <= _keys(after):
        _check_merged(latest, "Dropping the primary key")


def check_new_values(current: Snapshot, name: str, *, cast: bool = False) -> None:
    """Raise ``InvalidArgumentError`` for a table with shards, before values are computed in vain.

    current: the version to change.
    name: the column that is added or cast.
    cast: whether the column is cast.
    """
    if mem_wal_entry(current.indices) is not None:
        raise _refused(_CAST if cast else _GIVEN, name)


def _refused(what: str, name: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"A table with shards cannot {what.format(name)}: open writers and the log still use the "
        "old columns.",
        hint="Close the writers. Then call ds.merge_mem_wal(flush=True) and "
        f"ds.drop_index({MEM_WAL!r}), change the columns, and call ds.initialize_mem_wal() with "
        "the same arguments as before.",
        column=name,
    )


_Fields: TypeAlias = Mapping[int, LanceField]


def _keys(fields: _Fields) -> set[int]:
    return {f.id for f in fields.values() if f.key_position is not None}


def _renamed_key(before: _Fields, after: _Fields, _: Manifest) -> LanceField | None:
    kept = sorted(_keys(before) & after.keys())
    return next((before[id_] for id_ in kept if after[id_].name != before[id_].name), None)


def _cast(before: _Fields, after: _Fields, _: Manifest) -> LanceField | None:
    """Return a column that a column with another id replaced under its name."""
    gone = {(f.parent_id, f.name): f for id_, f in before.items() if id_ not in after}
    new = ((f.parent_id, f.name) for id_, f in after.items() if id_ not in before)
    return next((gone[place] for place in new if place in gone), None)


def _stricter(before: _Fields, after: _Fields, _: Manifest) -> LanceField | None:
    kept = sorted(before.keys() & after.keys())
    return next((before[id_] for id_ in kept if before[id_].nullable > after[id_].nullable), None)


def _computed(before: _Fields, after: _Fields, manifest: Manifest) -> LanceField | None:
    """Return a new column that has values: its field id is in a data file."""
    new = after.keys() - before.keys()
    stored = (id_ for f in manifest.fragments for file in f.files for id_ in file.fields)
    return next((after[id_] for id_ in stored if id_ in new), None) if new else None


_CAST = "cast {!r}"
_GIVEN = "be given column {!r} with values"
#: refused changes of columns: the phrase for the error, and the function that finds the column
_COLUMNS: Mapping[str, Callable[[_Fields, _Fields, Manifest], LanceField | None]] = {
    "rename {!r} of its primary key": _renamed_key,
    _CAST: _cast,
    "make {!r} not nullable": _stricter,
    _GIVEN: _computed,
}
