"""Value encodings of full-zip pages: every value stands for itself."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit import arrow_kernels as ak
from lancekit.arrow_values import arrow_of
from lancekit.file.encodings import general
from lancekit.file.encodings.buffers import kind_of
from lancekit.file.encodings.packed_struct import struct_array
from lancekit.file.kernels import bits
from lancekit.file.kernels import values as raw
from lancekit.file.kernels.compression import decompress_each
from lancekit.file.kernels.faults import Unsupported, require
from lancekit.file.kernels.fsst_decode import symbol_table
from lancekit.file.kernels.memory import Bytes, Ints, as_bytes, gather, starts_of
from lancekit.format.pb import encodings_v21_pb2 as pb

__all__ = ["fixed_values", "is_packed", "packed_values", "variable_values"]


def fixed_values(
    encoding: pb.CompressiveEncoding, table: Bytes, dimension: int, count: int
) -> tuple[raw.DecodedValues, Bytes]:
    """Decode ``dimension`` items from the left of every row; return them and what is left.

    The validity bitmaps of nested lists come first, the outermost one leading.
    """
    match kind_of(encoding):
        case "flat" if encoding.flat.bits_per_value == 1:
            size = -(-dimension // 8)
            flags, table = _take_bits(table, size, dimension)
            return raw.Bits(flags, count * dimension), table
        case "flat":
            width = int(encoding.flat.bits_per_value)
            require(width % 8 == 0, "a width that is not whole bytes")
            size = dimension * width // 8
            require(size <= table.shape[1], "values narrower than their encoding")
            data = as_bytes(np.ascontiguousarray(table[:, :size]).reshape(-1))
            return raw.Fixed(width // 8, data, count * dimension), table[:, size:]
        case "fixed_size_list":
            message = encoding.fixed_size_list
            inner = dimension * int(message.items_per_value)
            require(inner <= table.shape[1] * 8, "a list longer than its row")
            validity = None
            if message.has_validity:
                validity, table = _take_bits(table, -(-inner // 8), inner)
            items, table = fixed_values(message.values, table, inner, count)
            size = int(message.items_per_value)
            return raw.Lists(size, validity, items, count * dimension), table
        case "packed_struct":
            return fixed_values(encoding.packed_struct.values, table, dimension, count)
        case "constant" if not encoding.constant.HasField("value"):
            return raw.Nulls(count * dimension), table
        case name:
            raise Unsupported(f"encoding {name!r} of full-zip values")


def _take_bits(table: Bytes, size: int, count: int) -> tuple[Bytes, Bytes]:
    """Take ``count`` bits, in ``size`` bytes, from the left of every row, and join them."""
    require(size <= table.shape[1], "values narrower than their encoding")
    flags = np.unpackbits(table[:, :size], axis=1, count=count, bitorder="little")
    return bits.pack(flags.reshape(-1)), table[:, size:]


def variable_values(
    encoding: pb.CompressiveEncoding,
    kind: pa.DataType,
    data: Bytes,
    starts: Ints,
    lengths: Ints,
    valid: NDArray[np.bool_] | None,
) -> pa.Array:
    """Decode strings that lie at ``starts``; those of them that are not ``valid`` have none."""
    values = _decode(encoding, raw.Variable(starts_of(lengths), gather(data, starts, lengths)))
    if valid is not None:
        sizes = np.zeros(len(valid), np.int64)
        sizes[valid] = np.diff(values.offsets)
        values = raw.Variable(starts_of(sizes) + int(values.offsets[0]), values.data)
    return raw.to_arrow(values, kind)


def _decode(encoding: pb.CompressiveEncoding, encoded: raw.Variable) -> raw.Variable:
    match kind_of(encoding):
        case "variable":
            return encoded
        case "fsst":
            codes = _decode(encoding.fsst.values, encoded)
            return symbol_table(encoding.fsst.symbol_table).decode(codes)
        case "general":
            scheme = general.check(encoding.general)
            return _decode(encoding.general.values, _decompress_each(scheme, encoded))
        case name:
            raise Unsupported(f"encoding {name!r} of full-zip values")


def _decompress_each(scheme: str, encoded: raw.Variable) -> raw.Variable:
    """Decompress every value on its own; they are large, so a Python loop does not matter."""
    borders = pairwise(encoded.offsets.tolist())
    places_of = ((start, stop, None) for start, stop in borders)
    units = decompress_each(scheme, encoded.data, places_of)
    places = starts_of(np.array([unit.size for unit in units], np.int64))
    return raw.Variable(places, np.concatenate(units) if units else np.empty(0, np.uint8))


def is_packed(encoding: pb.CompressiveEncoding) -> bool:
    """Return whether values are structs with fields of variable width."""
    return kind_of(encoding) == "variable_packed_struct"


def packed_values(
    encoding: pb.CompressiveEncoding,
    kind: pa.DataType,
    data: Bytes,
    starts: Ints,
    lengths: Ints,
    valid: NDArray[np.bool_] | None,
) -> pa.Array:
    """Decode structs whose fields lie one behind the other, each of variable ones with its length.

    Null structs have no bytes.
    """
    stored = encoding.variable_packed_struct.fields
    require(
        pa.types.is_struct(kind) and kind.num_fields == len(stored),
        f"packed structs of {len(stored)} fields in a column of {kind}",
    )
    stops = starts + lengths
    place = starts
    children = []
    for number, message in enumerate(stored):
        child = kind.field(number).type
        if not message.HasField("bits_per_length"):
            width, odd = divmod(int(message.bits_per_value), 8)
            require(odd == 0, "a width that is not whole bytes")
            require((width <= stops - place).all(), "a packed struct is too short")
            table = gather(data, place, np.full(len(place), width)).reshape(len(place), width)
            values, rest = fixed_values(message.value, table, 1, len(place))
            require(rest.shape[1] == 0, "values wider than their encoding")
            children.append(raw.to_arrow(values, child))
            place = place + width
        else:
            place, sizes = _prefixed(data, place, stops, int(message.bits_per_length))
            children.append(variable_values(message.value, child, data, place, sizes, None))
            place = place + sizes
    require((place == stops).all(), "a packed struct is too long")
    structs = struct_array(kind, children, len(starts))
    if valid is None or valid.all():
        return structs
    return ak.take(structs, arrow_of(np.cumsum(valid) - 1, ~valid))


def _prefixed(data: Bytes, place: Ints, stops: Ints, bits_per_length: int) -> tuple[Ints, Ints]:
    """Return where values begin behind their lengths, and the lengths."""
    require(bits_per_length in {32, 64}, "lengths of an impossible width")
    width = bits_per_length // 8
    require((width <= stops - place).all(), "a packed struct is too short")
    stored: NDArray[Any] = np.ascontiguousarray(data[place[:, None] + np.arange(width)])
    sizes = stored.view(f"<u{width}").ravel().astype(np.int64)
    begin = place + width
    require(((sizes >= 0) & (sizes <= stops - begin)).all(), "a packed struct is too short")
    return begin, sizes
