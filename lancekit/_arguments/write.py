"""What writes of rows take, and what opening a dataset and its shards takes."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any

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
    from datetime import datetime, timedelta

    import pyarrow as pa

    from lancekit._arguments.record import AutoCleanupConfig, DatasetLike
    from lancekit._versions.manifest_writers import ManifestStore
    from lancekit._versions.references import Ref
    from lancekit.progress import FragmentWriteProgress


class _Sizes(Arguments):
    """How rows become files.

    Parameters
    ----------
    max_rows_per_file, max_bytes_per_file
        When to start a new file, which is a new fragment.
    max_page_bytes
        About how many bytes of a column to gather for a page.
    data_storage_version
        ``"2.0"``, ``"2.1"``, ``"2.2"`` or ``"stable"`` (2.2, the default) for a new or
        overwritten dataset; an append keeps the dataset's own.
    optimize_for
        What the encodings of text are chosen for: ``"scan"`` for reading whole columns, ``"take"``
        for rows here and there, ``"size"`` for small files, or ``"balance"``.
        ``lk.options.optimize_for`` by default.
    storage_options
        Credentials and settings of an object store.
    """

    _: KW_ONLY
    max_rows_per_file: int = MAX_ROWS_PER_FILE
    max_bytes_per_file: int = MAX_BYTES_PER_FILE
    max_page_bytes: int | None = None
    data_storage_version: str | None = None
    optimize_for: str | None = None
    storage_options: dict[str, str] | None = None


class FileArguments(_Sizes):
    """What writes of files take.

    Parameters
    ----------
    progress
        An object whose ``begin(fragment)`` and ``complete(fragment)`` are called for each file.
    initial_bases
        For a dataset that is created: other places that its files may lie in.
    target_bases, target_all_bases
        The names or paths of base paths that the new files go to in turn, or all of them and the
        dataset's own folder; by default only the latter.
    allow_external_blob_outside_bases
        Whether blobs may stay where their URIs say, outside of the dataset.
    max_rows_per_group, session
        Hints: they are checked, and change no result.
    data_cache_bytes, use_legacy_format, base_store_params, external_blob_mode, namespace_client, \
table_id
        Not offered.
    """

    _: KW_ONLY
    progress: FragmentWriteProgress | None = None
    initial_bases: list[Any] | None = None
    target_bases: list[str] | None = None
    target_all_bases: bool | None = None
    allow_external_blob_outside_bases: bool = False
    # groups are of 0.1 files, which are never written
    max_rows_per_group: int | None = hint(default=1024, check=check_count)
    session: Any = hint(default=None, check=check_session)
    data_cache_bytes: int | None = refused(
        default=None, why="the writer's memory is bounded by pages"
    )
    use_legacy_format: bool | None = refused(
        default=None, why="data files of format 0.1 are not written"
    )
    base_store_params: dict[str, dict[str, str]] | None = refused(
        default=None, why=REFUSED["base_store_params"]
    )
    external_blob_mode: str = refused(
        default="reference", why="files outside of the dataset are referred to, not copied"
    )
    namespace_client: object = refused(default=None, why=REFUSED["namespace_client"])
    table_id: list[str] | None = refused(default=None, why=REFUSED["table_id"])


class FragmentsArguments(FileArguments):
    """What `write_fragments` takes.

    Parameters
    ----------
    data, schema
        Rows as in `lancekit.write_dataset`.
    dataset_uri
        Where the dataset is or will be, or a handle on it.
    return_transaction
        Return what `LanceDataset.commit` takes, instead of the list of fragments.
    mode
        ``"append"`` for rows that fit the dataset there; ``"create"`` or ``"overwrite"`` for
        ones of a new schema.
    enable_stable_row_ids
        Changes nothing: the commit gives out row ids.
    """

    data: Any
    dataset_uri: str | os.PathLike[str] | DatasetLike
    schema: pa.Schema | None = None
    _: KW_ONLY
    return_transaction: bool = False
    mode: str = "append"
    enable_stable_row_ids: bool = hint(default=False, check=check_flag)


class _Committed(_Sizes):
    """What a commit of rows is given besides.

    Parameters
    ----------
    enable_stable_row_ids
        Give each row of a new dataset an id that it keeps when it is updated or compacted, and
        record which versions created and last changed it (see `LanceDataset.delta`).  Existing
        datasets stay as they are.
    commit_message, transaction_properties
        Kept in the transaction; the history shows the message.
    """

    _: KW_ONLY
    enable_stable_row_ids: bool = False
    commit_message: str | None = None
    transaction_properties: dict[str, str] | None = None


class WriteOptions(FileArguments, _Committed):
    """What writes of a dataset take beside the rows and the place.

    Parameters
    ----------
    enable_v2_manifest_paths
        Name the manifests of a new dataset so that the newest comes first in a listing.
    auto_cleanup_options
        For a dataset that is created: when its commits remove old versions, as in
        `DatasetOptimizer.enable_auto_cleanup`.
    primary_key
        The columns that tell rows apart, in the key's order.  They are marked as such and made
        not nullable, after their values were checked.  A merge-insert on them guards the keys
        that it inserts against concurrent merges.  An overwrite keeps the dataset's key where the
        new rows have its columns, and warns where they lack one; ``[]`` drops the key.
    primary_key_check
        What rows of this write that share their primary key are: ``"warn"`` counts them, with an
        example; ``"error"`` writes nothing; ``"ignore"`` does not look.  The key columns are read
        back for it, with 8 bytes of memory a row; rows that the dataset has are not looked at.
    checksums
        Write checksums into the data files, which other readers ignore: `LanceDataset.validate`
        and reads under ``lk.options.verify_checksums`` compare them.  ``lk.options.checksums`` by
        default.
    commit_lock, manifest_store
        As in `dataset`; a handle has its own.
    blob_pack_file_size_threshold
        Not offered.
    """

    _: KW_ONLY
    enable_v2_manifest_paths: bool = True
    auto_cleanup_options: AutoCleanupConfig | None = None
    primary_key: str | Iterable[str] | None = None
    primary_key_check: str = "warn"
    checksums: bool | None = None
    commit_lock: Any = None
    manifest_store: ManifestStore | None = None
    blob_pack_file_size_threshold: int | None = refused(
        default=None, why="blobs are written into the data file"
    )


class WriteArguments(WriteOptions):
    """What `write_dataset` takes.

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
    """

    data_obj: Any
    uri: str | os.PathLike[str] | DatasetLike | None = None
    schema: pa.Schema | None = None
    mode: str = "create"


class InsertArguments(WriteOptions):
    """What `LanceDataset.insert` takes.

    Parameters
    ----------
    data, schema, mode
        As ``data_obj``, ``schema`` and ``mode`` of `lancekit.write_dataset`.
    """

    data: Any
    _: KW_ONLY
    mode: str = "append"
    schema: pa.Schema | None = None


class StreamArguments(_Committed):
    """What `stream_sink` takes.

    Parameters
    ----------
    uri
        The dataset; the first batch creates it if there is none.
    query
        The streaming query's name: of all that write into this dataset, each has its own.  A query
        with a new checkpoint needs a new name, because its batches count from 0 again: another
        query of the same name is refused.  Over Spark Connect, one that runs next to the first, in
        the same session, is not recognised.
    mode
        ``"append"``, or ``"merge"``: replace the rows whose keys are there, and insert the others.
    on
        The key columns of a merge; the primary key by default.
    branch
        A branch to write to.
    """

    uri: str | os.PathLike[str]
    query: str
    _: KW_ONLY
    mode: str = "append"
    on: str | Iterable[str] | None = None
    branch: str | None = None


# ---- what opening a dataset takes


class OpenArguments(Arguments):
    """What both ways to open a dataset take.

    Parameters
    ----------
    uri
        A path, or a URI: ``file://``, ``memory://``, ``s3://``, ...
    version
        A number, a tag, or a pair of branch and version such as ``("experiment", None)``; the
        newest version of main by default.
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
    block_size, index_cache_size, index_cache_size_bytes, metadata_cache_size_bytes, read_params, \
session
        Hints: they are checked, and change no result.
    namespace_client, table_id, base_store_params
        Not offered.
    """

    uri: str | os.PathLike[str] | None = None
    version: Ref | None = None
    _: KW_ONLY
    commit_lock: Any = None
    storage_options: dict[str, str] | None = None
    default_scan_options: dict[str, Any] | None = None
    manifest_store: ManifestStore | None = None
    # there is nothing to size
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
    """What `lancekit.dataset` takes.

    Parameters
    ----------
    asof
        Instead of a version: the newest one committed until then.  A time without a zone is
        local time, and warns; a negative timedelta says how long ago.
    """

    asof: datetime | timedelta | str | None = None


class HandleArguments(OpenArguments):
    """What the constructor of `LanceDataset` takes.

    Parameters
    ----------
    metadata_cache_size
        A hint: it is checked, and changes no result.
    serialized_manifest, namespace_client_managed_versioning
        Not offered.
    """

    _: KW_ONLY
    metadata_cache_size: int | None = hint(default=None, check=check_count)
    serialized_manifest: bytes | None = refused(
        default=None, why="open the dataset by its path or URI"
    )
    namespace_client_managed_versioning: bool = refused(
        default=False, why=REFUSED["namespace_client_managed_versioning"]
    )


class _OfWriters(Arguments):
    """How a writer of a shard works.

    Parameters
    ----------
    durable_write
        Whether a put waits until its rows are in the log (on a local disk: flushed to it).
    max_wal_buffer_size
        Bytes of an entry of the log, unless one put has more.
    max_wal_flush_interval_ms
        How long rows wait for the log whose put does not.
    max_memtable_size, max_memtable_rows, max_memtable_batches
        Bytes, rows or batches in memory of which a generation is made.
    max_unflushed_memtable_bytes
        Bytes in memory with which puts wait.
    backpressure_log_interval_ms, stats_log_interval_ms
        How often Python's ``logging`` is told that a put waits, and what was done; 0: never.
    manifest_scan_batch_size
        How pylance looks for manifests; nothing here depends on it.
    hnsw_params
        How pylance makes graphs of indices of vectors, by the names of the indices:
        ``num_edges``, ``ef_construction``, ``max_level``.
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


class _OfShards(Arguments):
    """Which rows belong to which shard, and what generations have.

    Parameters
    ----------
    maintained_indexes
        The names of the indices that generations are to have, all of them if nothing is said.
        Writers of both libraries make them when they write a generation.
    bucket_column, num_buckets
        A column, and into how many buckets its values are divided: 1 to 1024.
    identity_column
        A column of whose values each has a shard.
    unsharded
        Whether there is one shard.
    """

    _: KW_ONLY
    maintained_indexes: list[str] | None = None
    bucket_column: str | None = None
    num_buckets: int | None = None
    identity_column: str | None = None
    unsharded: bool = False


class MemWalArguments(_OfWriters, _OfShards):
    """What a table with write-ahead logs is initialized with."""


class ShardWriterArguments(_OfWriters):
    """What the writer of a shard is opened with.

    Parameters
    ----------
    shard_id
        A UUID as text; of a new shard, any.  Where the table says which rows belong to which
        shard, `mem_wal_upsert` finds it.
    """

    shard_id: str
