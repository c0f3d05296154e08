"""Conversion of write arguments to the settings of the write operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, get_args

import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._arguments.checks import check_count, check_list, check_names
from lancekit._choice import check_choice
from lancekit._format.data_file import check_storage_version
from lancekit._format.names import ManifestNaming
from lancekit._legible import shown
from lancekit._operations.cleanup.auto import auto_cleanup_config
from lancekit._operations.write import WriteMode, WriteSettings, open_rows, write_rows
from lancekit._pipeline.key_counter import KeyCheck
from lancekit._versions.branch_location import check_same_place
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, InvalidTypeError
from lancekit.options import check_goal

if TYPE_CHECKING:
    from lancekit._arguments.write import FileArguments, StreamArguments, WriteOptions
    from lancekit.progress import FragmentWriteProgress

_MODES: tuple[WriteMode, ...] = get_args(WriteMode)
_CHECKS: tuple[KeyCheck, ...] = get_args(KeyCheck)


def write_to(
    handle: Handle, data: object, schema: pa.Schema | None, mode: str, arguments: WriteOptions
) -> tuple[Snapshot, tuple[str, ...]]:
    """Write rows on top of a handle's version, which does not move.

    Return the new version, and the names of the rows' columns.
    """
    settings = settings_of(arguments, mode)
    handle._check_movable()
    check_same_place(
        handle._location, arguments.storage_options, arguments.manifest_store, arguments.commit_lock
    )
    source, target = open_rows(data, schema, handle._snapshot, settings.mode)
    names = tuple(source.schema.names)
    return write_rows(source, target, settings), names


def settings_of(arguments: WriteOptions, mode: str) -> WriteSettings:
    """Return the settings of a write of a dataset.

    Raises InvalidArgumentError, InvalidTypeError: an argument is invalid.
    """
    key, cleanup = arguments.primary_key, arguments.auto_cleanup_options
    new_columns = check_schema_mode(arguments.schema_mode)
    if new_columns and mode == "overwrite":
        raise InvalidArgumentError(
            "schema_mode='merge' keeps the dataset's columns, and mode='overwrite' replaces them.",
            hint="Use mode='append', or leave schema_mode out.",
            argument="schema_mode",
        )
    v2 = arguments.enable_v2_manifest_paths
    return file_settings(
        arguments,
        mode,
        new_columns=new_columns,
        primary_key=None if key is None else check_names("primary_key", key),
        primary_key_check=_key_check(arguments.primary_key_check),
        stable_row_ids=arguments.enable_stable_row_ids,
        naming=ManifestNaming.V2 if v2 else ManifestNaming.V1,
        checksums=arguments.checksums,
        message=arguments.commit_message,
        properties=dict(arguments.transaction_properties or {}),
        config={} if cleanup is None else auto_cleanup_config(cleanup),
    )


def check_schema_mode(value: str | None) -> bool:
    """Return True for ``"merge"``, False for ``None``; raise InvalidArgumentError for others."""
    if value is not None:
        with_mode = " (mode='overwrite' replaces the columns, too)"
        check_choice("schema_mode", value, ("merge",), or_else=with_mode)
    return value is not None


def _key_check(value: str) -> KeyCheck:
    check_choice("primary_key_check", value, _CHECKS)
    return next(one for one in _CHECKS if one == value)


def file_settings(arguments: FileArguments, mode: str, **others: object) -> WriteSettings:
    """Return the settings of a write of files; ``others`` are fields of `WriteSettings`."""
    return size_settings(
        arguments,
        mode,
        new_bases=tuple(
            check_list("initial_bases", arguments.initial_bases or (), "DatasetBasePath")
        ),
        target_bases=tuple(
            check_list("target_bases", arguments.target_bases or (), "names or paths")
        ),
        target_all_bases=bool(arguments.target_all_bases),
        progress=check_progress(arguments.progress),
        external_blobs=arguments.allow_external_blob_outside_bases,
        **others,
    )


def size_settings(
    arguments: FileArguments | StreamArguments, mode: str, **others: Any
) -> WriteSettings:
    """Return settings with the sizes of files; ``others`` are fields of `WriteSettings`."""
    check_choice("mode", mode, _MODES)
    page, version, goal = (
        arguments.max_page_bytes,
        arguments.data_storage_version,
        arguments.optimize_for,
    )
    return WriteSettings(
        mode=cast("WriteMode", mode),
        max_rows_per_file=check_count("max_rows_per_file", arguments.max_rows_per_file, least=1),
        max_bytes_per_file=check_count("max_bytes_per_file", arguments.max_bytes_per_file, least=1),
        max_page_bytes=None if page is None else check_count("max_page_bytes", page, least=1),
        storage_version=check_storage_version("data_storage_version", version),
        optimize_for=None if goal is None else check_goal(goal),
        **others,
    )


def check_progress(progress: object) -> FragmentWriteProgress | None:
    """Return a progress object, or ``None``; ``InvalidTypeError`` without its two methods."""
    for name in () if progress is None else ("begin", "complete"):
        if not callable(getattr(progress, name, None)):
            raise InvalidTypeError(
                f"progress needs a method {name}(), got {shown(progress)}.",
                hint="Pass an object with begin(fragment) and complete(fragment), such as a "
                "FragmentWriteProgress.",
                argument="progress",
            )
    return cast("FragmentWriteProgress | None", progress)
