"""`VectorIndexReader`: what an index of vectors has in each of its partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancekit._checked import checked_methods
from lancekit._operations.index.vectors import read_partition, vector_segments
from lancekit.errors import PartitionOutOfRangeError

if TYPE_CHECKING:
    from lancekit._api.lance_dataset import LanceDataset

__all__ = ["VectorIndexReader"]


@checked_methods
class VectorIndexReader:
    """Reads the partitions of an index of vectors.

    Raises
    ------
    IndexNotFoundError
        There is no index of the name.
    InvalidArgumentError
        It is none of vectors.

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
        """Return how many partitions the first segment has; 0 before it has vectors."""
        count: int = self.stats["indices"][0].get("num_partitions", 0)
        return count

    def read_partition(self, partition_id: int, *, with_vector: bool = False) -> pa.Table:
        """Return the rows of a partition.

        Parameters
        ----------
        partition_id
            From 0 on.
        with_vector
            Whether what the index has of their vectors is read: these, or their codes.

        Returns
        -------
        pyarrow.Table
            ``_rowid``: an id where the table has such, else an address.

        Raises
        ------
        PartitionOutOfRangeError
            There is no such partition.
        """
        if not 0 <= partition_id < self.num_partitions():
            raise PartitionOutOfRangeError(
                f"Partition id {partition_id} is out of range, expected 0 <= partition_id < "
                f"{self.num_partitions()}."
            )
        return read_partition(
            self.dataset._snapshot, self.index_name, partition_id, with_vector=with_vector
        )
