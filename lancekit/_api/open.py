"""The two functions that give a dataset's handle: opening it, and writing it."""

from __future__ import annotations

import os

from lancekit._api.lance_dataset import LanceDataset
from lancekit._api.time_travel import snapshot_as_of
from lancekit._arguments.checks import check_place
from lancekit._arguments.open import DatasetArguments
from lancekit._arguments.record import takes
from lancekit._arguments.write import WriteArguments
from lancekit._checked import checked
from lancekit._legible import shown
from lancekit._versions.line import open_line
from lancekit.errors import InvalidArgumentError

__all__ = ["dataset", "write_dataset"]


@checked
@takes(
    DatasetArguments,
    "uri version asof block_size commit_lock index_cache_size storage_options "
    "default_scan_options metadata_cache_size_bytes index_cache_size_bytes read_params session "
    "namespace_client table_id base_store_params",
)
def dataset(arguments: DatasetArguments) -> LanceDataset:
    """Open a dataset.

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
    version, asof = arguments.version, arguments.asof
    if version is not None and asof is not None:
        raise InvalidArgumentError(
            f"Both version={shown(version)} and asof={shown(asof)} were given.",
            hint="Pass one of the two.",
        )
    opened = LanceDataset._open(arguments)
    if asof is not None:
        opened._snapshot = snapshot_as_of(opened._line, asof)
    return opened


@checked
@takes(WriteArguments)
def write_dataset(arguments: WriteArguments) -> LanceDataset:
    """Write rows to a dataset, and return a handle at the new version.

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
    from lancekit._api.write_settings import settings_of, write_to
    from lancekit._operations.write import open_rows, vacated, write_rows

    data, uri, mode = arguments.data_obj, arguments.uri, arguments.mode
    if isinstance(uri, LanceDataset):
        return uri._other(write_to(uri, data, arguments.schema, mode, arguments))
    settings = settings_of(arguments, mode)
    place = check_place(uri)
    line = open_line(
        place,
        arguments.storage_options,
        manifest_store=arguments.manifest_store,
        commit_lock=arguments.commit_lock,
    )
    if settings.mode == "create":
        line = vacated(line)
    snapshot = write_rows(*open_rows(data, arguments.schema, line, settings.mode), settings)
    return LanceDataset._at(snapshot, os.fspath(place), {})
