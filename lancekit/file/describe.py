"""Page encodings in words, for people who want to see how a column is stored."""

from __future__ import annotations

from typing import Any

from lancekit.file.kernels.compression import SCHEMES
from lancekit.format.pb import encodings_v20_pb2

__all__ = ["describe"]

_NAMES = {
    "flat": "plain values",
    "variable": "strings",
    "binary": "strings",
    "constant": "nulls",
    "inline_bitpacking": "bit-packed integers",
    "out_of_line_bitpacking": "bit-packed integers",
    "rle": "runs",
    "byte_stream_split": "byte streams",
    "packed_struct": "packed structs",
    "variable_packed_struct": "packed structs",
    "struct": "structs",
    "list": "lists",
}

_LAYOUTS = {"mini_block": "mini-block", "full_zip": "full-zip", "constant": "constant"}


def describe(encoding: Any, buffers: int = 0) -> str:
    """Return what the message of a page of so many buffers says, from the outside in.

    Examples
    --------
    >>> from lancekit.format.pb import encodings_v21_pb2 as pb
    >>> flat = pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=64))
    >>> describe(pb.PageLayout(mini_block=pb.MiniBlockLayout(value_compression=flat)))
    'mini-block of plain values'
    """
    if isinstance(encoding, encodings_v20_pb2.ArrayEncoding):
        return _array(encoding)
    name = encoding.WhichOneof("layout") or "unknown layout"
    layout: Any = getattr(encoding, name, None)
    if name == "blob":
        return f"blobs, descriptors in {describe(encoding.blob.inner_layout)}"
    if name == "constant":
        # a value that is not in the message has a buffer of its own, before two of levels
        return "one value" if layout.HasField("inline_value") or buffers % 2 else "nulls only"
    if name not in _LAYOUTS:
        return str(name)
    values = _values(layout.value_compression)
    if name == "mini_block" and layout.HasField("dictionary"):
        items = _values(layout.dictionary)
        values = f"{values} into a dictionary of {layout.num_dictionary_items} ({items})"
    return f"{_LAYOUTS[name]} of {values}"


def _values(encoding: Any) -> str:
    name = encoding.WhichOneof("compression") or "unknown values"
    match name:
        case "general":
            scheme = SCHEMES.get(encoding.general.compression.scheme, "unknown scheme")
            return f"{_values(encoding.general.values)}, {scheme}"
        case "fsst":
            return f"{_values(encoding.fsst.values)}, fsst"
        case "fixed_size_list":
            lists = encoding.fixed_size_list
            return f"lists of {lists.items_per_value} {_values(lists.values)}"
    return _NAMES.get(name, name)


def _array(encoding: Any) -> str:
    name = encoding.WhichOneof("array_encoding") or "unknown values"
    inner: Any = getattr(encoding, name, None)
    match name:
        case "nullable":
            kind = inner.WhichOneof("nullability")
            return "nulls" if kind == "all_nulls" else _array(getattr(inner, kind).values)
        case "fsst":
            return f"{_array(inner.binary)}, fsst"
        case "fixed_size_list":
            return f"lists of {inner.dimension} {_array(inner.items)}"
        case "dictionary":
            items = _array(inner.items)
            return f"indices into a dictionary of {inner.num_dictionary_items} ({items})"
    return _NAMES.get(name, name)
