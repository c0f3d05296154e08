"""Rows of one physical column: waiting for a page, and the pages that were written."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

import pyarrow as pa
from google.protobuf.any_pb2 import Any as AnyMessage

from lancekit import arrow_kernels as ak
from lancekit.file.container.footer import COLUMN_ENCODING
from lancekit.file.kernels.arrow_buffers import Encoded
from lancekit.format.pb import encodings_v20_pb2, file2_pb2

__all__ = ["ColumnMetadataBuilder", "PageBuffer"]


class PageBuffer:
    """Rows of one column that wait until they fill a page."""

    def __init__(self, max_page_bytes: int) -> None:
        self._max = max_page_bytes
        self._pieces: list[pa.Array] = []
        self._bytes = 0

    def add(self, array: pa.Array) -> Iterator[pa.Array]:
        """Take rows; yield the rows of every page that is full now."""
        self._pieces.append(array)
        self._bytes += array.nbytes
        if self._bytes >= self._max:
            yield from self.rest()

    def rest(self) -> Iterator[pa.Array]:
        """Yield everything that waits, in pages, copying no more than one at a time."""
        pieces, size = self._pieces, self._bytes
        self._pieces, self._bytes = [], 0
        rows = sum(map(len, pieces))
        if rows == 0:
            return
        count = min(rows, max(1, round(size / self._max)))
        if count == 1:
            yield from _joined(pieces)
            return
        whole = pa.chunked_array(pieces)
        for start, stop in pairwise(rows * i // count for i in range(count + 1)):
            yield from _joined(whole.slice(start, stop - start).chunks)


def _joined(pieces: list[pa.Array]) -> list[pa.Array]:
    if len(pieces) == 1:
        return pieces
    try:
        return [ak.concat_arrays(pieces)]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pieces  # dictionaries that do not go together have pages of their own


class ColumnMetadataBuilder:
    """The pages of one column that have been written.

    Parameters
    ----------
    type_url
        The message that describes a page.
    items_per_row
        How many rows of a page are one of the file: the items of fixed-size lists of structs.
    ranked
        Whether pages say at which row of the file they start.
    blobs
        Whether the column says that its values are descriptors of blobs.
    """

    def __init__(
        self, type_url: str, *, items_per_row: int = 1, ranked: bool = True, blobs: bool = False
    ) -> None:
        self._url = type_url
        self._encoding = _BLOBS if blobs else _VALUES
        self._items_per_row = items_per_row if ranked else 0
        self._rows = 0
        self._pages: list[file2_pb2.Page] = []

    def add(self, encoded: Encoded, places: list[int], sizes: list[int]) -> None:
        """Note a page and where its buffers are."""
        per_row = self._items_per_row
        message: bytes = encoded.message.SerializeToString()
        self._pages.append(
            file2_pb2.Page(
                buffer_offsets=places,
                buffer_sizes=sizes,
                length=encoded.rows,
                encoding=_wrap(self._url, message),
                priority=self._rows // per_row if per_row else 0,
            )
        )
        self._rows += encoded.rows

    def __len__(self) -> int:
        return len(self._pages)

    def metadata(self) -> bytes:
        """Return the column's entry in the file."""
        message = file2_pb2.ColumnMetadata(encoding=self._encoding, pages=self._pages)
        return message.SerializeToString()


# pages of a wide table mostly have encodings that others have too
@lru_cache
def _wrap(type_url: str, message: bytes) -> file2_pb2.Encoding:
    wrapped = AnyMessage(type_url=type_url, value=message)
    return file2_pb2.Encoding(direct=file2_pb2.Direct(encoding=wrapped.SerializeToString()))


_plain = encodings_v20_pb2.ColumnEncoding(values=encodings_v20_pb2.Nothing())
_VALUES = _wrap(COLUMN_ENCODING, _plain.SerializeToString())
_BLOBS = _wrap(
    COLUMN_ENCODING,
    encodings_v20_pb2.ColumnEncoding(blob=encodings_v20_pb2.Blob(inner=_plain)).SerializeToString(),
)
