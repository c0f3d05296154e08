"""Write rows: create a dataset, append to it, overwrite it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lancekit.commit.line import Line
from lancekit.commit.pending import Pending
from lancekit.commit.protocol import check_writable, commit, create_first_version
from lancekit.commit.snapshot import Snapshot
from lancekit.commit.versions import dataset_exists, latest_snapshot
from lancekit.errors import (
    DatasetExistsError,
    InvalidArgumentError,
)
from lancekit.file import DEFAULT_VERSION
from lancekit.format.fragment import Fragment
from lancekit.format.schema import LanceSchema, check_key_type
from lancekit.format.transaction import COMMIT_MESSAGE, Append, Operation, Overwrite
from lancekit.operations.landing import removed_unless_landed
from lancekit.options import options
from lancekit.pipeline.casts import normalise_new_schema, plan_cast, with_new_blobs
from lancekit.pipeline.source import Source
from lancekit.pipeline.write import (
    MAX_BYTES_PER_FILE,
    MAX_ROWS_PER_FILE,
    WriteTask,
)

__all__ = ["WriteSettings", "write_rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSettings:
    """How to write; the defaults are pylance's."""

    mode: str = "create"
    primary_key: tuple[str, ...] = ()
    max_rows_per_file: int = MAX_ROWS_PER_FILE
    max_bytes_per_file: int = MAX_BYTES_PER_FILE
    max_page_bytes: int | None = None
    storage_version: str | None = None
    stable_row_ids: bool = False
    checksums: bool | None = None
    external_blobs: bool = False
    message: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    def all_properties(self) -> dict[str, str]:
        """Return the transaction's properties, the commit message among them."""
        message = {} if self.message is None else {COMMIT_MESSAGE: self.message}
        return {**self.properties, **message}


def write_rows(source: Source, target: Line | Snapshot, settings: WriteSettings) -> Snapshot:
    """Write rows and commit them; return the new version.

    Parameters
    ----------
    source
        The rows.
    target
        Where the dataset is or will be; a snapshot for what a handle is at.

    Raises
    ------
    DatasetExistsError
        The mode is ``"create"`` and there is a dataset.
    SchemaMismatchError
        The rows do not fit the dataset they are appended to.
    NullKeyError
        A primary-key column holds a null.
    """
    line = target.line if isinstance(target, Snapshot) else target
    current = target if isinstance(target, Snapshot) else _current(line)
    if current is None:
        return _create(source, line, settings)
    if settings.mode == "create":
        raise DatasetExistsError(
            f"There is a dataset at {line.uri} already.",
            hint='Write with mode="append" or mode="overwrite", or to another place.',
            uri=line.uri,
        )
    check_writable(current)
    return _MODES[settings.mode](source, current, settings)


def _current(line: Line) -> Snapshot | None:
    return latest_snapshot(line) if dataset_exists(line) else None


def _new_schema(source: Source, key: Sequence[str], version: str) -> LanceSchema:
    new = normalise_new_schema(source.schema)
    schema = LanceSchema.from_arrow(with_new_blobs(new) if version == "2.2" else new)
    for name in key:
        check_key_type(schema.field(name))
    if len(set(key)) != len(key):
        raise InvalidArgumentError(f"primary_key names a column twice: {list(key)!r}.")
    return schema.with_primary_key(key) if key else schema


def _task(store_of: Line, schema: LanceSchema, version: str, settings: WriteSettings) -> WriteTask:
    return WriteTask(
        store=store_of.store,
        schema=schema,
        storage_version=version,
        max_rows_per_file=settings.max_rows_per_file,
        max_bytes_per_file=settings.max_bytes_per_file,
        max_page_bytes=settings.max_page_bytes,
        checksums=options.checksums if settings.checksums is None else settings.checksums,
        external_blobs=settings.external_blobs,
    )


def _create(source: Source, line: Line, settings: WriteSettings) -> Snapshot:
    version = settings.storage_version or DEFAULT_VERSION
    schema = _new_schema(source, settings.primary_key, version)
    task = _task(line, schema, version, settings)
    fragments = _write(source, task, allow_missing=False)
    operation = Overwrite(schema, tuple(fragments))
    pending = _pending(operation, settings)
    with removed_unless_landed(line.store, fragments):
        return create_first_version(
            line, operation, pending, version, stable_row_ids=settings.stable_row_ids
        )


def _append(source: Source, current: Snapshot, settings: WriteSettings) -> Snapshot:
    if settings.primary_key:
        _check_same_key(current, settings.primary_key)
    manifest = current.manifest
    task = _task(current.line, manifest.schema, manifest.storage_version, settings)
    fragments = _write(source, task, allow_missing=True)
    return _commit(current, Append(fragments=tuple(fragments)), fragments, settings)


def _overwrite(source: Source, current: Snapshot, settings: WriteSettings) -> Snapshot:
    version = settings.storage_version or current.manifest.storage_version
    schema = _new_schema(source, settings.primary_key, version)
    task = _task(current.line, schema, version, settings)
    fragments = _write(source, task, allow_missing=False)
    operation = Overwrite(schema, tuple(fragments))
    return _commit(current, operation, fragments, settings, version)


_MODES = {"append": _append, "overwrite": _overwrite}


def _check_same_key(current: Snapshot, key: tuple[str, ...]) -> None:
    known = tuple(f.name for f in current.manifest.schema.primary_key)
    if key != known:
        raise InvalidArgumentError(
            f"The dataset's primary key is {list(known)!r}, not {list(key)!r}.",
            hint="The key is set when a dataset is created or overwritten; "
            "leave primary_key out of an append.",
            primary_key=known,
        )


def _write(source: Source, task: WriteTask, *, allow_missing: bool) -> list[Fragment]:
    plan = plan_cast(source.schema, task.schema.to_arrow(), allow_missing=allow_missing)
    return source.write(plan, task)


def _pending(operation: Operation, settings: WriteSettings) -> Pending:
    return Pending(
        operation=operation, uuid=str(uuid.uuid4()), properties=settings.all_properties()
    )


def _commit(
    current: Snapshot,
    operation: Operation,
    fragments: Iterable[Fragment],
    settings: WriteSettings,
    version: str | None = None,
) -> Snapshot:
    with removed_unless_landed(current.store, fragments):
        return commit(current, _pending(operation, settings), storage_version=version)
