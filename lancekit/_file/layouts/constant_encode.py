"""Pages of one value, or of nothing but nulls (docs/format/data-files.md, 9)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit import _arrow_kernels as ak
from lancekit._file.kernels.arrow_buffers import (
    Encoded,
    byte_width,
    fixed_bytes,
    is_variable,
    string_buffers,
)
from lancekit._file.kernels.memory import Bytes
from lancekit._file.structure.repdef_build import Shredded
from lancekit._file.structure.repdef_pack import pack_levels
from lancekit._format.pb import encodings_v21_pb2 as pb

__all__ = ["all_null_page", "equal_page"]

_MAX_INLINE = 32

_NO_FIELDS = pa.struct([])


def all_null_page(page: Shredded, *, large: bool) -> Encoded:
    """Encode rows without a single value, or of structs without fields."""
    if len(page.layers) == 1 or page.values.type == _NO_FIELDS:
        layout = pb.ConstantLayout(layers=[pb.NULLABLE_ITEM])
        return Encoded(page.rows, pb.PageLayout(constant=layout))
    layout = pb.ConstantLayout(layers=page.layers)
    repetition, definition = page.repetition, page.definition
    if page.layers[0] == pb.ALL_VALID_ITEM and len(page.values) and definition is not None:
        # nulls of structs alone: readers want the values to be nullable all the same
        layout.layers[0] = pb.NULLABLE_ITEM
        definition = definition + 1
    stored = [_raw(repetition), _raw(definition)]
    if large and page.entries > _FEW:
        border = np.array([0, page.entries])
        if repetition is not None:
            encoding, parts = pack_levels(repetition, border, large=True)
            layout.rep_compression.CopyFrom(encoding)
            layout.num_rep_values = page.entries
            stored[0] = b"".join(part.data.tobytes() for part in parts)
        if definition is not None:
            encoding, parts = pack_levels(definition, border, large=True)
            layout.def_compression.CopyFrom(encoding)
            layout.num_def_values = page.entries
            stored[1] = b"".join(part.data.tobytes() for part in parts)
    return Encoded(page.rows, pb.PageLayout(constant=layout), tuple(stored))


#: Levels of so small a page are stored as they are.
_FEW = 512


def _raw(levels: Bytes | None) -> bytes:
    return b"" if levels is None else levels.astype("<u2").tobytes()


def equal_page(page: Shredded) -> Encoded | None:
    """Encode values that are all the same, for version 2.2; ``None`` if they differ.

    Levels are stored raw in such a page, so values that do not outweigh them are left alone.
    """
    if page.entries > len(page.values) or page.definition is not None:
        streams = (page.repetition is not None) + (page.definition is not None)
        if 2 * streams * page.entries >= page.values.nbytes:
            return None
    values = page.values if page.valid is None else ak.drop_null(page.values)
    scalar = _scalar_of(values)
    if scalar is None:
        return None
    buffers: tuple[Any, ...] = ()
    layout = pb.ConstantLayout(layers=page.layers)
    if len(scalar) == 1 and len(scalar[0]) <= _MAX_INLINE:
        layout.inline_value = scalar[0]
    else:
        sizes = np.array([len(scalar), *map(len, scalar)], "<u4").tobytes()
        buffers = (b"".join((sizes, *scalar)),)
    if page.repetition is not None or page.definition is not None:
        buffers = (*buffers, _raw(page.repetition), _raw(page.definition))
    return Encoded(page.rows, pb.PageLayout(constant=layout), buffers)


def _scalar_of(values: pa.Array) -> tuple[bytes, ...] | None:
    """Return the buffers of the one value; ``None`` if there are several, or there is no form."""
    if is_variable(values.type):
        offsets, data = string_buffers(values)
        length = int(offsets[1])
        if length != offsets[-1] - offsets[-2]:  # most values differ at a glance
            return None
        if not _all_equal(np.diff(offsets)):
            return None
        if length and not _all_equal(data.reshape(-1, length)):
            return None
        return np.array([0, length], offsets.dtype).tobytes(), data[:length].tobytes()
    if pa.types.is_boolean(values.type):
        ones = int(np.bitwise_count(fixed_bytes(values)).sum())
        return (bytes([ones > 0]),) if ones in {0, len(values)} else None
    width = byte_width(values.type)
    if width is None:
        return None
    data = fixed_bytes(values)
    if data[:width].tobytes() != data[-width:].tobytes():
        return None
    rows = data.view(f"u{width}") if width in {1, 2, 4, 8} else data.reshape(-1, width)
    return (data[:width].tobytes(),) if _all_equal(rows) else None


def _all_equal(values: NDArray[Any]) -> bool:
    """Return whether all values are the first, looking at one other before at all."""
    first = values[0]
    return bool((values[len(values) // 2] == first).all() and (values == first).all())
