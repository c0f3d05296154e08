"""Which layout a page of versions 2.1 and 2.2 gets.

All null; constant (2.2); mini-block; full-zip, for values of 256 bytes and more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from lancekit._file.encodings.choose import long_values, mini_values
from lancekit._file.encodings.request import CHUNK, EncodedValues
from lancekit._file.kernels.arrow_buffers import Encoded, byte_width, is_variable, string_buffers
from lancekit._file.kernels.bounds import is_readable
from lancekit._file.layouts.constant_encode import all_null_page, equal_page
from lancekit._file.layouts.fullzip_encode import full_zip, may_be_zipped
from lancekit._file.layouts.miniblock_encode import ChunkOverflow, mini_block
from lancekit._file.structure.repdef_build import Shredded, shred
from lancekit._file.structure.repdef_pack import values_that_fit
from lancekit._format.field_marks import option
from lancekit.errors import UnsupportedTypeError
from lancekit.options import DEFAULT_GOAL, DEFAULT_PAGE_MEMORY

__all__ = ["encode_page_of", "encode_pages"]

#: Values this long go to full-zip pages.
_LARGE = 256

_NO_FIELDS = pa.struct([])


def encode_pages(
    array: pa.Array,
    depth: int,
    *,
    large: bool,
    options: Mapping[str, str],
    goal: str = DEFAULT_GOAL,
    most: int = DEFAULT_PAGE_MEMORY,
) -> Iterator[Encoded]:
    """Encode at least one row of a column, as one page where that can be.

    Parameters
    ----------
    array, depth
        The column, as `shred` takes it.
    large
        Version 2.2: 32-bit chunk sizes, constants.
    options
        The column's metadata.
    goal
        What text is to be written for.
    most
        Bytes that strings of a page may expand to, if these are not 64 times its own.
    """
    page = shred(array, depth)
    encoded = encode_page_of(page, large=large, options=options, goal=goal)
    if encoded is not None and not _is_readable(page, encoded, most):
        encoded = None
    if encoded is None and len(array) == 1 and not may_be_zipped(page.values):
        encoded = _crowded_page(page, large=large, options=options, goal=goal)
    elif encoded is None and len(array) == 1:
        encoded = full_zip(page, options, goal)
        if not _is_readable(page, encoded, most):
            encoded = full_zip(page, _PLAIN)
    if encoded is not None:
        yield encoded
        return
    half = len(array) // 2
    for part in (array.slice(0, half), array.slice(half)):
        yield from encode_pages(part, depth, large=large, options=options, goal=goal, most=most)


def _crowded_page(page: Shredded, *, large: bool, options: Mapping[str, str], goal: str) -> Encoded:
    """Encode a row with very many null or empty lists, whose values cannot be zipped."""
    most = values_that_fit(page, large=large, crowded=True)
    try:
        if most is not None:
            values = mini_values(
                page.values, page.valid, large=large, max_values=most, options=options, goal=goal
            )
            return mini_block(page, values, large=large)
    except ChunkOverflow:
        pass
    kind = page.values.type
    raise UnsupportedTypeError(
        f"A row of {kind} has more null or empty lists in a row than can be written.",
        hint="Use the dictionary's value type."
        if pa.types.is_dictionary(kind)
        else "Use lists of int8, data_storage_version 2.0, or several rows.",
        type=str(kind),
    )


#: metadata of a row that would shrink so far that readers take it for a bomb
_PLAIN = {"lance-encoding:compression": "none"}


def _is_readable(page: Shredded, encoded: Encoded, most: int) -> bool:
    """Return whether readers take a page as it is: numbers expand to what their count says."""
    if not is_variable(page.values.type):
        return True
    stored = sum(memoryview(buffer).nbytes for buffer in encoded.buffers)
    return is_readable(page.values.nbytes, stored, most)


def encode_page_of(
    page: Shredded, *, large: bool, options: Mapping[str, str], goal: str = DEFAULT_GOAL
) -> Encoded | None:
    """Encode a page; ``None`` if it must be cut."""
    values, valid = page.values, page.valid
    kind = values.type
    if values.null_count == len(values) or kind == _NO_FIELDS:
        return all_null_page(page, large=large)
    if pa.types.is_struct(kind) and not all(byte_width(field.type) for field in kind):
        return full_zip(page, options)  # packed, with strings or vectors
    if large:
        equal = equal_page(page)
        if equal is not None:
            return equal
    most = values_that_fit(page, large=large)
    mini: EncodedValues | None = None
    asked = option(options, "lance-encoding:structural-encoding")
    longest = _longest(values)
    if asked == "fullzip" and may_be_zipped(values):
        return full_zip(page, options, goal)
    if longest < _LARGE or (asked == "miniblock" and longest * 8 <= CHUNK[large] and most):
        if most is None:
            return None
        mini = mini_values(values, valid, large=large, max_values=most, options=options, goal=goal)
    elif is_variable(values.type) and most is not None:
        mini = long_values(values, valid, large=large, max_values=most, options=options, goal=goal)
    if mini is None:
        return full_zip(page, options, goal)
    try:
        return mini_block(page, mini, large=large)
    except ChunkOverflow:
        return None


def _longest(values: pa.Array) -> int:
    """Return the bytes of the longest value; 0 for what only mini-blocks can hold."""
    if is_variable(values.type):
        return int(np.diff(string_buffers(values)[0]).max())
    kind = values.type
    count = 1
    while pa.types.is_fixed_size_list(kind):
        count *= kind.list_size
        kind = kind.value_type
    return count * (byte_width(kind) or 0)
