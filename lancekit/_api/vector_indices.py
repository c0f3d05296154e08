"""What is asked of an index of vectors, checked.  Names follow ``lance.LanceDataset``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancekit._api.vectors import centroids_of, codebook_of
from lancekit._arguments.checks import check_count
from lancekit._arguments.index import VectorIndexArguments
from lancekit._format.index import VectorSettings
from lancekit._index.build.vectors import PARTITION_ROWS
from lancekit._index.distances import ALIASES
from lancekit._index.ivf.codes import PRODUCT_BITS
from lancekit._legible import shown
from lancekit.errors import InvalidArgumentError, NotOfferedError

_METRICS = ("l2", "cosine", "dot", "hamming")


def vector_parameters(arguments: VectorIndexArguments) -> dict[str, object]:
    """Return what an index of vectors is to be made with, by the names of its builder.

    Raises
    ------
    NotOfferedError
        A type of index that is not made.
    InvalidTypeError, InvalidArgumentError
        An argument is none, or does not go with another.
    """
    index_type, num_bits = arguments.index_type, arguments.num_bits
    num_partitions, num_sub_vectors = arguments.num_partitions, arguments.num_sub_vectors
    label = index_type.upper()
    if label not in PARTITION_ROWS:
        raise NotOfferedError(
            f"Indices of type {shown(index_type)} are not made.",
            hint=f"Make one of vectors: {', '.join(PARTITION_ROWS)}; of other columns "
            "create_scalar_index.",
            argument="index_type",
        )
    by = metric_named(arguments.metric)
    for argument in ("num_partitions", "target_partition_size", "num_sub_vectors"):
        count = getattr(arguments, argument)
        if count is not None:
            check_count(argument, count, least=1)
    if label != "IVF_PQ":
        num_sub_vectors, num_bits = None, 8
    elif num_sub_vectors is None:
        raise InvalidArgumentError(
            "num_partitions and num_sub_vectors are required for IVF_PQ; num_sub_vectors is None.",
            hint="Pass into how many parts a vector is cut: a sixteenth of its dimensions, say.",
            argument="num_sub_vectors",
        )
    elif num_bits not in PRODUCT_BITS or (num_bits == 4 and num_sub_vectors % 2):
        raise InvalidArgumentError(
            f"num_bits is {shown(num_bits)}, of {num_sub_vectors} parts.",
            hint="Codes take 8 bits, or 4 if the number of parts is even.",
            argument="num_bits",
        )
    settings = VectorSettings(
        label=label,
        metric=by,
        partition_rows=arguments.target_partition_size,
        parts=num_sub_vectors or 0,
        bits=num_bits,
    )
    given: dict[str, object] = {"settings": settings, "partitions": num_partitions}
    if arguments.ivf_centroids is not None:
        given["centroids"] = _centroids(arguments.ivf_centroids, num_partitions)
    if arguments.pq_codebook is not None and label == "IVF_PQ":
        if arguments.ivf_centroids is None:
            raise InvalidArgumentError(
                "ivf_centroids must be specified when pq_codebook is provided.",
                hint="A codebook is of what is left of vectors without the centroids.",
                argument="ivf_centroids",
            )
        given["words"] = codebook_of(arguments.pq_codebook, settings.parts, 1 << num_bits)
    return given


def metric_named(metric: object) -> str:
    """Return what vectors are compared by, in our word for it."""
    by = metric.lower() if isinstance(metric, str) else None
    by = ALIASES.get(by, by) if by else None
    if by not in _METRICS:
        raise InvalidArgumentError(
            f"Metric {shown(metric)} not supported.",
            hint=f"metric is one of {', '.join(_METRICS)}.",
            argument="metric",
        )
    return by


def _centroids(given: object, partitions: int | None) -> NDArray[np.floating | np.uint8]:
    found = centroids_of(given)
    if partitions not in (None, len(found)):
        raise InvalidArgumentError(
            f"Ivf centroids has {len(found)} clusters, but num_partitions={partitions}.",
            hint="Leave num_partitions out.",
            argument="num_partitions",
        )
    return found
