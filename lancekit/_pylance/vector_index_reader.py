"""`VectorIndexReader`: the partitions of a vector index, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancekit._checked import checked_methods
from lancekit._operations.index.vectors import read_partition, vector_segments
from lancekit.errors import PartitionOutOfRangeError

if TYPE_CHECKING:
    from lancekit._api.lance_dataset import LanceDataset


@checked_methods
class VectorIndexReader:
    """Reads the partitions of a vector index.

    Raises
    ------
    IndexNotFoundError
        There is no index of this name.
    InvalidArgumentError
        The index is not a vector index.

    Examples
    --------
    >>> import lancekit as lk, numpy as np, pyarrow as pa
    >>> from lancekit.dataset import VectorIndexReader
    >>> values = pa.array(np.arange(64, dtype="float32"))
    >>> rows = {"v": pa.FixedSizeListArray.from_arrays(values, 4)}
    >>> ds = lk.write_dataset(rows, "memory://index-reader-example")
    >>> ds = ds.create_index("v", "IVF_SQ", num_partitions=2)
    >>> reader = VectorIndexReader(ds, "v_idx")
    >>> sum(reader.read_partition(one).num_rows for one in range(reader.num_partitions()))
    16
    """

    def __init__(self, dataset: LanceDataset, index_name: str) -> None:
        self.dataset = dataset
        self.index_name = index_name
        self.stats: dict[str, Any] = dataset.stats.index_stats(index_name)
        vector_segments(dataset._snapshot, index_name)

    def num_partitions(self) -> int:
        """Return the number of partitions of the first segment; 0 before it has vectors."""
        count: int = self.stats["indices"][0].get("num_partitions", 0)
        return count

    def read_partition(self, partition_id: int, *, with_vector: bool = False) -> pa.Table:
        """Return the rows of one partition of the vector index.

        Parameters
        ----------
        partition_id
            The number of the partition, from 0 on.
        with_vector
            Whether to read the stored vectors, or their codes, too.

        Returns
        -------
        pyarrow.Table
            ``_rowid``: the stable row id if the table has them, otherwise the row address.

        Raises
        ------
        PartitionOutOfRangeError
            The partition does not exist.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> from lancekit.dataset import VectorIndexReader
        >>> rows = {"v": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2))}
        >>> ds = lk.write_dataset(rows, "memory://partition-example")
        >>> ds = ds.create_index("v", "IVF_FLAT", num_partitions=1)
        >>> VectorIndexReader(ds, "v_idx").read_partition(0)["_rowid"].to_pylist()
        [0, 1]
        """
        if not 0 <= partition_id < self.num_partitions():
            raise PartitionOutOfRangeError(
                f"Partition id {partition_id} is out of range, expected 0 <= partition_id < "
                f"{self.num_partitions()}."
            )
        return read_partition(
            self.dataset._snapshot, self.index_name, partition_id, with_vector=with_vector
        )
