"""Physical columns of a field that is written: encoders, and rows that wait for a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
from google.protobuf.any_pb2 import Any as AnyMessage

from lancekit import _arrow_kernels as ak
from lancekit._file.columns.physical import owning_fields
from lancekit._file.columns.split_leaves import Leaf, is_whole, leaves_of, stored
from lancekit._file.container.footer import ARRAY_ENCODING, COLUMN_ENCODING, PAGE_LAYOUT
from lancekit._file.encodings.request import EncodingRequest
from lancekit._file.kernels import bounds
from lancekit._file.kernels.arrow_buffers import Encoded
from lancekit._file.layouts import blobs
from lancekit._file.layouts import v20_encode as encode20
from lancekit._file.layouts.choose import encode_pages
from lancekit._format.field_marks import holds_blobs, is_blob_v2, requests_encoding
from lancekit._format.pb import encodings_v20_pb2, file2_pb2
from lancekit._format.schema import LanceField

if TYPE_CHECKING:
    from collections.abc import Buffer

#: Prefixes of the logical types of strings, also within dictionaries.
_TEXT = ("string", "large_string")


@dataclass(frozen=True, slots=True)
class Format:
    """Format version to write: footer and manifest numbers, and the type of page messages."""

    name: str
    footer: tuple[int, int]
    manifest: tuple[int, int]
    type_url: str


FORMATS = {
    known.name: known
    for known in (
        Format("2.0", (0, 3), (2, 0), ARRAY_ENCODING),
        Format("2.1", (2, 1), (2, 1), PAGE_LAYOUT),
        Format("2.2", (2, 2), (2, 2), PAGE_LAYOUT),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenColumn:
    """Physical column to write: its field, its path in a batch, its encoder and waiting rows.

    Pages of blobs are not encoded in threads, because encoding writes their values to the file.
    """

    owner: LanceField
    path: tuple[int, ...]
    leaf: Callable[[pa.Array], pa.Array]
    packed: bool
    text: bool
    encode: Callable[[pa.Array], Iterable[Encoded]]
    threaded: bool
    plain: bool
    empty: pa.Array
    waiting: _PageBuffer
    pages: _ColumnMetadataBuilder


def columns_of(
    top: LanceField, known: Format, goal: str, max_page_bytes: int, place: Callable[[Buffer], int]
) -> Iterator[WrittenColumn]:
    """Yield the columns of a top-level field; `place` writes bytes outside of pages."""
    old, large_chunks = known.name == "2.0", known.name == "2.2"
    leaves = (
        (Leaf(owner, ()) for owner in owning_fields(top, known.manifest)) if old else leaves_of(top)
    )
    for leaf in leaves:
        owner = leaf.field
        blob = holds_blobs(owner.metadata)
        struct = owner.logical_type == "struct" and not blob
        if blob:
            encode = _blob_encoder(leaf, known, place)
        elif old:
            encode = _encoder_20(owner)
        else:
            encode = partial(
                encode_pages,
                depth=len(leaf.path),
                request=EncodingRequest(
                    large_chunks=large_chunks, options=owner.metadata, goal=goal
                ),
                most=bounds.written(),
            )
        yield WrittenColumn(
            owner=owner,
            path=leaf.path,
            leaf=blobs.unified if is_blob_v2(owner.metadata) else stored,
            packed=struct and (is_whole(owner) or not (old or owner.children)),
            text=owner.logical_type.removeprefix("dict:").startswith(_TEXT),
            encode=encode,
            threaded=not blob,
            plain=not old and not leaf.path and not requests_encoding(owner.metadata),
            empty=pa.nulls(0, pa.large_binary() if blob else pa.int64()),
            waiting=_PageBuffer(max_page_bytes),
            pages=_ColumnMetadataBuilder(
                known.type_url, items_per_row=leaf.items_per_row, ranked=not old, blobs=blob and old
            ),
        )


def _encoder_20(owner: LanceField) -> Callable[[pa.Array], Iterable[Encoded]]:
    encode: Callable[[pa.Array], Encoded] = partial(encode20.encode_page, most=bounds.written())
    if owner.logical_type == "struct" and not is_whole(owner):
        encode = encode20.encode_structs
    elif owner.children and not is_whole(owner):
        encode = encode20.encode_lists
    return lambda array: [encode(array)]


def _blob_encoder(
    leaf: Leaf, known: Format, place: Callable[[Buffer], int]
) -> Callable[[pa.Array], Iterable[Encoded]]:
    if known.name == "2.0":
        return partial(blobs.encode_blobs_20, place=place)
    depth = len(leaf.path)
    if is_blob_v2(leaf.field.metadata):
        return partial(blobs.encode_blobs_v2, depth=depth, place=place)
    return partial(blobs.encode_blobs, depth=depth, large_chunks=known.name == "2.2", place=place)


# ---- rows of one physical column that wait for a page, and the written pages


class _PageBuffer:
    """Buffer for rows of one column until they fill a page."""

    def __init__(self, max_page_bytes: int) -> None:
        self._max = max_page_bytes
        self._pieces: list[pa.Array] = []
        self._bytes = 0

    def add(self, array: pa.Array) -> Iterator[pa.Array]:
        """Add rows; yield the rows of each page that is full."""
        self._pieces.append(array)
        self._bytes += array.nbytes
        if self._bytes >= self._max:
            yield from self.rest()

    def rest(self) -> Iterator[pa.Array]:
        """Yield all buffered rows as pages, with a copy of one page at a time."""
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
        return pieces  # dictionaries that cannot be unified get separate pages


class _ColumnMetadataBuilder:
    """Metadata of one column's written pages.

    type_url: type of the message that describes a page.
    items_per_row: number of page rows in a row of the file: the items of fixed-size lists of
        structs.
    ranked: True if pages have the number of their first row in the file.
    blobs: True if the column is marked as having descriptors of blobs.
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
        """Add a page with the positions and sizes of its buffers."""
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
        """Return the column's serialised metadata."""
        message = file2_pb2.ColumnMetadata(encoding=self._encoding, pages=self._pages)
        return message.SerializeToString()


# most pages of a wide table share their encoding with others
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
