"""The public face: a dataset's handle, and the two functions that give one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pyarrow as pa

from lancekit.api._blobs import Blobs
from lancekit.api._columns import Columns
from lancekit.api._commits import Commits
from lancekit.api._maintenance import Maintenance
from lancekit.api._positions import Positions
from lancekit.api._reading import Scans
from lancekit.api._rows import Rows
from lancekit.api._settings import Settings
from lancekit.api._spark import SparkFrames
from lancekit.api._versions import Ref, Versions
from lancekit.api.delta import DatasetDelta
from lancekit.api.explainer import Explainer
from lancekit.api.fragment import FragmentMetadata, LanceFragment
from lancekit.api.lance_operation import Index, LanceOperation
from lancekit.api.merge_builder import MergeInsertBuilder
from lancekit.api.pylance.arguments import check_hints, check_names, check_place, refuse
from lancekit.api.pylance.not_offered import PartOfPylance
from lancekit.api.pylance.typed_dicts import AlterColumn, AutoCleanupConfig
from lancekit.api.scanner import LanceScanner
from lancekit.api.scanner_builder import ScannerBuilder
from lancekit.api.sql import SqlQuery, SqlQueryBuilder
from lancekit.api.stats import LanceStats
from lancekit.api.tags_and_branches import Branches, Tags
from lancekit.api.time_travel import snapshot_as_of
from lancekit.api.write_options import write_settings
from lancekit.checked import checked, checked_methods
from lancekit.display import Displayed
from lancekit.errors import InvalidArgumentError
from lancekit.format.names import ManifestNaming
from lancekit.format.transaction import COMMIT_MESSAGE as LANCE_COMMIT_MESSAGE_KEY
from lancekit.format.transaction import Transaction
from lancekit.operations.cleanup.auto import auto_cleanup_config
from lancekit.operations.maintenance.inventory import DataStatistics, FieldStatistics
from lancekit.operations.write import open_rows, write_rows
from lancekit.pipeline.rows.write import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE
from lancekit.progress import FragmentWriteProgress
from lancekit.scan.order_by import ColumnOrdering
from lancekit.versions.line import check_same_place, open_line
from lancekit.versions.manifest_writers import ManifestStore
from lancekit.versions.references import parse_reference, resolve

__all__ = [
    "LANCE_COMMIT_MESSAGE_KEY",
    "AlterColumn",
    "AutoCleanupConfig",
    "ColumnOrdering",
    "LanceDataset",
    "dataset",
    "write_dataset",
]
# pylance has these here too
__all__ += ["Branches", "DataStatistics", "DatasetDelta", "Explainer", "FieldStatistics"]
__all__ += ["FragmentMetadata", "Index", "LanceFragment", "LanceOperation", "LanceScanner"]
__all__ += ["LanceStats"]
__all__ += ["MergeInsertBuilder", "ScannerBuilder", "SqlQuery", "SqlQueryBuilder", "Tags"]
__all__ += ["Transaction"]


@checked_methods
class LanceDataset(
    Scans,
    Positions,
    Blobs,
    SparkFrames,
    Rows,
    Columns,
    Versions,
    Settings,
    Maintenance,
    Commits,
    Displayed,
    PartOfPylance,
):
    """A handle on a dataset, at one version of one branch.

    `delete`, `merge_insert`, `insert`, `restore` and `checkout_latest` move the handle to the
    newest version; `checkout_version`, `create_branch` and `at` return another one.

    Examples
    --------
    >>> import lancekit as lk, pyarrow as pa
    >>> ds = lk.write_dataset(pa.table({"x": [1, 2, 3]}), "memory://dataset-example")
    >>> ds.delete("x = 2")["num_deleted_rows"], ds.version, ds.count_rows()
    (1, 2, 2)
    >>> ds.checkout_version(1).count_rows()
    3
    """

    def __init__(
        self,
        uri: str | os.PathLike[str],
        version: Ref | None = None,
        block_size: int | None = None,
        index_cache_size: int | None = None,
        metadata_cache_size: int | None = None,
        commit_lock: Any = None,
        storage_options: dict[str, str] | None = None,
        serialized_manifest: bytes | None = None,
        default_scan_options: dict[str, Any] | None = None,
        metadata_cache_size_bytes: int | None = None,
        index_cache_size_bytes: int | None = None,
        read_params: dict[str, Any] | None = None,
        session: Any = None,
        namespace_client: Any = None,
        table_id: list[str] | None = None,
        namespace_client_managed_versioning: bool = False,
        base_store_params: dict[str, dict[str, str]] | None = None,
        *,
        manifest_store: ManifestStore | None = None,
    ) -> None:
        # there is nothing to size
        check_hints(
            block_size=block_size,
            index_cache_size=index_cache_size,
            metadata_cache_size=metadata_cache_size,
            metadata_cache_size_bytes=metadata_cache_size_bytes,
            index_cache_size_bytes=index_cache_size_bytes,
        )
        refuse(
            "dataset",
            namespace_client_managed_versioning=namespace_client_managed_versioning or None,
            serialized_manifest=serialized_manifest,
            read_params=read_params,
            session=session,
            namespace_client=namespace_client,
            table_id=table_id,
            base_store_params=base_store_params,
        )
        line = open_line(
            check_place(uri),
            storage_options,
            manifest_store=manifest_store,
            commit_lock=commit_lock,
        )
        self._uri = os.fspath(uri)
        self._scan_defaults = dict(default_scan_options or {})
        self._snapshot = resolve(line, parse_reference(version, line))
        self._read_only = False

    def __len__(self) -> int:
        return self.count_rows()

    def _plain(self) -> str:
        return f"LanceDataset({self._uri!r}, {self._line.name}:{self.version})"

    @property
    def explain(self) -> Explainer:
        """What operations would do, where and why: ``ds.explain.update({"x": "x + 1"})``."""
        return Explainer(self)

    # ---- changing rows

    def insert(self, data: Any, *, mode: str = "append", **kwargs: Any) -> None:
        """Write rows and move the handle; arguments as in `write_dataset`."""
        self._check_movable()
        self._snapshot = write_dataset(data, self, mode=mode, **kwargs)._snapshot


@checked
def dataset(
    uri: str | os.PathLike[str] | None = None,
    version: Ref | None = None,
    asof: datetime | str | None = None,
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
        local time, and warns.
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
            f"Both version={version!r} and asof={asof!r} were given.", hint="Pass one of the two."
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
    checksums: bool | None = None,
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
        ``"create"`` (there must be none yet), ``"append"`` or ``"overwrite"``; the latter two
        create the dataset if there is none.
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
        that it inserts against concurrent merges.
    allow_external_blob_outside_bases
        Whether blobs may stay where their URIs say, outside of the dataset.
    checksums
        Write checksums into the data files, which other readers ignore: `LanceDataset.validate`
        and reads under ``lk.options.verify_checksums`` compare them.  ``lk.options.checksums`` by
        default.
    commit_lock, manifest_store
        As in `dataset`; a handle passed as ``uri`` has its own.

    Returns
    -------
    LanceDataset
        A new handle; one passed as ``uri`` does not move.

    Raises
    ------
    DatasetExistsError
        The mode is ``"create"`` and there is a dataset.
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
    check_hints(max_rows_per_group=max_rows_per_group)  # of 0.1 files, which are not written
    refuse(
        "write_dataset",
        data_cache_bytes=data_cache_bytes,
        use_legacy_format=use_legacy_format or None,
        base_store_params=base_store_params,
        external_blob_mode=None if external_blob_mode == "reference" else external_blob_mode,
        blob_pack_file_size_threshold=blob_pack_file_size_threshold,
        namespace_client=namespace_client,
        table_id=table_id,
        session=session,
    )
    settings = write_settings(
        mode=mode,
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
        max_page_bytes=max_page_bytes,
        data_storage_version=data_storage_version,
        initial_bases=initial_bases,
        target_bases=target_bases,
        target_all_bases=target_all_bases,
        progress=progress,
        primary_key=check_names("primary_key", primary_key),
        stable_row_ids=enable_stable_row_ids,
        naming=ManifestNaming.V2 if enable_v2_manifest_paths else ManifestNaming.V1,
        checksums=checksums,
        external_blobs=allow_external_blob_outside_bases,
        message=commit_message,
        properties=dict(transaction_properties or {}),
        config={} if auto_cleanup_options is None else auto_cleanup_config(auto_cleanup_options),
    )
    if isinstance(uri, LanceDataset):
        uri._check_movable()
        check_same_place(uri._line, storage_options, manifest_store, commit_lock)
        source, target = open_rows(data_obj, schema, uri._snapshot, mode)
        return uri._other(write_rows(source, target, settings))
    line = open_line(
        check_place(uri), storage_options, manifest_store=manifest_store, commit_lock=commit_lock
    )
    source, target = open_rows(data_obj, schema, line, mode)
    snapshot = write_rows(source, target, settings)
    return LanceDataset._at(snapshot, os.fspath(check_place(uri)), {})
