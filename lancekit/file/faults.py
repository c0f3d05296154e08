"""What goes wrong deep inside a decoder, and the boundary that says in which file and page.

Kernels know neither file nor column, so they raise `Damaged` or `Unsupported` with the bare facts;
`located` turns these into the public errors.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from google.protobuf.message import DecodeError

from lancekit.errors import CorruptFileError, FormatError, LancekitError, UnsupportedFeatureError

__all__ = ["Damaged", "Unsupported", "located", "require"]


class Damaged(Exception):  # noqa: N818  # never leaves this package
    """Bytes that contradict the format."""


class Unsupported(Exception):  # noqa: N818  # never leaves this package
    """An encoding, or a combination of encodings, that this release cannot read."""


def require(condition: object, message: str) -> None:
    """Raise `Damaged` unless ``condition`` holds."""
    if not condition:
        raise Damaged(message)


# What NumPy, Arrow and protobuf raise when damaged bytes slip past the explicit checks.
_SLIPPED = (ValueError, IndexError, OverflowError, MemoryError, TypeError, struct.error)


@contextmanager
def located(file: str, column: str = "", page: int | None = None) -> Iterator[None]:
    """Translate failures inside the block to public errors that name the place."""
    place = f"{file}"
    if column:
        place += f", column {column!r}"
    if page is not None:
        place += f", page {page}"
    context = {"file": file, "column": column, "page": page}
    try:
        yield
    except FormatError as error:
        if file in error.message:
            raise
        facts = {**context, **error.context}
        raise type(error)(f"{place}: {error.message}", hint=error.hint, **facts) from error
    except LancekitError:
        raise
    except Unsupported as error:
        raise UnsupportedFeatureError(
            f"{place}: {error} is not supported.",
            hint="A newer release of lancekit may read it.",
            **context,
        ) from error
    except Damaged as error:
        raise CorruptFileError(
            f"{place} is damaged: {error}.", hint="Restore the file from a copy.", **context
        ) from error
    except (*_SLIPPED, DecodeError, pa.ArrowException) as error:
        raise CorruptFileError(
            f"{place} is damaged: it does not decode ({error}).",
            hint="Restore the file from a copy.",
            **context,
        ) from error
