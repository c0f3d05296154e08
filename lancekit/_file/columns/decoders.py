"""Which decoder reads a page, by its layout, and what it makes of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancekit._file.container.footer import Page, StoredPage
from lancekit._file.kernels.faults import Damaged, Unsupported
from lancekit._file.kernels.row_selection import Rows, grouped
from lancekit._file.layouts.blob_descriptors import DESCRIPTOR
from lancekit._file.layouts.constant_decode import ConstantPage
from lancekit._file.layouts.fullzip_decode import FullZipPage
from lancekit._file.layouts.miniblock_decode import MiniBlockPages
from lancekit._file.structure.assemble import nest
from lancekit._file.structure.field_tree import PageDecoder, Path
from lancekit._file.structure.repdef import Layers

if TYPE_CHECKING:
    from lancekit._file.layouts.v20_decode import ArrayPage

__all__ = ["array_page", "checked_rows", "decoder_of"]

_LAYOUTS: dict[str, Callable[[Page, Any, pa.DataType], PageDecoder]] = {
    "mini_block": lambda page, layout, kind: MiniBlockPages([(page, layout)], kind),
    "full_zip": FullZipPage,
    "constant": ConstantPage,
}


def decoder_of(pages: Sequence[StoredPage], path: Path) -> Callable[[Rows], pa.Array]:
    """Return what decodes rows of a page of a 2.1+ file, or of several that are alike.

    The rows are numbered through; the arrays have the type that is the path's last.
    """
    kind, group = path.kinds[0], path.group
    decoder: PageDecoder
    if len(pages) == 1:
        decoder = _decoder(pages[0].page, pages[0].encoding, kind)
    else:
        encodings: list[Any] = [stored.encoding for stored in pages]
        layouts = [(p.page, e.mini_block) for p, e in zip(pages, encodings, strict=True)]
        decoder = MiniBlockPages(layouts, kind)
    return lambda rows: nest(decoder.leaf(grouped(rows, group)), path, len(rows))


def _decoder(page: Page, encoding: Any, kind: pa.DataType) -> PageDecoder:
    name = encoding.WhichOneof("layout") or "unknown"
    if name == "blob":
        from lancekit._file.layouts.blob_decode import BlobPage

        descriptors = _decoder(page, encoding.blob.inner_layout, DESCRIPTOR)
        return BlobPage(page, descriptors, Layers.of(encoding.blob.layers), kind)
    make = _LAYOUTS.get(name)
    if make is None:
        raise Unsupported(f"page layout {name!r}")
    decoder: PageDecoder = make(page, getattr(encoding, name), kind)
    return decoder


def checked_rows(array: pa.Array, rows: Rows, kind: pa.DataType) -> pa.Array:
    """Return what was decoded for rows, if that is what it is."""
    if len(array) != len(rows) or array.type != kind:
        raise Damaged(f"it decodes to {len(array)} values of {array.type}, not {len(rows)}")
    return array


def array_page(stored: StoredPage, kind: pa.DataType) -> ArrayPage:
    """Return the decoder of one page of a 2.0 file."""
    from lancekit._file.layouts.v20_decode import ArrayPage

    encoding: Any = stored.encoding
    return ArrayPage(stored.page, encoding, kind)
