"""`LanceOperation`: what a commit can do, by pylance's names.

Each is a frozen dataclass that says all of one change; `LanceDataset.commit` commits it, and
`LanceDataset.read_transaction` returns it.
"""

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from lancekit.format import operations as ops
from lancekit.format.index import IndexDetails, IndexFile, IndexMetadata
from lancekit.format.manifest import BasePath

__all__ = ["DatasetBasePath", "Index", "IndexFile", "LanceOperation"]

#: what a manifest says of a segment of an index
Index = IndexMetadata


class LanceOperation:
    """The operations, and their parts.

    Examples
    --------
    >>> import lancekit as lk, pyarrow as pa
    >>> rows = pa.table({"x": [1, 2]})
    >>> ds = lk.write_dataset(rows, "memory://operation-example")
    >>> fragment = lk.LanceFragment.create("memory://operation-example", rows)
    >>> change = lk.LanceOperation.Append([fragment])
    >>> lk.LanceDataset.commit(ds, change, read_version=1).count_rows()
    4
    """

    BaseOperation: TypeAlias = ops.Operation
    Append = ops.Append
    Clone = ops.Clone
    CreateIndex = ops.CreateIndex
    DataReplacement = ops.DataReplacement
    DataReplacementGroup = ops.DataReplacementGroup
    Delete = ops.Delete
    Merge = ops.Merge
    MergedGeneration = ops.MergedGeneration
    Overwrite = ops.Overwrite
    Project = ops.Project
    ReserveFragments = ops.ReserveFragments
    Restore = ops.Restore
    Rewrite = ops.Rewrite
    RewriteGroup = ops.RewriteGroup
    Update = ops.Update
    UpdateBases = ops.UpdateBases
    UpdateConfig = ops.UpdateConfig
    UpdateMap = ops.UpdateMap
    UpdateMemWalState = ops.UpdateMemWalState

    @staticmethod
    def RewrittenIndex(  # noqa: N802  # pylance's name
        old_id: str | UUID,
        new_id: str | UUID,
        new_details_type_url: str = "",
        new_details_value: bytes = b"",
        new_index_version: int | None = None,
        files: tuple[IndexFile, ...] = (),
    ) -> ops.RewrittenIndex:
        """Return a segment that was moved to new fragments, and the one that it replaces."""
        details = IndexDetails(new_details_type_url, new_details_value)
        return ops.RewrittenIndex(
            UUID(str(old_id)),
            UUID(str(new_id)),
            details if new_details_type_url else None,
            new_index_version,
            files,
        )


def DatasetBasePath(  # noqa: N802  # pylance's name
    path: str,
    name: str | None = None,
    is_dataset_root: bool = False,
    id: int | None = None,  # noqa: A002
) -> BasePath:
    """Return another place for a dataset's files; without an id it gets the next that is free."""
    return BasePath(id=id or 0, path=path, name=name, is_dataset_root=is_dataset_root)
