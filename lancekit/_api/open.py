"""The two functions that give a dataset's handle: opening it, and writing it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancekit._api.lance_dataset import LanceDataset
from lancekit._api.pylance.arguments import check_place
from lancekit._api.time_travel import Ref, snapshot_as_of
from lancekit._checked import checked
from lancekit._defaults import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE
from lancekit._legible import shown
from lancekit._versions.line import open_line
from lancekit.errors import InvalidArgumentError

if TYPE_CHECKING:
    from lancekit._api.pylance.typed_dicts import AutoCleanupConfig
    from lancekit._versions.manifest_writers import ManifestStore
    from lancekit.progress import FragmentWriteProgress

__all__ = ["dataset", "write_dataset"]


@checked
def dataset(
    uri: str | os.PathLike[str] | None = None,
    version: Ref | None = None,
    asof: datetime | timedelta | str | None = None,
    block_size: int | None = None,
    commit_lock: Any = None,
    index_cache_size: int | None = None,
    storage_options: dict[str, str] | None = None,
    default_scan_options: dict[str, Any] | None = None,
    metadata_cache_size_bytes: int | None = None,
    index_cache_size_bytes: int | None = None,
    read_params: dict[str, Any] | None = None,
    session: Any = None,
    namespace_client: Any = None,
    table_id: list[str] | None = None,
    base_store_params: dict[str, dict[str, str]] | None = None,
    *,
    manifest_store: ManifestStore | None = None,
) -> LanceDataset:
    """Open a dataset.

    Parameters
    ----------
    uri
        A path, or a URI: ``file://``, ``memory://``, ``s3://``, ...
    version
        A number, a tag, or a pair of branch and version such as ``("experiment", None)``; the
        newest version of main by default.
    asof
        Instead of a version: the newest one committed until then.  A time without a zone is
        local time, and warns; a negative timedelta says how long ago.
    commit_lock
        For a store that cannot put an object only if its name is free: a function of a version's
        number that returns a context manager, in which no other writer of the dataset may be.
    storage_options
        Credentials and settings of an object store.
    default_scan_options
        Arguments of `LanceDataset.scanner` that hold where a call does not set them.
    manifest_store
        Instead of a lock: a small database that decides which writer wins a version, such as
        `SqliteManifestStore`.  All writers have to use the same one.

    Raises
    ------
    DatasetNotFoundError, VersionNotFoundError, TagNotFoundError, BranchNotFoundError
        There is no such thing.
    CorruptFileError, UnsupportedFeatureError
        It cannot be read.

    Examples
    --------
    >>> import lancekit as lk, pyarrow as pa
    >>> _ = lk.write_dataset(pa.table({"x": [1]}), "memory://open-example")
    >>> lk.dataset("memory://open-example", version=1).count_rows()
    1
    """
    if version is not None and asof is not None:
        raise InvalidArgumentError(
            f"Both version={shown(version)} and asof={shown(asof)} were given.",
            hint="Pass one of the two.",
        )
    opened = LanceDataset(
        check_place(uri),
        version,
        block_size=block_size,
        index_cache_size=index_cache_size,
        commit_lock=commit_lock,
        storage_options=storage_options,
        default_scan_options=default_scan_options,
        metadata_cache_size_bytes=metadata_cache_size_bytes,
        index_cache_size_bytes=index_cache_size_bytes,
        read_params=read_params,
        session=session,
        namespace_client=namespace_client,
        table_id=table_id,
        base_store_params=base_store_params,
        manifest_store=manifest_store,
    )
    if asof is not None:
        opened._snapshot = snapshot_as_of(opened._line, asof)
    return opened


@checked
def write_dataset(
    data_obj: Any,
    uri: str | os.PathLike[str] | LanceDataset | None = None,
    schema: pa.Schema | None = None,
    mode: str = "create",
    *,
    max_rows_per_file: int = MAX_ROWS_PER_FILE,
    max_rows_per_group: int = 1024,
    max_bytes_per_file: int = MAX_BYTES_PER_FILE,
    data_cache_bytes: int | None = None,
    max_page_bytes: int | None = None,
    commit_lock: Any = None,
    progress: FragmentWriteProgress | None = None,
    storage_options: dict[str, str] | None = None,
    data_storage_version: str | None = None,
    use_legacy_format: bool | None = None,
    enable_v2_manifest_paths: bool = True,
    enable_stable_row_ids: bool = False,
    auto_cleanup_options: AutoCleanupConfig | None = None,
    commit_message: str | None = None,
    transaction_properties: dict[str, str] | None = None,
    initial_bases: list[Any] | None = None,
    target_bases: list[str] | None = None,
    target_all_bases: bool | None = None,
    base_store_params: dict[str, dict[str, str]] | None = None,
    external_blob_mode: str = "reference",
    allow_external_blob_outside_bases: bool = False,
    blob_pack_file_size_threshold: int | None = None,
    namespace_client: Any = None,
    table_id: list[str] | None = None,
    session: Any = None,
    primary_key: str | Iterable[str] | None = None,
    primary_key_check: str = "warn",
    checksums: bool | None = None,
    optimize_for: str | None = None,
    manifest_store: ManifestStore | None = None,
) -> LanceDataset:
    """Write rows to a dataset, and return a handle at the new version.

    Parameters
    ----------
    data_obj
        pandas, Polars, Arrow (table, batch, batches, reader, anything with the Arrow C stream),
        columns as a dictionary, rows as a list of dictionaries, or a Spark DataFrame.
    uri
        Where; or a handle, for the branch and version that it is at.
    schema
        The columns of the rows and their types, to which they are cast if no value changes: see
        the page on casts.  Keys that no dict of a list has are null.
    mode
        ``"create"`` (there must be none yet; a place in memory is begun anew), ``"append"`` or
        ``"overwrite"``; the latter two create the dataset if there is none.
    max_rows_per_file, max_bytes_per_file
        When to start a new file, which is a new fragment.
    max_page_bytes
        About how many bytes of a column to gather for a page.
    progress
        An object whose ``begin(fragment)`` and ``complete(fragment)`` are called for each file.
    data_storage_version
        ``"2.0"``, ``"2.1"``, ``"2.2"`` or ``"stable"`` (2.2, the default) for a new or
        overwritten dataset; an append keeps the dataset's own.
    enable_v2_manifest_paths
        Name the manifests of a new dataset so that the newest comes first in a listing.
    enable_stable_row_ids
        Give each row of a new dataset an id that it keeps when it is updated or compacted, and
        record which versions created and last changed it (see `LanceDataset.delta`).  Existing
        datasets stay as they are.
    auto_cleanup_options
        For a dataset that is created: when its commits remove old versions, as in
        `DatasetOptimizer.enable_auto_cleanup`.
    commit_message, transaction_properties
        Kept in the transaction; the history shows the message.
    initial_bases
        For a dataset that is created: other places that its files may lie in.
    target_bases, target_all_bases
        The names or paths of base paths that the new files go to in turn, or all of them and the
        dataset's own folder; by default only the latter.
    primary_key
        The columns that tell rows apart, in the key's order.  They are marked as such and made
        not nullable, after their values were checked.  A merge-insert on them guards the keys
        that it inserts against concurrent merges.  An overwrite keeps the dataset's key where the
        new rows have its columns, and warns where they lack one; ``[]`` drops the key.
    primary_key_check
        What rows of this write that share their primary key are: ``"warn"`` counts them, with an
        example; ``"error"`` writes nothing; ``"ignore"`` does not look.  The key columns are read
        back for it, with 8 bytes of memory a row; rows that the dataset has are not looked at.
    allow_external_blob_outside_bases
        Whether blobs may stay where their URIs say, outside of the dataset.
    checksums
        Write checksums into the data files, which other readers ignore: `LanceDataset.validate`
        and reads under ``lk.options.verify_checksums`` compare them.  ``lk.options.checksums`` by
        default.
    optimize_for
        What the encodings of text are chosen for: ``"scan"`` for reading whole columns, ``"take"``
        for rows here and there, ``"size"`` for small files, or ``"balance"``.
        ``lk.options.optimize_for`` by default.
    commit_lock, manifest_store
        As in `dataset`; a handle passed as ``uri`` has its own.

    Returns
    -------
    LanceDataset
        A new handle; one passed as ``uri`` does not move.

    Raises
    ------
    DatasetExistsError
        The mode is ``"create"`` and there is a dataset, which is not in memory.
    SchemaMismatchError
        The rows do not fit the dataset they are appended to; only the difference is named.
    NullKeyError
        A primary-key column holds a null.
    UnsupportedTypeError
        A column has a type that cannot be stored.

    Examples
    --------
    >>> import lancekit as lk
    >>> rows = {"id": [1, 2], "name": ["ada", "bob"]}
    >>> ds = lk.write_dataset(rows, "memory://write-example", primary_key="id")
    >>> lk.write_dataset({"id": [3], "name": ["eve"]}, ds, mode="append").count_rows()
    3
    """
    from lancekit._api.write_options import WriteOptions, write_to
    from lancekit._operations.write import open_rows, vacated, write_rows

    options = WriteOptions(
        schema=schema,
        mode=mode,
        max_rows_per_file=max_rows_per_file,
        max_rows_per_group=max_rows_per_group,
        max_bytes_per_file=max_bytes_per_file,
        data_cache_bytes=data_cache_bytes,
        max_page_bytes=max_page_bytes,
        commit_lock=commit_lock,
        progress=progress,
        storage_options=storage_options,
        data_storage_version=data_storage_version,
        use_legacy_format=use_legacy_format,
        enable_v2_manifest_paths=enable_v2_manifest_paths,
        enable_stable_row_ids=enable_stable_row_ids,
        auto_cleanup_options=auto_cleanup_options,
        commit_message=commit_message,
        transaction_properties=transaction_properties,
        initial_bases=initial_bases,
        target_bases=target_bases,
        target_all_bases=target_all_bases,
        base_store_params=base_store_params,
        external_blob_mode=external_blob_mode,
        allow_external_blob_outside_bases=allow_external_blob_outside_bases,
        blob_pack_file_size_threshold=blob_pack_file_size_threshold,
        namespace_client=namespace_client,
        table_id=table_id,
        session=session,
        primary_key=primary_key,
        primary_key_check=primary_key_check,
        checksums=checksums,
        optimize_for=optimize_for,
        manifest_store=manifest_store,
    )
    if isinstance(uri, LanceDataset):
        return uri._other(write_to(uri, data_obj, options))
    settings = options.settings()
    line = open_line(
        check_place(uri), storage_options, manifest_store=manifest_store, commit_lock=commit_lock
    )
    if settings.mode == "create":
        line = vacated(line)
    snapshot = write_rows(*open_rows(data_obj, schema, line, settings.mode), settings)
    return LanceDataset._at(snapshot, os.fspath(check_place(uri)), {})
