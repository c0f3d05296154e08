"""FSST: strings as one-byte codes of frequent substrings (docs/format/data-files.md, 11.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lancekit._file.encodings import variable
from lancekit._file.encodings.buffers import Buffers, Encoding, kind_of
from lancekit._file.kernels.faults import Unsupported
from lancekit._file.kernels.fsst_decode import symbol_table
from lancekit._file.kernels.memory import Bytes, Ints, Offsets
from lancekit._file.kernels.values import DecodedValues
from lancekit._format.pb import encodings_v21_pb2 as pb

if TYPE_CHECKING:
    from lancekit._file.encodings.request import EncodedValues, EncodingRequest


def check(encoding: Encoding) -> Encoding:
    """Return the encoding of the codes, which are stored as strings."""
    if kind_of(encoding.fsst.values) != "variable":
        raise Unsupported("FSST over another encoding")
    return encoding.fsst.values


def decode_chunks(
    encoding: Encoding, buffers: Buffers, counts: Ints, rows: Ints | None
) -> DecodedValues:
    """Decode strings of all chunks of a page."""
    codes = variable.decode_chunks(check(encoding), buffers, counts, rows)
    return symbol_table(encoding.fsst.symbol_table).decode(codes)


def decode_chunk(
    encoding: Encoding, buffers: Sequence[Bytes], count: int, rows: range
) -> DecodedValues:
    """Decode strings of one chunk."""
    codes = variable.decode_chunk(check(encoding), buffers, count, rows)
    return symbol_table(encoding.fsst.symbol_table).decode(codes)


def encode(offsets: Offsets, data: Bytes, request: EncodingRequest) -> EncodedValues:
    """Encode strings in chunks, with a symbol table trained on them."""
    from lancekit._file.encodings.request import CHUNK

    borders, codes, table = _coded(offsets, data)
    limit = CHUNK[request.large_chunks]
    stored = variable.encode(borders, codes, limit, 2 * limit, request)
    return replace(stored, encoding=_message(table, stored.encoding))


def encode_each(offsets: Offsets, data: Bytes) -> tuple[Offsets, Bytes, Encoding]:
    """Encode strings one by one; return the offsets of their codes, the codes, and the message."""
    borders, codes, table = _coded(offsets, data)
    return borders, codes, _message(table, variable.message(offsets.itemsize * 8))


def _coded(offsets: Offsets, data: Bytes) -> tuple[Offsets, Bytes, bytes]:
    from lancekit._file.kernels.fsst_encode import train

    encoder = train(data, offsets)
    codes, borders = encoder.encode(data, offsets)
    return borders.astype(offsets.dtype), codes, encoder.table()


def _message(table: bytes, codes: Encoding) -> Encoding:
    return pb.CompressiveEncoding(fsst=pb.Fsst(symbol_table=table, values=codes))
