"""Numbers that are ordered as the values of a column are in an index.

Whole numbers, times and booleans stand for themselves.  Floats are ordered by their bits: the NaNs
with a sign come first, then ``-inf`` to ``-0.0``, ``0.0`` to ``inf``, and the other NaNs last.
Texts are ordered as bytes, decimals as whole numbers of their smallest unit.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import numbers_of

__all__ = ["INFINITIES", "Ranks", "filled", "float_ranks", "ranks_of"]

Ranks = npt.NDArray[Any]

_LOW_BITS = np.int64(0x7FFF_FFFF_FFFF_FFFF)


def float_ranks(values: npt.ArrayLike) -> Ranks:
    """Return whole numbers that are ordered as floats are in an index."""
    bits = np.ascontiguousarray(np.asarray(values, np.float64)).view(np.int64)
    return bits ^ ((bits >> 63) & _LOW_BITS)


#: more digits than a decimal has
_EXACT = Context(prec=100)
_WHOLE = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}

#: the ranks of ``-inf`` and ``inf``: what lies outside of them are NaNs
INFINITIES: tuple[int, int] = tuple(float_ranks([-np.inf, np.inf]).tolist())


def ranks_of(values: pa.Array) -> Ranks | None:
    """Return what the values are ordered by, ``None`` for types that are in no order.

    What stands for a null means nothing.

    Examples
    --------
    >>> ranks_of(pa.array([True, None, False])).tolist()
    [1, 0, 0]
    >>> ranks_of(pa.array(["b", "a"])).tolist()
    [b'b', b'a']
    """
    kind = values.type
    if pt.is_boolean(kind):
        return _numbers(values.cast(pa.int8())).astype(np.int64)
    if pt.is_integer(kind):
        return _numbers(values).astype(np.uint64 if pt.is_uint64(kind) else np.int64)
    if pt.is_temporal(kind):
        return _numbers(values.view(_WHOLE[kind.bit_width])).astype(np.int64)
    if pt.is_floating(kind):
        numbers = _numbers(values.view(_WHOLE[kind.bit_width]))
        return float_ranks(numbers.view(f"f{kind.bit_width // 8}"))
    if pt.is_decimal(kind):
        return _objects([_whole(value, kind.scale) for value in values.to_pylist()])
    if pt.is_string(kind) or pt.is_large_string(kind):
        return _objects(pc.cast(values, pa.large_binary()).to_pylist())
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind):
        return _objects(values.to_pylist())
    return None


def filled(ranks: Ranks, known: npt.NDArray[np.bool_]) -> Ranks:
    """Put something that can be compared in the place of what is not known, if anything is."""
    if ranks.dtype != object or known.all() or not known.any():
        return ranks
    return np.where(known, ranks, ranks[known][0])


def _numbers(values: pa.Array) -> Ranks:
    return numbers_of(values.fill_null(0) if ak.null_count(values) else values)


def _whole(value: Decimal | None, scale: int) -> int | None:
    if value is None:
        return None
    return int(value.scaleb(scale, _EXACT))


def _objects(values: list[Any]) -> Ranks:
    ranks = np.empty(len(values), object)
    ranks[:] = values
    return ranks
