"""The physical columns of a field that is written: how each is encoded, and its rows that wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from lancekit.file.columns.page_buffer import ColumnMetadataBuilder, PageBuffer
from lancekit.file.columns.physical import owning_fields
from lancekit.file.columns.split_leaves import Leaf, is_whole, leaves_of, stored
from lancekit.file.container.footer import ARRAY_ENCODING, PAGE_LAYOUT
from lancekit.file.kernels import bounds
from lancekit.file.kernels.arrow_buffers import Encoded
from lancekit.file.layouts import blob_encode as blobs
from lancekit.file.layouts import v20_encode as encode20
from lancekit.file.layouts.choose import encode_pages
from lancekit.format.field_marks import asks_for_encoding, holds_blobs, is_blob_v2
from lancekit.format.schema import LanceField

__all__ = ["FORMATS", "Format", "WrittenColumn", "columns_of"]

#: Logical types of strings, and of dictionaries of them.
_TEXT = ("string", "large_string")


@dataclass(frozen=True, slots=True)
class Format:
    """How one version is written: footer and manifest numbers, and the message of a page."""

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
    """One physical column: its field, the way to it, and its rows on their way out.

    The pages of blobs are not encoded in threads, because their values go to the file meanwhile.
    """

    owner: LanceField
    path: tuple[int, ...]
    leaf: Callable[[pa.Array], pa.Array]
    packed: bool
    text: bool
    encode: Callable[[pa.Array], Iterable[Encoded]]
    threaded: bool
    plain: bool
    nothing: pa.Array
    waiting: PageBuffer
    pages: ColumnMetadataBuilder


def columns_of(
    top: LanceField,
    known: Format,
    goal: str,
    max_page_bytes: int,
    place: Callable[[Any], int],
) -> Iterator[WrittenColumn]:
    """Yield the columns of a top-level field; `place` writes bytes that are in no page."""
    old = known.name == "2.0"
    leaves = (
        (Leaf(owner, ()) for owner in owning_fields(top, known.manifest)) if old else leaves_of(top)
    )
    for leaf in leaves:
        owner = leaf.field
        blob = holds_blobs(owner.metadata)
        struct = owner.logical_type == "struct" and not blob
        encode = _encoder_20(owner) if old else _encoder_21(leaf, known, goal)
        if blob:
            encode = _blob_encoder(leaf, known, place)
        yield WrittenColumn(
            owner=owner,
            path=leaf.path,
            leaf=blobs.unified if is_blob_v2(owner.metadata) else stored,
            packed=struct and (is_whole(owner) or not (old or owner.children)),
            text=owner.logical_type.removeprefix("dict:").startswith(_TEXT),
            encode=encode,
            threaded=not blob,
            plain=not old and not leaf.path and not asks_for_encoding(owner.metadata),
            nothing=pa.nulls(0, pa.large_binary() if blob else pa.int64()),
            waiting=PageBuffer(max_page_bytes),
            pages=ColumnMetadataBuilder(
                known.type_url,
                items_per_row=leaf.items_per_row,
                ranked=not old,
                blobs=blob and old,
            ),
        )


def _encoder_20(owner: LanceField) -> Callable[[pa.Array], Iterable[Encoded]]:
    encode: Callable[[pa.Array], Encoded] = partial(encode20.encode_page, most=bounds.written())
    if owner.logical_type == "struct" and not is_whole(owner):
        encode = encode20.encode_structs
    elif owner.children and not is_whole(owner):
        encode = encode20.encode_lists
    return lambda array: [encode(array)]


def _encoder_21(leaf: Leaf, known: Format, goal: str) -> Callable[[pa.Array], Iterable[Encoded]]:
    return partial(
        encode_pages,
        depth=len(leaf.path),
        large=known.name == "2.2",
        options=leaf.field.metadata,
        goal=goal,
        most=bounds.written(),
    )


def _blob_encoder(
    leaf: Leaf, known: Format, place: Callable[[Any], int]
) -> Callable[[pa.Array], Iterable[Encoded]]:
    if known.name == "2.0":
        return partial(blobs.encode_blobs_20, place=place)
    depth = len(leaf.path)
    if is_blob_v2(leaf.field.metadata):
        return partial(blobs.encode_blobs_v2, depth=depth, place=place)
    return partial(blobs.encode_blobs, depth=depth, large=known.name == "2.2", place=place)
