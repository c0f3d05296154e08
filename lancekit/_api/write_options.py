"""Arguments that say how rows are written, checked once for all functions that take them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args

import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._api.pylance.arguments import (
    check_count,
    check_hints,
    check_known,
    check_list,
    check_names,
    refuse,
)
from lancekit._api.pylance.typed_dicts import AutoCleanupConfig
from lancekit._checked import checked_methods
from lancekit._choice import check_choice
from lancekit._defaults import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE
from lancekit._format.names import ManifestNaming
from lancekit._format.storage_version import check_storage_version
from lancekit._legible import shown
from lancekit._operations.cleanup.auto import auto_cleanup_config
from lancekit._operations.common.new_keys import KeyCheck
from lancekit._operations.write import WriteMode, WriteSettings, open_rows, write_rows
from lancekit._versions.line import check_same_place
from lancekit._versions.manifest_writers import ManifestStore
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import InvalidArgumentError, InvalidTypeError
from lancekit.options import check_goal
from lancekit.progress import FragmentWriteProgress

__all__ = ["WriteOptions", "check_told", "write_settings", "write_to"]

_MODES: tuple[WriteMode, ...] = get_args(WriteMode)
_CHECKS: tuple[KeyCheck, ...] = get_args(KeyCheck)


@checked_methods
@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What `write_dataset` takes beside the rows and the place, which describes it."""

    schema: pa.Schema | None = None
    mode: str = "create"
    max_rows_per_file: int = MAX_ROWS_PER_FILE
    max_rows_per_group: int = 1024
    max_bytes_per_file: int = MAX_BYTES_PER_FILE
    data_cache_bytes: int | None = None
    max_page_bytes: int | None = None
    commit_lock: Any = None
    progress: FragmentWriteProgress | None = None
    storage_options: dict[str, str] | None = None
    data_storage_version: str | None = None
    use_legacy_format: bool | None = None
    enable_v2_manifest_paths: bool = True
    enable_stable_row_ids: bool = False
    auto_cleanup_options: AutoCleanupConfig | None = None
    commit_message: str | None = None
    transaction_properties: dict[str, str] | None = None
    initial_bases: list[Any] | None = None
    target_bases: list[str] | None = None
    target_all_bases: bool | None = None
    base_store_params: dict[str, dict[str, str]] | None = None
    external_blob_mode: str = "reference"
    allow_external_blob_outside_bases: bool = False
    blob_pack_file_size_threshold: int | None = None
    namespace_client: Any = None
    table_id: list[str] | None = None
    session: Any = None
    primary_key: str | Iterable[str] | None = None
    primary_key_check: str = "warn"
    checksums: bool | None = None
    optimize_for: str | None = None
    manifest_store: ManifestStore | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> WriteOptions:
        """Return options of arguments that came by name.

        Raises
        ------
        InvalidTypeError
            A write has no such argument, or it is none of what is asked for.
        """
        check_known("A write", given, (option.name for option in fields(cls)), "write_dataset()")
        return cls(**given)

    def settings(self) -> WriteSettings:
        """Return what the operation works with.

        Raises
        ------
        NotOfferedError, InvalidArgumentError, InvalidTypeError
            An argument cannot be followed.
        """
        # groups are of 0.1 files, which are never written
        check_hints(max_rows_per_group=self.max_rows_per_group, session=self.session)
        inline = self.external_blob_mode == "reference"
        refuse(
            "write_dataset",
            data_cache_bytes=self.data_cache_bytes,
            use_legacy_format=self.use_legacy_format or None,
            base_store_params=self.base_store_params,
            external_blob_mode=None if inline else self.external_blob_mode,
            blob_pack_file_size_threshold=self.blob_pack_file_size_threshold,
            namespace_client=self.namespace_client,
            table_id=self.table_id,
        )
        cleanup = self.auto_cleanup_options
        return write_settings(
            mode=self.mode,
            max_rows_per_file=self.max_rows_per_file,
            max_bytes_per_file=self.max_bytes_per_file,
            max_page_bytes=self.max_page_bytes,
            data_storage_version=self.data_storage_version,
            initial_bases=self.initial_bases,
            target_bases=self.target_bases,
            target_all_bases=self.target_all_bases,
            progress=self.progress,
            primary_key=(
                None if self.primary_key is None else check_names("primary_key", self.primary_key)
            ),
            primary_key_check=self._key_check(),
            stable_row_ids=self.enable_stable_row_ids,
            naming=ManifestNaming.V2 if self.enable_v2_manifest_paths else ManifestNaming.V1,
            checksums=self.checksums,
            optimize_for=self.optimize_for,
            external_blobs=self.allow_external_blob_outside_bases,
            message=self.commit_message,
            properties=dict(self.transaction_properties or {}),
            config={} if cleanup is None else auto_cleanup_config(cleanup),
        )

    def _key_check(self) -> KeyCheck:
        check_choice("primary_key_check", self.primary_key_check, _CHECKS)
        return next(one for one in _CHECKS if one == self.primary_key_check)


def write_to(handle: Handle, data: Any, options: WriteOptions) -> Snapshot:
    """Write rows on top of a handle's version, and return the new one; the handle stays."""
    settings = options.settings()
    handle._check_movable()
    check_same_place(
        handle._line, options.storage_options, options.manifest_store, options.commit_lock
    )
    source, target = open_rows(data, options.schema, handle._snapshot, settings.mode)
    return write_rows(source, target, settings)


def write_settings(
    *,
    mode: str,
    max_rows_per_file: int,
    max_bytes_per_file: int,
    max_page_bytes: int | None,
    data_storage_version: str | None,
    initial_bases: Any = None,
    target_bases: Any = None,
    target_all_bases: bool | None = None,
    progress: Any = None,
    optimize_for: str | None = None,
    **others: Any,
) -> WriteSettings:
    """Check what a caller passes; ``others`` are fields of `WriteSettings` as they are."""
    known = next((one for one in _MODES if one == mode), None)
    if known is None:
        raise InvalidArgumentError(
            f"Invalid mode {shown(mode)}.",
            hint="Choose " + ", ".join(map(repr, _MODES)) + ".",
            mode=mode,
        )
    return WriteSettings(
        mode=known,
        max_rows_per_file=check_count("max_rows_per_file", max_rows_per_file, least=1),
        max_bytes_per_file=check_count("max_bytes_per_file", max_bytes_per_file, least=1),
        max_page_bytes=(
            None
            if max_page_bytes is None
            else check_count("max_page_bytes", max_page_bytes, least=1)
        ),
        storage_version=check_storage_version("data_storage_version", data_storage_version),
        new_bases=tuple(check_list("initial_bases", initial_bases or (), "DatasetBasePath")),
        target_bases=tuple(check_list("target_bases", target_bases or (), "names or paths")),
        target_all_bases=bool(target_all_bases),
        progress=check_told(progress),
        optimize_for=None if optimize_for is None else check_goal(optimize_for),
        **others,
    )


def check_told(progress: Any) -> Any:
    """Return what is told of fragments: anything that can be."""
    for name in () if progress is None else ("begin", "complete"):
        if not callable(getattr(progress, name, None)):
            raise InvalidTypeError(
                f"progress is {shown(progress)}, which has no {name}().",
                hint="Pass an object with begin(fragment) and complete(fragment), such as one of a "
                "FragmentWriteProgress.",
                argument="progress",
            )
    return progress
