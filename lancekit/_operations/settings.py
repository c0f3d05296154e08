"""Changes of config, metadata and base paths, and restored versions: no data file changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lancekit._commit.protocol import check_writable
from lancekit._commit.rules.pending import Pending
from lancekit._format.column_names import column_not_found
from lancekit._format.manifest import BasePath
from lancekit._format.names import MAIN
from lancekit._format.operation_parts import UpdateMap
from lancekit._format.operations import Restore, UpdateBases, UpdateConfig
from lancekit._format.paths import parse_path
from lancekit._format.schema import LanceField, LanceSchema
from lancekit._legible import shown
from lancekit._operations.cleanup.auto import commit
from lancekit._versions.ancestor import fork_at
from lancekit._versions.listing import latest_snapshot
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import (
    ColumnNotFoundError,
    InvalidArgumentError,
    InvalidTypeError,
    RetriesExhaustedError,
    RetryableConflictError,
    VersionNotFoundError,
)

#: changes of one map: new values by key, ``None`` to remove the key
Changes = Mapping[str, str | None]


def update_settings(snapshot: Snapshot, operation: UpdateConfig) -> Snapshot:
    """Commit a change of config or metadata; return the new version.

    Raises IncompatibleConflictError: another writer changed the same keys since.
    """
    return commit(snapshot, Pending(operation=operation))


def field_updates(
    schema: LanceSchema, changes: Mapping[str | int, Changes], *, replace: bool
) -> dict[int, UpdateMap]:
    """Return changes of field metadata by field id, from changes by path or id.

    Raises ColumnNotFoundError: a field does not exist.
    """
    if not isinstance(changes, Mapping):
        raise InvalidTypeError(
            f"Field metadata must be a dict with a dict for each field, got {shown(changes)}.",
            hint='Pass metadata by field: {"column": {"key": "value"}}.',
        )
    return {
        _field(schema, name).id: UpdateMap(entries, replace) for name, entries in changes.items()
    }


def _field(schema: LanceSchema, name: str | int) -> LanceField:
    if isinstance(name, int):
        found = next((field for field in schema.walk() if field.id == name), None)
        if found is None:
            raise ColumnNotFoundError(
                f"Field with id {name} does not exist.",
                hint=f"The field ids of the schema are {sorted(f.id for f in schema.walk())}.",
                field=name,
            )
        return found
    top, *rest = parse_path(name)
    field = schema.field(top)
    for part in rest:
        children = {child.name: child for child in field.children}
        if part not in children:
            raise column_not_found(name, children)
        field = children[part]
    return field


def add_base_paths(
    snapshot: Snapshot, bases: Iterable[BasePath], properties: Mapping[str, str]
) -> Snapshot:
    """Commit new base paths for files; return the new version.

    Raises InvalidArgumentError: a name, a path or an id is taken.
    """
    pending = Pending(operation=UpdateBases(tuple(bases)), properties=properties)
    return commit(snapshot, pending)


# ---- restore and undo


def restore_version(snapshot: Snapshot) -> Snapshot:
    """Commit the state of ``snapshot`` as a new version; versions in between stay."""
    check_writable(snapshot)
    pending = Pending(operation=Restore(version=snapshot.version))
    return commit(latest_snapshot(snapshot.location), pending)


def undo_version(snapshot: Snapshot) -> Snapshot:
    """Commit the state before ``snapshot``, which must be the newest version, as a new version."""
    check_writable(snapshot)
    before, fork = snapshot.version - 1, fork_at(snapshot)
    if before == 0 or fork:
        if latest_snapshot(snapshot.location).version > snapshot.version:
            raise _no_longer_newest(snapshot)
        if fork:
            raise InvalidArgumentError(
                f"There is nothing to undo on {snapshot.location.name} since its fork from "
                f"{fork.parent_branch or MAIN}:{fork.parent_version}.",
                hint=f"To remove the branch, call ds.branches.delete({snapshot.location.name!r}).",
            )
        raise InvalidArgumentError(
            f"Version 1 of {snapshot.location.uri} is the first, so there is no earlier version.",
            hint="To remove a dataset, call LanceDataset.drop().",
            version=1,
        )
    pending = Pending(operation=Restore(version=before), doing="undo")
    try:
        return commit(snapshot, pending, strict=True)
    except RetriesExhaustedError as error:
        raise _no_longer_newest(snapshot) from error
    except VersionNotFoundError as error:
        raise VersionNotFoundError(
            f"Version {snapshot.version} of {snapshot.location.uri} cannot be reverted, because "
            f"version {before} was cleaned up.",
            hint="ds.versions() lists the versions that checkout_version(...).restore() can "
            "return to.",
            version=before,
        ) from error


def _no_longer_newest(snapshot: Snapshot) -> RetryableConflictError:
    newest = latest_snapshot(snapshot.location).version
    return RetryableConflictError(
        f"Version {snapshot.version} of {snapshot.location.uri} is no longer the newest: "
        f"undo() would also revert the changes up to version {newest}.",
        hint=f"See ds.changes({snapshot.version}). ds.checkout_latest(), then undo(), reverts "
        "the newest version.",
        read_version=snapshot.version,
        newest=newest,
    )


def took_back(undone: Snapshot, newest: Snapshot) -> str:
    """Return a warning if an undo took back an undo, or no change of rows; else an empty text."""
    summary = undone.transaction_summary
    kind = summary.operation if summary else ""
    what = {"Restore": "an undo or restore, so its rows are back", "Rewrite": "a compaction"}
    same = undone.manifest.fragments == newest.manifest.fragments
    if same and kind in ("Append", "Delete", "Update"):
        what[kind] = "it changed no rows"
    if kind not in what:
        return ""
    return (
        f"undo() took back version {undone.version} ({kind}): {what[kind]}. ds.versions() lists "
        "all versions, and ds.restore(version) returns to one."
    )
