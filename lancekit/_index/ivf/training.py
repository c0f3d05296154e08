"""Training of vector indices: centroids, bounds and codebooks."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial

import numpy as np

from lancekit._format.index import VectorSettings
from lancekit._index.distances import Vectors
from lancekit._index.ivf.codes import (
    SAMPLED_ROWS,
    Codes,
    clustered,
    nearest_of,
    product_codes,
    scaled_codes,
    unit,
    whole_vectors,
)
from lancekit._machine import decoding_threads
from lancekit.progress import stoppable

#: the most rounds of k-means
ROUNDS = 50
#: sampled rows for each word of a codebook (more do not improve it), and the least relative gain of
#: the loss that justifies another round
_WORD_ROWS, _WORD_GAIN = 64, 1e-3


def trained_centroids(
    vectors: Vectors, count: int, metric: str, *, sampled: int = SAMPLED_ROWS, rounds: int = ROUNDS
) -> tuple[Vectors, float]:
    """Return centroids of vectors, at most one for each vector, and their loss.

    vectors: shape (rows, dimensions), in the form that they are compared in.
    sampled: rows of the sample for each centroid.
    """
    count = min(count, len(vectors))
    if not count:
        return vectors[:0], 0.0
    rng = np.random.default_rng(0)
    some = _sample(vectors, count * sampled, rng)
    if metric != "dot":
        return clustered(some, count, rng, rounds=rounds)
    # products only compare directions if all centroids have the same length
    some = unit(some)
    some = some[np.isfinite(some).all(axis=1)]
    if not len(some):
        return vectors[:1], 0.0
    centroids, loss = clustered(some, min(count, len(some)), rng, rounds=rounds)
    return unit(centroids), loss


def trained_codes(
    settings: VectorSettings, vectors: Vectors, centroids: Vectors, words: Vectors | None
) -> Codes | None:
    """Return the stored form for vectors; ``None`` if there are no vectors to train it on.

    vectors: shape (rows, dimensions), in the form that they are compared in.
    centroids: in the stored type.
    words: a codebook that is given.
    """
    if settings.label == "IVF_FLAT":
        return whole_vectors(settings.metric, vectors.shape[1])
    if settings.label == "IVF_PQ" and (words is not None or len(vectors)):
        if words is None:
            words = trained_words(settings, vectors, centroids)
        return product_codes(settings.metric, words.astype(centroids.dtype))
    if not len(vectors):
        return None
    ends = float(vectors.min()), float(vectors.max())
    # if all numbers are equal, any step works
    return scaled_codes(
        settings.metric, vectors.shape[1], ends[0], ends[1] if ends[1] > ends[0] else ends[0] + 1
    )


def trained_words(
    settings: VectorSettings,
    vectors: Vectors,
    centroids: Vectors,
    *,
    sampled: int = _WORD_ROWS,
    rounds: int = ROUNDS,
) -> Vectors:
    """Return a codebook for the parts of vectors, shape (parts, words, numbers).

    It is trained on residuals: vectors minus their centroids. For dot products, it is trained on
    the vectors. Words are repeated if they outnumber the vectors.
    """
    rng = np.random.default_rng(0)
    count = 1 << settings.bits
    some = _sample(vectors, count * sampled, rng)
    if settings.metric != "dot":
        centroids = centroids.astype(some.dtype)
        some = some - centroids[nearest_of(some, centroids, "l2")[0]]
    parts = some.reshape(len(some), settings.parts, -1).swapaxes(0, 1)
    work = partial(_words, count=count, rounds=rounds)
    operation = stoppable()
    with ThreadPoolExecutor(decoding_threads()) as pool:
        running: list[Future[Vectors]] = []
        try:
            for each in zip(parts, rng.spawn(settings.parts), strict=True):
                do = partial(work, *each)
                running.append(pool.submit(copy_context().run, operation.within, do))
            return np.stack([future.result() for future in running])
        finally:
            operation.stop()  # after an interrupt, ends the other tasks
            for future in running:
                future.cancel()


def _words(part: Vectors, rng: np.random.Generator, *, count: int, rounds: int) -> Vectors:
    part = np.ascontiguousarray(part)
    if len(part) <= count:
        return np.resize(part, (count, part.shape[1]))
    return clustered(part, count, rng, rounds=rounds, gain=_WORD_GAIN)[0]


def _sample(vectors: Vectors, most: int, rng: np.random.Generator) -> Vectors:
    if len(vectors) <= most:
        return vectors
    return vectors[np.sort(rng.choice(len(vectors), most, replace=False))]
