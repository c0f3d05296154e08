"""The part of a handle that makes indices of vectors, and tells of their middles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._arguments.index import VectorIndexArguments
from lancekit._arguments.record import takes
from lancekit._checked import checked_methods
from lancekit.errors import InvalidArgumentError

if TYPE_CHECKING:
    from lancekit._api.index_models import IvfModel


@checked_methods
class VectorIndices(Handle):
    """Indices of vectors: made, and told of."""

    @takes(VectorIndexArguments)
    def create_index(self, arguments: VectorIndexArguments) -> Self:
        """Make an index of a column of vectors, which searches use; the handle moves.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        InvalidTypeError
            It holds no vectors of numbers.
        InvalidArgumentError
            What is given does not fit the vectors.
        NotOfferedError
            A kind of index that lancekit does not make.
        IndexExistsError
            The name is taken.

        Examples
        --------
        >>> import lancekit as lk, numpy as np, pyarrow as pa
        >>> values = pa.array(np.arange(64, dtype="float32"))
        >>> rows = {"v": pa.FixedSizeListArray.from_arrays(values, 4)}
        >>> ds = lk.write_dataset(rows, "memory://vector-index-example")
        >>> ds = ds.create_index("v", "IVF_FLAT", metric="cosine", num_partitions=2)
        >>> ds.to_table(nearest={"column": "v", "q": [1, 1, 1, 1], "k": 1})["v"].to_pylist()
        [[60.0, 61.0, 62.0, 63.0]]
        """
        from lancekit._api.index_requests import vector_request
        from lancekit._operations.common.retry import RetryPolicy
        from lancekit._operations.index.create import create_index

        request = vector_request(arguments)
        self._move(lambda snapshot: (create_index(snapshot, request, RetryPolicy()), None))
        return self

    def get_ivf_model(self, index_name: str) -> IvfModel:
        """Return the middles of the partitions of an index of vectors.

        Raises
        ------
        IndexNotFoundError
            There is no index of the name.
        InvalidArgumentError
            It is none of vectors, or has no vectors yet.
        """
        from lancekit._api.index_models import IvfModel
        from lancekit._operations.index.vectors import vector_segments

        found = vector_segments(self._snapshot, index_name)
        if not found:
            raise InvalidArgumentError(f"Index {index_name!r} has no vectors yet.")
        values = pa.array(found[0].centroids.ravel())
        size = found[0].centroids.shape[1]
        return IvfModel(pa.FixedSizeListArray.from_arrays(values, size), found[0].metric)

    def centroids(
        self, *, index_name: str | None = None, column: str | None = None
    ) -> pa.FixedSizeListArray:
        """Return the middles of the partitions of an index, or of the first one of a column.

        Raises
        ------
        IndexNotFoundError
            There is no such index.

        Examples
        --------
        >>> import lancekit as lk, pyarrow as pa
        >>> rows = {"v": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2))}
        >>> ds = lk.write_dataset(rows, "memory://centroids-example")
        >>> ds.create_index("v", "IVF_FLAT", num_partitions=1).centroids(column="v").to_pylist()
        [[2.0, 3.0]]
        """
        from lancekit._operations.index.vectors import name_of_vectors

        if index_name is None:
            if column is None:
                raise InvalidArgumentError("Pass index_name or column.")
            index_name = name_of_vectors(self._snapshot, column)
        return self.get_ivf_model(index_name).centroids
