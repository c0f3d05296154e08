"""The arguments of calls that create vector indices."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any

from lancekit._arguments.checks import REFUSED, check_count, check_flag, check_mapping
from lancekit._arguments.record import Arguments, hint, refused
from lancekit._choice import check_choice

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lancekit.progress import IndexProgress


class VectorIndexArguments(Arguments):
    """The parameters of a vector index.

    Parameters
    ----------
    column
        The name of the column, or the path of a nested field, of fixed-size lists of floats.
    index_type
        ``"IVF_FLAT"`` (full vectors), ``"IVF_SQ"`` (one byte a dimension) or ``"IVF_PQ"`` (one
        code a subvector).  All form partitions of near vectors.
    name
        The name of the index, by default the column name with ``_idx``.
    metric
        ``"l2"`` (or ``"euclidean"``), ``"cosine"`` or ``"dot"``; for uint8 ``"hamming"``.
    replace
        Whether to replace an index of the same name on the column.
    num_partitions
        The number of partitions.  By default one for about 8,192 rows; in ``"IVF_FLAT"``, 4,096.
    ivf_centroids
        The centroids of the partitions, shape (partitions, dimensions).  By default k-means
        computes them from a sample.
    pq_codebook
        The words of the codebook of ``"IVF_PQ"``, shape (parts, words, numbers of a part), where
        parts are subvectors.  Needs ``ivf_centroids``.
    num_sub_vectors
        The number of subvectors of a vector in ``"IVF_PQ"``.
    target_partition_size
        The approximate number of rows of a partition, instead of ``num_partitions``.
    num_bits
        The number of bits of a code in ``"IVF_PQ"``, 8 or 4.
    train
        ``False`` makes an index that covers no rows yet.
    index_uuid
        The name of the folder of the index files.
    progress_callback
        Called with an `lancekit.progress.IndexProgress` before and after rows are indexed.
    index_cache_size, storage_options, filter_nan, skip_transpose, max_iters, sample_rate, \
index_file_version, shuffle_partition_batches, shuffle_partition_concurrency, \
streaming_sample_rate, streaming_coreset_rate, streaming_refine_passes
        Hints: they are checked, and change no result.
    fragment_ids, accelerator, ivf_centroids_file, precomputed_partition_dataset, rabitq_model
        Not supported.  `LanceDataset.create_index_uncommitted` makes an index of single fragments.
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
    ivf_centroids_file: str | None = refused(default=None, why="pass ivf_centroids")
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
    index_file_version: str | None = hint(
        default=None, check=lambda name, value: check_choice(name, value, ("V3", "Legacy"))
    )
    rabitq_model: object = refused(default=None, why="IVF_RQ indices cannot be created")
