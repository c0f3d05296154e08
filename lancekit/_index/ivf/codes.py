"""The stored forms of vectors in an index, whole or as codes; and centroids, by k-means.

See docs/format/indices.md, 13.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from lancekit._format.partitions import encode_tensor, parse_tensor
from lancekit._index.distances import Distances, Vectors, distances, estimated, products, squares
from lancekit.errors import CorruptFileError, UnsupportedFeatureError
from lancekit.progress import step

#: bits that a code of a product quantizer may have
PRODUCT_BITS = (8, 4)
_IN_HALF_A_BYTE = 1 << 4
#: steps of a scalar quantizer
_CODES = 256
#: metrics that are computed from the lengths of vectors
_BY_LENGTHS = ("l2", "cosine")


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """The stored data of a partition, prepared for queries.

    stored: the vectors or codes; in a cached partition a copy, already cast to `compared_as`.
    lengths: the squares of the vectors' lengths, if the metric needs them.
    compared_as: the type to cast numbers to for each query; ``None`` if no cast is needed.
    """

    stored: Vectors
    lengths: Vectors | None = None
    compared_as: npt.DTypeLike | None = None

    def owned(self) -> Ready:
        """Return a copy for the cache."""
        kept = self.stored.astype(self.compared_as or self.stored.dtype, order="C")
        return Ready(kept, self.lengths)


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """The distances of a partition's rows from a query.

    error: the largest error of the distances. With codes, it is 0: nothing more exact is stored.
    exactly: returns the exact distances of some rows; ``None`` if `error` is 0.
    """

    distances: Distances
    error: float = 0.0
    exactly: Callable[[npt.NDArray[np.intp]], Distances] | None = None


class Codes(Protocol):
    """The stored form of vectors: whole, or codes."""

    @property
    def metric(self) -> str:
        """The metric that distances are computed by."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings in their file."""

    @property
    def column(self) -> str:
        """The name of their column."""

    @property
    def are_exact(self) -> bool:
        """True if distances are computed from whole vectors."""

    @property
    def by_parts(self) -> bool:
        """True if a partition has the first number of all rows, then the second, and so on."""

    @property
    def codebook(self) -> bytes:
        """The buffer of the file with their codebook; empty without one."""

    def ready(self, stored: Vectors) -> Ready:
        """Return the stored data of a partition, prepared for queries."""

    def compared(self, ready: Ready, query: Vectors, centroid: Vectors) -> Compared:
        """Return approximate distances of a partition's vectors from a query."""

    def encoded(self, vectors: Vectors, centroids: Vectors) -> Vectors:
        """Return the stored form of vectors, shape (rows, numbers), given each one's centroid."""


@dataclass(frozen=True, slots=True)
class _Whole:
    """The vectors themselves; for the metric cosine, they have length 1."""

    metric: str
    settings: Mapping[str, object]
    column: str = "flat"
    are_exact: bool = True
    by_parts: bool = False
    codebook: bytes = b""

    def ready(self, stored: Vectors) -> Ready:
        lengths = squares(stored) if self.metric in _BY_LENGTHS else None
        return Ready(stored, lengths, np.float32 if stored.dtype == np.float16 else None)

    def compared(self, ready: Ready, query: Vectors, _centroid: Vectors) -> Compared:
        if ready.lengths is not None:
            far, error = estimated(self.metric, ready.stored, ready.lengths, query)
            if error < np.inf:  # and not NaN
                rows = ready.stored
                return Compared(far, error, lambda some: distances(self.metric, rows[some], query))
        return Compared(distances(self.metric, ready.stored, query))

    def encoded(self, vectors: Vectors, centroids: Vectors) -> Vectors:
        return vectors.astype(centroids.dtype, copy=False)


@dataclass(frozen=True, slots=True)
class _Scaled:
    """Scalar quantization: numbers of vectors and queries become one of 256 steps in a range."""

    metric: str
    settings: Mapping[str, object]
    start: float
    end: float
    column: str = "__sq_code"
    are_exact: bool = False
    by_parts: bool = False
    codebook: bytes = b""

    def ready(self, stored: Vectors) -> Ready:
        return Ready(stored, None if self.metric == "dot" else squares(stored), np.float32)

    def compared(self, ready: Ready, query: Vectors, _centroid: Vectors) -> Compared:
        step = np.float32((self.end - self.start) / (_CODES - 1))
        if ready.lengths is None:
            single = query.astype(np.float32, copy=False)
            far = 1 - products(ready.stored, single) * step - single.sum() * np.float32(self.start)
            return Compared(far)
        steps = np.clip(np.floor((query - self.start) / step), 0, _CODES - 1).astype(np.float32)
        scale = step**2 / 2 if self.metric == "cosine" else step**2
        return Compared(estimated("l2", ready.stored, ready.lengths, steps)[0] * scale)

    def encoded(self, vectors: Vectors, _centroids: Vectors) -> Vectors:
        steps = np.floor((vectors - self.start) / (self.end - self.start) * (_CODES - 1))
        codes: npt.NDArray[np.uint8] = np.clip(steps, 0, _CODES - 1).astype(np.uint8)
        return codes


@dataclass(frozen=True, slots=True, eq=False)
class _Products:
    """Product quantization: each part of a vector is the nearest of 256 or 16 words.

    A partition has the first part of all rows, then the second, and so on.

    words: shape (parts, words, dimensions of a part). Codes of 16 words are packed two in a byte,
        the first in the lower bits.
    lengths: the squares of the words' lengths.
    """

    metric: str
    settings: Mapping[str, object]
    words: Vectors
    lengths: Vectors
    codebook: bytes
    column: str = "__pq_code"
    are_exact: bool = False
    by_parts: bool = True

    def ready(self, stored: Vectors) -> Ready:
        # a partition has its rows part by part
        codes: npt.NDArray[Any] = stored.reshape(-1, len(stored))
        if self.words.shape[1] == _IN_HALF_A_BYTE:
            codes = np.stack([codes & 15, codes >> 4], axis=1).reshape(len(self.words), -1)
        return Ready(codes)

    def compared(self, ready: Ready, query: Vectors, centroid: Vectors) -> Compared:
        parts = len(self.words)
        if self.metric == "dot":
            table = np.einsum("pwd,pd->pw", self.words, query.reshape(parts, -1))
            return Compared((1 - _lookup(table, ready.stored)).astype(np.float32))
        apart = (query - centroid).astype(np.float32).reshape(parts, -1)
        table = self.lengths - 2 * np.einsum("pwd,pd->pw", self.words, apart)
        found = _lookup(table + np.einsum("pd,pd->p", apart, apart)[:, np.newaxis], ready.stored)
        # for vectors of length 1, the squared distance is twice 1 minus the cosine
        return Compared((found / 2 if self.metric == "cosine" else found).astype(np.float32))

    def encoded(self, vectors: Vectors, centroids: Vectors) -> Vectors:
        coded = vectors if self.metric == "dot" else vectors - centroids
        shape = len(coded), len(self.words), self.words.shape[2]
        parts = coded.reshape(shape).astype(self.words.dtype, copy=False)
        codes = np.empty((len(coded), len(self.words)), np.uint8)
        for part, words in enumerate(self.words):
            codes[:, part] = nearest_of(parts[:, part], words, "l2")[0]
        if self.words.shape[1] == _IN_HALF_A_BYTE:
            return cast("Vectors", codes[:, ::2] | codes[:, 1::2] << 4)
        return codes


def _lookup(table: Vectors, codes: npt.NDArray[Any]) -> Vectors:
    out = np.zeros(codes.shape[1], table.dtype)
    for numbers, mine in zip(table, codes, strict=True):
        out += numbers.take(mine)
    return out


def unit(vectors: Vectors) -> Vectors:
    """Return vectors scaled to length 1; zero vectors become NaN."""
    with np.errstate(all="ignore"):
        lengths = np.sqrt(np.einsum("...d,...d->...", vectors, vectors))
        scaled: Vectors = vectors / lengths[..., np.newaxis]
    return scaled


def codes_of(
    kind: str, metric: str, settings: str, buffer: Callable[[str], bytes], where: str
) -> Codes:
    """Return the stored form of the vectors in an index file.

    kind: such as ``IVF_PQ``; graphs over the vectors do not change the stored form.
    settings: the settings in the file's metadata: a JSON list of one JSON text.
    buffer: returns a buffer of the file by its number.

    Raises UnsupportedFeatureError: this release does not read such codes.
    Raises CorruptFileError: the settings are invalid.
    """
    try:
        found = json.loads(json.loads(settings)[0] or "{}")
        return _READERS[kind.rpartition("_")[2]](metric, found, buffer, where)
    except KeyError as error:
        if kind.rpartition("_")[2] not in _READERS:
            raise UnsupportedFeatureError(
                f"{where} has type {kind}, which is not supported."
            ) from error
        raise CorruptFileError(f"{where} is damaged: {error} of its vectors is missing.") from error
    except (ValueError, TypeError, IndexError, RecursionError) as error:
        raise CorruptFileError(f"{where} has invalid settings: {error}.") from error


def whole_vectors(metric: str, size: int) -> Codes:
    """Return the stored form of vectors that are stored whole."""
    return _Whole(metric, {"dim": size})


def scaled_codes(metric: str, size: int, start: float, end: float) -> Codes:
    """Return scalar quantization between two bounds."""
    settings = {"dim": size, "num_bits": 8, "bounds": {"start": start, "end": end}}
    return _Scaled(metric, settings, start, end)


def product_codes(metric: str, words: Vectors) -> Codes:
    """Return product quantization by a codebook, shape (parts, words, numbers)."""
    parts, count, numbers = words.shape
    settings = {
        "codebook_position": 0,
        "nbits": count.bit_length() - 1,
        "num_sub_vectors": parts,
        "dimension": parts * numbers,
        "codebook_tensor": [],
        "transposed": True,
    }
    stored = encode_tensor(words.reshape(count, -1))
    return _products_of(metric, settings, words.astype(np.float32), stored)


def _scaled(metric: str, settings: Mapping[str, Any], _buffer: object, where: str) -> Codes:
    _check_bits(settings["num_bits"], (8,), where)
    bounds = settings["bounds"]
    return _Scaled(metric, settings, float(bounds["start"]), float(bounds["end"]))


def _products(
    metric: str, settings: Mapping[str, Any], buffer: Callable[[str], bytes], where: str
) -> Codes:
    _check_bits(settings["nbits"], PRODUCT_BITS, where)
    if not settings.get("transposed", False):
        raise UnsupportedFeatureError(f"{where} has codes in an unsupported old order.")
    parts = int(settings["num_sub_vectors"])
    codebook = buffer(str(settings["codebook_position"]))
    words = (
        parse_tensor(codebook, where).astype(np.float32).reshape(parts, 1 << settings["nbits"], -1)
    )
    return _products_of(metric, settings, words, codebook)


def _products_of(
    metric: str, settings: Mapping[str, object], words: Vectors, codebook: bytes
) -> _Products:
    lengths = np.einsum("pwd,pwd->pw", words, words)
    return _Products(metric, settings, words, lengths, codebook)


def _check_bits(bits: object, known: tuple[int, ...], where: str) -> None:
    if bits not in known:
        raise UnsupportedFeatureError(f"{where} has codes of {bits} bits, which are not supported.")


_READERS: Mapping[str, Callable[..., Codes]] = {
    "FLAT": lambda metric, settings, *_: _Whole(metric, settings),
    "SQ": _scaled,
    "PQ": _products,
}

# ---- centroids of vectors, by k-means, and the nearest centroid of each vector


#: rows of a sample for each partition to train
SAMPLED_ROWS = 256
#: the most rounds, and the least relative gain of the loss that justifies another round
_ROUNDS, _GAIN = 50, 1e-4
#: distances between rows and centroids that are in memory at a time
_BUFFERED = 1 << 18


def clustered(
    vectors: Vectors,
    count: int,
    rng: np.random.Generator,
    *,
    rounds: int = _ROUNDS,
    gain: float = _GAIN,
) -> tuple[Vectors, float]:
    """Return centroids of vectors, and the loss: the sum of the squares of distances to them.

    For bytes, which are compared bit by bit, the loss is about the sum of different bits.

    vectors: shape (rows, dimensions), of float32, float64 or uint8; at least as many rows as
        centroids.

    Examples
    --------
    >>> rows = np.array([[0, 0], [0, 1], [9, 9], [9, 8]], np.float32)
    >>> centroids, loss = clustered(rows, 2, np.random.default_rng(0))
    >>> sorted(centroids.tolist()), loss
    ([[0.0, 0.5], [9.0, 8.5]], 1.0)
    """
    if vectors.dtype == np.uint8:
        bits, loss = clustered(_bits_of(vectors), count, rng, rounds=rounds, gain=gain)
        return np.packbits(bits >= 0.5, axis=1), loss  # the bit of the majority of rows
    centroids = vectors[rng.choice(len(vectors), count, replace=False)]
    before = np.inf
    for _ in range(rounds):
        owners, far = nearest_of(vectors, centroids, "l2")
        loss = float(far.sum(dtype=np.float64))
        if before - loss <= gain * loss:
            break
        before = loss
        centroids = _means(vectors, owners, far, count)
    return centroids, loss


def _means(vectors: Vectors, owners: npt.NDArray[np.int64], far: Vectors, count: int) -> Vectors:
    """Return the mean of the rows of each centroid; a centroid without rows moves to a far row."""
    order = np.argsort(owners, kind="stable")
    sizes = np.bincount(owners, minlength=count)
    filled = np.flatnonzero(sizes)
    starts = (np.cumsum(sizes) - sizes)[filled]
    means = np.empty((count, vectors.shape[1]), vectors.dtype)
    means[filled] = np.add.reduceat(vectors[order], starts, axis=0) / sizes[filled, np.newaxis]
    empty = np.flatnonzero(sizes == 0)
    means[empty] = vectors[np.argsort(far, kind="stable")[::-1][: len(empty)]]
    return means


def nearest_of(
    vectors: Vectors, centroids: Vectors, metric: str
) -> tuple[npt.NDArray[np.int64], Vectors]:
    """Return the index of the nearest centroid of each vector, and its distance.

    metric: ``"l2"``, ``"dot"``, or ``"hamming"`` for bytes.
    """
    if metric == "hamming":
        centroids = _bits_of(centroids)
    wide = np.promote_types(centroids.dtype, np.float32)
    owners = np.empty(len(vectors), np.int64)
    far = np.empty(len(vectors), wide)
    count, size = centroids.shape
    # a column of ones in the vectors adds a constant to each product
    table = np.empty((size + 1, count), wide)
    table[:size] = centroids.T if metric == "dot" else 2 * centroids.T
    table[size] = -1 if metric == "dot" else -np.einsum("pd,pd->p", centroids, centroids)
    batch_rows = max(_BUFFERED // max(count, 1), 1)
    buffer = np.ones((min(batch_rows, len(vectors)), size + 1), wide)
    near = np.empty((len(buffer), count), wide)
    for start in range(0, len(vectors), batch_rows):
        step()
        part = vectors[start : start + batch_rows]
        rows = buffer[: len(part)]
        rows[:, :size] = _bits_of(part) if metric == "hamming" else part
        found = np.matmul(rows, table, out=near[: len(part)])
        mine = found.argmax(axis=1)
        owners[start : start + batch_rows] = mine
        nearest = -np.take_along_axis(found, mine[:, np.newaxis], axis=1)[:, 0]
        if metric != "dot":
            nearest += np.einsum("rd,rd->r", rows[:, :size], rows[:, :size])
            np.maximum(nearest, 0, out=nearest)
        far[start : start + batch_rows] = nearest
    return owners, far


def _bits_of(vectors: npt.NDArray[Any]) -> Vectors:
    """Return the bits of bytes as numbers; their squared distance counts different bits."""
    return np.unpackbits(vectors, axis=1).astype(np.float32)
