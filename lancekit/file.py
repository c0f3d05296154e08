"""pylance's `file`, data files without a dataset, re-exported from `lancekit._file`."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from lancekit._lazy import door

if TYPE_CHECKING:
    from lancekit._file.file_metadata import LanceFileMetadata
    from lancekit._file.file_session import LanceFileSession, ListResult
    from lancekit._file.lance_file import (
        LanceFileReader,
        LanceFileWriter,
        ReaderResults,
        stable_version,
    )

__all__ = [
    "LanceFileMetadata",
    "LanceFileReader",
    "LanceFileSession",
    "LanceFileWriter",
    "ListResult",
    "ReaderResults",
    "stable_version",
]

#: the same for Python at run time: the module of each name
_HOMES = {
    "_file.file_metadata": "LanceFileMetadata",
    "_file.file_session": "LanceFileSession ListResult",
    "_file.lance_file": "LanceFileReader LanceFileWriter ReaderResults stable_version",
}

__getattr__: Callable[[str], object] = door(__name__, _HOMES)
