"""Exceptions of decoders, and a context that adds file and page and makes them public errors.

Kernels know neither file nor column.  They raise `Damaged`, `TooLarge` or `Unsupported` with the
bare facts, and `located` translates them.
"""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError

from lancekit._legible import clean
from lancekit.errors import (
    CorruptFileError,
    FormatError,
    LancekitError,
    MemoryLimitError,
    UnsupportedFeatureError,
)


class Damaged(Exception):  # noqa: N818  # never leaves this package
    """The bytes contradict the format."""


class TooLarge(Exception):  # noqa: N818  # never leaves this package
    """The bytes may be valid, but decoding needs more memory than the limit allows."""

    def __init__(self, problem: str, needed: int) -> None:
        super().__init__(problem)
        self.needed = needed


class Unsupported(Exception):  # noqa: N818  # never leaves this package
    """An encoding, or a combination of encodings, that this release cannot read."""


def require(condition: object, message: str) -> None:
    """Raise `Damaged` unless ``condition`` holds."""
    if not condition:
        raise Damaged(message)


# Exceptions of NumPy, Arrow and protobuf for damaged bytes that no explicit check found.
_UNCHECKED = ValueError | IndexError | OverflowError | MemoryError | TypeError | struct.error


class located:  # noqa: N801  # used as if it were a function
    """Context that translates failures to public errors with file, column and page.

    A plain class, because it is entered for every page that is read.
    """

    __slots__ = ("_column", "_file", "_page")

    def __init__(self, file: str, column: str = "", page: int | None = None) -> None:
        self._file = file
        self._column = column
        self._page = page

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if error is None:
            return
        found = self._translated(error)
        if found is not None:
            raise found from error

    def _translated(self, error: BaseException) -> FormatError | None:
        place = f"{self._file}"
        if self._column:
            place += f", column {self._column!r}"
        if self._page is not None:
            place += f", page {self._page}"
        context: dict[str, Any] = {"file": self._file, "column": self._column, "page": self._page}
        if isinstance(error, FormatError):
            if clean(self._file, len(error.message)) in error.message:
                return None
            facts = {**context, **error.context}
            return type(error)(f"{place}: {error.message}", hint=error.hint, **facts)
        if isinstance(error, LancekitError):
            return None
        if isinstance(error, Unsupported):
            return UnsupportedFeatureError(
                f"{place}: {error} is not supported.",
                hint="A newer release of lancekit may read it.",
                **context,
            )
        if isinstance(error, TooLarge):
            return MemoryLimitError(
                f"{place}: {error}.",
                hint="If you trust the source of the file, set lancekit.options.page_memory_bytes "
                f"= {error.needed} or more.",
                needed=error.needed,
                **context,
            )
        if isinstance(error, Damaged | DecodeError | pa.ArrowException | _UNCHECKED):
            what = error if isinstance(error, Damaged) else f"it cannot be decoded ({error})"
            return CorruptFileError(
                f"{place} is damaged: {what}.", hint="Restore the file from a copy.", **context
            )
        return None
