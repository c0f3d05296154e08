"""The arguments of writes, and of opening a dataset or a shard."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, Literal

from lancekit._arguments.checks import (
    REFUSED,
    check_count,
    check_flag,
    check_read_params,
    check_session,
)
from lancekit._arguments.record import Arguments, hint, refused
from lancekit._defaults import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from datetime import date, timedelta

    import pyarrow as pa

    from lancekit._arguments.record import AutoCleanupConfig, DatasetLike
    from lancekit._versions.manifest_writers import ManifestStore
    from lancekit._versions.references import Ref
    from lancekit.progress import FragmentWriteProgress


class _Sizes(Arguments):
    """The layout of data files.

    Parameters
    ----------
    max_rows_per_file, max_bytes_per_file
        The size at which a new file begins.  Each file is a fragment.
    max_page_bytes
        The approximate number of bytes of a column to collect for a page.
    data_storage_version
        The version of data files.  ``"2.0"``, ``"2.1"``, ``"2.2"`` or ``"stable"`` (2.2, the
        default) for a new or overwritten dataset.  An append uses the dataset's own version.
    optimize_for
        The goal of text encodings.  It is ``"scan"`` for reads of whole columns, ``"take"`` for
        random access, ``"size"`` for small files, or ``"balance"``.  By default
        ``lk.options.optimize_for``.
    storage_options
        Credentials and settings of an object store.
    """

    _: KW_ONLY
    max_rows_per_file: int = MAX_ROWS_PER_FILE
    max_bytes_per_file: int = MAX_BYTES_PER_FILE
    max_page_bytes: int | None = None
    data_storage_version: str | None = None
    optimize_for: Literal["balance", "scan", "take", "size"] | None = None
    storage_options: dict[str, str] | None = None


class FileArguments(_Sizes):
    """The arguments of calls that write data files.

    Parameters
    ----------
    progress
        An object whose ``begin(fragment)`` and ``complete(fragment)`` are called for each file.
    initial_bases
        Additional base paths of a new dataset, for its files.
    target_bases, target_all_bases
        The base paths that receive new files in turn: by name or path, or ``True`` for all base
        paths and the dataset's folder.  By default only the dataset's folder receives files.
    allow_external_blob_outside_bases
        Whether blobs can reference URIs outside of the dataset.
    max_rows_per_group, session
        Hints: they are checked, and change no result.
    data_cache_bytes, use_legacy_format, base_store_params, external_blob_mode, namespace_client, \
table_id
        Not supported.
    """

    _: KW_ONLY
    progress: FragmentWriteProgress | None = None
    initial_bases: list[Any] | None = None
    target_bases: list[str] | None = None
    target_all_bases: bool | None = None
    allow_external_blob_outside_bases: bool = False
    # only files of format 0.1 have groups, and they are never written
    max_rows_per_group: int | None = hint(default=1024, check=check_count)
    session: Any = hint(default=None, check=check_session)
    data_cache_bytes: int | None = refused(
        default=None, why="the writer's memory is bounded by pages"
    )
    use_legacy_format: bool | None = refused(
        default=None, why="data files of format 0.1 cannot be written"
    )
    base_store_params: dict[str, dict[str, str]] | None = refused(
        default=None, why=REFUSED["base_store_params"]
    )
    external_blob_mode: str = refused(
        default="reference", why="files outside of the dataset are referenced, not copied"
    )
    namespace_client: object = refused(default=None, why=REFUSED["namespace_client"])
    table_id: list[str] | None = refused(default=None, why=REFUSED["table_id"])


class FragmentsArguments(FileArguments):
    """The arguments of `write_fragments`.

    Parameters
    ----------
    data, schema
        The rows, as in `lancekit.write_dataset`.
    dataset_uri
        The path or URI of the existing or future dataset, or a handle.
    return_transaction
        Return a transaction for `LanceDataset.commit`, instead of the list of fragments.
    mode
        The kind of write.  ``"append"`` needs rows that fit the dataset.  ``"create"`` and
        ``"overwrite"`` accept a new schema.
    enable_stable_row_ids
        A hint that changes nothing: the commit assigns row ids.
    """

    data: Any
    dataset_uri: str | os.PathLike[str] | DatasetLike
    schema: pa.Schema | None = None
    _: KW_ONLY
    return_transaction: bool = False
    mode: Literal["create", "append", "overwrite"] = "append"
    enable_stable_row_ids: bool = hint(default=False, check=check_flag)


class _CommitSettings(_Sizes):
    """Further arguments of writes that commit.

    Parameters
    ----------
    enable_stable_row_ids
        Give each row of a new dataset an id that updates and compactions preserve.  Also record the
        versions that created and last changed each row (see `LanceDataset.delta`).  Existing
        datasets are not changed.
    commit_message, transaction_properties
        Stored in the transaction; the history shows the message.
    """

    _: KW_ONLY
    enable_stable_row_ids: bool = False
    commit_message: str | None = None
    transaction_properties: dict[str, str] | None = None


class WriteOptions(FileArguments, _CommitSettings):
    """The arguments of writes of a dataset, without the rows and the place.

    Parameters
    ----------
    schema_mode
        ``"merge"``: an append adds the columns that the dataset lacks, in the same commit, and
        existing rows have nulls there.  By default such rows are refused.
    enable_v2_manifest_paths
        Name the manifests of a new dataset so that a listing returns the newest first.
    auto_cleanup_options
        When commits of a new dataset remove old versions, as in
        `DatasetOptimizer.enable_auto_cleanup`.
    primary_key
        The key columns, in the key's order.  After a check of their values, they are marked as the
        primary key and as not nullable.  A merge-insert on the key protects the keys that it
        inserts against concurrent merges.  An overwrite preserves the key if the new rows have its
        columns, and warns if a column is missing.  ``[]`` drops the key.
    primary_key_check
        The action for rows of this write that share a primary key.  ``"warn"`` counts them and
        shows an example, ``"error"`` writes nothing, ``"ignore"`` skips the check.  The check reads
        the key columns back, with 8 bytes of memory a row.  It ignores existing rows.
    checksums
        Write checksums into the data files, which other readers ignore.  `LanceDataset.validate`
        verifies them, and so do reads under ``lk.options.verify_checksums``.  By default
        ``lk.options.checksums``.
    commit_lock, manifest_store
        As in `dataset`, but a handle has its own.
    blob_pack_file_size_threshold
        Not supported.
    """

    _: KW_ONLY
    schema_mode: Literal["merge"] | None = None
    enable_v2_manifest_paths: bool = True
    auto_cleanup_options: AutoCleanupConfig | None = None
    primary_key: str | Iterable[str] | None = None
    primary_key_check: Literal["warn", "error", "ignore"] = "warn"
    checksums: bool | None = None
    commit_lock: Any = None
    manifest_store: ManifestStore | None = None
    blob_pack_file_size_threshold: int | None = refused(
        default=None, why="blobs are written into the data file"
    )


class WriteArguments(WriteOptions):
    """The arguments of `write_dataset`.

    Parameters
    ----------
    data_obj
        The rows: pandas, Polars, a dictionary of columns, a list of dictionaries, or a Spark
        DataFrame.  Or Arrow: table, batch, batches, reader, any object with the Arrow C stream.
    uri
        The path or URI of the dataset.  Or a handle, for a write to its branch and version.
    schema
        The columns and their types.  Values are cast if no value changes (see the page on casts).
        In a list of dictionaries, missing keys are null; without a schema, a warning says so.
    mode
        ``"create"``, ``"append"`` or ``"overwrite"``.  The latter two create the dataset if it does
        not exist.  With ``"create"`` it must not exist, but a ``memory://`` URI is replaced.
    """

    data_obj: Any
    uri: str | os.PathLike[str] | DatasetLike | None = None
    schema: pa.Schema | None = None
    mode: Literal["create", "append", "overwrite"] = "create"


class InsertArguments(WriteOptions):
    """The arguments of `LanceDataset.insert`.

    Parameters
    ----------
    data, schema
        As ``data_obj`` and ``schema`` of `lancekit.write_dataset`.
    mode
        ``"append"`` or ``"overwrite"``.
    """

    data: Any
    _: KW_ONLY
    mode: Literal["create", "append", "overwrite"] = "append"
    schema: pa.Schema | None = None


class StreamArguments(_CommitSettings):
    """The arguments of `stream_sink`.

    Parameters
    ----------
    uri
        The path or URI of the dataset.  The first batch creates the dataset if it does not exist.
    query
        The name of the streaming query.  It must be unique among the queries that write to this
        dataset.  A query with a new checkpoint needs a new name, because its batches count from 0
        again.  A second query of the same name is refused.  Over Spark Connect, a second query that
        runs in the same session is not detected.
    mode
        ``"append"`` or ``"merge"``.  A merge replaces rows with existing keys, and inserts others.
    on
        The key columns of a merge.  By default the primary key.
    branch
        The branch to write to.
    """

    uri: str | os.PathLike[str]
    query: str
    _: KW_ONLY
    mode: Literal["append", "merge"] = "append"
    on: str | Iterable[str] | None = None
    branch: str | None = None


# ---- the arguments of opening a dataset


class OpenArguments(Arguments):
    """The common arguments of both ways to open a dataset.

    Parameters
    ----------
    uri
        A path, or a URI: ``file://``, ``memory://``, ``s3://``, ...
    version
        A number, a tag, or a pair of branch and version such as ``("experiment", None)``.  By
        default the newest version of the main branch.
    commit_lock
        A function, for a store without conditional put.  It receives a version number and returns a
        context manager that excludes all other writers of the dataset.
    storage_options
        Credentials and settings of an object store.
    default_scan_options
        Defaults for arguments of `LanceDataset.scanner`.
    manifest_store
        A small database, such as `SqliteManifestStore`, instead of a lock.  It decides which writer
        gets a version.  All writers must use the same one.
    block_size, index_cache_size, index_cache_size_bytes, metadata_cache_size_bytes, read_params, \
session
        Hints: they are checked, and change no result.
    namespace_client, table_id, base_store_params
        Not supported.
    """

    uri: str | os.PathLike[str] | None = None
    version: Ref | None = None
    _: KW_ONLY
    commit_lock: Any = None
    storage_options: dict[str, str] | None = None
    default_scan_options: dict[str, Any] | None = None
    manifest_store: ManifestStore | None = None
    # lancekit has no caches of these kinds
    block_size: int | None = hint(default=None, check=check_count)
    index_cache_size: int | None = hint(default=None, check=check_count)
    index_cache_size_bytes: int | None = hint(default=None, check=check_count)
    metadata_cache_size_bytes: int | None = hint(default=None, check=check_count)
    read_params: dict[str, Any] | None = hint(default=None, check=check_read_params)
    session: Any = hint(default=None, check=check_session)
    namespace_client: object = refused(default=None, why=REFUSED["namespace_client"])
    table_id: list[str] | None = refused(default=None, why=REFUSED["table_id"])
    base_store_params: dict[str, dict[str, str]] | None = refused(
        default=None, why=REFUSED["base_store_params"]
    )


class DatasetArguments(OpenArguments):
    """The arguments of `lancekit.dataset`.

    Parameters
    ----------
    asof
        A time instead of a version: open the newest version committed until then.  A time or a date
        without a zone is local time, and warns.  A negative timedelta is relative to now.
    branch
        The branch of the version or the time; by default the main branch.
    """

    asof: date | timedelta | str | None = None
    _: KW_ONLY
    branch: str | None = None


class HandleArguments(OpenArguments):
    """The arguments of the constructor of `LanceDataset`.

    Parameters
    ----------
    metadata_cache_size
        A hint: it is checked, and changes no result.
    serialized_manifest, namespace_client_managed_versioning
        Not supported.
    """

    _: KW_ONLY
    metadata_cache_size: int | None = hint(default=None, check=check_count)
    serialized_manifest: bytes | None = refused(
        default=None, why="open the dataset by its path or URI"
    )
    namespace_client_managed_versioning: bool = refused(
        default=False, why=REFUSED["namespace_client_managed_versioning"]
    )


class _ShardWriterSettings(Arguments):
    """The settings of a shard writer.

    Parameters
    ----------
    durable_write
        Whether a put waits until its rows are in the log (on a local disk: flushed to it).
    max_wal_buffer_size
        The largest log entry in bytes, unless a single put is larger.
    max_wal_flush_interval_ms
        The longest time in milliseconds until rows of puts that do not wait are in the log.
    max_memtable_size, max_memtable_rows, max_memtable_batches
        The bytes, rows or batches in memory at which a generation is flushed.
    max_unflushed_memtable_bytes
        The bytes in memory at which puts wait.
    backpressure_log_interval_ms, stats_log_interval_ms
        The intervals in milliseconds at which Python's ``logging`` receives messages about waiting
        puts, and statistics. 0 means never.
    manifest_scan_batch_size
        A setting of pylance's search for manifests.  It changes nothing in lancekit.
    hnsw_params
        Settings of pylance's HNSW by index name: ``num_edges``, ``ef_construction``, ``max_level``.
    """

    _: KW_ONLY
    durable_write: bool | None = None
    max_wal_buffer_size: int | None = None
    max_wal_flush_interval_ms: int | None = None
    max_memtable_size: int | None = None
    max_memtable_rows: int | None = None
    max_memtable_batches: int | None = None
    max_unflushed_memtable_bytes: int | None = None
    manifest_scan_batch_size: int | None = None
    backpressure_log_interval_ms: int | None = None
    stats_log_interval_ms: int | None = None
    hnsw_params: dict[str, dict[str, int]] | None = None


class _ShardingSettings(Arguments):
    """The assignment of rows to shards, and the indices of generations.

    Parameters
    ----------
    maintained_indexes
        The names of the indices of generations; all indices by default.  Writers of both libraries
        build them when they flush a generation.
    bucket_column, num_buckets
        A column, and the number of buckets for its values: 1 to 1024.
    identity_column
        A column with one shard for each of its values.
    unsharded
        Whether there is only one shard.
    """

    _: KW_ONLY
    maintained_indexes: list[str] | None = None
    bucket_column: str | None = None
    num_buckets: int | None = None
    identity_column: str | None = None
    unsharded: bool = False


class MemWalArguments(_ShardWriterSettings, _ShardingSettings):
    """The arguments of initializing a table with write-ahead logs."""


class ShardWriterArguments(_ShardWriterSettings):
    """The arguments of opening a shard writer.

    Parameters
    ----------
    shard_id
        A UUID as text; any UUID for a new shard.  If the table has a sharding spec,
        `mem_wal_upsert` finds the shard of each row.
    """

    shard_id: str
