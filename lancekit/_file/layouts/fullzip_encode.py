"""Full-zip encoder: each value follows its levels (docs/format/data-files.md, 8)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit import _arrow_kernels as ak
from lancekit._file.encodings import fixed_size_list, flat, variable
from lancekit._file.encodings.choose_strings import single_strings
from lancekit._file.encodings.request import EncodingRequest, Part, interleave
from lancekit._file.kernels import bits
from lancekit._file.kernels.arrow_buffers import (
    Encoded,
    byte_width,
    fixed_bytes,
    is_variable,
    split_lists,
    string_buffers,
)
from lancekit._file.kernels.bitpacking import bits_needed
from lancekit._file.kernels.memory import Bytes, Ints, starts_of
from lancekit._file.layouts.repdef_build import Shredded
from lancekit._format.arrow_parts import child_of
from lancekit._format.pb import encodings_v21_pb2 as pb


def may_be_zipped(values: pa.Array) -> bool:
    """Return False for values that full-zip pages cannot store.

    These are dictionaries, and fixed-size lists of booleans that do not fill whole bytes or have
    null items, which the reference refuses to read.
    """
    if pa.types.is_dictionary(values.type):
        return False
    item = values.type
    while pa.types.is_fixed_size_list(item):
        item = item.value_type
    if not pa.types.is_boolean(item) or item == values.type:
        return True
    parts = split_lists(values)
    return parts.bits_per_row % 8 == 0 and all(level.validity is None for level in parts.levels)


def full_zip(page: Shredded, request: EncodingRequest) -> Encoded:
    """Encode a page of values that `may_be_zipped` accepts."""
    values = page.values
    if is_variable(values.type):
        return _variable_page(page, *single_strings(values, page.valid, request))
    if pa.types.is_fixed_size_list(values.type):
        return _fixed_page(page, *_list_table(values))
    if pa.types.is_struct(values.type):
        return _packed_page(page)
    width = byte_width(values.type)
    if width is None:  # each boolean takes a byte
        table = bits.unpack(fixed_bytes(values), len(values)).reshape(-1, 1)
    else:
        table = fixed_bytes(values).reshape(-1, width)
    return _fixed_page(page, table, flat.message(8 * table.shape[1]))


def _list_table(values: pa.Array) -> tuple[Bytes, pb.CompressiveEncoding]:
    parts = split_lists(values)
    rows = len(values)
    flags = [
        np.packbits(
            bits.unpack(level.validity, rows * level.items).reshape(rows, -1),
            axis=1,
            bitorder="little",
        )
        for level in parts.levels
        if level.validity is not None
    ]
    table = parts.data.reshape(rows, -1)
    return np.hstack((*flags, table)) if flags else table, fixed_size_list.message(parts)


def _layout(page: Shredded, encoding: pb.CompressiveEncoding, **widths: int) -> pb.PageLayout:
    return pb.PageLayout(
        full_zip=pb.FullZipLayout(
            bits_rep=_bits_of(page.repetition),
            bits_def=_bits_of(page.definition),
            num_items=page.entries,
            num_visible_items=len(page.values),
            value_compression=encoding,
            layers=page.layers,
            **widths,
        )
    )


def _bits_of(levels: Bytes | None) -> int:
    return 0 if levels is None else bits_needed(int(levels.max()))


def _control_words(page: Shredded) -> Bytes:
    """Return the control words of all entries, of shape (entries, bytes)."""
    repetition, definition = page.repetition, page.definition
    total = _bits_of(repetition) + _bits_of(definition)
    if repetition is None and definition is None:
        return np.empty((page.entries, 0), np.uint8)
    width = 1 if total <= 8 else 2 if total <= 16 else 4
    words = np.zeros(page.entries, f"<u{width}")
    if repetition is not None:
        words |= repetition
        words <<= _bits_of(definition)
    if definition is not None:
        words |= definition
    return words.view(np.uint8).reshape(-1, width)


def _fixed_page(page: Shredded, table: Bytes, encoding: pb.CompressiveEncoding) -> Encoded:
    """Encode a table of shape (values, bytes of a value) with its levels."""
    width = table.shape[1]
    message = _layout(page, encoding, bits_per_value=width * 8)
    control = _control_words(page)
    if control.shape[1] == 0:
        return Encoded(page.rows, message, (np.ascontiguousarray(table),))
    sizes = np.full(page.entries, control.shape[1] + width)
    if page.slots is None:
        zipped = np.hstack((control, table)).reshape(-1)
    else:
        payload = np.zeros(page.entries, np.int64)
        payload[page.slots] = width
        sizes = control.shape[1] + payload
        heads = Part(control.reshape(-1), np.full(page.entries, control.shape[1]))
        zipped = interleave([heads, Part(np.ascontiguousarray(table).reshape(-1), payload)])
    if page.repetition is None:
        return Encoded(page.rows, message, (zipped,))
    return Encoded(page.rows, message, (zipped, _index(page, sizes)))


def _packed_page(page: Shredded) -> Encoded:
    """Encode structs as consecutive fields; strings follow their lengths."""
    present = ak.drop_null(page.values) if page.values.null_count else page.values
    count = len(present)
    parts: list[Part] = []
    fields = []
    for index in range(present.type.num_fields):
        child = child_of(present, index)
        if is_variable(child.type):
            offsets, data = string_buffers(child)
            width = offsets.itemsize
            lengths = np.diff(offsets)
            parts.append(Part(lengths.view(np.uint8), np.full(count, width)))
            parts.append(Part(data, lengths.astype(np.int64)))
            fields.append(
                _FieldEncoding(value=variable.message(width * 8), bits_per_length=width * 8)
            )
            continue
        if pa.types.is_fixed_size_list(child.type):
            lists = split_lists(child)
            width, data = lists.bits_per_row // 8, lists.data
            encoding = fixed_size_list.message(lists)
        else:
            width, data = byte_width(child.type) or 0, fixed_bytes(child)
            encoding = flat.message(width * 8)
        parts.append(Part(data, np.full(count, width)))
        fields.append(_FieldEncoding(value=encoding, bits_per_value=width * 8))
    sizes = np.zeros(len(page.values), np.int64)
    valid = slice(None) if page.valid is None else bits.unpack(page.valid, len(sizes)) == 1
    sizes[valid] = np.sum([part.lengths for part in parts], axis=0)
    starts = starts_of(sizes)
    offsets = starts.astype(np.int32 if starts[-1] < 2**31 else np.int64)
    packed = pb.VariablePackedStruct(fields=fields)
    encoding = pb.CompressiveEncoding(variable_packed_struct=packed)
    return _variable_page(page, offsets, interleave(parts), encoding)


_FieldEncoding = pb.VariablePackedStruct.FieldEncoding


def _variable_page(
    page: Shredded, offsets: NDArray[np.generic], data: Bytes, encoding: pb.CompressiveEncoding
) -> Encoded:
    prefix = offsets.itemsize
    message = _layout(page, encoding, bits_per_offset=prefix * 8)
    lengths = np.diff(offsets)
    if page.slots is not None:
        every = np.zeros(page.entries, lengths.dtype)
        every[page.slots] = lengths
        lengths = every
    control = _control_words(page)
    headers = np.hstack((control, lengths.view(np.uint8).reshape(-1, prefix)))
    sizes = np.full(page.entries, headers.shape[1])
    heads = headers.reshape(-1)
    if page.definition is not None:  # an entry without a value is only a control word
        stopped = page.definition != 0
        sizes[stopped] = control.shape[1]
        keep = np.ones(headers.shape, bool)
        keep[stopped, control.shape[1] :] = False
        heads = headers[keep]
    zipped = interleave([Part(heads, sizes), Part(data, lengths.astype(np.int64))])
    return Encoded(page.rows, message, (zipped, _index(page, sizes + lengths)))


def _index(page: Shredded, sizes: Ints) -> Bytes:
    """Return the repetition index: row starts, and the end, in the smallest type that fits."""
    starts = starts_of(sizes)
    kind = next(t for t in ("<u1", "<u2", "<u4", "<u8") if starts[-1] <= np.iinfo(t).max)
    if page.repetition is not None:
        first = np.flatnonzero(page.repetition == page.max_repetition)
        starts = np.append(starts[first], starts[-1])
    return starts.astype(kind).view(np.uint8)
