"""What an index of vectors is made with."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any

from lancekit._arguments.checks import REFUSED, check_count, check_flag, check_mapping
from lancekit._arguments.record import Arguments, hint, refused
from lancekit._choice import check_choice

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lancekit.progress import IndexProgress


def _check_file_version(name: str, value: object) -> None:
    check_choice(name, value, ("V3", "Legacy"))


class VectorIndexArguments(Arguments):
    """How an index of a column of vectors is made.

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
    num_bits
        Of the codes of ``"IVF_PQ"``, 8 or 4.
    train
        ``False`` makes an index that covers no rows yet.
    index_uuid
        The folder of its files.
    progress_callback
        Is told with an `lancekit.progress.IndexProgress` when rows begin to be indexed, and
        when they are.
    index_cache_size, storage_options, filter_nan, skip_transpose, max_iters, sample_rate, \
index_file_version
        They change nothing.
    shuffle_partition_batches, shuffle_partition_concurrency
        They change nothing.
    streaming_sample_rate, streaming_coreset_rate, streaming_refine_passes
        They change nothing.
    fragment_ids, accelerator, ivf_centroids_file, precomputed_partition_dataset, rabitq_model
        They are not offered; `LanceDataset.create_index_uncommitted` makes an index of fragments.
    """

    column: str | Sequence[str]
    index_type: str
    name: str | None = None
    metric: str = "L2"
    replace: bool = False
    num_partitions: int | None = None
    ivf_centroids: object = None
    pq_codebook: object = None
    num_sub_vectors: int | None = None
    accelerator: object = refused(default=None, why=REFUSED["accelerator"])
    index_cache_size: int | None = hint(default=None, check=check_count)
    shuffle_partition_batches: int | None = hint(default=None, check=check_count)
    shuffle_partition_concurrency: int | None = hint(default=None, check=check_count)
    ivf_centroids_file: str | None = refused(default=None, why="pass the centroids, ivf_centroids")
    precomputed_partition_dataset: str | None = refused(
        default=None, why=REFUSED["precomputed_partition_dataset"]
    )
    storage_options: dict[str, str] | None = hint(default=None, check=check_mapping)
    filter_nan: bool = hint(default=True, check=check_flag)
    train: bool = True
    fragment_ids: list[int] | None = None
    index_uuid: str | None = None
    _: KW_ONLY
    target_partition_size: int | None = None
    streaming_sample_rate: int | None = hint(default=None, check=check_count)
    streaming_coreset_rate: int | None = hint(default=None, check=check_count)
    streaming_refine_passes: int | None = hint(default=None, check=check_count)
    skip_transpose: bool = hint(default=False, check=check_flag)
    progress_callback: Callable[[IndexProgress], Any] | None = None
    num_bits: int = 8
    max_iters: int | None = hint(default=None, check=check_count)
    sample_rate: int | None = hint(default=None, check=check_count)
    index_file_version: str | None = hint(default=None, check=_check_file_version)
    rabitq_model: object = refused(default=None, why="IVF_RQ indices are not made")
