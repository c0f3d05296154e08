"""`LanceOperation`: the operations of commits, under pylance's names.

Each operation is a frozen dataclass that describes one change completely.  `LanceDataset.commit`
commits it, and `LanceDataset.read_transaction` returns it.
"""

from __future__ import annotations

from typing import TypeAlias

from lancekit._api.not_offered import NamesOfPylance
from lancekit._format import operation_parts as parts
from lancekit._format import operations as ops
from lancekit._format.index import IndexFile, IndexMetadata
from lancekit._format.manifest import BasePath

__all__ = ["DatasetBasePath", "Index", "IndexFile", "LanceOperation"]

#: the entry of an index segment in a manifest
Index = IndexMetadata

#: a base path: a further folder with files of a dataset
DatasetBasePath = BasePath


class LanceOperation(metaclass=NamesOfPylance):
    """The namespace of all operations and their parts.

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
    DataReplacementGroup = parts.DataReplacementGroup
    Delete = ops.Delete
    Merge = ops.Merge
    CompactedSsTable = parts.CompactedSsTable
    Overwrite = ops.Overwrite
    Project = ops.Project
    ReserveFragments = ops.ReserveFragments
    Restore = ops.Restore
    Rewrite = ops.Rewrite
    RewriteGroup = parts.RewriteGroup
    RewrittenIndex = parts.RewrittenIndex
    Update = ops.Update
    UpdateBases = ops.UpdateBases
    UpdateConfig = ops.UpdateConfig
    UpdateMap = parts.UpdateMap
    UpdateMemWalState = ops.UpdateMemWalState
