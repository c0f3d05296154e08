"""What stands for the vectors of an index: themselves, or codes of a byte for their numbers.

See docs/format/indices.md, 13.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lancekit.errors import CorruptFileError, UnsupportedFeatureError
from lancekit.format.partitions import parse_tensor
from lancekit.index.distances import Distances, distances

__all__ = ["Codes", "codes_of", "unit"]

Vectors = npt.NDArray[Any]

_BITS = 8
_CODES = 1 << _BITS


class Codes(Protocol):
    """What is stored of vectors.

    Attributes
    ----------
    column
        The column that they are in.
    are_exact
        Whether distances are those of the vectors.
    """

    @property
    def column(self) -> str:
        """The column that they are in."""

    @property
    def are_exact(self) -> bool:
        """Whether distances are those of the vectors."""

    def distances(self, stored: Vectors, query: Vectors, centroid: Vectors) -> Distances:
        """Return how far the vectors of a partition are from a query, about."""


@dataclass(frozen=True, slots=True)
class _Whole:
    """The vectors themselves; for cosines they are of length 1."""

    metric: str
    column: str = "flat"
    are_exact: bool = True

    def distances(self, stored: Vectors, query: Vectors, _centroid: Vectors) -> Distances:
        return distances(self.metric, stored, query)


@dataclass(frozen=True, slots=True)
class _Scaled:
    """Each number as one of 256 steps between two bounds; a query is compared step by step."""

    metric: str
    start: float
    end: float
    column: str = "__sq_code"
    are_exact: bool = False

    def distances(self, stored: Vectors, query: Vectors, _centroid: Vectors) -> Distances:
        step = np.float32((self.end - self.start) / (_CODES - 1))
        if self.metric == "dot":
            vectors = stored.astype(np.float32) * step + np.float32(self.start)
            return distances("dot", vectors, query.astype(np.float32, copy=False))
        steps = np.clip(np.floor((query - self.start) / step), 0, _CODES - 1).astype(np.float32)
        scale = step**2 / 2 if self.metric == "cosine" else step**2
        return (distances("l2", stored, steps) * scale).astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class _Products:
    """Of each part of a vector the nearest of 256 words, in the order of parts, then of rows.

    Attributes
    ----------
    words
        Shape (parts, 256, dimensions of a part).
    """

    metric: str
    words: Vectors
    column: str = "__pq_code"
    are_exact: bool = False

    def distances(self, stored: Vectors, query: Vectors, centroid: Vectors) -> Distances:
        parts = len(self.words)
        codes = stored.reshape(parts, -1)  # the rows of a partition lie part by part
        if self.metric == "dot":
            table = np.einsum("pwd,pd->pw", self.words, query.reshape(parts, -1))
            return (1 - _looked_up(table, codes)).astype(np.float32)
        apart = self.words - (query - centroid).reshape(parts, 1, -1)
        found = _looked_up(np.einsum("pwd,pwd->pw", apart, apart), codes)
        # of vectors of length 1 the square of the distance is twice what their cosine lacks
        return (found / 2 if self.metric == "cosine" else found).astype(np.float32)


def _looked_up(table: Vectors, codes: Vectors) -> Vectors:
    out = np.zeros(codes.shape[1], table.dtype)
    for numbers, mine in zip(table, codes, strict=True):
        out += numbers[mine]
    return out


def unit(vectors: Vectors) -> Vectors:
    """Return vectors of length 1; those of zeros become NaN."""
    with np.errstate(all="ignore"):
        lengths = np.sqrt(np.einsum("...d,...d->...", vectors, vectors))
        scaled: Vectors = vectors / lengths[..., np.newaxis]
    return scaled


def codes_of(
    kind: str, metric: str, settings: str, buffer: Callable[[str], bytes], where: str
) -> Codes:
    """Return what is stored of vectors.

    Parameters
    ----------
    kind
        Such as ``IVF_PQ``; graphs over the vectors change nothing of what is stored.
    settings
        A list of one text of JSON, as it stands in the metadata of the file.
    buffer
        Gives a buffer of the file by its number.

    Raises
    ------
    UnsupportedFeatureError
        This release does not read such codes.
    CorruptFileError
        The settings are none.
    """
    try:
        found = json.loads(json.loads(settings)[0] or "{}")
        return _READERS[kind.rpartition("_")[2]](metric, found, buffer, where)
    except KeyError as error:
        if kind.rpartition("_")[2] not in _READERS:
            raise UnsupportedFeatureError(
                f"{where}: an index of type {kind} is not read."
            ) from error
        raise CorruptFileError(f"{where} does not say {error} of its vectors.") from error
    except (ValueError, TypeError, IndexError, RecursionError) as error:
        raise CorruptFileError(f"{where} has settings that are none: {error}.") from error


def _whole(metric: str, _settings: Mapping[str, Any], _buffer: object, _where: str) -> Codes:
    return _Whole(metric)


def _scaled(metric: str, settings: Mapping[str, Any], _buffer: object, where: str) -> Codes:
    _check_bits(settings["num_bits"], where)
    return _Scaled(metric, float(settings["bounds"]["start"]), float(settings["bounds"]["end"]))


def _products(
    metric: str, settings: Mapping[str, Any], buffer: Callable[[str], bytes], where: str
) -> Codes:
    _check_bits(settings["nbits"], where)
    if not settings.get("transposed", False):
        raise UnsupportedFeatureError(f"{where}: its codes are in an order of old releases.")
    parts = int(settings["num_sub_vectors"])
    words = parse_tensor(buffer(str(settings["codebook_position"])), where)
    return _Products(metric, words.astype(np.float32).reshape(parts, _CODES, -1))


def _check_bits(bits: Any, where: str) -> None:
    if bits != _BITS:
        raise UnsupportedFeatureError(f"{where}: codes of {bits} bits are not read.")


_READERS: Mapping[str, Callable[..., Codes]] = {
    "FLAT": _whole,
    "SQ": _scaled,
    "PQ": _products,
}
