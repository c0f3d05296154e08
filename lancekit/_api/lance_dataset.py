"""`LanceDataset`, the handle of a dataset, and the functions that return one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self, overload

import pyarrow as pa

from lancekit._api._commits import Commits, Settings
from lancekit._api._exporting import Exporting
from lancekit._api._indices import Indices
from lancekit._api._lineage import Lineage
from lancekit._api._maintenance import Maintenance
from lancekit._api._mem_wal import MemWal
from lancekit._api._mem_wal_upkeep import MemWalUpkeep
from lancekit._api._positions import Positions
from lancekit._api._reading import Scans
from lancekit._api._rows import Columns, Rows
from lancekit._api._versions import Versions
from lancekit._api.hinting import hinting_operators
from lancekit._api.time_travel import snapshot_as_of
from lancekit._arguments.checks import check_count, check_place
from lancekit._arguments.record import takes
from lancekit._arguments.write import (
    DatasetArguments,
    HandleArguments,
    InsertArguments,
    OpenArguments,
    WriteArguments,
)
from lancekit._checked import checked, checked_methods, is_whole
from lancekit._display import Displayed
from lancekit._lazy import loaded
from lancekit._legible import shown
from lancekit._versions.branch_location import open_location
from lancekit._versions.references import parse_reference, resolve
from lancekit.errors import InvalidArgumentError

if TYPE_CHECKING:
    from lancekit._api.answer import Answer
    from lancekit._api.column import DatasetColumn
    from lancekit._api.explainer import Explainer
    from lancekit._api.plots import Plots


@hinting_operators(
    "__add__ __radd__ __sub__ __mul__ __truediv__ __neg__ __invert__ __and__ __or__ "
    "__gt__ __lt__ __ge__ __le__ __array__ __enter__ __exit__"
)
@checked_methods
class LanceDataset(
    Scans,
    Exporting,
    Positions,
    Rows,
    Columns,
    Indices,
    Versions,
    Lineage,
    Settings,
    Maintenance,
    MemWal,
    MemWalUpkeep,
    Commits,
    Displayed,
):
    """A handle on a dataset, at one version of one branch.

    `delete`, `merge_insert`, `insert`, `restore` and `checkout_latest` move the handle to the
    newest version.  `checkout_version`, `create_branch` and `at` return another handle.

    Examples
    --------
    >>> import lancekit as lk, pyarrow as pa
    >>> ds = lk.write_dataset(pa.table({"x": [1, 2, 3]}), "memory://dataset-example")
    >>> ds.delete("x = 2")["num_deleted_rows"], ds.version, ds.count_rows()
    (1, 2, 2)
    >>> ds.checkout_version(1).count_rows()
    3
    """

    @takes(
        HandleArguments,
        "uri version block_size index_cache_size metadata_cache_size commit_lock storage_options "
        "serialized_manifest default_scan_options metadata_cache_size_bytes index_cache_size_bytes "
        "read_params session namespace_client table_id namespace_client_managed_versioning "
        "base_store_params",
    )
    def __init__(self, arguments: HandleArguments) -> None:
        """Open a dataset, as `lancekit.dataset` does."""
        self._begin(arguments)

    @classmethod
    def _open(cls, arguments: OpenArguments) -> Self:
        handle = cls.__new__(cls)
        handle._begin(arguments)
        return handle

    def _begin(self, arguments: OpenArguments) -> None:
        uri = check_place(arguments.uri)
        location = open_location(
            uri,
            arguments.storage_options,
            manifest_store=arguments.manifest_store,
            commit_lock=arguments.commit_lock,
        )
        self._uri = os.fspath(uri)
        self._scan_defaults = dict(arguments.default_scan_options or {})
        found = parse_reference(arguments.version, location)
        self._snapshot = resolve(location, found)
        self._read_only = False
        self._pinned = found.is_version

    @property
    def _ds(self) -> LanceDataset:
        """The handle itself; code for pylance uses this name to reach the native class."""
        return self

    def __len__(self) -> int:
        return self.count_rows()

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    @property
    def dtypes(self) -> dict[str, pa.DataType]:
        """The Arrow type of each column."""
        return {field.name: field.type for field in self.schema}

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows of this version, and of columns."""
        return self._snapshot.manifest.num_rows, len(self.schema)

    @overload
    def __getitem__(self, item: str) -> DatasetColumn: ...  # type: ignore[overload-overlap]
    @overload
    def __getitem__(self, item: object) -> pa.Table: ...
    def __getitem__(self, item: object) -> DatasetColumn | pa.Table:
        """Return a column, or read rows (``ds[10:20]``) or columns (``ds[["a"]]``).

        Rows are also chosen by a condition (`col`), a mask, or a list or array of positions.

        Raises
        ------
        ColumnNotFoundError
            There is no column or nested field of this name or path.
        InvalidTypeError
            The item is something else; the hint has the right line.
        """
        if isinstance(item, str):
            from lancekit._api.column import DatasetColumn

            return DatasetColumn(self._snapshot, item)
        from lancekit._api.items import read_item

        return read_item(self, item)

    def __contains__(self, name: object) -> bool:
        if isinstance(name, str):
            return name in self.schema.names
        raise loaded("_api.not_offered.not_a_name")(name, self)

    def _items_by_name(self) -> list[str]:
        return self._snapshot.manifest.schema.names

    _ipython_key_completions_ = _items_by_name

    def __setattr__(self, name: str, value: object) -> None:
        # a test can replace a method, and a subclass has attributes of its own
        mine = type(self) is LanceDataset and not callable(getattr(type(self), name, None))
        if mine and not name.startswith("_"):
            self[name] = value
        object.__setattr__(self, name, value)

    def __setitem__(self, name: object, value: object) -> None:
        here = name in self._items_by_name()
        raise loaded("_api.not_offered.not_assigned")(name, value, self, here=here)

    def __delitem__(self, name: object) -> None:
        raise loaded("_api.not_offered.not_deleted")(name, self)

    def __delattr__(self, name: str) -> None:
        if name in self._items_by_name():
            del self[name]
        object.__delattr__(self, name)

    def _plain(self) -> str:
        return f"LanceDataset({self._uri!r}, {self._location.name}:{self.version})"

    @property
    def explain(self) -> Explainer:
        """Plans of operations, without running them: ``ds.explain.update({"x": "x + 1"})``."""
        from lancekit._api.explainer import Explainer

        return Explainer(self)

    @property
    def plot(self) -> Plots:
        """Pictures: ``ds.plot.history()``, ``.graph()``, ``.fragments()``, ``.columns(1)``, ..."""
        from lancekit._api.plots import Plots

        return Plots(self)

    # ---- changing rows

    @takes(InsertArguments)
    def insert(self, arguments: InsertArguments) -> Answer:
        """Write rows, and move the handle.

        Returns
        -------
        Answer
            The change, and the call that undoes it.

        Raises
        ------
        ReadOnlyError
            The handle is pinned to a version.
        SchemaMismatchError, InvalidArgumentError, CommitConflictError
            As in `lancekit.write_dataset`.

        Examples
        --------
        >>> import lancekit as lk
        >>> ds = lk.write_dataset({"x": [1]}, "memory://insert-example")
        >>> ds.insert({"x": [2, 3]})
        inserted 2 rows into 1 fragment · main:2; ds.undo() takes it back
        """
        from lancekit._api.answer import answer
        from lancekit._api.write_settings import write_to

        before, data, mode = self._snapshot, arguments.data, arguments.mode
        names = self._move(lambda _: write_to(self, data, arguments.schema, mode, arguments))
        return answer("insert", before, self._snapshot, names=names)


# ---- the functions that return a handle: open, write and unpack


@checked
@takes(
    DatasetArguments,
    "uri version asof block_size commit_lock index_cache_size storage_options "
    "default_scan_options metadata_cache_size_bytes index_cache_size_bytes read_params session "
    "namespace_client table_id base_store_params",
)
def dataset(arguments: DatasetArguments) -> LanceDataset:
    """Open a dataset.

    Returns
    -------
    LanceDataset
        A handle at the newest version, or at the requested one.

    Raises
    ------
    DatasetNotFoundError, VersionNotFoundError, TagNotFoundError, BranchNotFoundError
        The dataset, version, tag or branch does not exist.
    CorruptFileError, UnsupportedFeatureError
        The dataset is damaged, or uses unsupported features.

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
            f"version and asof exclude each other, got version={shown(version)} and "
            f"asof={shown(asof)}."
        )
    opened = LanceDataset._open(_on_branch(arguments))
    if asof is not None:
        opened._snapshot = snapshot_as_of(opened._location, asof)
        opened._pinned = True
    return opened


def _on_branch(arguments: DatasetArguments) -> DatasetArguments:
    """Return the arguments with the branch as a part of the version."""
    branch, version = arguments.branch, arguments.version
    if branch is None:
        return arguments
    if not branch:
        raise InvalidArgumentError("branch is empty.", hint='Pass a name; the main one is "main".')
    if version is not None and not is_whole(version):
        raise InvalidArgumentError(
            f"branch={shown(branch)} needs a version number, got version={shown(version)}.",
            hint="A tag or a pair has its own branch: leave branch= out.",
        )
    return arguments.but(version=(branch, version))


@checked
@takes(WriteArguments)
def write_dataset(arguments: WriteArguments) -> LanceDataset:
    """Write rows to a dataset, and return a handle at the new version.

    Returns
    -------
    LanceDataset
        A new handle; a handle passed as ``uri`` does not move.

    Raises
    ------
    DatasetExistsError
        The mode is ``"create"``, and ``uri`` is a handle or an existing dataset on a disk or store.
    SchemaMismatchError
        The rows do not fit the dataset that they are appended to; the error names the difference.
    NullKeyError, DuplicateKeysError
        A primary-key column has a null; or keys repeat, with ``primary_key_check="error"``.
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
        return uri._other(write_to(uri, data, arguments.schema, mode, arguments)[0])
    settings = settings_of(arguments, mode)
    place = check_place(uri)
    location = open_location(
        place,
        arguments.storage_options,
        manifest_store=arguments.manifest_store,
        commit_lock=arguments.commit_lock,
    )
    if settings.mode == "create":
        location = vacated(location)
    snapshot = write_rows(*open_rows(data, arguments.schema, location, settings.mode), settings)
    return LanceDataset._at(snapshot, os.fspath(place), {})


@checked
def unpack(
    path: str | os.PathLike[str],
    uri: str | os.PathLike[str],
    *,
    storage_options: dict[str, str] | None = None,
    max_bytes: int = 64 << 30,
) -> LanceDataset:
    """Create a dataset from a zip file that `LanceDataset.pack` wrote.

    The file is not trusted.  Names, sizes and checksums of all files are checked, and the version
    may only refer to these files.  The dataset appears when all files are in place.

    Parameters
    ----------
    path
        The zip file, on the local disk.
    uri
        The path or URI of the new dataset.
    storage_options
        The options of the dataset's store.
    max_bytes
        The most bytes of all files when unpacked.

    Returns
    -------
    LanceDataset
        A handle at the packed version.

    Raises
    ------
    CorruptFileError
        The file is no pack, or is damaged.
    MemoryLimitError
        The unpacked files are larger than ``max_bytes``.
    DatasetExistsError
        There are files at ``uri``.

    Examples
    --------
    >>> import lancekit as lk, tempfile
    >>> ds = lk.write_dataset({"x": [1, 2, 3]}, "memory://pack-example")
    >>> folder = tempfile.TemporaryDirectory()
    >>> _ = ds.pack(f"{folder.name}/x.zip")
    >>> lk.unpack(f"{folder.name}/x.zip", f"{folder.name}/x.lance").count_rows()
    3
    >>> folder.cleanup()
    """
    from lancekit._operations.common.new_file import local_path
    from lancekit._operations.maintenance.packed import unpack_version

    place, most = check_place(uri), check_count("max_bytes", max_bytes)
    snapshot = unpack_version(local_path(path, "unpack()"), place, storage_options, most)
    return LanceDataset._at(snapshot, os.fspath(place), {})
