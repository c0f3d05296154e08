"""What opening a dataset takes."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any

from lancekit._arguments.checks import REFUSED, check_count, check_read_params, check_session
from lancekit._arguments.record import Arguments, hint, refused

if TYPE_CHECKING:
    import os
    from datetime import datetime, timedelta

    from lancekit._versions.manifest_writers import ManifestStore
    from lancekit._versions.references import Ref

__all__ = ["DatasetArguments", "HandleArguments", "OpenArguments"]


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
    namespace_client: Any = refused(default=None, why=REFUSED["namespace_client"])
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
