"""The public face: a dataset's handle."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lancekit._api._blobs import Blobs
from lancekit._api._columns import Columns
from lancekit._api._commits import Commits
from lancekit._api._indices import Indices
from lancekit._api._lineage import Lineage
from lancekit._api._maintenance import Maintenance
from lancekit._api._mem_wal import MemWal
from lancekit._api._mem_wal_reading import MemWalReading
from lancekit._api._mem_wal_upkeep import MemWalUpkeep
from lancekit._api._mem_wal_writing import ShardWrites
from lancekit._api._positions import Positions
from lancekit._api._reading import Scans
from lancekit._api._rows import Rows
from lancekit._api._settings import Settings
from lancekit._api._spark import SparkFrames
from lancekit._api._vector_indices import VectorIndices
from lancekit._api._versions import Versions
from lancekit._api.pylance.arguments import check_hints, check_place, refuse
from lancekit._api.pylance.not_offered import PartOfPylance
from lancekit._api.time_travel import Ref
from lancekit._checked import checked_methods
from lancekit._display import Displayed
from lancekit._versions.line import open_line
from lancekit._versions.references import parse_reference, resolve

if TYPE_CHECKING:
    from lancekit._api.explainer import Explainer
    from lancekit._api.plots import Plots
    from lancekit._versions.manifest_writers import ManifestStore

__all__ = ["LanceDataset"]


@checked_methods
class LanceDataset(
    Scans,
    Positions,
    Blobs,
    SparkFrames,
    Rows,
    Columns,
    Indices,
    VectorIndices,
    Versions,
    Lineage,
    Settings,
    Maintenance,
    MemWal,
    MemWalReading,
    MemWalUpkeep,
    ShardWrites,
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
            read_params=read_params,
            session=session,
        )
        refuse(
            "dataset",
            namespace_client_managed_versioning=namespace_client_managed_versioning or None,
            serialized_manifest=serialized_manifest,
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

    @property
    def _ds(self) -> LanceDataset:
        """The handle: by this name code for pylance reaches what is not in its public class."""
        return self

    def __len__(self) -> int:
        return self.count_rows()

    def _plain(self) -> str:
        return f"LanceDataset({self._uri!r}, {self._line.name}:{self.version})"

    @property
    def explain(self) -> Explainer:
        """What operations would do, where and why: ``ds.explain.update({"x": "x + 1"})``."""
        from lancekit._api.explainer import Explainer

        return Explainer(self)

    @property
    def plot(self) -> Plots:
        """Pictures: ``ds.plot.history()``, ``.graph()``, ``.fragments()``, ``.columns(1)``, ..."""
        from lancekit._api.plots import Plots

        return Plots(self)

    # ---- changing rows

    def insert(self, data: Any, *, mode: str = "append", **kwargs: Any) -> None:
        """Write rows and move the handle; arguments as in `write_dataset`."""
        from lancekit._api.write_options import WriteOptions, write_to

        self._check_movable()
        self._snapshot = write_to(self, data, WriteOptions.of({"mode": mode, **kwargs}))
