"""Partitions of a vector index: centroids, and the rows nearest to each.

See docs/format/indices.md, 13.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from lancekit._format.pb import vectors_pb2 as pb
from lancekit._format.unknown_fields import parse
from lancekit.errors import CorruptFileError, UnsupportedFeatureError

Numbers = npt.NDArray[np.int64]

_TYPES: dict[pb.Tensor.DataType, np.dtype[np.floating | np.uint8]] = {
    pb.Tensor.FLOAT16: np.dtype("<f2"),
    pb.Tensor.FLOAT32: np.dtype("<f4"),
    pb.Tensor.FLOAT64: np.dtype("<f8"),
    pb.Tensor.UINT8: np.dtype("u1"),
}
_NUMBERS = {kind: number for number, kind in _TYPES.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Partitions:
    """Partitions of a vector index.

    centroids: shape (partitions, dimensions); ``None`` in the file with the vectors.
    offsets, lengths: rows of each partition in that file.
    loss: final loss of the clustering: the sum of the distances.
    """

    centroids: npt.NDArray[np.floating | np.uint8] | None
    offsets: Numbers
    lengths: Numbers
    loss: float | None = None


def parse_partitions(data: bytes, where: str) -> Partitions:
    """Decode partitions.

    Raises CorruptFileError: the bytes are damaged.
    Raises UnsupportedFeatureError: the centroids have an unknown number type.
    """
    message = parse(pb.Partitions, data, where)
    centroids = parse_tensor(message.centroids, where) if message.HasField("centroids") else None
    offsets, lengths = (
        np.array(numbers, np.uint64) for numbers in (message.offsets, message.lengths)
    )
    if len(offsets) != len(lengths) or (offsets > np.uint64(1 << 62)).any():
        raise CorruptFileError(
            f"{where} has {len(offsets)} partitions, but {len(lengths)} lengths."
        )
    if centroids is not None and (centroids.ndim != 2 or len(centroids) != len(offsets)):
        raise CorruptFileError(
            f"{where} has centroids of shape {centroids.shape} for {len(offsets)} partitions."
        )
    loss = message.loss if message.HasField("loss") else None
    return Partitions(centroids, offsets.astype(np.int64), lengths.astype(np.int64), loss)


def parse_tensor(message: bytes | pb.Tensor, where: str) -> npt.NDArray[np.floating | np.uint8]:
    """Decode an array of numbers, such as a codebook.

    Raises CorruptFileError: the bytes are damaged.
    Raises UnsupportedFeatureError: the numbers have an unknown type.
    """
    if isinstance(message, bytes):
        message = parse(pb.Tensor, message, where)
    kind = _TYPES.get(message.data_type)
    if kind is None:
        raise UnsupportedFeatureError(f"{where} has numbers of unknown type {message.data_type}.")
    shape = tuple(message.shape)
    if prod(shape) * kind.itemsize != len(message.data):
        raise CorruptFileError(f"{where} has {len(message.data)} bytes for shape {shape}.")
    numbers: npt.NDArray[np.floating | np.uint8] = np.frombuffer(message.data, kind).reshape(shape)
    return numbers


def encode_partitions(partitions: Partitions) -> bytes:
    """Encode partitions for `parse_partitions`."""
    message = pb.Partitions(
        offsets=partitions.offsets.tolist(), lengths=partitions.lengths.tolist()
    )
    if partitions.centroids is not None:
        message.centroids.CopyFrom(_tensor(partitions.centroids))
    if partitions.loss is not None:
        message.loss = partitions.loss
    return message.SerializeToString()


def encode_tensor(numbers: npt.NDArray[np.generic]) -> bytes:
    """Encode an array for `parse_tensor`."""
    return _tensor(numbers).SerializeToString()


def _tensor(numbers: npt.NDArray[np.generic]) -> pb.Tensor:
    stored = numbers.astype(numbers.dtype.newbyteorder("<"), copy=False)
    return pb.Tensor(
        data_type=_NUMBERS[stored.dtype],
        shape=stored.shape,
        data=np.ascontiguousarray(stored).tobytes(),
    )
