"""The part of a handle that makes indices of vectors, and tells of their middles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from lancekit._api._handle import Handle
from lancekit._checked import checked_methods
from lancekit.errors import InvalidArgumentError

if TYPE_CHECKING:
    from lancekit._api.index_models import IvfModel
    from lancekit.progress import IndexProgress


@checked_methods
class VectorIndices(Handle):
    """Indices of vectors: made, and told of."""

    def create_index(
        self,
        column: str | Sequence[str],
        index_type: str,
        name: str | None = None,
        metric: str = "L2",
        replace: bool = False,
        num_partitions: int | None = None,
        ivf_centroids: object = None,
        pq_codebook: object = None,
        num_sub_vectors: int | None = None,
        accelerator: object = None,
        index_cache_size: int | None = None,
        shuffle_partition_batches: int | None = None,
        shuffle_partition_concurrency: int | None = None,
        ivf_centroids_file: str | None = None,
        precomputed_partition_dataset: str | None = None,
        storage_options: dict[str, str] | None = None,
        filter_nan: bool = True,
        train: bool = True,
        fragment_ids: list[int] | None = None,
        index_uuid: str | None = None,
        *,
        target_partition_size: int | None = None,
        streaming_sample_rate: int | None = None,
        streaming_coreset_rate: int | None = None,
        streaming_refine_passes: int | None = None,
        skip_transpose: bool = False,
        progress_callback: Callable[[IndexProgress], Any] | None = None,
        **kwargs: object,
    ) -> Self:
        """Make an index of a column of vectors, which searches use; the handle moves.

        Parameters
        ----------
        column
            A name, or the path of a field of structs: fixed-size lists of floats.
        index_type
            Vectors in partitions of those near to each other: ``"IVF_FLAT"`` as they are,
            ``"IVF_SQ"`` with a byte for each number, ``"IVF_PQ"`` with a code for each part.
        name
            Of the index, by default the column's with ``_idx``.
        metric
            ``"l2"`` (or ``"euclidean"``), ``"cosine"`` or ``"dot"``; of uint8 ``"hamming"``.
        replace
            Whether it may take the place of an index of the same name on the column.
        num_partitions
            By default one for some 4,096 rows, of codes 8,192.
        ivf_centroids
            The middles of the partitions, shape (partitions, dimensions), instead of those that
            k-means finds in a sample.
        pq_codebook
            Of ``"IVF_PQ"``, the words for each part, shape (parts, words, numbers of a part); it
            needs ``ivf_centroids``.
        num_sub_vectors
            Of ``"IVF_PQ"``, into how many parts a vector is cut.
        target_partition_size
            Rows of a partition, about, instead of ``num_partitions``.
        train
            ``False`` makes an index that covers no rows yet.
        index_uuid
            The folder of its files.
        index_cache_size, storage_options, filter_nan, skip_transpose
            They change nothing.
        shuffle_partition_batches, shuffle_partition_concurrency
            They change nothing.
        streaming_sample_rate, streaming_coreset_rate, streaming_refine_passes
            They change nothing.
        progress_callback
            Is told with an `lancekit.progress.IndexProgress` when rows begin to be indexed, and
            when they are.
        kwargs
            ``num_bits`` of the codes of ``"IVF_PQ"``, 8 or 4; ``max_iters`` and ``sample_rate``
            change nothing.

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

        request = vector_request(
            column,
            index_type,
            name,
            replace=replace,
            train=train,
            fragment_ids=fragment_ids,
            index_uuid=index_uuid,
            progress_callback=progress_callback,
            metric=metric,
            num_partitions=num_partitions,
            ivf_centroids=ivf_centroids,
            pq_codebook=pq_codebook,
            num_sub_vectors=num_sub_vectors,
            target_partition_size=target_partition_size,
            accelerator=accelerator,
            index_cache_size=index_cache_size,
            shuffle_partition_batches=shuffle_partition_batches,
            shuffle_partition_concurrency=shuffle_partition_concurrency,
            ivf_centroids_file=ivf_centroids_file,
            precomputed_partition_dataset=precomputed_partition_dataset,
            storage_options=storage_options,
            filter_nan=filter_nan,
            streaming_sample_rate=streaming_sample_rate,
            streaming_coreset_rate=streaming_coreset_rate,
            streaming_refine_passes=streaming_refine_passes,
            skip_transpose=skip_transpose,
            **kwargs,
        )
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
