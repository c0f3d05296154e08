"""Write rows: create a dataset, append to it, overwrite it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, assert_never, cast

import pyarrow as pa

from lancekit._commit.protocol import check_writable
from lancekit._commit.rules.pending import BatchMarker, Pending
from lancekit._defaults import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE
from lancekit._file.columns.limits import check_new_marks
from lancekit._format.data_file import DEFAULT_VERSION
from lancekit._format.fragment import Fragment
from lancekit._format.manifest import BasePath
from lancekit._format.names import ManifestNaming
from lancekit._format.operations import Append, Overwrite
from lancekit._format.schema import LanceSchema, check_key_type
from lancekit._format.transaction import COMMIT_MESSAGE, Transaction
from lancekit._legible import warn
from lancekit._operations.cleanup.auto import commit, create
from lancekit._operations.common.staged_files import bases_of, removed_unless_landed, write_targets
from lancekit._pipeline.casts.plan import CastPlan, normalise_new_schema, plan_cast, with_new_blobs
from lancekit._pipeline.key_counter import KeyCheck, check_new_keys
from lancekit._pipeline.source import Source, open_source
from lancekit._pipeline.write_rows import WriteTask
from lancekit._storage.places import emptied, is_in_memory
from lancekit._versions.branch_location import BranchLocation, check_new_place
from lancekit._versions.listing import find_latest
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import (
    ColumnNotFoundError,
    DatasetExistsError,
    IncompatibleConflictError,
    InvalidArgumentError,
)
from lancekit.options import options
from lancekit.progress import FragmentWriteProgress

#: how a write treats an existing dataset
WriteMode = Literal["create", "append", "overwrite"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSettings:
    """Settings of a write; the defaults are pylance's."""

    mode: WriteMode = "create"
    #: whether an append adds the columns that the dataset lacks
    new_columns: bool = False
    #: ``None`` keeps the key of an existing dataset
    primary_key: tuple[str, ...] | None = None
    primary_key_check: KeyCheck = "warn"
    max_rows_per_file: int = MAX_ROWS_PER_FILE
    max_bytes_per_file: int = MAX_BYTES_PER_FILE
    max_page_bytes: int | None = None
    storage_version: str | None = None
    stable_row_ids: bool = False
    naming: ManifestNaming = ManifestNaming.V2
    checksums: bool | None = None
    optimize_for: str | None = None
    external_blobs: bool = False
    message: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    mark: BatchMarker | None = None
    #: config of a new dataset; an existing dataset keeps its own
    config: Mapping[str, str] = field(default_factory=dict)
    #: base paths of a new dataset, and the base paths (by name or path) that new files go to
    new_bases: tuple[BasePath, ...] = ()
    target_bases: tuple[str, ...] = ()
    target_all_bases: bool = False
    #: receives an event for each written fragment
    progress: FragmentWriteProgress | None = None

    def all_properties(self) -> dict[str, str]:
        """Return the transaction's properties, with the commit message."""
        message = {} if self.message is None else {COMMIT_MESSAGE: self.message}
        return {**self.properties, **message}


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """Checked plan to write rows of one schema.

    current: the version that the rows are written for, ``None`` for a new dataset.
    wide: this version with the rows' new columns; ``None`` without any.
    casts, task: the part of the plan that a worker needs.
    new_bases: the base paths of a new dataset.
    """

    location: BranchLocation
    current: Snapshot | None
    casts: CastPlan
    task: WriteTask
    settings: WriteSettings
    new_bases: tuple[BasePath, ...] = ()
    wide: Snapshot | None = None

    def transaction(self, fragments: Iterable[Fragment]) -> Transaction:
        """Return the transaction that commits rows, from the fragments they were written to."""
        read_version = self.current.version if self.current else 0
        properties = self.settings.all_properties()
        return Transaction(
            read_version, self.operation(fragments), transaction_properties=properties
        )

    def operation(self, fragments: Iterable[Fragment]) -> Append | Overwrite:
        """Return the operation that adds rows, from the fragments they were written to."""
        new = tuple(fragments)
        if self.current is not None and self.settings.mode == "append":
            return Append(new)
        config = self.settings.config if self.current is None else {}
        return Overwrite(self.task.schema, new, self.new_bases, config_upsert_values=config)


def open_rows(
    data: object, schema: pa.Schema | None, target: BranchLocation | Snapshot, mode: WriteMode
) -> tuple[Source, BranchLocation | Snapshot]:
    """Open rows to write; return them, and the version or location that they are written for.

    Rows of Python values take the types of the dataset that they are appended to.
    """
    if mode == "append" and isinstance(target, BranchLocation):
        target = find_latest(target) or target
    appended = mode == "append" and isinstance(target, Snapshot)
    like = target.row_schema if appended and isinstance(target, Snapshot) else None
    return open_source(data, schema, like), target


def write_rows(
    source: Source, target: BranchLocation | Snapshot, settings: WriteSettings
) -> Snapshot:
    """Write rows and commit them; return the new version.

    source: the rows.
    target: the location of a dataset that may not exist yet, or the snapshot of a handle.

    Raises DatasetExistsError: the mode is ``"create"`` and there is a dataset.
    Raises SchemaMismatchError: the rows do not fit the dataset they are appended to.
    Raises NullKeyError: a primary-key column holds a null.
    """
    plan = plan_write(source.schema, target, settings)
    return commit_rows(plan, source.write(plan.casts, plan.task, settings.progress))


def commit_rows(plan: WritePlan, fragments: Iterable[Fragment]) -> Snapshot:
    """Commit the fragments of written rows; remove their files if the commit fails."""
    settings, task = plan.settings, plan.task
    operation = plan.operation(fragments)
    pending = Pending(operation=operation, properties=settings.all_properties(), mark=settings.mark)
    with removed_unless_landed(task.store, operation.fragments, task.places):
        check_new_keys(task, operation.fragments, settings.primary_key_check)
        if plan.current is not None and plan.wide is not None:
            return _commit_widened(plan.current, plan.wide, pending)
        if plan.current is not None:
            return commit(plan.current, pending, storage_version=task.storage_version)
        first = cast("Overwrite", operation)  # a new dataset starts with an Overwrite
        return create(
            plan.location,
            first,
            pending,
            task.storage_version,
            stable_row_ids=settings.stable_row_ids,
            naming=settings.naming,
        )


def _commit_widened(current: Snapshot, wide: Snapshot, pending: Pending) -> Snapshot:
    """Commit rows with new columns, again on top of other writers that kept the columns."""
    from lancekit._operations.common.retry import RetryPolicy, retried
    from lancekit._operations.new_columns import commit_widened

    planned = (current.manifest.schema, current.manifest.max_field_id())
    pending = replace(pending, doing="append")

    def attempt(at: Snapshot) -> Snapshot:
        if (at.manifest.schema, at.manifest.max_field_id()) != planned:
            raise IncompatibleConflictError(
                f"Another writer changed the columns of {at.location.name} meanwhile.",
                hint="Nothing was written. Run the call again.",
                read_version=current.version,
            )
        return commit_widened(at, wide, pending)

    return retried(current, attempt, RetryPolicy())[0]


def plan_write(
    schema: pa.Schema, target: BranchLocation | Snapshot, settings: WriteSettings
) -> WritePlan:
    """Plan to write rows of a schema; raise the errors of `write_rows` that need no values."""
    location = target.location if isinstance(target, Snapshot) else target
    current = target if isinstance(target, Snapshot) else find_latest(location)
    if current is None:
        check_new_place(location)
        return _overwrite(schema, location, current, settings)
    match settings.mode:
        case "create":
            raise DatasetExistsError(
                f"A dataset already exists at {location.uri}.",
                hint='Write with mode="append" or mode="overwrite", or to another place.',
                uri=location.uri,
            )
        case "append":
            check_writable(current)
            return _append(schema, current, settings)
        case "overwrite":
            from lancekit._operations.unmerged.waiting import check_merged

            check_writable(current)
            # the commit checks this, too, but only after all rows are written
            check_merged(current, "Overwriting the table")
            return _overwrite(schema, location, current, settings)
        case _:
            assert_never(settings.mode)


def vacated(location: BranchLocation) -> BranchLocation:
    """Return the location for a new dataset; an in-memory dataset at this location is removed."""
    if not is_in_memory(location.root) or find_latest(location) is None:
        return location
    return replace(location, root=emptied(location.root))


def _new_schema(rows: pa.Schema, version: str) -> LanceSchema:
    new = normalise_new_schema(rows)
    schema = LanceSchema.from_arrow(with_new_blobs(new) if version == "2.2" else new)
    check_new_marks(schema)
    return schema


def _with_key(
    schema: LanceSchema, current: Snapshot | None, key: tuple[str, ...] | None
) -> LanceSchema:
    """Return a new schema with its primary key; an overwrite keeps the old key if it can."""
    if key is None:
        return schema if current is None else _with_kept_key(schema, current.manifest.schema)
    for name in key:
        check_key_type(schema.field(name))
    if len(set(key)) != len(key):
        raise InvalidArgumentError(f"primary_key contains a column twice: {list(key)!r}.")
    return schema.with_primary_key(key)


def _with_kept_key(schema: LanceSchema, old: LanceSchema) -> LanceSchema:
    key = old.primary_key
    if not key or schema.primary_key:
        return schema
    tops = {field.id: field.name for field in old.fields}
    names = [tops.get(field.id, f"...{field.name}") for field in key]  # top-level fields only
    try:
        for name in names:
            check_key_type(schema.field(name))
    except (ColumnNotFoundError, InvalidArgumentError) as error:
        warn(
            f"The overwrite drops the primary key {names!r}: {error.message} Later merges do not "
            "protect their keys from concurrent merges. Pass primary_key= to set a key, or "
            "primary_key=[] to drop it without this warning."
        )
        return schema
    return schema.with_primary_key(names)


def _task(
    location: BranchLocation,
    schema: LanceSchema,
    version: str,
    settings: WriteSettings,
    bases: Sequence[BasePath],
) -> WriteTask:
    every = settings.target_all_bases
    return WriteTask(
        store=location.store,
        places=write_targets(location, bases, settings.target_bases, every=every),
        schema=schema,
        storage_version=version,
        max_rows_per_file=settings.max_rows_per_file,
        max_bytes_per_file=settings.max_bytes_per_file,
        max_page_bytes=settings.max_page_bytes,
        checksums=options.checksums if settings.checksums is None else settings.checksums,
        optimize_for=settings.optimize_for or options.optimize_for,
        external_blobs=settings.external_blobs,
    )


def _append(schema: pa.Schema, current: Snapshot, settings: WriteSettings) -> WritePlan:
    if settings.primary_key:
        _check_same_key(current, settings.primary_key)
    wide = current
    if settings.new_columns:
        from lancekit._operations.new_columns import widened

        wide = widened(current, schema)
    manifest = wide.manifest
    bases = bases_of(current, settings.new_bases)
    return WritePlan(
        location=current.location,
        current=current,
        wide=None if wide is current else wide,
        casts=plan_cast(schema, manifest.schema.to_arrow(), allow_missing=True),
        task=_task(current.location, manifest.schema, manifest.new_file_version, settings, bases),
        settings=settings,
    )


def _overwrite(
    rows: pa.Schema, location: BranchLocation, current: Snapshot | None, settings: WriteSettings
) -> WritePlan:
    known = current.manifest.new_file_version if current else DEFAULT_VERSION
    version = settings.storage_version or known
    schema = _with_key(_new_schema(rows, version), current, settings.primary_key)
    bases = bases_of(current, settings.new_bases)
    return WritePlan(
        location=location,
        current=current,
        casts=plan_cast(rows, schema.to_arrow(), allow_missing=False),
        task=_task(location, schema, version, settings, bases),
        settings=settings,
        new_bases=bases if current is None else (),
    )


def _check_same_key(current: Snapshot, key: tuple[str, ...]) -> None:
    known = tuple(f.name for f in current.manifest.schema.primary_key)
    if key != known:
        raise InvalidArgumentError(
            f"The dataset's primary key is {list(known)!r}, not {list(key)!r}.",
            hint="A key is set when a dataset is created or overwritten: leave primary_key out of "
            "an append.",
            primary_key=known,
        )
